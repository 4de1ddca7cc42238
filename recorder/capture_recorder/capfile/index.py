"""What a writer remembers of what it wrote, for checkpoints and footer: a few numbers, however long the capture grows.

Pure. An index is a hint that a scan can rebuild; whoever follows it verifies what it finds (FORMAT.md section 8).
"""

from __future__ import annotations

from typing import Final

from .records import REQUEST, Call, Checkpoint, Footer, Gap, Message, Record

STRIDE_RECORDS: Final = 32  # so far apart do entries stand: to find a record, at most as many heads are read
STRIDE_BYTES: Final = 256 * 1024
INTERVAL_RECORDS: Final = 1024  # so often a checkpoint is written: some 400 bytes of index for 1,024 records
INTERVAL_BYTES: Final = 16 * 1024 * 1024


class Index:
    """The records since the last checkpoint, sparsely, and the totals."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []
        self._calls: list[tuple[int, int, int]] = []
        self._checkpoints: list[int] = []
        self._next_entry = (0, 0)  # the number, or the offset, from which on the next entry is made
        self._next_checkpoint = (INTERVAL_RECORDS, INTERVAL_BYTES)  # likewise the next checkpoint
        self._totals = dict.fromkeys(("calls", "requests", "responses", "size", "gaps", "duration_ns"), 0)
        self.is_due = False  # whether enough was written since the last checkpoint for another

    def add(self, record: Record, seq: int, offset: int) -> None:
        """A record was written."""
        if isinstance(record, Checkpoint):
            self._checkpoints.append(offset)
            self._entries, self._calls, self.is_due = [], [], False
            self._next_entry = (0, 0)
            self._next_checkpoint = (seq + INTERVAL_RECORDS, offset + INTERVAL_BYTES)
            return
        if seq >= self._next_entry[0] or offset >= self._next_entry[1]:
            self._entries.append((seq, offset))
            self._next_entry = (seq + STRIDE_RECORDS, offset + STRIDE_BYTES)
        self.is_due = seq >= self._next_checkpoint[0] or offset >= self._next_checkpoint[1]
        self._count(record, seq, offset)

    def _count(self, record: Record, seq: int, offset: int) -> None:
        totals = self._totals
        if isinstance(record, Message):  # first: nearly every record is one
            totals["requests" if record.direction == REQUEST else "responses"] += 1
            totals["size"] += len(record.payload)
        elif isinstance(record, Call):
            totals["calls"] += 1
            self._calls.append((record.call, seq, offset))
        elif isinstance(record, Gap):
            totals["gaps"] += 1
        time_ns = getattr(record, "time_ns", 0)
        totals["duration_ns"] = max(totals["duration_ns"], time_ns)

    def checkpoint(self) -> Checkpoint:
        """The index of what was written since the last checkpoint. Its `records` is empty when there was nothing."""
        previous = self._checkpoints[-1] if self._checkpoints else 0
        return Checkpoint(previous=previous, records=tuple(self._entries), calls=tuple(self._calls))

    def footer(self) -> Footer:
        """The totals of the whole file."""
        return Footer(checkpoints=tuple(self._checkpoints), extra={}, **self._totals)
