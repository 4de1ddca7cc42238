"""Which frames are on the list, by slots: what a scroll bar counts. Three ways to have them, one interface."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Protocol

from .frame import Key, key_of, seq_of


class Rows(Protocol):
    """A list of frames, in the order of the file. It may grow at its end."""

    @property
    def size(self) -> int:
        """How many slots there are."""

    def slot(self, key: Key) -> int:
        """The slot of this frame, or of the first after it; the last one where there is none."""

    def window(self, slot: int, count: int) -> list[Key]:
        """The keys of up to `count` frames from a slot on."""

    def move(self, key: Key, by: int) -> Key | None:
        """The frame so many further (before, if negative), or the outermost one; None if there is none at all."""


class KeyRows:
    """Frames by their keys, ascending."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self.keys = keys

    @property
    def size(self) -> int:
        """See `Rows`."""
        return len(self.keys)

    def slot(self, key: Key) -> int:
        """See `Rows`."""
        return max(0, min(bisect_left(self.keys, key), len(self.keys) - 1))

    def window(self, slot: int, count: int) -> list[Key]:
        """See `Rows`."""
        return list(self.keys[max(0, slot) : max(0, slot) + count])

    def move(self, key: Key, by: int) -> Key | None:
        """See `Rows`."""
        size = len(self.keys)
        if not size:
            return None
        at = bisect_left(self.keys, key)
        if by > 0 and (at == size or self.keys[at] != key):
            at -= 1  # the frame itself is none of ours: the next one is one further
        return self.keys[max(0, min(at + by, size - 1))]


class TableRows(KeyRows):
    """Some frames of a table, by their rows in it, which ascend as the keys do."""

    def __init__(self, keys: Sequence[Key], rows: Sequence[int]) -> None:
        super().__init__(_Mapped(keys, rows))
        self.rows = rows


class _Mapped(Sequence[int]):
    """`keys[row]` for each of the rows, without a copy of them."""

    def __init__(self, keys: Sequence[Key], rows: Sequence[int]) -> None:
        self._keys, self._rows = keys, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            return [self._keys[row] for row in self._rows[index]]
        return self._keys[self._rows[index]]


class NumberRows:
    """All frames of an indexed capture that was not scanned yet: a slot for each record number. Records that are no
    frames (`next_frame` says which are) have a slot too, and are passed over."""

    def __init__(self, last_seq: int, next_frame: Callable[[int, int], int | None]) -> None:
        """`next_frame(seq, step)`: the number of the first frame from `seq` on, upwards or (`step` -1) downwards."""
        self._last, self._next = last_seq, next_frame

    @property
    def size(self) -> int:
        """See `Rows`."""
        return self._last

    def slot(self, key: Key) -> int:
        """See `Rows`."""
        return max(0, min(seq_of(key + 1) - 1, self._last - 1))

    def window(self, slot: int, count: int) -> list[Key]:
        """See `Rows`."""
        keys: list[Key] = []
        seq: int | None = max(1, slot + 1)
        while len(keys) < count and seq is not None:
            seq = self._next(seq, 1)
            if seq is not None:
                keys.append(key_of(seq))
                seq += 1
        return keys

    def move(self, key: Key, by: int) -> Key | None:
        """See `Rows`."""
        step = 1 if by > 0 else -1
        at = max(1, min(seq_of(key), self._last))  # record numbers begin with 1
        found = self._next(at, 1) if not by or self._next(at, 1) == at else None
        if abs(by) >= self._last:  # to an end: not all the way there
            by, found = (1 if by > 0 else -1), None
            at = self._last if by > 0 else 1
        for _ in range(abs(by)):
            further = self._next(at + step, step)
            if further is None:
                break
            at = found = further
        if found is None:
            found = self._next(1, 1) if by < 0 else self._next(self._last, -1)
        return None if found is None else key_of(found)
