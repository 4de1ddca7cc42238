"""Files in a bad world: killed writers, full and failing disks, two writers, folders without permission, readers that
follow. Real processes and the kernel's own errors."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from capture_recorder.capfile import CaptureError, CaptureWriter, Entry, open_capture
from capture_recorder.capfile.records import Call, Message, Meta, Status
from capture_recorder.capfile.recover import recover
from capture_recorder.capfile.verify import verify
from helpers.captures import ONE_OF_EACH, Memory, opened_bytes, read_all, unary, write_capture
from helpers.processes import BIN, HELPERS, capture_file, converse, helper_server, replay, running, shard_server


def test_kill_9_at_a_hundred_random_moments(tmp_path: Path) -> None:
    """What a writer knew to be written is there and is what it wrote; the file is torn, and recovers clean."""
    command = [sys.executable, str(HELPERS / "killed_writers.py"), str(tmp_path), "100", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    rounds = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(rounds) == 100
    cut_short = 0
    for number, known in rounds:
        part = tmp_path / f"{number}.cap.part"
        with open_capture(part) as reader:
            last = indexes = 0
            for item in reader.scan():
                if isinstance(item, Entry):
                    last = item.seq
                    if isinstance(item.record, Message):
                        assert item.record.index == indexes
                        assert item.record.payload.startswith(b"%d:" % indexes)
                        indexes += 1
                else:
                    cut_short += 1
            assert last >= known, number
            assert reader.condition == "torn", number
            output = Memory()
            recover(reader, output)
        with opened_bytes(bytes(output.data)) as reader:
            assert verify(reader).clean, number
        part.unlink()
    assert cut_short <= 100


def test_kill_9_of_a_server_under_load(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    with running(shard_server(path)) as server:
        clients = [
            threading.Thread(target=converse, args=(server.address, "happy", "zstd", "credit")) for _ in range(4)
        ]
        for client in clients:
            client.start()
        part = path.with_name("a.cap.part")
        while part.stat().st_size < 100_000:
            pass
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(30)
        for client in clients:
            client.join(60)
    done = capture_file("verify", part)
    assert done.returncode == 3
    assert "torn" in done.stdout
    assert capture_file("recover", part, "-o", path).returncode in (0, 3)
    assert part.exists()
    assert capture_file("verify", path).returncode == 0


def limited(limit: int, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """A command whose files may not grow past a limit: the kernel refuses what is written beyond it."""
    code = (
        "import os, resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(BIN / "capture-file"), *map(str, command)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


LARGE = [Meta(created_ns=0, clock_ns=0), *unary(1, os.urandom(100_000))]
COMMANDS = {
    "recover": ("recover", "IN", "-o", "OUT"),
    "cut": ("cut", "IN", "--call", "1", "-o", "OUT"),
    "merge": ("merge", "IN", "-o", "OUT"),
    "pack": ("pack", "IN", "-o", "OUT"),
    "unpack": ("unpack", "IN", "-o", "OUT"),
    "convert": ("convert", "IN", "OUT", "--to", "jsonl"),
}


def command(name: str, source: Path, target: str | Path) -> list[str]:
    return [{"IN": str(source), "OUT": str(target)}.get(word, word) for word in COMMANDS[name]]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_that_is_full_gets_one_sentence_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    assert resource.RLIMIT_FSIZE
    source = write_capture(tmp_path / "a.cap", LARGE)
    before = source.read_bytes()
    done = limited(50_000, *command(name, source, tmp_path / "out.cap"))
    assert done.returncode == 1
    assert "cannot be written: file too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.cap"]
    assert source.read_bytes() == before


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_that_is_full_for_ever(tmp_path: Path, name: str) -> None:
    source = write_capture(tmp_path / "a.cap", LARGE)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [BIN / "capture-file", *command(name, source, "-")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "no space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_written_over_and_the_capture_itself_never(tmp_path: Path, name: str) -> None:
    source = write_capture(tmp_path / "a.cap", LARGE)
    before = source.read_bytes()
    other = tmp_path / "out.cap"
    other.write_bytes(b"precious")
    done = capture_file(*command(name, source, other))
    assert (done.returncode, other.read_bytes()) == (1, b"precious")
    assert "exists already" in done.stderr
    link = tmp_path / "link.cap"
    link.hardlink_to(source)
    for target in (source, link):
        done = capture_file(*command(name, source, target), "--force")
        assert (done.returncode, source.read_bytes()) == (1, before)
        assert "is the capture itself, which is never changed" in done.stderr
    assert capture_file(*command(name, source, other), "--force").returncode == 0
    assert other.read_bytes() != b"precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.cap", "link.cap", "out.cap"]


@pytest.mark.parametrize("name", COMMANDS)
def test_from_a_pipe_into_a_pipe(tmp_path: Path, name: str) -> None:
    source = write_capture(tmp_path / "a.cap", LARGE)
    to_file = capture_file(*command(name, source, tmp_path / "out.cap"))
    assert to_file.returncode == 0
    with subprocess.Popen(["cat", str(source)], stdout=subprocess.PIPE) as cat:
        done = subprocess.run(
            [BIN / "capture-file", *command(name, Path("-"), "-")], stdin=cat.stdout, capture_output=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "out.cap").read_bytes()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    source = write_capture(tmp_path / "a.cap", LARGE)
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    done = capture_file("recover", source, "-o", folder / "b.cap")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cannot be created: permission denied" in done.stderr


def test_a_folder_that_is_read_only_or_not_there(tmp_path: Path) -> None:
    source = write_capture(tmp_path / "a.cap", LARGE)
    for target in ("/proc/b.cap", tmp_path / "missing" / "b.cap", tmp_path / "a.cap" / "b.cap"):
        done = capture_file("recover", source, "-o", target)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert "cannot be created" in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_named_pipe_is_read_once_and_written_to_and_never_replaced(tmp_path: Path, name: str) -> None:
    source = write_capture(tmp_path / "a.cap", LARGE)
    fifo, out = tmp_path / "fifo", tmp_path / "out.cap"
    os.mkfifo(fifo)
    feeder = threading.Thread(target=fifo.write_bytes, args=(source.read_bytes(),))
    feeder.start()
    done = capture_file(*command(name, fifo, out))
    feeder.join(60)
    assert done.returncode == 0, done.stderr
    came: list[bytes] = []
    reader = threading.Thread(target=lambda: came.append(fifo.read_bytes()))
    reader.start()
    done = capture_file(*command(name, source, fifo))
    reader.join(60)
    assert done.returncode == 0, done.stderr
    assert came == [out.read_bytes()]
    assert fifo.is_fifo()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("target", ["", "/", ".", "/dev/null"])
def test_odd_names_of_an_output(tmp_path: Path, name: str, target: str) -> None:
    """A device is written to, and stays one: as root, a rename would put a file in its place."""
    source = write_capture(tmp_path / "a.cap", LARGE)
    form = () if name == "convert" else ("--force",)
    done = capture_file(*command(name, source, target), *form)
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if target == "/dev/null" else 1), done.stderr
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda sign: sign.name)
def test_a_rewrite_that_is_interrupted_leaves_nothing(tmp_path: Path, sign: signal.Signals) -> None:
    payload = os.urandom(1 << 20)
    records = [Message(call=1, direction=0, index=i, time_ns=2, payload=payload) for i in range(100)]
    source = write_capture(tmp_path / "a.cap", [Meta(created_ns=0, clock_ns=0), *records])
    before = source.read_bytes()
    with subprocess.Popen(
        [BIN / "capture-file", "pack", source, "-o", tmp_path / "out.cap", "--level", "22"], stderr=subprocess.PIPE
    ) as process:
        while len(list(tmp_path.iterdir())) < 2:
            assert process.poll() is None
        process.send_signal(sign)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + sign
    assert b"Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["a.cap"]
    assert source.read_bytes() == before


def test_what_is_told_to_ignore_a_hangup_does(tmp_path: Path) -> None:
    """As `nohup` starts it: the terminal goes, and the work goes on."""
    payload = os.urandom(1 << 20)
    records = [Message(call=1, direction=0, index=i, time_ns=2, payload=payload) for i in range(10)]
    source = write_capture(tmp_path / "a.cap", [Meta(created_ns=0, clock_ns=0), *records])
    with subprocess.Popen(
        ["nohup", BIN / "capture-file", "pack", source, "-o", tmp_path / "out.cap", "--level", "19"],
        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        while len(list(tmp_path.iterdir())) < 2:
            assert process.poll() is None
        process.send_signal(signal.SIGHUP)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert read_all(tmp_path / "out.cap")[0] == "clean"


def test_two_processes_on_one_path(tmp_path: Path) -> None:
    """The second recorder says what to do, and the first one's file is not touched."""
    path = tmp_path / "a.cap"
    with running(shard_server(path)):
        part = path.with_name("a.cap.part")
        inode = part.stat().st_ino
        done = subprocess.run(shard_server(path), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0
        assert "is being written by another process; give each process its own name" in done.stderr
        assert "Traceback" not in done.stderr
        assert part.stat().st_ino == inode
    assert read_all(path)[0] == "clean"
    assert [p.name for p in tmp_path.iterdir()] == ["a.cap"]


def test_what_the_rewriters_make_of_a_real_recording_replays(opaque_capture: Path, tmp_path: Path) -> None:
    """Packed, unpacked, recovered, cut, merged, and by way of JSON lines and a binary log: the same bytes come back."""
    made: dict[str, tuple[str | Path, ...]] = {
        "packed": ("pack", opaque_capture, "-o"),
        "recovered": ("recover", opaque_capture, "-o"),
        "cut": ("cut", opaque_capture, "--call", "1", "--call", "4", "-o"),
        "merged": ("merge", opaque_capture, "-o"),
        "unpacked": ("unpack", tmp_path / "packed.cap", "-o"),
        "lines": ("convert", opaque_capture, tmp_path / "a.jsonl"),
        "from-lines": ("convert", tmp_path / "a.jsonl"),
        "log": ("convert", opaque_capture, tmp_path / "a.binarylog"),
        "from-log": ("convert", tmp_path / "a.binarylog"),
    }
    for name, arguments in made.items():
        target = () if name in ("lines", "log") else (tmp_path / f"{name}.cap",)
        done = capture_file(*arguments, *target)
        assert done.returncode == 0, done.stderr
    captures = sorted(tmp_path.glob("*.cap"))
    assert len(captures) == 7
    with running(helper_server("opaque_server")) as server:
        done = replay(*captures, "--target", server.address, "--json", "-")
    assert done.returncode == 0, done.stdout
    counts = {Path(c["file"]).stem: c["counts"]["identical"] for c in json.loads(done.stdout)["captures"]}
    assert len(set(counts.values()) - {counts["cut"]}) == 1
    for name in ("packed", "unpacked", "recovered", "merged", "from-lines"):
        assert capture_file("diff", opaque_capture, tmp_path / f"{name}.cap").returncode == 0


def test_an_error_of_the_disk_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    path = write_capture(tmp_path / "a.cap", LARGE)

    def broken(fd: int, buffers: list[memoryview], offset: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with open_capture(path) as reader:
        monkeypatch.setattr(os, "preadv", broken)
        with pytest.raises(CaptureError, match=rf"{path}: cannot be read at offset 32: input/output error; copy what"):
            list(reader.scan())


# --- following --------------------------------------------------------------------------------------------------------


class Follower:
    """`capture-file frames FILE --follow --json`, a line at a time."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [BIN / "capture-file", "frames", str(path), "--follow", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.lines: IO[str] = self.process.stdout

    def next(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.lines.readline())
        return found

    def end(self) -> int:
        status = self.process.wait(60)
        assert self.lines.read() == ""
        self.lines.close()
        assert self.process.stderr is not None
        self.errors = self.process.stderr.read()
        self.process.stderr.close()
        return status


def test_follow_shows_each_event_as_it_is_written_and_ends_with_the_capture(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.cap")
    writer.append(Meta(created_ns=0, clock_ns=0))
    writer.append(Call(call=1, time_ns=1, method="/s/M", kind="bidi"))
    follower = Follower(writer.part)
    assert follower.next()["event"] == "open"
    for index, size in enumerate((1, 2_000_000, 10)):  # one that is larger than what is read at once
        writer.append(Message(call=1, direction=0, index=index, time_ns=2, payload=bytes(size)))
        line = follower.next()
        assert (line["index"], line["size"]) == (index, size)
    writer.append(Status(call=1, time_ns=3, code=0))
    assert follower.next()["event"] == "status"
    writer.close()
    assert follower.end() == 0


def test_follow_ends_where_the_writer_died(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.cap")
    writer.append(Meta(created_ns=0, clock_ns=0))
    writer.append(Call(call=1, time_ns=1, method="/s/M", kind="bidi"))
    follower = Follower(writer.part)
    assert follower.next()["event"] == "open"
    writer.append(Message(call=1, direction=0, index=0, time_ns=2, payload=b"last"))
    writer.abandon()
    assert follower.next()["index"] == 0
    assert follower.end() == 3
    assert "the capture is torn" in follower.errors


def test_follow_is_not_led_astray_by_a_write_that_failed_and_was_cut_off(tmp_path: Path) -> None:
    """A follower may have read a piece of it; other bytes come in its place."""
    writer = CaptureWriter(tmp_path / "a.cap")
    writer.append(Meta(created_ns=0, clock_ns=0))
    writer.append(Call(call=1, time_ns=1, method="/s/M", kind="bidi"))
    follower = Follower(writer.part)
    assert follower.next()["event"] == "open"
    size = writer.offset
    with writer.part.open("ab") as file:  # a piece of a record, as a full disk leaves it
        file.write(writer.part.read_bytes()[32 : 32 + 40])
    os.truncate(writer.part, size)
    for record in ONE_OF_EACH[4:8]:
        writer.append(record)
    assert [follower.next()["event"] for _ in range(4)] == ["message", "message", "half_close", "status"]
    writer.close()
    assert follower.end() == 0


def test_follow_of_a_pipe_is_refused() -> None:
    done = subprocess.run(
        [BIN / "capture-file", "frames", "-", "--follow"],
        input=write_bytes(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert b"--follow is for files" in done.stderr


def write_bytes() -> bytes:
    output = Memory()
    writer = CaptureWriter(output)  # type: ignore[arg-type]
    writer.append(Meta(created_ns=0, clock_ns=0))
    writer.close()
    return bytes(output.data)
