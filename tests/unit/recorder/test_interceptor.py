"""The interceptor on a real server: clients see the same with and without it, and the capture says what they saw."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from capture_recorder import Policy, Recorder
from capture_recorder.capfile.records import (
    Call,
    Cancel,
    HalfClose,
    Headers,
    Message,
    Record,
    Redacted,
    Status,
)
from helpers.captures import events, messages, read_all
from helpers.service import SERVICE, converse, serve, stop

KINDS = {"Unary": "unary", "ServerStreaming": "server_streaming", "ClientStreaming": "client_streaming", "Bidi": "bidi"}
ORDERS = [
    b"",
    b"hello",
    b"abort no \xc3\xbc \x01 \n %",
    b"raise oh",
    b"code gone",
    b"headers h",
    b"trailers t",
    b"unserializable",
    b"!undecodable",
]


def record(path: Path, *calls: tuple[str, list[bytes]], **policy: Any) -> tuple[list[Any], list[Record]]:
    """What the client saw of each call, and the events of the capture."""
    recorder = Recorder(path, on_error="raise", policy=Policy(**policy))
    server, address = serve(recorder.interceptor())
    seen = [converse(address, method, requests) for method, requests in calls]
    stop(server)
    recorder.close()
    assert read_all(path)[0] == "clean"
    return seen, events(path)


@pytest.mark.parametrize("order", ORDERS, ids=[order.decode(errors="replace")[:8] for order in ORDERS])
@pytest.mark.parametrize("method", [*KINDS, "BidiRaw", "Missing"])
def test_a_client_sees_the_same_and_the_capture_has_what_it_saw(method: str, order: bytes, tmp_path: Path) -> None:
    requests = [order] if method in ("Unary", "ServerStreaming") else [b"a", order, b"b"]
    server, address = serve()
    without = converse(address, method, requests)
    stop(server)
    (seen,), recorded = record(tmp_path / "a.cap", (method, requests))
    assert seen == without
    (status,) = [event for event in recorded if isinstance(event, (Status, Cancel))]
    assert isinstance(status, Status)
    _, code, details, trailers = seen[-1]
    assert (status.code, status.message) == (code.value[0], details)
    assert status.metadata == tuple((k, v.encode() if isinstance(v, str) else v) for k, v in trailers)
    responses = [event.payload for event in recorded if isinstance(event, Message) and event.direction == 1]
    assert responses == [what[1] for what in seen if what[0] == "message"] or status.code != 0
    headers = [event.metadata for event in recorded if isinstance(event, Headers)]
    assert headers in ([], [tuple((k, v.encode()) for k, v in seen[0][1])])


@pytest.mark.parametrize("method", KINDS)
def test_the_events_of_each_kind_in_order(method: str, tmp_path: Path) -> None:
    requests = [b"x,y"] if method == "ServerStreaming" else [b"x"]
    _, recorded = record(tmp_path / "a.cap", (method, requests))
    names = [(event.NAME, getattr(event, "direction", None)) for event in recorded if hasattr(event, "NAME")]
    question, answer, half_close = ("message", 0), ("message", 1), ("half_close", None)
    start, end = ("open", None), ("status", None)
    assert (
        names
        == {
            "Unary": [start, question, answer, end],
            "ServerStreaming": [start, question, answer, answer, end],
            "ClientStreaming": [start, question, half_close, answer, end],
            "Bidi": [start, question, answer, half_close, end],
        }[method]
    )
    (call,) = [event for event in recorded if isinstance(event, Call)]
    assert call.method == SERVICE + method
    assert call.kind == KINDS[method]
    assert call.peer.startswith("ipv4:127.0.0.1:")
    assert call.authority.startswith("127.0.0.1:")
    assert call.time_left_ns is not None
    assert 15e9 < call.time_left_ns < 21e9  # gRPC rounds a timeout up on the wire


@pytest.mark.parametrize("method", ["Unary", "Bidi"])
def test_the_bytes_of_an_undecodable_message_are_kept(method: str, tmp_path: Path) -> None:
    _, recorded = record(tmp_path / "a.cap", (method, [b"!\x00\xff"]))
    assert messages(tmp_path / "a.cap", 1, 0) == [b"!\x00\xff"]
    assert [(e.code, e.message) for e in recorded if isinstance(e, Status)] == [
        (13, "Exception deserializing request!")
    ]


def test_no_deadline_is_no_deadline(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.cap", on_error="raise")
    server, address = serve(recorder.interceptor())
    converse(address, "Unary", [b""], timeout=None)
    stop(server)
    recorder.close()
    assert [e.time_left_ns for e in events(tmp_path / "a.cap") if isinstance(e, Call)] == [None]


def test_metadata_in_order_and_credentials_redacted(tmp_path: Path) -> None:
    metadata = (("b", "1"), ("authorization", "Bearer s3cr3t"), ("a", "2"), ("b", "3"), ("z-bin", b"\x00\xff"))
    recorder = Recorder(tmp_path / "a.cap", on_error="raise")
    server, address = serve(recorder.interceptor())
    converse(address, "Unary", [b""], metadata=metadata)
    stop(server)
    recorder.close()
    (call,) = [event for event in events(tmp_path / "a.cap") if isinstance(event, Call)]
    sent = {key for key, _ in metadata}
    kept = [(key, value) for key, value in call.metadata if key in sent]
    assert [key for key, _ in kept] == ["b", "authorization", "a", "b", "z-bin"]
    assert [value for _, value in kept if isinstance(value, bytes)] == [b"1", b"2", b"3", b"\x00\xff"]
    assert isinstance(kept[1][1], Redacted)
    assert b"s3cr3t" not in (tmp_path / "a.cap").read_bytes()


def until_cancelled(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    yield from requests
    gone = threading.Event()
    if context.add_callback(gone.set):
        gone.wait(20)


@pytest.mark.parametrize(("how", "why"), [("cancel", "client"), ("deadline", "deadline"), ("vanish", "client")])
def test_a_call_that_the_client_ends_is_a_cancel(how: str, why: str, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.cap", on_error="raise")
    handlers = {"Bidi": grpc.stream_stream_rpc_method_handler(until_cancelled)}
    server, address = serve(recorder.interceptor(), handlers=handlers)
    channel = grpc.insecure_channel(address)
    call = channel.stream_stream(SERVICE + "Bidi")(iter([b"a"]), timeout=0.5 if how == "deadline" else 30)
    assert next(call) == b"a"
    if how == "cancel":
        call.cancel()
    elif how == "vanish":
        channel.close()
    with pytest.raises(grpc.RpcError):
        next(call)
    stop(server, 20)
    recorder.close()
    channel.close()
    recorded = events(tmp_path / "a.cap")
    assert [e.why for e in recorded if isinstance(e, Cancel)] == [why]
    assert not any(isinstance(e, Status) for e in recorded)


def test_messages_that_the_handler_did_not_read_are_not_claimed(tmp_path: Path) -> None:
    _, recorded = record(tmp_path / "a.cap", ("Bidi", [b"a", b"stop", b"unread", b"unread"]))
    assert messages(tmp_path / "a.cap", 1, 0) == [b"a", b"stop"]
    assert not any(isinstance(event, HalfClose) for event in recorded)


def test_a_request_is_in_the_file_before_the_handler_has_it(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    at_handler: list[list[bytes]] = []

    def looking(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        for request in requests:
            at_handler.append(messages(path.with_name("a.cap.part"), 1, 0))
            yield request

    recorder = Recorder(path, on_error="raise")
    server, address = serve(recorder.interceptor(), handlers={"Bidi": grpc.stream_stream_rpc_method_handler(looking)})
    converse(address, "Bidi", [b"a", b"b", b"c"])
    stop(server)
    recorder.close()
    assert at_handler == [[b"a"], [b"a", b"b"], [b"a", b"b", b"c"]]


def test_a_recorder_that_cannot_write_costs_no_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(tmp_path / "missing" / "a.cap")
    assert recorder.failure is not None
    server, address = serve(recorder.interceptor())
    seen = [converse(address, method, [b"x"]) for method in KINDS]
    stop(server)
    recorder.close()
    assert [what[-1][1] for what in seen] == [grpc.StatusCode.OK] * 4
    assert recorder.stats().lost > 10
    assert sum("recording failed" in r.getMessage() for r in caplog.records) == 1


def test_a_bug_of_ours_costs_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from capture_recorder.tap import Tap

    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError

    for name in ("open", "request", "response", "half_close", "cancel", "status", "headers"):
        monkeypatch.setattr(Tap, name, broken)
    recorder = Recorder(tmp_path / "a.cap")
    server, address = serve(recorder.interceptor())
    for method in (*KINDS, "Missing"):
        assert converse(address, method, [b"headers x"])[-1][0] == "status"
    assert converse(address, "Bidi", [b"x"])[-1][1] == grpc.StatusCode.OK
    stop(server)
    recorder.close()
    assert "ZeroDivisionError" in (recorder.failure or "")


def test_non_blocking_handlers_and_their_thread_pools(tmp_path: Path) -> None:
    """grpcio's experimental style: it reads an attribute off the behavior, and a callback of None is the end."""

    def non_blocking(request: bytes, context: Any, send: Any) -> None:
        send(request)
        send(None)

    non_blocking.experimental_non_blocking = True  # type: ignore[attr-defined]
    recorder = Recorder(tmp_path / "a.cap", on_error="raise")
    handlers = {"ServerStreaming": grpc.unary_stream_rpc_method_handler(non_blocking)}
    server, address = serve(recorder.interceptor(), handlers=handlers)
    assert converse(address, "ServerStreaming", [b"x"])[1:] == [
        ("message", b"x"),
        ("status", grpc.StatusCode.OK, "", ()),
    ]
    stop(server)
    recorder.close()
    names = [event.NAME for event in events(tmp_path / "a.cap") if hasattr(event, "NAME")]
    assert names == ["open", "message", "message", "status"]


