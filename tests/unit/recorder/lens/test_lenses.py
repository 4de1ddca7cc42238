"""What the lenses see: kinds, identities, error codes, and checksums recomputed on their own."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from crc32c import crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb
from capture_recorder import lens
from capture_recorder.lens import general, shard_runtime
from capture_server.build import chunk, decode, open_request, tensor

METHOD = "/shard_runtime.v1.ShardRuntime/Session"


def changed(**changes: Any) -> pb.NamedTensor:
    made = tensor("t", b"0123456789", parts=2)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def moved(at: int) -> pb.NamedTensor:
    made = tensor("t", b"0123456789", parts=2)
    made.fragments[0].byte_offset = at  # builders put the last fragment first
    return made


BOMB = tensor("t", bytes(1 << 20), compression=pb.COMPRESSION_ZSTD)
BOMB.total_bytes = 10
MANY_BOMBS = tensor("t", bytes(1 << 20), compression=pb.COMPRESSION_ZSTD)
MANY_BOMBS.fragments.extend([MANY_BOMBS.fragments[0]] * 50)
NO_FRAME = tensor("t", b"x", compression=pb.COMPRESSION_ZSTD)
NO_FRAME.fragments[0].payload = b"nothing"
CUT = tensor("t", b"x" * 1000, compression=pb.COMPRESSION_ZSTD)
CUT.fragments[0].payload = CUT.fragments[0].payload[:-3]
UNDECLARED = tensor("t", b"x")
UNDECLARED.checksum.value = b""
WRONG_ALGORITHM = tensor("t", b"x")
WRONG_ALGORITHM.checksum.algorithm = pb.CHECKSUM_ALGORITHM_UNSPECIFIED


@pytest.mark.parametrize(
    ("sample", "verdict", "why"),
    [
        (tensor("t", b"0123456789", parts=3), "ok", ""),
        (tensor("t", b""), "ok", ""),
        (tensor("t", bytes(5000), parts=3, compression=pb.COMPRESSION_ZSTD), "ok", ""),
        (tensor("t", b"abc", checksum=zlib.crc32(b"abc")), "zlib", "this is zlib's CRC-32, not CRC-32C"),
        (tensor("t", b"abc", checksum=1), "mismatch", f"declared 00000001, computed {crc32c(b'abc'):08x}"),
        (moved(6), "gap", "bytes 5 to 6 are missing"),
        (moved(4), "overlap", "bytes 4 to 5 twice"),
        (changed(total_bytes=12), "short", "10 of 12 bytes"),
        (changed(total_bytes=9), "beyond", "10 bytes of 9"),
        (UNDECLARED, "missing", "no checksum is declared"),
        (WRONG_ALGORITHM, "mismatch", "the algorithm is declared as 0, not as CRC32C"),
        (BOMB, "broken", "a fragment expands to more than the tensor"),
        (MANY_BOMBS, "broken", "a fragment expands to more than the tensor"),
        (NO_FRAME, "broken", "a fragment is not a zstd frame"),
        (CUT, "broken", "a fragment is not a whole zstd frame"),
    ],
)
def test_a_tensors_check(sample: pb.NamedTensor, verdict: str, why: str) -> None:
    (check,) = lens.read(METHOD, chunk("s", "w", 1, [sample])).checks
    assert (check.verdict, check.why) == (verdict, why)


@pytest.mark.parametrize(
    ("message", "summary", "error"),
    [
        (open_request("s"), "open session=s", None),
        (chunk("s", "w", 2, []), "chunk session=s work=w step=2", None),
        (decode("w", 2), "decode work=w step=2", None),
        (pb.SessionRequest(cancel=pb.CancelSignal()), "cancel session", None),
        (pb.SessionRequest(cancel=pb.CancelSignal(work_id="w")), "cancel work=w work", None),
        (pb.SessionRequest(flow_control=pb.FlowControl(credits_granted=3)), "flow_control credits=3", None),
        (pb.SessionResponse(ack=pb.Ack(work_id="w", duplicate=True)), "ack work=w duplicate", None),
        (
            pb.SessionResponse(
                status=pb.ShardStatus(error=pb.ShardError(code=pb.ERROR_CODE_EPOCH_STALE, detail="old"), terminal=True)
            ),
            "status terminal “old”",
            "EPOCH_STALE",
        ),
        (pb.SessionRequest(), "", None),
        (pb.CancelRequest(route_session_id="s", work_id="w"), "session=s work=w", None),
    ],
)
def test_a_message_in_a_line(message: Any, summary: str, error: str | None) -> None:
    reading = lens.read(METHOD, message)
    assert (reading.summary, reading.error) == (summary, error)


def test_the_general_lens_needs_nothing_but_the_schema() -> None:
    status = pb.ShardStatus(work_id="w", error=pb.ShardError(code=pb.ERROR_CODE_PAYLOAD_CORRUPT))
    assert general.read(pb.SessionResponse(status=status)) == lens.Reading(
        "status work_id=w", "ERROR_CODE_PAYLOAD_CORRUPT", fields=(("kind", "status"), ("work_id", "w"))
    )
    assert general.read(pb.HealthReport(active_sessions=2)).summary == "active_sessions=2"


def with_status(enum: str, value: str) -> Any:
    """A message `M` with an enum of this name, set to a value of this name."""
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="p", syntax="proto3")
    values = file.enum_type.add(name=enum).value
    values.add(name="ZERO", number=0)
    values.add(name=value, number=1)
    field = file.message_type.add(name="M").field.add(name="f", number=1, label=1, type_name=f".p.{enum}")
    field.type = field.TYPE_ENUM
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M"))(f=1)


@pytest.mark.parametrize(
    ("enum", "value", "error"),
    [
        ("ErrorCode", "BROKEN", "BROKEN"),
        ("LookupError", "NO_SUCH_KEY", "NO_SUCH_KEY"),
        ("Code", "NOT_FOUND", "NOT_FOUND"),
        ("JobStatus", "JOB_STATUS_FAILED", "JOB_STATUS_FAILED"),
        ("ServingStatus", "SERVING", None),
        ("ServingStatus", "NOT_SERVING", "NOT_SERVING"),
        ("JobStatus", "JOB_STATUS_SUCCEEDED", None),
        ("CountryCode", "DE", None),
        ("State", "BROKEN", None),
    ],
)
def test_which_enums_are_errors(enum: str, value: str, error: str | None) -> None:
    assert general.read(with_status(enum, value)).error == error


def test_what_a_message_is_about_in_pairs() -> None:
    status = pb.ShardStatus(work_id="w", idempotency_step=3, terminal=True, error=pb.ShardError(detail="why"))
    reading = lens.read(METHOD, pb.SessionResponse(status=status))
    assert reading.fields == (("kind", "status"), ("work", "w"), ("step", "3"), ("terminal", "yes"), ("detail", "why"))
    assert lens.read(METHOD, pb.HealthReport(state=pb.SERVING_STATE_SERVING)).summary == "state=SERVING_STATE_SERVING"


def test_a_schema_that_only_has_the_name_is_read_by_the_general_lens() -> None:
    message = with_status("ErrorCode", "BROKEN")
    assert lens.read(METHOD, message).error is None  # as the protocol has it, only a status carries one
    oneof = descriptor_pb2.FieldOptions(ctype=descriptor_pb2.FieldOptions.CORD)
    assert lens.read(METHOD, oneof).summary == "ctype=CORD"


def test_long_texts_are_cut() -> None:
    cancel = pb.CancelSignal(work_id="w" * 10_000, reason="r" * 10_000)
    assert len(lens.read(METHOD, pb.SessionRequest(cancel=cancel)).summary) < 400
    odd = tensor("t", b"x")
    odd.checksum.value = bytes(10_000)
    (check,) = lens.read(METHOD, chunk("s", "w", 1, [odd])).checks
    assert (check.verdict, check.declared) == ("mismatch", "00" * 16 + "…")


def test_all_gaps_and_overlaps_are_told() -> None:
    odd = tensor("t", bytes(10))
    del odd.fragments[:]
    for at, size in ((2, 2), (3, 3), (8, 2)):
        odd.fragments.add(byte_offset=at, payload=bytes(size))
    (check,) = lens.read(METHOD, chunk("s", "w", 1, [odd])).checks
    assert (check.verdict, check.computed) == ("gap", "")
    assert (check.gaps, check.overlaps) == (((0, 2), (6, 8)), ((3, 4),))


def test_an_empty_fragment_covers_nothing() -> None:
    odd = tensor("t", b"abc")
    odd.fragments.add(byte_offset=0)
    odd.fragments.add(byte_offset=3)
    (check,) = lens.read(METHOD, chunk("s", "w", 1, [odd])).checks
    assert check.verdict == "ok"


def test_many_frames_expand_to_no_more_than_all_tensors_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_runtime, "_MOST", 3_000_000)
    frame = tensor("t", bytes(1 << 20), compression=pb.COMPRESSION_ZSTD)
    odd = tensor("bomb", bytes(1 << 20), compression=pb.COMPRESSION_ZSTD)
    odd.total_bytes = 1 << 40
    for _ in range(1000):
        odd.fragments.add(byte_offset=0, payload=frame.fragments[0].payload)
    seen: list[int] = []
    real = shard_runtime.crc32c
    monkeypatch.setattr(shard_runtime, "crc32c", lambda piece, crc: seen.append(len(piece)) or real(piece, crc))
    checks = lens.read(METHOD, chunk("s", "w", 1, [odd, frame])).checks
    assert [check.verdict for check in checks] == ["unchecked", "unchecked"]
    assert sum(seen) <= 3_000_000


def test_what_follows_a_frame_is_noticed() -> None:
    for more in (b"x", bytes(1000)):
        odd = tensor("t", b"abc", compression=pb.COMPRESSION_ZSTD)
        odd.fragments[0].payload += more
        (check,) = lens.read(METHOD, chunk("s", "w", 1, [odd])).checks
        assert (check.verdict, check.why) == ("broken", "something follows the zstd frame of a fragment")


def test_a_lens_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(_message: Any) -> lens.Reading:
        return lens.Reading("mine")

    entry = type("Entry", (), {"load": staticmethod(lambda: mine)})
    monkeypatch.setattr(lens, "_installed", lambda: {"my.pkg": entry})
    assert lens.read("/my.pkg.Service/ByEntryPoint", object()).summary == "mine"
    lens.lens_for.cache_clear()


def test_the_lens_is_chosen_by_package() -> None:
    assert lens.lens_for(METHOD) is shard_runtime.read
    assert lens.lens_for("/another.Service/Method") is general.read


def test_a_lens_that_fails_sees_nothing() -> None:
    assert lens.read(METHOD, object()).summary == "(the lens failed: AttributeError)"
