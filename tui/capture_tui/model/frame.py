"""A frame: an event, a gap or a damage, as a row on screen, and where it stands among the others.

A frame is called by its key: twice the number of its record, or, of damage, one more than twice the number of the last
good record before it. So keys ascend as the file does, whatever is lost of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from capture_recorder.capfile import Damage, Unknown
from capture_recorder.capfile.records import (
    EVENT_TYPES,
    REQUEST,
    RESPONSE,
    Call,
    Cancel,
    Event,
    Gap,
    HalfClose,
    Headers,
    Message,
    Status,
)

Key = int
DAMAGE: Final = "damage"
GAP: Final = "gap"
UNKNOWN: Final = "unknown record"
GLIMPSE: Final = 256  # bytes


def key_of(seq: int) -> Key:
    """The key of record number `seq`."""
    return 2 * seq


def key_after(seq: int) -> Key:
    """The key of what is damaged between record `seq` and the next good one."""
    return 2 * seq + 1


def seq_of(key: Key) -> int:
    """The number of the record, or of the last one before the damage."""
    return key // 2


@dataclass(frozen=True, slots=True)
class Frame:
    """`record` is None for damage and for an unknown record. `method` is its call's ("?" where that is lost). `rest`:
    bytes of the payload that are not in it, see `glimpse`."""

    key: Key
    record: Event | Gap | None
    method: str = ""
    damage: tuple[Damage, ...] = ()
    unknown: Unknown | None = None
    rest: int = 0

    def glimpse(self) -> Frame:
        """The frame with the beginning of its payload: enough for a row."""
        message = self.message
        if message is None or len(message.payload) <= GLIMPSE:
            return self
        short = replace(message, payload=message.payload[:GLIMPSE])
        return replace(self, record=short, rest=self.size - GLIMPSE)

    @property
    def seq(self) -> int:
        """The number of its record; of damage, of the last good one before."""
        return seq_of(self.key)

    @property
    def event(self) -> Event | None:
        """The event that it is, if it is one."""
        return self.record if isinstance(self.record, EVENT_TYPES) else None

    @property
    def message(self) -> Message | None:
        """The message that it is, if it is one."""
        return self.record if isinstance(self.record, Message) else None

    @property
    def call(self) -> int | None:
        """The call that it belongs to."""
        return None if self.record is None else self.record.call

    @property
    def time_ns(self) -> int | None:
        """ns since the capture's time 0."""
        return None if self.record is None else self.record.time_ns

    @property
    def direction(self) -> int | None:
        """Who did it: headers and status are the server's, open, half-close and cancel the client's."""
        return None if self.event is None else direction_of(self.event)

    @property
    def kind(self) -> str:
        """`message`, `open`, …, as the words of the project have it."""
        if self.record is None:
            return DAMAGE if self.unknown is None else UNKNOWN
        return GAP if isinstance(self.record, Gap) else self.record.NAME

    @property
    def size(self) -> int:
        """Bytes of its payload."""
        return 0 if self.message is None else len(self.message.payload) + self.rest


def direction_of(event: Event) -> int:
    """See `Frame.direction`."""
    match event:
        case Message(direction=direction):
            return direction
        case Headers() | Status():
            return RESPONSE
        case Call() | HalfClose() | Cancel():
            return REQUEST
