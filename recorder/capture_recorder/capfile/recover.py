"""Makes a clean capture of what is whole in another. Bodies are copied as they stand, known or not.

A clean capture is copied byte for byte, so recovering twice changes nothing. Where records are lost in the middle, a
`gap` stands in their place: the result must not pass for a capture in which nothing was ever missing.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import Final

from .decoder import Damage, RawRecord
from .errors import CaptureWriteError
from .reader import CLEAN, CaptureReader, Entry, Unknown
from .records import Checkpoint, Footer, Gap, Note, Record
from .writer import CaptureWriter

_INDEX: Final = (Checkpoint, Footer)  # the writer makes its own
_COPY: Final = 1024 * 1024


@dataclass(slots=True)
class Recovery:
    """What came of it. `records` were kept (index records not counted), `lost` says what was not."""

    condition: str
    records: int = 0
    lost: list[Damage] = field(default_factory=list)


def recover(source: CaptureReader, target: str | os.PathLike[str], *, force: bool = False) -> Recovery:
    """Write to `target` what is whole of `source`, which is read twice and not changed.

    Raises CaptureWriteError: `target` exists (and not `force`), is the source itself, or cannot be written; and then
    there is no `target`.
    """
    if os.path.exists(target) and source.is_file(target):  # noqa: PTH110 - of either a str or a Path
        raise CaptureWriteError(os.fspath(target), "is the capture itself, which is never changed; give another name")
    condition = source.condition  # the first pass
    writer = CaptureWriter(target, file_id=_new_id(source), replace=force)
    try:
        recovery = Recovery(condition)
        if condition == CLEAN:
            recovery.records = _copy(source, writer)
        else:
            _salvage(source, writer, recovery)
            writer.close()
    except BaseException:
        writer.discard()
        raise
    return recovery


def _new_id(source: CaptureReader) -> bytes:
    """Another than the source's, since its numbers are others; and the same each time."""
    return hashlib.blake2b(source.preamble.file_id, digest_size=8, person=b"recover").digest()


def _copy(source: CaptureReader, writer: CaptureWriter) -> int:
    """The file as it is."""
    footer = source.footer()
    writer.replace_by(source.chunks(_COPY))
    return 0 if footer is None else sum(not isinstance(e.record, _INDEX) for e in source.entries())


def _salvage(source: CaptureReader, writer: CaptureWriter, recovery: Recovery) -> None:
    numbers = _Numbers()
    pending: list[Damage] = []
    last_time = 0
    for item in source.raw():
        if isinstance(item, Damage):
            recovery.lost.append(item)
            pending.append(item)
            continue
        raw, decoded = item
        if pending:  # a record follows: what is lost is lost from the middle
            writer.append(_gap(pending, last_time))
            pending = []
        record = decoded.record if isinstance(decoded, Entry) else None
        if isinstance(record, _INDEX):
            continue
        last_time = max(last_time, getattr(record, "time_ns", 0))
        numbers.add(raw.seq, _write(writer, raw, decoded, numbers))
        recovery.records += 1


def _write(writer: CaptureWriter, raw: RawRecord, decoded: Entry | Unknown, numbers: _Numbers) -> int:
    record: Record | None = decoded.record if isinstance(decoded, Entry) else None
    if isinstance(record, Note) and record.about is not None:
        return writer.append(replace(record, about=numbers.new(record.about)))
    return writer.append_raw(raw.type, raw.flags, raw.body, record)


def _gap(damages: list[Damage], time_ns: int) -> Gap:
    records = sum(damage.last - damage.first + 1 for damage in damages if damage.first)
    size = sum(damage.size for damage in damages)
    places = ", ".join(str(damage.offset) for damage in damages[:3]) + (", …" if len(damages) > 3 else "")
    return Gap(
        time_ns=time_ns, why=f"damage at offset {places} of the capture before its recovery", events=records, size=size
    )


class _Numbers:
    """The new number of a record by its old one; only where the distance between the two changes is kept."""

    def __init__(self) -> None:
        self._old: list[int] = []
        self._distance: list[int] = []

    def add(self, old: int, new: int) -> None:
        """A record was written."""
        if not self._distance or self._distance[-1] != new - old:
            self._old.append(old)
            self._distance.append(new - old)

    def new(self, old: int) -> int | None:
        """None for a record that came before all that were kept."""
        at = bisect_right(self._old, old) - 1
        return None if at < 0 else old + self._distance[at]
