"""A process that listens long before it serves: `late_server.py ADDRESS [never]`.

gRPC's health service says NOT_SERVING the first times that it is asked, and until then every answer is another.
"""

from __future__ import annotations

import signal
import sys
from concurrent import futures
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

METHOD = "/test.Late/Say"
ASKED = 3


class Health(health_pb2_grpc.HealthServicer):
    """Well when it was asked often enough."""

    def __init__(self, *, never: bool) -> None:
        self.asked = 0
        self.never = never

    @property
    def well(self) -> bool:
        """Whether it serves."""
        return self.asked > ASKED and not self.never

    def Check(self, request: Any, context: Any) -> Any:
        """See grpc.health.v1."""
        self.asked += 1
        return health_pb2.HealthCheckResponse(status="SERVING" if self.well else "NOT_SERVING")


def main() -> None:
    health = Health(never="never" in sys.argv)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    server = grpc.server(futures.ThreadPoolExecutor(2))
    health_pb2_grpc.add_HealthServicer_to_server(health, server)  # type: ignore[no-untyped-call]
    say = grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"well" if health.well else b"not yet")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Late", {"Say": say}),))
    server.add_insecure_port(sys.argv[1])
    server.start()
    print("loading the tables", flush=True)
    signal.sigwait([signal.SIGTERM])


if __name__ == "__main__":
    main()
