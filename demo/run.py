"""`make demo`: a real Session, recorded, replayed against a fresh server, and judged. Leaves demo/demo.cap.

Everything is a process of its own on a real socket: the recording server, the client that drives it through the
generated stub, the fresh server, and the replay.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
CAPTURE = HERE / "demo.cap"
LISTENING = "listening on "


@contextmanager
def server(*more: str | Path) -> Iterator[str]:
    """A reference server on a free port, for the length of a block; its address."""
    process = subprocess.Popen(
        [BIN / "capture-server", "--listen", "127.0.0.1:0", *more], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as output:
        try:
            line = output.readline().strip()
            if LISTENING not in line:
                sys.exit("the server did not start")
            yield line.rpartition(LISTENING)[2]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def step(text: str) -> None:
    print(f"\n— {text}", flush=True)


def main() -> int:
    for left in (CAPTURE, CAPTURE.with_name("demo.cap.part")):
        left.unlink(missing_ok=True)
    name = CAPTURE.relative_to(Path.cwd()) if CAPTURE.is_relative_to(Path.cwd()) else CAPTURE
    step(f"recording: capture-server --capture {name}, and a client that holds its conversations with it")
    with server("--capture", CAPTURE) as address:
        driven = subprocess.run([sys.executable, "-m", "capture_server.client", "--target", address], check=False)
    if driven.returncode:
        return driven.returncode
    step(f"what was recorded: capture-file info {name}")
    subprocess.run([BIN / "capture-file", "info", name], check=True)
    step(f"replaying against a fresh server: capture-replay {name} --target HOST:PORT")
    with server() as address:
        return subprocess.run([BIN / "capture-replay", name, "--target", address], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
