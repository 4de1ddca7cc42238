"""Holds conversations with a ShardRuntime server: `python -m capture_server.client`. Each knows what it must hear.

The demo and the tests record these. Sessions are named after their conversation, so a capture of them replays against a
server that starts empty.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import click
import grpc

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb
from capture_proto.shard_runtime.v1.shard_runtime_pb2_grpc import ShardRuntimeStub

from .build import bundle, chunk, decode, open_request, tensor
from .conversation import TIMEOUT, Conversation, Unexpected, expect

FAILED: Final = 1
FOR_EVER: Final = 2**63 - 1  # a deadline that no clock reaches
LONG_AGO: Final = 1  # one that every clock has passed
_OPTIONS: Final = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


def data(size: int, salt: str = "") -> bytes:
    """So many bytes that are the same every time, and not all alike."""
    return hashlib.shake_128(f"{salt}{size}".encode()).digest(size)


class Client:
    """A connection to the server. Counts what the conversations say."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.messages = 0
        self._channel = self._connect()

    def _connect(self) -> grpc.Channel:
        return grpc.insecure_channel(self.target, options=(*_OPTIONS, ("grpc.use_local_subchannel_pool", 1)))

    @contextmanager
    def session(self, session_id: str | None = None, **opening: Any) -> Iterator[Conversation]:
        """A Session on this connection; opened, if an id is given."""
        conversation = Conversation(self._channel)
        if session_id is not None:
            accepted = conversation.ask(open_request(session_id, **opening), "accepted")
            expect("session", accepted.route_session_id, session_id)
        yield conversation
        self.messages += conversation.messages

    def unary(self, method: str, request: Any) -> Any:
        """A unary call, on a connection of its own."""
        self.messages += 2
        with self._connect() as channel:
            stub = ShardRuntimeStub(channel)  # type: ignore[no-untyped-call]
            return getattr(stub, method)(request, timeout=TIMEOUT)

    def close(self) -> None:
        """Give the connection up."""
        self._channel.close()


def release(session: Conversation) -> None:
    """The regular end."""
    status = session.ask(pb.SessionRequest(release=pb.ReleaseRequest()), "status")
    expect("terminal", status.terminal, True)
    expect("error", status.HasField("error"), False)
    session.ended()


def happy(client: Client) -> None:
    with client.session("happy") as session:
        for step, size in enumerate((0, 1, 1000, 16_384, 100_000)):
            tensors = [tensor(f"t{i}", data(size, str(i)), parts=i + 1) for i in range(3)]
            session.echoed(chunk("happy", "w", step, tensors, deadline=FOR_EVER))
        release(session)


def decoding(client: Client) -> None:
    with client.session("decode", epoch=7) as session:
        sample = tensor("hidden", data(512))
        answer = session.ask(decode("w", 1, tensor=sample), "chunk")
        expect("phase", answer.envelope.phase, pb.PHASE_DECODE)
        expect("epoch", answer.envelope.route_epoch, 7)
        expect("position", answer.envelope.position, pb.PositionSpan(first_position=101, token_count=1))
        expect("boundary", answer.bundle.boundary_point, "pre_tail_residual")
        expect("tensors", list(answer.bundle.tensors), [sample])
        whole = bundle(sample, tensor("other", data(64)))
        expect("bundle", session.ask(decode("w", 2, bundle=whole), "chunk").bundle, whole)
        session.refused(decode("w", 3), "PAYLOAD_CORRUPT")
        session.refused(decode("w", 4, tensor=sample, deadline=LONG_AGO), "DEADLINE_EXCEEDED")
        expect("duplicate", session.ask(decode("w", 2, tensor=sample), "ack").duplicate, True)
        release(session)


def compressed(client: Client) -> None:
    with client.session("zstd") as session:
        zeros = tensor("zeros", bytes(200_000), parts=4, compression=pb.COMPRESSION_ZSTD)
        session.echoed(chunk("zstd", "w", 1, [zeros]))
        broken = tensor("broken", data(1000), compression=pb.COMPRESSION_ZSTD)
        broken.fragments[0].payload = b"no frame"
        session.refused(chunk("zstd", "w", 2, [broken]), "PAYLOAD_CORRUPT")
        release(session)


def stale_epoch(client: Client) -> None:
    with client.session("stale_epoch", epoch=5) as session:
        session.refused(chunk("stale_epoch", "w", 1, [tensor("t", b"x")], epoch=4), "EPOCH_STALE")
        session.echoed(chunk("stale_epoch", "w", 1, [tensor("t", b"x")], epoch=5))
        session.refused(open_request("stale_epoch", epoch=3), "EPOCH_STALE")
        release(session)


