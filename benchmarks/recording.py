"""What recording costs a server: CPU per message with the recorder over without, in interleaved pairs.

An opaque bidirectional echo service in a process of its own, the client in this one; the server's CPU is the operating
system's account of it. Prints medians of the ratio, with their spread. `python benchmarks/recording.py [ROUNDS]`.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.processes import helper_server, running  # noqa: E402
from helpers.service import SERVICE  # noqa: E402

SIZES = {100: 4000, 4096: 4000, 65_536: 1500, 1 << 20: 150}  # bytes of a message: messages in a run
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def run(size: int, count: int, *, recorded: bool, lockstep: bool) -> float:
    """Seconds of server CPU for so many echoes."""
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "a.cap" if recorded else None
        with running(helper_server("opaque_server", capture)) as server:
            options = [("grpc.max_receive_message_length", -1)]
            with grpc.insecure_channel(server.address, options=options) as channel:
                echo(channel, size, 50, lockstep=lockstep)  # warm
                before = cpu_seconds(server.process.pid)
                echo(channel, size, count, lockstep=lockstep)
                return cpu_seconds(server.process.pid) - before


def echo(channel: grpc.Channel, size: int, count: int, *, lockstep: bool) -> None:
    """Send messages and take them back: one by one, or as fast as flow control lets them."""
    payload = b"x" + os.urandom(size - 1)  # an order that the service echoes
    came = 0
    call = channel.stream_stream(SERVICE + "Bidi")(_requests(payload, count, lambda: came, lockstep))
    for response in call:
        came += 1
        assert len(response) == size
    assert came == count


def _requests(payload: bytes, count: int, came: object, lockstep: bool) -> Iterator[bytes]:
    for sent in range(count):
        while lockstep and callable(came) and came() < sent:
            os.sched_yield()
        yield payload


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print(f"server CPU per message, recorded over not recorded; {rounds} interleaved rounds: median (min–max)\n")
    print(f"{'bytes':>9}  {'lockstep':^22}  {'pipelined':^22}")
    for size, count in SIZES.items():
        cells = []
        for lockstep in (True, False):
            ratios = []
            for _ in range(rounds):
                without = run(size, count, recorded=False, lockstep=lockstep)
                ratios.append(run(size, count, recorded=True, lockstep=lockstep) / without)
            cells.append(f"{statistics.median(ratios):5.2f} ({min(ratios):.2f}–{max(ratios):.2f})")
        print(f"{size:>9,}  {cells[0]:^22}  {cells[1]:^22}", flush=True)


if __name__ == "__main__":
    main()
