"""Delta debugging: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002, algorithm ddmin.

Asks as few questions as it can; the same questions in the same order each time, so that a run can be taken up again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


async def ddmin(items: Sequence[T], fails: Callable[[list[T]], Awaitable[bool]]) -> list[T]:
    """The items, in their order, without as many as possible of which the failure does not need: none of those that are
    left can be left out alone. The whole is taken to fail; whether nothing at all fails is asked first."""
    known: dict[tuple[int, ...], bool] = {}  # by the places of the items: the algorithm comes back to some
    places = list(range(len(items)))

    async def ask(some: list[int]) -> bool:
        key = tuple(some)
        if key not in known:
            known[key] = await fails([items[place] for place in some])
        return known[key]

    return [items[place] for place in await _reduced(places, ask)]


async def _reduced(places: list[int], fails: Callable[[list[int]], Awaitable[bool]]) -> list[int]:
    kept = places
    if not kept or await fails([]):
        return []
    pieces = 2
    while len(kept) > 1:
        subsets = _split(kept, pieces)
        smaller = await _first_that_fails(subsets, kept, fails)
        if smaller is None:
            if pieces >= len(kept):
                break
            pieces = min(len(kept), pieces * 2)
            continue
        kept, was_complement = smaller
        pieces = max(pieces - 1, 2) if was_complement else 2
    return kept


async def _first_that_fails(
    subsets: list[list[int]], kept: list[int], fails: Callable[[list[int]], Awaitable[bool]]
) -> tuple[list[int], bool] | None:
    """A subset, or else what is left without one; and which of the two."""
    # of two, each is what is left without the other
    candidates = [(subset, False) for subset in subsets] if len(subsets) > 2 else []
    at = 0
    for subset in subsets:
        candidates.append((kept[:at] + kept[at + len(subset) :], len(subsets) > 2))
        at += len(subset)
    for candidate, is_complement in candidates:
        if await fails(candidate):
            return candidate, is_complement
    return None


def _split(items: list[int], pieces: int) -> list[list[int]]:
    bounds = [len(items) * i // pieces for i in range(pieces + 1)]
    return [items[a:b] for a, b in pairwise(bounds) if a < b]
