"""An open capture as the viewer has it: frames at once by the index, everything else from a scan that goes on beside.

One thread scans (`scan`), any other reads frames meanwhile; both read the file by `pread`, and the table only grows.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import Final

from capture_recorder import lens
from capture_recorder.capfile import Catalog, Damage, Entry, Unknown, open_capture
from capture_recorder.capfile.decoder import CLEAN
from capture_recorder.capfile.reader import Item
from capture_recorder.capfile.records import EVENT_TYPES, REQUEST, RESPONSE, Call, Gap, Message, Meta, Schema
from capture_recorder.capfile.schema import Decoded, SchemaSet
from capture_recorder.lens import Reading

from .frame import Frame, Key, key_of, seq_of
from .rows import KeyRows, NumberRows, Rows, TableRows
from .table import CallInfo, FrameTable

SMALL: Final = 1 << 20
"""Bytes of a file that is scanned before anything is shown: a few milliseconds."""
LARGE: Final = 256 << 10
"""Bytes of a message that is not decoded just to show its row."""
_PAGE: Final = 64  # records that are read at once
_KEPT: Final = 1_024  # frames that are remembered,
_KEPT_BYTES: Final = 32 << 20  # and bytes of their payloads
_COUNTED: Final = 20_000  # frames, at the most, in which errors are counted
_ATTEMPTS: Final = 10_000  # records that are passed over in search of a frame
_LATEST: Final = 1 << 64
_TICK: Final = 0.1  # seconds between two looks at a file that grows


class Document:
    """See the module. Raises CaptureError where the file cannot be opened. Close it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.reader = open_capture(path, salvage=True)
        try:
            if self.reader.size is None:
                raise IsAPipe(f"{path} is a pipe, and a viewer goes back and forth; save the capture to a file")
            self.catalog = Catalog(self.reader)
        except BaseException:
            self.reader.close()
            raise
        self.indexed = self.catalog.complete
        self._trailer = self.reader.trailer()
        self.live = self.reader.is_being_written
        self.schemas = SchemaSet()
        self.table = FrameTable()
        self.scanned = False
        self.bytes_seen = 0
        self._is_frame: dict[int, bool] = {}  # by number, of the records that were looked at
        self._cache: OrderedDict[Key, Frame] = OrderedDict()
        self._cached_bytes = 0
        self._glimpses: OrderedDict[Key, Frame] = OrderedDict()  # of large frames
        self._readings: OrderedDict[Key, tuple[Decoded, Reading]] = OrderedDict()
        self._openings: dict[int, Call | None] = {}
        self._labels: dict[int, str] = {}
        self.errors: Counter[int] = Counter()  # of each call; see `count_errors`
        self._lock = Lock()
        self.meta = self._first_meta()
        if self.indexed:
            for schema in self.catalog.schemas():
                self.schemas.add(schema)
        if (self.reader.size or 0) <= SMALL and not self.live:
            self.scan()

    def close(self) -> None:
        """Let the file go."""
        self.reader.close()

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return Path(self.path).name

    @property
    def condition(self) -> str:
        """`clean`, `torn`, `damaged`; while that is not known yet, `indexed`, `reading` or `live`."""
        if self.scanned:
            return self.reader.condition
        return "live" if self.live else "indexed" if self.indexed else "reading"

    @property
    def whole(self) -> bool:
        """Whether it is clean and has no gaps."""
        return self.scanned and self.reader.condition == CLEAN and not any(c.gap for c in self.table.by_call.values())

    # --- the scan ---------------------------------------------------------------------------------------------------

    def scan(self, goes_on: Callable[[], bool] = lambda: True, *, follow: bool = False) -> None:
        """Read everything, or as long as `goes_on`. With `follow`, a file that grows is waited for."""
        source = self.reader.follow(lambda: self._waited(goes_on)) if follow else self.reader.scan()
        for number, item in enumerate(source):
            self._saw(item)
            if number % 256 == 0 and not goes_on():
                return
        self.scanned, self.live = True, False
        if not self.indexed:
            self.catalog.finish()

    def _waited(self, goes_on: Callable[[], bool]) -> bool:
        """At the end of a file that grows: whether to look again."""
        if not goes_on() or not self.reader.is_being_written:
            return False
        time.sleep(_TICK)
        return True

    def _saw(self, item: Item) -> None:
        self.bytes_seen = item.offset + item.size
        self.table.add(item)
        if self.indexed:
            return
        self.catalog.saw(item)
        if isinstance(item, Entry):
            if isinstance(item.record, Schema):
                self.schemas.add(item.record)
                self._readings.clear()
            elif isinstance(item.record, Meta) and self.meta is None:
                self.meta = item.record

    # --- which frames ------------------------------------------------------------------------------------------------

    def all_rows(self) -> Rows:
        """All frames, in observation order."""
        if self.indexed and not self.scanned:
            return NumberRows(self._last_seq(), self._next_frame)
        return KeyRows(self.table.keys)

    def at_time(self, ns: int) -> Key | None:
        """The first frame that is not before a time, in ns since the capture's time 0; the last one where all are."""
        rows = self.all_rows()

        def time_at(slot: int) -> int:
            if isinstance(rows, KeyRows):
                return self.table.times[slot]
            frames = self.glimpses(rows.window(slot, 1))
            return frames[0].time_ns or 0 if frames and frames[0] is not None else _LATEST

        if not rows.size:
            return None
        slot = bisect_left(range(rows.size), ns, key=time_at)
        found = rows.window(min(slot, rows.size - 1), 1)
        return found[0] if found else rows.move(key_of(rows.size), 0)

    def rows_of(self, call: int) -> Rows:
        """The frames of a call, as far as they are known."""
        return TableRows(self.table.keys, self.table.rows_of(call))

    def calls(self) -> list[int]:
        """The numbers of the calls that are known."""
        return list(self.table.by_call if self.scanned or not self.indexed else self.catalog.calls)

    def call(self, number: int) -> CallInfo:
        """A call as far as it is known."""
        info = self.table.by_call.get(number)
        if info is not None:
            return info
        opening = self.opening(number)
        if opening is None:
            return CallInfo(number)
        return CallInfo(number, opening.method, opening.kind, start_ns=opening.time_ns, end_ns=opening.time_ns)

    def opening(self, number: int) -> Call | None:
        """The event that opened a call."""
        if number not in self._openings:
            entry = self.catalog.opening(number) if number in self.catalog.calls else None
            record = entry.record if entry is not None else None
            if record is None and not self.scanned:
                return None
            self._openings[number] = record if isinstance(record, Call) else None
        return self._openings[number]

    def method(self, call: int) -> str:
        """The method of a call; "?" where its opening is lost."""
        known = self.table.by_call.get(call)
        if known is not None and known.method != "?":
            return known.method
        opening = self.opening(call)
        return "?" if opening is None else opening.method

    def _last_seq(self) -> int:
        return 0 if self._trailer is None else self._trailer.record_count

    def _next_frame(self, seq: int, step: int) -> int | None:
        """See `NumberRows`. A file that numbers its records with large gaps is given up, not searched for ever."""
        for _ in range(_ATTEMPTS):
            if not 1 <= seq <= self._last_seq():
                return None
            is_frame = self._is_frame.get(seq)
            if is_frame is None:
                first = self._load(seq if step > 0 else max(1, seq - _PAGE + 1))
                if step > 0 and first is None:
                    return None
                is_frame = self._is_frame.setdefault(seq, False)
                if step > 0 and first is not None and first > seq:
                    seq = first
                    continue
            if is_frame:
                return seq
            seq += step
        return None

    # --- frames ------------------------------------------------------------------------------------------------------

    def frame(self, key: Key) -> Frame | None:
        """A frame by its key; None where there is none (any more)."""
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        if key % 2:
            damage = self.table.damage.get(key)
            return None if damage is None else Frame(key, None, "", tuple(damage))
        self._load(seq_of(key), 1)
        return self._cache.get(key)

    def glimpses(self, keys: Iterable[Key]) -> list[Frame | None]:
        """Frames for their rows: large ones without the most of their payload, which is not read again for them."""
        keys = list(keys)
        for _ in self.frames(key for key in keys if key not in self._glimpses):
            pass  # read together
        return [self._glimpses.get(key) or self.frame(key) for key in keys]

    def frames(self, keys: Iterable[Key]) -> Iterator[Frame]:
        """Frames by their keys, ascending; those that stand together are read together."""
        wanted = list(keys)
        for index, key in enumerate(wanted):
            if key % 2 == 0 and key not in self._cache:
                ahead = min(index + _PAGE, len(wanted)) - 1
                near = wanted[ahead] - key <= 2 * _PAGE
                self._load(seq_of(key), _PAGE if near else 1)
            frame = self.frame(key)
            if frame is not None:
                yield frame

    def items(self, keys: Iterable[Key]) -> Iterator[Frame]:
        """As `frames`, for a long way: nothing is remembered, and memory stays flat."""
        wanted = iter(keys)
        key = next(wanted, None)
        while key is not None:
            if key % 2:
                frame = self.frame(key)
                if frame is not None:
                    yield frame
                key = next(wanted, None)
                continue
            last = seq_of(key)
            for item in self.catalog.items_from(last):
                if isinstance(item, Damage):
                    continue
                while key is not None and (key % 2 or seq_of(key) < item.seq):
                    frame = self.frame(key) if key % 2 else None
                    if frame is not None:
                        yield frame
                    key = next(wanted, None)
                if key is None:
                    return
                if seq_of(key) == item.seq:
                    frame = self._as_frame(item)
                    if frame is not None:
                        yield frame
                    last = item.seq
                    key = next(wanted, None)
                if key is None or seq_of(key) > last + 4 * _PAGE:
                    break  # far away: by the index
            else:
                return

    def _load(self, seq: int, count: int = _PAGE) -> int | None:
        """Read records from number `seq` on, and remember those that are frames. The number of the first."""
        room, first = _KEPT_BYTES // 4, None
        for item in self.catalog.items_from(seq):
            if isinstance(item, Damage):
                continue
            first = item.seq if first is None else first
            if item.seq >= seq + count:
                break
            frame = self._as_frame(item)
            self._is_frame[item.seq] = frame is not None
            if frame is not None:
                self._remember(frame)
                room -= frame.size
                if room < 0:
                    break
        return first

    def _as_frame(self, item: Entry | Unknown) -> Frame | None:
        if isinstance(item, Unknown):
            return Frame(key_of(item.seq), None, "", unknown=item) if item.critical else None
        record = item.record
        if isinstance(record, EVENT_TYPES):
            return Frame(key_of(item.seq), record, self.method(record.call))
        return Frame(key_of(item.seq), record) if isinstance(record, Gap) else None

    def _remember(self, frame: Frame) -> None:
        with self._lock:
            old = self._cache.pop(frame.key, None)
            self._cached_bytes += frame.size - (old.size if old is not None else 0)
            self._cache[frame.key] = frame
            if frame.size > LARGE:
                self._glimpses[frame.key] = frame.glimpse()
                if len(self._glimpses) > _KEPT:
                    self._glimpses.popitem(last=False)
            while len(self._cache) > 1 and (len(self._cache) > _KEPT or self._cached_bytes > _KEPT_BYTES):
                _, gone = self._cache.popitem(last=False)
                self._cached_bytes -= gone.size

    # --- what they say -----------------------------------------------------------------------------------------------

    def read(self, frame: Frame) -> tuple[Decoded, Reading]:
        """A message decoded, and what its lens sees; empty for every other frame."""
        message = frame.message
        if message is None:
            return Decoded(), Reading()
        decoded = self.schemas.decode(frame.method, message.direction, message.payload)
        return decoded, lens.read(frame.method, decoded.message) if decoded.message is not None else Reading()

    def known(self, frame: Frame, *, large: bool = False) -> tuple[Decoded, Reading] | None:
        """As `read`, remembered without the message; None where that would take long, unless `large`."""
        known = self._readings.get(frame.key)
        if known is None:
            if frame.size > LARGE and not large:
                return None
            decoded, reading = self.read(frame)
            known = Decoded(decoded.type_name, None, decoded.error), reading
            with self._lock:
                self._readings[frame.key] = known
                while len(self._readings) > _KEPT:
                    self._readings.popitem(last=False)
        return known

    def count_errors(self, goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Count the errors of each call into `errors`. Whether that was done: not in a long capture."""
        if not self.scanned or len(self.table) > _COUNTED:
            return False
        errors: Counter[int] = Counter()
        for frame in self.items(self.table.keys):
            known = self.known(frame)
            if known is not None and frame.call and is_error(frame, known):
                errors[frame.call] += 1
            if not goes_on():
                return False
        self.errors = errors
        return True

    def label(self, call: int) -> str:
        """What a call is about, by what the lens says of its first message: a session most of the time."""
        if call not in self._labels:
            info = self.table.by_call.get(call)
            if info is None or not (info.requests or info.responses):
                return ""
            frame = next((f for f in self.frames(self.rows_of(call).window(0, 4)) if f.message is not None), None)
            known = None if frame is None else self.known(frame)
            fields = () if known is None else known[1].fields
            self._labels[call] = next((value for name, value in fields if name not in ("kind", "credits")), "")
        return self._labels[call]

    def partner(self, frame: Frame) -> Key | None:
        """Of an answer, the last request event of its call before it; of a request event, the first answer after it."""
        table, back = self.table, frame.direction != REQUEST
        rows = table.rows_of(frame.call or 0)
        at = bisect_left(rows, bisect_left(table.keys, frame.key))
        for row in reversed(rows[:at]) if back else rows[at + 1 :]:
            if table.is_event(row) and table.direction(row) == (REQUEST if back else RESPONSE):
                return table.keys[row]
        return None

    def messages_before(self, frame: Frame, direction: int) -> Iterator[Key]:
        """The messages of its call in a direction that stand before a frame, the last of them first."""
        table = self.table
        for row in range(bisect_left(table.keys, frame.key) - 1, -1, -1):
            if table.calls[row] == frame.call and table.is_message(row, direction):
                yield table.keys[row]

    def _first_meta(self) -> Meta | None:
        first = next((item for item in self.catalog.items_from(1) if isinstance(item, Entry)), None)
        return first.record if first is not None and isinstance(first.record, Meta) else None


class IsAPipe(Exception):
    """What was given cannot be read twice."""


def is_error(frame: Frame, known: tuple[Decoded, Reading]) -> bool:
    """A call that failed or was cancelled; a message with an error code, that does not parse, or fails a check; a gap,
    damage."""
    decoded, reading = known
    if frame.record is None or frame.event is None:
        return True
    code = getattr(frame.record, "code", None)
    if code is not None:
        return bool(code != 0)
    if isinstance(frame.record, Message):
        failed = any(check.verdict != "ok" for check in reading.checks)
        return failed or reading.error is not None or decoded.error is not None
    return frame.kind == "cancel"
