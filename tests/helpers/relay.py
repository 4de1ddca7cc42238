"""A process that forwards ShardRuntime's bytes to another server without parsing them: `relay.py UPSTREAM`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc

LIMITS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Relay(grpc.GenericRpcHandler):
    """Any method is a stream of bytes both ways. What the upstream says at its end is said on."""

    def __init__(self, upstream: str) -> None:
        self._channel = grpc.insecure_channel(upstream, options=LIMITS)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        method = details.method

        def forward(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            call: Any = self._channel.stream_stream(method)(requests)
            context.add_callback(call.cancel)
            try:
                yield from call
            except grpc.RpcError:
                context.set_trailing_metadata(call.trailing_metadata())
                context.abort(call.code(), call.details())
            context.set_trailing_metadata(call.trailing_metadata())

        return grpc.stream_stream_rpc_method_handler(forward)


def main(upstream: str) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    server = grpc.server(futures.ThreadPoolExecutor(64), options=LIMITS)
    server.add_generic_rpc_handlers((Relay(upstream),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"listening on 127.0.0.1:{port}", flush=True)
    signal.sigwait([signal.SIGTERM])
    server.stop(0).wait(3)


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
