"""The recorder of capture-replay: exact request and response bytes of a gRPC server, in a `.cap` file.

recorder = Recorder("session.cap")
server = grpc.server(pool, interceptors=[recorder.interceptor()])
"""

from .policy import Policy
from .recorder import Recorder
from .sink import Stats

__all__ = ["Policy", "Recorder", "Stats"]
