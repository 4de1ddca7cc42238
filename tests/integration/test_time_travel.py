"""Absolute deadlines in a capture that is a year old: identical with the recorded clock, and explained without it."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb
from capture_recorder.capfile.records import Checkpoint, Footer, Message, Meta, Record
from capture_server.build import chunk, open_request, tensor
from capture_server.conversation import Conversation
from helpers.captures import events, write_capture
from helpers.processes import BIN, replay, running, shard_server

YEAR = 365 * 86_400 * 10**9  # ns
AHEAD = 200_000_000  # ns that a deadline is ahead
SERVER = f"{BIN}/capture-server --listen {{address}}"


@pytest.fixture(scope="module")
def old_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Session in which one deadline of two passes between two chunks, recorded now and made a year older."""
    folder = tmp_path_factory.mktemp("time")
    with running(shard_server(folder / "now.cap")) as server, grpc.insecure_channel(server.address) as channel:
        conversation = Conversation(channel)
        conversation.ask(open_request("timed"), "accepted")
        first, second = time.time_ns() + AHEAD, time.time_ns() + 100 * AHEAD
        conversation.echoed(chunk("timed", "w", 1, [tensor("t", b"in time")], deadline=first))
        conversation.echoed(chunk("timed", "v", 1, [tensor("t", b"in time")], deadline=second))
        while time.time_ns() <= first:
            time.sleep(0.01)
        conversation.refused(chunk("timed", "w", 2, [tensor("t", b"too late")], deadline=first), "DEADLINE_EXCEEDED")
        conversation.echoed(chunk("timed", "v", 2, [tensor("t", b"in time")], deadline=second))
        conversation.half_close()
        assert not list(conversation._call)  # type: ignore[call-overload]
    recorded = (record for record in events(folder / "now.cap") if not isinstance(record, (Checkpoint, Footer)))
    return write_capture(folder / "old.cap", map(a_year_older, recorded))


def a_year_older(record: Record) -> Record:
    if isinstance(record, Meta):
        return replace(record, created_ns=record.created_ns - YEAR)
    if isinstance(record, Message):
        kind: Any = pb.SessionResponse if record.direction else pb.SessionRequest
        message = kind.FromString(record.payload)
        if message.WhichOneof("kind") == "chunk":
            message.chunk.envelope.deadline_unix_nanos -= YEAR
        elif message.WhichOneof("kind") == "status":
            error = message.status.error
            error.detail = re.sub(r"\d{19}", lambda found: str(int(found[0]) - YEAR), error.detail)
        return replace(record, payload=message.SerializeToString(deterministic=True))
    return record


def test_deadlines_behave_as_they_did_at_ten_times_the_speed(old_capture: Path) -> None:
    done = replay(
        old_capture, "--spawn", SERVER, "--clock", "recorded", "--order", "timed", "--speed", "10", "--json", "-"
    )
    assert done.returncode == 0, done.stderr
    (capture,) = json.loads(done.stdout)["captures"]
    assert capture["counts"]["identical"] == 6
    assert capture["seconds"] < 20


def test_without_the_clock_the_report_names_the_cause_and_the_flag(old_capture: Path) -> None:
    done = replay(old_capture, "--spawn", SERVER)
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    assert "the clock: a deadline had passed only in the replay" in text
    assert "--clock recorded" in text


def test_a_clock_that_cannot_be_had_is_told_before_anything_is_sent(old_capture: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.cap"
    command = f"{BIN}/python -I -m capture_server.cli --listen {{address}} --capture {second}"
    done = replay(
        old_capture, "--spawn", command.replace("-m capture_server.cli", f"{BIN}/capture-server"), "--clock", "recorded"
    )
    assert done.returncode == 125
    text = " ".join(done.stdout.split())
    assert "--clock recorded: the server is" in text
    assert "python -I and -E do not" in text
    assert not any(isinstance(record, Message) for record in (events(second) if second.exists() else []))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--target", "localhost:1", "--clock", "recorded"],
        ["--spawn", SERVER, "--clock", "recorded", "--order", "asap"],
        ["--spawn", SERVER, "--clock", "recorded", "--concurrency", "2"],
    ],
)
def test_where_the_clock_makes_no_sense_it_is_refused(arguments: list[str], old_capture: Path) -> None:
    assert replay(old_capture, *arguments).returncode == 2
