"""The lens for ShardRuntime: work item and step, error code, and every tensor's tiling and checksum recomputed.

Written from the protocol's description and on its own, not with the server's code: a second opinion.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from crc32c import crc32c

from . import Reading, TensorCheck
from .general import enum_name, kind, plain, short

PACKAGE: Final = "shard_runtime.v1"
_CRC32C = 1
_ZSTD = 2
_LABELS: Final = {"route_session_id": "session", "work_id": "work", "idempotency_step": "step"}
_PREFIX: Final = "ERROR_CODE_"
_MOST: Final = 256 * 1024 * 1024  # bytes that all tensors of a message together may expand to here
_PIECE: Final = 256  # bytes for the decompressor at once: however hostile, they expand to 8 MiB at the most
_NAME: Final = 64  # characters of an identity that are shown; a UUID has 36
_SENTENCE: Final = 240  # characters of a detail or a reason
_CHECKSUM: Final = 16  # bytes of a declared checksum; CRC-32C has 4, a stranger's may have any number


@dataclass(frozen=True, slots=True)
class _Fact:
    """Something that a message says, and how the summary has it."""

    name: str
    value: str
    words: str


def read(message: Any) -> Reading:
    """See `Lens`."""
    name = kind(message)
    if name is None:
        return _reading([_fact(_LABELS.get(field.name, field.name), text) for field, text in plain(message)], None, ())
    inner = getattr(message, name)
    room = _Room(_MOST)
    checks = tuple(_check(tensor, room) for tensor in _tensors(name, inner))
    facts = [*_identity(inner), *_particulars(name, inner)]
    return _reading([_Fact("kind", name, name), *facts], _error(inner) if name == "status" else None, checks)


def _reading(facts: list[_Fact], error: str | None, checks: tuple[TensorCheck, ...]) -> Reading:
    fields = tuple((fact.name, fact.value) for fact in facts)
    return Reading(" ".join(fact.words for fact in facts), error, checks, fields)


def _fact(name: str, value: object) -> _Fact:
    text = short(str(value), _NAME)
    return _Fact(name, text, f"{name}={text}")


def _identity(inner: Any) -> list[_Fact]:
    """Session, work item and step, from wherever this kind of message has them."""
    where = inner.envelope if "envelope" in inner.DESCRIPTOR.fields_by_name else inner
    found = ((label, getattr(where, name, "")) for name, label in _LABELS.items())
    return [_fact(label, value) for label, value in found if value not in ("", 0)]


def _particulars(name: str, inner: Any) -> list[_Fact]:
    """What else this kind of message says."""
    match name:
        case "status":
            facts = [_Fact("terminal", "yes", "terminal")] if inner.terminal else []
            return facts + _sentence("detail", inner.error.detail)
        case "ack":
            return [_Fact("duplicate", "yes", "duplicate")] if inner.duplicate else []
        case "flow_control":
            return [_fact("credits", inner.credits_granted)]
        case "cancel":
            scope = "work" if inner.work_id else "session"
            return [_Fact("cancels", scope, scope), *_sentence("reason", inner.reason)]
    return []


def _sentence(name: str, text: str) -> list[_Fact]:
    text = short(text, _SENTENCE)
    return [_Fact(name, text, f"“{text}”")] if text else []


def _error(status: Any) -> str | None:
    if not status.HasField("error"):
        return None
    code = status.error.DESCRIPTOR.fields_by_name["code"]
    return enum_name(code, status.error.code).removeprefix(_PREFIX)


def _tensors(name: str, inner: Any) -> list[Any]:
    if name not in ("chunk", "decode"):
        return []
    tensors = list(inner.bundle.tensors)
    return [inner.tensor, *tensors] if name == "decode" and inner.HasField("tensor") else tensors


# --- a tensor, its tiling and its checksum ---------------------------------------------------------------------------


class _Unreadable(Exception):
    """A fragment whose bytes cannot be had; the arguments are the verdict and why."""


@dataclass(slots=True)
class _Room:
    """How many bytes may still come out of the decompressor: for the message, and for the tensor that it is at."""

    left: int
    of_tensor: int = 0


def _check(tensor: Any, room: _Room) -> TensorCheck:
    declared = tensor.checksum.value[:_CHECKSUM].hex() + ("…" if len(tensor.checksum.value) > _CHECKSUM else "")
    room.of_tensor = tensor.total_bytes
    crc = other = end = 0
    gaps: list[tuple[int, int]] = []
    overlaps: list[tuple[int, int]] = []
    try:
        for fragment in sorted(tensor.fragments, key=lambda f: (f.byte_offset, len(f.payload))):
            at, after = fragment.byte_offset, fragment.byte_offset
            for piece in _content(tensor, fragment.payload, room):
                crc, other = crc32c(piece, crc), zlib.crc32(piece, other)
                after += len(piece)
            if at > end:
                gaps.append((end, at))
            elif min(end, after) > at:
                overlaps.append((at, min(end, after)))
            end = max(end, after)
    except _Unreadable as error:
        verdict, why = error.args
        computed = ""
    else:
        verdict, why = _tiling(gaps, overlaps, end, tensor.total_bytes)
        computed = f"{crc:08x}" if not verdict else ""
        if not verdict:
            verdict, why = _comparison(declared, computed, f"{other:08x}", tensor.checksum.algorithm)
    shape = (tuple(gaps), tuple(overlaps), end, tensor.total_bytes, len(tensor.fragments))
    return TensorCheck(tensor.name, verdict, declared, computed, why, *shape)


def _tiling(gaps: list[tuple[int, int]], overlaps: list[tuple[int, int]], end: int, total: int) -> tuple[str, str]:
    """The first thing that is wrong with how the fragments lie, or nothing."""
    first = min([(*gap, "gap") for gap in gaps[:1]] + [(*overlap, "overlap") for overlap in overlaps[:1]], default=None)
    if first is not None:
        at, after, verdict = first
        return verdict, f"bytes {at} to {after} " + ("are missing" if verdict == "gap" else "twice")
    if end == total:
        return "", ""
    return ("short", f"{end} of {total} bytes") if end < total else ("beyond", f"{end} bytes of {total}")


def _comparison(declared: str, computed: str, other: str, algorithm: int) -> tuple[str, str]:
    """The declared checksum against the bytes': their CRC-32C, and zlib's CRC-32, which is easily mistaken for it."""
    if not declared:
        return "missing", "no checksum is declared"
    if declared == other != computed:
        return "zlib", "this is zlib's CRC-32, not CRC-32C"
    if declared != computed:
        return "mismatch", f"declared {declared}, computed {computed}"
    if algorithm != _CRC32C:
        return "mismatch", f"the algorithm is declared as {algorithm}, not as CRC32C"
    return "ok", ""


def _content(tensor: Any, payload: bytes, room: _Room) -> Iterator[bytes]:
    """A fragment's bytes, uncompressed, in pieces, none of which is kept: a hostile frame costs no memory, and no time
    but for as much as the tensor says it has and there is room for. Raises _Unreadable."""
    if tensor.compression != _ZSTD:
        yield payload
        return
    import zstandard  # noqa: PLC0415 - only for compressed tensors

    decompressor = zstandard.ZstdDecompressor().decompressobj()
    for start in range(0, len(payload), _PIECE):
        if decompressor.eof:
            raise _Unreadable("broken", "something follows the zstd frame of a fragment")
        try:
            piece = decompressor.decompress(payload[start : start + _PIECE])
        except zstandard.ZstdError as error:
            raise _Unreadable("broken", "a fragment is not a zstd frame") from error
        room.left -= len(piece)
        room.of_tensor -= len(piece)
        if room.of_tensor < 0:
            raise _Unreadable("broken", "a fragment expands to more than the tensor")
        if room.left < 0:
            raise _Unreadable("unchecked", f"more than {_MOST:,} bytes would have to be decompressed")
        yield piece
    if not decompressor.eof:
        raise _Unreadable("broken", "a fragment is not a whole zstd frame")
    if decompressor.unused_data:
        raise _Unreadable("broken", "something follows the zstd frame of a fragment")
