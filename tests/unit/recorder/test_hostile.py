"""Hostile files: nothing but our own errors, no more memory than the input's size, no more time than its size asks for.

A seed of the campaigns runs here; `make soak` runs a thousand times as many (SOAK=1000) and a coverage-guided fuzzer.
"""

from __future__ import annotations

import importlib.util
import os
import random
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture_recorder.capfile import CaptureError, Damage, blocks, decoder, framing
from capture_recorder.capfile.framing import Preamble, RecordType
from capture_recorder.capfile.reader import WINDOW
from helpers.captures import FILE_ID, opened_bytes
from helpers.damage import mangle

TESTS = Path(__file__).resolve().parents[2]
SOAK = int(os.environ.get("SOAK", "1"))
GOLDEN = sorted((TESTS / "golden" / "v1").glob("*.cap"))
CORPUS = sorted((TESTS / "fuzz" / "corpus").glob("*"))
SEED = framing.seed_of(FILE_ID)


def _targets() -> dict[str, Callable[[bytes], None]]:
    spec = importlib.util.spec_from_file_location("targets", TESTS / "fuzz" / "targets.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault("targets", importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    found: dict[str, Callable[[bytes], None]] = module.TARGETS
    return found


TARGETS = _targets()


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus(target: str) -> None:
    """Goldens, and what the fuzzer found worth keeping or worth mending."""
    small = [path for path in GOLDEN if path.stat().st_size < 10_000]
    for path in [*small, *CORPUS]:
        TARGETS[target](path.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=60 * SOAK, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.one_of(st.binary(max_size=400), st.lists(st.binary(max_size=60)).map(b"".join)))
def test_any_bytes(target: str, data: bytes) -> None:
    TARGETS[target](data)


def read(data: bytes) -> None:
    """A scan, and what must hold of it."""
    try:
        with opened_bytes(data, salvage=True) as reader:
            last = told = 0
            for item in reader.scan():
                if isinstance(item, Damage):
                    told += item.size
                else:
                    assert item.seq > last
                    last = item.seq
            assert told <= len(data)
            assert reader.condition in ("clean", "torn", "damaged")
    except CaptureError:
        pass


def test_a_thousand_mangled_captures() -> None:
    """A million of them in `make soak`."""
    rng = random.Random(SOAK)
    files = [path.read_bytes() for path in GOLDEN if path.stat().st_size < 10_000]
    for _ in range(1000 * SOAK):
        data = bytearray(rng.choice(files))
        for _ in range(rng.randint(1, 5)):
            mangle(data, rng)
        read(bytes(data))


# --- memory -----------------------------------------------------------------------------------------------------------


def record(kind: int, body: bytes, seq: int = 1) -> bytes:
    return b"".join(framing.frame(SEED, kind, 0, seq, body, b""))


def claims(length: int) -> bytes:
    """A head with a right checksum, of a body that is not there."""
    return framing.pack_head(SEED, 5, 0, 1, length)


GREEDY: dict[str, bytes] = {
    "length of 4 GiB": claims(2**32 - 1),
    "array of 4 G": record(2, b"\x81\xa8services\xdd\xff\xff\xff\xff"),
    "map of 4 G": record(1, b"\xdf\xff\xff\xff\xff"),
    "bin of 4 GiB": record(5, b"\x81\xa1p\xc6\xff\xff\xff\xff"),
    "text of 4 GiB": record(128, b"\x81\xa4text\xdb\xff\xff\xff\xff"),
    "ext of 4 GiB": record(128, b"\x81\xa4text\xc9\xff\xff\xff\xff\x01"),
    "nesting": record(1, b"\x81\xa1x" + b"\x91" * 500_000),
    "block of 16 MiB": record(12, msgpack.packb({"n": 1, "size": 1 << 24, "z": zstandard.compress(bytes(1 << 24))})),
    "block of 1 GiB": record(12, msgpack.packb({"n": 1, "size": 1 << 30, "z": zstandard.compress(bytes(1 << 30))})),
    "a thousand blocks": b"".join(
        record(12, msgpack.packb({"n": 1, "size": 1 << 24, "z": zstandard.compress(bytes(1 << 24))}), seq)
        for seq in range(1, 11)
    ),
}


@pytest.mark.parametrize("pipe", [False, True], ids=["file", "pipe"])
@pytest.mark.parametrize("name", GREEDY)
def test_what_a_file_claims_costs_no_memory(name: str, pipe: bool) -> None:
    data = framing.pack_preamble(Preamble(1, 0, 1, FILE_ID)) + GREEDY[name]
    tracemalloc.start()
    try:
        if pipe:
            _read_pipe(data)
        else:
            read(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    block = 3 * blocks.MAX_EXPANDED if "16 MiB" in name or "blocks" in name else 0
    assert peak < 4 * WINDOW + 40 * len(data) + block


def _read_pipe(data: bytes) -> None:
    import threading

    from capture_recorder.capfile import CaptureReader

    receive, send = os.pipe()

    def feed() -> None:
        with os.fdopen(send, "wb") as file:
            file.write(data)

    thread = threading.Thread(target=feed)
    thread.start()
    with os.fdopen(receive, "rb") as stdin, CaptureReader("-", stdin=stdin) as reader:
        for _ in reader.scan():
            pass
    thread.join()


# --- time -------------------------------------------------------------------------------------------------------------


def _claiming_heads(kind: int) -> Callable[[int], bytes]:
    """Heads that each claim all of the rest, whose bodies therefore are all wrong."""

    def make(size: int) -> bytes:
        data = bytearray()
        seq = 0
        while len(data) < size:
            seq += 1
            rest = size - len(data) - framing.HEAD_SIZE - framing.TAIL_SIZE
            data += framing.pack_head(SEED, kind, 0, seq, max(0, rest)) + bytes(30)
        return bytes(data)

    return make


SLOW: dict[str, Callable[[int], bytes]] = {
    "heads that claim the rest": _claiming_heads(5),
    "blocks that claim the rest": _claiming_heads(12),
    "footers that claim the rest": _claiming_heads(11),
    "syncs": lambda size: framing.SYNC * (size // 4),
    "good heads of the same number": lambda size: claims(size // 2) * (size // 24),
    "good heads, no bodies": lambda size: b"".join(framing.pack_head(SEED, 5, 0, i, 0) for i in range(1, size // 24)),
    "records twice": lambda size: record(128, b"\x81\xa4text\xa0") * (size // 36),
    "falling numbers": lambda size: b"".join(record(128, b"\x80", size - i) for i in range(size // 29)),
}


@pytest.mark.parametrize("name", SLOW)
def test_reading_takes_no_more_than_some_passes_over_a_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the bytes that go through a checksum or a search, and by the steps that are taken."""
    size = 400_000
    work = steps = 0
    real = framing.crc32c

    def counting(data: Any, crc: int = 0) -> int:
        nonlocal work, steps
        work += len(data)
        steps += 1
        return int(real(data, crc))

    data = framing.pack_preamble(Preamble(1, 0, 1, FILE_ID)) + SLOW[name](size)
    monkeypatch.setattr(framing, "crc32c", counting)
    monkeypatch.setattr(decoder, "crc32c", counting)
    read(data)
    assert work < 12 * len(data)
    assert steps < len(data)


def test_a_block_that_cannot_be_expanded_is_not_expanded_again() -> None:
    assert RecordType.BLOCK in framing.FLAGLESS
    body = msgpack.packb({"n": 5, "size": 100, "z": b"\x28\xb5\x2f\xfd"})
    data = framing.pack_preamble(Preamble(1, 0, 1, FILE_ID)) + b"".join(record(12, body, i) for i in range(1, 200))
    read(data)
