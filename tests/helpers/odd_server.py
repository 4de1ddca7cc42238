"""A process that serves odd.v1.Odd: `odd_server.py ADDRESS CAPTURE|- [MODE]`. Modes make it misbehave.

An order says by its words what the server is to do: anything is echoed with a price, a count, labels and items.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from capture_recorder import Recorder
from helpers.odd_proto import SERVICE, Answer, Order


class Odd:
    """The service, in one of its modes."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.count = 0
        self.primed = False
        self.second = threading.Event()  # another call has its answer

    def answer(self, order: Any, context: Any) -> Any:
        """What an order gets."""
        if order.words == "refuse" and self.mode != "ok":
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"refused at {time.time_ns()}" if self.mode == "says when" else "refused",
            )
        if order.words == "trailers":
            context.set_trailing_metadata((("request-id", os.urandom(4).hex() if self.mode == "random" else "one"),))
        answer = Answer(echo=order.words, number=order.number, price=order.number * 300)
        answer.labels.update({"color": "red", "size": "large", "weight": "low"})
        for number in range(3):
            answer.items.add(id=f"item {number}", count=number)
        if order.deadline_unix_nanos and time.time_ns() > order.deadline_unix_nanos:
            answer.code = 1
        if self.mode in ("timestamp", "random", "regress"):
            answer.created_at = time.time_ns()
        if self.mode in ("random", "regress"):
            answer.id = os.urandom(8).hex()
        if self.mode == "regress" and order.words == "third":
            answer.price += 1
        if self.mode == "wrong price":
            answer.price += 1
        if self.mode == "some items":
            answer.items[1].id = os.urandom(4).hex()
        if self.mode == "all items":
            for item in answer.items:
                item.id = os.urandom(4).hex()
        if self.mode == "needs two":  # a failure that needs two orders, the one before the other
            if order.words == "prime":
                self.primed = True
            elif order.words == "fire" and self.primed:
                answer.price += 7
        return answer

    def Ask(self, order: Any, context: Any) -> Any:
        """Unary."""
        if self.mode == "permute" and order.words == "first of two":
            self.second.wait(10)
        answer = self.answer(order, context)
        if order.words == "second of two":
            self.second.set()
        return answer

    def Talk(self, orders: Iterator[Any], context: Any) -> Iterator[Any]:
        """Bidirectional, one answer an order."""
        waiting: list[Any] = []
        for order in orders:
            if order.words == "third":
                if self.mode == "hang":
                    print("hanging", flush=True)
                    gone = threading.Event()
                    if context.add_callback(gone.set):
                        gone.wait(60)
                if self.mode == "die":
                    print("about to die: the disk of the moon is full", flush=True)
                    signal.raise_signal(signal.SIGKILL)
                if self.mode == "flood":
                    while context.is_active():
                        yield self.answer(order, context)
            waiting.append(self.answer(order, context))
            if self.mode != "drop last" or order.words != "last":
                yield waiting.pop()


def encoder(mode: str) -> Callable[[Any], bytes]:
    """How answers become bytes."""

    def encode(answer: Any) -> bytes:
        data: bytes = answer.SerializeToString(deterministic=True)
        if mode == "map":
            bare = Answer()
            bare.CopyFrom(answer)
            bare.ClearField("labels")
            entries = [Answer(labels={key: value}).SerializeToString() for key, value in answer.labels.items()]
            return b"".join(sorted(entries, reverse=True)) + bare.SerializeToString(deterministic=True)
        if mode == "varint":  # the price with bytes that it does not need
            bare = Answer()
            bare.CopyFrom(answer)
            bare.ClearField("price")
            price = answer.price
            low = bytes(((price >> 7 * i) & 0x7F) | 0x80 for i in range(4))
            return bare.SerializeToString(deterministic=True) + b"\x28" + low + b"\x00"
        return data

    return encode


def main() -> None:
    address, capture, mode = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""
    if mode == "does not start":
        print("no such table: users", file=sys.stderr)
        sys.exit(3)
    recorder = None if capture == "-" else Recorder(capture, on_error="raise")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    odd = Odd(mode)
    server = grpc.server(futures.ThreadPoolExecutor(16), interceptors=[recorder.interceptor()] if recorder else [])
    encode = encoder(mode)
    handlers = {
        "Ask": grpc.unary_unary_rpc_method_handler(odd.Ask, Order.FromString, encode),
        "Talk": grpc.stream_stream_rpc_method_handler(odd.Talk, Order.FromString, encode),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port(address)
    server.start()
    print(f"listening on {address.rpartition(':')[0]}:{port}", flush=True)
    signal.sigwait([signal.SIGTERM])
    drained = server.stop(1)
    if recorder:
        recorder.close()
    drained.wait(2)


if __name__ == "__main__":
    main()
