"""A small opaque service of all four kinds, its messages plain bytes that say what the server is to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc

SERVICE = "/test.Service/"


def respond(order: bytes, context: Any) -> bytes:
    """A request is an order: anything is echoed, unless it begins with one of these."""
    word, _, rest = order.partition(b" ")
    text = rest.decode(errors="replace")
    match word:
        case b"abort":
            context.set_trailing_metadata((("why", "asked"), ("why-bin", b"\x00\xff"), ("why", "again")))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        case b"raise":
            raise ValueError(text)
        case b"code":
            context.set_code(grpc.StatusCode.NOT_FOUND)
            context.set_details(text)
        case b"headers":
            context.send_initial_metadata((("first", text),))
        case b"trailers":
            context.set_trailing_metadata((("last", text),))
        case b"unserializable":
            return None  # type: ignore[return-value]
        case _:
            pass
    return order


def unary(request: bytes, context: Any) -> bytes:
    return respond(request, context)


def server_streaming(request: bytes, context: Any) -> Iterator[bytes]:
    for order in request.split(b","):
        yield respond(order, context)


def client_streaming(requests: Iterator[bytes], context: Any) -> bytes:
    return b",".join(respond(request, context) for request in requests)


def bidi(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    for request in requests:
        if request == b"stop":
            return
        yield respond(request, context)


def parse(data: bytes) -> bytes:
    """A deserializer that refuses what begins with a bang."""
    if data.startswith(b"!"):
        raise ValueError("a bang")
    return data


HANDLERS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary, parse, bytes),
    "ServerStreaming": grpc.unary_stream_rpc_method_handler(server_streaming, parse, bytes),
    "ClientStreaming": grpc.stream_unary_rpc_method_handler(client_streaming, parse, bytes),
    "Bidi": grpc.stream_stream_rpc_method_handler(bidi, parse, bytes),
    "BidiRaw": grpc.stream_stream_rpc_method_handler(bidi),
}


def serve(*interceptors: grpc.ServerInterceptor, handlers: dict[str, Any] | None = None) -> tuple[grpc.Server, str]:
    """A server on a free port, and its address."""
    server = grpc.server(
        futures.ThreadPoolExecutor(40),
        interceptors=interceptors,
        options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)],
    )
    generic = grpc.method_handlers_generic_handler("test.Service", handlers or HANDLERS)
    server.add_generic_rpc_handlers((generic,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"


def stop(server: grpc.Server, grace: float = 0) -> None:
    """End a server, and wait for its handlers. Not for ever: grpcio's own server now and then never reports its end
    after a request stream in which it could not deserialize a message."""
    server.stop(grace).wait(grace + 3)


Observation = tuple[str, Any]


def converse(
    address: str, method: str, requests: list[bytes], *, metadata: Any = (), timeout: float | None = 20
) -> list[Observation]:
    """Call by the client of grpcio for that kind; everything that the client sees, in order."""
    with grpc.insecure_channel(address) as channel:
        call = _CALLS[method.removesuffix("Raw")](channel, SERVICE + method, requests, metadata, timeout)
        seen: list[Observation] = []
        try:
            seen.append(("headers", tuple(map(tuple, call.initial_metadata()))))
            for response in call:
                seen.append(("message", response))  # noqa: PERF401 - what came before an error counts
        except grpc.RpcError:
            pass
        seen.append(("status", call.code(), call.details(), tuple(map(tuple, call.trailing_metadata()))))
        return seen


def _as_stream(channel: grpc.Channel, method: str, requests: list[bytes], metadata: Any, timeout: float | None) -> Any:
    return channel.stream_stream(method)(iter(requests), metadata=metadata, timeout=timeout)


def _as_server_stream(
    channel: grpc.Channel, method: str, requests: list[bytes], metadata: Any, timeout: float | None
) -> Any:
    return channel.unary_stream(method)(requests[0], metadata=metadata, timeout=timeout)


_CALLS: dict[str, Callable[..., Any]] = {
    "Unary": _as_server_stream,
    "ServerStreaming": _as_server_stream,
    "ClientStreaming": _as_stream,
    "Bidi": _as_stream,
    "Missing": _as_stream,
}
