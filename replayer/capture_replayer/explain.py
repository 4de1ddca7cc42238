"""Makes of a finding what one wants to know: which field, which byte, both values, and the request that led to it.

Pure: bytes and an embedded schema in, a `Divergence` out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from capture_recorder import lens
from capture_recorder.capfile.fields import Leaves, changed
from capture_recorder.capfile.paths import Path
from capture_recorder.capfile.paths import text as path_text
from capture_recorder.capfile.records import (
    DIRECTIONS,
    Call,
    Cancel,
    HalfClose,
    Headers,
    Message,
    Metadata,
    Redacted,
    Status,
)
from capture_recorder.status import status_name

from .compare import Answer, Expected, Finding, HeadersCame, MessageCame, StatusCame, first_difference
from .hints import checksum_note, looks_like_time

if TYPE_CHECKING:
    from capture_recorder.capfile.schema import Location

    from .engine import Stall
    from .judge import RulesJudge

SHOWN: Final = 16  # bytes of a payload that a line of the report has room for
NOT_SET: Final = "(not set)"
FIELDS: Final = 12  # fields that differ which a report has room for


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that differs: its path and the value on both sides, None where it is not set. `ignored` by a rule."""

    path: str
    expected: str | None
    actual: str | None
    ignored: bool = False
    span: tuple[int, int] = (0, 0)  # where the first side that has it has it


@dataclass(frozen=True, slots=True)
class HexWindow:
    """Bytes around the first difference: `start` is the offset of the first of them, `at` of the one that differs."""

    start: int
    at: int
    expected: bytes
    actual: bytes


@dataclass(frozen=True, slots=True)
class Divergence:
    """An event that is not identical. `event` is its number in the capture; of an extra one, of the event that it came
    before, or (`after`) of the last one of its call. `expected` and `actual` are words for people, or None."""

    call: int
    event: int
    kind: str
    method: str
    verdict: str
    direction: str = "response"
    index: int | None = None
    after: bool = False
    field: str | None = None
    offset: int | None = None
    expected: str | None = None
    actual: str | None = None
    cause: int = 0  # the request event that came last before it, by its number; 0 if there was none
    cause_text: str = ""
    stall: Stall | None = None  # it was waited for until the time limit
    ended: str | None = None  # the target's status, where a call ended in another way, or before it was due
    window: HexWindow | None = None
    fields: tuple[FieldChange, ...] = ()  # the first of all that differ in a message, where the schema tells
    changed: int = 0  # how many differ
    summaries: tuple[str, str] | None = None  # what both messages are about, where the schema tells
    note: str = ""  # what the checksums in both messages say
    hint: str = ""  # what it looks like, and what may help

    def as_json(self) -> dict[str, object]:
        """The object that `--json` has for it."""
        names = ("call", "event", "kind", "method", "direction", "index", "verdict", "field", "offset")
        values: dict[str, object] = {name: getattr(self, name) for name in names}
        cause = {"event": self.cause, "text": self.cause_text} if self.cause else None
        more: dict[str, object] = {"cause": cause, "stalled": self.stall is not None, "ended": self.ended}
        told = {
            "fields": [asdict(change) for change in self.fields],
            "summaries": self.summaries,
            "changed_fields": self.changed,
            "stall": None if self.stall is None else asdict(self.stall),
            "note": self.note,
            "hint": self.hint,
        }
        more |= {name: value for name, value in told.items() if value}
        return {**values, "expected": self.expected, "actual": self.actual, **more}


