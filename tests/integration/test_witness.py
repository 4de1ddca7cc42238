"""The capture against an independent witness: HTTP/2 taken off the socket, byte for byte, in order, both ways."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from capture_recorder.capfile.records import Call
from capture_server.build import chunk, open_request, tensor
from helpers.captures import events, messages
from helpers.processes import converse, helper_server, replay, running, shard_server
from helpers.service import SERVICE
from helpers.witness import Witness

# What a re-encoder would change, and what it would refuse. Known from the bug trackers of protobuf's readers.
ODD = {
    "fields out of order, one twice": bytes.fromhex("100508010802"),
    "a varint longer than it need be": bytes.fromhex("088c80808000"),
    "the largest varint": bytes.fromhex("08ffffffffffffffffff01"),
    "text that is a message too": b"image.png",
    "text that is not UTF-8": bytes.fromhex("0a02fffe"),
    "a varint of eleven bytes": bytes.fromhex("08a1a1a1a1a1a1a1a1a1a1101003"),
    "a varint without an end": bytes.fromhex("0880808080808080808080"),
    "no message at all": bytes.fromhex("f320481461bd523ab266a4ccd3fca28c72b6a2cb861b8109f52a754205766b87"),
    "nothing": b"",
}
SIZES = (0, 1, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 1 << 20, 16 << 20)
LIMITS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def agree(witness: Witness, path: Path) -> int:
    """Hold every stream against the call of the same number; how many messages there were."""
    calls = [event for event in events(path) if isinstance(event, Call)]
    streams = witness.streams()
    assert [stream.path for stream in streams] == [call.method for call in calls]
    count = 0
    for call, stream in zip(calls, streams, strict=True):
        for direction, seen in enumerate((stream.requests, stream.responses)):
            recorded = messages(path, call.call, direction)
            assert [len(m) for m in recorded] == [len(m) for m in seen]
            assert recorded == seen
            count += len(seen)
        assert not stream.compressed
    return count


def test_messages_that_a_reencoder_would_change(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    with running(helper_server("opaque_server", path)) as server, Witness(server.address) as witness:
        with grpc.insecure_channel(witness.address) as channel:
            echoed = list(channel.stream_stream(SERVICE + "Bidi")(iter(ODD.values())))
            assert echoed == list(ODD.values())
            for odd in ODD.values():
                assert channel.unary_unary(SERVICE + "Unary")(odd) == odd
        assert agree(witness, path.with_name("a.cap.part")) == 4 * len(ODD)
    with running(helper_server("opaque_server")) as server:
        assert replay(path, "--target", server.address).returncode == 0


def test_messages_of_every_size(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    rng = random.Random(0)
    sent = [rng.randbytes(size) for size in SIZES]
    with running(helper_server("opaque_server", path)) as server, Witness(server.address) as witness:
        with grpc.insecure_channel(witness.address, options=LIMITS) as channel:
            assert list(channel.stream_stream(SERVICE + "Bidi")(iter(sent))) == sent
        assert agree(witness, path.with_name("a.cap.part")) == 2 * len(SIZES)
    with running(helper_server("opaque_server")) as server:
        assert replay(path, "--target", server.address).returncode == 0


def test_all_four_kinds(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    with running(helper_server("opaque_server", path)) as server, Witness(server.address) as witness:
        with grpc.insecure_channel(witness.address) as channel:
            assert channel.unary_unary(SERVICE + "Unary")(b"q") == b"q"
            assert list(channel.unary_stream(SERVICE + "ServerStreaming")(b"a,b,,c")) == [b"a", b"b", b"", b"c"]
            assert channel.stream_unary(SERVICE + "ClientStreaming")(iter([b"a", b"", b"c"])) == b"a,,c"
            assert list(channel.stream_stream(SERVICE + "Bidi")(iter([b"a", b""]))) == [b"a", b""]
        assert agree(witness, path.with_name("a.cap.part")) == 15


def reencoded(request: bytes) -> list[bytes]:
    """The same SessionRequest as other bytes: an unknown field, an over-long varint for a length, a field twice."""
    assert request[1] < 0x80
    long_length = request[:1] + bytes([request[1] | 0x80, 0x00]) + request[2:]
    return [request + b"\xfa\x07\x03odd", long_length, request + request]


@pytest.mark.parametrize("change", range(3))
def test_odd_encodings_of_a_real_session(change: int, tmp_path: Path) -> None:
    """The server parses and re-encodes; the capture has what the client sent."""
    path = tmp_path / "a.cap"
    plain = [
        open_request("odd").SerializeToString(),
        chunk("odd", "w", 1, [tensor("t", b"x")]).SerializeToString(),
    ]
    sent = [reencoded(request)[change] for request in plain]
    with running(shard_server(path, "--grace", "0.5")) as server, Witness(server.address) as witness:
        with grpc.insecure_channel(witness.address) as channel:
            call = channel.stream_stream("/shard_runtime.v1.ShardRuntime/Session")(iter(sent))
            received = list(call)
        assert len(received) == 2
        assert agree(witness, path.with_name("a.cap.part")) == 4
        assert messages(path.with_name("a.cap.part"), 1, 0) == sent
        assert sent != plain
    with running(shard_server()) as server:
        assert replay(path, "--target", server.address).returncode == 0


def test_the_generated_client_through_the_witness(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    with running(shard_server(path)) as server, Witness(server.address) as witness:
        assert converse(witness.address, "happy").returncode == 0
        assert agree(witness, path.with_name("a.cap.part")) == 14


def test_what_the_replay_sends_is_what_was_recorded(tmp_path: Path) -> None:
    """The witness stands between the replay and its target, and finds the recorded bytes."""
    path = tmp_path / "a.cap"
    with running(shard_server(path)) as server:
        assert converse(server.address, "credit", "zstd").returncode == 0
    with running(shard_server()) as server, Witness(server.address) as witness:
        assert replay(path, "--target", witness.address).returncode == 0
        assert agree(witness, path) == 24


def test_the_witness_would_notice(tmp_path: Path) -> None:
    """It is no witness that agrees with everything."""
    path = tmp_path / "a.cap"

    def calls(channel: grpc.Channel) -> Iterator[Callable[[], object]]:
        yield lambda: channel.unary_unary(SERVICE + "Unary")(b"one")

    with running(helper_server("opaque_server", path)) as server, Witness(server.address) as witness:
        with grpc.insecure_channel(witness.address) as channel:
            for call in calls(channel):
                call()
        (stream,) = witness.streams()
        assert (stream.requests, stream.responses) == ([b"one"], [b"one"])
        with grpc.insecure_channel(server.address) as channel:  # past the witness
            channel.unary_unary(SERVICE + "Unary")(b"two")
        with pytest.raises(AssertionError):
            agree(witness, path.with_name("a.cap.part"))
