"""Services that nobody here wrote, driven by their own clients: what they said, a fresh server says again."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health, health_pb2
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha import reflection
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from capture_recorder.capfile.records import Call, Cancel, Message, Record
from capture_recorder.capfile.records import Status as End
from helpers.captures import events
from helpers.processes import capture_file, helper_server, replay, running
from helpers.public_services import CONTROL, KNOWN, SPARE, Status

SERVICES = sorted([health.SERVICE_NAME, reflection.SERVICE_NAME, CONTROL, SPARE])
WATCH = f"/{health.SERVICE_NAME}/Watch"
REFLECTION = f"/{reflection.SERVICE_NAME}/ServerReflectionInfo"
HEALTH_FILE = health_pb2.DESCRIPTOR.name


def browse(channel: grpc.Channel) -> None:
    """The reflection client: a stream for each question, left when its answer is there, not ended."""
    database = ProtoReflectionDescriptorDatabase(channel)
    assert database.get_services() == SERVICES
    assert database.FindFileByName(HEALTH_FILE).service[0].name == "Health"
    symbol = ServerReflectionRequest.DESCRIPTOR.full_name
    assert database.FindFileContainingSymbol(symbol).package == "grpc.reflection.v1alpha"
    assert database.FindAllExtensionNumbers("grpc.health.v1.HealthCheckRequest") == []
    for find, name in (
        (database.FindFileByName, "no/such.proto"),
        (database.FindFileContainingSymbol, "no.such.Symbol"),
        (database.FindAllExtensionNumbers, "no.such.Message"),
    ):
        with pytest.raises(KeyError):
            find(name)


def ask_in_lockstep(channel: grpc.Channel) -> None:
    """One long stream on which each question waits for the answer to the last one."""
    questions: queue.SimpleQueue[ServerReflectionRequest | None] = queue.SimpleQueue()
    answers = ServerReflectionStub(channel).ServerReflectionInfo(iter(questions.get, None))
    for question, kind in [
        (ServerReflectionRequest(list_services=""), "list_services_response"),
        *[(ServerReflectionRequest(file_by_filename=HEALTH_FILE), "file_descriptor_response")] * 20,
        (ServerReflectionRequest(file_containing_symbol=health.SERVICE_NAME), "file_descriptor_response"),
        (ServerReflectionRequest(file_containing_symbol="no.such.Symbol"), "error_response"),
        (ServerReflectionRequest(host="of no kind"), "error_response"),
    ]:
        questions.put(question)
        assert next(answers).WhichOneof("message_response") == kind
    questions.put(None)
    assert list(answers) == []
    assert answers.code() is grpc.StatusCode.OK


class HealthClient:
    """Asks for statuses, watches them, and has them changed: by a call, so that a replay changes them too."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._stub = HealthStub(channel)
        self._set = channel.unary_unary(f"/{CONTROL}/Set")

    def check(self, name: str) -> int:
        return self._stub.Check(HealthCheckRequest(service=name)).status

    def watch(self, name: str, first: int, timeout: float | None = None) -> Any:
        watch = self._stub.Watch(HealthCheckRequest(service=name), timeout=timeout)
        assert next(watch).status == first
        return watch

    def change(self, name: str, status: int, *watches: Iterator[Any]) -> None:
        """These watches see it."""
        self._set(f"{name}={Status.Name(status)}".encode())
        for watch in watches:
            assert next(watch).status == status


def watch_health(channel: grpc.Channel, part: Path) -> None:
    """Watches end in each way that there is, but by a status: one is left open. Two are of the same service."""
    client = HealthClient(channel)
    assert client.check(KNOWN) == client.check("") == Status.SERVING
    with pytest.raises(grpc.RpcError) as unknown:
        client.check("later")
    assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
    left = client.watch(KNOWN, Status.SERVING)
    stays = client.watch(KNOWN, Status.SERVING)
    later = client.watch("later", Status.SERVICE_UNKNOWN)
    client.change(KNOWN, Status.NOT_SERVING, left, stays)
    client.change("later", Status.SERVING, later)
    client.change(KNOWN, Status.SERVING, left, stays)
    left.cancel()
    until_cancelled(client, part, 1)
    client.change(KNOWN, Status.NOT_SERVING, stays)
    assert client.check(KNOWN) == Status.NOT_SERVING
    brief = client.watch(KNOWN, Status.NOT_SERVING, timeout=0.5)
    with pytest.raises(grpc.RpcError):
        next(brief)
    assert brief.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    until_cancelled(client, part, 2)
    client.change(KNOWN, Status.SERVING, stays)
    later.cancel()
    until_cancelled(client, part, 3)
    client.change("later", Status.NOT_SERVING)  # nobody is there to see it
    assert client.check("later") == Status.NOT_SERVING
    client.change(KNOWN, Status.NOT_SERVING, stays)


