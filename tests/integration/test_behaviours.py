"""The behaviours of ShardRuntime, each recorded from a real server and a real client process, and replayed.

Directly, and through an opaque relay: a process that forwards the captured bytes and does not know what they mean.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from capture_recorder.capfile.records import Call, Cancel, HalfClose, Message, Status
from helpers.captures import events, read_all
from helpers.processes import HELPERS, capture_file, converse, replay, running, shard_server

# what a conversation must have shown by error code, counted over its Session; the client itself checks the order
CODES = {
    "happy": [],
    "decode": ["DEADLINE_EXCEEDED", "PAYLOAD_CORRUPT"],
    "zstd": ["PAYLOAD_CORRUPT"],
    "stale_epoch": ["EPOCH_STALE", "EPOCH_STALE"],
    "expired_deadline": ["DEADLINE_EXCEEDED"],
    "not_tiling": ["PAYLOAD_CORRUPT"] * 5,
    "checksum_failure": ["PAYLOAD_CORRUPT"] * 3,
    "credit": ["FLOW_CONTROL_VIOLATION", "FLOW_CONTROL_VIOLATION"],
    "duplicate_step": [],
    "cancel_work": ["CANCELLED", "CANCELLED"],
    "cancel_session": ["CANCELLED"],
    "unary_cancel": ["CANCELLED", "CANCELLED"],
    "cancel_before_open": ["CANCELLED"],
    "not_open": ["SESSION_NOT_OPEN", "SESSION_NOT_OPEN"],
    "session_mismatch": ["SESSION_MISMATCH", "SESSION_MISMATCH"],
    "unsupported_schema": ["UNSUPPORTED_SCHEMA", "UNSUPPORTED_SCHEMA"],
    "empty_kind": ["INVALID_REQUEST"],
    "release_unary": ["SESSION_NOT_OPEN"],
    "capability_and_health": [],
    "half_close": [],
    "client_cancel": [],
    "left_open": [],
}


@contextmanager
def target(way: str) -> Iterator[str]:
    """A fresh server, and the address to reach it by."""
    with ExitStack() as stack:
        address = stack.enter_context(running(shard_server())).address
        if way == "relay":
            address = stack.enter_context(running([sys.executable, str(HELPERS / "relay.py"), address])).address
        yield address


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A capture of each conversation, each of a server of its own."""
    folder = tmp_path_factory.mktemp("behaviours")
    captures = {}
    for name in CODES:
        captures[name] = folder / f"{name}.cap"
        with running(shard_server(captures[name], "--grace", "0.2")) as server:
            done = converse(server.address, name)
            assert done.returncode == 0, done.stderr
    return captures


def test_there_is_a_case_for_every_conversation() -> None:
    from capture_server.client import BY_NAME_ONLY, CONVERSATIONS

    assert set(CODES) == {*CONVERSATIONS, *BY_NAME_ONLY}


@pytest.mark.parametrize("name", CODES)
def test_the_capture_is_clean_and_shows_the_error_codes(name: str, recorded: dict[str, Path]) -> None:
    assert read_all(recorded[name])[0] == "clean"
    frames = capture_file("frames", recorded[name], "--json")
    assert frames.returncode == 0
    lines = [json.loads(line) for line in frames.stdout.splitlines()]
    assert sorted(line["error"] for line in lines if "error" in line) == CODES[name]
    assert not any("decode_error" in line for line in lines)


@pytest.mark.parametrize("way", ["direct", "relay"])
def test_every_behaviour_replays_byte_for_byte(way: str, recorded: dict[str, Path]) -> None:
    # Health counts the sessions of the whole server, so its capture wants the server at its freshest
    captures = sorted(recorded.values(), key=lambda path: path.stem != "capability_and_health")
    with target(way) as address:
        done = replay(*captures, "--target", address, "--json", "-")
    report = json.loads(done.stdout)
    failed = {capture["file"]: capture["first_divergence"] for capture in report["captures"] if not capture["passed"]}
    assert failed == {}
    assert done.returncode == 0
    assert len(report["captures"]) == len(CODES)
    assert all(capture["counts"]["identical"] for capture in report["captures"])


def test_a_capture_needs_a_fresh_server(recorded: dict[str, Path]) -> None:
    """The second time the steps are applied already: the replay does look at what comes back."""
    with target("direct") as address:
        assert replay(recorded["duplicate_step"], "--target", address).returncode == 0
        done = replay(recorded["duplicate_step"], "--target", address)
    assert done.returncode == 0  # released at its end
    with target("direct") as address:
        assert replay(recorded["cancel_session"], "--target", address).returncode == 0
        done = replay(recorded["cancel_session"], "--target", address, "--json", "-")
    assert done.returncode == 1
    first = json.loads(done.stdout)["captures"][0]["first_divergence"]
    assert (first["verdict"], first["kind"]) == ("different", "message")
    assert first["field"].startswith(("chunk", "status"))


def test_a_client_that_leaves_its_call_open(recorded: dict[str, Path]) -> None:
    """The process is gone without a word: the server sees the connection go, and that as it sees a client's cancel; or
    it is asked to stop before it noticed."""
    ends = [type(event) for event in events(recorded["left_open"]) if isinstance(event, (Cancel, Status, HalfClose))]
    assert ends in ([Cancel], [HalfClose, Cancel], [HalfClose, Status], [])


def test_a_client_that_cancels(recorded: dict[str, Path]) -> None:
    """The handler sees the reset of the stream. grpcio now and then shows it to it as a half-close first, and then that
    is what the server saw, and what is replayed."""
    ends = [event for event in events(recorded["client_cancel"]) if isinstance(event, (Cancel, Status, HalfClose))]
    assert [type(event) for event in ends] in ([Cancel], [HalfClose, Cancel], [HalfClose, Status], [])
    assert all(event.why == "client" for event in ends if isinstance(event, Cancel))


def test_a_cancel_that_comes_ahead_of_the_open(recorded: dict[str, Path]) -> None:
    calls = [
        event.method.rpartition("/")[2] for event in events(recorded["cancel_before_open"]) if isinstance(event, Call)
    ]
    assert calls == ["Cancel", "Session"]


def test_a_client_that_waits_for_each_answer(recorded: dict[str, Path]) -> None:
    """Request k+1 stands after response k, as it was."""
    session = [e.direction for e in events(recorded["happy"]) if isinstance(e, Message)]
    assert session == [0, 1] * (len(session) // 2)
