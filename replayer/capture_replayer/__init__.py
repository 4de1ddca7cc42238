"""The replayer: a capture's exact requests to a fresh server, and its answers compared byte for byte."""

from .client import Client, GrpcClient, TargetUnreachable, Tls
from .engine import Options
from .explain import Divergence
from .replay import CannotTell, replay_capture
from .result import Result

__all__ = [
    "CannotTell",
    "Client",
    "Divergence",
    "GrpcClient",
    "Options",
    "Result",
    "TargetUnreachable",
    "Tls",
    "replay_capture",
]
