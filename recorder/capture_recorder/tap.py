"""What happened in one call, as records: pure, and the same for every kind of server.

Each method is told what was seen and when, and returns the records that say so, or none where it changes nothing: after
its end a call has no more events, and what the server serialized for a client that had gone was never sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from .capfile.codec import message
from .capfile.records import (
    REQUEST,
    RESPONSE,
    Call,
    Cancel,
    Event,
    HalfClose,
    Headers,
    Metadata,
    Status,
)


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known of a call when it begins; `capfile.records.Call` says what each means."""

    method: str
    kind: str
    peer: str = ""
    authority: str = ""
    metadata: Metadata = ()
    time_left_ns: int | None = None


class Tap:
    """The state of one call: its number, what was counted so far, and whether it ended."""

    __slots__ = ("_counts", "_half_closed", "call", "ended")

    def __init__(self) -> None:
        self.call = 0
        self.ended = False
        self._counts = [0, 0]
        self._half_closed = False

    @property
    def headers_allowed(self) -> bool:
        """Whether initial metadata can still be sent."""
        return not self.ended and self._counts[RESPONSE] == 0

    def open(self, now: int, call: int, opening: Opening) -> list[Event]:
        """The server saw the call; from here on it has number `call`. Times are ns since the capture's time 0."""
        self.call = call
        return [
            Call(
                call=call,
                time_ns=now,
                method=opening.method,
                kind=opening.kind,
                peer=opening.peer,
                authority=opening.authority,
                metadata=opening.metadata,
                time_left_ns=opening.time_left_ns,
            )
        ]

    def headers(self, now: int, metadata: Metadata) -> list[Event]:
        """The handler sends initial metadata by itself."""
        return [Headers(call=self.call, time_ns=now, metadata=metadata)] if self.headers_allowed else []

    def request(self, now: int, payload: bytes) -> list[Event]:
        """The handler is about to get a message."""
        return self._message(now, REQUEST, payload)

    def response(self, now: int, payload: bytes) -> list[Event]:
        """A message of the server is about to be sent."""
        return self._message(now, RESPONSE, payload)

    def _message(self, now: int, direction: int, payload: bytes) -> list[Event]:
        if self.ended:
            return []
        index = self._counts[direction]
        self._counts[direction] += 1
        return [message(self.call, direction, index, now, payload)]

    def half_close(self, now: int) -> list[Event]:
        """The handler read the end of the client's stream. It may ask more than once; it happened once."""
        if self.ended or self._half_closed:
            return []
        self._half_closed = True
        return [HalfClose(call=self.call, time_ns=now)]

    def cancel(self, now: int, why: str) -> list[Event]:
        """The call ended before a status was sent."""
        if self.ended:
            return []
        self.ended = True
        return [Cancel(call=self.call, time_ns=now, why=why)]

    def status(self, now: int, code: int, message: str, metadata: Metadata) -> list[Event]:
        """The server's end of the call is about to be sent."""
        if self.ended:
            return []
        self.ended = True
        return [Status(call=self.call, time_ns=now, code=code, message=message, metadata=metadata)]
