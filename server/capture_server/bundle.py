"""Is a bundle well formed? Pure: tensors in, the first fault out.

A tensor is well formed when its fragments, sorted by offset, tile it exactly and the CRC-32C of the tiled bytes is the
declared one; of a compressed tensor both are held against the uncompressed bytes. A fault names the tensor, the offset
and both values, and holds nothing of the payload.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import zstandard
from crc32c import crc32c

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb

HARD_LIMIT: Final = 256 * 1024 * 1024
"""Bytes of a chunk that are looked at where a session sets no limit: a few of them fit into any machine's memory."""
_PIECE: Final = 256
"""Bytes that are given to the decompressor at once. A zstd block of 4 bytes can expand to 128 KiB, so this many give
8 MiB at the most, however hostile the frame."""


def size(bundle: pb.TensorBundle) -> int:
    """Bytes that a bundle asks the server to hold: payloads as sent, or what compressed tensors say they expand to."""
    return sum(_tensor_size(tensor) for tensor in bundle.tensors)


def _tensor_size(tensor: pb.NamedTensor) -> int:
    sent = sum(len(fragment.payload) for fragment in tensor.fragments)
    return max(sent, tensor.total_bytes) if tensor.compression == pb.COMPRESSION_ZSTD else sent


def fault(bundle: pb.TensorBundle) -> str | None:
    """What is wrong with the first tensor that is not well formed; None if all are."""
    for tensor in bundle.tensors:
        found = _tensor_fault(tensor)
        if found is not None:
            return f"tensor {tensor.name!r}: {found}"
    return None


def _tensor_fault(tensor: pb.NamedTensor) -> str | None:
    if tensor.compression not in (pb.COMPRESSION_UNSPECIFIED, pb.COMPRESSION_NONE, pb.COMPRESSION_ZSTD):
        return f"compression {tensor.compression} is not known"
    if tensor.checksum.algorithm != pb.CHECKSUM_ALGORITHM_CRC32C:
        return f"checksum algorithm {tensor.checksum.algorithm}, expected CRC32C ({pb.CHECKSUM_ALGORITHM_CRC32C})"
    if len(tensor.checksum.value) != 4:
        return f"a CRC32C has 4 bytes, not {len(tensor.checksum.value)}"
    crc = end = 0
    for fragment in sorted(tensor.fragments, key=lambda fragment: (fragment.byte_offset, len(fragment.payload))):
        if fragment.byte_offset != end:
            what = "gap" if fragment.byte_offset > end else "overlap"
            at = min(fragment.byte_offset, end)
            return f"{what} at offset {at}: expected a fragment at {end}, got {fragment.byte_offset}"
        try:
            for piece in _uncompressed(tensor, fragment.payload, tensor.total_bytes - end):
                crc = crc32c(piece, crc)
                end += len(piece)
        except zstandard.ZstdError:
            return f"the fragment at offset {fragment.byte_offset} is not a zstd frame"
        if end > tensor.total_bytes:
            more = f"the fragment at offset {fragment.byte_offset} goes on to {end} or beyond"
            return f"{more}, expected {tensor.total_bytes} bytes"
    if end != tensor.total_bytes:
        return f"fragments end at offset {end}, expected {tensor.total_bytes}"
    declared = int.from_bytes(tensor.checksum.value, "big")
    return None if declared == crc else f"checksum of bytes 0 to {end}: expected {declared:08x}, got {crc:08x}"


def _uncompressed(tensor: pb.NamedTensor, payload: bytes, room: int) -> Iterator[bytes]:
    """A fragment's bytes, in pieces; not much more than there is room for. Raises ZstdError, for a cut frame too."""
    if tensor.compression != pb.COMPRESSION_ZSTD:
        yield payload
        return
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    produced = start = 0
    for start in range(0, len(payload), _PIECE):
        piece = decompressor.decompress(payload[start : start + _PIECE])
        produced += len(piece)
        yield piece
        if produced > room:
            return
        if decompressor.eof:
            break
    if not decompressor.eof or decompressor.unused_data or start + _PIECE < len(payload):
        raise zstandard.ZstdError("not one whole frame")
