"""The replayer: a capture's exact requests to a fresh server, and its answers compared byte for byte."""

from .api import ReplayOptions, Report, replay, replay_async
from .client import Client, GrpcClient, TargetUnreachable, Tls
from .engine import Options
from .explain import Divergence
from .place import BadTarget, Target
from .result import Result
from .rules import BadRules, Rule, Rules
from .spawn import Spawn

__all__ = [
    "BadRules",
    "BadTarget",
    "Client",
    "Divergence",
    "GrpcClient",
    "Options",
    "ReplayOptions",
    "Report",
    "Result",
    "Rule",
    "Rules",
    "Spawn",
    "Target",
    "TargetUnreachable",
    "Tls",
    "replay",
    "replay_async",
]
