"""The bytes around a record: preamble, record head and tail, trailer, and the checksum that covers them.

Pure functions over bytes; FORMAT.md sections 2 to 5 are the text of this module. The checksum is CRC-32C (Castagnoli,
RFC 3720 B.4), seeded with the file's id, so that the records of one capture never pass for those of another, and
masked as LevelDB masks it, so that a checksum of bytes that hold checksums stays a good checksum.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

Buffer = bytes | bytearray | memoryview

MAGIC: Final = b"\x89GCAP\r\n\x1a"  # a byte above 7 bits, CR LF and Ctrl-Z: each catches one kind of mangled transfer
END_MAGIC: Final = b"\x89GCEND\r\n"
SYNC: Final = b"\xc4REC"  # begins with a byte that is neither zero nor text
MAJOR: Final = 1
MINOR: Final = 0
FEATURE_BLOCKS: Final = 1 << 0  # records stand in compressed blocks, as `pack` writes them
KNOWN_FEATURES: Final = FEATURE_BLOCKS  # incompatible-feature bits that this code understands

_PREAMBLE = struct.Struct("<8sHHI8sI")
_HEAD = struct.Struct("<4sBBHQI")
HEAD: Final = struct.Struct("<4sBBHQII")  # with its checksum: sync, type, flags, reserved, number, length, checksum
_TRAILER = struct.Struct("<QQ8sI")
CRC: Final = struct.Struct("<I")

PREAMBLE_SIZE: Final = 32
HEAD_SIZE: Final = 24
TAIL_SIZE: Final = 4
TRAILER_SIZE: Final = 40
MAX_BODY: Final = 2**32 - 1 - 256  # msgpack's bin 32, less room for the other keys of the map
MASK_DELTA: Final = 0xA282EAD8


class RecordType(enum.IntEnum):
    """0 is never valid (zeroed disk blocks); 1 to 127 are critical; 128 to 255 may be skipped by who does not know."""

    META = 1
    SCHEMA = 2
    CALL = 3
    HEADERS = 4
    MESSAGE = 5
    HALF_CLOSE = 6
    CANCEL = 7
    STATUS = 8
    GAP = 9
    CHECKPOINT = 10
    FOOTER = 11
    BLOCK = 12
    NOTE = 128


FIRST_SKIPPABLE: Final = 128
FLAGLESS: Final = frozenset((RecordType.CHECKPOINT, RecordType.FOOTER, RecordType.BLOCK))  # what a reader goes by
KNOWN_FLAGS: Final = 0


@dataclass(frozen=True, slots=True)
class Preamble:
    """The first 32 bytes. `features` are the incompatible-feature bits, `file_id` is 8 random bytes."""

    major: int
    minor: int
    features: int
    file_id: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """A record's head, proven by its checksum. `length` is the body's, in bytes."""

    type: int
    flags: int
    seq: int
    length: int


@dataclass(frozen=True, slots=True)
class Trailer:
    """The last 40 bytes of a file that was closed cleanly."""

    footer_offset: int
    record_count: int
    file_id: bytes


_TAKEN_FOR: Final = {
    b"\x1f\x8b": "this is gzip: decompress it first",
    b"\x28\xb5\x2f\xfd": "this is Zstandard: decompress it first (`capture-file pack` writes captures, not this)",
    b"PK\x03\x04": "this is a zip archive: take the capture out of it",
    b"\x89MCAP": "this is an MCAP file",
    MAGIC.replace(b"\r\n", b"\n"): "its line ends were changed on the way here: transfer it as binary",
    MAGIC.replace(b"\n", b"\r\n")[:8]: "its line ends were changed on the way here: transfer it as binary",
    b"\x09GCAP": "its bytes lost a bit on the way here: transfer it as binary",
    b"\xef\xbf\xbdGCAP": "it was read as text on the way here: transfer it as binary",
}
"""What a capture is sent as, or becomes on its way, by how it begins. What was changed is lost: it is sent again."""


def mask(crc: int) -> int:
    """LevelDB's masking of a checksum: rotate right by 15 bits and add a constant."""
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def seed_of(file_id: bytes) -> int:
    """The running CRC-32C after the file's id, with which every record checksum begins."""
    return crc32c(file_id)


