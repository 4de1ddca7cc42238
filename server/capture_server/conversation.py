"""A client's side of a Session, one request at a time: the next one only after the answer to the last."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any, Final, Protocol

import grpc

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb
from capture_proto.shard_runtime.v1.shard_runtime_pb2_grpc import ShardRuntimeStub

TIMEOUT: Final = 30.0  # seconds that an answer may take


class Unexpected(Exception):
    """An answer that is not the one that was due."""


class _Call(Protocol):
    """What we use of grpcio's call."""

    def __next__(self) -> pb.SessionResponse: ...
    def cancel(self) -> bool: ...


class Conversation:
    """One Session over the generated stub. Raises Unexpected, and grpc.RpcError where a call fails."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.messages = 0  # sent and received
        self._requests: queue.SimpleQueue[pb.SessionRequest | None] = queue.SimpleQueue()
        stub: Any = ShardRuntimeStub(channel)  # type: ignore[no-untyped-call]
        self._call: _Call = stub.Session(self._sent(), timeout=TIMEOUT)

    def _sent(self) -> Iterator[pb.SessionRequest]:
        while (request := self._requests.get()) is not None:
            yield request

    def send(self, request: pb.SessionRequest) -> None:
        """Send without waiting."""
        self.messages += 1
        self._requests.put(request)

    def receive(self, kind: str) -> Any:
        """The next answer, which has to be of this kind."""
        try:
            response = next(self._call)
        except StopIteration:
            raise Unexpected(f"expected {kind}, got the end of the stream") from None
        self.messages += 1
        got = response.WhichOneof("kind")
        if got != kind:
            raise Unexpected(f"expected {kind}, got {got}: {response}")
        return getattr(response, kind)

    def ask(self, request: pb.SessionRequest, kind: str) -> Any:
        """Send, and wait for the answer."""
        self.send(request)
        return self.receive(kind)

    def refused(
        self, request: pb.SessionRequest, code: str, *, terminal: bool = False, retryable: bool = False
    ) -> None:
        """Send what has to be answered with this error."""
        status = self.ask(request, "status")
        expect("code", pb.ErrorCode.Name(status.error.code), f"ERROR_CODE_{code}")
        expect("terminal", status.terminal, terminal)
        expect("retryable", status.error.retryable, retryable)

    def echoed(self, request: pb.SessionRequest) -> None:
        """Send a chunk that has to come back as it is."""
        expect("echo", self.ask(request, "chunk"), request.chunk)

    def half_close(self) -> None:
        """The client has no more requests."""
        self._requests.put(None)

    def ended(self) -> None:
        """The server has to end the stream here, with OK."""
        try:
            raise Unexpected(f"expected the end of the stream, got {next(self._call)}")
        except StopIteration:
            self.half_close()

    def cancel(self) -> None:
        """Give the call up."""
        self._call.cancel()
        self.half_close()


def expect(what: str, got: object, expected: object) -> None:
    """Raise Unexpected with both values where they differ."""
    if got != expected:
        raise Unexpected(f"{what}: expected {expected}, got {got}")
