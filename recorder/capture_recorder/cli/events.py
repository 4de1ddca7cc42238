"""Events on their way to a screen or a program: their method, what a lens sees in them, which of them are wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from typing import Final

import click

from .. import lens
from ..capfile import Catalog
from ..capfile.records import (
    DIRECTIONS,
    EVENT_TYPES,
    REQUEST,
    RESPONSE,
    Call,
    Cancel,
    Event,
    Headers,
    Message,
    Status,
)
from ..capfile.schema import Decoded, SchemaSet
from ..lens import Reading

EVENT_NAMES: Final = tuple(kind.NAME for kind in EVENT_TYPES)
_ENDLESS: Final = 1 << 64


class Methods:
    """Knows of each open call its method, and of the file its schema. With a `catalog` also of calls whose beginning
    was not seen."""

    def __init__(self, catalog: Catalog | None = None) -> None:
        self.schemas = SchemaSet()
        self._open: dict[int, str] = {}
        self._catalog = catalog

    def of(self, event: Event) -> str:
        """The method of the event's call; forgotten with the call's end."""
        if isinstance(event, Call):
            self._open[event.call] = event.method
        elif event.call not in self._open and self._catalog is not None:
            entry = self._catalog.opening(event.call)
            record = None if entry is None else entry.record
            self._open[event.call] = record.method if isinstance(record, Call) else "?"
        method = self._open.get(event.call, "?")
        if isinstance(event, (Status, Cancel)):
            self._open.pop(event.call, None)
        return method

    def read(self, method: str, event: Event) -> tuple[Decoded, Reading]:
        """A message decoded, and what its lens sees; empty for every other event."""
        if not isinstance(event, Message):
            return Decoded(), Reading()
        decoded = self.schemas.decode(method, event.direction, event.payload)
        return decoded, lens.read(method, decoded.message) if decoded.message is not None else Reading()


def direction(event: Event) -> int:
    """Who did it: headers and status are the server's, open, half-close and cancel the client's."""
    if isinstance(event, Message):
        return event.direction
    return RESPONSE if isinstance(event, (Headers, Status)) else REQUEST


def is_error(event: Event, decoded: Decoded, reading: Reading) -> bool:
    """A call that failed or was cancelled; a message that carries an error code, does not parse, or fails a check."""
    match event:
        case Status(code=code):
            return code != 0
        case Cancel():
            return True
        case Message():
            bad = any(check.verdict != "ok" for check in reading.checks)
            return bad or reading.error is not None or decoded.error is not None
    return False


@dataclass(frozen=True)
class Filter:
    """Which events are wanted; what is empty asks for nothing. Times are in ns since the capture's time 0."""

    calls: frozenset[int] = frozenset()
    methods: tuple[str, ...] = ()
    direction: str | None = None
    names: frozenset[str] = frozenset()
    first: int = 1
    last: int = _ENDLESS
    since_ns: int = 0
    until_ns: int = _ENDLESS
    errors: bool = False

    def passes(self, seq: int, event: Event, method: str) -> bool:
        """All but `errors`, which takes a reading of the event."""
        return (
            self.first <= seq <= self.last
            and self.since_ns <= event.time_ns <= self.until_ns
            and (not self.calls or event.call in self.calls)
            and (not self.names or event.NAME in self.names)
            and (self.direction is None or DIRECTIONS[direction(event)] == self.direction)
            and (not self.methods or any(fnmatchcase(method, glob) for glob in self.methods))
        )


# --- on the command line ----------------------------------------------------------------------------------------------


class Range(click.ParamType[tuple[int, int]]):
    """`A:B`, both in it; `A:`, `:B`, or `N` alone."""

    name = "a:b"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        first, colon, last = str(value).partition(":")
        try:
            low = int(first) if first else 1
            high = (int(last) if last else _ENDLESS) if colon else low
        except ValueError:
            low, high = 1, 0
        if not 1 <= low <= high or not str(value).strip(":"):
            self.fail(f"{value!r} is no range of event numbers; write 5:9, 5:, :9 or 5", param, ctx)
        return low, high


class Seconds(click.ParamType[int]):
    """Seconds since the capture's start, to the nanosecond; the value is in nanoseconds."""

    name = "seconds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            seconds = Decimal(str(value).removesuffix("s"))
        except InvalidOperation:
            seconds = Decimal(-1)
        if not (seconds.is_finite() and 0 <= seconds < _ENDLESS // 10**9):
            self.fail(f"{value!r} is no number of seconds from 0 up", param, ctx)
        return int(seconds * 10**9)


def filtered(command: Callable[..., int]) -> Callable[..., int]:
    """The options by which events are chosen."""
    seconds, number = Seconds(), click.IntRange(min=1)
    for option in (
        click.option(
            "--errors", is_flag=True, help="Only what failed: status, cancel, error code, checksum, decoding."
        ),
        click.option("--until", type=seconds, metavar="S", help="Up to so many seconds from the capture's start."),
        click.option("--since", type=seconds, metavar="S", help="From so many seconds on."),
        click.option("--events", type=Range(), metavar="A:B", help="By number; A:, :B and N alone are fine too."),
        click.option(
            "--event", "names", type=click.Choice(EVENT_NAMES), multiple=True, help="Of this kind; repeat it."
        ),
        click.option("--direction", type=click.Choice(DIRECTIONS), help="Of the client, or of the server."),
        click.option("--method", "methods", multiple=True, metavar="GLOB", help="As '*/Session'; repeat it for more."),
        click.option("--call", "calls", type=number, multiple=True, metavar="N", help="Of this call; repeat it."),
    ):
        command = option(command)
    return command


def filter_of(
    calls: tuple[int, ...],
    methods: tuple[str, ...],
    direction: str | None,
    names: tuple[str, ...],
    events: tuple[int, int] | None,
    since: int | None,
    until: int | None,
    errors: bool,
) -> Filter:
    """The values of the options of `filtered`."""
    first, last = events or (Filter.first, Filter.last)
    until = Filter.until_ns if until is None else until
    return Filter(frozenset(calls), methods, direction, frozenset(names), first, last, since or 0, until, errors)
