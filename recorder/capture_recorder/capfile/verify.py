"""Is a capture what it says: every checksum, every number, and every entry of its index, held against the records.

Pure over a reader. What is wrong is a list of faults, each with the place in the file where it shows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from .decoder import Damage
from .framing import FIRST_SKIPPABLE, PREAMBLE_SIZE
from .index import INTERVAL_RECORDS
from .reader import CaptureReader, Entry, Item, Unknown
from .records import REQUEST, Call, Checkpoint, Footer, Gap, Message, Meta, Schema

LOST: Final = 0  # in place of an offset: no record begins there
KEPT: Final = 10_000
"""Faults that are kept; all are counted. A file can be nothing but faults."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it should be, at `offset` in bytes; `seq` is the record that says it, 0 if none does."""

    offset: int
    seq: int
    why: str

    def __str__(self) -> str:
        where = f"offset {self.offset}" + (f", record {self.seq}" if self.seq else "")
        return f"{where}: {self.why}"


@dataclass(slots=True)
class Verification:
    """What was found. `damage` is what no record is left of, `index` where an index or a total does not tell the truth,
    `unknown` how many records are of a type of a later version."""

    condition: str = ""
    records: int = 0
    bytes_checked: int = 0
    damage: list[Damage] = field(default_factory=list)
    index: list[Fault] = field(default_factory=list)
    remarks: list[Fault] = field(default_factory=list)  # what no recorder writes, and is no fault of the file
    gaps: int = 0
    unknown: int = 0
    faults: int = 0  # damage and index, all of them
    lost: int = 0  # records, as far as their numbers tell

    @property
    def clean(self) -> bool:
        """Whether there is nothing to complain of."""
        return self.condition == "clean" and not self.faults


def verify(reader: CaptureReader) -> Verification:
    """Check everything there is to check, in one pass."""
    return verify_items(reader.scan(), reader)


def verify_items(items: Iterable[Item], reader: CaptureReader) -> Verification:
    """`verify`, where the scan of `reader` is watched by somebody."""
    check = _Check()
    for item in items:
        check.see(item)
    check.end()
    check.result.condition = reader.condition
    return check.result