def until_cancelled(client: HealthClient, part: Path, count: int) -> None:
    """That a watch is over, its client cannot see. The server's capture, as far as it is written, has it. In a replay
    the round trip after it gives the server that time: grpcio's HealthServicer holds its lock while it sends, wants it
    to close a watch in the thread that sending needs, and where the two meet, stands still for ever."""
    end = time.monotonic() + 20
    while len([event for event in of(events(part), WATCH) if isinstance(event, Cancel)]) < count:
        assert time.monotonic() < end
    assert client.check("") == Status.SERVING


def of(recorded: list[Record], method: str) -> list[Any]:
    """The events of all calls of a method."""
    calls = {event.call for event in recorded if isinstance(event, Call) and event.method == method}
    return [event for event in recorded if getattr(event, "call", None) in calls]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server with both services, recorded until it was stopped, a watch being open still."""
    path = tmp_path_factory.mktemp("public") / "a.cap"
    with (
        running(helper_server("public_services", path)) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        browse(channel)
        ask_in_lockstep(channel)
        watch_health(channel, path.with_name("a.cap.part"))
        assert server.stop() == 0
        assert server.errors == ""
    return path


def replayed(capture: Path, mode: str = "") -> tuple[int, dict[str, Any], str]:
    """Against a fresh server in this mode: exit status, the capture's JSON, and the report."""
    with running(helper_server("public_services", None, mode)) as server:
        done = replay(capture, "--target", server.address, "--json", "-")
    return done.returncode, json.loads(done.stdout)["captures"][0], done.stderr


def test_what_was_recorded_of_them(capture: Path) -> None:
    assert capture_file("verify", capture).returncode == 0
    recorded = events(capture)
    watched = of(recorded, WATCH)
    assert [event.why for event in watched if isinstance(event, Cancel)] == ["client", "deadline", "client"]
    assert len({event.call for event in watched}) == 4
    assert not any(isinstance(event, End) for event in watched)
    assert len([event for event in watched if isinstance(event, Message) and event.direction]) == 12
    streams = of(recorded, REFLECTION)
    assert len({event.call for event in streams}) == 8
    assert len([event for event in streams if isinstance(event, Message) and event.direction]) == 31


def test_five_fresh_servers_answer_identically(capture: Path) -> None:
    """Watches answer what other calls do, and calls end while others begin: an order that a replay has to keep."""
    expected = len([e for e in events(capture) if isinstance(e, End) or (isinstance(e, Message) and e.direction)])
    for _ in range(5):
        status, result, report = replayed(capture)
        assert status == 0, report
        assert {name: count for name, count in result["counts"].items() if count} == {"identical": expected}


def test_a_status_that_is_another_is_named_by_its_field(capture: Path) -> None:
    status, result, report = replayed(capture, "unwell")
    assert status == 1
    first = result["first_divergence"]
    assert (first["method"], first["verdict"], first["field"]) == (
        f"/{health.SERVICE_NAME}/Check",
        "different",
        "status",
    )
    assert (first["expected"], first["actual"]) == ("SERVING", "NOT_SERVING"), report
    assert result["counts"]["different"] == 3  # and with it the first answers of two watches


def test_a_service_that_is_not_registered_is_missing_in_the_reflection(capture: Path) -> None:
    status, result, report = replayed(capture, "fewer")
    assert status == 1
    first = result["first_divergence"]
    assert (first["method"], first["verdict"], first["index"]) == (REFLECTION, "different", 0)
    assert first["field"] == "list_services_response.service[3]", report
    assert result["counts"]["different"] == 2  # asked for twice
