"""From bytes to records and damage, without I/O: whoever has bytes feeds them, from a file, a pipe or a test.

The order of the checks is FORMAT.md section 7: sync, head checksum, length against what is left, body checksum. A
length is believed only after its checksum, and nothing is allocated for it. What is damaged is reported as a range and
never skipped in silence. A bad body costs its own record; after a bad head the next good one of a higher number is
sought.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from . import framing
from .framing import (
    HEAD_SIZE,
    PREAMBLE_SIZE,
    SYNC,
    TAIL_SIZE,
    TRAILER_SIZE,
    Head,
    Preamble,
    RecordType,
    Trailer,
)

WASTE_LIMIT: Final = 4
"""Bodies that turn out bad cost a checksum in vain. Past this many times the size of the file they are stepped over as
a whole, so that heads which all claim the rest of the file cannot make reading quadratic."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record whose checksums are right. `offset` and `size` (head and tail included) are in bytes."""

    offset: int
    size: int
    type: int
    flags: int
    seq: int
    body: memoryview


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of the file that holds no good record, or (`size` 0) a place where records are missing.

    `first` and `last` are the numbers of the records that are lost there, as far as that can be told (else 0).
    """

    offset: int
    size: int
    why: str
    first: int = 0
    last: int = 0

    def __str__(self) -> str:
        text = f"offset {self.offset}: {self.why}"
        if self.first:
            plural = "" if self.first == self.last else "s"
            numbers = f"{self.first}" if self.first == self.last else f"{self.first}–{self.last}"
            text += f"; record{plural} {numbers} lost"
        return f"{text}; {self.size:,} bytes passed over" if self.size else text


@dataclass(frozen=True, slots=True)
class End:
    """The trailer, at `offset`; `agrees` says whether it matches the records that came before it."""

    offset: int
    trailer: Trailer
    agrees: bool


Item = Preamble | RawRecord | Damage | End


class BadPreamble(Exception):
    """The first 32 bytes are not a capture's; the argument is a clause that says why."""


