"""The recorded clock, proved over many steps and measured: `python benchmarks/clock.py [STEPS]`.

A threaded grpcio server in a process of its own tells the time over one stream, in lockstep; before each request its
clock is set to another time, and every answer has to be that one, to the nanosecond. Beside it, in turns, the same with
the real clock: what a step costs is a ratio. Where libfaketime is installed, that way too.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import grpc

from capture_replayer.clock import RecordedClock, methods
from capture_replayer.spawn import free_port

ROOT = Path(__file__).resolve().parents[1]
LAST_YEAR = 1_750_000_000_000_000_000  # ns since 1970
TURNS = 10


class Told:
    """A server that tells the time, and a stream to it. `clock` is what it sees, None: the real one."""

    def __init__(self, clock: RecordedClock | None) -> None:
        self.clock = clock
        address = f"127.0.0.1:{free_port()}"
        environment = clock.environment(os.environ) if clock else None
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/helpers/clock_server.py"), address], env=environment
        )
        self.channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self.channel).result(30)
        self._ready = queue.SimpleQueue[bytes | None]()
        self.call = self.channel.stream_stream("/clock.Clock/Tell")(iter(self._ready.get, None))

    def ask(self, word: bytes = b"") -> bytes:
        """One request and its answer."""
        self._ready.put(word)
        answer: bytes = next(self.call)
        return answer

    def close(self) -> None:
        """End all of it."""
        self._ready.put(None)
        self.channel.close()
        self.process.terminate()
        self.process.wait()
        if self.clock:
            self.clock.close()


def steps(told: Told, count: int, rng: Random) -> tuple[int, float]:
    """So many requests: how many answers were wrong, and how long it took in seconds."""
    wrong = 0
    start = time.perf_counter()
    for _ in range(count):
        now = LAST_YEAR + rng.randrange(10**17)
        if told.clock:
            told.clock.set(now)
        wrong += told.ask() != str(now).encode() and told.clock is not None
    return wrong, time.perf_counter() - start


def main() -> None:
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for method in methods():
        rng = Random(1)
        real, recorded = Told(None), Told(RecordedClock(LAST_YEAR, method))
        wrong, seconds = 0, {"real": 0.0, "recorded": 0.0}
        for _ in range(TURNS):
            seconds["real"] += steps(real, total // TURNS, rng)[1]
            some, taken = steps(recorded, total // TURNS, rng)
            wrong, seconds["recorded"] = wrong + some, seconds["recorded"] + taken
        real.close()
        recorded.close()
        us = {name: f"{value / total * 1e6:.0f} µs" for name, value in seconds.items()}
        print(
            f"{method:8} {total:,} steps, {wrong} wrong; a step {us['recorded']}, with the real clock {us['real']}: "
            f"ratio {seconds['recorded'] / seconds['real']:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
