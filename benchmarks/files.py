"""Reading and writing captures against mcap, and finding one event in a large one. Ratios, measured in pairs.

`python benchmarks/files.py [read|write|large|all] [ROUNDS]`. mcap is the Python library's, its checksums validated,
once without compression (its messages are then read as ours are) and once with Zstandard, its default. Payloads are
random.
The files are in a folder of the system's, in the page cache: what is measured is the work, not the disk.
"""

from __future__ import annotations

import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import msgpack
from crc32c import crc32c
from mcap.reader import NonSeekingReader, make_reader
from mcap.writer import CompressionType, Writer

from capture_recorder.capfile import CaptureWriter, Catalog, open_capture
from capture_recorder.capfile.codec import message
from capture_recorder.capfile.records import Call, Meta, Record
from capture_recorder.capfile.verify import verify

SIZES = {100: 40_000, 200: 40_000, 4096: 20_000, 65_536: 3000}  # bytes of a message: messages in a run
LARGE = 2 << 30  # bytes
Make = Callable[[Path, int, int], Callable[[], object]]  # folder, size and number of messages, to what is measured
TARGETS = {"read": {200: 1.5, 4096: 3.0, 65_536: 5.0}, "write": dict.fromkeys(SIZES, 1.0)}


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def payloads(size: int) -> list[bytes]:
    rng = Random(size)
    return [rng.randbytes(size) for _ in range(16)]


# --- a run of each ----------------------------------------------------------------------------------------------------


def write_ours(path: Path, size: int, count: int) -> None:
    path.unlink(missing_ok=True)
    writer = CaptureWriter(path)
    writer.append(Meta(created_ns=0, clock_ns=0))
    writer.append(Call(call=1, time_ns=0, method="/s/M", kind="bidi"))
    data = payloads(size)
    for i in range(count):
        payload = data[i & 15]
        writer.append(message(1, i & 1, i >> 1, i * 1000, payload))
    writer.abandon()  # as mcap's, without waiting for the disk
    writer.part.rename(path)


def write_mcap(path: Path, size: int, count: int, compression: CompressionType) -> None:
    data = payloads(size)
    with path.open("wb") as file:
        writer = Writer(file, compression=compression)
        writer.start()
        schema = writer.register_schema("s", "protobuf", b"")
        channel = writer.register_channel("c", "protobuf", schema)
        for i in range(count):
            writer.add_message(channel, i * 1000, data[i & 15], i * 1000, i)
        writer.finish()


def read_ours(path: Path) -> int:
    with open_capture(path) as reader:
        return sum(1 for _ in reader.scan())


def read_mcap(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in make_reader(file, validate_crcs=True).iter_messages())


def stream_mcap(path: Path) -> int:
    """As a stream is read that cannot seek, a pipe for example."""
    with path.open("rb") as file:
        return sum(1 for _ in NonSeekingReader(file, validate_crcs=True).iter_messages())


def bare_scan(path: Path) -> int:
    """The least that reading could be: the whole file in memory, one checksum a record, and msgpack."""
    data = memoryview(path.read_bytes())
    head, tail = struct.Struct("<16xI").unpack_from, struct.Struct("<I").unpack_from
    at, count, end = 32, 0, len(data)
    while at + 24 <= end:
        after = at + 28 + head(data, at)[0]
        crc32c(data[at : after - 4], 0)
        tail(data, after - 4)
        msgpack.unpackb(data[at + 24 : after - 4])
        at, count = after, count + 1
    return count


# --- tables -----------------------------------------------------------------------------------------------------------


def cell(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):6.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def table(
    title: str, rivals: dict[str, Callable[[Path, int, int], Callable[[], object]]], rounds: int, what: str
) -> None:
    """A row for each size. `rivals` make what is to be measured, ours first; the others are told as ratios to it."""
    names = list(rivals)[1:]
    print(f"\n{title}; {rounds} interleaved rounds: median (min–max)")
    print(f"{'bytes':>7} {'ours/s':>10} " + " ".join(f"{name:>20}" for name in names) + "  asked over mcap")
    for size, count in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            runs = [make(Path(folder), size, count) for make in rivals.values()]
            times = [[seconds(run) for run in runs] for _ in range(rounds)]
        rate = count / statistics.median(row[0] for row in times)
        cells = [cell([row[i] / row[0] for row in times]) for i in range(1, len(runs))]
        asked = TARGETS[what].get(size, "")
        print(f"{size:>7,} {rate:>10,.0f} " + " ".join(f"{text:>20}" for text in cells) + f"  {asked}", flush=True)


