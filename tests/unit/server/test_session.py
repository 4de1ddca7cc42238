"""Every row of ShardRuntime's table, and the order between the rows."""

from __future__ import annotations

import itertools
import zlib

import pytest

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb
from capture_server import session as sessions
from capture_server.build import bundle, chunk, decode, open_request, tensor
from capture_server.session import Session, do_open, do_other, do_work, look_at

NOW = 1_000
X = [tensor("t", b"x")]


def opened(session_id: str = "s", **opening: object) -> Session:
    session = Session(session_id)
    do_open(session, open_request(session_id, **opening).open)  # type: ignore[arg-type]
    return session


def work(session: Session, request: pb.SessionRequest, now: int = NOW) -> pb.SessionResponse:
    looked = look_at(session, request)
    assert looked is not None
    return do_work(session, looked, now).response


def code(response: pb.SessionResponse) -> str:
    if response.WhichOneof("kind") != "status":
        return str(response.WhichOneof("kind"))
    return pb.ErrorCode.Name(response.status.error.code).removeprefix("ERROR_CODE_")


# --- open -------------------------------------------------------------------------------------------------------------


def test_open_echoes_what_it_was_asked() -> None:
    flow = pb.FlowControl(credits_granted=3, max_inflight_chunks=4, max_chunk_bytes=5, max_prefill_chunk_tokens=6)
    request = open_request("s", epoch=9, flow=flow).open
    request.accepted_compression.append(pb.COMPRESSION_ZSTD)
    accepted = do_open(Session("s"), request).response.accepted
    assert (accepted.route_session_id, accepted.route_epoch, accepted.flow_control) == ("s", 9, flow)
    assert list(accepted.accepted_compression) == [pb.COMPRESSION_ZSTD]
    assert accepted.fingerprint == request.fingerprint


def test_the_default_flow_control_is_a_question_of_presence_and_not_of_truth() -> None:
    absent = do_open(Session("s"), open_request("s").open).response.accepted
    present = do_open(Session("s"), open_request("s", flow=pb.FlowControl()).open).response.accepted
    assert absent.flow_control == pb.FlowControl(
        credits_granted=16, max_inflight_chunks=16, max_chunk_bytes=4194304, max_prefill_chunk_tokens=512
    )
    assert present.HasField("flow_control")
    assert present.flow_control == pb.FlowControl()
    assert list(absent.accepted_compression) == [pb.COMPRESSION_NONE]
    assert code(work(opened(flow=pb.FlowControl()), chunk("s", "w", 1, X))) == "FLOW_CONTROL_VIOLATION"


def test_open_again_keeps_steps_and_cancellations_and_refuses_an_older_epoch() -> None:
    session = opened(epoch=5)
    work(session, chunk("s", "w", 1, X, epoch=5))
    sessions.cancel(session, "c", "no")
    assert code(do_open(session, open_request("s", epoch=4).open).response) == "EPOCH_STALE"
    assert session.epoch == 5
    assert code(do_open(session, open_request("s", epoch=6).open).response) == "accepted"
    assert code(work(session, chunk("s", "w", 1, X, epoch=6))) == "ack"
    assert code(work(session, chunk("s", "c", 1, X, epoch=6))) == "CANCELLED"


# --- the order of the rows --------------------------------------------------------------------------------------------

CORRUPT = [tensor("t", b"x", checksum=1)]
LARGE = [tensor("t", bytes(100))]
ROWS = (
    "UNSUPPORTED_SCHEMA",
    "SESSION_MISMATCH",
    "CANCELLED",
    "EPOCH_STALE",
    "DEADLINE_EXCEEDED",
    "ack",
    "credit",
    "large",
    "corrupt",
)
EXPECTED = {"credit": "FLOW_CONTROL_VIOLATION", "large": "FLOW_CONTROL_VIOLATION", "corrupt": "PAYLOAD_CORRUPT"}


