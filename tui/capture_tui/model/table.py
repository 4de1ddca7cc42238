"""What a scan has seen of a capture, in columns: some thirty bytes for a frame, so that a million of them fit.

Written by one thread and read by another: rows are only ever appended, `keys` last.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from capture_recorder.capfile import Damage, Entry, Unknown
from capture_recorder.capfile.reader import Item
from capture_recorder.capfile.records import (
    EVENT_TYPES,
    REQUEST,
    Call,
    Cancel,
    Gap,
    Message,
    Note,
    Status,
)

from .frame import Key, direction_of, key_after, key_of

_NO_ROW: Final = 0xFFFFFFFF
_TYPES: Final = {kind: number for number, kind in enumerate((*EVENT_TYPES, Gap), 1)}
_OTHER: Final = 0  # damage, or a record that is not known
_MOST: Final = (1 << 64) - 1


@dataclass(slots=True)
class CallInfo:
    """A call as a scan knows it. `key` is of its opening, 0 where that is lost; `ended` by a `code`, or `why` it was
    cancelled; `hole`: events of it are missing, and no gap says so; `first` and `last` of its rows in the table."""

    call: int
    method: str = "?"
    kind: str = "unknown"
    key: Key = 0
    start_ns: int = 0
    end_ns: int = 0
    events: int = 0
    requests: int = 0
    responses: int = 0
    size: int = 0
    code: int | None = None
    why: str | None = None
    gap: bool = False
    hole: bool = False
    first: int = _NO_ROW
    last: int = _NO_ROW

    @property
    def ended(self) -> bool:
        """Whether the capture has its end."""
        return self.code is not None or self.why is not None

    @property
    def duration_ns(self) -> int:
        """From its first event to its last."""
        return max(0, self.end_ns - self.start_ns)


@dataclass
class FrameTable:
    """Frames in the order of the file. A row is a frame's place in `keys`."""

    keys: array[int] = field(default_factory=lambda: array("Q"))
    calls: array[int] = field(default_factory=lambda: array("Q"))
    times: array[int] = field(default_factory=lambda: array("Q"))
    sizes: array[int] = field(default_factory=lambda: array("I"))
    kinds: bytearray = field(default_factory=bytearray)  # type of the record, and its direction in the highest bit
    nexts: array[int] = field(default_factory=lambda: array("I"))  # the row of the call's next frame
    by_call: dict[int, CallInfo] = field(default_factory=dict)
    damage: dict[Key, list[Damage]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    last_seq: int = 0
    size: int = 0  # bytes of all payloads
    _methods: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, item: Item) -> None:
        """The next item of a scan."""
        if isinstance(item, Damage):
            key = key_after(self.last_seq)
            known = self.damage.setdefault(key, [])
            known.append(item)
            if len(known) == 1:
                self._row(key, 0, self.times[-1] if self.times else 0, 0, _OTHER)
            return
        self.last_seq = item.seq
        if isinstance(item, Unknown):
            if item.critical:
                self._row(key_of(item.seq), 0, self.times[-1] if self.times else 0, 0, _OTHER)
            return
        record = item.record
        if isinstance(record, Note):
            self.notes.append(record)
        elif isinstance(record, (*EVENT_TYPES, Gap)):
            self._add(item)

    def _add(self, entry: Entry) -> None:
        record = entry.record
        assert isinstance(record, (*EVENT_TYPES, Gap))
        size = len(record.payload) if isinstance(record, Message) else 0
        kind = _TYPES[type(record)] | (0 if isinstance(record, Gap) else direction_of(record) << 7)
        row = self._row(key_of(entry.seq), record.call or 0, min(record.time_ns, _MOST), size, kind)
        self.size += size
        if not record.call:
            return
        call = self.by_call.get(record.call)
        if call is None:
            call = self.by_call[record.call] = CallInfo(record.call, start_ns=record.time_ns, first=row)
        else:
            self.nexts[call.last] = row
        call.hole |= call.events == 0 and not isinstance(record, Call)
        call.last = row
        call.events += 1
        call.end_ns = max(call.end_ns, record.time_ns)
        match record:
            case Message(direction=direction, index=index):
                call.size += size
                call.hole |= not call.gap and index != (call.requests if direction == REQUEST else call.responses)
                call.requests += direction == REQUEST
                call.responses += direction != REQUEST
            case Call():
                call.method = self._methods.setdefault(record.method, record.method)
                call.kind, call.key = record.kind, key_of(entry.seq)
            case Status(code=code):
                call.code = code
            case Cancel(why=why):
                call.why = why
            case Gap():
                call.gap = True
            case _:
                pass

    def _row(self, key: Key, call: int, time_ns: int, size: int, kind: int) -> int:
        row = len(self.keys)
        self.calls.append(min(call, _MOST))
        self.times.append(time_ns)
        self.sizes.append(size)
        self.kinds.append(kind)
        self.nexts.append(_NO_ROW)
        self.keys.append(key)
        return row

    def rows_of(self, call: int) -> array[int]:
        """The rows of a call's frames."""
        rows = array("I")
        info = self.by_call.get(call)
        row = info.first if info is not None else _NO_ROW
        while row != _NO_ROW:
            rows.append(row)
            row = self.nexts[row]
        return rows

    def is_message(self, row: int, direction: int) -> bool:
        """Whether the frame is a message in this direction."""
        return self.kinds[row] == _TYPES[Message] | direction << 7

    def is_event(self, row: int) -> bool:
        """Whether the frame is an event."""
        return self.kinds[row] & 0x7F not in (_OTHER, _TYPES[Gap])

    def direction(self, row: int) -> int:
        """Who did it: see `Frame.direction`."""
        return self.kinds[row] >> 7

    def longest_wait_ns(self) -> int:
        """The longest time between two frames."""
        return max((b - a for a, b in pairwise(self.times)), default=0)