def reading(_folder: Path, rounds: int) -> None:
    def ours(folder: Path, size: int, count: int) -> Callable[[], object]:
        write_ours(folder / "a.cap", size, count)
        return partial(read_ours, folder / "a.cap")

    def mcap(compression: CompressionType, folder: Path, size: int, count: int) -> Callable[[], object]:
        path = folder / f"{compression.name}.mcap"
        write_mcap(path, size, count, compression)
        return partial(read_mcap, path)

    rivals = {
        "ours": ours,
        "over mcap": partial(mcap, CompressionType.NONE),
        "over mcap zstd": partial(mcap, CompressionType.ZSTD),
        "over mcap's stream": lambda folder, _size, _count: partial(stream_mcap, folder / "NONE.mcap"),
        "of a bare scan": lambda folder, _size, _count: partial(bare_scan, folder / "a.cap"),
    }
    table("reading, every check on: events a second", rivals, rounds, "read")


def writing(_folder: Path, rounds: int) -> None:
    def mcap(compression: CompressionType, folder: Path, size: int, count: int) -> Callable[[], object]:
        return partial(write_mcap, folder / f"{compression.name}.mcap", size, count, compression)

    rivals: dict[str, Make] = {
        "ours": lambda folder, size, count: partial(write_ours, folder / "a.cap", size, count),
        "over mcap": partial(mcap, CompressionType.NONE),
        "over mcap zstd": partial(mcap, CompressionType.ZSTD),
    }
    table("appending, one write a record, against a buffered writer: events a second", rivals, rounds, "write")


def large(folder: Path, rounds: int) -> None:
    """Each measured in a process of its own, for its memory and for what it reads."""
    for size in (4096, 65_536):
        for total in (LARGE // 4, LARGE):
            path = folder / "large.cap"
            write_large(path, size, total)
            count = total // size
            print(f"\n{total / 2**30:.1f} GiB, {count:,} messages of {size:,} bytes; {rounds} interleaved rounds")
            rows: dict[str, list[list[float]]] = {}
            for _ in range(rounds):
                for what in ("whole file into memory", "scan", "verify", "calls, and event N"):
                    rows.setdefault(what, []).append(in_process(what, path, count // 2))
            scan = statistics.median(row[0] for row in rows["scan"])
            memory = statistics.median(row[0] for row in rows["whole file into memory"])
            for what, measured in rows.items():
                took = statistics.median(row[0] for row in measured)
                peak, read = (max(row[i] for row in measured) for i in (1, 2))
                shares = f"{took / scan:>8.4f} of a scan  {memory / took:>8.2f} times the speed of reading"
                print(f"  {what:<24} {took:>9.4f} s  {shares}  {peak:>7.1f} MiB of memory  {read:>12,.1f} KiB read")


def write_large(path: Path, size: int, total: int) -> None:
    path.unlink(missing_ok=True)
    writer = CaptureWriter(path)
    records: list[Record] = [Meta(created_ns=0, clock_ns=0), Call(call=1, time_ns=0, method="/s/M", kind="bidi")]
    for record in records:
        writer.append(record)
    data = payloads(size)
    for i in range(total // size):
        writer.append(message(1, i & 1, i >> 1, i, data[i & 15]))
    writer.close()


def in_process(what: str, path: Path, seq: int) -> list[float]:
    """Seconds, MiB of memory at the most beyond what the interpreter and its modules take, and KiB that were read."""
    command = [sys.executable, __file__, "--one", what, str(path), str(seq)]
    return [float(x) for x in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]


def characters_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def one(what: str, path: Path, seq: int) -> None:
    def middle() -> None:
        with open_capture(path) as reader:
            catalog = Catalog(reader)
            assert len(catalog.calls) == 1
            entry = catalog.read(seq)
            assert entry is not None
            assert entry.seq == seq

    def verified() -> None:
        with open_capture(path) as reader:
            assert verify(reader).clean

    work: dict[str, Callable[[], object]] = {
        "whole file into memory": path.read_bytes,
        "scan": lambda: read_ours(path),
        "verify": verified,
        "calls, and event N": middle,
    }
    before, read = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, characters_read()
    took = seconds(work[what])
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(took, peak, (characters_read() - read) / 1024)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
        return
    which = sys.argv[1] if len(sys.argv) > 1 else "all"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as name:
        for what, run in (("read", reading), ("write", writing), ("large", large)):
            if which in (what, "all"):
                run(Path(name), rounds)


if __name__ == "__main__":
    main()