def with_rows(rows: set[str]) -> pb.SessionResponse:
    """A chunk to which all of these rows apply."""
    flow = pb.FlowControl(credits_granted=0 if "credit" in rows else 9, max_chunk_bytes=10 if "large" in rows else 0)
    session = opened(epoch=5, flow=flow)
    if "CANCELLED" in rows:
        sessions.cancel(session, "w", "enough")
    if "ack" in rows:
        session.applied["w", 1] = None
    return work(
        session,
        chunk(
            "other" if "SESSION_MISMATCH" in rows else "s",
            "w",
            1,
            (LARGE if "large" in rows else X) + (CORRUPT if "corrupt" in rows else []),
            epoch=4 if "EPOCH_STALE" in rows else 5,
            deadline=NOW - 1 if "DEADLINE_EXCEEDED" in rows else 0,
            schema=pb.SCHEMA_VERSION_UNSPECIFIED if "UNSUPPORTED_SCHEMA" in rows else pb.SCHEMA_VERSION_1,
        ),
    )


@pytest.mark.parametrize("row", ROWS)
def test_each_row(row: str) -> None:
    assert code(with_rows({row})) == EXPECTED.get(row, row)


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(ROWS, 2)))
def test_of_two_rows_that_apply_the_first_decides(first: str, second: str) -> None:
    response = with_rows({first, second})
    assert code(response) == EXPECTED.get(first, first)
    assert response.status.error.retryable == (first == "credit")


def test_all_rows_at_once_and_none() -> None:
    assert code(with_rows(set(ROWS))) == ROWS[0]
    assert code(with_rows(set())) == "chunk"


# --- what is applied --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS)
def test_what_is_refused_costs_nothing_and_is_not_applied(row: str) -> None:
    session = opened(epoch=5, flow=pb.FlowControl(credits_granted=1, max_chunk_bytes=10))
    before = session.credits
    tensors = {"corrupt": CORRUPT, "large": LARGE}.get(row, X)
    stale = {"epoch": 4} if row == "EPOCH_STALE" else {"epoch": 5}
    late = {"deadline": 1} if row == "DEADLINE_EXCEEDED" else {}
    other = "other" if row == "SESSION_MISMATCH" else "s"
    if row in ("EPOCH_STALE", "DEADLINE_EXCEEDED", "SESSION_MISMATCH", "corrupt", "large"):
        assert code(work(session, chunk(other, "w", 1, tensors, **stale, **late))) not in ("chunk", "ack")  # type: ignore[arg-type]
        assert (session.credits, dict(session.applied)) == (before, {})


def test_a_chunk_comes_back_as_it_is_unknown_fields_too() -> None:
    request = chunk("s", "w", 1, [tensor("a", b"abc", parts=3), tensor("b", b"")])
    raw = request.SerializeToString() + b""
    odd = pb.SessionRequest.FromString(raw)
    odd.chunk.MergeFromString(b"\xfa\x07\x03odd")
    response = work(opened(), odd)
    assert response.chunk == odd.chunk
    assert b"odd" in response.SerializeToString(deterministic=True)


def test_a_step_is_of_its_work_item() -> None:
    session = opened()
    assert code(work(session, chunk("s", "a", 1, X))) == "chunk"
    assert code(work(session, chunk("s", "b", 1, X))) == "chunk"
    assert code(work(session, chunk("s", "a", 1, X))) == "ack"


def test_the_deadline_is_held_against_the_clock_that_is_given() -> None:
    for now, expected in ((499, "chunk"), (500, "chunk"), (501, "DEADLINE_EXCEEDED")):
        assert code(work(opened(), chunk("s", "w", 1, X, deadline=500), now)) == expected
    assert code(work(opened(), chunk("s", "w", 1, X, deadline=-5), 0)) == "DEADLINE_EXCEEDED"


def test_the_same_requests_give_the_same_bytes() -> None:
    def run() -> list[bytes]:
        session = opened()
        requests = [chunk("s", "w", i, [tensor("t", bytes(i * 100), parts=3)]) for i in range(5)]
        return [work(session, request).SerializeToString(deterministic=True) for request in requests]

    assert run() == run()


# --- decode -----------------------------------------------------------------------------------------------------------


