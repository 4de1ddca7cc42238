"""A Session whose chunk a unary `Cancel` crosses, recorded from a real server; and a fresh server for each replay."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Self

import grpc

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb
from capture_proto.shard_runtime.v1.shard_runtime_pb2_grpc import ShardRuntimeStub
from capture_recorder import Recorder
from capture_recorder.capfile import open_capture
from capture_replayer.client import GrpcClient
from capture_replayer.place import Visit
from capture_replayer.races import Race
from capture_replayer.replay import survey
from capture_server.app import build_server
from capture_server.build import chunk, open_request, tensor
from capture_server.conversation import Conversation
from capture_server.service import ShardRuntime


def start(interceptors: Sequence[grpc.ServerInterceptor] = ()) -> tuple[grpc.Server, str]:
    """A fresh ShardRuntime on a free port."""
    server = build_server(ShardRuntime(), interceptors=interceptors)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"


def races_of(capture: Path) -> list[Race]:
    """Where the recorded order was not the client's to see."""
    with open_capture(str(capture)) as reader:
        return survey(reader).races


def record(path: Path, *, tries: int = 50) -> list[Race]:
    """Record until the two really crossed: whether they do is the machine's to say. The races of the capture."""
    for _ in range(tries):
        _record_once(path)
        races = races_of(path)
        if races:
            return races
        path.unlink()
    raise AssertionError(f"in {tries} recordings the Cancel never crossed the chunk")


def _record_once(path: Path) -> None:
    recorder = Recorder(path, on_error="raise")
    server, address = start([recorder.interceptor()])
    with grpc.insecure_channel(address) as first, grpc.insecure_channel(address) as second:
        stub = ShardRuntimeStub(second)  # type: ignore[no-untyped-call]
        stub.Health(pb.HealthRequest())  # connected
        conversation = Conversation(first)
        conversation.ask(open_request("racing"), "accepted")
        conversation.send(chunk("racing", "w", 1, [tensor("t", bytes(3 << 20))]))
        stub.Cancel(pb.CancelRequest(route_session_id="racing", work_id="w"))
        next(conversation._call)
        conversation.half_close()
        with contextlib.suppress(StopIteration):
            next(conversation._call)
    server.stop(1).wait(5)
    recorder.close()


class FreshInProcess:
    """A `Place` whose visits each find a fresh ShardRuntime. `used` counts them."""

    def __init__(self) -> None:
        self.used = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None: ...

    @contextlib.asynccontextmanager
    async def visit(self, now_ns: int) -> AsyncIterator[Visit]:
        """See `Place`."""
        self.used += 1
        server, address = start()
        client = await GrpcClient.connect(address)
        try:
            yield Visit(client)
        finally:
            await client.close()
            await asyncio.to_thread(server.stop(0).wait, 3)
