"""`capture-server` as a process: its line, its signals, its sentences."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

from helpers.captures import read_all
from helpers.processes import BIN, ServerProcess, converse, run, running, shard_server


def test_it_says_where_it_listens_and_ends_with_sigterm_or_sigint() -> None:
    for sign in (signal.SIGTERM, signal.SIGINT):
        server = ServerProcess(shard_server())
        assert server.address.startswith("127.0.0.1:")
        assert int(server.address.rpartition(":")[2]) > 0
        assert server.stop(sign) == 0
        assert server.errors == ""


def test_the_environment_has_the_defaults(tmp_path: Path, monkeypatch: object) -> None:
    environment = {
        **os.environ,
        "MESHNET_SHARD_LISTEN_ADDR": f"unix:{tmp_path}/socket",
        "MESHNET_WIRE_CAPTURE_PATH": str(tmp_path / "env.cap"),
    }
    command = [
        "env",
        *(f"{k}={v}" for k, v in environment.items() if k.startswith("MESHNET")),
        str(BIN / "capture-server"),
    ]
    with running(command) as server:
        assert server.address == f"unix:{tmp_path}/socket"
        assert converse(server.address, "half_close").returncode == 0
    assert read_all(tmp_path / "env.cap")[0] == "clean"


def test_an_address_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run(BIN / "capture-server", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1
    assert "capture-server: cannot listen on 127.0.0.1:" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_servers_do_not_share_a_port() -> None:
    with running(shard_server()) as first:
        done = run(BIN / "capture-server", "--listen", first.address)
    assert done.returncode == 1


def test_a_capture_that_exists_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    path.write_text("mine")
    done = run(*shard_server(path))
    assert done.returncode == 1
    assert "exists already, and a capture is never written over" in done.stderr
    assert path.read_text() == "mine"


def test_a_conversation_that_fails_says_what_was_due() -> None:
    with running(shard_server()) as server:
        assert converse(server.address, "cancel_session").returncode == 0
        done = converse(server.address, "cancel_session")
    assert done.returncode == 1
    assert "FAIL  cancel_session: expected chunk, got status" in done.stderr


def test_a_folder_takes_the_capture(tmp_path: Path) -> None:
    with running(shard_server(tmp_path)) as server:
        assert converse(server.address, "half_close").returncode == 0
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("capture-server-")
    assert read_all(path)[0] == "clean"


def test_the_prototypes_form(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with running(shard_server(path)) as server:
        assert converse(server.address, "half_close", "unary_cancel").returncode == 0
    lines = path.read_text().splitlines()
    assert len(lines) == 2
    assert all(line.startswith('{"requests": ["') for line in lines)
