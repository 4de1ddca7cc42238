"""The lens for ShardRuntime: work item and step, error code, and every tensor's tiling and checksum recomputed.

Written from the protocol's description and on its own, not with the server's code: a second opinion.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Final

from crc32c import crc32c

from . import Reading, TensorCheck
from .general import kind

PACKAGE: Final = "shard_runtime.v1"
_CRC32C = 1
_ZSTD = 2
_PREFIX: Final = "ERROR_CODE_"
_MOST: Final = 256 * 1024 * 1024  # bytes that a tensor may expand to here
_PIECE: Final = 256  # bytes for the decompressor at once: however hostile, they expand to 8 MiB at the most


def read(message: Any) -> Reading:
    """See `Lens`."""
    name = kind(message)
    if name is None:
        return Reading(_plain(message))
    inner = getattr(message, name)
    words = [name, *_identity(inner)]
    error = None
    if name == "status":
        error = _error(inner)
        words += ["terminal"] if inner.terminal else []
        words += [f"“{inner.error.detail}”"] if inner.error.detail else []
    elif name == "ack":
        words += ["duplicate"] if inner.duplicate else []
    elif name == "flow_control":
        words.append(f"credits={inner.credits_granted}")
    elif name == "cancel":
        words.append("work" if inner.work_id else "session")
    return Reading(" ".join(words), error, tuple(_check(tensor) for tensor in _tensors(name, inner)))


def _plain(message: Any) -> str:
    return " ".join(
        f"{field.name}={value}" for field, value in message.ListFields() if isinstance(value, (str, int, float, bool))
    )


def _identity(inner: Any) -> list[str]:
    """Session, work item and step, from wherever this kind of message has them."""
    where = inner.envelope if "envelope" in inner.DESCRIPTOR.fields_by_name else inner
    words = []
    for name, label in (("route_session_id", "session"), ("work_id", "work"), ("idempotency_step", "step")):
        value = getattr(where, name, "")
        if value not in ("", 0):
            words.append(f"{label}={value}")
    return words


def _error(status: Any) -> str | None:
    if not status.HasField("error"):
        return None
    code = status.error.code
    known = status.error.DESCRIPTOR.fields_by_name["code"].enum_type.values_by_number.get(code)
    return known.name.removeprefix(_PREFIX) if known else str(code)


def _tensors(name: str, inner: Any) -> list[Any]:
    if name not in ("chunk", "decode"):
        return []
    tensors = list(inner.bundle.tensors)
    return [inner.tensor, *tensors] if name == "decode" and inner.HasField("tensor") else tensors


def _check(tensor: Any) -> TensorCheck:
    declared = tensor.checksum.value.hex()
    try:
        pieces = sorted(_contents(tensor))
    except _Broken as broken:
        return TensorCheck(tensor.name, "broken", declared, "", str(broken))
    data = b"".join(piece for _, piece in pieces)
    computed = f"{crc32c(data):08x}"
    verdict, why = _tiling([(at, len(piece)) for at, piece in pieces], tensor.total_bytes)
    if verdict == "ok" and not declared:
        verdict, why = "missing", "no checksum is declared"
    elif verdict == "ok" and (declared != computed or tensor.checksum.algorithm != _CRC32C):
        verdict, why = "mismatch", f"declared {declared}, computed {computed}"
        if declared == f"{zlib.crc32(data):08x}":
            verdict, why = "zlib", "this is zlib's CRC-32, not CRC-32C"
        elif declared == computed:
            why = f"the algorithm is declared as {tensor.checksum.algorithm}, not as CRC32C"
    return TensorCheck(tensor.name, verdict, declared, computed, why)


def _tiling(pieces: list[tuple[int, int]], total: int) -> tuple[str, str]:
    end = 0
    for at, size in pieces:
        if at != end:
            return (
                ("gap", f"bytes {end} to {at} are missing") if at > end else ("overlap", f"bytes {at} to {end} twice")
            )
        end = at + size
    if end == total:
        return "ok", ""
    return ("short", f"{end} of {total} bytes") if end < total else ("beyond", f"{end} bytes of {total}")


class _Broken(Exception):
    """A fragment that cannot be expanded."""


def _contents(tensor: Any) -> Iterator[tuple[int, bytes]]:
    """Each fragment's offset and bytes; all of them together no more than the tensor has. Raises _Broken."""
    room = min(tensor.total_bytes, _MOST)
    for fragment in tensor.fragments:
        content = fragment.payload if tensor.compression != _ZSTD else _expanded(fragment.payload, room)
        room -= len(content)
        yield fragment.byte_offset, content


def _expanded(payload: bytes, room: int) -> bytes:
    """A zstd frame's bytes. Raises _Broken."""
    import zstandard  # noqa: PLC0415 - only for compressed tensors

    decompressor = zstandard.ZstdDecompressor().decompressobj()
    found = bytearray()
    try:
        for start in range(0, len(payload), _PIECE):
            found += decompressor.decompress(payload[start : start + _PIECE])
            if len(found) > room:
                raise _Broken("a fragment expands to more than the tensor")
    except zstandard.ZstdError as error:
        raise _Broken("a fragment is not a zstd frame") from error
    if not decompressor.eof:
        raise _Broken("a fragment is not a whole zstd frame")
    return bytes(found)
