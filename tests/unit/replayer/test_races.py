"""Races in a plan, and the orders in which they can be had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from capture_recorder.capfile import Entry
from capture_recorder.capfile.records import Call, HalfClose, Message, Record, Status
from capture_replayer.plan import Do, Step, plan
from capture_replayer.races import Race, RaceFinder, Tried, in_order, next_choice


def events(*words: str) -> list[Record]:
    """`o1` opens call 1, `q1` is a request of it, `a1` an answer, `h1` its half-close, `s1` its status."""
    made: list[Record] = []
    for time, word in enumerate(words):
        call = int(word[1:])
        made.append(
            {
                "o": lambda c, t: Call(call=c, time_ns=t, method="/s/M", kind="bidi"),
                "q": lambda c, t: Message(call=c, direction=0, index=0, time_ns=t, payload=b""),
                "a": lambda c, t: Message(call=c, direction=1, index=0, time_ns=t, payload=b""),
                "h": lambda c, t: HalfClose(call=c, time_ns=t),
                "s": lambda c, t: Status(call=c, time_ns=t, code=0),
            }[word[0]](call, time)
        )
    return made


def steps(*words: str) -> list[Step]:
    return list(plan(Entry(seq, 0, 0, record) for seq, record in enumerate(events(*words), 1)))


def races(found: Iterable[Step]) -> list[Race]:
    finder = RaceFinder()
    for step in found:
        finder.look_at(step)
    finder.finish()
    return finder.races


def words(found: Sequence[Step]) -> str:
    return " ".join(("q" if isinstance(step, Do) else "a") + str(step.event.call) for step in found)


def test_requests_of_two_calls_without_an_answer_between_them_race() -> None:
    assert races(steps("o1", "q1", "a1", "q1", "o2", "q2", "a1", "a2")) == [Race(4, 6, (1, 2))]
    assert races(steps("o1", "q1", "a1", "o2", "q2", "a2")) == []
    assert races(steps("o1", "q1", "q1", "q1", "a1")) == [], "one call has its own order"
    assert races(steps("o1", "o2")) == [Race(1, 2, (1, 2))], "also at the end"


def test_an_order_lets_each_call_have_its_answers_first() -> None:
    raced = steps("o1", "q1", "a1", "q1", "o2", "q2", "a1", "a2", "q1", "a1")
    assert words(list(in_order(raced, {4: (1, 2)}))) == "q1 q1 a1 q1 a1 q2 q2 a2 q1 a1"
    assert words(list(in_order(raced, {4: (2, 1)}))) == "q1 q1 a1 q2 q2 a2 q1 a1 q1 a1"
    assert list(in_order(raced, {})) == raced
    assert list(in_order(raced, {99: (1, 2)})) == raced


def test_two_races_side_by_side_are_two() -> None:
    raced = steps("o1", "o2", "a1", "a2", "q1", "q2", "a1", "a2")
    assert races(raced) == [Race(1, 2, (1, 2)), Race(5, 6, (1, 2))]
    assert words(list(in_order(raced, {1: (2, 1), 5: (2, 1)}))) == "q2 a2 q1 a1 q2 a2 q1 a1"


def test_the_nearest_race_before_a_divergence_is_tried_first() -> None:
    found = [Race(1, 2, (1, 2)), Race(5, 6, (1, 2)), Race(9, 10, (1, 2))]
    tried: Tried = {()}
    seen = []
    choice = next_choice({}, found, 7, tried)
    while choice is not None:
        seen.append(dict(choice))
        choice = next_choice({}, found, 7, tried)
    assert seen == [{5: (1, 2)}, {5: (2, 1)}, {1: (1, 2)}, {1: (2, 1)}]


def test_a_race_of_many_calls_is_not_tried_for_ever() -> None:
    tried: Tried = {()}
    count = 0
    while next_choice({}, [Race(1, 9, tuple(range(9)))], 5, tried) is not None:
        count += 1
    assert count == 24


def test_a_race_in_words() -> None:
    assert str(Race(4, 6, (1, 2, 3))) == "requests of calls 1, 2 and 3 (events 4 to 6)"
