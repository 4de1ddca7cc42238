"""What the lenses see: kinds, identities, error codes, and checksums recomputed on their own."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from crc32c import crc32c

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
        (pb.CancelRequest(route_session_id="s", work_id="w"), "route_session_id=s work_id=w", None),
    ],
)
def test_a_message_in_a_line(message: Any, summary: str, error: str | None) -> None:
    reading = lens.read(METHOD, message)
    assert (reading.summary, reading.error) == (summary, error)


def test_the_general_lens_needs_nothing_but_the_schema() -> None:
    status = pb.ShardStatus(work_id="w", error=pb.ShardError(code=pb.ERROR_CODE_PAYLOAD_CORRUPT))
    assert general.read(pb.SessionResponse(status=status)) == lens.Reading(
        "status work_id=w", "ERROR_CODE_PAYLOAD_CORRUPT"
    )
    assert general.read(pb.HealthReport(active_sessions=2)).summary == "active_sessions=2"


def test_the_lens_is_chosen_by_package() -> None:
    assert lens.lens_for(METHOD) is shard_runtime.read
    assert lens.lens_for("/another.Service/Method") is general.read


def test_a_lens_that_fails_sees_nothing() -> None:
    assert lens.read(METHOD, object()).summary == "(the lens failed: AttributeError)"
