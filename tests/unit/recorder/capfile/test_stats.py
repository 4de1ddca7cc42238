"""Figures of messages: what is counted, what is an answer, and that a quantile is one."""

from __future__ import annotations

import random

import pytest

from capture_recorder.capfile import Entry
from capture_recorder.capfile.records import Call, Message, Record, Status
from capture_recorder.capfile.stats import Histogram, stats


def entries(records: list[Record]) -> list[Entry]:
    return [Entry(seq, 0, 0, record) for seq, record in enumerate(records, 1)]


def message(call: int, direction: int, t: int, size: int = 1) -> Message:
    return Message(call=call, direction=direction, index=0, time_ns=t, payload=bytes(size))


def test_what_is_counted() -> None:
    found = stats(
        entries([
            Call(call=1, time_ns=0, method="/s/A", kind="bidi"),
            Call(call=2, time_ns=0, method="/s/A", kind="bidi"),
            message(1, 0, 10, 100),
            message(2, 0, 15, 3),
            message(1, 1, 40, 5),  # 30 after what was asked in call 1
            message(1, 1, 90, 0),  # nothing was asked anew: no answer
            message(1, 0, 100, 100),
            message(1, 1, 107, 1),
            message(2, 1, 115),
            Status(call=1, time_ns=200, code=0),
            message(1, 1, 300),  # after its end: no recorder writes that
        ])
    )  # fmt: skip
    assert found.calls == {"/s/A": 2}
    asked, answered = found.flows["/s/A", 0], found.flows["/s/A", 1]
    assert (asked.sizes.count, asked.sizes.total, asked.sizes.least, asked.sizes.most) == (3, 203, 3, 100)
    assert (answered.sizes.count, answered.sizes.total, answered.sizes.least) == (4, 7, 0)
    assert (asked.gaps.count, asked.gaps.total) == (1, 90)
    assert (answered.gaps.count, answered.gaps.total) == (2, 67)
    assert [(a.took_ns, a.call, a.request, a.response) for a in found.slowest] == [
        (100, 2, 4, 9),
        (30, 1, 3, 5),
        (7, 1, 7, 8),
    ]
    assert found.answers.count == 3


def test_the_slowest_are_kept() -> None:
    rng = random.Random(1)
    records: list[Record] = [Call(call=1, time_ns=0, method="/s/A", kind="bidi")]
    took, t = [], 0
    for _ in range(100):
        records.append(message(1, 0, t))
        took.append(rng.randrange(1_000_000))
        t += took[-1]
        records.append(message(1, 1, t))
    assert [answer.took_ns for answer in stats(entries(records), 7).slowest] == sorted(took, reverse=True)[:7]
    assert stats(entries(records), 0).slowest == []


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99, 1.0])
def test_a_quantile_is_at_most_twice_too_large(share: float) -> None:
    rng = random.Random(2)
    values = sorted(rng.randrange(1, 1 << rng.randrange(1, 30)) for _ in range(999))
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    true = values[max(0, round(share * len(values)) - 1)]
    assert true <= histogram.quantile(share) <= 2 * true
    assert (histogram.least, histogram.most, histogram.total) == (values[0], values[-1], sum(values))


def test_of_nothing() -> None:
    assert stats([]).answers.quantile(0.5) == 0
