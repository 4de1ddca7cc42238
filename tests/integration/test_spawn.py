"""`--spawn`: a server is waited for until it serves, and nothing of it is left, however the run ends."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture_recorder.capfile.records import Call, HalfClose, Message, Meta, Status
from capture_replayer import Spawn, replay
from capture_replayer.spawn import Server
from helpers.captures import write_capture
from helpers.odd import odd_command
from helpers.processes import BIN, HELPERS
from helpers.processes import replay as command

PYTHON = shlex.quote(sys.executable)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files; every test leaves it empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def of_this_test(folder: Path) -> list[str]:
    """The processes that were started with the temporary folder of this test, by their commands."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdecimal() and f"TMPDIR={folder}".encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def server(words: str = "") -> str:
    """A late server's command."""
    return f"{PYTHON} {HELPERS / 'late_server.py'} {{address}} {words}".strip()


def say(path: Path, answer: bytes = b"well", method: str = "/test.Late/Say") -> Path:
    """A capture of one call of the late server."""
    return write_capture(
        path,
        [
            Meta(created_ns=0, clock_ns=0),
            Call(call=1, time_ns=0, method=method, kind="unary"),
            Message(call=1, direction=0, index=0, time_ns=1, payload=b""),
            Message(call=1, direction=1, index=0, time_ns=2, payload=answer),
            Status(call=1, time_ns=3, code=0),
        ],
    )


def test_a_server_that_says_that_it_does_not_serve_yet_is_waited_for(tmp_path: Path) -> None:
    report = replay(say(tmp_path / "a.cap"), Spawn(server()))
    assert report.passed, str(report)


def test_one_that_never_says_so_did_not_start(tmp_path: Path) -> None:
    done = command(say(tmp_path / "a.cap"), "--spawn", server("never"), "--start-timeout", "2")
    assert done.returncode == 125
    assert "the server did not start: it did not serve at 127.0.0.1:" in done.stdout
    assert "within 2 s: its health service does not say SERVING" in done.stdout
    assert "│ loading the tables" in done.stdout


def test_one_that_is_no_grpc_server_did_not_start(odd_capture: Path) -> None:
    script = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(1000)"
    done = command(odd_capture, "--spawn", f"{PYTHON} -c {shlex.quote(script)} {{port}}", "--start-timeout", "2")
    assert done.returncode == 125
    assert "within 2 s: something listens there, but no gRPC connection came about; is it a gRPC server" in done.stdout


@pytest.mark.parametrize(
    ("spawn", "words"),
    [
        (odd_command("does not start"), ["it ended with status 3", "│ no such table: users"]),
        ("/no/such/server {address}", ["cannot start /no/such/server: no such file"]),
        (f"{HELPERS} {{address}}", ["cannot start", "permission denied"]),
        (f"{PYTHON} -c 'import os; os.abort()' {{address}}", ["it was killed by SIGABRT"]),
        (f"{PYTHON} -c 'print(\"\\33[31mred\")' {{address}}", ["it ended with status 0", "│ \\x1b[31mred"]),
    ],
)
def test_a_server_that_does_not_start_is_no_verdict(spawn: str, words: list[str], odd_capture: Path) -> None:
    done = command(odd_capture, "--spawn", spawn)
    assert done.returncode == 125
    assert "\33" not in done.stdout
    for word in words:
        assert word in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("spawn", "why"),
    [
        ("serve", "no {address}"),
        ("serve {address} {unix}", "not at both"),
        ("serve '{address}", "No closing quotation"),
    ],
)
def test_a_command_that_cannot_be_one_is_wrong_usage(spawn: str, why: str, odd_capture: Path) -> None:
    done = command(odd_capture, "--spawn", spawn)
    assert done.returncode == 2
    assert why in done.stderr


def test_a_socket_of_the_file_system(odd_capture: Path) -> None:
    """Its path is short enough for one, however deep the folder for temporary files is."""
    spawn = Spawn(odd_command().replace("{address}", "unix:{unix}"))
    assert replay(odd_capture, spawn).passed

    async def start() -> Path:
        async with Server(spawn) as server:
            await (await server.ready()).close()
            path = Path(server.address.removeprefix("unix:"))
            assert path.is_socket()
            return path

    assert not asyncio.run(start()).parent.exists()


def test_host_and_port_apart(odd_capture: Path) -> None:
    assert replay(odd_capture, Spawn(odd_command().replace("{address}", "{host}:{port}"))).passed


def test_a_server_for_each_capture_or_one_for_all(odd_capture: Path, tmp_path: Path) -> None:
    """`started` has a line for each start."""
    started = tmp_path / "started"
    script = f"echo start >> {shlex.quote(str(started))}; exec {odd_command()}"
    spawn = Spawn(f"sh -c {shlex.quote(script)}")
    for fresh, starts in (("capture", 3), ("run", 1)):
        report = replay([odd_capture] * 3, spawn, fresh=fresh)  # type: ignore[arg-type]
        assert report.passed, str(report)
        assert len(report.results) == 3
        assert len(started.read_text().splitlines()) == starts
        started.unlink()


