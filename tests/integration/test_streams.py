"""What makes interactive streams hard: calls that do not end, servers that die, sixteen at once."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import pytest

from capture_recorder.capfile.records import Call, Cancel, HalfClose, Message, Status
from helpers.captures import events, messages, read_all
from helpers.processes import (
    BIN,
    capture_file,
    converse,
    helper_server,
    replay,
    running,
    shard_server,
)
from helpers.service import SERVICE


def test_a_server_that_does_not_end_the_stream_after_the_half_close(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    with (
        running(helper_server("opaque_server", path, "open")) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        call = channel.stream_stream(SERVICE + "Bidi")(iter([b"a", b"b"]))
        assert [next(call), next(call)] == [b"a", b"b"]
        while not any(isinstance(event, HalfClose) for event in events(path.with_name("a.cap.part"))):
            pass  # the half-close is on its way; there is nothing of it that a client could wait for
        call.cancel()
    recorded = [type(event) for event in events(path) if hasattr(event, "NAME")]
    assert recorded[:2] == [Call, Message]
    assert HalfClose in recorded
    assert Status not in recorded
    with running(helper_server("opaque_server", None, "open")) as server:
        assert replay(path, "--target", server.address, "--timeout", "5").returncode == 0


def test_a_call_that_is_open_when_the_server_stops_is_left_open(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with running(shard_server(path, "--grace", "0.1")) as server:
        from capture_server.build import chunk, open_request, tensor

        channel = grpc.insecure_channel(server.address)
        call = channel.stream_stream("/shard_runtime.v1.ShardRuntime/Session")(iter(requests.get, None))
        for request in (open_request("s"), chunk("s", "w", 1, [tensor("t", b"x")])):
            requests.put(request.SerializeToString())
            next(call)
        assert server.stop(signal.SIGTERM) == 0
    channel.close()
    assert read_all(path)[0] == "clean"
    assert not any(isinstance(event, (Cancel, Status, HalfClose)) for event in events(path))
    with running(shard_server()) as server:
        done = replay(path, "--target", server.address, "--json", "-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["captures"][0]["counts"]["identical"] == 2


def test_kill_9_in_mid_stream(tmp_path: Path) -> None:
    """Whatever reached the handler is in the file, and the file opens as torn."""
    path = tmp_path / "a.cap"
    answered: list[bytes] = []
    with running(helper_server("opaque_server", path)) as server:
        with grpc.insecure_channel(server.address) as channel:
            requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
            call = channel.stream_stream(SERVICE + "Bidi")(iter(requests.get, None))
            for i in range(200):
                requests.put(b"%d" % i)
                answered.append(next(call))
            os.kill(server.process.pid, signal.SIGKILL)
            with pytest.raises(grpc.RpcError):
                next(call)
            requests.put(b"")
        server.process.wait()
    part = path.with_name("a.cap.part")
    condition, _ = read_all(part)
    assert condition == "torn"
    assert messages(part, 1, 0) == messages(part, 1, 1) == answered
    info = capture_file("info", part, "--json")
    assert (info.returncode, json.loads(info.stdout)["condition"]) == (3, "torn")
    with running(helper_server("opaque_server")) as server:
        assert replay(part, "--target", server.address).returncode == 125
        done = replay(part, "--target", server.address, "--allow-torn", "--json", "-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["captures"][0]["counts"]["identical"] == 200


def test_the_request_that_kills_the_process_is_the_last_one_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    with running(helper_server("opaque_server", path, "die")) as server:
        with grpc.insecure_channel(server.address) as channel:
            call = channel.stream_stream(SERVICE + "Bidi")(iter([b"harmless", b"poison"]))
            with pytest.raises(grpc.RpcError):
                list(call)
        server.process.wait()
    recorded = events(path.with_name("a.cap.part"))
    assert isinstance(recorded[-1], Message)
    assert recorded[-1].payload == b"poison"


def test_sixteen_sessions_at_once_replay_identical_ten_times_out_of_ten(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    with running(shard_server(path)) as server:
        failures: list[str] = []

        def client(number: int) -> None:
            done = subprocess.run(
                [
                    sys.executable,
                    Path(__file__).parent.parent / "helpers" / "session_client.py",
                    server.address,
                    str(number),
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                failures.append(done.stderr)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
    recorded = events(path)
    sessions = [event for event in recorded if isinstance(event, Call) and event.method.endswith("/Session")]
    assert len(sessions) == 16
    assert len([event for event in recorded if isinstance(event, Call)]) > 16
    assert _overlap(recorded) > 1
    for _ in range(10):
        with running(shard_server()) as server:
            done = replay(path, "--target", server.address, "--json", "-")
        assert done.returncode == 0, done.stdout


def _overlap(recorded: list[object]) -> int:
    """The most calls that were open at once."""
    running_now: set[int] = set()
    most = 0
    for event in recorded:
        if isinstance(event, Call):
            running_now.add(event.call)
        elif isinstance(event, (Status, Cancel)):
            running_now.discard(event.call)
        most = max(most, len(running_now))
    return most


def test_replaying_while_replaying_is_recorded_gives_the_same_capture_again(tmp_path: Path) -> None:
    """A capture of the replay of a capture holds the same messages in the same order."""
    first, second = tmp_path / "a.cap", tmp_path / "b.cap"
    with running(shard_server(first)) as server:
        assert converse(server.address, "credit", "unary_cancel", "cancel_before_open").returncode == 0
    with running(shard_server(second)) as server:
        assert replay(first, "--target", server.address).returncode == 0
    shape = [
        [(type(e), e.call, getattr(e, "payload", None)) for e in events(path) if hasattr(e, "NAME")]
        for path in (first, second)
    ]
    assert shape[0] == shape[1]


def test_a_path_that_cannot_be_recorded_to_is_said_at_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [BIN / "capture-server", "--listen", "127.0.0.1:0", "--capture", tmp_path / "no" / "a.cap"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 1
    assert "cannot record" in done.stderr
    assert "no such file or directory" in done.stderr
    assert "Traceback" not in done.stderr
