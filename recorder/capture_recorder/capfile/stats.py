"""What a capture's messages add up to: by method and direction how many, how large, how far apart; the slowest answers.

Pure over events. What it keeps grows with methods and open calls, not with the capture.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from .reader import Entry
from .records import EVENT_TYPES, REQUEST, Call, Cancel, Message, Status

SLOWEST: Final = 10


@dataclass(slots=True)
class Histogram:
    """Counts by powers of two: bucket *n* holds what needs *n* bits: 0 for 0, 1 for 1, 2 for 2 and 3, and so on."""

    buckets: Counter[int] = field(default_factory=Counter)
    least: int | None = None
    most: int = 0
    total: int = 0
    count: int = 0

    def add(self, value: int) -> None:
        """One value, from 0 up."""
        self.buckets[value.bit_length()] += 1
        self.least = value if self.least is None or value < self.least else self.least
        self.most = max(self.most, value)
        self.total += value
        self.count += 1

    def quantile(self, share: float) -> int:
        """A value that at least this share of all is not above: a bucket's upper bound, so at most twice too large."""
        left = share * self.count
        for bits in sorted(self.buckets):
            left -= self.buckets[bits]
            if left <= 0:
                return min((1 << bits) - 1, self.most)
        return self.most


@dataclass(slots=True)
class Flow:
    """The messages of a method in one direction: sizes in bytes, gaps between two of a call in ns."""

    sizes: Histogram = field(default_factory=Histogram)
    gaps: Histogram = field(default_factory=Histogram)


@dataclass(frozen=True, slots=True, order=True)
class Answer:
    """A response, and the time since the last event of the client's in its call."""

    took_ns: int
    call: int
    request: int  # number of that event
    response: int  # number of the response
    method: str


@dataclass(slots=True)
class Stats:
    """See the module. `flows` is by method and direction."""

    flows: dict[tuple[str, int], Flow] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    answers: Histogram = field(default_factory=Histogram)
    slowest: list[Answer] = field(default_factory=list)


@dataclass(slots=True)
class _Open:
    method: str
    asked_seq: int
    asked_ns: int
    answered: bool = False
    last_ns: dict[int, int] = field(default_factory=dict)  # by direction


def stats(entries: Iterable[Entry], slowest: int = SLOWEST) -> Stats:
    """Of the entries of a capture, in their order."""
    found = Stats()
    open_calls: dict[int, _Open] = {}
    for entry in entries:
        event = entry.record
        if isinstance(event, Call):
            found.calls[event.method] += 1
            open_calls[event.call] = _Open(event.method, entry.seq, event.time_ns)
        elif isinstance(event, EVENT_TYPES) and event.call in open_calls:
            call = open_calls[event.call]
            if isinstance(event, Message):
                _message(found, call, entry.seq, event, slowest)
            elif isinstance(event, (Status, Cancel)):
                del open_calls[event.call]
    found.slowest.sort(reverse=True)
    return found


def _message(found: Stats, call: _Open, seq: int, message: Message, slowest: int) -> None:
    flow = found.flows.setdefault((call.method, message.direction), Flow())
    flow.sizes.add(len(message.payload))
    before = call.last_ns.get(message.direction)
    if before is not None:
        flow.gaps.add(max(0, message.time_ns - before))
    call.last_ns[message.direction] = message.time_ns
    if message.direction == REQUEST:
        call.asked_seq, call.asked_ns, call.answered = seq, message.time_ns, False
        return
    if call.answered:
        return  # what a server says without being asked anew is no answer to be timed
    call.answered = True
    answer = Answer(max(0, message.time_ns - call.asked_ns), message.call, call.asked_seq, seq, call.method)
    found.answers.add(answer.took_ns)
    if len(found.slowest) < slowest:
        heapq.heappush(found.slowest, answer)
    elif found.slowest and answer > found.slowest[0]:
        heapq.heapreplace(found.slowest, answer)
