"""`capture-server`: ShardRuntime on a socket, with recording if asked for; SIGTERM ends it with a complete capture."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import click

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb

from .app import WORKERS, build_server
from .service import ShardRuntime

if TYPE_CHECKING:
    import grpc

    from capture_recorder import Recorder

FAILED = 1
_STOP = (signal.SIGTERM, signal.SIGINT)
_STOPPED_WITHIN = 5.0  # seconds that gRPC has for its own end, after the last call was cut

EPILOG = """\b
Example:
  capture-server --listen localhost:50051 --capture session.cap
"""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--listen",
    metavar="HOST:PORT",
    envvar="MESHNET_SHARD_LISTEN_ADDR",
    default="localhost:50051",
    show_default=True,
    show_envvar=True,
    help="Where to accept connections; port 0 takes a free one; also unix:PATH.",
)
@click.option(
    "--capture",
    metavar="PATH",
    envvar="MESHNET_WIRE_CAPTURE_PATH",
    show_envvar=True,
    help="Record into this file, or into a file of its own in this folder. A name that ends in .jsonl gets the "
    "prototype's form.",
)
@click.option(
    "--grace",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="After SIGTERM, how long open calls may go on.",
)
@click.version_option(package_name="capture-replay")
def main(listen: str, capture: str | None, grace: float) -> None:
    """Serve ShardRuntime, the reference server: it checks the tensors that it is sent, and echoes them."""
    # Blocked before there is a second thread, and so in all of them: only sigwait sees these signals. A handler would
    # now and then run in a thread of gRPC's while the main thread sleeps on.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    recorder = _recorder(capture)
    shard = ShardRuntime(workers=WORKERS)
    server = build_server(shard, interceptors=[recorder.interceptor()] if recorder else [])
    address = _bind(server, listen)
    if address is None:
        if recorder:
            recorder.close()
        _fail(f"cannot listen on {listen}: is the address this machine's, and not in use?")
    server.start()
    shard.state = pb.SERVING_STATE_SERVING
    click.echo(f"ShardRuntime server listening on {address}")
    signal.sigwait(_STOP)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)  # who asks twice does not want to wait
    shard.state = pb.SERVING_STATE_DRAINING
    _stop(server, recorder, grace)


def _recorder(capture: str | None) -> Recorder | None:
    if not capture:
        return None
    from capture_recorder import Recorder  # noqa: PLC0415 - a server that does not record does not load it

    recorder = Recorder(capture)
    if recorder.failure is not None:
        _fail(f"cannot record: {recorder.failure}")
    return recorder


def _bind(server: grpc.Server, listen: str) -> str | None:
    """The address as it is to be called, with the port that was chosen; None if it is not to be had."""
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError:
        return None
    if listen.startswith("unix:"):
        return listen
    return f"{listen.rpartition(':')[0]}:{port}" if port else None


def _stop(server: grpc.Server, recorder: Recorder | None, grace: float) -> None:
    """Let calls end by themselves; then finish the capture, in which the others stay open; then cut them."""
    drained = server.stop(grace + _STOPPED_WITHIN)
    drained.wait(grace)
    if recorder is not None:
        recorder.close()
        if recorder.failure is not None:
            click.echo(f"capture-server: the capture is not complete: {recorder.failure}", err=True)
    server.stop(0).wait(_STOPPED_WITHIN)


def _fail(sentence: str) -> None:
    click.echo(f"capture-server: {sentence}", err=True)
    sys.exit(FAILED)