STUBBORN = f"trap '' TERM INT HUP; sleep 1000 & {odd_command()}; wait"


@pytest.mark.parametrize("script", [f"sleep 1000 & {odd_command()}; wait", STUBBORN], ids=["shell", "stubborn"])
def test_the_whole_group_is_stopped(
    script: str, odd_capture: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capture_replayer.spawn.STOPS_WITHIN", 0.3)
    assert replay(odd_capture, Spawn(f"sh -c {shlex.quote(script)}")).passed
    assert of_this_test(temporary) == []


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_interrupted_leaves_nothing(
    sign: signal.Signals, odd_capture: Path, tmp_path: Path, temporary: Path
) -> None:
    """In the middle of a replay: the server hangs, and has said so."""
    told = tmp_path / "told"
    script = f"sleep 1000 & {odd_command('hang')} | tee {shlex.quote(str(told))}; wait"
    words = [str(BIN / "capture-replay"), str(odd_capture), "--spawn", f"sh -c {shlex.quote(script)}"]
    run = subprocess.Popen(
        [*words, "--timeout", "60", "--save-actual", str(tmp_path / "actual.cap"), "--junit", str(tmp_path / "j.xml")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - one thread
    )  # fmt: skip
    while not told.exists() or "hanging" not in told.read_text():
        assert run.poll() is None
        os.sched_yield()
    assert list(tmp_path.glob("actual.cap*.part*"))
    run.send_signal(sign)
    _, errors = run.communicate(timeout=30)
    assert run.returncode == (130 if sign == signal.SIGINT else 128 + sign)
    assert errors.splitlines()[-1] == "interrupted"
    assert "Traceback" not in errors
    assert of_this_test(temporary) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["temporary", "told"]


@pytest.mark.parametrize("place", ["address", "unix"])
def test_a_run_that_is_killed_leaves_no_server(place: str, odd_capture: Path, tmp_path: Path, temporary: Path) -> None:
    """Nobody can tell it to stop its server: its guard does, and takes the socket's folder away."""
    told = tmp_path / "told"
    served = odd_command("hang") if place == "address" else odd_command("hang").replace("{address}", "unix:{unix}")
    script = f"trap '' TERM; sleep 1000 & {served} | tee {shlex.quote(str(told))}; wait"
    words = [str(BIN / "capture-replay"), str(odd_capture), "--spawn", f"sh -c {shlex.quote(script)}"]
    run = subprocess.Popen([*words, "--timeout", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not told.exists() or "hanging" not in told.read_text():
        assert run.poll() is None
        os.sched_yield()
    assert of_this_test(temporary)
    run.kill()
    run.communicate(timeout=30)
    until = time.monotonic() + 30
    while of_this_test(temporary) or list(temporary.iterdir()):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_server_that_prints_without_end_is_kept_to_its_last_lines(odd_capture: Path) -> None:
    script = f"head -c 30000000 /dev/zero | tr '\\0' x; echo; echo the end; {odd_command('die')}"
    report = replay(odd_capture, Spawn(f"sh -c {shlex.quote(script)}"), timeout=1)
    (result,) = report.results
    assert result.died == "ended with status 137"
    assert "about to die: the disk of the moon is full" in result.output
    assert max(map(len, result.output)) <= 2_000


def test_captures_are_shared_out_over_servers(odd_capture: Path, tmp_path: Path) -> None:
    """Three at a time, each with its own server: one alone would see them one after another."""
    folder = tmp_path / "captures"
    (folder / "deeper").mkdir(parents=True)
    for name in ("a.cap", "b.cap", "deeper/c.cap", "no capture.txt"):
        (folder / name).write_bytes(odd_capture.read_bytes())
    gate = tmp_path / "gate"
    gate.mkdir()
    script = f"touch {gate}/$$; until [ $(ls {gate} | wc -l) -ge 3 ]; do sleep 0.02; done; exec {odd_command()}"
    done = command(folder, "--spawn", f"sh -c {shlex.quote(script)}", "--jobs", "3")
    assert done.returncode == 0, done.stdout
    assert "3 captures in" in done.stdout
    assert "3 passed · 0 diverged · 0 could not tell" in done.stdout


def test_calls_of_one_request_whose_events_interleave(tmp_path: Path) -> None:
    """A unary call goes out in one where it can; what the capture has between its opening and its request, or after
    it, does not matter."""
    path = write_capture(
        tmp_path / "a.cap",
        [
            Meta(created_ns=0, clock_ns=0),
            *(Call(call=call, time_ns=0, method="/test.Late/Say", kind="unary") for call in (1, 2)),
            Message(call=2, direction=0, index=0, time_ns=1, payload=b""),
            HalfClose(call=2, time_ns=1),
            Message(call=1, direction=0, index=0, time_ns=1, payload=b""),
            HalfClose(call=1, time_ns=1),
            *(Message(call=call, direction=1, index=0, time_ns=2, payload=b"well") for call in (1, 2)),
            *(Status(call=call, time_ns=3, code=0) for call in (1, 2)),
        ],
    )
    report = replay(path, Spawn(server()))
    assert report.passed, str(report)
