"""What a replay costs over a bare grpcio loop that compares nothing, on the same server, in interleaved rounds.

`python benchmarks/replaying.py [causal|asap|many|memory|all] [ROUNDS]`. The server echoes raw bytes, in a process of
its own. causal: one request, one answer. asap: requests as fast as flow control lets them. many: a thousand captures
of a unary call each, against the bare calls. memory: a capture of a million messages.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from grpc import aio

from capture_recorder.capfile import CaptureWriter
from capture_recorder.capfile.records import Call, HalfClose, Message, Meta, Status
from capture_replayer import ReplayOptions, replay_async

METHOD = "/bench.Echo/"
PAYLOAD = b"x" * 100
OPTIONS = [("grpc.max_receive_message_length", -1)]
SERVER = """
import asyncio, grpc
async def bidi(request, context):
    while (message := await context.read()) is not grpc.aio.EOF:
        await context.write(message)
async def unary(request, context):
    return request
async def main():
    server = grpc.aio.server()
    handlers = {
        "Bidi": grpc.stream_stream_rpc_method_handler(bidi),
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()
asyncio.run(main())
"""


def stream(path: Path, count: int, *, ahead: int = 1) -> Path:
    """A capture of a stream, with so many requests before their answers."""
    writer = CaptureWriter(path)
    writer.append(Meta(created_ns=0, clock_ns=0))
    writer.append(Call(call=1, time_ns=0, method=METHOD + "Bidi", kind="bidi"))
    for start in range(0, count, ahead):
        for direction in (0, 1):
            for i in range(start, min(start + ahead, count)):
                writer.append(Message(call=1, direction=direction, index=i, time_ns=i, payload=PAYLOAD))
    writer.append(HalfClose(call=1, time_ns=count))
    writer.append(Status(call=1, time_ns=count, code=0))
    return writer.close()


def unary(path: Path) -> Path:
    """A capture of one unary call."""
    writer = CaptureWriter(path)
    writer.append(Meta(created_ns=0, clock_ns=0))
    writer.append(Call(call=1, time_ns=0, method=METHOD + "Unary", kind="unary"))
    for direction in (0, 1):
        writer.append(Message(call=1, direction=direction, index=0, time_ns=1, payload=PAYLOAD))
    writer.append(Status(call=1, time_ns=2, code=0))
    return writer.close()


async def bare_pingpong(address: str, count: int) -> None:
    async with aio.insecure_channel(address, options=OPTIONS) as channel:
        call = channel.stream_stream(METHOD + "Bidi")()
        for _ in range(count):
            await call.write(PAYLOAD)
            await call.read()
        await call.done_writing()
        await call.code()


async def bare_pipeline(address: str, count: int) -> None:
    async with aio.insecure_channel(address, options=OPTIONS) as channel:
        call = channel.stream_stream(METHOD + "Bidi")()

        async def write() -> None:
            for _ in range(count):
                await call.write(PAYLOAD)
            await call.done_writing()

        writing = asyncio.create_task(write())
        while await call.read() is not aio.EOF:
            pass
        await writing


async def bare_calls(address: str, count: int) -> None:
    async with aio.insecure_channel(address, options=OPTIONS) as channel:
        multi = channel.unary_unary(METHOD + "Unary")
        for _ in range(count):
            await multi(PAYLOAD)


async def ours(address: str, files: list[Path], options: ReplayOptions) -> None:
    report = await replay_async(files, address, **options)
    assert report.passed, report


def table(title: str, count: int, rounds: int, asked: str, runs: dict[str, Callable[[], Awaitable[None]]]) -> None:
    """Each run in turns; each of ours over the bare one of its round."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, make in runs.items():
            start = time.perf_counter()
            asyncio.run(_awaited(make))
            times[name].append(time.perf_counter() - start)
    rates = " · ".join(f"{name} {count / statistics.median(value):,.0f}/s" for name, value in times.items())
    print(f"{title}: {rates}")
    for name in list(runs)[1:]:
        ratios = [a / b for a, b in zip(times["bare"], times[name], strict=True)]
        print(
            f"  {name}: rate over bare {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}); "
            f"asked {asked}",
            flush=True,
        )


def memory(path: Path, address: str, messages: int) -> None:
    """The most memory that a replay takes, in a process of its own."""
    script = (
        "import resource, sys; from capture_replayer import replay; print(replay(sys.argv[1], sys.argv[2]).passed, "
        "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    command = [sys.executable, "-c", script, str(path), address]
    passed, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    print(f"memory, {messages:,} messages: passed {passed}, at most {int(peak) / 1024:.1f} MiB", flush=True)


async def _awaited(make: Callable[[], Awaitable[None]]) -> None:
    await make()


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "all"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = f"127.0.0.1:{server.stdout.readline().strip()}"
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if what in ("causal", "all"):
                count = 5_000
                path = stream(folder / "lockstep.cap", count)
                runs = {"bare": lambda: bare_pingpong(address, count), "ours": lambda: ours(address, [path], {})}
                table("causal, pairs", count, rounds, "0.9", runs)
            if what in ("asap", "all"):
                count = 10_000
                pipe = stream(folder / "pipe.cap", count)
                fast: ReplayOptions = {"order": "asap"}
                runs = {"bare": lambda: bare_pipeline(address, count), "ours": lambda: ours(address, [pipe], fast)}
                table("asap, pairs", count, rounds, "0.95", runs)
            if what in ("many", "all"):
                count = 1_000
                files = [unary(folder / f"{number}.cap") for number in range(count)]
                runs = {
                    "bare": lambda: bare_calls(address, count),
                    "ours": lambda: ours(address, files, {}),
                    "ours, 4 jobs": lambda: ours(address, files, {"jobs": 4}),
                }
                table("a thousand captures", count, rounds, "0.77 (1.3 times the time)", runs)
            if what in ("memory", "all"):
                for count in (10_000, 500_000):
                    memory(stream(folder / f"{count}.cap", count), address, 2 * count)
    finally:
        server.kill()


if __name__ == "__main__":
    main()
