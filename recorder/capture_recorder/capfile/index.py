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
        self._first = (0, 0)  # (seq, offset) of the first record that no checkpoint covers
        self._last = (0, 0)
        self._totals = dict.fromkeys(("calls", "requests", "responses", "size", "gaps", "duration_ns"), 0)

    @property
    def is_due(self) -> bool:
        """Whether enough was written since the last checkpoint for another."""
        records, size = (last - first for last, first in zip(self._last, self._first, strict=True))
        return records >= INTERVAL_RECORDS or size >= INTERVAL_BYTES

    def add(self, record: Record, seq: int, offset: int) -> None:
        """A record was written."""
        if isinstance(record, Checkpoint):
            self._checkpoints.append(offset)
            self._entries, self._calls = [], []
            self._first = self._last = (seq, offset)
            return
        self._last = (seq, offset)
        entries = self._entries
        if not entries or seq >= entries[-1][0] + STRIDE_RECORDS or offset >= entries[-1][1] + STRIDE_BYTES:
            entries.append((seq, offset))
        self._count(record, seq, offset)

    def _count(self, record: Record, seq: int, offset: int) -> None:
        totals = self._totals
        if isinstance(record, Call):
            totals["calls"] += 1
            self._calls.append((record.call, seq, offset))
        elif isinstance(record, Message):
            totals["requests" if record.direction == REQUEST else "responses"] += 1
            totals["size"] += len(record.payload)
        elif isinstance(record, Gap):
            totals["gaps"] += 1
        totals["duration_ns"] = max(totals["duration_ns"], getattr(record, "time_ns", 0))

    def checkpoint(self) -> Checkpoint:
        """The index of what was written since the last checkpoint. Its `records` is empty when there was nothing."""
        previous = self._checkpoints[-1] if self._checkpoints else 0
        return Checkpoint(previous=previous, records=tuple(self._entries), calls=tuple(self._calls))

    def footer(self) -> Footer:
        """The totals of the whole file."""
        return Footer(checkpoints=tuple(self._checkpoints), extra={}, **self._totals)
