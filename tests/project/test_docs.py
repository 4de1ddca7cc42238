"""The documents tell the truth: what they name exists, and what they show runs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from capture_replayer.rules import load
from helpers.captures import read_all
from helpers.processes import BIN, capture_file, converse, helper_server, replay, run, running, shard_server

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(
    path for path in ROOT.rglob("*.md") if ".venv" not in path.parts and ".pytest_cache" not in path.parts
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_the_commands_of_the_makefile_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in {*re.findall(r"`make (\w+)`", README), "demo", "test", "check", "proto", "bench"}:
        assert re.search(rf"^{target}:", makefile, re.M), target


@pytest.mark.timeout(200)
def test_the_demo_says_its_verdict(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "demo" / "run.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = done.stdout.strip().splitlines()[-1]
    assert re.fullmatch(r"✓ demo/demo\.cap: \d+ events of \d+ calls identical", verdict)
    assert re.sub(r"\d+", "N", verdict) in re.sub(r"\d+", "N", README)
    assert read_all(ROOT / "demo" / "demo.cap")[0] == "clean"


def test_the_python_example_runs(tmp_path: Path) -> None:
    code, library = re.findall(r"```python\n(.*?)```", README, re.S)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert read_all(tmp_path / "session.cap")[0] == "clean"
    assert "replay(" in library


def test_the_library_example_runs(session: Path, tmp_path: Path) -> None:
    shutil.copy(session, tmp_path / "session.cap")
    _, code = re.findall(r"```python\n(.*?)```", README, re.S)
    done = subprocess.run(
        [sys.executable, "-c", code.replace("capture-server", str(BIN / "capture-server"))],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("session.cap {'identical': ")


def test_the_pytest_command_runs(session: Path, tmp_path: Path) -> None:
    (tmp_path / "captures").mkdir()
    shutil.copy(session, tmp_path / "captures" / "session.cap")
    (command,) = re.findall(r"^pytest (.*)$", README, re.M)
    words = shlex.split(command.replace("capture-server", str(BIN / "capture-server")))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_the_rules_that_are_shown_are_rules(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", README, re.S)
    (tmp_path / "shown.toml").write_text(shown)
    loaded = load(str(tmp_path / "shown.toml"))
    assert loaded.accept_equivalent is True
    assert [str(rule) for rule in loaded.ignore] == ["field chunk.envelope.*_nanos of /shard_runtime.v1.ShardRuntime/*"]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("docs") / "session.cap"
    with running(shard_server(path)) as server:
        assert converse(server.address, "happy", "checksum_failure").returncode == 0
    return path


def test_the_report_that_is_shown_is_the_one_that_comes_out(tmp_path: Path) -> None:
    """Its labels, in their order; the figures are of another capture, whose service has no schema."""
    path = tmp_path / "session.cap"
    with running(helper_server("opaque_server", path)) as server:
        from helpers.service import converse as talk

        talk(server.address, "Bidi", [b"first", b"second", b"third"])
    with running(helper_server("opaque_server", None, "flip")) as server:
        done = replay(path, "--target", server.address)
    assert done.returncode == 1
    (shown,) = re.findall(r"```\n(✗ session\.cap.*?)```", README, re.S)
    assert shown.splitlines()[0] == "✗ session.cap: 1 event of 129 not as recorded"
    label = re.compile(r"^  (\w+(?: \w+)*)(?:  |$)", re.M)
    labels = label.findall(shown)
    assert len(labels) == 11
    assert [name for name in labels if name not in ("field", "checksums")] == label.findall(done.stdout)


def test_the_filter_of_the_readme(session: Path) -> None:
    lines = capture_file("frames", session, "--json").stdout.splitlines()
    import json

    assert [json.loads(line)["error"] for line in lines if json.loads(line).get("error")] == ["PAYLOAD_CORRUPT"] * 3


def test_the_commands_of_the_readme_run(session: Path, tmp_path: Path) -> None:
    """Each in its turn, in one folder, as somebody would type them."""
    shutil.copy(session, tmp_path / "session.cap")
    with running(helper_server("opaque_server", tmp_path / "other.cap")) as server:
        from helpers.service import converse as talk

        talk(server.address, "Bidi", [b"a"])
    commands = re.findall(r"^(capture-(?:file|view) [^#\n|]*)", README, re.M)
    commands = [command for command in commands if "capture-view" not in command or "--print" in command]
    assert {command.split()[1] for command in commands} >= {
        "info", "frames", "stats", "verify", "recover", "cut", "merge", "pack", "unpack", "convert", "diff",
    }  # fmt: skip
    for command in commands:
        name, *arguments = shlex.split(command)
        done = subprocess.run([BIN / name, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
    assert (tmp_path / "again.cap").read_bytes() == (tmp_path / "session.cap").read_bytes()


COMMANDS = ("info", "frames", "stats", "verify", "recover", "cut", "merge", "pack", "unpack", "convert", "diff")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_has_an_example_and_fits(command: str) -> None:
    done = run(BIN / "capture-file", command, "--help")
    assert done.returncode == 0
    assert f"capture-file {command} " in done.stdout.partition("Example:")[2]
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


@pytest.mark.parametrize("command", ["capture-server", "capture-replay", "capture-file", "capture-view"])
def test_help_has_an_example(command: str) -> None:
    done = run(BIN / command, "--help")
    assert done.returncode == 0
    assert "Example:" in done.stdout
    assert command in done.stdout.partition("Example:")[2]
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


OPTION = re.compile(r"--[a-z][a-z-]+")
ELSEWHERE = {"--listen", "--capture", "--replay-spawn", "--replay-record-to"}
"""Options of the documents that are another command's."""


def test_every_option_that_the_documents_name_is_there() -> None:
    known = ELSEWHERE
    for command in (
        ["capture-view"],
        ["capture-replay"],
        ["capture-replay", "shrink"],
        *(["capture-file", name] for name in COMMANDS),
    ):
        known = known | set(OPTION.findall(run(BIN / command[0], *command[1:], "--help").stdout))
    for document in (README, (ROOT / "CHANGELOG.md").read_text(), *(p.read_text() for p in ROOT.glob("docs/adr/*.md"))):
        assert set(OPTION.findall(document)) <= known | {"--verify", "--format"}


def test_every_option_of_a_replay_is_explained() -> None:
    """In the help each has a line; what is not in the README is what one looks up."""
    shown = run(BIN / "capture-replay", "--help").stdout
    looked_up = OPTION.findall(shown)
    assert {"--order", "--speed", "--attempts", "--spawn", "--fresh", "--clock", "--learn", "--update"} <= set(
        looked_up
    )
    for option in ("--spawn", "--target", "--order", "--clock", "--ignore", "--learn", "--baseline", "--update"):
        assert option in README


def test_nothing_names_a_path_of_some_machine() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    for name in tracked.stdout.splitlines():
        path = ROOT / name
        if path.suffix in (".py", ".md", ".toml", ".lock", ".proto", "") and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            assert not re.search(r"/(home|root|Users|work)/\w", text), name


def test_the_screenshots_are_what_the_viewer_shows() -> None:
    done = run(sys.executable, ROOT / "docs" / "screenshots.py", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
