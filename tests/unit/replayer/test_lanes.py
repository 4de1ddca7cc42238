"""Calls beside one another: each in its own order, so many at a time, and no deadlock where the capture has more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from capture_replayer import lanes
from capture_replayer.lanes import Lanes
from capture_replayer.plan import Step

from .test_races import steps


def run(found: Sequence[Step], most: int, *, slow: bool = True) -> tuple[list[tuple[int, int]], int]:
    """The steps as (call, seq) in the order in which they were done, and how many were under way at once."""
    done: list[tuple[int, int]] = []
    busy, peak = set[int](), 0

    async def carry_out(step: Step) -> None:
        nonlocal peak
        busy.add(step.event.call)
        peak = max(peak, len(busy))
        for _ in range(3 if slow else 0):
            await asyncio.sleep(0)
        done.append((step.event.call, step.seq))
        busy.discard(step.event.call)

    asyncio.run(asyncio.wait_for(Lanes(carry_out, most).dispatch(iter(found), lambda _s: None, lambda: False), 10))
    return done, peak


ONE_AFTER_ANOTHER = [f"{kind}{call}" for call in range(1, 9) for kind in "oqas"]


@pytest.mark.parametrize("most", [1, 3, 100])
def test_each_call_keeps_its_order_and_no_more_are_under_way(most: int) -> None:
    done, peak = run(steps(*ONE_AFTER_ANOTHER), most)
    assert len(done) == 32
    for call in range(1, 9):
        seqs = [seq for number, seq in done if number == call]
        assert seqs == sorted(seqs)
    assert peak <= most
    assert most == 1 or peak > 1


def test_calls_that_are_interleaved_in_the_capture_do_not_wait_for_one_another() -> None:
    interleaved = [f"o{call}" for call in range(1, 6)] + [f"{kind}{call}" for kind in "qas" for call in range(1, 6)]
    done, _ = run(steps(*interleaved), 2)
    assert len(done) == 20


def test_a_lane_that_is_full_holds_the_reader_back_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "QUEUED", 3)
    done, _ = run(steps("o1", *["q1", "a1"] * 50, "s1", "o2", "q2", "a2", "s2"), 2)
    assert len(done) == 106


def test_what_goes_wrong_in_a_lane_is_raised() -> None:
    async def carry_out(step: Step) -> None:
        raise OSError("broken")

    found = steps(*ONE_AFTER_ANOTHER)
    with pytest.raises(OSError, match="broken"):
        asyncio.run(asyncio.wait_for(Lanes(carry_out, 2).dispatch(found, lambda _s: None, lambda: False), 10))


def test_it_stops_when_it_is_over() -> None:
    done: list[int] = []

    async def carry_out(step: Step) -> None:
        done.append(step.seq)

    found = iter(steps(*ONE_AFTER_ANOTHER))
    asyncio.run(Lanes(carry_out, 1).dispatch(found, lambda _s: None, lambda: len(done) >= 4))
    assert len(done) < 32
    assert len(list(found)) + len(done) == 32
