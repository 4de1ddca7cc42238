"""What a replay does, computed from a capture: pure, and lazy, so that a capture of any length fits.

The recorded observation order *is* a causal order: the server had sent what stands before an event when it saw the
event. So a plan is that order, and its steps are the client's doing (`Do`) or are awaited (`Expect`).
A `Do` goes out when every `Expect` before it, in its own call and in the others, was met, or was given up.
Where that order leaves something open (`races.py`), a plan can be made for each of the orders that are legal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from capture_recorder.capfile import Entry
from capture_recorder.capfile.records import (
    REQUEST,
    Call,
    Cancel,
    Event,
    HalfClose,
    Headers,
    Message,
    Status,
)

SINGLE_REQUEST = ("unary", "server_streaming")


@dataclass(frozen=True, slots=True)
class Do:
    """A request event. `seq` is its number in the capture; `ends_requests` says that the half-close goes with it."""

    seq: int
    event: Call | Message | HalfClose | Cancel
    ends_requests: bool = False


@dataclass(frozen=True, slots=True)
class Expect:
    """A response event of the capture, which the target is held to."""

    seq: int
    event: Headers | Message | Status


Step = Do | Expect
_METHOD: Final = re.compile(r"/[!-~]+\Z")
_KEY: Final = re.compile(r"[0-9a-z_.-]+\Z")  # gRPC over HTTP2, "Custom-Metadata"
_VALUE: Final = re.compile(rb"[ -~]*\Z")


class Coherence:
    """Looks at the events of a capture in their order: whether they are of calls as calls go, and can be sent. What a
    recorder writes always is; a capture comes from anybody."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._seen: set[int] = set()
        self._takes_one: set[int] = set()  # open calls that take one request more
        self._full: set[int] = set()  # open calls whose requests have ended

    def fault(self, seq: int, event: Event) -> str | None:
        """A clause that says what is wrong with the next event, or None."""
        call = event.call
        if isinstance(event, Call):
            if call in self._seen:
                return f"event {seq} opens call {call} a second time"
            self._seen.add(call)
            self._open.add(call)
            if event.kind in SINGLE_REQUEST:
                self._takes_one.add(call)
            return _not_sendable(event)
        if call not in self._open:
            when = "after its end" if call in self._seen else "before it was opened"
            return f"event {seq} is of call {call}, {when}"
        if isinstance(event, (Cancel, Status)):
            for calls in (self._open, self._takes_one, self._full):
                calls.discard(call)
        elif isinstance(event, HalfClose) or (isinstance(event, Message) and event.direction == REQUEST):
            if call in self._full and isinstance(event, Message):
                return f"event {seq} is a request of call {call}, whose requests had ended"
            if call in self._takes_one or isinstance(event, HalfClose):
                self._full.add(call)
        return None


def _not_sendable(call: Call) -> str | None:
    if not _METHOD.match(call.method):
        return f"the method of call {call.call} is none that HTTP/2 can carry"
    for key, value in call.metadata:
        sendable = _KEY.match(key) or key.startswith(":")
        if not sendable or (isinstance(value, bytes) and not key.endswith("-bin") and not _VALUE.match(value)):
            return f"the metadata of call {call.call} is none that gRPC can send (key {key!r})"
    return None


def plan(entries: Iterable[Entry], calls: Collection[int] = ()) -> Iterator[Step]:
    """The steps of a replay in `causal` order, of the `calls` with these numbers, or of all if there are none."""
    kinds: dict[int, str] = {}
    for entry in entries:
        event = entry.record
        if calls and getattr(event, "call", None) not in calls:
            continue
        match event:
            case Call():
                kinds[event.call] = event.kind
                yield Do(entry.seq, event)
            case Message(direction=direction) if direction == REQUEST:
                yield Do(entry.seq, event, ends_requests=kinds.get(event.call) in SINGLE_REQUEST)
            case HalfClose() | Cancel():
                yield Do(entry.seq, event)
            case Headers() | Message() | Status():
                yield Expect(entry.seq, event)
            case _:
                pass
