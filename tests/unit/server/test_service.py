"""The servicer and its store: shared state, changed atomically, and bounded; figures that are counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb
from capture_server.build import chunk, open_request, tensor
from capture_server.service import MAX_ID, ShardRuntime, self_check
from capture_server.store import CapacityExhausted, Store

X = [tensor("t", b"x")]


def stream(shard: ShardRuntime, *requests: pb.SessionRequest) -> list[pb.SessionResponse]:
    return list(shard.Session(iter(requests), None))


def kinds(responses: list[pb.SessionResponse]) -> list[str]:
    return [
        pb.ErrorCode.Name(r.status.error.code).removeprefix("ERROR_CODE_")
        if r.WhichOneof("kind") == "status"
        else str(r.WhichOneof("kind"))
        for r in responses
    ]


def test_two_streams_never_spend_the_last_credit_twice() -> None:
    for round_ in range(50):
        shard = ShardRuntime()
        name = f"s{round_}"
        flow = pb.FlowControl(credits_granted=1)
        assert kinds(stream(shard, open_request(name, flow=flow))) == ["accepted"]
        ready = threading.Barrier(4)
        spent: list[str] = []

        def spend(number: int, name: str = name, ready: threading.Barrier = ready, spent: list[str] = spent) -> None:
            def requests() -> Iterator[pb.SessionRequest]:
                yield chunk(name, "w", number, X)

            work = requests()
            ready.wait()
            spent += kinds([shard._handle(name, next(work)).response])  # noqa: B023 - joined within the round

        threads = [threading.Thread(target=spend, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(spent) == ["FLOW_CONTROL_VIOLATION"] * 3 + ["chunk"]


def test_state_outlives_the_stream() -> None:
    shard = ShardRuntime()
    assert kinds(stream(shard, open_request("s"), chunk("s", "w", 1, X))) == ["accepted", "chunk"]
    assert kinds(stream(shard, open_request("s"), chunk("s", "w", 1, X))) == ["accepted", "ack"]


def test_a_cancel_reaches_a_session_that_is_not_open_yet() -> None:
    shard = ShardRuntime()
    cancel: Callable[[str, str], int] = lambda session, work: (  # noqa: E731
        shard.Cancel(pb.CancelRequest(route_session_id=session, work_id=work), None).cancelled_work_items
    )
    assert [cancel("s", "a"), cancel("s", "a"), cancel("s", "b")] == [1, 0, 1]
    assert kinds(stream(shard, open_request("s"), chunk("s", "a", 1, X), chunk("s", "c", 1, X))) == [
        "accepted",
        "CANCELLED",
        "chunk",
    ]
    assert [cancel("t", ""), cancel("t", "")] == [1, 0]
    assert kinds(stream(shard, open_request("t"), chunk("t", "x", 1, X))) == ["accepted", "CANCELLED"]


def test_everything_before_an_open_fails_closed() -> None:
    others = (
        chunk("s", "w", 1, X),
        pb.SessionRequest(flow_control=pb.FlowControl(credits_granted=1)),
        pb.SessionRequest(release=pb.ReleaseRequest()),
        pb.SessionRequest(cancel=pb.CancelSignal()),
    )
    shard = ShardRuntime()
    assert kinds(stream(shard, *others)) == ["SESSION_NOT_OPEN"] * 4
    assert shard.Health(pb.HealthRequest(), None).active_sessions == 0
    assert kinds(stream(shard, pb.SessionRequest(), open_request("s"))) == ["INVALID_REQUEST"]


def test_release_says_whether_there_was_a_session() -> None:
    shard = ShardRuntime()
    request = pb.ReleaseRequest(route_session_id="s")
    assert not shard.Release(request, None).released
    shard.Cancel(pb.CancelRequest(route_session_id="s", work_id="w"), None)
    assert not shard.Release(request, None).released  # a cancellation alone is no session
    stream(shard, open_request("s"))
    assert shard.Release(request, None).released
    assert not shard.Release(request, None).released


def test_health_counts_what_there_is() -> None:
    shard = ShardRuntime(workers=4, store=Store(10))
    seen: list[pb.HealthReport] = []

    def health() -> pb.HealthReport:
        return shard.Health(pb.HealthRequest(), None)

    class Looking(Store):
        """Looks at the figures while a chunk is at work."""

    shard._clock = lambda: seen.append(health()) or 0  # type: ignore[func-returns-value]
    request = chunk("a", "w", 1, [tensor("t", bytes(1000))])
    stream(shard, open_request("a"), request)
    stream(shard, open_request("b"))
    (during,) = seen
    assert (during.queued_chunks, during.batch_occupancy) == (1, 0.25)
    assert during.resident_bytes == request.ByteSize()
    after = health()
    assert (after.active_sessions, after.queued_chunks, after.resident_bytes, after.kv_pressure) == (2, 0, 0, 0.2)
    shard.Cancel(pb.CancelRequest(route_session_id="a"), None)
    assert health().active_sessions == 1


def test_capability_is_validated_by_a_check_that_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    report = ShardRuntime().GetCapability(pb.CapabilityRequest(), None)
    assert report.validated
    assert report.validated_at_unix_nanos == 0
    monkeypatch.setattr("capture_server.service.crc32c", lambda data: 0xCBF43926)
    assert self_check() == (False, "the checksum is not Castagnoli's")
    assert not ShardRuntime().GetCapability(pb.CapabilityRequest(), None).validated


def test_the_number_of_sessions_is_bounded_and_idle_ones_go_first() -> None:
    store = Store(2)
    for name in ("a", "b"):
        with store.locked(name):
            pass
    store.attach("b")
    with store.locked("c") as session:
        assert session.session_id == "c"
    store.attach("c")
    with pytest.raises(CapacityExhausted), store.locked("d"):
        pass
    store.detach("b")
    with store.locked("d"):
        pass
    assert set(store._places) == {"c", "d"}


def test_when_every_session_has_a_stream_the_next_is_refused() -> None:
    shard = ShardRuntime(store=Store(1))
    held = shard.Session(iter([open_request("a")]), None)
    assert next(held).HasField("accepted")
    assert kinds(stream(shard, open_request("b"))) == ["CAPACITY_EXHAUSTED"]
    assert list(held) == []
    assert kinds(stream(shard, open_request("b"))) == ["accepted"]


def test_ids_that_are_too_long_keep_no_state() -> None:
    shard = ShardRuntime()
    long = "x" * (MAX_ID + 1)
    assert kinds(stream(shard, open_request(long))) == ["INVALID_REQUEST"]
    assert shard.Cancel(pb.CancelRequest(route_session_id=long), None).cancelled_work_items == 0
    assert shard._store._places == {}
