"""Makes the requests of ShardRuntime: well formed tensors, chunks, opens. For clients, tests and the self-check."""

from __future__ import annotations

from collections.abc import Sequence

import zstandard
from crc32c import crc32c

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb


def tensor(
    name: str,
    data: bytes,
    *,
    parts: int = 1,
    compression: pb.Compression = pb.COMPRESSION_NONE,
    checksum: int | None = None,
) -> pb.NamedTensor:
    """A tensor of these bytes in so many fragments, the last one first; `checksum` in the place of the true CRC-32C."""
    size = -(-len(data) // parts) or 1
    fragments = []
    for offset in range(0, len(data), size):
        piece = data[offset : offset + size]
        if compression == pb.COMPRESSION_ZSTD:
            piece = zstandard.ZstdCompressor(level=1).compress(piece)
        fragments.append(pb.Fragment(byte_offset=offset, payload=piece))
    value = crc32c(data) if checksum is None else checksum
    return pb.NamedTensor(
        name=name,
        dtype=pb.DTYPE_U8,
        shape=[len(data)],
        total_bytes=len(data),
        compression=compression,
        checksum=pb.Checksum(algorithm=pb.CHECKSUM_ALGORITHM_CRC32C, value=value.to_bytes(4, "big")),
        fragments=reversed(fragments),
    )


def bundle(*tensors: pb.NamedTensor) -> pb.TensorBundle:
    """A bundle of these tensors."""
    return pb.TensorBundle(
        bundle_version=1,
        tensors=tensors,
        architecture=pb.ARCHITECTURE_TYPE_DENSE,
        boundary_point="post_embedding",
    )


def open_request(
    session_id: str,
    *,
    epoch: int = 1,
    flow: pb.FlowControl | None = None,
    schema: pb.SchemaVersion = pb.SCHEMA_VERSION_1,
) -> pb.SessionRequest:
    """An `open`; without `flow` none is proposed."""
    return pb.SessionRequest(
        open=pb.SessionOpen(
            schema_version=schema,
            route_session_id=session_id,
            route_epoch=epoch,
            proposed_flow_control=flow,
            fingerprint=pb.Fingerprint(recipe_id="echo", recipe_version="1"),
        )
    )


def chunk(
    session_id: str,
    work_id: str,
    step: int,
    tensors: Sequence[pb.NamedTensor],
    *,
    epoch: int = 1,
    deadline: int = 0,
    schema: pb.SchemaVersion = pb.SCHEMA_VERSION_1,
) -> pb.SessionRequest:
    """A prefill chunk of these tensors. `deadline`: ns since 1970, 0 for none."""
    return pb.SessionRequest(
        chunk=pb.ActivationChunk(
            envelope=pb.Envelope(
                schema_version=schema,
                work_id=work_id,
                route_session_id=session_id,
                route_epoch=epoch,
                idempotency_step=step,
                phase=pb.PHASE_PREFILL,
                position=pb.PositionSpan(first_position=step * 8, token_count=8),
                deadline_unix_nanos=deadline,
            ),
            bundle=bundle(*tensors),
        )
    )


def decode(
    work_id: str,
    step: int,
    *,
    tensor: pb.NamedTensor | None = None,
    bundle: pb.TensorBundle | None = None,
    deadline: int = 0,
) -> pb.SessionRequest:
    """A decode step, of one tensor or of a bundle."""
    return pb.SessionRequest(
        decode=pb.DecodeStep(
            work_id=work_id,
            idempotency_step=step,
            position=step + 100,
            deadline_unix_nanos=deadline,
            tensor=tensor,
            bundle=bundle,
        )
    )