def pack_preamble(preamble: Preamble) -> bytes:
    """32 bytes."""
    body = _PREAMBLE.pack(MAGIC, preamble.major, preamble.minor, preamble.features, preamble.file_id, 0)
    return body + CRC.pack(mask(crc32c(body)))


def parse_preamble(data: Buffer) -> Preamble | str:
    """Take the first 32 bytes apart; a str says what is wrong with them."""
    if bytes(data[:8]) != MAGIC:
        known = next((why for start, why in _TAKEN_FOR.items() if bytes(data[: len(start)]) == start), None)
        return "it does not begin with the capture magic" + (f"; {known}" if known else "")
    if len(data) < PREAMBLE_SIZE:
        return f"its preamble is cut after {len(data)} of {PREAMBLE_SIZE} bytes"
    _, major, minor, features, file_id, reserved = _PREAMBLE.unpack(data[:28])
    if CRC.unpack(data[28:32])[0] != mask(crc32c(bytes(data[:28]))):
        return "the checksum of its preamble is wrong"
    if reserved:
        return "a reserved field of its preamble is not zero"
    return Preamble(major, minor, features, file_id)


_SOUGHT: Final = 64  # places that are looked at before a file is said to hold no records


def likely_ids(preamble: Buffer, trailer: Trailer | None) -> Iterator[bytes]:
    """The ids that a file with this damaged preamble may have: the one that stands there, its trailer's, and those that
    one flipped bit makes of it."""
    stands = bytes(preamble[16:24])
    yield stands
    if trailer is not None:
        yield trailer.file_id
    number = int.from_bytes(stands, "little")
    for bit in range(64):
        yield (number ^ 1 << bit).to_bytes(8, "little")


def has_records(data: bytes, file_id: bytes) -> bool:
    """Whether a good head of the file `file_id` is among the first that `data` may hold."""
    seed, at = seed_of(file_id), -1
    for _ in range(_SOUGHT):
        at = data.find(SYNC, at + 1)
        if at < 0 or at + HEAD_SIZE > len(data):
            return False
        if parse_head(seed, data[at : at + HEAD_SIZE]) is not None:
            return True
    return False


def pack_head(seed: int, kind: int, flags: int, seq: int, length: int) -> bytes:
    """24 bytes: the head and its checksum."""
    head = _HEAD.pack(SYNC, kind, flags, 0, seq, length)
    return head + CRC.pack(mask(crc32c(head, seed)))


def parse_head(seed: int, data: Buffer) -> Head | None:
    """A proven head from 24 bytes, or None. Nothing of an unproven head is to be used, its length least of all."""
    sync, kind, flags, reserved, seq, length = _HEAD.unpack(data[:20])
    if sync != SYNC or CRC.unpack(data[20:24])[0] != mask(crc32c(data[:20], seed)):
        return None
    if reserved or kind == 0 or seq == 0:
        return None
    return Head(kind, flags, seq, length)


def frame(seed: int, kind: int, flags: int, seq: int, prefix: Buffer, payload: Buffer) -> tuple[bytes, bytes]:
    """What stands before and after `payload` in the file: the head and `prefix`, which begins the body; the tail."""
    head = _HEAD.pack(SYNC, kind, flags, 0, seq, len(prefix) + len(payload))
    crc = crc32c(head, seed)
    rest = CRC.pack(((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF) + prefix
    crc = crc32c(payload, crc32c(rest, crc))
    return head + rest, CRC.pack(((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF)


def body_is_whole(seed: int, record: Buffer) -> bool:
    """Whether a whole record (head, body, tail) has the right checksum in its tail."""
    return bool(CRC.unpack(record[-4:])[0] == mask(crc32c(record[:-4], seed)))


def pack_trailer(trailer: Trailer) -> bytes:
    """40 bytes."""
    body = _TRAILER.pack(trailer.footer_offset, trailer.record_count, trailer.file_id, 0)
    return body + CRC.pack(mask(crc32c(body))) + END_MAGIC


def parse_trailer(data: Buffer) -> Trailer | None:
    """A proven trailer from exactly 40 bytes, or None."""
    if len(data) != TRAILER_SIZE or bytes(data[32:]) != END_MAGIC:
        return None
    if CRC.unpack(data[28:32])[0] != mask(crc32c(data[:28])):
        return None
    footer_offset, record_count, file_id, reserved = _TRAILER.unpack(data[:28])
    return None if reserved else Trailer(footer_offset, record_count, file_id)