def explain(
    call: Call,
    finding: Finding,
    judge: RulesJudge,
    *,
    stall: Stall | None = None,
    ended: StatusCame | None = None,
    direction: str = "response",
) -> Divergence:
    """`stall`: this event was waited for until the time limit. `ended`: how the target ended the call."""
    wanted = finding.wanted.event if finding.wanted is not None else None
    kind = wanted.NAME if wanted is not None else _kind(finding.came)
    number = DIRECTIONS.index(direction)
    divergence = Divergence(
        call=call.call,
        event=finding.seq,
        kind=kind,
        method=call.method,
        verdict=finding.verdict,
        direction=direction,
        index=wanted.index if isinstance(wanted, Message) else None,
        after=finding.after,
        expected=None if wanted is None else _told(call.method, number, wanted, judge),
        actual=None if finding.came is None else _told(call.method, number, finding.came, judge),
        cause=finding.cause,
        stall=stall,
        ended=describe(ended)
        if ended is not None and kind != "status" and finding.verdict in ("missing", "extra")
        else None,
    )
    if finding.difference is not None:
        divergence = _with_difference(divergence, finding, judge)
    return replace(divergence, hint=looks_like_time(divergence))


def _told(method: str, direction: int, event: Expected | Answer, judge: RulesJudge) -> str:
    """An event in some words, a message by what it says if the schema tells."""
    if isinstance(event, (Message, MessageCame)):
        decoded = judge.schemas.decode(method, direction, event.payload).message
        summary = "" if decoded is None else _in_a_line(lens.read(method, decoded))
        if summary:
            return f"{summary} ({len(event.payload):,} bytes)"
    return describe(event)


def _in_a_line(reading: lens.Reading) -> str:
    return f"{reading.error} {reading.summary}" if reading.error else reading.summary


def _with_difference(divergence: Divergence, finding: Finding, judge: RulesJudge) -> Divergence:
    """Where the two events part."""
    found = finding.difference
    wanted = finding.wanted.event if finding.wanted is not None else None
    assert found is not None
    if isinstance(wanted, Message) and isinstance(finding.came, MessageCame):
        return _in_message(divergence, wanted.payload, finding.came.payload, judge)
    expected, actual = found.expected, found.actual
    if found.part == "code":
        expected, actual = (status_name(int(code or 0)) for code in (found.expected, found.actual))
    return replace(divergence, field=found.part, offset=found.offset, expected=expected, actual=actual)


def _in_message(divergence: Divergence, expected: bytes, actual: bytes, judge: RulesJudge) -> Divergence:
    """The first field that differs and that counts, and its value on both sides; else the bytes that differ first, and
    the field in which they are."""
    method, direction = divergence.method, DIRECTIONS.index(divergence.direction)
    at = first_difference(expected, actual)
    changes = _changes(method, direction, expected, actual, judge)
    counted = min((each for each in changes if not each.ignored), key=lambda each: each.span, default=None)
    field: str | None
    if counted is not None:
        start, end = counted.span
        at = at if start <= at < end else start
        field, values = counted.path, (counted.expected or NOT_SET, counted.actual or NOT_SET)
    else:
        there = judge.schemas.locate(method, direction, expected, at) if at < len(expected) else None
        here = judge.schemas.locate(method, direction, actual, at) if at < len(actual) else None
        field, values = _sides(there, here, [_from(payload, at) for payload in (expected, actual)])
    messages = [judge.schemas.decode(method, direction, payload).message for payload in (expected, actual)]
    readings = [lens.read(method, message) for message in messages if message is not None]
    both = len(readings) == 2
    return replace(
        divergence,
        field=field,
        offset=at,
        expected=values[0],
        actual=values[1],
        window=hex_window(expected, actual, at),
        fields=tuple(changes[:FIELDS]),
        changed=len(changes),
        summaries=(_in_a_line(readings[0]), _in_a_line(readings[1])) if both else None,
        note=checksum_note(readings[0], readings[1]) if both else "",
    )


