"""Makes a clean capture of what is whole in another.

A clean capture is copied byte for byte, so recovering twice changes nothing. Where records are lost in the middle, a
`gap` stands in their place: the result must not pass for a capture in which nothing was ever missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from .decoder import TORN, Damage
from .framing import FIRST_SKIPPABLE, RecordType
from .output import Output
from .reader import CaptureReader, Entry
from .records import EVENT_TYPES, Cancel, Meta, Status
from .rewrite import INDEX, Copier, derived_id, gap
from .verify import verify
from .writer import CaptureWriter, copy

_COPY: Final = 1024 * 1024  # bytes at a time
_NO_EVENTS: Final = frozenset(
    (RecordType.META, RecordType.SCHEMA, RecordType.CHECKPOINT, RecordType.FOOTER, *range(FIRST_SKIPPABLE, 256))
)
"""Records whose loss is told, and makes no hole among the events."""


@dataclass(slots=True)
class Recovery:
    """What came of it. `condition` is the source's, `records` were kept (its index not counted), `lost` is what was
    not."""

    condition: str
    records: int = 0
    lost: list[Damage] = field(default_factory=list)
    copied: bool = False  # there was nothing to be mended


def recover(source: CaptureReader, output: Output) -> Recovery:
    """Write to `output` what is whole of `source`, a file, which is read twice and not changed.

    Raises CaptureWriteError, and then there is no output.
    """
    found = verify(source)  # the first pass
    recovery = Recovery(found.condition)
    if found.clean:
        copy(source.chunks(_COPY), output)
        recovery.copied = True
        recovery.records = sum(not isinstance(getattr(item, "record", None), INDEX) for item in source.scan())
        return recovery
    writer = CaptureWriter(output, file_id=derived_id("recover", source.preamble.file_id))
    try:
        _salvage(source, writer, recovery)
        writer.close()
    except BaseException:
        writer.discard()
        raise
    return recovery


def _salvage(source: CaptureReader, writer: CaptureWriter, recovery: Recovery) -> None:
    copier = Copier(writer)
    pending: list[Damage] = []  # lost since the last record that is whole
    open_calls: set[int] = set()
    last_time = 0
    for item in source.raw():
        if isinstance(item, Damage):
            recovery.lost.append(item)
            if item.offset > 0 and item.type not in _NO_EVENTS:
                pending.append(item)
            continue
        raw, decoded = item
        record = decoded.record if isinstance(decoded, Entry) else None
        if isinstance(record, Meta):
            if writer.seq > 0:
                recovery.lost.append(Damage(raw.offset, raw.size, "a second `meta` record", raw.seq, raw.seq))
            else:
                copier.copy(raw, decoded)
            continue
        if writer.seq == 0:
            writer.append(Meta(created_ns=0, clock_ns=0))  # the file's own is lost, and a capture begins with one
        if pending:  # a record follows: what is lost is lost from the middle
            writer.append(gap(pending, last_time, _whose(pending, open_calls)))
            pending = []
        if isinstance(record, INDEX):
            continue
        last_time = max(last_time, getattr(record, "time_ns", 0))
        if isinstance(record, EVENT_TYPES):
            (open_calls.discard if isinstance(record, (Status, Cancel)) else open_calls.add)(record.call)
        copier.copy(raw, decoded)
    if writer.seq == 0:
        writer.append(Meta(created_ns=0, clock_ns=0))
    if pending and recovery.condition != TORN:  # a torn end is no hole: nothing stood behind it
        writer.append(gap(pending, last_time, _whose(pending, open_calls)))
    recovery.records = copier.records


def _whose(lost: list[Damage], open_calls: set[int]) -> int | None:
    """The call that the lost events are of: where they began none, and one alone was open."""
    within = all(damage.type not in (0, RecordType.CALL) for damage in lost)
    return next(iter(open_calls)) if within and len(open_calls) == 1 else None
