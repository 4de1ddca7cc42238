"""A plan is the recorded order: the client's doing as steps, the server's as what is awaited."""

from __future__ import annotations

from capture_recorder.capfile import Entry
from capture_recorder.capfile.records import Call, Cancel, HalfClose, Headers, Message, Record, Status
from capture_replayer.plan import Do, Expect, Step, plan
from helpers.captures import ONE_OF_EACH, unary


def entries(records: list[Record]) -> list[Entry]:
    return [Entry(seq, seq * 100, 50, record) for seq, record in enumerate(records, 1)]


def shape(steps: list[Step]) -> list[tuple[str, int, str]]:
    return [(type(step).__name__, step.seq, step.event.NAME) for step in steps]


def test_the_order_is_the_recorded_one_and_what_is_no_event_is_left_out() -> None:
    assert shape(list(plan(entries(list(ONE_OF_EACH))))) == [
        ("Do", 3, "open"),
        ("Expect", 4, "headers"),
        ("Do", 5, "message"),
        ("Expect", 6, "message"),
        ("Do", 7, "half_close"),
        ("Expect", 8, "status"),
        ("Do", 9, "open"),
        ("Do", 10, "cancel"),
    ]


def test_a_single_request_takes_the_half_close_with_it() -> None:
    for kind, ends in (("unary", True), ("server_streaming", True), ("client_streaming", False), ("bidi", False)):
        records: list[Record] = [
            Call(call=1, time_ns=0, method="/s/M", kind=kind),
            Message(call=1, direction=0, index=0, time_ns=0, payload=b""),
        ]
        assert [step.ends_requests for step in plan(entries(records)) if isinstance(step, Do)] == [False, ends]


def test_calls_can_be_chosen() -> None:
    records = [*unary(1), *unary(2), *unary(3)]
    assert [step.event.call for step in plan(entries(records), {1, 3})] == [1] * 4 + [3] * 4


def test_a_plan_is_lazy() -> None:
    taken = []

    def endless():  # type: ignore[no-untyped-def]
        for entry in entries(unary(1)):
            taken.append(entry)
            yield entry

    steps = plan(endless())
    next(steps)
    assert len(taken) == 1


def test_the_kinds_of_step() -> None:
    kinds = {type(step.event): type(step) for step in plan(entries(list(ONE_OF_EACH)))}
    assert {cls for cls, step in kinds.items() if step is Expect} <= {Headers, Message, Status}
    assert {cls for cls, step in kinds.items() if step is Do} <= {Call, Message, HalfClose, Cancel}
