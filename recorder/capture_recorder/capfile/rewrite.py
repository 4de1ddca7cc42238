"""What all rewriters share: they copy bodies as they stand, known or not, and keep the numbers of notes true."""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from .decoder import CLEAN, Damage, RawRecord
from .errors import NotWhole
from .reader import CaptureReader, Entry, Unknown
from .records import Checkpoint, Footer, Gap, Meta, Note, Record
from .writer import CaptureWriter

INDEX: Final = (Checkpoint, Footer)  # of each file its own


def whole(source: CaptureReader, what: str) -> Iterator[tuple[RawRecord, Entry | Unknown]]:
    """The records of a capture that is to be rewritten as `what`. Raises NotWhole, at the first damage or at the end:
    what is made of a capture that lacks something must not look whole."""
    for item in source.raw():
        if isinstance(item, Damage):
            raise NotWhole(source.name, what, item.offset, item.why)
        raw, decoded = item
        is_meta = isinstance(decoded, Entry) and isinstance(decoded.record, Meta)
        if is_meta != (raw.seq == 1):
            why = "a second `meta` record" if is_meta else "it does not begin with a `meta` record"
            raise NotWhole(source.name, what, raw.offset, why)
        yield item
    if source.condition != CLEAN:
        raise NotWhole(source.name, what, source.size or 0, "it ends without a trailer: its recorder did not close it")


def derived_id(purpose: str, *ids: bytes) -> bytes:
    """The id of a file made of others: not theirs, since its numbers are not; and the same each time."""
    return hashlib.blake2b(b"".join(ids), digest_size=8, person=purpose.encode()).digest()


class Copier:
    """Copies records into a writer, which numbers them anew."""

    def __init__(self, writer: CaptureWriter) -> None:
        self.records = 0
        self._writer = writer
        # of records that followed one another before and after: the first's old number, the last's, and the first's new
        self._first, self._last, self._new = array("Q"), array("Q"), array("Q")

    def copy(self, raw: RawRecord, decoded: Entry | Unknown, changed: Record | None = None) -> None:
        """Write a record: as it stands, or `changed`. A note goes on being about what it was about."""
        record = decoded.record if isinstance(decoded, Entry) else None
        if isinstance(record, Note) and record.about is not None:
            about = self.number_of(record.about)
            if about is None and self._is_unchanged and record.about > raw.seq:
                about = record.about  # it is about what follows, or about nothing; up to here no number is another
            changed = replace(record, about=about)
        if changed is not None:
            new = self._writer.append(changed)
        else:
            new = self._writer.append_raw(raw.type, raw.flags, raw.body, record)
        self.records += 1
        if self._last and self._last[-1] == raw.seq - 1 and self._new[-1] + raw.seq - self._first[-1] == new:
            self._last[-1] = raw.seq
        else:
            self._first.append(raw.seq)
            self._last.append(raw.seq)
            self._new.append(new)

    @property
    def _is_unchanged(self) -> bool:
        return len(self._first) == 0 or (len(self._first) == 1 and self._first[0] == self._new[0] == 1)

    def number_of(self, old: int) -> int | None:
        """The new number of a record; None where it was not copied."""
        at = bisect_right(self._first, old) - 1
        return self._new[at] + old - self._first[at] if at >= 0 and old <= self._last[at] else None


def gap(damages: Iterable[Damage], time_ns: int, call: int | None) -> Gap:
    """What stands in a file for what was lost of the one it was made of; `call` where it is of one."""
    lost = list(damages)
    places = ", ".join(str(damage.offset) for damage in lost[:3]) + (", …" if len(lost) > 3 else "")
    return Gap(
        time_ns=time_ns,
        call=call,
        why=f"damage at offset {places} of the capture before its recovery",
        events=sum(damage.last - damage.first + 1 for damage in lost if damage.first),
        size=sum(damage.size for damage in lost),
    )
