"""Real servers and clients in processes of their own. Waits for lines and for ends, never for time to pass."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

HELPERS = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
LISTENING = "listening on "


class ServerProcess:
    """A server that says `… listening on ADDRESS` on its standard output when it accepts connections."""

    def __init__(self, command: Sequence[str | os.PathLike[str]]) -> None:
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._errors: list[str] = []
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if LISTENING not in line:
            self.process.wait(20)
            self._reader.join(20)
            raise AssertionError(f"the server did not start: {line!r} {self.errors}")
        self.address = line.strip().rpartition(LISTENING)[2]

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._errors.append(line)

    @property
    def errors(self) -> str:
        """What it wrote to standard error so far."""
        return "".join(self._errors)

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal and wait for the end; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait(30)
        self._reader.join(20)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return status


@contextlib.contextmanager
def running(command: Sequence[str | os.PathLike[str]]) -> Iterator[ServerProcess]:
    """A server for the length of a block; what is left of it afterwards is killed."""
    server = ServerProcess(command)
    try:
        yield server
    finally:
        server.stop(signal.SIGKILL if sys.exc_info()[0] else signal.SIGTERM)


def shard_server(capture: Path | None = None, *more: str) -> list[str]:
    """The command of a reference server on a free port."""
    recording = ["--capture", str(capture)] if capture else []
    return [str(BIN / "capture-server"), "--listen", "127.0.0.1:0", *recording, *more]


def helper_server(name: str, capture: Path | None = None, *more: str) -> list[str]:
    """The command of a server of tests/helpers, on a free port."""
    return [sys.executable, str(HELPERS / f"{name}.py"), *([str(capture)] if capture else ["-"]), *more]


def run(*command: str | os.PathLike[str], timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """A command to its end, its output as text."""
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, env=environment)


def replay(*arguments: str | os.PathLike[str], timeout: float = 100) -> subprocess.CompletedProcess[str]:
    """The command `capture-replay`."""
    return run(BIN / "capture-replay", *arguments, timeout=timeout)


def capture_file(*arguments: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    """The command `capture-file`."""
    return run(BIN / "capture-file", *arguments)


def converse(address: str, *names: str) -> subprocess.CompletedProcess[str]:
    """Conversations of the reference server's client, in a process of its own."""
    return run(sys.executable, "-m", "capture_server.client", "--target", address, *names)
