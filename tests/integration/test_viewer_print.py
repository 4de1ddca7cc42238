"""`capture-view --print`: each view and each detail without a terminal, and what its exit status says."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from helpers.captures import write_capture
from helpers.processes import BIN
from helpers.viewer import SESSION

GOLDEN = SESSION.parents[1] / "v1"


def view(*words: str | Path, file: Path = SESSION) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "capture-view", file, *words],
        capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--view", "calls"], ["✓ #7 ", "Session checksum_failure", "bidi", "OK"]),
        (["--view", "calls", "--call", "13"], ["Cancel unary_cancel", "unary"]),
        (["--view", "frames"], ["✗ t: this is zlib's CRC-32, not CRC-32C", "→ open", "← status"]),
        (["--view", "ladder", "--call", "6"], ["▶│", "│◀", "✗ t: bytes 40 to 50 twice"]),
        (["--view", "stats"], ["Session: sizes", "Latency", "█"]),
        (["--filter", "failed && call == 6"], ["✗ t: 100 bytes of 90"]),
        (["--frame", "34"], ["shard_runtime.v1.SessionRequest", "▾ ", "work_id"]),
        (["--frame", "34", "--tab", "hex"], ["00000010  ", "│"]),
        (["--frame", "34", "--tab", "checksums"], ["✗ t  overlap", "declared", "▓"]),
        (["--frame", "34", "--tab", "metadata"], ["user-agent", "✓ OK (0)"]),
        (["--frame", "34", "--tab", "difference"], ["− event 32", "− ", "+ "]),
    ],
    ids=lambda value: " ".join(value) if value[0].startswith("-") else "",
)
@pytest.mark.parametrize("width", [80, 120])
def test_what_is_printed(words: list[str], wanted: list[str], width: int) -> None:
    done = view("--print", "--width", str(width), *words)
    assert (done.returncode, done.stderr) == (0, "")
    if width == 120:
        for text in wanted:
            assert text in done.stdout
    if "--frame" not in words:
        assert max(map(len, done.stdout.splitlines())) <= width
    assert not re.search(r"[^\S \n]|\x1b", done.stdout)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("recorded", 0),
        ("packed", 0),
        ("damaged-body", 3),
        ("torn-in-a-record", 3),
        ("torn-packed", 3),
        ("empty", 0),
        ("refused-version", 1),
    ],
)
def test_the_exit_status_says_what_the_capture_is(name: str, status: int) -> None:
    assert view("--print", file=GOLDEN / f"{name}.cap").returncode == status


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--print", "--frame", "999"], 1, "record 999 is no frame"),
        (["--print", "--call", "99"], 1, "there is no call 99 in it"),
        (["--print", "--filter", "size >"], 2, "--filter: not an expression: character 7: syntax error"),
        (["--print", "--width", "5"], 2, "'--width'"),
        ([], 2, "the viewer needs a terminal; --print shows the capture without one"),
        (["--target", "nonsense", "--print"], 2, "is not HOST:PORT"),
    ],
)
def test_what_cannot_be_is_one_sentence(words: list[str], status: int, said: str) -> None:
    done = view(*words)
    assert done.returncode == status
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough_ends_it(tmp_path: Path) -> None:
    from capture_recorder.capfile.records import Call, Message, Meta

    records = [Meta(created_ns=1, clock_ns=1), Call(call=1, time_ns=1, method="/a/B", kind="bidi")]
    records += [Message(call=1, time_ns=2, direction=0, index=index, payload=b"x") for index in range(20_000)]
    words = [BIN / "capture-view", write_capture(tmp_path / "a.cap", records), "--print"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["capture-view", "--help"], 1),
        (["capture-view", str(SESSION), "--print"], 1),
        (["capture-replay", "--help"], 125),
        (["capture-replay", str(SESSION), "--target", "127.0.0.1:1"], 125),
    ],
    ids=lambda value: " ".join(value[:1] + value[-1:]) if isinstance(value, list) else "",
)
def test_output_that_cannot_be_written_is_told(words: list[str], status: int) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [BIN / words[0], *words[1:]], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert done.returncode == status
    assert done.stderr == f"{words[0]}: the output cannot be written: no space left on device\n"
