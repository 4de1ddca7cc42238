"""Writers that are killed at random moments: `killed_writers.py FOLDER ROUNDS SEED`.

Each round forks a writer of a capture, lets it write for a while, kills it with signal 9, and prints a line: the round,
and the number of the last record of which the writer knew that it was written. One process, so that a round is short.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import sys
import time
from pathlib import Path

from capture_recorder.capfile import CaptureWriter
from capture_recorder.capfile.records import Call, Message, Meta


def write(path: Path, known: mmap.mmap, sizes: list[int]) -> None:
    """Records without an end; after each, `known` holds its number."""
    writer = CaptureWriter(path)
    writer.append(Meta(created_ns=0, clock_ns=0))
    writer.append(Call(call=1, time_ns=0, method="/s/M", kind="bidi"))
    index = 0
    while True:
        size = sizes[index % len(sizes)]
        payload = b"%d:" % index + bytes(size)
        seq = writer.append(Message(call=1, direction=0, index=index, time_ns=index, payload=payload))
        known[:8] = seq.to_bytes(8, "little")
        index += 1


def main() -> None:
    folder, rounds, rng = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    for number in range(rounds):
        known = mmap.mmap(-1, 8)
        sizes = [rng.choice((0, 10, 200, 4096, 70_000)) for _ in range(7)]
        pid = os.fork()
        if pid == 0:
            write(folder / f"{number}.cap", known, sizes)
        while not any(known[:8]):  # it is under way
            time.sleep(0.0001)
        time.sleep(rng.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        print(number, int.from_bytes(known[:8], "little"), flush=True)


if __name__ == "__main__":
    main()
