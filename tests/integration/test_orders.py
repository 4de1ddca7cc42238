"""The orders of a replay, and races: what no client could tell may come in any order that is legal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from capture_recorder.capfile.records import Call, HalfClose, Message, Meta, Status
from capture_replayer.runner import Settings, one
from helpers import race
from helpers.captures import write_capture
from helpers.odd import odd_command
from helpers.odd_proto import Answer, Order
from helpers.processes import replay


@pytest.fixture(scope="module")
def racing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `Cancel` that crossed a chunk."""
    path = tmp_path_factory.mktemp("racing") / "racing.cap"
    race.record(path)
    return path


def test_the_racing_cancel_passes_a_hundred_times_out_of_a_hundred(racing: Path) -> None:
    async def all_of_them() -> list[tuple[bool, int]]:
        place = race.FreshInProcess()
        settings = Settings(attempts=4)
        return [
            (result.passed, result.attempts) for result in [await one(str(racing), place, settings) for _ in range(100)]
        ]

    results = asyncio.run(all_of_them())
    assert [passed for passed, _ in results] == [True] * 100
    assert max(attempts for _, attempts in results) <= 4


def talk(path: Path, *, calls: int, orders: int, step_ns: int = 0, wrong: int | None = None) -> Path:
    """Streams of odd.v1.Odd whose events interleave: all first orders, all first answers, and so on. The n-th event of
    the capture is `step_ns` after the one before it. `wrong`: a call whose last answer is another."""
    records: list[object] = []
    time = iter(range(0, 1 << 62, step_ns or 1))

    def answer(number: int) -> bytes:
        made = Answer(echo="words", number=number, price=number * 300)
        made.labels.update({"color": "red", "size": "large", "weight": "low"})
        for item in range(3):
            made.items.add(id=f"item {item}", count=item)
        data: bytes = made.SerializeToString(deterministic=True)
        return data

    numbers = range(1, calls + 1)
    records += [Call(call=n, time_ns=next(time), method="/odd.v1.Odd/Talk", kind="bidi") for n in numbers]
    for index in range(orders):
        payload = Order(words="words", number=index).SerializeToString()
        records += [Message(call=n, direction=0, index=index, time_ns=next(time), payload=payload) for n in numbers]
        for n in numbers:
            said = index + 1 if n == wrong and index == orders - 1 else index
            records.append(Message(call=n, direction=1, index=index, time_ns=next(time), payload=answer(said)))
    records += [HalfClose(call=n, time_ns=next(time)) for n in numbers]
    records += [Status(call=n, time_ns=next(time), code=0) for n in numbers]
    return write_capture(path, [Meta(created_ns=0, clock_ns=0), *records])  # type: ignore[list-item]


ORDERS = [
    [],
    ["--order", "timed", "--speed", "50x"],
    ["--order", "asap"],
    ["--concurrency", "1"],
    ["--concurrency", "3"],
    ["--order", "asap", "--concurrency", "2"],
]


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_every_order_finds_the_same(order: list[str], tmp_path: Path) -> None:
    right = talk(tmp_path / "right.cap", calls=5, orders=20, step_ns=1_000_000)
    wrong = talk(tmp_path / "wrong.cap", calls=5, orders=20, step_ns=1_000_000, wrong=4)
    done = replay(right, wrong, "--spawn", odd_command(), *order, "--json", "-")
    assert done.returncode == 1, done.stderr
    passed, failed = json.loads(done.stdout)["captures"]
    assert passed["counts"]["identical"] == 5 * 21
    assert {verdict: n for verdict, n in failed["counts"].items() if n} == {"identical": 5 * 21 - 1, "different": 1}
    assert (failed["first_divergence"]["call"], failed["first_divergence"]["index"]) == (4, 19)


def test_a_divergence_after_a_race_is_told_with_the_flag_and_survives_every_order(tmp_path: Path) -> None:
    capture = talk(tmp_path / "wrong.cap", calls=2, orders=1, wrong=2)
    once = replay(capture, "--spawn", odd_command())
    assert once.returncode == 1
    text = " ".join(once.stdout.split())
    assert "racy: requests of calls 1 and 2 (events 2 to 5) crossed on the wire" in text
    assert "--attempts 4 tries the other legal orders" in text
    often = replay(capture, "--spawn", odd_command(), "--attempts", "4", "--json", "-")
    assert often.returncode == 1
    assert "3 orders were tried" in " ".join(often.stderr.split())
    assert json.loads(often.stdout)["captures"][0]["attempts"] == 3


def test_timed_is_not_faster_than_the_recording(tmp_path: Path) -> None:
    """24 events, 50 ms from one to the next: 1.15 s, or a quarter of it at four times the speed."""
    capture = talk(tmp_path / "slow.cap", calls=2, orders=5, step_ns=50_000_000)
    seconds = {}
    for speed in ("1", "4x"):
        done = replay(capture, "--spawn", odd_command(), "--order", "timed", "--speed", speed, "--json", "-")
        assert done.returncode == 0, done.stderr
        seconds[speed] = json.loads(done.stdout)["captures"][0]["seconds"]
    requests_end = 24 * 0.05  # the last request event
    assert seconds["1"] >= requests_end
    assert requests_end / 4 <= seconds["4x"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--speed", "2"], "--speed is for --order timed"),
        (["--order", "timed", "--speed", "0"], "not a number above 0"),
        (["--order", "timed", "--speed", "inf"], "not a number above 0"),
        (["--clock", "recorded", "--order", "asap"], "needs one order over all calls"),
        (["--clock", "recorded", "--concurrency", "2"], "needs one order over all calls"),
        (["--order", "any"], "is not one of"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(arguments: list[str], why: str, odd_capture: Path) -> None:
    done = replay(odd_capture, "--spawn", odd_command(), *arguments)
    assert done.returncode == 2
    assert why in " ".join(done.stderr.split())
