"""Blocks: many records compressed as one, as `capture-file pack` writes them. FORMAT.md section 6, "block".

What is in a block has neither sync nor checksums of its own, which would not compress: the block's cover it. A block
says how large it becomes before it is expanded, and is refused where that is more than the format allows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

import msgpack

from .errors import RecordError
from .framing import Buffer, RecordType

MAX_EXPANDED: Final = 1 << 24  # bytes: what a reader may be made to allocate by a block, however small
_MEMBER = struct.Struct("<BBI")  # type, flags, length of the body
MEMBER_SIZE: Final = _MEMBER.size
KEYS: Final = {"n": int, "size": int, "z": bytes}  # how many records, their size before compression, a Zstandard frame
_NOT_MEMBERS: Final = frozenset((0, RecordType.CHECKPOINT, RecordType.FOOTER, RecordType.BLOCK))

Member = tuple[int, int, memoryview]
"""Type, flags and body of a record in a block."""


def pack(members: Iterable[tuple[int, int, Buffer]], level: int) -> bytes:
    """The body of a block record. `level` is Zstandard's, 1 to 22. Its records must fit into MAX_EXPANDED."""
    import zstandard  # not where a server only records  # noqa: PLC0415

    pieces: list[Buffer] = []
    count = 0
    for kind, flags, body in members:
        pieces += (_MEMBER.pack(kind, flags, len(body)), body)
        count += 1
    content = b"".join(pieces)
    assert len(content) <= MAX_EXPANDED
    compressor = zstandard.ZstdCompressor(level=level, write_content_size=True, write_checksum=False)
    packed = msgpack.packb({"n": count, "size": len(content), "z": compressor.compress(content)}, use_bin_type=True)
    assert isinstance(packed, bytes)
    return packed


def expand(body: Buffer) -> list[Member]:
    """The records of a block. Raises RecordError. Allocates no more than MAX_EXPANDED and the block itself."""
    fields = _fields(body)
    members = list(_members(memoryview(_decompress(fields["z"], fields["size"]))))
    if len(members) != fields["n"]:
        raise RecordError(f"it says that it holds {fields['n']} records, and holds {len(members)}")
    return members


def _fields(body: Buffer) -> dict[str, Any]:
    try:
        fields = msgpack.unpackb(body)
    except ValueError as error:
        raise RecordError(f"its body is not msgpack: {type(error).__name__}") from error
    if type(fields) is not dict:
        raise RecordError("its body is not a map")
    for key, kind in KEYS.items():
        if type(fields.get(key)) is not kind:
            raise RecordError(f"its key {key!r} is missing or of another type")
    if not (0 < fields["size"] <= MAX_EXPANDED and fields["n"] > 0):
        raise RecordError("its key 'size' or 'n' is out of range")
    return fields


def _decompress(data: bytes, size: int) -> bytes:
    import zstandard  # noqa: PLC0415

    try:
        if zstandard.get_frame_parameters(data).content_size != size:  # before anything is allocated
            raise RecordError("its compressed size and its key 'size' do not agree")
        content = zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise RecordError("it cannot be decompressed") from error
    if len(content) != size:
        raise RecordError("it decompresses to another size than it says")
    assert isinstance(content, bytes)
    return content


def _members(content: memoryview) -> Iterable[Member]:
    at = 0
    while at < len(content):
        if at + MEMBER_SIZE > len(content):
            raise RecordError("it ends in the head of a record")
        kind, flags, length = _MEMBER.unpack_from(content, at)
        at += MEMBER_SIZE
        if kind in _NOT_MEMBERS or at + length > len(content):
            raise RecordError("it holds a record that no block can hold")
        yield kind, flags, content[at : at + length]
        at += length
