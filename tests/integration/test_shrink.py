"""`capture-replay shrink`: from thousands of events to what the failure needs, stopped and taken up."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from capture_recorder.capfile.records import Call, HalfClose, Message
from helpers.captures import events, messages
from helpers.odd import OddClient, odd_command
from helpers.odd_proto import Order
from helpers.processes import BIN, HELPERS, run, running

SHRINK = [str(BIN / "capture-replay"), "shrink"]


def record(path: Path, *, calls: int, orders: int) -> Path:
    """Streams of many orders. In one of them is an order that primes, long before one that fires."""
    generator = random.Random(4)
    with (
        running([sys.executable, str(HELPERS / "odd_server.py"), "127.0.0.1:0", str(path)]) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        client = OddClient(channel)
        for call in range(calls):
            words = [f"order {generator.randrange(1000)}" for _ in range(orders)]
            if call == calls // 2:
                words[orders // 5], words[orders * 4 // 5] = "prime", "fire"
            client.talk(
                Order(words=word, number=number, extra="as usual", deadline_unix_nanos=1 << 62)
                for number, word in enumerate(words)
            )
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of more than two thousand events."""
    path = record(tmp_path_factory.mktemp("large") / "big.cap", calls=20, orders=55)
    assert len(events(path)) > 2_000
    return path


def requests(path: Path) -> list[str]:
    """The words of all requests, and the calls and ends around them."""
    said = []
    for record in events(path):
        if isinstance(record, Message) and record.direction == 0:
            said.append(Order.FromString(record.payload).words)
        elif isinstance(record, (Call, HalfClose)):
            said.append(type(record).__name__)
    return said


def test_exactly_the_two_requests_and_the_open_remain(large: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.cap"
    done = run(*SHRINK, str(large), "--spawn", odd_command("needs two"), "-o", str(small), timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert requests(small) == ["Call", "prime", "fire"]
    assert "20 calls, 1,140 request events → 1 call, 3 request events in" in done.stdout
    left = [Order.FromString(payload) for payload in messages(small, 11, 0)]
    assert left[0] == Order(words="prime", number=11)
    assert left[1] == Order(words="fire", number=44)
    assert run(str(BIN / "capture-file"), "verify", str(small)).returncode == 0
    assert not (tmp_path / "small.cap.shrink").exists()
    shows = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_small.py"))
    assert shows.returncode == 1
    assert "field price" in " ".join(shows.stdout.split())
    test = (tmp_path / "test_small.py").read_text()
    mended = tmp_path / "test_mended.py"
    mended.write_text(test.replace("needs two", ""))
    assert run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(mended)).returncode == 0


def test_stopped_in_the_middle_it_goes_on_where_it_was(tmp_path: Path) -> None:
    capture = record(tmp_path / "big.cap", calls=2, orders=6)
    small, journal = tmp_path / "small.cap", tmp_path / "small.cap.shrink"
    words = [*SHRINK, str(capture), "--spawn", odd_command("needs two"), "-o", str(small)]
    for sign, trials in ((signal.SIGKILL, 3), (signal.SIGTERM, 6)):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not journal.exists() or len(journal.read_text().splitlines()) < 1 + trials:
            assert process.poll() is None
            os.sched_yield()
        process.send_signal(sign)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == (-sign if sign == signal.SIGKILL else 128 + sign), errors
        assert not small.exists()
    known = [json.loads(line) for line in journal.read_text().splitlines()]
    with journal.open("a") as stream:
        stream.write('{"parts": "cut in the mid')
    done = run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f", {len(known) - 1} known from before" in done.stdout
    assert requests(small) == ["Call", "prime", "fire"]
    assert not [path.name for path in tmp_path.iterdir() if ".part" in path.name], "not even by SIGKILL"


def test_what_cannot_be_shrunk_is_told(odd_capture: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.cap"
    passes = run(*SHRINK, str(odd_capture), "--spawn", odd_command(), "-o", str(small))
    assert (passes.returncode, passes.stdout) == (125, "")
    assert "it passes: there is nothing to be shrunk" in passes.stderr
    dead = run(*SHRINK, str(odd_capture), "--spawn", odd_command("does not start"), "-o", str(small))
    assert dead.returncode == 125
    assert "the server did not start: it ended with status 3" in dead.stderr
    small.write_bytes(b"somebody's")
    there = run(*SHRINK, str(odd_capture), "--spawn", odd_command("wrong price"), "-o", str(small))
    assert there.returncode == 125
    assert small.read_bytes() == b"somebody's"
    assert [path.name for path in tmp_path.iterdir()] == ["small.cap"]
