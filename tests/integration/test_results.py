"""Many captures at once, and what is written of them."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from capture_replayer import ReplayOptions, Report, Spawn, Target, replay_async
from capture_replayer.junit import as_junit
from capture_replayer.report import as_text
from helpers.odd import odd_command
from helpers.processes import BIN, replay, running


@pytest.fixture
def folder(odd_capture: Path, tmp_path: Path) -> Path:
    """Two captures that pass, one that is damaged, and one beside which rules are that are none."""
    folder = tmp_path / "captures"
    folder.mkdir()
    for name in ("one.cap", "three.cap", "two.cap"):
        shutil.copy(odd_capture, folder / name)
    whole = odd_capture.read_bytes()
    (folder / "damaged.cap").write_bytes(whole[:300] + b"\xff" * 20 + whole[320:])
    return folder


def test_a_folder_is_summed_up(folder: Path) -> None:
    done = replay(folder, "--spawn", odd_command())
    assert done.returncode == 125
    assert "3 passed · 0 diverged · 1 could not tell" in done.stdout
    assert "slowest: " in done.stdout
    done = replay(folder, "--spawn", odd_command("wrong price"))
    assert done.returncode == 1, "a divergence outweighs what could not be told"
    assert "0 passed · 3 diverged · 1 could not tell" in done.stdout


def test_fail_fast_stops_at_the_first_that_does_not_pass(folder: Path) -> None:
    done = replay(folder, "--spawn", odd_command("wrong price"), "--fail-fast", "--json", "-")
    assert [Path(capture["file"]).name for capture in json.loads(done.stdout)["captures"]] == ["damaged.cap"]
    (folder / "damaged.cap").unlink()
    done = replay(folder, "--spawn", odd_command("wrong price"), "--fail-fast", "--json", "-")
    assert done.returncode == 1
    assert [Path(capture["file"]).name for capture in json.loads(done.stdout)["captures"]] == ["one.cap"]


def test_several_targets_share_the_captures(odd_capture: Path) -> None:
    """One is wrong: the captures that it got diverge, the others pass."""
    commands = [[word.strip("'") for word in odd_command(mode).split()] for mode in ("", "ok")]
    with ExitStack() as stack:
        addresses = []
        for command in commands:
            words = [word.replace("{address}", "127.0.0.1:0") for word in command]
            addresses.append(stack.enter_context(running(words)).address)
        report = asyncio.run(replay_async([odd_capture] * 10, [Target(address) for address in addresses], timeout=2))
    assert len(report.results) == 10
    assert {result.passed for result in report.results} == {True, False}
    assert report.exit_status == 1


def test_the_library_in_a_loop_that_runs(odd_capture: Path) -> None:
    async def twice() -> list[Report]:
        options: ReplayOptions = {"ignore": ["created_at"], "jobs": 2}
        spawn = Spawn(odd_command("timestamp"))
        return list(await asyncio.gather(*(replay_async([odd_capture] * 2, spawn, **options) for _ in range(2))))

    for report in asyncio.run(twice()):
        assert report.passed, str(report)
        assert [result.counts["ignored"] for result in report.results] == [8, 8]
        assert report.unused == ()


def test_the_json_has_what_the_report_has(odd_capture: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    done = replay(odd_capture, "--spawn", odd_command("wrong price"), "--json", out, "--ignore", "items[9].id")
    body = json.loads(out.read_text())
    assert body["passed"] is False
    assert body["rules_never_matched"] == ["field items[9].id"]
    (capture,) = body["captures"]
    first = capture["first_divergence"]
    assert first["verdict"] == "different"
    assert (first["field"], first["expected"], first["actual"]) == ("price", "300", "301")
    assert first["call"] == 1
    assert first["method"] == "/odd.v1.Odd/Talk"
    assert str(first["event"]) in done.stdout


def test_junit_is_xml_whatever_a_server_says(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "junit.xml"
    script = "printf '\\033[31m\\001\\377 bye\\n'; exit 3"
    done = replay(folder, "--spawn", f"sh -c {json.dumps(script)} {{address}}", "--junit", out)
    assert done.returncode == 125
    suite = ET.parse(out).getroot()[0]
    assert {key: suite.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "4", "failures": "0", "errors": "4",
    }  # fmt: skip
    assert [case.get("name") for case in suite] == ["damaged.cap", "one.cap", "three.cap", "two.cap"]
    errors = [case.find("error") for case in suite]
    assert all(error is not None for error in errors)
    assert "the capture is damaged" in str(errors[0].get("message"))  # type: ignore[union-attr]
    assert "\\x1b[31m" in str(errors[1].text)  # type: ignore[union-attr]


def test_junit_of_a_divergence(odd_capture: Path) -> None:
    report = asyncio.run(replay_async([odd_capture, "/no/such\ud800\x01.cap"], Spawn(odd_command("wrong price"))))
    diverged, none = ET.fromstring(as_junit(list(report.results), as_text))[0]
    failure = diverged.find("failure")
    assert failure is not None
    assert "8 events of 13 not as recorded" in str(failure.get("message"))
    assert "price" in str(failure.text)
    assert none.find("error") is not None
    assert none.get("name") == "such��.cap"


@pytest.mark.parametrize("flag", ["--json", "--junit"])
def test_a_result_that_cannot_be_written_is_told(flag: str, odd_capture: Path, tmp_path: Path) -> None:
    done = replay(odd_capture, "--spawn", odd_command(), flag, tmp_path / "no" / "such")
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "identical" not in done.stdout, "told before the replay, not after it"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("flag", ["--json", "--junit"])
def test_a_verdict_outlives_the_file_that_cannot_hold_it(flag: str, odd_capture: Path) -> None:
    for behaviour, status, told in (("", 2, "identical"), ("wrong price", 1, "not as recorded")):
        done = replay(odd_capture, "--spawn", odd_command(behaviour) if behaviour else odd_command(), flag, "/dev/full")
        assert done.returncode == status
        assert told in done.stdout
        assert "! cannot write /dev/full: no space left on device" in done.stderr
        assert "Usage" not in done.stderr


@pytest.mark.parametrize(
    "words", [["capture-replay"], ["capture-replay", "shrink", "-o", "small.cap"], ["capture-view"]], ids=" ".join
)
def test_standard_input_is_refused_where_it_would_be_read_twice(words: list[str], odd_capture: Path) -> None:
    words = [str(BIN / words[0]), *words[1:], "-", "--spawn", odd_command()]
    with odd_capture.open("rb") as capture:
        done = subprocess.run(words, stdin=capture, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "save standard input in a file" in done.stderr


def test_a_server_is_either_there_or_started(odd_capture: Path) -> None:
    done = replay(odd_capture, "--spawn", odd_command(), "--target", "localhost:1")
    assert done.returncode == 2
    assert "--target and --spawn do not go together" in done.stderr


def test_a_reader_that_goes_away_stops_it_quietly(folder: Path) -> None:
    words = [str(BIN / "capture-replay"), str(folder), "--spawn", odd_command()]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert "Traceback" not in errors
    assert "Exception" not in errors
