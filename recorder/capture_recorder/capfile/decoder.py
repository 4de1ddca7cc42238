"""From bytes to records and damage, without I/O: whoever has bytes feeds them, from a file, a pipe or a test.

The order of the checks is FORMAT.md section 7: sync, head checksum, length against what is left, body checksum. A
length is believed only after its checksum, and nothing is allocated for it. What is damaged is reported as a range and
never skipped in silence. A bad body costs its own record; after a bad head the next good one of a higher number is
sought.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from crc32c import crc32c

from . import blocks, framing
from .errors import RecordError
from .framing import (
    HEAD_SIZE,
    MASK_DELTA,
    PREAMBLE_SIZE,
    SYNC,
    TAIL_SIZE,
    TRAILER_SIZE,
    Head,
    Preamble,
    RecordType,
    Trailer,
)

CLEAN: Final = "clean"
TORN: Final = "torn"
DAMAGED: Final = "damaged"
UNREADABLE: Final = "unreadable"

_APART: Final = frozenset((0, RecordType.FOOTER, RecordType.BLOCK))  # types that are more than a record, or none

WASTE_LIMIT: Final = 4
"""Bodies that turn out bad cost a checksum in vain. Past this many times the size of the file they are stepped over as
a whole, so that heads which all claim the rest of the file cannot make reading quadratic."""


class RawRecord(NamedTuple):
    """A record whose checksums are right. `offset` and `size` (head and tail included) are in bytes; of a record out of
    a block, `offset` is the block's, and `size` is what it would be outside of one."""

    seq: int
    offset: int
    size: int
    type: int
    flags: int
    body: memoryview


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of the file that holds no good record, or (`size` 0) a place where records are missing.

    `first` and `last` are the numbers of the records that are lost there, as far as that can be told (else 0);
    `type` is that of a single one whose head was whole (else 0).
    """

    offset: int
    size: int
    why: str
    first: int = 0
    last: int = 0
    type: int = 0

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


T = TypeVar("T")
_Step = RawRecord | Damage | End | None


class Decoder(Generic[T]):
    """The state between two pieces of a file: where we are, whose file it is, which record comes next.

    `make` turns each good record, given as the fields of a `RawRecord`, into what is wanted; a RecordError of it is
    damage. `end` is the size of the whole file in bytes where it is known: then a length that leads past it is refused
    at once.
    """

    def __init__(
        self, preamble: Preamble, make: Callable[[int, int, int, int, int, memoryview], T], end: int | None = None
    ) -> None:
        self.offset = PREAMBLE_SIZE  # of the first byte that is not yet done with
        self.wants = HEAD_SIZE  # bytes that are needed from `offset` on before the next step can be made
        self.last_seq = 0
        self.end = end
        self._make = make
        self._file_id = preamble.file_id
        self._seed = framing.seed_of(preamble.file_id)
        self._has_blocks = bool(preamble.features & framing.FEATURE_BLOCKS)
        self._footer_offset = 0
        self._expects_trailer = False
        self._end: End | None = None  # the trailer was read; whatever follows it does not belong there
        self._damage: Damage | None = None  # a range that is still growing
        self._search = 0  # where the search for a good head goes on meanwhile
        self._waste = 0
        self._damaged = False  # something was reported
        self._hole = False  # good records follow damage, or a record's checksums are right and its body is not
        self._after_footer = False  # the last good record was one
        self._tail = 0  # size of the damage after it, which may have been a trailer

    @property
    def condition(self) -> str:
        """What the whole file is; after the last piece. FORMAT.md section 9 has the table."""
        if self._end is not None:
            return CLEAN if self._end.agrees and not self._damaged else DAMAGED
        return DAMAGED if self._hole or self._tail >= TRAILER_SIZE else TORN

    @property
    def ended(self) -> bool:
        """Whether the trailer was read."""
        return self._end is not None

    def scan(self, data: bytes | bytearray, base: int, final: bool, size: int | None = None) -> Iterator[T | Damage]:
        """Every record and every damage that the first `size` bytes of `data` (None: all) hold. They begin at offset
        `base` of the file, which is at or before `self.offset`; `final` says that nothing follows them. Afterwards
        `self.wants` bytes from `self.offset` on are asked for.
        The memory that `make` was given views of is good until the next call.
        """
        window = _Window(data, memoryview(data)[:size], base, final)
        if final:
            self.end = window.end
        while True:
            yield from self._ordinary(window.view, base)
            item = self._next(window)
            if item is None:
                return
            if isinstance(item, RawRecord):
                yield from self._good(item)
            elif isinstance(item, Damage):
                self._see(item)
                yield item

    def _ordinary(self, view: memoryview, base: int) -> Iterator[T | Damage]:
        """The records from here on as long as nothing is unusual: each whole, good, and the next in number. The same
        checks in the same order as `_next`, in one loop without calls, since nearly every record passes here."""
        if self._damage is not None or self._expects_trailer or self._end is not None:
            return
        make, seed, limit = self._make, self._seed, len(view)
        at, seq = self.offset - base, self.last_seq
        first = seq
        unpack, crc_at = framing.HEAD.unpack_from, framing.CRC.unpack_from
        try:
            while at + HEAD_SIZE <= limit:
                sync, kind, flags, reserved, number, length, check = unpack(view, at)
                end = at + HEAD_SIZE + length + TAIL_SIZE
                if sync != SYNC or number != seq + 1 or end > limit or reserved or kind in _APART:
                    return
                crc = crc32c(view[at : at + 20], seed)
                if ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF != check:
                    return
                crc = crc32c(view[at + 20 : end - TAIL_SIZE], crc)  # goes on where the head's checksum ended
                if ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF != crc_at(view, end - TAIL_SIZE)[0]:
                    return
                offset = base + at
                try:
                    item = make(number, offset, end - at, kind, flags, view[at + HEAD_SIZE : end - TAIL_SIZE])
                except RecordError as error:
                    at, seq = end, number
                    yield self._invalid(number, offset, end - at, error)
                else:
                    at, seq = end, number
                    yield item
        finally:
            self.offset, self.last_seq = base + at, seq
            self._hole |= self._damaged and seq != first
            if seq != first:
                self._after_footer, self._tail = False, 0

    def _good(self, raw: RawRecord) -> Iterator[T | Damage]:
        """A record that was proven outside of the loop above."""
        self._damaged |= self._end is not None  # nothing may follow the trailer
        self._hole |= self._damaged
        self._after_footer, self._tail = self._expects_trailer, 0
        try:
            if raw.type == RecordType.BLOCK:
                yield from self._expand(raw)
            else:
                yield self._make(*raw)
        except RecordError as error:
            yield self._invalid(raw.seq, raw.offset, raw.size, error)

    def _expand(self, block: RawRecord) -> Iterator[T | Damage]:
        """The records of a block, numbered from its own number on."""
        if not self._has_blocks or block.flags:
            raise RecordError("a block in a capture that has none")
        members = blocks.expand(block.body)
        seq, make = block.seq, self._make
        self.last_seq = seq + len(members) - 1
        for kind, flags, body in members:
            size = HEAD_SIZE + len(body) + TAIL_SIZE
            try:
                yield make(seq, block.offset, size, kind, flags, body)
            except RecordError as error:
                yield self._invalid(seq, block.offset, 0, error)
            seq += 1

    def _invalid(self, seq: int, offset: int, size: int, error: RecordError) -> Damage:
        """A record that no crash leaves behind: the checksums are right and the body is not."""
        self._damaged = self._hole = True
        return Damage(offset, size, f"record {seq} is not valid: {error}", seq, seq)

    def _see(self, damage: Damage) -> None:
        self._damaged = True
        self._tail = damage.size if self._after_footer else 0

    def _next(self, window: _Window) -> _Step:
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

    def _record(self, head: Head, window: _Window) -> _Step:
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
        if head.type == RecordType.FOOTER and not head.flags:
            self._expects_trailer, self._footer_offset = True, offset
        return RawRecord(head.seq, offset, size, head.type, head.flags, raw[HEAD_SIZE : size - TAIL_SIZE])

    def _bad_body(self, head: Head, size: int, window: _Window) -> _Step:
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
        is_block = head.type == RecordType.BLOCK  # it may have held many records: the next head tells how many
        if (is_block and not stepped_over) or not (len(rest) == 0 or followed or is_footer or stepped_over):
            return self._begin_damage(why, window)
        if head.seq <= self.last_seq:
            return self._lose(size, why)
        first, self.last_seq = self.last_seq + 1, head.seq
        self._expects_trailer = is_footer
        return self._lose(size, why, first, head.seq, head.type if first == head.seq else 0)

    def _trailer(self, window: _Window) -> _Step:
        trailer = framing.parse_trailer(window.cut(self.offset, TRAILER_SIZE))
        if trailer is None or not self._is_ours(trailer):
            return self._begin_damage("this is no trailer", window)
        offset, self.offset = self.offset, self.offset + TRAILER_SIZE
        self._expects_trailer = False
        agrees = trailer.footer_offset == self._footer_offset and trailer.record_count == self.last_seq
        self._end = End(offset, trailer, agrees)
        return self._end

    def _is_ours(self, trailer: Trailer) -> bool:
        return trailer.file_id == self._file_id

    def _lose(self, size: int, why: str, first: int = 0, last: int = 0, kind: int = 0) -> Damage:
        offset, self.offset = self.offset, self.offset + size
        return Damage(offset, size, why, first, last, kind)

    def _begin_damage(self, why: str, window: _Window) -> _Step:
        self._damage = Damage(self.offset, 0, why)
        self._search = self.offset + 1
        self._expects_trailer = False
        return self._resync(window)

    def _resync(self, window: _Window) -> _Step:
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

    def _damage_up_to_the_end(self, window: _Window) -> _Step:
        assert self._damage is not None
        at = window.end - TRAILER_SIZE
        if self._end is None and at >= max(self._damage.offset, window.base):
            trailer = framing.parse_trailer(window.cut(at, TRAILER_SIZE))
            if trailer is not None and self._is_ours(trailer):
                self._expects_trailer = True
                return self._end_damage(at, trailer.record_count) or self._next(window)
        return self._end_damage(window.end, 0)


@dataclass(frozen=True, slots=True)
class _Window:
    """A piece of the file, addressed by offsets in the file."""

    data: bytes | bytearray
    view: memoryview
    base: int
    final: bool

    @property
    def end(self) -> int:
        return self.base + len(self.view)

    def left(self, offset: int) -> int:
        return max(0, self.end - offset)

    def cut(self, offset: int, size: int) -> memoryview:
        at = offset - self.base
        return self.view[at : at + size]

    def find(self, what: bytes, offset: int) -> int | None:
        at = self.data.find(what, max(0, offset - self.base), len(self.view))
        return None if at < 0 else self.base + at
