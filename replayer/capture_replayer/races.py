"""Where the recorded order was not the client's to see: requests of several calls with no response between them.

Nothing that a client does can make two such requests reach the handlers in the recorded order: a unary `Cancel` that
crosses a chunk comes before it or after it. Such a stretch of a plan is a *race*. What a client can do is wait: send
the requests of one call and take their answers before it sends those of the next. Each sequence of the calls is a legal
order, since it contradicts nothing that the client had seen. Pure, and lazy like the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Final

from .plan import Do, Step

KEPT: Final = 10_000
"""Races of one capture that are remembered; each may cost an attempt, so nobody gets to the end of more."""

Order = tuple[int, ...]
"""Calls, in the order in which they have their way."""
Choice = Mapping[int, Order]
"""For races, by the number of their first event: the order instead of sending all at once, as the recording has it."""


@dataclass(frozen=True, slots=True)
class Race:
    """Request events from `first` to `last` (by their numbers) of these calls, with no response event between them."""

    first: int
    last: int
    calls: Order

    def __str__(self) -> str:
        *most, last = (str(call) for call in self.calls)
        return f"requests of calls {', '.join(most)} and {last} (events {self.first} to {self.last})"


class RaceFinder:
    """Looks at the steps of a plan in their order; `races` is complete after `finish`."""

    def __init__(self) -> None:
        self.races: list[Race] = []
        self._first = self._last = 0
        self._calls: dict[int, None] = {}

    def look_at(self, step: Step) -> None:
        """The next step."""
        if not isinstance(step, Do):
            self.finish()
            return
        if not self._calls:
            self._first = step.seq
        self._last = step.seq
        self._calls[step.event.call] = None

    def finish(self) -> None:
        """There is a response here, or nothing more."""
        if len(self._calls) > 1 and len(self.races) < KEPT:
            self.races.append(Race(self._first, self._last, tuple(self._calls)))
        self._calls.clear()


def in_order(steps: Iterable[Step], choice: Choice) -> Iterator[Step]:
    """The steps, with the races of `choice` in the order that it gives. Between the calls of such a race the answers
    are waited for that come before the next request."""
    window: list[Step] | None = None  # a race that is to be put in order: its requests and the answers after them
    order: Order = ()
    for step in steps:
        if window is not None and isinstance(step, Do) and not isinstance(window[-1], Do):
            yield from _sorted(window, order)
            window = None
        if window is None and isinstance(step, Do) and step.seq in choice:
            window, order = [], choice[step.seq]
        if window is None:
            yield step
        else:
            window.append(step)
    if window is not None:
        yield from _sorted(window, order)


def _sorted(window: list[Step], order: Order) -> list[Step]:
    places = {call: place for place, call in enumerate(order)}
    return sorted(window, key=lambda step: places.get(step.event.call, len(places)))  # stable: each call keeps its own


ORDERS: Final = 24  # of one race that are tried: all that four calls have
Tried = set[tuple[tuple[int, Order], ...]]


def next_choice(choice: Choice, races: Iterable[Race], diverged_at: int, tried: Tried) -> Choice | None:
    """Another choice to try after a divergence at an event: the nearest race before it in an order that was not tried,
    or an earlier one. It is put into `tried`. None if there is none left."""
    for race in sorted((race for race in races if race.first <= diverged_at), key=lambda race: -race.first):
        for order in islice(permutations(race.calls), ORDERS):
            candidate = {first: kept for first, kept in choice.items() if first < race.first} | {race.first: order}
            key = tuple(sorted(candidate.items()))
            if key not in tried:
                tried.add(key)
                return candidate
    return None
