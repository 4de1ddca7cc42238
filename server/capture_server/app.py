"""A gRPC server of ShardRuntime: our own table of methods, so that responses are serialized deterministically."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, Final

import grpc

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb

from .service import ShardRuntime

SERVICE: Final = "shard_runtime.v1.ShardRuntime"
WORKERS: Final = 64  # a Session holds a thread for as long as it lives

_METHODS: Final[dict[str, tuple[Callable[..., Any], Any]]] = {
    "Session": (grpc.stream_stream_rpc_method_handler, pb.SessionRequest),
    "GetCapability": (grpc.unary_unary_rpc_method_handler, pb.CapabilityRequest),
    "Health": (grpc.unary_unary_rpc_method_handler, pb.HealthRequest),
    "Release": (grpc.unary_unary_rpc_method_handler, pb.ReleaseRequest),
    "Cancel": (grpc.unary_unary_rpc_method_handler, pb.CancelRequest),
}
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),  # how large a chunk may be is the session's to say
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # an address that is in use is an error, not a second server behind it
)


def build_server(
    shard: ShardRuntime, *, interceptors: Sequence[grpc.ServerInterceptor] = (), workers: int = WORKERS
) -> grpc.Server:
    """A server that is not started and has no port yet."""
    server = grpc.server(
        futures.ThreadPoolExecutor(workers, thread_name_prefix="shard"),
        interceptors=list(interceptors),
        options=_OPTIONS,
    )
    handlers = {
        name: make(getattr(shard, name), request_deserializer=request.FromString, response_serializer=_serialize)
        for name, (make, request) in _METHODS.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    return server


def _serialize(message: Any) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data
