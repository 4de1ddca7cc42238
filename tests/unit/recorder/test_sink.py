"""The one order of all calls; and losses, which cost events, are told of, and never cost a call."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

import pytest

from capture_recorder.capfile import CaptureWriteError, CaptureWriter
from capture_recorder.capfile.records import Gap, HalfClose, Message, Meta, Record
from capture_recorder.sink import Sink, Writer
from helpers.captures import events, read_all


class FakeWriter:
    """Keeps records; fails while it is told to."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.failing = False
        self.closed = False

    def append(self, record: Record) -> None:
        if self.failing:
            raise CaptureWriteError("x.cap", "disk full")
        self.records.append(record)

    def close(self) -> None:
        self.closed = True

    def abandon(self) -> None: ...


def message(now: int, payload: bytes = b"abc") -> list[Record]:
    return [Message(call=1, direction=0, index=0, time_ns=now, payload=payload)]


def sink_with(writer: Writer, *, raises: bool = False) -> Sink:
    sink = Sink(lambda: (writer, time.monotonic_ns()), raises=raises)
    sink.open()
    return sink


def test_times_never_decrease_and_count_from_zero() -> None:
    writer = FakeWriter()
    sink = sink_with(writer)
    for _ in range(100):
        sink.observe(message)
    times = [record.time_ns for record in writer.records if isinstance(record, Message)]
    assert times == sorted(times)
    assert 0 <= times[0] < 10**9


def test_what_was_posted_is_written_before_the_next_event() -> None:
    writer = FakeWriter()
    sink = sink_with(writer)
    with sink._lock:  # the drainer cannot come first
        sink.post(lambda now: [HalfClose(call=1, time_ns=now)])
    sink.observe(message)
    assert [type(record) for record in writer.records] == [HalfClose, Message]


def test_what_was_posted_is_written_without_another_event() -> None:
    written = threading.Event()

    class Telling(FakeWriter):
        def append(self, record: Record) -> None:
            super().append(record)
            written.set()

    sink = sink_with(Telling())
    sink.post(lambda now: [HalfClose(call=1, time_ns=now)])
    assert written.wait(10)


def test_post_does_not_wait_for_the_disk() -> None:
    going, go = threading.Event(), threading.Event()

    class Slow(FakeWriter):
        def append(self, record: Record) -> None:
            going.set()
            go.wait(10)
            super().append(record)

    writer = Slow()
    sink = sink_with(writer)
    thread = threading.Thread(target=lambda: sink.observe(message))
    thread.start()
    assert going.wait(10)
    sink.post(lambda now: [HalfClose(call=1, time_ns=now)])  # returns although the lock is held
    assert writer.records == []
    go.set()
    thread.join()
    sink.close()
    assert [type(record) for record in writer.records] == [Message, HalfClose]


def test_a_loss_is_a_gap_before_the_next_event_a_counter_and_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    writer = FakeWriter()
    sink = sink_with(writer)
    sink.observe(message)
    writer.failing = True
    with caplog.at_level(logging.ERROR, "capture_recorder"):
        for _ in range(5):
            sink.observe(message)
    writer.failing = False
    sink.observe(message)
    assert [type(record) for record in writer.records] == [Message, Gap, Message]
    gap = writer.records[1]
    assert isinstance(gap, Gap)
    assert (gap.events, gap.size, gap.why) == (5, 15, "x.cap: disk full")
    assert (sink.stats.events, sink.stats.lost, sink.stats.lost_size, sink.stats.gaps) == (2, 5, 15, 1)
    assert [record.getMessage() for record in caplog.records] == ["recording failed, the calls go on: x.cap: disk full"]


def test_a_loss_at_the_end_is_in_the_file_too(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.cap")
    sink = sink_with(writer)
    sink.observe(message)
    real, writer.append = writer.append, FakeWriterThatFails()  # type: ignore[method-assign,assignment]
    sink.observe(message)
    writer.append = real  # type: ignore[method-assign]
    sink.close()
    assert read_all(tmp_path / "a.cap")[0] == "clean"
    assert [record.events for record in events(tmp_path / "a.cap") if isinstance(record, Gap)] == [1]


class FakeWriterThatFails:
    def __call__(self, record: Record) -> int:
        raise CaptureWriteError("x.cap", "disk full")


def test_a_bug_of_ours_does_not_reach_the_call() -> None:
    def broken(now: int) -> list[Record]:
        raise ZeroDivisionError

    sink = sink_with(FakeWriter())
    sink.observe(broken)
    assert sink.stats.failure is not None
    assert "ZeroDivisionError" in sink.stats.failure
    with pytest.raises(ZeroDivisionError):
        sink_with(FakeWriter(), raises=True).observe(broken)


def test_a_file_that_cannot_be_made_is_tried_again() -> None:
    attempts = []

    def open_writer() -> tuple[Writer, int]:
        attempts.append(1)
        if len(attempts) < 3:
            raise CaptureWriteError("x.cap", "cannot be created: no such file or directory")
        return FakeWriter(), time.monotonic_ns()

    sink = Sink(open_writer, raises=False)
    sink.open()
    assert sink.stats.failure == "x.cap: cannot be created: no such file or directory"
    sink.observe(message)
    sink.observe(message)
    assert (sink.stats.events, sink.stats.lost) == (1, 1)


def test_after_close_nothing_is_recorded_and_nothing_is_reopened() -> None:
    writer = FakeWriter()
    sink = sink_with(writer)
    sink.close()
    sink.observe(message)
    sink.close()
    assert writer.closed
    assert writer.records == []
    assert sink.stats.failure is None


def test_many_threads_one_order(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.cap")
    writer.append(Meta(created_ns=0, clock_ns=0))
    sink = sink_with(writer)
    go = threading.Event()

    def work(call: int) -> None:
        go.wait()
        for i in range(200):
            sink.observe(
                lambda now, i=i: [Message(call=call, direction=0, index=i, time_ns=now, payload=os.urandom(10))]  # type: ignore[misc]
            )

    threads = [threading.Thread(target=work, args=(call,)) for call in range(1, 9)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    sink.close()
    got = [record for record in events(tmp_path / "a.cap") if isinstance(record, Message)]
    assert len(got) == 1600
    assert [m.time_ns for m in got] == sorted(m.time_ns for m in got)
    for call in range(1, 9):
        assert [m.index for m in got if m.call == call] == list(range(200))
