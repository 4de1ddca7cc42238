"""Which events are identical, different, missing or extra: exactly the verdict that says what the server did."""

from __future__ import annotations

import random
from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_recorder.capfile.records import Headers, Message, Redacted, Status
from capture_replayer.compare import (
    ALIGNED,
    Answer,
    Comparison,
    Expected,
    HeadersCame,
    MessageCame,
    StatusCame,
    align,
    difference,
    first_difference,
    metadata_difference,
)


def wanted(*payloads: bytes, code: int | None = 0) -> list[Expected]:
    events: list[Expected] = [
        Message(call=1, direction=1, index=i, time_ns=i, payload=payload) for i, payload in enumerate(payloads)
    ]
    return events if code is None else [*events, Status(call=1, time_ns=9, code=code)]


def came(*payloads: bytes, code: int | None = 0) -> list[Answer]:
    answers: list[Answer] = [MessageCame(payload) for payload in payloads]
    return answers if code is None else [*answers, StatusCame(code, "", ())]


def compare(expected: list[Expected], actual: list[Answer], *, extras: bool = True) -> Comparison:
    comparison = Comparison()
    for answer in actual:
        comparison.came(answer)
    for seq, event in enumerate(expected, 10):
        comparison.did(seq * 10)
        comparison.want(seq, event)
    comparison.finish(extras=extras)
    return comparison


A, B, C, X = b"aaaa", b"bbbb", b"cccc", b"xxxx"
CASES = {
    "all identical": (wanted(A, B), came(A, B), {"identical": 3}, []),
    "one byte otherwise": (wanted(A, B, C), came(A, b"bxbb", C), {"identical": 3, "different": 1}, [("different", 11)]),
    "one less, first": (wanted(A, B, C), came(B, C), {"identical": 3, "missing": 1}, [("missing", 10)]),
    "one less, middle": (wanted(A, B, C), came(A, C), {"identical": 3, "missing": 1}, [("missing", 11)]),
    "one less, last": (wanted(A, B, C), came(A, B), {"identical": 3, "missing": 1}, [("missing", 12)]),
    "one more, first": (wanted(A, B), came(X, A, B), {"identical": 3, "extra": 1}, [("extra", 10)]),
    "one more, middle": (wanted(A, B), came(A, X, B), {"identical": 3, "extra": 1}, [("extra", 11)]),
    "one more, last": (wanted(A, B), came(A, B, X), {"identical": 3, "extra": 1}, [("extra", 12)]),
    "one twice": (wanted(A, B), came(A, A, B), {"identical": 3, "extra": 1}, [("extra", 11)]),
    "another status": (wanted(A, code=0), came(A, code=13), {"identical": 1, "different": 1}, [("different", 11)]),
    "a stall": (wanted(A, B), came(A, code=None), {"identical": 1, "missing": 2}, [("missing", 11), ("missing", 12)]),
    "a status too many": (wanted(A, code=None), came(A), {"identical": 1, "extra": 1}, [("extra", 10)]),
    "nothing at all": (wanted(A), came(code=None), {"missing": 2}, [("missing", 10), ("missing", 11)]),
    "a status at once": (
        wanted(A),
        came(code=14),
        {"missing": 1, "different": 1},
        [("missing", 10), ("different", 11)],
    ),
    "all others": (wanted(A, B), came(C, X), {"identical": 1, "different": 2}, [("different", 10), ("different", 11)]),
}


@pytest.mark.parametrize(("expected", "actual", "counts", "found"), CASES.values(), ids=CASES)
def test_the_verdict_says_what_happened(
    expected: list[Expected], actual: list[Answer], counts: dict[str, int], found: list[tuple[str, int]]
) -> None:
    comparison = compare(expected, actual)
    assert {verdict: n for verdict, n in comparison.counts.items() if n} == counts
    assert [(finding.verdict, finding.seq) for finding in comparison.findings] == found


def test_an_extra_event_at_the_end_stands_after_the_last_one() -> None:
    comparison = compare(wanted(A, code=None), came(A, X, code=None))
    (finding,) = comparison.findings
    assert (finding.verdict, finding.seq, finding.after) == ("extra", 10, True)


def test_extras_at_an_open_end_do_not_count_but_those_before_do() -> None:
    comparison = compare(wanted(A, B, code=None), came(A, X, B, C, C, code=None), extras=False)
    assert [(finding.verdict, finding.seq) for finding in comparison.findings] == [("extra", 11)]


def test_a_finding_knows_the_request_that_led_to_it() -> None:
    assert [finding.cause for finding in compare(wanted(A, B), came(A, X)).findings] == [110]


def test_it_does_not_matter_who_is_first() -> None:
    expected, actual = wanted(A, B, C), came(A, C)
    rng = random.Random(0)
    for _ in range(50):
        comparison = Comparison()
        left, right = list(enumerate(expected)), list(actual)
        while left or right:
            if left and (not right or rng.random() < 0.5):
                comparison.want(*left.pop(0))
            else:
                comparison.came(right.pop(0))
        comparison.finish()
        assert comparison.counts == {"identical": 3, "missing": 1}


def test_what_is_identical_is_forgotten_at_once() -> None:
    comparison = Comparison()
    for i in range(10_000):
        comparison.want(i, Message(call=1, direction=1, index=i, time_ns=0, payload=b"%d" % i))
        comparison.came(MessageCame(b"%d" % i))
        assert comparison.backlog == 0
    assert comparison.counts == {"identical": 10_000}


