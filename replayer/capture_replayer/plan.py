"""What a replay does, computed from a capture: pure, and lazy, so that a capture of any length fits.

The recorded observation order *is* a causal order: the server had sent what stands before an event when it saw the
event. So a plan is that order, and its steps are the client's doing (`Do`) or are awaited (`Expect`).
A `Do` goes out when every `Expect` before it, in its own call and in the others, was met, or was given up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from capture_recorder.capfile import Entry
from capture_recorder.capfile.records import (
    REQUEST,
    Call,
    Cancel,
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
