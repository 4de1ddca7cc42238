"""Makes of a finding what one wants to know: which field, which byte, both values, and the request that led to it.

Pure: bytes and an embedded schema in, a `Divergence` out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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

from .compare import Answer, Expected, Finding, HeadersCame, MessageCame, StatusCame

if TYPE_CHECKING:
    from capture_recorder.capfile.schema import SchemaSet

SHOWN: Final = 16  # bytes of a payload that a line of the report has room for


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
    stalled: bool = False
    ended: str | None = None  # the target's status, where a call ended in another way, or before it was due
    window: HexWindow | None = None

    def as_json(self) -> dict[str, object]:
        """The object that `--json` has for it."""
        names = ("call", "event", "kind", "method", "direction", "index", "verdict", "field", "offset")
        values: dict[str, object] = {name: getattr(self, name) for name in names}
        cause = {"event": self.cause, "text": self.cause_text} if self.cause else None
        more = {"cause": cause, "stalled": self.stalled, "ended": self.ended}
        return {**values, "expected": self.expected, "actual": self.actual, **more}


def explain(
    call: Call,
    finding: Finding,
    schemas: SchemaSet | None,
    *,
    stalled: bool = False,
    ended: StatusCame | None = None,
    direction: str = "response",
) -> Divergence:
    """`stalled`: this event was waited for until the time limit. `ended`: how the target ended the call."""
    wanted = finding.wanted.event if finding.wanted is not None else None
    kind = wanted.NAME if wanted is not None else _kind(finding.came)
    divergence = Divergence(
        call=call.call,
        event=finding.seq,
        kind=kind,
        method=call.method,
        verdict=finding.verdict,
        direction=direction,
        index=wanted.index if isinstance(wanted, Message) else None,
        after=finding.after,
        expected=None if wanted is None else describe(wanted),
        actual=None if finding.came is None else describe(finding.came),
        cause=finding.cause,
        stalled=stalled,
        ended=describe(ended) if ended is not None and finding.verdict == "missing" else None,
    )
    found = finding.difference
    if found is None:
        return divergence
    field: str | None = found.part
    expected, actual, window = found.expected, found.actual, None
    if found.part == "code":
        expected, actual = (status_name(int(code or 0)) for code in (found.expected, found.actual))
    if isinstance(wanted, Message) and isinstance(finding.came, MessageCame):
        field, expected, actual = _in_message(
            call.method, DIRECTIONS.index(direction), wanted.payload, finding.came.payload, found.offset, schemas
        )
        window = hex_window(wanted.payload, finding.came.payload, found.offset or 0)
    return replaced(divergence, field=field, offset=found.offset, expected=expected, actual=actual, window=window)


def replaced(divergence: Divergence, **changes: object) -> Divergence:
    """The same with other values."""
    values = {name: getattr(divergence, name) for name in Divergence.__dataclass_fields__}
    return Divergence(**{**values, **changes})


def _in_message(
    method: str, direction: int, expected: bytes, actual: bytes, offset: int | None, schemas: SchemaSet | None
) -> tuple[str | None, str, str]:
    """The field in which the two messages part, and its value on both sides; without a schema, bytes."""
    at = offset or 0
    texts = [_from(payload, at) for payload in (expected, actual)]
    if schemas is None:
        return None, texts[0], texts[1]
    there = schemas.locate(method, direction, expected, at) if at < len(expected) else None
    here = schemas.locate(method, direction, actual, at) if at < len(actual) else None
    if there is None and here is None:
        return None, texts[0], texts[1]
    if there is None or here is None:
        found = there or here
        assert found is not None
        return found.path, found.value if there else texts[0], found.value if here else texts[1]
    if there.path == here.path:
        return there.path, there.value, here.value
    return there.path, f"{there.path} = {there.value}", f"{here.path} = {here.value}"


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
