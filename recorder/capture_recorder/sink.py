"""Puts the events of all calls of a process into one order, and into one file.

Everything that is observed goes through one lock: number, time and place in the file are given together, and that is
the observation order. Serving threads, which must not wait for a disk, `post` instead: what they saw is written, in its
order, before the next event of any call, or by a thread that has nothing else to do. An error costs events, no call.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from .capfile.errors import CaptureWriteError
from .capfile.records import EVENT_TYPES, Gap, Message, Record

Step = Callable[[int], Iterable[Record]]
"""Told the time (ns since the capture's time 0), gives the records of what was observed."""

_log = logging.getLogger("capture_recorder")


class Writer(Protocol):
    """What a sink writes to: a `CaptureWriter`, or a writer of another form."""

    def append(self, record: Record) -> object: ...
    def close(self) -> object: ...
    def abandon(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Stats:
    """What a recorder did so far. `size` and `lost_size` are bytes of payload; `failure` says what went wrong last."""

    events: int = 0
    size: int = 0
    lost: int = 0
    lost_size: int = 0
    gaps: int = 0
    failure: str | None = None


class Sink:
    """One file's end of the recorder. `open_writer` gives a new writer and the clock's reading at its time 0."""

    def __init__(self, open_writer: Callable[[], tuple[Writer, int]], *, raises: bool) -> None:
        self._open_writer = open_writer
        self._raises = raises
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._posted: deque[tuple[int, Step]] = deque()
        self._wake = threading.Event()
        self._drainer: threading.Thread | None = None
        self._writer: Writer | None = None
        self._clock = 0
        self._last = 0
        self._unsaid = (0, 0)  # events and bytes that were lost and that no `gap` in the file tells of yet
        self._closed = False
        self._events = self._size = self._lost = self._lost_size = self._gaps = 0
        self.failure: str | None = None

    @property
    def stats(self) -> Stats:
        """What was done so far."""
        return Stats(self._events, self._size, self._lost, self._lost_size, self._gaps, self.failure)

    def open(self) -> None:
        """Have the file there before the first event. An error is in `failure`, or raised."""
        with self._lock:
            self._guarded(self._writer_or_raise)

    def observe(self, step: Step) -> None:
        """Write what was seen, now. When this returns the kernel has it."""
        now = time.monotonic_ns()
        with self._lock:
            if self._posted:
                self._drain()
            self._take(now, step)

    def post(self, step: Step) -> None:
        """Have it written soon, without waiting for anything."""
        self._posted.append((time.monotonic_ns(), step))
        if self._drainer is None:
            self._drainer = threading.Thread(target=self._drain_forever, name="capture-recorder", daemon=True)
            self._drainer.start()
        self._wake.set()

    def close(self) -> None:
        """Write what was posted, and close the file. Whatever comes later is not recorded."""
        with self._lock:
            self._drain()
            writer, self._writer, self._closed = self._writer, None, True
            if writer is not None:
                self._guarded(lambda: self._close(writer))
        self._wake.set()

    def after_fork(self) -> None:
        """In a child process: leave the parent's file alone, and begin one of our own with the next event."""
        if self._writer is not None:
            self._writer.abandon()
        self._reset()

    def _close(self, writer: Writer) -> None:
        self._say_gap(writer)
        writer.close()

    def _drain_forever(self) -> None:
        while not self._closed:
            self._wake.wait()
            self._wake.clear()
            with self._lock:
                self._drain()

    def _drain(self) -> None:
        while self._posted:
            self._take(*self._posted.popleft())

    def _take(self, now: int, step: Step) -> None:
        if self._closed:
            return
        try:
            self._write(now, step)
        except Exception as error:  # noqa: BLE001
            self.failed(error)

    def _write(self, now: int, step: Step) -> None:
        try:
            writer = self._writer_or_raise()
        except CaptureWriteError:
            for record in step(0):
                self._count_lost(record)
            raise
        self._last = max(self._last, now - self._clock)
        for record in step(self._last):
            try:
                if self._unsaid[0]:
                    self._say_gap(writer)
                writer.append(record)
            except CaptureWriteError:
                self._count_lost(record)
                raise
            self._events += isinstance(record, EVENT_TYPES)
            self._size += _size(record)

    def _writer_or_raise(self) -> Writer:
        if self._writer is None:
            self._writer, self._clock = self._open_writer()
        return self._writer

    def _say_gap(self, writer: Writer) -> None:
        events, size = self._unsaid
        if events:
            why = self.failure or "events were lost"
            writer.append(Gap(time_ns=self._last, why=why, events=events, size=size))
            self._unsaid = (0, 0)
            self._gaps += 1

    def _count_lost(self, record: Record) -> None:
        size = _size(record)
        self._unsaid = (self._unsaid[0] + 1, self._unsaid[1] + size)
        self._lost, self._lost_size = self._lost + 1, self._lost_size + size

    def _guarded(self, action: Callable[[], object]) -> None:
        """An error of ours, or of the disk, costs the capture and never the call. The first of a kind is logged."""
        try:
            action()
        except Exception as error:  # noqa: BLE001
            self.failed(error)

    def failed(self, error: Exception) -> None:
        """Remember that recording failed, and say so once; in tests, raise."""
        if self._raises:
            raise error
        text = str(error) if isinstance(error, CaptureWriteError) else f"{type(error).__name__}: {error}"
        if text != self.failure:
            _log.error("recording failed, the calls go on: %s", text)
        self.failure = text


def _size(record: Record) -> int:
    return len(record.payload) if isinstance(record, Message) else 0