def expired_deadline(client: Client) -> None:
    with client.session("expired_deadline") as session:
        sample = [tensor("t", b"x")]
        session.refused(chunk("expired_deadline", "w", 1, sample, deadline=LONG_AGO), "DEADLINE_EXCEEDED")
        session.echoed(chunk("expired_deadline", "w", 1, sample, deadline=FOR_EVER))
        release(session)


def not_tiling(client: Client) -> None:
    with client.session("not_tiling") as session:
        for step, (first, second, total) in enumerate(
            ((0, 60, 110), (0, 40, 90), (0, 50, 120), (0, 50, 90), (10, 60, 110))
        ):
            sample = tensor("t", data(100), parts=2)
            sample.fragments[0].byte_offset, sample.fragments[1].byte_offset = second, first
            sample.total_bytes = total
            session.refused(chunk("not_tiling", "w", step, [sample]), "PAYLOAD_CORRUPT")
        release(session)


def checksum_failure(client: Client) -> None:
    with client.session("checksum_failure") as session:
        content = data(300)
        for step, checksum in enumerate((0, zlib.crc32(content))):
            sample = tensor("t", content, checksum=checksum)
            session.refused(chunk("checksum_failure", "w", step, [sample]), "PAYLOAD_CORRUPT")
        unknown = tensor("t", content)
        unknown.checksum.algorithm = pb.CHECKSUM_ALGORITHM_UNSPECIFIED
        session.refused(chunk("checksum_failure", "w", 2, [unknown]), "PAYLOAD_CORRUPT")
        release(session)


def credit(client: Client) -> None:
    flow = pb.FlowControl(credits_granted=2, max_inflight_chunks=3, max_chunk_bytes=1000)
    with client.session("credit", flow=flow) as session:
        sample = [tensor("t", b"x")]
        for step in (1, 2):
            session.echoed(chunk("credit", "w", step, sample))
        session.refused(chunk("credit", "w", 3, sample), "FLOW_CONTROL_VIOLATION", retryable=True)
        more = pb.SessionRequest(flow_control=pb.FlowControl(credits_granted=9))
        expect("credits", session.ask(more, "flow_control").credits_granted, 3)
        session.echoed(chunk("credit", "w", 3, sample))
        session.refused(chunk("credit", "w", 4, [tensor("t", bytes(1001))]), "FLOW_CONTROL_VIOLATION")
        release(session)


def duplicate_step(client: Client) -> None:
    with client.session("duplicate_step", flow=pb.FlowControl(credits_granted=2)) as session:
        first = chunk("duplicate_step", "w", 1, [tensor("t", b"x")])
        session.echoed(first)
        expect("duplicate", session.ask(first, "ack").duplicate, True)
        session.echoed(chunk("duplicate_step", "w", 2, [tensor("t", b"x")]))  # the second credit is still there
        release(session)


def cancel_work(client: Client) -> None:
    with client.session("cancel_work") as session:
        signal = pb.CancelSignal(work_id="a", reason="changed my mind")
        session.refused(pb.SessionRequest(cancel=signal), "CANCELLED")
        session.refused(chunk("cancel_work", "a", 1, [tensor("t", b"x")]), "CANCELLED")
        session.echoed(chunk("cancel_work", "b", 1, [tensor("t", b"x")]))
        release(session)


def cancel_session(client: Client) -> None:
    with client.session("cancel_session") as session:
        session.echoed(chunk("cancel_session", "a", 1, [tensor("t", b"x")]))
        session.refused(pb.SessionRequest(cancel=pb.CancelSignal()), "CANCELLED", terminal=True)
        session.ended()


def cancel(client: Client, session_id: str, work_id: str, newly: int) -> None:
    """A unary `Cancel`."""
    answer = client.unary("Cancel", pb.CancelRequest(route_session_id=session_id, work_id=work_id))
    expect("newly cancelled", answer.cancelled_work_items, newly)


def unary_cancel(client: Client) -> None:
    with client.session("unary_cancel") as session:
        session.echoed(chunk("unary_cancel", "a", 1, [tensor("t", b"x")]))
        cancel(client, "unary_cancel", "a", 1)
        cancel(client, "unary_cancel", "a", 0)
        session.refused(chunk("unary_cancel", "a", 2, [tensor("t", b"x")]), "CANCELLED")
        session.echoed(chunk("unary_cancel", "b", 1, [tensor("t", b"x")]))
        cancel(client, "unary_cancel", "", 1)
        session.refused(chunk("unary_cancel", "b", 2, [tensor("t", b"x")]), "CANCELLED")
        release(session)


def cancel_before_open(client: Client) -> None:
    cancel(client, "cancel_before_open", "a", 1)
    with client.session("cancel_before_open") as session:
        session.refused(chunk("cancel_before_open", "a", 1, [tensor("t", b"x")]), "CANCELLED")
        session.echoed(chunk("cancel_before_open", "b", 1, [tensor("t", b"x")]))
        release(session)


