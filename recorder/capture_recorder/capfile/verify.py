"""Is a capture what it says: every checksum, every number, and every entry of its index, held against the records.

Pure over a reader. What is wrong is a list of faults, each with the place in the file where it shows.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Final

from .decoder import Damage
from .framing import FIRST_SKIPPABLE
from .reader import CaptureReader, Entry, Unknown
from .records import REQUEST, Call, Checkpoint, Footer, Gap, Message, Meta

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
    gaps: int = 0
    unknown: int = 0
    faults: int = 0  # damage and index, all of them

    @property
    def clean(self) -> bool:
        """Whether there is nothing to complain of."""
        return self.condition == "clean" and not self.faults


def verify(reader: CaptureReader) -> Verification:
    """Check everything there is to check, in one pass."""
    check = _Check()
    for item in reader.scan():
        check.see(item)
    check.result.condition = reader.condition
    return check.result


class _Check:
    """The state of one pass."""

    def __init__(self) -> None:
        self.result = Verification()
        self._offsets = array("Q", [0])  # of each record by its number; 0 where none is
        self._calls: dict[int, tuple[int, int]] = {}  # since the last checkpoint: call, to (number, offset)
        self._checkpoints: list[int] = []
        self._totals = dict.fromkeys(("calls", "requests", "responses", "size", "gaps", "duration_ns"), 0)
        self._last_time = 0

    def see(self, item: Entry | Unknown | Damage) -> None:
        """The next item of the scan."""
        result = self.result
        if isinstance(item, Damage):
            result.faults += 1
            if len(result.damage) < KEPT:
                result.damage.append(item)
            return
        result.records += 1
        result.bytes_checked += item.size
        self._offsets.extend([0] * (item.seq - len(self._offsets)))  # the missing are few: the file holds the rest
        self._offsets.append(item.offset)
        if isinstance(item, Unknown):
            result.unknown += item.type < FIRST_SKIPPABLE
        else:
            self._record(item)

    def _record(self, entry: Entry) -> None:
        record = entry.record
        if (entry.seq == 1) != isinstance(record, Meta):
            self._fault(entry, "a capture begins with its `meta` record, and has one")
        time_ns = getattr(record, "time_ns", self._last_time)
        if time_ns < self._last_time:
            self._fault(entry, f"its time is {self._last_time - time_ns} ns before that of an earlier record")
        self._last_time = max(self._last_time, time_ns)
        self._totals["duration_ns"] = self._last_time
        match record:
            case Call():
                self._totals["calls"] += 1
                self._calls[record.call] = (entry.seq, entry.offset)
            case Message():
                self._totals["requests" if record.direction == REQUEST else "responses"] += 1
                self._totals["size"] += len(record.payload)
            case Gap():
                self._totals["gaps"] += 1
                self.result.gaps += 1
            case Checkpoint():
                self._checkpoint(entry, record)
            case Footer():
                self._footer(entry, record)
            case _:
                pass

    def _checkpoint(self, entry: Entry, checkpoint: Checkpoint) -> None:
        previous = self._checkpoints[-1] if self._checkpoints else 0
        if checkpoint.previous != previous:
            self._fault(entry, f"the checkpoint before is said to be at {checkpoint.previous}, and is at {previous}")
        for row in checkpoint.records:
            seq = row[0] if row else 0
            if len(row) != 2 or not 0 < seq < len(self._offsets) or self._offsets[seq] != row[1]:
                self._fault(entry, f"its index says {list(row)} where no such record stands")
        for row in checkpoint.calls:
            if len(row) != 3 or self._calls.get(row[0]) != (row[1], row[2]):
                self._fault(entry, f"its index of calls says {list(row)} where no such call stands")
        if len(checkpoint.calls) != len(self._calls):
            self._fault(entry, f"its index has {len(checkpoint.calls)} calls, and {len(self._calls)} were begun")
        self._checkpoints.append(entry.offset)
        self._calls.clear()

    def _footer(self, entry: Entry, footer: Footer) -> None:
        if list(footer.checkpoints) != self._checkpoints:
            self._fault(entry, f"it names {len(footer.checkpoints)} checkpoints, and they are not the ones of the file")
        for name, counted in self._totals.items():
            said = getattr(footer, name)
            if said != counted:
                self._fault(entry, f"it says {name} {said}, and there are {counted}")

    def _fault(self, entry: Entry, why: str) -> None:
        self.result.faults += 1
        if len(self.result.index) < KEPT:
            self.result.index.append(Fault(entry.offset, entry.seq, why))
