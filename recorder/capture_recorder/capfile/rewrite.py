"""What all rewriters share: they copy bodies as they stand, known or not, and keep the numbers of notes true."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from .decoder import Damage, RawRecord
from .reader import Entry, Unknown
from .records import Checkpoint, Footer, Gap, Note, Record
from .writer import CaptureWriter

INDEX: Final = (Checkpoint, Footer)  # of each file its own


def derived_id(purpose: str, *ids: bytes) -> bytes:
    """The id of a file made of others: not theirs, since its numbers are not; and the same each time."""
    return hashlib.blake2b(b"".join(ids), digest_size=8, person=purpose.encode()).digest()


class Copier:
    """Copies records into a writer, which numbers them anew."""

    def __init__(self, writer: CaptureWriter) -> None:
        self.records = 0
        self._writer = writer
        self._old: list[int] = []  # of the numbers, only where the distance between old and new changes
        self._distance: list[int] = []

    def copy(self, raw: RawRecord, decoded: Entry | Unknown, changed: Record | None = None) -> None:
        """Write a record: as it stands, or `changed`."""
        record = decoded.record if isinstance(decoded, Entry) else None
        if isinstance(record, Note) and record.about is not None:
            changed = replace(record, about=self._new_number(record.about))
        if changed is not None:
            new = self._writer.append(changed)
        else:
            new = self._writer.append_raw(raw.type, raw.flags, raw.body, record)
        self.records += 1
        if not self._distance or self._distance[-1] != new - raw.seq:
            self._old.append(raw.seq)
            self._distance.append(new - raw.seq)

    def _new_number(self, old: int) -> int | None:
        """None for a record that was not copied."""
        at = bisect_right(self._old, old) - 1
        return None if at < 0 else old + self._distance[at]


def gap(damages: Iterable[Damage], time_ns: int) -> Gap:
    """What stands in a file for what was lost of the one it was made of."""
    lost = list(damages)
    places = ", ".join(str(damage.offset) for damage in lost[:3]) + (", …" if len(lost) > 3 else "")
    return Gap(
        time_ns=time_ns,
        why=f"damage at offset {places} of the capture before its recovery",
        events=sum(damage.last - damage.first + 1 for damage in lost if damage.first),
        size=sum(damage.size for damage in lost),
    )
