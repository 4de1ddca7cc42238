"""Records odd.v1.Odd (odd_server.py) with a client that waits for each answer, and starts it for replays."""

from __future__ import annotations

import contextlib
import queue
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc

from capture_recorder.capfile.records import Message

from .captures import events
from .odd_proto import SERVICE, Answer, Order
from .processes import HELPERS, running

WORDS = ("first", "second", "third", "fourth", "last")


def odd_command(mode: str = "", capture: Path | None = None) -> str:
    """The command for `--spawn`."""
    words = [sys.executable, str(HELPERS / "odd_server.py"), "{address}", str(capture or "-"), mode]
    return shlex.join(words).replace("'{address}'", "{address}")


class OddClient:
    """Talks to a server of the service."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._talk: Any = channel.stream_stream(f"/{SERVICE}/Talk", Order.SerializeToString, Answer.FromString)
        self.ask: Any = channel.unary_unary(f"/{SERVICE}/Ask", Order.SerializeToString, Answer.FromString)

    def talk(self, orders: Iterable[Any]) -> list[Any]:
        """A stream, one order at a time; the answers."""
        waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        call = self._talk(iter(waiting.get, None))
        answers = []
        for order in orders:
            waiting.put(order)
            answers.append(next(call))
        waiting.put(None)
        return [*answers, *call]


def record_odd(path: Path) -> Path:
    """A stream, an error, trailing metadata, and two calls at once."""
    command = [sys.executable, str(HELPERS / "odd_server.py"), "127.0.0.1:0", str(path)]
    with running(command) as server, grpc.insecure_channel(server.address) as channel:
        client = OddClient(channel)
        client.talk(Order(words=word, number=number) for number, word in enumerate(WORDS, 1))
        with contextlib.suppress(grpc.RpcError):
            client.ask(Order(words="refuse"))
        client.ask(Order(words="trailers"))
        first, second = (client.ask.future(Order(words=f"{which} of two")) for which in ("first", "second"))
        first.result()
        second.result()
    return path


def payloads(path: Path) -> list[bytes]:
    """All payloads of a capture, in their order."""
    return [record.payload for record in events(path) if isinstance(record, Message)]
