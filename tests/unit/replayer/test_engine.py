"""The engine against a client made of Python: what goes out when, what is waited for, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import pytest

from capture_recorder.capfile import Entry
from capture_recorder.capfile.records import (
    Call,
    Cancel,
    HalfClose,
    Headers,
    Message,
    Record,
    Redacted,
    Status,
)
from capture_replayer import engine
from capture_replayer.client import Answered
from capture_replayer.compare import Answer, HeadersCame, MessageCame, StatusCame
from capture_replayer.engine import Options, Outcome, carry_out
from capture_replayer.plan import plan
from helpers.captures import unary

OK = StatusCame(0, "", ())
Script = Callable[[str, list[bytes]], Iterable[Answer]]
"""What the server does at an event of a call (open, message, half_close), given the requests so far."""


class FakeClient:
    """Writes down all that goes out, and answers by a script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.log: list[tuple[str, object]] = []
        self.opened: list[tuple[str, Sequence[tuple[str, str | bytes]], float | None]] = []
        self.swallow_sends = False

    def open(
        self, method: str, metadata: Sequence[tuple[str, str | bytes]], seconds: float | None, answered: Answered
    ) -> FakeCall:
        self.log.append(("open", method))
        self.opened.append((method, metadata, seconds))
        return FakeCall(self, answered)

    def ask(
        self,
        method: str,
        metadata: Sequence[tuple[str, str | bytes]],
        seconds: float | None,
        answered: Answered,
        payload: bytes,
    ) -> FakeCall:
        call = self.open(method, metadata, seconds, answered)
        self.log.append(("send", payload))
        call.requests.append(payload)
        call.react("message")
        self.log.append(("half_close", None))
        call.react("half_close")
        return call

    async def close(self) -> None:
        self.log.append(("close", None))


class FakeCall:
    def __init__(self, client: FakeClient, answered: Answered) -> None:
        self.client = client
        self.answered = answered
        self.requests: list[bytes] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.react("open")

    def react(self, what: str) -> None:
        answers = list(self.client.script(what, self.requests))

        async def tell() -> None:
            for answer in answers:
                await self.answered(answer)

        task = asyncio.ensure_future(tell())
        self.tasks.add(task)

    async def send(self, payload: bytes) -> None:
        if self.client.swallow_sends:
            await asyncio.Event().wait()
        self.client.log.append(("send", payload))
        self.requests.append(payload)
        self.react("message")

    async def half_close(self) -> None:
        self.client.log.append(("half_close", None))
        self.react("half_close")

    def cancel(self) -> None:
        self.client.log.append(("cancel", None))


def bidi(*events: tuple[str, object], kind: str = "bidi") -> list[Record]:
    """A call by its events: ("q", bytes), ("a", bytes), ("half_close", None), ("cancel", why), ("status", code)."""
    made: list[Record] = [Call(call=1, time_ns=0, method="/s/M", kind=kind)]
    counts = {"q": 0, "a": 0}
    for now, (what, value) in enumerate(events, 1):
        if what in counts:
            assert isinstance(value, bytes)
            direction = int(what == "a")
            made.append(Message(call=1, direction=direction, index=counts[what], time_ns=now, payload=value))
            counts[what] += 1
        elif what == "half_close":
            made.append(HalfClose(call=1, time_ns=now))
        elif what == "cancel":
            made.append(Cancel(call=1, time_ns=now, why=str(value)))
        elif what == "status":
            assert isinstance(value, int)
            made.append(Status(call=1, time_ns=now, code=value))
    return made


def run(records: Sequence[Record], client: FakeClient, options: Options | None = None) -> Outcome:
    entries = [Entry(seq, 0, 0, record) for seq, record in enumerate(records, 1)]
    return asyncio.run(carry_out(plan(entries), client, options or Options(timeout=0.2), lambda _step: None))


def counts(outcome: Outcome) -> dict[str, int]:
    total: dict[str, int] = {}
    for call in outcome.calls.values():
        for verdict, n in call.comparison.counts.items():
            total[verdict] = total.get(verdict, 0) + n
    return total


def echo(what: str, requests: list[bytes]) -> Iterable[Answer]:
    if what == "message":
        return [MessageCame(requests[-1])]
    return [OK] if what == "half_close" else []


