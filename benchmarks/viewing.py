"""How the viewer holds up: a capture of a million messages beside one of a hundred, each in processes of their own.

first paint (from the start of the process), the work of moving, paging and jumping (CPU time of the handler), memory
while the whole file is read, and the import beside Textual's. `python benchmarks/viewing.py [MESSAGES] [BYTES]`
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from capture_recorder.capfile import CaptureWriter
from capture_recorder.capfile.output import PartFile
from capture_recorder.capfile.records import Call, Message, Meta

ROUNDS = 7
CALLS = 100

DRIVER = """
import asyncio, json, os, resource, sys, time
from capture_tui.app import Viewer
from capture_tui.model.document import Document
from capture_tui.model.frame import key_of

def cpu(action):
    best = []
    for _ in range(5):
        start = time.thread_time(); action(); best.append(time.thread_time() - start)
    return sorted(best)[2] * 1000

async def main(path, whole):
    app = Viewer(Document(path))
    async with app.run_test(size=(120, 40)) as pilot:
        painted = asyncio.Event()
        app.call_after_refresh(painted.set)
        await painted.wait()
        found = {"paint_s": time.time() - float(sys.argv[3])}
        assert any(segment.text.strip() for segment in app.frames.render_line(0))
        if whole:
            pane, last = app.frames, app.frames.rows.size
            def shown(action):
                action()
                pane.keys(); app.show_frame(); app.show_status()
                for y in range(pane.size.height): pane.render_line(y)
            steps = iter(range(1, 100))
            found["move_ms"] = cpu(lambda: shown(lambda: pane.action_move(1)))
            found["page_ms"] = cpu(lambda: shown(lambda: pane.action_page(1)))
            found["jump_ms"] = cpu(lambda: shown(lambda: pane.go_key(key_of(next(steps) * last // 100 + 2))))
            start = time.monotonic()
            while not app.document.scanned:
                await pilot.pause(0.05)
            found["scan_s"] = time.monotonic() - start
        found["rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))

asyncio.run(main(sys.argv[1], sys.argv[2] == "whole"))
"""


def capture(path: Path, messages: int, size: int) -> None:
    """A capture of so many messages in a hundred calls at once."""
    writer = CaptureWriter(PartFile(path))
    writer.append(Meta(created_ns=1, clock_ns=1))
    for call in range(1, CALLS + 1):
        writer.append(Call(call=call, time_ns=call, method="/a.B/C", kind="bidi"))
    for number in range(messages):
        payload = (number.to_bytes(8, "little") * (size // 8 + 1))[:size]
        call, index = number % CALLS + 1, number // CALLS
        writer.append(
            Message(
                call=call,
                time_ns=1_000 + number * 1_000,
                direction=number // CALLS % 2,
                index=index // 2,
                payload=payload,
            )
        )
    writer.close()


def opened(path: Path, how: str) -> dict[str, float]:
    """One process; what it measured."""
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(path), how, str(time.time())], capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout))


def imported(module: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - start


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 2_100
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        small, large = Path(folder) / "small.cap", Path(folder) / "large.cap"
        capture(small, 100, 100)
        capture(large, messages, size)
        print(f"{messages:,} messages, {large.stat().st_size / 2**30:.2f} GiB")
        pairs = [(opened(small, "paint")["paint_s"], opened(large, "paint")["paint_s"]) for _ in range(ROUNDS)]
        one, other = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"first paint     {other:.2f} s, of a hundred messages {one:.2f} s: ratio {ratio:.2f}")
        whole = opened(large, "whole")
        for name in ("move", "page", "jump"):
            print(f"{name:<15} {whole[f'{name}_ms']:.1f} ms of CPU")
        print(f"whole scan      {whole['scan_s']:.1f} s; resident {whole['rss_mib']:.0f} MiB at the most")
    imports = [(imported("textual.app"), imported("capture_tui.app"), imported("capture_tui")) for _ in range(ROUNDS)]
    print(
        f"import          capture_tui {statistics.median(c / a for a, _, c in imports):.2f} of Textual's, "
        f"capture_tui.app {statistics.median(b / a for a, b, _ in imports):.2f}"
    )


if __name__ == "__main__":
    main()