def _changes(method: str, direction: int, expected: bytes, actual: bytes, judge: RulesJudge) -> list[FieldChange]:
    """Each field that differs, in the order of the schema's bytes. A message that only one side has is one field."""
    sides = judge.leaves(method, direction, expected, actual)
    if sides is None:
        return []
    found: list[FieldChange] = []
    for path, leaves in _grouped(sides, changed(*sides)).items():
        ignored = all(judge.ignores(method, leaf_path) for leaf_path in leaves)
        texts = [_side_text(side, path, leaves) for side in sides]
        spans = [(leaf.start, leaf.end) for side in sides for leaf_path in leaves if (leaf := side.get(leaf_path))]
        found.append(FieldChange(path_text(path), texts[0], texts[1], ignored, spans[0]))
    return found


def _grouped(sides: tuple[Leaves, Leaves], differing: list[Path]) -> dict[Path, list[Path]]:
    """The leaves that differ, those of a message together that the other side has nothing of."""
    starts = [{path[:length] for path in side for length in range(1, len(path) + 1)} for side in sides]
    groups: dict[Path, list[Path]] = {}
    for path in differing:
        other = starts[1] if path not in sides[1] else starts[0] if path not in sides[0] else None
        length = len(path)
        if other is not None:
            length = next(length for length in range(1, len(path) + 1) if path[:length] not in other)
        groups.setdefault(path[:length], []).append(path)
    return groups


def _side_text(side: Leaves, path: Path, leaves: list[Path]) -> str | None:
    """What a side has of a group."""
    there = [leaf for leaf in leaves if leaf in side]
    if not there:
        return None
    return side[path].text() if there == [path] else f"{len(there):,} field{'' if len(there) == 1 else 's'}"


def _sides(there: Location | None, here: Location | None, texts: list[str]) -> tuple[str | None, tuple[str, str]]:
    """The field at a byte of both messages, and its value in each."""
    if there is None and here is None:
        return None, (texts[0], texts[1])
    if there is None or here is None:
        found = there or here
        assert found is not None
        return found.path, (found.value if there else texts[0], found.value if here else texts[1])
    if there.path == here.path:
        return there.path, (there.value, here.value)
    return there.path, (f"{there.path} = {there.value}", f"{here.path} = {here.value}")


def _from(payload: bytes, offset: int) -> str:
    if offset >= len(payload):
        return f"the end, after {len(payload):,} bytes"
    more = " …" if offset + SHOWN < len(payload) else ""
    return payload[offset : offset + SHOWN].hex(" ") + more


def hex_window(expected: bytes, actual: bytes, offset: int) -> HexWindow:
    """Up to 16 bytes of both around `offset`, the same range of each."""
    start = max(0, offset - SHOWN // 2)
    return HexWindow(start, offset, expected[start : start + SHOWN], actual[start : start + SHOWN])


def describe(event: Expected | Answer | Call | Cancel | HalfClose) -> str:
    """An event in some words. They come out of the capture: whoever shows them makes them safe for a terminal."""
    match event:
        case Message(payload=payload) | MessageCame(payload=payload):
            size = f"{len(payload):,} byte{'' if len(payload) == 1 else 's'}"
            return f"a message of {size}" + (f": {_from(payload, 0)}" if payload else "")
        case Status(code=code, message=message) | StatusCame(code=code, message=message):
            return f"status {status_name(code)}" + (f": {message}" if message else "")
        case Headers(metadata=metadata) | HeadersCame(metadata=metadata):
            return f"headers {_pairs(metadata)}"
        case Call(method=method):
            return f"the call of {method}"
        case HalfClose():
            return "the half-close"
        case Cancel(why=why):
            return f"the cancel ({why})"
    raise TypeError(type(event).__name__)


def _kind(answer: Answer | None) -> str:
    return {MessageCame: "message", StatusCame: "status", HeadersCame: "headers"}.get(type(answer), "message")


def _pairs(metadata: Metadata) -> str:
    texts = (
        f"{key}=<redacted>" if isinstance(value, Redacted) else f"{key}={value.decode('ascii', 'backslashreplace')}"
        for key, value in metadata
    )
    return ", ".join(texts) or "without entries"