LOCKSTEP = bidi(("q", b"1"), ("a", b"1"), ("q", b"2"), ("a", b"2"), ("half_close", None), ("status", 0))


def test_a_request_goes_out_when_what_was_sent_before_it_has_come_back() -> None:
    client = FakeClient(echo)
    outcome = run(LOCKSTEP, client)
    assert counts(outcome) == {"identical": 3}
    assert [what for what, _ in client.log[:4]] == ["open", "send", "send", "half_close"]


def test_causality_holds_across_calls() -> None:
    """The second call was seen after the first one's answer, so it is opened after it."""
    order: list[str] = []

    def script(what: str, requests: list[bytes]) -> Iterable[Answer]:
        order.append(what)
        return [MessageCame(b"a"), OK] if what == "half_close" else []

    outcome = run([*unary(1, start=0), *unary(2, start=10)], FakeClient(script))
    assert counts(outcome) == {"identical": 4}
    assert order == ["open", "message", "half_close"] * 2


def test_a_message_that_never_comes_is_missing_within_the_time_limit() -> None:
    client = FakeClient(lambda what, requests: echo(what, requests) if requests != [b"1", b"2"] else [])
    outcome = run(LOCKSTEP, client, Options(timeout=0.05))
    assert counts(outcome) == {"identical": 1, "missing": 2}
    assert [(s.call, s.event, s.since) for s in outcome.stalls] == [(1, 5, 4)]


def test_a_dropped_answer_does_not_hide_that_the_rest_is_as_recorded() -> None:
    def drops_the_first(what: str, requests: list[bytes]) -> Iterable[Answer]:
        return [] if requests == [b"1"] and what == "message" else echo(what, requests)

    outcome = run(LOCKSTEP, FakeClient(drops_the_first), Options(timeout=0.05))
    assert counts(outcome) == {"identical": 2, "missing": 1}


def test_a_dead_target_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record for call in range(1, 21) for record in unary(call, start=call * 10)]
    client = FakeClient(lambda what, requests: [])
    outcome = run(records, client, Options(timeout=0.02))
    assert outcome.gave_up
    assert counts(outcome) == {"missing": 40}
    assert len(outcome.stalls) == engine.GIVE_UP_AFTER
    assert len(client.opened) == engine.GIVE_UP_AFTER


def test_a_target_that_still_answers_others_is_not_given_up() -> None:
    records = [record for call in range(1, 12) for record in unary(call, b"%d" % call, start=call * 10)]

    def script(what: str, requests: list[bytes]) -> Iterable[Answer]:
        odd = requests and int(requests[0]) % 2
        return [MessageCame(b"a"), OK] if what == "half_close" and odd else []

    outcome = run(records, FakeClient(script), Options(timeout=0.02))
    assert not outcome.gave_up
    assert counts(outcome) == {"identical": 12, "missing": 10}


def test_a_cancel_lands_where_it_landed_and_what_follows_is_not_held_against_the_target() -> None:
    def floods_after_the_cancel(what: str, requests: list[bytes]) -> Iterable[Answer]:
        return [MessageCame(b"1"), MessageCame(b"tick"), MessageCame(b"tick")] if what == "message" else []

    client = FakeClient(floods_after_the_cancel)
    outcome = run(bidi(("q", b"1"), ("a", b"1"), ("cancel", "client")), client)
    assert counts(outcome) == {"identical": 1}
    assert [what for what, _ in client.log][:3] == ["open", "send", "cancel"]


def test_a_call_that_was_left_open_is_left_open_and_not_waited_for() -> None:
    client = FakeClient(echo)
    outcome = run(
        bidi(("q", b"1"), ("a", b"1"), ("half_close", None)),
        FakeClient(lambda w, r: echo(w, r) if w != "half_close" else []),
    )
    assert counts(outcome) == {"identical": 1}
    assert outcome.stalls == []
    assert client.log == []


def test_an_extra_message_on_a_call_left_open_counts_if_the_recording_would_have_shown_it() -> None:
    def one_more(what: str, requests: list[bytes]) -> Iterable[Answer]:
        return [MessageCame(b"1"), MessageCame(b"2")] if what == "message" else []

    left_open = bidi(("q", b"1"), ("a", b"1"))
    assert counts(run(left_open, FakeClient(one_more))) == {"identical": 1}
    later = [*left_open, Call(call=2, time_ns=10**9, method="/s/M", kind="bidi")]
    assert counts(run(later, FakeClient(one_more))) == {"identical": 1, "extra": 1}