def test_calls_are_numbered_in_the_order_in_which_they_stand(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.cap", on_error="raise")
    server, address = serve(recorder.interceptor())
    threads = [threading.Thread(target=converse, args=(address, "Bidi", [b"x"] * 5)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop(server)
    recorder.close()
    assert [e.call for e in events(tmp_path / "a.cap") if isinstance(e, Call)] == list(range(1, 17))


def test_a_folder_takes_a_file_of_each_process(tmp_path: Path) -> None:
    recorder = Recorder(f"{tmp_path}/captures/")
    recorder.close()
    (path,) = (tmp_path / "captures").iterdir()
    assert path == recorder.path
    assert path.name.endswith(f"-{os.getpid()}.cap")
    assert read_all(path)[0] == "clean"


def test_a_forked_child_writes_a_file_of_its_own(tmp_path: Path) -> None:
    code = """
import os, sys
from capture_recorder import Recorder
from capture_recorder.capfile.records import HalfClose
recorder = Recorder(sys.argv[1], on_error="raise")
recorder.sink.observe(lambda now: [HalfClose(call=1, time_ns=now)])
child = os.fork()
if child == 0:
    recorder.sink.observe(lambda now: [HalfClose(call=2, time_ns=now)])
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
recorder.sink.observe(lambda now: [HalfClose(call=3, time_ns=now)])
print(child)
"""
    # in a process of its own: one in which gRPC runs threads must not fork
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "a.cap"], capture_output=True, text=True, check=True)
    child = int(done.stdout)
    in_parent = [event.call for event in events(tmp_path / "a.cap") if isinstance(event, HalfClose)]
    in_child = [event.call for event in events(tmp_path / f"a-{child}.cap") if isinstance(event, HalfClose)]
    assert (in_parent, in_child) == ([1, 3], [2])
    assert all(read_all(path)[0] == "clean" for path in tmp_path.iterdir())


def test_the_prototypes_form(tmp_path: Path) -> None:
    import json

    recorder = Recorder(tmp_path / "a.jsonl", on_error="raise")
    server, address = serve(recorder.interceptor())
    converse(address, "Bidi", [b"a", b"\x00\xff"])
    converse(address, "Unary", [b"not a Session"])
    converse(address, "BidiRaw", [b""])
    stop(server)
    recorder.close()
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert lines == [
        {"requests": ["61", "00ff"], "responses": ["61", "00ff"]},
        {"requests": [""], "responses": [""]},
    ]
