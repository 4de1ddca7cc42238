"""The recorded clock: what a server sees of it, and what it does not."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

import grpc
import pytest

from capture_replayer import clock as clocks
from capture_replayer.clock import ClockUnavailable, RecordedClock
from capture_replayer.spawn import free_port
from helpers.processes import HELPERS

NOW = 1_700_000_000_123_456_789  # 2023-11-14, far from any day on which this runs
AT = datetime.fromtimestamp(NOW // 10**9, UTC)
needs_library = pytest.mark.skipif("preload" not in clocks.methods(), reason="libfaketimeMT is not installed here")
METHODS = ["python", pytest.param("preload", marks=needs_library)]


class Told:
    """A stream to a server that tells the time."""

    def __init__(self, clock: RecordedClock, base: Mapping[str, str] | None = None, *options: str) -> None:
        self.clock = clock
        self.address = f"127.0.0.1:{free_port()}"
        command = [sys.executable, *options, str(HELPERS / "clock_server.py"), self.address]
        self.process = subprocess.Popen(command, env=clock.environment(base or os.environ))
        self.channel = grpc.insecure_channel(self.address)
        grpc.channel_ready_future(self.channel).result(30)
        self._words: SimpleQueue[bytes | None] = SimpleQueue()
        self.call = self.channel.stream_stream("/clock.Clock/Tell")(iter(self._words.get, None), timeout=60)

    def ask(self, word: str = "") -> str:
        self._words.put(word.encode())
        return str(next(self.call).decode())

    def close(self) -> None:
        self._words.put(None)
        self.channel.close()
        self.process.terminate()
        self.process.wait(20)
        self.clock.close()


@contextlib.contextmanager
def told(method: clocks.Method = "python", base: Mapping[str, str] | None = None, *options: str) -> Iterator[Told]:
    server = Told(RecordedClock(NOW, method), base, *options)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def python_server() -> Iterator[Told]:
    with told() as server:
        yield server


EXACT = {
    "": str(NOW),
    "time": str(NOW / 1e9),
    "time by name": str(NOW / 1e9),
    "clock_gettime": str(NOW / 1e9),
    "clock_gettime_ns": str(NOW),
    "gmtime": AT.strftime("%Y-%m-%d %H:%M:%S"),
    "localtime": str(float(NOW // 10**9)),
    "strftime": "2023",
    "ctime": time.ctime(NOW / 1e9),
    "asctime": time.asctime(time.localtime(NOW / 1e9)),
    "now": AT.replace(microsecond=123_456).isoformat(),
    "utcnow": AT.replace(microsecond=123_456, tzinfo=None).isoformat(),
    "today": datetime.fromtimestamp(NOW / 1e9).date().isoformat(),
    "thread": str(NOW),
    "child": str(NOW),
}


@pytest.mark.parametrize("word", EXACT)
def test_every_way_to_the_wall_clock_shows_the_time_that_was_set(word: str, python_server: Told) -> None:
    python_server.clock.set(NOW)
    assert python_server.ask(word) == EXACT[word]


@pytest.mark.parametrize("word", ["monotonic", "perf_counter", "clock_gettime monotonic"])
def test_the_monotonic_clock_is_the_real_one_and_moves(word: str, python_server: Told) -> None:
    before = time.monotonic()
    readings = [float(python_server.ask(word)) for _ in range(2)]
    assert before <= readings[0] < readings[1] <= time.monotonic()


def test_timers_are_left_alone(python_server: Told) -> None:
    assert 0.1 <= float(python_server.ask("slept")) < 30
    assert 1 < float(python_server.ask("time remaining")) <= 60, "a deadline of gRPC is not held against that clock"


def test_an_id_made_of_the_time_is_one(python_server: Told) -> None:
    python_server.clock.set(NOW)
    assert abs(int(python_server.ask("uuid1")) - NOW) < 10_000


@pytest.mark.parametrize("method", METHODS)
def test_two_thousand_steps_each_to_the_nanosecond(method: clocks.Method) -> None:
    """The same with 100,000: benchmarks/clock.py."""
    with told(method) as server:
        wrong = []
        for step in range(2000 if method == "python" else 200):
            now = NOW + step * 1_234_567_891 * (-1) ** step  # forwards and backwards
            server.clock.set(now)
            if (answer := int(server.ask())) != now:
                wrong.append((now, answer))
        assert not wrong
        if method == "python":
            server.clock.check([server.process.pid])


def test_the_users_own_sitecustomize_is_run_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['THE_USERS_OWN'] = 'it ran'\n")
    with told("python", {**os.environ, "PYTHONPATH": str(tmp_path)}) as server:
        assert server.ask("sitecustomize") == "it ran"
        assert server.ask() == str(NOW)


def test_a_python_that_reads_no_environment_is_found_out() -> None:
    with told("python", None, "-I") as server, pytest.raises(ClockUnavailable, match="no Python that reads PYTHONPATH"):
        server.clock.check([server.process.pid])


def test_a_program_that_is_no_python_is_found_out() -> None:
    clock = RecordedClock(NOW)
    process = subprocess.Popen(["sleep", "60"], env=clock.environment(os.environ))
    try:
        with pytest.raises(ClockUnavailable, match="no Python"):
            clock.check([process.pid])
    finally:
        process.kill()
        process.wait()
        clock.close()


def test_a_python_for_which_time_machine_is_not_there_says_why(tmp_path: Path) -> None:
    clock = RecordedClock(NOW)
    environment = {**clock.environment(os.environ), "CAPTURE_REPLAY_TIME_MACHINE": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment) as process:
        noted = clock.folder / "pids" / f"{process.pid}.failed"
        while not noted.exists():
            assert process.poll() is None
            time.sleep(0.01)
        with pytest.raises(ClockUnavailable, match="time-machine is there for another Python"):
            clock.check([process.pid])
    clock.close()


def test_the_clock_is_found_from_a_python_without_any_packages() -> None:
    """The server's environment need not have time-machine: it is loaded by its path."""
    clock = RecordedClock(NOW)
    code = "import time, sys; print(time.time_ns(), 'time_machine' in sys.modules, sys.path)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sitecustomize; {code}"],
        env=clock.environment(os.environ), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith(f"{NOW} True")
    assert "site-packages" not in done.stdout
    clock.close()


def test_nothing_is_left_behind() -> None:
    clock = RecordedClock(NOW)
    assert clock.folder.stat().st_mode & 0o777 == 0o700
    clock.close()
    assert not clock.folder.exists()


def test_the_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "LIBRARIES", ())
    with pytest.raises(ClockUnavailable, match="apt-get install libfaketime"):
        RecordedClock(NOW, "preload")
    assert "Debian: libfaketime" in clocks.hint()


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file for the library."""
    (tmp_path / clocks.LIBRARY).touch()
    monkeypatch.setattr(clocks, "LIBRARIES", (tmp_path / clocks.LIBRARY,))


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["sleep", "60"], "did not load libfaketimeMT"),
        ([sys.executable, "-I", "-c", "import time; time.sleep(60)"], "whose time.sleep fails"),
    ],
)
def test_what_the_library_does_not_reach_or_breaks_is_told(command: list[str], why: str) -> None:
    clock = RecordedClock(NOW, "preload")
    with subprocess.Popen(command) as process:
        with pytest.raises(ClockUnavailable, match=why):
            clock.check([process.pid])
        process.kill()
    clock.close()