class Decoder:
    """The state between two pieces of a file: where we are, whose file it is, which record comes next.

    `end` is the size of the whole file in bytes where it is known: then a length that leads past it is refused at once.
    """

    def __init__(self, end: int | None = None) -> None:
        self.offset = 0  # of the first byte that is not yet done with
        self.wants = PREAMBLE_SIZE  # bytes that are needed from `offset` on before the next step can be made
        self.last_seq = 0
        self.end = end
        self._seed = 0
        self._file_id = b""
        self._footer_offset = 0
        self._expects_trailer = False
        self._ended = False  # the trailer was read; whatever follows it does not belong there
        self._damage: Damage | None = None  # a range that is still growing
        self._search = 0  # where the search for a good head goes on meanwhile
        self._waste = 0

    def scan(self, data: bytes, base: int, final: bool) -> Iterator[Item]:
        """Every item that `data` holds. It begins at offset `base` of the file, which is at or before `self.offset`;
        `final` says that nothing follows it. Afterwards `self.wants` bytes from `self.offset` on are asked for.

        Raises BadPreamble.
        """
        if final:
            self.end = base + len(data)
        window = _Window(data, memoryview(data), base, final)
        if not self._file_id:
            if window.left(self.offset) < PREAMBLE_SIZE and not final:
                return
            yield self._preamble(window)
        while (item := self._next(window)) is not None:
            yield item

    def _preamble(self, window: _Window) -> Preamble:
        preamble = framing.parse_preamble(window.cut(self.offset, PREAMBLE_SIZE))
        if isinstance(preamble, str):
            raise BadPreamble(preamble)
        self._file_id = preamble.file_id
        self._seed = framing.seed_of(preamble.file_id)
        self.offset += PREAMBLE_SIZE
        return preamble

    def _next(self, window: _Window) -> Item | None:
        """The next item, or None when more bytes are needed or there are none."""
        if self._damage is not None:
            return self._resync(window)
        left = window.left(self.offset)
        need = TRAILER_SIZE if self._expects_trailer else HEAD_SIZE
        if left < need:
            self.wants = need
            if left == 0 or not window.final:
                return None
            where = "its trailer" if self._expects_trailer else f"the head of record {self.last_seq + 1}"
            return self._lose(left, f"the file ends in {where}")
        if self._expects_trailer:
            return self._trailer(window)
        head = framing.parse_head(self._seed, window.cut(self.offset, HEAD_SIZE))
        if head is None:
            return self._begin_damage("this is no record", window)
        return self._record(head, window)

    def _record(self, head: Head, window: _Window) -> Item | None:
        size = HEAD_SIZE + head.length + TAIL_SIZE
        if self.end is not None and self.offset + size > self.end:
            there = self.end - self.offset
            return self._begin_damage(
                f"the file ends in record {head.seq}, after {there:,} of its {size:,} bytes", window
            )
        if window.left(self.offset) < size:
            self.wants = size
            return None
        raw = window.cut(self.offset, size)
        if not framing.body_is_whole(self._seed, raw):
            return self._bad_body(head, size, window)
        if head.seq <= self.last_seq:
            return self._lose(size, f"record {head.seq} stands here again, after record {self.last_seq}")
        if head.seq > self.last_seq + 1:
            first, self.last_seq = self.last_seq + 1, head.seq - 1
            return Damage(self.offset, 0, "records are missing before this place", first, self.last_seq)
        offset, self.offset = self.offset, self.offset + size
        self.last_seq = head.seq
        if head.type == RecordType.FOOTER:
            self._expects_trailer, self._footer_offset = True, offset
        return RawRecord(offset, size, head.type, head.flags, head.seq, raw[HEAD_SIZE : size - TAIL_SIZE])

    def _bad_body(self, head: Head, size: int, window: _Window) -> Item | None:
        """The head is good and so the length is true: this record alone is lost, if a record or the end follows it."""
        after = self.offset + size
        enough = TRAILER_SIZE if head.type == RecordType.FOOTER else HEAD_SIZE
        if window.left(after) < enough and not window.final and after != self.end:
            self.wants = size + enough
            return None
        rest = window.cut(after, enough)
        is_footer = head.type == RecordType.FOOTER and framing.parse_trailer(rest) is not None
        followed = len(rest) >= HEAD_SIZE and framing.parse_head(self._seed, rest) is not None
        why = f"the checksum of record {head.seq} is wrong"
        self._waste += size
        stepped_over = self._waste > WASTE_LIMIT * (self.end or after)
        if not (len(rest) == 0 or followed or is_footer or stepped_over):
            return self._begin_damage(why, window)
        if head.seq <= self.last_seq:
            return self._lose(size, why)
        first, self.last_seq = self.last_seq + 1, head.seq
        self._expects_trailer = is_footer
        return self._lose(size, why, first, head.seq)

    def _trailer(self, window: _Window) -> Item | None:
        trailer = framing.parse_trailer(window.cut(self.offset, TRAILER_SIZE))
        if trailer is None or trailer.file_id != self._file_id:
            return self._begin_damage("this is no trailer", window)
        offset, self.offset = self.offset, self.offset + TRAILER_SIZE
        self._expects_trailer, self._ended = False, True
        return End(
            offset,
            trailer,
            trailer.footer_offset == self._footer_offset and trailer.record_count == self.last_seq,
        )

    def _lose(self, size: int, why: str, first: int = 0, last: int = 0) -> Damage:
        offset, self.offset = self.offset, self.offset + size
        return Damage(offset, size, why, first, last)

    def _begin_damage(self, why: str, window: _Window) -> Item | None:
        self._damage = Damage(self.offset, 0, why)
        self._search = self.offset + 1
        self._expects_trailer = False
        return self._resync(window)

    def _resync(self, window: _Window) -> Item | None:
        """Seek the next good head with a higher number; at the end of the file, a trailer."""
        while (found := window.find(SYNC, self._search)) is not None:
            if window.left(found) < HEAD_SIZE:
                break
            head = framing.parse_head(self._seed, window.cut(found, HEAD_SIZE))
            if head is not None and head.seq > self.last_seq and self._fits(head, found):
                return self._end_damage(found, head.seq - 1)
            self._search = found + 1
        if window.final:
            return self._damage_up_to_the_end(window)
        seen = window.end - TRAILER_SIZE if found is None else min(found, window.end - TRAILER_SIZE)
        self._search = max(self._search, window.end - len(SYNC) + 1) if found is None else found
        self.offset = max(self.offset, seen)
        self.wants = window.end - self.offset + 1
        return None

    def _fits(self, head: Head, offset: int) -> bool:
        return self.end is None or offset + HEAD_SIZE + head.length + TAIL_SIZE <= self.end

    def _end_damage(self, offset: int, last: int) -> Damage | None:
        """The damage ends before `offset`; the records up to `last` are lost in it."""
        assert self._damage is not None
        damage, self._damage = self._damage, None
        first = self.last_seq + 1
        self.last_seq, self.offset = max(self.last_seq, last), offset
        size = offset - damage.offset
        if size == 0 and first > last:
            return None
        return Damage(damage.offset, size, damage.why, *((first, last) if first <= last else (0, 0)))

    def _damage_up_to_the_end(self, window: _Window) -> Item | None:
        assert self._damage is not None
        at = window.end - TRAILER_SIZE
        if not self._ended and at >= max(self._damage.offset, window.base):
            trailer = framing.parse_trailer(window.cut(at, TRAILER_SIZE))
            if trailer is not None and trailer.file_id == self._file_id:
                self._expects_trailer = True
                return self._end_damage(at, trailer.record_count) or self._next(window)
        return self._end_damage(window.end, 0)


@dataclass(frozen=True, slots=True)
class _Window:
    """A piece of the file, addressed by offsets in the file."""

    data: bytes
    view: memoryview
    base: int
    final: bool

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    def left(self, offset: int) -> int:
        return max(0, self.end - offset)

    def cut(self, offset: int, size: int) -> memoryview:
        at = offset - self.base
        return self.view[at : at + size]

    def find(self, what: bytes, offset: int) -> int | None:
        at = self.data.find(what, max(0, offset - self.base))
        return None if at < 0 else self.base + at
