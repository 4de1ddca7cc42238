"""Makes one capture of several of one program, in time order, with its calls numbered anew.

Time is the wall clock's, which `meta` ties each capture to. The order within each capture stays as it is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from .decoder import RawRecord
from .errors import CaptureWriteError
from .output import Output
from .reader import CaptureReader, Entry, Unknown
from .records import EVENT_TYPES, Call, Cancel, Gap, Meta, Note, Record, Schema, Status
from .rewrite import INDEX, Copier, derived_id, whole
from .writer import CaptureWriter


@dataclass(slots=True)
class Merge:
    """What came of it: how many calls and events, and which programs the captures name."""

    calls: int = 0
    events: int = 0
    programs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Source:
    """One of the captures: how much later than the merged one it began (ns), and what its calls are numbered now."""

    reader: CaptureReader
    meta: Meta
    later_ns: int
    copier: Copier
    calls: dict[int, int] = field(default_factory=dict)


def merge(readers: Sequence[CaptureReader], output: Output) -> Merge:
    """Write all of `readers`, which are files, to `output`.

    Raises NotWhole, CaptureWriteError; then there is no output.
    """
    ids = [reader.preamble.file_id for reader in readers]
    twice = next((reader for reader, file_id in zip(readers, ids, strict=True) if ids.count(file_id) > 1), None)
    if twice is not None:
        output.discard()
        raise CaptureWriteError(twice.name, "is given twice, or a copy of it is; each capture is merged once")
    writer = CaptureWriter(output, file_id=derived_id("merge", *ids))
    try:
        made = _merge(readers, writer)
        writer.close()
    except BaseException:
        writer.discard()
        raise
    return made


def _merge(readers: Sequence[CaptureReader], writer: CaptureWriter) -> Merge:
    metas = [_meta(reader) for reader in readers]
    start = min(metas, key=lambda meta: meta.created_ns)
    redacts = tuple(dict.fromkeys(name for meta in metas for name in meta.redacts))
    by = f"merge of {len(readers)} captures"
    derived = {"from": [reader.preamble.file_id.hex() for reader in readers], "by": by}
    writer.append(replace(start, redacts=redacts, derived=derived))
    sources = [
        _Source(reader, meta, meta.created_ns - start.created_ns, Copier(writer))
        for reader, meta in zip(readers, metas, strict=True)
    ]
    made = Merge(programs=list(dict.fromkeys(meta.program for meta in metas)))
    schemas: set[tuple[object, bytes]] = set()
    for _, source, raw, decoded in heapq.merge(*map(_timed, sources), key=itemgetter(0)):
        changed = _changed(source, decoded, made)
        if isinstance(changed, Schema):
            if (changed.services, changed.files) in schemas:
                continue
            schemas.add((changed.services, changed.files))
        source.copier.copy(raw, decoded, changed)
    return made


def _meta(reader: CaptureReader) -> Meta:
    first = next(reader.scan(), None)
    if not isinstance(first, Entry) or not isinstance(first.record, Meta):
        raise CaptureWriteError(reader.name, "does not begin with a `meta` record, so its time is not known")
    return first.record


_Timed = tuple[int, _Source, RawRecord, Entry | Unknown]


def _timed(source: _Source) -> Iterator[_Timed]:
    """The records of a capture with their time in the merged one; one without a time goes with the one before."""
    time_ns = source.later_ns
    for raw, decoded in whole(source.reader, "merge it"):
        record = decoded.record if isinstance(decoded, Entry) else None
        if isinstance(record, (*INDEX, Meta)):
            continue
        time_ns = max(time_ns, source.later_ns + getattr(record, "time_ns", 0))
        yield time_ns, source, raw, decoded


def _changed(source: _Source, decoded: Entry | Unknown, made: Merge) -> Record | None:
    """A record with its time and its call as they are in the merged capture; None for one to be copied as it is."""
    if isinstance(decoded, Unknown):
        if decoded.critical:
            why = f"record {decoded.seq} at offset {decoded.offset} is of a type that is not known"
            raise CaptureWriteError(source.reader.name, f"{why}: it cannot be merged; use a newer capture-replay")
        return None
    record = decoded.record
    if getattr(record, "time_ns", 0) + source.later_ns >= 1 << 64:
        why = f"record {decoded.seq} at offset {decoded.offset}: its time beside the others is more than a file holds"
        raise CaptureWriteError(source.reader.name, why)
    if isinstance(record, EVENT_TYPES):
        made.events += 1
        if isinstance(record, Call):
            made.calls += 1
            source.calls[record.call] = made.calls
        call = source.calls.get(record.call)
        if call is None:
            why = f"record {decoded.seq} at offset {decoded.offset} is of call {record.call}, which is not open there"
            raise CaptureWriteError(source.reader.name, f"{why}; no recorder writes that")
        if isinstance(record, (Status, Cancel)):
            del source.calls[record.call]
        return replace(record, call=call, time_ns=record.time_ns + source.later_ns)
    if isinstance(record, Gap):
        call = source.calls.get(record.call) if record.call is not None else None
        return replace(record, call=call, time_ns=record.time_ns + source.later_ns)
    return record if isinstance(record, (Schema, Note)) else None