@pytest.mark.parametrize("together", [True, False])
def test_a_long_call_gets_in_step_again_after_a_difference(together: bool) -> None:
    n = 5 * ALIGNED
    payloads = [b"%d" % i for i in range(n)]
    actual = came(*payloads[:5], *payloads[6:700], X, *payloads[700:900], X, *payloads[901:])
    comparison = Comparison()
    for seq, (event, answer) in enumerate(zip_longest(wanted(*payloads), actual)):
        comparison.want(seq, event)
        if together:
            comparison.came(answer)
    for answer in [] if together else actual:
        comparison.came(answer)
    comparison.finish()
    assert comparison.counts == {"identical": n - 1, "missing": 1, "extra": 1, "different": 1}
    assert [(f.verdict, f.seq) for f in comparison.findings] == [("missing", 5), ("extra", 700), ("different", 900)]


def test_sides_that_have_nothing_in_common_are_still_linear() -> None:
    n = 20 * ALIGNED
    comparison = compare(wanted(*[b"%d" % i for i in range(n)]), came(*[b"x%d" % i for i in range(n)]))
    assert comparison.counts == {"identical": 1, "different": n}


def test_findings_are_kept_up_to_a_number_and_all_counted() -> None:
    comparison = Comparison(keep=3)
    for seq, event in enumerate(wanted(*[A] * 10)):
        comparison.want(seq, event)
    comparison.finish()
    assert len(comparison.findings) == 3
    assert comparison.counts == {"missing": 11}


@given(st.lists(st.sampled_from([A, B, C]), max_size=8), st.lists(st.sampled_from([A, B, C]), max_size=8))
def test_an_alignment_has_everything_once_in_order_and_is_shortest(left: list[bytes], right: list[bytes]) -> None:
    pairs = align(wanted(*left, code=None), came(*right, code=None))
    assert [i for i, _ in pairs if i is not None] == list(range(len(left)))
    assert [j for _, j in pairs if j is not None] == list(range(len(right)))
    cost = sum(i is None or j is None or left[i] != right[j] for i, j in pairs)
    assert cost == _distance(left, right)


def _distance(a: list[bytes], b: list[bytes]) -> int:
    if not a or not b:
        return len(a) + len(b)
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(previous + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


@given(st.binary(max_size=300), st.integers(0, 300), st.integers(1, 255))
def test_the_first_difference(data: bytes, at: int, flip: int) -> None:
    if at < len(data):
        other = bytearray(data)
        other[at] ^= flip
        assert first_difference(data, bytes(other) + b"more") == at
    assert first_difference(data, data[:at]) == min(at, len(data))


def test_a_status_is_compared_in_all_its_parts() -> None:
    status = Status(call=1, time_ns=0, code=5, message="gone", metadata=(("a", b"1"),))
    assert difference(status, StatusCame(5, "gone", (("a", b"1"),))) is None
    parts = [
        difference(status, StatusCame(code, text, metadata))
        for code, text, metadata in [
            (6, "gone", (("a", b"1"),)),
            (5, "gong", (("a", b"1"),)),
            (5, "gone", (("a", b"2"),)),
            (5, "gone", ()),
            (5, "gone", (("a", b"1"), ("b", b"2"))),
        ]
    ]
    assert [part and part.part for part in parts] == ["code", "message", "metadata[a]", "metadata[a]", "metadata[b]"]
    assert parts[1] is not None
    assert parts[1].offset == 3


def test_the_message_of_an_ok_which_no_client_sees_does_not_count() -> None:
    assert difference(Status(call=1, time_ns=0, code=0, message="all well"), StatusCame(0, "", ())) is None


def test_metadata_keeps_the_order_of_a_keys_values() -> None:
    a, b = (("k", b"1"), ("k", b"2")), (("k", b"2"), ("k", b"1"))
    assert metadata_difference(a, b) is not None
    assert metadata_difference((*a, ("x", b"3")), (a[0], ("x", b"3"), a[1])) is None
    assert metadata_difference((("x", b""), ("y", b"")), (("y", b""), ("x", b""))) is not None


def test_of_a_redacted_value_the_length_is_compared() -> None:
    recorded = (("authorization", Redacted(6, b"12345678")),)
    assert metadata_difference(recorded, (("authorization", b"secret"),)) is None
    assert metadata_difference(recorded, (("authorization", b"longer secret"),)) is not None


@pytest.mark.parametrize(
    ("recorded", "replayed", "counts"),
    [
        ((("a", b"1"),), (("a", b"1"),), {"identical": 1}),
        ((("a", b"1"),), (), {"different": 1}),
        ((("a", b"1"),), None, {"missing": 1}),
        (None, (("a", b"1"),), {"extra": 1}),
        (None, (), {}),
        (None, None, {}),
    ],
)
def test_headers(recorded: object, replayed: object, counts: dict[str, int]) -> None:
    comparison = Comparison()
    if recorded is not None:
        comparison.want(3, Headers(call=1, time_ns=0, metadata=recorded))  # type: ignore[arg-type]
    if replayed is not None:
        comparison.came(HeadersCame(replayed))  # type: ignore[arg-type]
    comparison.finish()
    assert dict(comparison.counts) == counts
