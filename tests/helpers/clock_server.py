"""A server that tells the time: `clock_server.py ADDRESS`. The word in each message says which reading it asks for."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures
from time import time as time_by_name
from typing import Any

import grpc


def _in_a_thread() -> int:
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(time.time_ns()))
    thread.start()
    thread.join()
    return seen[0]


def _in_a_child() -> str:
    command = [sys.executable, "-c", "import time; print(time.time_ns())"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _slept() -> float:
    start = time.monotonic()
    time.sleep(0.05)
    threading.Event().wait(0.05)
    return time.monotonic() - start


READINGS: dict[str, Callable[[], Any]] = {
    "": time.time_ns,
    "time": time.time,
    "time by name": time_by_name,
    "clock_gettime": lambda: time.clock_gettime(time.CLOCK_REALTIME),
    "clock_gettime_ns": lambda: time.clock_gettime_ns(time.CLOCK_REALTIME),
    "gmtime": lambda: time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
    "localtime": lambda: time.mktime(time.localtime()),
    "strftime": lambda: time.strftime("%Y"),
    "ctime": time.ctime,
    "asctime": time.asctime,
    "now": lambda: datetime.datetime.now(datetime.UTC).isoformat(),
    "utcnow": lambda: datetime.datetime.now(datetime.UTC).replace(tzinfo=None).isoformat(),
    "today": lambda: datetime.date.today().isoformat(),
    "thread": _in_a_thread,
    "child": _in_a_child,
    "uuid1": lambda: (uuid.uuid1().time - 0x01B21DD213814000) * 100,
    "monotonic": time.monotonic,
    "perf_counter": time.perf_counter,
    "clock_gettime monotonic": lambda: time.clock_gettime(time.CLOCK_MONOTONIC),
    "slept": _slept,
    "sitecustomize": lambda: os.environ.get("THE_USERS_OWN", ""),
}


def tell(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    for request in requests:
        word = request.decode()
        value = context.time_remaining() if word == "time remaining" else READINGS[word]()
        yield str(value).encode()


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    server = grpc.server(futures.ThreadPoolExecutor(8))
    handlers = {"Tell": grpc.stream_stream_rpc_method_handler(tell)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("clock.Clock", handlers),))
    server.add_insecure_port(sys.argv[1])
    server.start()
    signal.sigwait([signal.SIGTERM])
    server.stop(0)


if __name__ == "__main__":
    main()
