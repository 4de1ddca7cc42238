"""What a writer remembers of what it wrote, for checkpoints and footer: a few numbers, however long the capture grows.

Pure. An index is a hint that a scan can rebuild; whoever follows it verifies what it finds (FORMAT.md section 8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .records import REQUEST, Call, Checkpoint, Footer, Gap, Message, Record, Schema

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
        self._openings: list[int] = []  # the checkpoints that list a call
        self._schemas: list[int] = []
        self._next_seq = self._next_offset = 0  # the number, or the offset, from which on the next entry is made
        self._last_entry = 0  # the offset of the last entry
        self._due_seq, self._due_offset = INTERVAL_RECORDS, INTERVAL_BYTES  # likewise the next checkpoint
        self._call_count = self._requests = self._responses = self._size = self._gaps = self._duration_ns = 0
        self.is_due = False  # whether enough was written since the last checkpoint for another

    @property
    def has_news(self) -> bool:
        """Whether records were written since the last checkpoint."""
        return bool(self._entries)

    def add(self, record: Record | None, seq: int, offset: int) -> None:
        """A record was written; None stands for one of a type that we do not know."""
        if type(record) is Checkpoint:
            self._checkpoints.append(offset)
            if record.calls:
                self._openings.append(offset)
            self._entries, self._calls, self.is_due = [], [], False
            self._next_seq = self._next_offset = 0
            self._due_seq, self._due_offset = seq + INTERVAL_RECORDS, offset + INTERVAL_BYTES
            return
        if (seq >= self._next_seq or offset >= self._next_offset) and offset != self._last_entry:
            self._entries.append((seq, offset))
            self._next_seq, self._next_offset = seq + STRIDE_RECORDS, offset + STRIDE_BYTES
            self._last_entry = offset  # records of one block have one place
        if seq >= self._due_seq or offset >= self._due_offset:
            self.is_due = True
        if type(record) is Message:  # first: nearly every record is one
            if record.direction == REQUEST:
                self._requests += 1
            else:
                self._responses += 1
            self._size += len(record.payload)
            self._duration_ns = max(self._duration_ns, record.time_ns)
        elif record is not None:
            self._count(record, seq, offset)

    def _count(self, record: Record, seq: int, offset: int) -> None:
        if isinstance(record, Call):
            self._call_count += 1
            self._calls.append((record.call, seq, offset))
        elif isinstance(record, Schema):
            self._schemas.append(offset)
        elif isinstance(record, Gap):
            self._gaps += 1
        self._duration_ns = max(self._duration_ns, getattr(record, "time_ns", 0))

    def checkpoint(self, extra: Mapping[str, Any]) -> Checkpoint:
        """The index of what was written since the last checkpoint."""
        previous = self._checkpoints[-1] if self._checkpoints else 0
        return Checkpoint(previous=previous, records=tuple(self._entries), calls=tuple(self._calls), extra=extra)

    def footer(self, extra: Mapping[str, Any]) -> Footer:
        """The totals of the whole file."""
        return Footer(
            checkpoints=tuple(self._checkpoints),
            openings=tuple(self._openings),
            schemas=tuple(self._schemas),
            calls=self._call_count,
            requests=self._requests,
            responses=self._responses,
            size=self._size,
            gaps=self._gaps,
            duration_ns=self._duration_ns,
            extra=extra,
        )
