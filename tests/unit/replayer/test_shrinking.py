"""Parts of a capture, fields of a message, and delta debugging over them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_recorder.capfile import Entry
from capture_recorder.capfile.records import Call, Cancel, HalfClose, Headers, Message, Record, Status
from capture_replayer.ddmin import ddmin
from capture_replayer.parts import Part, assemble, fields_of, parts, with_openings, without
from capture_replayer.plan import Coherence
from helpers.captures import unary
from helpers.odd_proto import Answer


def message(call: int, direction: int, index: int, payload: bytes = b"") -> Message:
    return Message(call=call, direction=direction, index=index, time_ns=0, payload=payload)


RECORDS: list[Record] = [
    Call(call=1, time_ns=0, method="/s/M", kind="bidi"),
    Headers(call=1, time_ns=0),
    message(1, 0, 0, b"first"),
    *unary(2),
    message(1, 1, 0, b"a"),
    message(1, 1, 1, b"b"),
    message(1, 0, 1, b"second"),
    message(1, 1, 2, b"c"),
    HalfClose(call=1, time_ns=0),
    Status(call=1, time_ns=0, code=0),
    Call(call=3, time_ns=0, method="/s/M", kind="bidi"),
    Cancel(call=3, time_ns=0),
]
ENTRIES = [Entry(seq, 0, 0, record) for seq, record in enumerate(RECORDS, 1)]
PARTS = parts(ENTRIES)


def test_a_part_is_a_request_event_with_what_answers_it() -> None:
    assert [
        Part(1, (1, 2), opens=True),
        Part(1, (3, 8, 9)),
        Part(2, (4, 5, 6, 7), opens=True),
        Part(1, (10, 11)),
        Part(1, (12, 13)),
        Part(3, (14,), opens=True),
        Part(3, (15,)),
    ] == PARTS


@given(st.sets(st.integers(0, len(PARTS) - 1)))
def test_any_choice_of_parts_is_a_capture_that_can_be_replayed(chosen: set[int]) -> None:
    kept = with_openings([PARTS[i] for i in chosen], PARTS)
    made = list(assemble(ENTRIES, kept))
    coherence = Coherence()
    assert [coherence.fault(seq, record) for seq, record in enumerate(made)] == [None] * len(made)  # type: ignore[arg-type]
    for call in (1, 2, 3):
        for direction in (0, 1):
            indexes = [r.index for r in made if isinstance(r, Message) and (r.call, r.direction) == (call, direction)]
            assert indexes == list(range(len(indexes)))


def test_a_payload_can_be_another() -> None:
    made = list(assemble(ENTRIES, [PARTS[0], PARTS[3]], {10: b"other"}))
    assert [r.payload for r in made if isinstance(r, Message)] == [b"other", b"c"]


def run_ddmin(items: Sequence[int], needed: set[int]) -> tuple[list[int], int]:
    asked: list[tuple[int, ...]] = []

    async def fails(some: list[int]) -> bool:
        asked.append(tuple(some))
        assert some == sorted(some), "the order is kept"
        return needed <= set(some)

    found = asyncio.run(ddmin(items, fails))
    assert len(asked) == len(set(asked)), "nothing is asked twice"
    return found, len(asked)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=4))))
def test_what_is_left_is_what_is_needed(case: tuple[int, set[int]]) -> None:
    size, needed = case
    assert run_ddmin(range(size), needed)[0] == sorted(needed)


def test_two_of_a_thousand_are_found_in_few_questions() -> None:
    found, questions = run_ddmin(range(1_000), {137, 731})
    assert found == [137, 731]
    assert questions < 80


def test_nothing_is_left_where_nothing_is_needed() -> None:
    assert run_ddmin(range(10), set()) == ([], 1)
    assert run_ddmin([], set()) == ([], 0)


ANSWER = Answer(echo="e", number=5, labels={"x": "1", "y": "2"})
ANSWER.items.add(id="a", count=1)
ANSWER.items.add(id="b", count=2)
PAYLOAD: bytes = ANSWER.SerializeToString(deterministic=True)


def test_a_field_left_out_of_a_message_within_a_message() -> None:
    outer = fields_of(PAYLOAD)
    assert len(outer) == 6
    items = [place for place in outer if PAYLOAD[place[0][0]] == 7 << 3 | 2]
    inner = fields_of(PAYLOAD, items[1])
    smaller = Answer.FromString(without(PAYLOAD, [inner[0]]))
    assert [(item.id, item.count) for item in smaller.items] == [("a", 1), ("", 2)]
    assert [item.id for item in Answer.FromString(without(PAYLOAD, [items[0]])).items] == ["b"]
    both = Answer.FromString(without(PAYLOAD, [items[0], inner[1], outer[0]]))
    assert (both.echo, [(item.id, item.count) for item in both.items]) == ("", [("b", 0)])
    assert without(PAYLOAD, []) == PAYLOAD
    assert without(PAYLOAD, outer) == b""


@pytest.mark.parametrize("payload", [b"\xff", b"\x0a\x05abc"])
def test_what_is_no_message_has_no_fields(payload: bytes) -> None:
    assert fields_of(payload) == []


def test_text_that_is_no_message_has_no_fields_within_it() -> None:
    payload: bytes = Answer(echo="\x0a\x7f").SerializeToString()
    (place,) = fields_of(payload)
    assert fields_of(payload, place) == []
