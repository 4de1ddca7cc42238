"""The writer: one call a record, nothing written over, and a file that stays whole when the disk does not take it."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from capture_recorder.capfile import CaptureWriteError, CaptureWriter, Damage
from capture_recorder.capfile.records import Footer, Gap, Message
from helpers.captures import ONE_OF_EACH, events, read_all, write_capture


def test_a_part_file_becomes_the_capture_at_close(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.cap")
    assert stat.S_IMODE(writer.part.stat().st_mode) == 0o600
    writer.append(ONE_OF_EACH[0])
    assert not (tmp_path / "a.cap").exists()
    writer.close()
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.cap"]
    assert read_all(tmp_path / "a.cap")[0] == "clean"


def test_each_record_is_one_system_call_and_the_payload_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Sequence[bytes]] = []
    real = os.writev

    def spy(fd: int, parts: Sequence[bytes]) -> int:
        calls.append(parts)
        return real(fd, parts)

    writer = CaptureWriter(tmp_path / "a.cap")
    monkeypatch.setattr(os, "writev", spy)
    payload = bytes(100_000)
    writer.append(Message(call=1, direction=0, index=0, time_ns=0, payload=payload))
    assert len(calls) == 1
    assert any(part is payload for part in calls[0])
    writer.abandon()


def test_what_was_appended_is_in_the_file_before_the_close(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.cap")
    for record in ONE_OF_EACH:
        writer.append(record)
        assert events(writer.part)[-1] == record
    writer.abandon()
    assert read_all(writer.part)[0] == "torn"


def test_a_capture_that_exists_is_not_written_over(tmp_path: Path) -> None:
    path = write_capture(tmp_path / "a.cap")
    before = path.read_bytes()
    with pytest.raises(CaptureWriteError, match=r"a\.cap: exists already"):
        CaptureWriter(path)
    assert path.read_bytes() == before


def test_a_name_that_is_taken_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.cap")
    writer.append(ONE_OF_EACH[0])
    (tmp_path / "a.cap").write_text("mine")
    with pytest.raises(CaptureWriteError, match="is whole, but stays"):
        writer.close()
    assert (tmp_path / "a.cap").read_text() == "mine"
    assert read_all(writer.part)[0] == "clean"


def test_two_writers_of_one_name(tmp_path: Path) -> None:
    first = CaptureWriter(tmp_path / "a.cap")
    with pytest.raises(CaptureWriteError, match="is being written by another process"):
        CaptureWriter(tmp_path / "a.cap")
    first.append(ONE_OF_EACH[0])
    first.close()
    assert read_all(tmp_path / "a.cap")[0] == "clean"


def test_what_a_killed_writer_left_is_kept(tmp_path: Path) -> None:
    code = (
        "import os, sys; from capture_recorder.capfile import CaptureWriter\n"
        "from capture_recorder.capfile.records import Meta\n"
        "CaptureWriter(sys.argv[1]).append(Meta(created_ns=1, clock_ns=2)); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.cap")], check=False)
    left = (tmp_path / "a.cap.part").read_bytes()
    write_capture(tmp_path / "a.cap")
    assert (tmp_path / "a.torn-1.cap").read_bytes() == left
    assert read_all(tmp_path / "a.torn-1.cap")[0] == "torn"


def short(fd: int, parts: Sequence[bytes]) -> int:
    """A kernel that takes a few bytes and no more."""
    return os.write(fd, b"".join(parts)[:7])


def full_after(number: int, reason: int = errno.ENOSPC) -> Callable[[int, Sequence[bytes]], int]:
    """A disk that takes a piece of the record and then nothing."""

    def writev(fd: int, parts: Sequence[bytes]) -> int:
        os.write(fd, b"".join(parts)[:number])
        raise OSError(reason, os.strerror(reason))

    return writev


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "writev", short)
    path = write_capture(tmp_path / "a.cap")
    monkeypatch.undo()
    assert read_all(path)[0] == "clean"
    assert events(path)[: len(ONE_OF_EACH)] == list(ONE_OF_EACH)


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO, errno.EDQUOT], ids=errno.errorcode.get)
@pytest.mark.parametrize("taken", [0, 1, 23, 24, 40])
def test_a_write_that_fails_leaves_whole_records_and_the_writer_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int, reason: int
) -> None:
    writer = CaptureWriter(tmp_path / "a.cap")
    writer.append(ONE_OF_EACH[0])
    size = writer.part.stat().st_size
    monkeypatch.setattr(os, "writev", full_after(taken, reason))
    with pytest.raises(CaptureWriteError, match=f"cannot be written: {os.strerror(reason).lower()}"):
        writer.append(ONE_OF_EACH[1])
    monkeypatch.undo()
    assert writer.part.stat().st_size == size
    writer.append(Gap(time_ns=1, why="disk full", events=1))
    condition, items = read_all(writer.close())
    assert condition == "clean"
    assert not any(isinstance(item, Damage) for item in items)


@pytest.mark.parametrize("path", ["missing/a.cap", "file/a.cap"])
def test_a_path_that_cannot_be(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureWriteError, match="cannot be created"):
        CaptureWriter(tmp_path / path)


def test_the_footer_counts(tmp_path: Path) -> None:
    footer = events(write_capture(tmp_path / "a.cap"))[-1]
    assert isinstance(footer, Footer)
    assert (footer.calls, footer.requests, footer.responses, footer.size, footer.gaps) == (2, 1, 1, 5, 1)
    assert footer.duration_ns == 9