def test_decode_answers_a_chunk_of_its_tensor() -> None:
    response = work(opened(epoch=7), decode("w", 4, tensor=X[0], deadline=NOW))
    envelope = response.chunk.envelope
    assert (envelope.phase, envelope.route_epoch, envelope.deadline_unix_nanos) == (pb.PHASE_DECODE, 7, NOW)
    assert envelope.position == pb.PositionSpan(first_position=104, token_count=1)
    made = response.chunk.bundle
    assert (made.bundle_version, made.architecture, made.boundary_point) == (
        1,
        pb.ARCHITECTURE_TYPE_DENSE,
        "pre_tail_residual",
    )
    assert list(made.tensors) == X


def test_decode_prefers_the_bundle_and_needs_one_or_the_other() -> None:
    sent = bundle(tensor("b", b"b"))
    assert work(opened(), decode("w", 4, tensor=X[0], bundle=sent)).chunk.bundle == sent
    assert code(work(opened(), decode("w", 4))) == "PAYLOAD_CORRUPT"
    assert code(work(opened(), decode("w", 4, tensor=CORRUPT[0]))) == "PAYLOAD_CORRUPT"


# --- everything else --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("has", "limit", "granted", "now"),
    [(1, 4, 2, 3), (1, 4, 9, 4), (6, 4, 1, 6), (1, 0, 100, 101), (2**32 - 1, 0, 5, 2**32 - 1)],
)
def test_credits_rise_and_never_above_what_may_be_in_flight(has: int, limit: int, granted: int, now: int) -> None:
    session = opened(flow=pb.FlowControl(credits_granted=has, max_inflight_chunks=limit, max_chunk_bytes=7))
    answer = do_other(session, pb.SessionRequest(flow_control=pb.FlowControl(credits_granted=granted)))
    assert answer.response.flow_control == pb.FlowControl(
        credits_granted=now, max_inflight_chunks=limit, max_chunk_bytes=7
    )
    assert session.credits == now


def test_cancel_of_a_work_item_and_of_the_session() -> None:
    session = opened()
    one = do_other(session, pb.SessionRequest(cancel=pb.CancelSignal(work_id="a", reason="why")))
    assert (one.ends, one.response.status.terminal, one.response.status.error.detail) == (False, False, "why")
    assert code(work(session, chunk("s", "b", 1, X))) == "chunk"
    every = do_other(session, pb.SessionRequest(cancel=pb.CancelSignal()))
    assert (every.ends, every.response.status.terminal, every.response.status.error.detail) == (True, True, "cancelled")
    assert code(work(session, chunk("s", "b", 2, X))) == "CANCELLED"
    assert not session.active


def test_release_and_an_unknown_kind_end_the_stream() -> None:
    released = do_other(opened(), pb.SessionRequest(release=pb.ReleaseRequest()))
    assert released.ends
    assert released.drops
    assert not released.response.status.HasField("error")
    for request in (pb.SessionRequest(), pb.SessionRequest.FromString(b"\xfa\x07\x03odd")):
        unknown = do_other(opened(), request)
        assert (unknown.ends, unknown.drops, code(unknown.response)) == (True, False, "INVALID_REQUEST")
        assert unknown.response.status.terminal


def test_newly_cancelled_is_counted() -> None:
    session = Session("s")
    assert [sessions.cancel(session, "a", "r") for _ in range(2)] == [1, 0]
    assert [sessions.cancel(session, "", "r") for _ in range(2)] == [1, 0]


def test_zlibs_checksum_is_not_castagnolis() -> None:
    content = b"123456789"
    assert code(work(opened(), chunk("s", "w", 1, [tensor("t", content, checksum=0xE3069283)]))) == "chunk"
    assert zlib.crc32(content) == 0xCBF43926
    bad = chunk("s", "w", 1, [tensor("t", content, checksum=0xCBF43926)])
    response = work(opened(), bad)
    assert code(response) == "PAYLOAD_CORRUPT"
    assert response.status.error.detail == "tensor 't': checksum of bytes 0 to 9: expected cbf43926, got e3069283"
    assert not response.status.error.retryable