def test_a_send_that_does_not_go_through_is_a_stall() -> None:
    client = FakeClient(echo)
    client.swallow_sends = True
    outcome = run(LOCKSTEP, client, Options(timeout=0.05))
    assert counts(outcome) == {"missing": 3}
    assert [(s.call, s.event) for s in outcome.stalls] == [(1, 2)]


def test_a_flood_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "FLOOD", 50)

    def flood(what: str, requests: list[bytes]) -> Iterable[Answer]:
        return [MessageCame(b"x")] * 5000 if what == "half_close" else []

    client = FakeClient(flood)
    outcome = run(unary(1), client, Options(timeout=0.2))
    assert ("cancel", None) in client.log
    assert outcome.calls[1].comparison.counts["extra"] > 50


def test_a_server_that_is_ahead_is_held_back_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "AHEAD", 10)
    n = 500
    payloads = [b"%d" % i for i in range(n)]
    seen = []

    def stream(what: str, requests: list[bytes]) -> Iterable[Answer]:
        return [*map(MessageCame, payloads), OK] if what == "half_close" else []

    records = bidi(("q", b"q"), *(("a", payload) for payload in payloads), ("status", 0), kind="server_streaming")
    client = FakeClient(stream)
    entries = [Entry(seq, 0, 0, record) for seq, record in enumerate(records, 1)]
    outcome = asyncio.run(carry_out(plan(entries), client, Options(timeout=1), seen.append))
    assert counts(outcome) == {"identical": n + 1}
    assert len(seen) == n + 3


def test_metadata_goes_out_as_recorded_but_for_what_is_not_ours_to_send() -> None:
    call = Call(
        call=1,
        time_ns=0,
        method="/s/M",
        kind="bidi",
        metadata=(
            ("user-agent", b"grpc-go"),
            ("grpc-accept-encoding", b"gzip"),
            ("tenant", b"a"),
            ("tenant", b"b"),
            ("telemetry", b"t"),
            ("x-bin", b"\x00\xff"),
            ("authorization", Redacted(10, b"12345678")),
            ("x-api-key", Redacted(10, b"12345678")),
        ),
    )
    client = FakeClient(echo)
    outcome = run([call], client, Options(timeout=0.1, metadata=(("x-api-key", "mine"), ("tenant", "c"))))
    assert client.opened[0][1] == [("telemetry", b"t"), ("x-bin", b"\x00\xff"), ("x-api-key", "mine"), ("tenant", "c")]
    assert outcome.withheld == {"authorization"}


@pytest.mark.parametrize(("left", "seconds"), [(None, None), (50_000_000, 0.2), (3_600_000_000_000, 3600.0)])
def test_a_deadline_goes_out_and_is_never_shorter_than_one_wait(left: int | None, seconds: float | None) -> None:
    client = FakeClient(echo)
    run([Call(call=1, time_ns=0, method="/s/M", kind="bidi", time_left_ns=left)], client)
    assert client.opened[0][2] == seconds


def test_headers_are_waited_for_where_the_server_sent_them_by_itself() -> None:
    records = bidi(("q", b"1"), ("a", b"1"), ("half_close", None), ("status", 0))
    records.insert(1, Headers(call=1, time_ns=0, metadata=(("a", b"1"),)))

    def script(what: str, requests: list[bytes]) -> Iterable[Answer]:
        return [HeadersCame((("a", b"1"),))] if what == "open" else echo(what, requests)

    assert counts(run(records, FakeClient(script))) == {"identical": 3}
    assert counts(run(records, FakeClient(echo), Options(timeout=0.05))) == {"identical": 2, "missing": 1}


def test_an_early_end_is_not_waited_past() -> None:
    client = FakeClient(lambda what, requests: [StatusCame(14, "gone", ())] if what == "message" else [])
    outcome = run(LOCKSTEP, client, Options(timeout=30))
    assert counts(outcome) == {"missing": 2, "different": 1}
