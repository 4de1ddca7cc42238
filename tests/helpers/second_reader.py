"""A second reader of captures, written from recorder/FORMAT.md alone, to hold the first against the text.

It shares no line with the first: the standard library, msgpack and a CRC table (and Zstandard for what was packed,
which the standard library does not have). It reads the whole file at once and takes the text at its word.
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)  # 1EDC6F41, reflected
    TABLE.append(n)

KEYS = {  # section 6: the keys without a default, and what their values are
    1: {"created": int, "clock": int},
    2: {"services": list, "files": bytes},
    3: {"c": int, "t": int, "method": str, "kind": str},
    4: {"c": int, "t": int},
    5: {"c": int, "d": int, "n": int, "t": int, "p": bytes},
    6: {"c": int, "t": int},
    7: {"c": int, "t": int},
    8: {"c": int, "t": int, "code": int},
    9: {"t": int, "why": str},
    10: {"prev": int, "records": list, "calls": list},
    11: {"checkpoints": list} | dict.fromkeys(("calls", "requests", "responses", "bytes", "gaps", "duration"), int),
    128: {"text": str},
}


def mcrc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF


class Second:
    """`records` holds (number, type, flags, body), `damaged` the offsets of damage, `condition` section 9's word."""

    def __init__(self, data: bytes) -> None:
        self.data, self.records, self.damaged = data, [], []
        magic, self.major, _, features, self.id, zero, crc = struct.unpack_from("<8sHHI8sII", data.ljust(32, b"\0"))
        if magic != b"\x89GCAP\r\n\x1a" or len(data) < 32 or mcrc(data[:28]) != crc or zero:
            self.condition = "unreadable"
            return
        if self.major != 1 or features & ~1:
            self.condition = "refused"
            return
        self.blocks = bool(features & 1)
        self.last = 0  # number of the last good record
        self.condition = self.read(32)

    def head(self, at: int) -> tuple[int, int, int, int] | None:
        """Type, flags, number and length of a good head at an offset."""
        if at + 24 > len(self.data):
            return None
        sync, kind, flags, zero, number, length, crc = struct.unpack_from("<4sBBHQII", self.data, at)
        good = sync == b"\xc4REC" and not zero and kind and number
        return (kind, flags, number, length) if good and crc == mcrc(self.id + self.data[at : at + 20]) else None

    def trailer(self, at: int) -> tuple[int, int] | None:
        """Offset of the footer and number of records, of a good trailer at an offset."""
        if at < 32 or at + 40 > len(self.data):
            return None
        footer, count, file_id, zero, crc, magic = struct.unpack_from("<QQ8sII8s", self.data, at)
        good = magic == b"\x89GCEND\r\n" and file_id == self.id and not zero
        return (footer, count) if good and crc == mcrc(self.data[at : at + 28]) else None

    def read(self, at: int) -> str:
        """Section 7; what it says is the condition."""
        end, hole, footer_at, tail = len(self.data), False, 0, 0
        self.agrees: bool | None = None  # whether the trailer does, once it was read
        self.expects_trailer = False
        while at < end:
            if self.expects_trailer and (trailer := self.trailer(at)):
                self.agrees, at, self.expects_trailer = trailer == (footer_at, self.last), at + 40, False
                continue
            self.expects_trailer = False
            head, after = self.head(at), end + 1
            if head:
                kind, flags, number, length = head
                after = at + 24 + length + 4
            if head is None or after > end:
                at, tail = self.damage(at, self.find(at + 1)), end - at
                continue
            crc = struct.unpack_from("<I", self.data, after - 4)[0]
            if crc != mcrc(self.id + self.data[at : after - 4]):
                follows = self.head(after) or after == end or (kind == 11 and self.trailer(after))
                goes_on = after if follows and kind != 12 else self.find(at + 1)
                if follows and kind != 12 and number > self.last:
                    self.last, self.expects_trailer, footer_at = number, kind == 11, 0
                at, tail = self.damage(at, goes_on), end - at
            elif number <= self.last:
                at = self.damage(at, after)
            else:
                if number > self.last + 1:
                    self.damaged.append(at)
                hole |= bool(self.damaged) or self.agrees is not None
                hole |= not self.take(at, kind, flags, number, self.data[at + 24 : after - 4])
                self.expects_trailer = kind == 11 and not flags
                footer_at, at, tail = at if self.expects_trailer else 0, after, 0
                continue
        if self.agrees is not None:
            return "clean" if self.agrees and not self.damaged and not hole else "damaged"
        return "damaged" if hole or (footer_at and tail >= 40) else "torn"

    def damage(self, at: int, goes_on: int) -> int:
        self.damaged.append(at)
        return goes_on

    def find(self, at: int) -> int:
        """The next good head of a higher number that fits into the file; else a trailer; else the end."""
        while (at := self.data.find(b"\xc4REC", at)) >= 0:
            head = self.head(at)
            if head and head[2] > self.last and at + 28 + head[3] <= len(self.data):
                self.last = head[2] - 1
                return at
            at += 1
        trailer = None if self.agrees is not None else self.trailer(len(self.data) - 40)
        if trailer:
            self.last, self.expects_trailer = trailer[1], True
        return len(self.data) - 40 * bool(trailer)

    def take(self, at: int, kind: int, flags: int, number: int, body: bytes) -> bool:
        """Keep a good record, or all of a block; whether its body is what section 6 says."""
        members, self.last = [(kind, flags, body)], number
        if kind == 12:
            members = self.expand(flags, body)
            self.last = number + max(len(members), 1) - 1
        good = [self.is_valid(kind, flags, body) for kind, flags, body in members]
        if not members or not all(good):
            self.damaged.append(at)
        numbered = enumerate(zip(members, good, strict=True), number)
        self.records += [(seq, *member) for seq, (member, fine) in numbered if fine]
        return bool(members) and all(good)

    def expand(self, flags: int, body: bytes) -> list[tuple[int, int, bytes]]:
        import zstandard

        block: Any = msgpack.unpackb(body)
        if not self.blocks or flags or zstandard.get_frame_parameters(block["z"]).content_size != block["size"]:
            return []
        content, at, members = zstandard.decompress(block["z"]), 0, []
        while at < len(content):
            kind, flags, length = struct.unpack_from("<BBI", content, at)
            members.append((kind, flags, content[at + 6 : at + 6 + length]))
            at += 6 + length
        return members if len(members) == block["n"] and block["size"] <= 1 << 24 else []

    @staticmethod
    def is_valid(kind: int, flags: int, body: bytes) -> bool:
        if flags and kind in (10, 11, 12):
            return False
        if kind not in KEYS or flags:
            return True  # not known: nothing is said of its body
        try:
            fields = msgpack.unpackb(body)
        except ValueError:
            return False
        return all(type(fields.get(key)) is what for key, what in KEYS[kind].items())
