"""The protobuf wire format, taken apart without a schema and without protobuf. Pure.

https://protobuf.dev/programming-guides/encoding: every field is a tag (number and wire type) and a value. What other
decoders take or refuse differs at the edges; here a varint has at most ten bytes and 64 bits, and may be longer than it
need be; a field number is from 1 to 2^29-1; groups are closed by the number that opened them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .framing import Buffer

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)
_FIXED: Final = {FIXED64: 8, FIXED32: 4}
_MAX_NUMBER: Final = 2**29 - 1
_MAX_DEPTH: Final = 100  # of groups; protobuf's own decoders stop there too


class WireError(ValueError):
    """These bytes are no message. `offset` is where that shows."""

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(f"offset {offset}: {why}")
        self.offset = offset
        self.why = why


@dataclass(frozen=True, slots=True)
class WireField:
    """A field as it stands: its tag from `tag` on, its value from `start` to `end` (of a group: what is in it; of
    bytes: after their length). `next` is where the next field begins. `value` is the number of a varint or fixed."""

    number: int
    wire_type: int
    tag: int
    start: int
    end: int
    next: int
    value: int | None


def fields(data: Buffer, start: int = 0, end: int | None = None) -> Iterator[WireField]:
    """The fields that stand between `start` and `end`, in their order. Raises WireError at the first that is none."""
    stop = len(data) if end is None else end
    at = start
    while at < stop:
        field = _field(data, at, stop, 0)
        if field.wire_type == END_GROUP:
            raise WireError(at, "the end of a group that did not begin")
        yield field
        at = field.next


def _field(data: Buffer, tag: int, stop: int, depth: int) -> WireField:
    key, at = varint(data, tag, stop)
    number, wire_type = key >> 3, key & 7
    if not 1 <= number <= _MAX_NUMBER:
        raise WireError(tag, f"field number {number}")
    if wire_type == VARINT:
        value, end = varint(data, at, stop)
        return WireField(number, wire_type, tag, at, end, end, value)
    if wire_type in _FIXED:
        end = at + _FIXED[wire_type]
        if end > stop:
            raise WireError(tag, "a fixed value is cut")
        return WireField(number, wire_type, tag, at, end, end, int.from_bytes(data[at:end], "little"))
    if wire_type == BYTES:
        size, at = varint(data, at, stop)
        if at + size > stop:
            raise WireError(tag, f"{size} bytes are announced, {stop - at} are there")
        return WireField(number, wire_type, tag, at, at + size, at + size, None)
    if wire_type == GROUP:
        end, after = _end_of_group(data, at, stop, number, depth + 1)
        return WireField(number, wire_type, tag, at, end, after, None)
    if wire_type == END_GROUP:
        return WireField(number, wire_type, tag, at, at, at, None)
    raise WireError(tag, f"wire type {wire_type}")


def _end_of_group(data: Buffer, at: int, stop: int, number: int, depth: int) -> tuple[int, int]:
    """Where the content of a group ends, and where the field after it begins."""
    if depth > _MAX_DEPTH:
        raise WireError(at, "groups are nested too deep")
    while at < stop:
        field = _field(data, at, stop, depth)
        if field.wire_type == END_GROUP:
            if field.number != number:
                raise WireError(at, f"group {number} is closed as {field.number}")
            return at, field.next
        at = field.next
    raise WireError(at, f"group {number} is not closed")


def varint(data: Buffer, at: int, stop: int) -> tuple[int, int]:
    """The number at `at`, and where it ends. Raises WireError."""
    value = 0
    for i in range(10):
        if at + i >= stop:
            raise WireError(at, "a varint is cut")
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            if i == 9 and byte > 1:
                raise WireError(at, "a varint of more than 64 bits")
            return value, at + i + 1
    raise WireError(at, "a varint of more than 10 bytes")