def not_open(client: Client) -> None:
    with client.session() as session:
        session.refused(chunk("not_open", "w", 1, [tensor("t", b"x")]), "SESSION_NOT_OPEN")
        session.refused(pb.SessionRequest(flow_control=pb.FlowControl(credits_granted=1)), "SESSION_NOT_OPEN")
        session.half_close()
        session.ended()


def session_mismatch(client: Client) -> None:
    with client.session("session_mismatch") as session:
        session.refused(chunk("another", "w", 1, [tensor("t", b"x")]), "SESSION_MISMATCH")
        session.refused(open_request("another"), "SESSION_MISMATCH")
        release(session)


def unsupported_schema(client: Client) -> None:
    with client.session() as session:
        newer: Any = 2
        session.refused(open_request("unsupported_schema", schema=newer), "UNSUPPORTED_SCHEMA")
        session.ask(open_request("unsupported_schema"), "accepted")
        sample = [tensor("t", b"x")]
        unspecified = pb.SCHEMA_VERSION_UNSPECIFIED
        session.refused(chunk("unsupported_schema", "w", 1, sample, schema=unspecified), "UNSUPPORTED_SCHEMA")
        session.echoed(chunk("unsupported_schema", "w", 1, sample))
        release(session)


def empty_kind(client: Client) -> None:
    with client.session("empty_kind") as session:
        session.refused(pb.SessionRequest(), "INVALID_REQUEST", terminal=True)
        session.ended()


def release_unary(client: Client) -> None:
    with client.session("release_unary") as session:
        request = pb.ReleaseRequest(route_session_id="release_unary")
        expect("released", client.unary("Release", request).released, True)
        expect("released", client.unary("Release", request).released, False)
        session.refused(chunk("release_unary", "w", 1, [tensor("t", b"x")]), "SESSION_NOT_OPEN")
        session.half_close()
        session.ended()


def capability_and_health(client: Client) -> None:
    report = client.unary("GetCapability", pb.CapabilityRequest())
    expect("validated", report.validated, True)
    expect("time", report.validated_at_unix_nanos, 0)
    health = client.unary("Health", pb.HealthRequest())
    expect("state", health.state, pb.SERVING_STATE_SERVING)
    expect("queued", health.queued_chunks, 0)
    with client.session("capability_and_health") as session:
        expect("active", client.unary("Health", pb.HealthRequest()).active_sessions, health.active_sessions + 1)
        release(session)


def half_close(client: Client) -> None:
    with client.session("half_close") as session:
        session.echoed(chunk("half_close", "w", 1, [tensor("t", b"x")]))
        session.half_close()
        session.ended()


def client_cancel(client: Client) -> None:
    with client.session("client_cancel") as session:
        session.echoed(chunk("client_cancel", "w", 1, [tensor("t", b"x")]))
        session.cancel()


def left_open(client: Client) -> None:
    with client.session("left_open") as session:
        session.echoed(chunk("left_open", "w", 1, [tensor("t", b"x")]))
    print("ok    left_open", flush=True)  # noqa: T201 - before the end that leaves nothing behind
    os._exit(0)


CONVERSATIONS: Final[dict[str, Callable[[Client], None]]] = {
    "happy": happy,
    "decode": decoding,
    "zstd": compressed,
    "stale_epoch": stale_epoch,
    "expired_deadline": expired_deadline,
    "not_tiling": not_tiling,
    "checksum_failure": checksum_failure,
    "credit": credit,
    "duplicate_step": duplicate_step,
    "cancel_work": cancel_work,
    "cancel_session": cancel_session,
    "unary_cancel": unary_cancel,
    "cancel_before_open": cancel_before_open,
    "not_open": not_open,
    "session_mismatch": session_mismatch,
    "unsupported_schema": unsupported_schema,
    "empty_kind": empty_kind,
    "release_unary": release_unary,
    "capability_and_health": capability_and_health,
    "half_close": half_close,
    "client_cancel": client_cancel,
}
BY_NAME_ONLY: Final[dict[str, Callable[[Client], None]]] = {"left_open": left_open}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", metavar="[NAME]...", nargs=-1, type=click.Choice([*CONVERSATIONS, *BY_NAME_ONLY]))
@click.option("--target", metavar="HOST:PORT", required=True, help="The server.")
def main(names: tuple[str, ...], target: str) -> None:
    """Hold the conversations of these names, or all, and check every answer."""
    for name in names or CONVERSATIONS:
        client = Client(target)
        try:
            {**CONVERSATIONS, **BY_NAME_ONLY}[name](client)
        except (Unexpected, grpc.RpcError) as error:
            click.echo(f"FAIL  {name}: {error}", err=True)
            sys.exit(FAILED)
        finally:
            client.close()
        click.echo(f"ok    {name}, {client.messages} messages")


if __name__ == "__main__":
    main()
