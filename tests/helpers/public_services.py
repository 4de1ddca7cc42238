"""A process that serves grpcio's own reflection and health services: `public_services.py CAPTURE|- [MODE]`.

What changes a status while somebody watches it is a method of this server, `Set`, and so it is on the wire and in the
capture. Modes: `unwell` has another status to begin with, `fewer` one service less.
"""

from __future__ import annotations

import signal
import sys
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from capture_recorder import Recorder
from helpers import service

CONTROL, SPARE = "test.Control", "test.Spare"
KNOWN = "shop"
"""The service whose status the server has from the start."""
Status = health_pb2.HealthCheckResponse.ServingStatus


def serve(*interceptors: grpc.ServerInterceptor, mode: str = "") -> tuple[grpc.Server, str]:
    """A server on a free port, and its address."""
    server = grpc.server(futures.ThreadPoolExecutor(10), interceptors=interceptors)
    servicer = health.HealthServicer()
    servicer.set(KNOWN, Status.NOT_SERVING if mode == "unwell" else Status.SERVING)

    def set_status(request: bytes, context: Any) -> bytes:
        name, _, status = request.decode().partition("=")
        servicer.set(name, Status.Value(status))
        return request

    names = [health.SERVICE_NAME, reflection.SERVICE_NAME]
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    for name in [CONTROL] if mode == "fewer" else [CONTROL, SPARE]:
        handlers = {"Set": grpc.unary_unary_rpc_method_handler(set_status)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        names.append(name)
    reflection.enable_server_reflection(names, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"


def main() -> None:
    capture, mode = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    recorder = None if capture == "-" else Recorder(capture, on_error="raise")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    server, address = serve(*([recorder.interceptor()] if recorder else []), mode=mode)
    print(f"listening on {address}", flush=True)
    signal.sigwait([signal.SIGTERM])
    if recorder:
        recorder.close()
    service.stop(server)


if __name__ == "__main__":
    main()
