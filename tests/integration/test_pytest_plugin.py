"""Captures as test items, in pytest processes of their own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.odd import odd_command, payloads
from helpers.processes import run

RECORDS = """
import grpc
from concurrent import futures

def test_it(grpc_recorder):
    server = grpc.server(futures.ThreadPoolExecutor(2), interceptors=[grpc_recorder.interceptor()])
    handlers = {"M": grpc.unary_unary_rpc_method_handler(lambda request, context: request[::-1])}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert channel.unary_unary("/s/M")(b"abc") == OUTCOME
    server.stop(0).wait(5)
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest in a folder that is its root."""
    root = ["--rootdir", str(folder), "-c", str(folder / "pytest.ini")]
    return run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *root, *arguments, str(folder))


@pytest.fixture
def folder(tmp_path: Path, odd_capture: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "captures").mkdir()
    shutil.copy(odd_capture, tmp_path / "captures" / "a.cap")
    return tmp_path


def test_a_capture_is_a_test(folder: Path) -> None:
    done = run_pytest(folder, "--replay-spawn", odd_command(), "--capture=no", "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "captures/a.cap::replay PASSED" in done.stdout


def test_its_report_is_the_text_of_the_failure(folder: Path) -> None:
    done = run_pytest(folder, "--replay-spawn", odd_command("wrong price"))
    assert done.returncode == 1
    assert "first divergence" in done.stdout
    assert "price" in done.stdout
    assert "Traceback" not in done.stdout
    assert "pytest_plugin.py" not in done.stdout


def test_a_server_that_does_not_start_fails_with_what_it_said(folder: Path) -> None:
    done = run_pytest(folder, "--replay-spawn", odd_command("does not start"))
    assert done.returncode == 1
    assert "the server did not start: it ended with status 3" in done.stdout
    assert "no such table: users" in done.stdout


def test_without_a_server_there_are_no_items(folder: Path) -> None:
    done = run_pytest(folder)
    assert done.returncode == 5
    assert "no tests ran" in done.stdout


def test_the_server_of_the_ini_file_and_of_a_folder(folder: Path) -> None:
    (folder / "pytest.ini").write_text(f"[pytest]\nreplay_spawn = {odd_command()}\n")
    assert run_pytest(folder).returncode == 0
    other = folder / "captures" / "other"
    other.mkdir()
    shutil.copy(folder / "captures" / "a.cap", other / "b.cap")
    (other / "capture-replay.toml").write_text(f'spawn = """{odd_command("wrong price")}"""\n')
    done = run_pytest(folder, "-v")
    assert "captures/a.cap::replay PASSED" in done.stdout
    assert "captures/other/b.cap::replay FAILED" in done.stdout
    (other / "capture-replay.toml").write_text(f'spawn = """{odd_command("wrong price")}"""\nignore = ["price"]\n')
    assert run_pytest(folder).returncode == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("spwan = 'x'", "'spwan' is not known"),
        ("spawn = ", "capture-replay.toml: "),
        ("target = 'nowhere'", "HOST:PORT"),
    ],
)
def test_settings_that_are_wrong_are_told(text: str, told: str, folder: Path) -> None:
    (folder / "captures" / "capture-replay.toml").write_text(text)
    done = run_pytest(folder)
    assert done.returncode != 0
    assert told in done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout + done.stderr


def test_a_test_is_recorded_and_the_capture_replays(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(RECORDS.replace("OUTCOME", "b'cba'"))
    done = run_pytest(tmp_path, "--replay-record-to", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stdout
    assert payloads(tmp_path / "kept" / "test_it.cap") == [b"abc", b"cba"]
    (tmp_path / "test_it.py").write_text(RECORDS.replace("OUTCOME", "b'else'"))
    done = run_pytest(tmp_path)
    assert done.returncode == 1
    assert "recorded: " in done.stdout
    assert "test_it.cap" in done.stdout