class _Check:
    """The state of one pass. What it remembers is of the records since the last checkpoint, and of checkpoints."""

    def __init__(self) -> None:
        self.result = Verification()
        self._first = 1  # number of the first record after the last checkpoint
        self._offsets = array("Q")  # of the records from there on; 0 where none is
        self._calls: set[tuple[int, ...]] = set()  # likewise: call, number, offset
        self._checkpoints, self._openings, self._schemas = array("Q"), array("Q"), array("Q")
        self._totals = dict.fromkeys(("calls", "requests", "responses", "size", "gaps", "duration_ns"), 0)
        self._last_time = 0
        self._has_meta = False

    def see(self, item: Item) -> None:
        """The next item of the scan."""
        result = self.result
        if type(item) is Damage:
            result.faults += 1
            result.lost += item.last - item.first + 1 if item.first else 0
            if len(result.damage) < KEPT:
                result.damage.append(item)
            return
        assert not isinstance(item, Damage)
        result.records += 1
        result.bytes_checked += item.size
        missing = item.seq - self._first - len(self._offsets)
        if missing > INTERVAL_RECORDS:  # no index names more than that
            self._first, self._offsets = item.seq - 1, array("Q", [0])
        else:
            self._offsets.extend([0] * missing)
        self._offsets.append(item.offset)
        if type(item) is Entry:
            self._record(item)
        elif isinstance(item, Unknown):
            result.unknown += item.type < FIRST_SKIPPABLE

    def end(self) -> None:
        """There is no further item."""
        if not self._has_meta:
            self._fault(Fault(PREAMBLE_SIZE, 0, "there is no `meta` record"))

    def _record(self, entry: Entry) -> None:
        record = entry.record
        if type(record) is Message:  # first: nearly every record is one
            self._totals["requests" if record.direction == REQUEST else "responses"] += 1
            self._totals["size"] += len(record.payload)
        elif isinstance(record, Call):
            self._totals["calls"] += 1
            self._calls.add((record.call, entry.seq, entry.offset))
        elif isinstance(record, Schema):
            self._schemas.append(entry.offset)
        elif isinstance(record, Gap):
            self._totals["gaps"] += 1
            self.result.gaps += 1
        elif isinstance(record, Meta):
            if entry.seq != 1:
                self._fault(_at(entry, "a `meta` record stands at the beginning and nowhere else"))
            self._has_meta = True
        elif isinstance(record, Checkpoint):
            self._checkpoint(entry, record)
            return
        elif isinstance(record, Footer):
            self._footer(entry, record)
            return
        time_ns = getattr(record, "time_ns", self._last_time)
        if time_ns < self._last_time:
            behind = f"{self._last_time - time_ns:,} ns"
            self._remark(_at(entry, f"its time is {behind} before that of an earlier record"))
            return
        self._last_time = self._totals["duration_ns"] = time_ns

    def _checkpoint(self, entry: Entry, checkpoint: Checkpoint) -> None:
        previous = self._checkpoints[-1] if self._checkpoints else 0
        if checkpoint.previous != previous and not self.result.damage:
            why = f"the checkpoint before is said to be at {checkpoint.previous}, and is at {previous}"
            self._fault(_at(entry, why))
        for row in checkpoint.records:
            if len(row) != 2 or self._offset_of(row[0]) not in (row[1], LOST):
                self._fault(_at(entry, f"its index says {list(row)} where no such record stands"))
        first = self._first
        if (
            self._offsets[0] != LOST
            and first != entry.seq
            and (not checkpoint.records or checkpoint.records[0][:1] != (first,))
        ):
            self._fault(_at(entry, f"its index does not begin with record {first}, the first since the one before"))
        for row in checkpoint.calls:
            if row not in self._calls and (len(row) != 3 or self._offset_of(row[1]) != LOST):
                self._fault(_at(entry, f"its index of calls says {list(row)} where no such call stands"))
        if len(checkpoint.calls) != len(self._calls) and not self.result.damage:
            why = f"its index has {len(checkpoint.calls)} calls, and {len(self._calls)} were begun"
            self._fault(_at(entry, why))
        self._checkpoints.append(entry.offset)
        if checkpoint.calls:
            self._openings.append(entry.offset)
        self._calls.clear()
        self._first, self._offsets = entry.seq + 1, array("Q")

    def _offset_of(self, seq: int) -> int:
        """LOST where the record is; -1 where no number of this side of the last checkpoint is meant."""
        at = seq - self._first
        return self._offsets[at] if 0 <= at < len(self._offsets) else -1

    def _footer(self, entry: Entry, footer: Footer) -> None:
        if self.result.damage:
            return  # it tells of what is lost
        if list(footer.checkpoints) != list(self._checkpoints):
            why = f"it names {len(footer.checkpoints)} checkpoints, and they are not the ones of the file"
            self._fault(_at(entry, why))
        if footer.schemas is not None and list(footer.schemas) != list(self._schemas):
            self._fault(_at(entry, "the places of schemas that it names are not those of the file"))
        if footer.openings is not None and list(footer.openings) != list(self._openings):
            self._fault(_at(entry, "the checkpoints that it says list calls are not the ones that do"))
        for name, counted in self._totals.items():
            said = getattr(footer, name)
            if said != counted:
                self._fault(_at(entry, f"it says {name} {said}, and there are {counted}"))

    def _fault(self, fault: Fault) -> None:
        self.result.faults += 1
        if len(self.result.index) < KEPT:
            self.result.index.append(fault)

    def _remark(self, remark: Fault) -> None:
        if len(self.result.remarks) < KEPT:
            self.result.remarks.append(remark)


def _at(entry: Entry, why: str) -> Fault:
    return Fault(entry.offset, entry.seq, why)
