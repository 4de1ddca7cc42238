"""Where the records of a capture are: from its index, a few kilobytes of a file of any size; without one, by a scan.

The scan goes in batches, so that whoever waits can show progress, and what it has seen can be used meanwhile. An index
is a hint (FORMAT.md section 8): each step is verified, and where one fails the records themselves are read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from .decoder import Damage
from .index import STRIDE_RECORDS
from .reader import ONE_RECORD, CaptureReader, Entry, Item
from .records import Call, Checkpoint, Footer, Schema


@dataclass(frozen=True, slots=True)
class CallRow:
    """A call, the number of its `call` record, and where that stands (or the block that it is in)."""

    call: int
    seq: int
    offset: int


class Catalog:
    """The places of the records of an open capture, which must be a file.

    `calls` lists those that are known, by their numbers; all of them once `complete`, which a clean capture's catalog
    is from the start. Of others `advance` reads on. A record is found in any case.
    """

    def __init__(self, reader: CaptureReader) -> None:
        self._reader = reader
        self.footer = _footer(reader)
        self.calls: dict[int, CallRow] = {}
        self._schemas: list[int] = []  # offsets
        self.complete = self.footer is not None and self._read_index(self.footer)
        self.bytes_seen = 0 if not self.complete else reader.size or 0  # how far the scan is
        self._numbers, self._offsets = array("Q"), array("Q")  # of the scan: every so many records, ascending
        self._rest: Iterator[Item] | None = None
        if not self.complete:
            self.calls, self._schemas = {}, []
            self._rest = reader.scan()

    def advance(self, records: int = 10_000) -> bool:
        """Scan so many records more; whether there may be others."""
        for _ in range(records):
            item = None if self._rest is None else next(self._rest, None)
            if item is None:
                self.finish()
                break
            self.saw(item)
        return not self.complete

    def saw(self, item: Item) -> None:
        """The next item of a scan that somebody else makes, in the place of `advance`."""
        self.bytes_seen = max(self.bytes_seen, item.offset + item.size)
        if isinstance(item, Entry):
            self._take(item)

    def finish(self) -> None:
        """Such a scan is at its end."""
        self._rest, self.complete = None, True

    def read(self, seq: int) -> Entry | None:
        """Record number `seq`; None where there is no such record, or it is not whole or not known."""
        first = next(self.items_from(seq), None)
        return first if isinstance(first, Entry) and first.seq == seq else None

    def items_from(self, seq: int) -> Iterator[Item]:
        """As a scan of the reader, from record number `seq` on, or from the first that comes after it."""
        start = self._nearest(seq)
        if start is not None:
            items = self._reader.from_offset(start)
            first = next(items, None)
            if isinstance(first, Entry) and first.seq <= seq:  # else the index does not tell the truth: the records do
                yield from _from(seq, chain((first,), items))
                return
        yield from _from(seq, self._reader.scan())

    def opening(self, number: int) -> Entry | None:
        """The record with which call `number` begins."""
        row = self.calls.get(number)
        if row is None:
            return None
        for item in self._reader.from_offset(row.offset, ONE_RECORD):
            if item.offset != row.offset:
                break  # what stands there is one record, or a block of them
            if isinstance(item, Entry) and item.seq == row.seq and _opens(item, number):
                return item
        return next((entry for entry in self._reader.entries() if _opens(entry, number)), None)  # the index lies

    def schemas(self) -> Iterator[Schema]:
        """The schema records; of a file without an index those that the scan has come to."""
        for offset in dict.fromkeys(self._schemas):
            for item in self._reader.from_offset(offset, ONE_RECORD):
                if item.offset != offset:
                    break  # what stands there is one record, or a block of them
                if isinstance(item, Entry) and isinstance(item.record, Schema):
                    yield item.record

    def _take(self, entry: Entry) -> None:
        if not self._numbers or entry.seq >= self._numbers[-1] + STRIDE_RECORDS:
            self._numbers.append(entry.seq)
            self._offsets.append(entry.offset)
        if isinstance(entry.record, Call):
            self.calls.setdefault(entry.record.call, CallRow(entry.record.call, entry.seq, entry.offset))
        elif isinstance(entry.record, Schema):
            self._schemas.append(entry.offset)

    def _nearest(self, seq: int) -> int | None:
        """The offset of a record at or before number `seq`, as near as the index or the scan so far knows."""
        if self.footer is None:
            at = bisect_right(self._numbers, seq) - 1
            return self._offsets[at] if at >= 0 else None
        places = self.footer.checkpoints
        low, high = 0, len(places)  # the checkpoint sought is in places[low:high], if its first row is not above seq
        found: tuple[tuple[int, ...], ...] = ()
        while low < high:
            middle = (low + high) // 2
            checkpoint = _checkpoint(self._reader, places[middle])
            if checkpoint is None or not checkpoint.records or len(checkpoint.records[0]) != 2:
                return None
            if checkpoint.records[0][0] <= seq:
                low, found = middle + 1, checkpoint.records
            else:
                high = middle
        rows = [row for row in found if len(row) == 2 and row[0] <= seq]
        return rows[-1][1] if rows else None

    def _read_index(self, footer: Footer) -> bool:
        """List calls, by the checkpoints that have any, and schemas; False where the index is not whole."""
        if footer.schemas is None:
            return False
        self._schemas = list(footer.schemas)
        for place in footer.checkpoints if footer.openings is None else footer.openings:
            checkpoint = _checkpoint(self._reader, place)
            if checkpoint is None or any(len(row) != 3 for row in checkpoint.calls):
                return False
            self.calls.update((row[0], CallRow(*row)) for row in checkpoint.calls)
        return len(self.calls) == footer.calls


def _opens(entry: Entry, number: int) -> bool:
    return isinstance(entry.record, Call) and entry.record.call == number


def _from(seq: int, items: Iterator[Item]) -> Iterator[Item]:
    for item in items:
        if (item.last if isinstance(item, Damage) else item.seq) >= seq:
            yield item
            yield from items


def _footer(reader: CaptureReader) -> Footer | None:
    """The totals of a clean capture, through its trailer; None where there is none to be trusted."""
    trailer = reader.trailer()
    entry = None if trailer is None else next(reader.from_offset(trailer.footer_offset, ONE_RECORD), None)
    if trailer is None or not isinstance(entry, Entry) or entry.seq != trailer.record_count:
        return None
    return entry.record if isinstance(entry.record, Footer) else None


def _checkpoint(reader: CaptureReader, offset: int) -> Checkpoint | None:
    entry = next(reader.from_offset(offset, ONE_RECORD), None)
    return entry.record if isinstance(entry, Entry) and isinstance(entry.record, Checkpoint) else None
