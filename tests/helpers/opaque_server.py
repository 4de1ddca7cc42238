"""A process that serves the opaque test service: `opaque_server.py CAPTURE|- [MODE]`.

Modes make it misbehave from the same code: what a replay must tell apart.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from capture_recorder import Recorder
from helpers import service


def until_gone(context: Any) -> None:
    """Do nothing for as long as the client waits."""
    gone = threading.Event()
    if context.add_callback(gone.set):
        gone.wait(60)


def misbehaving(mode: str) -> dict[str, Any]:
    """The service's handlers, the bidirectional one changed."""

    def bidi(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        for index, request in enumerate(requests):
            response = service.respond(request, context)
            if index == 1:
                match mode:
                    case "flip":
                        response = response[:-1] + bytes([response[-1] ^ 1])
                    case "less":
                        continue
                    case "more":
                        yield response
                    case "stall":
                        until_gone(context)
                    case "die":
                        signal.raise_signal(signal.SIGKILL)
                    case _:
                        pass
            yield response
        if mode == "last":
            yield b"one more"
        if mode == "status":
            context.abort(grpc.StatusCode.DATA_LOSS, "oh")
        if mode == "ok message":
            context.set_details("in other words")
        if mode == "trailers":
            context.set_trailing_metadata((("new", "1"),))
        if mode == "open":
            until_gone(context)

    def unary(request: bytes, context: Any) -> bytes:
        return service.respond(request + b" otherwise" if mode == "message" else request, context)

    return {
        **service.HANDLERS,
        "Unary": grpc.unary_unary_rpc_method_handler(unary, service.parse, bytes),
        "Bidi": grpc.stream_stream_rpc_method_handler(bidi, service.parse, bytes),
    }


def main() -> None:
    capture, mode = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    recorder = None if capture == "-" else Recorder(capture, on_error="raise")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    interceptors = [recorder.interceptor()] if recorder else []
    server, address = service.serve(*interceptors, handlers=misbehaving(mode))
    print(f"listening on {address}", flush=True)
    signal.sigwait([signal.SIGTERM])
    if recorder:
        recorder.close()
    service.stop(server)


if __name__ == "__main__":
    main()
