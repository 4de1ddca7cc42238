"""`Recorder`: one for a server process. It owns the file; its interceptors watch the calls.

A path is a file, or a folder in which each process makes a file of its own. A forked child never writes into its
parent's file: it begins one beside it with its first event.
"""

from __future__ import annotations

import atexit
import os
import platform
import sys
import time
import weakref
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from .capfile.records import Meta, Record, Schema
from .capfile.schema import files_of
from .capfile.writer import CaptureWriter
from .jsonl import JsonLinesWriter
from .policy import Policy, Redactor
from .sink import Sink, Stats, Writer

if TYPE_CHECKING:
    import grpc
    from google.protobuf.descriptor_pool import DescriptorPool

    from .tap import Opening, Tap

_PACKAGES: Final = {"grpcio": "grpcio", "protobuf": "protobuf"}


class Recorder:
    """Records the calls of this process into `path`.

    `path`: a file (`x.cap`; `x.jsonl` for the prototype's form) or a folder, which is one that exists or a path that
    ends in "/". `pool`: where the services' descriptors are; the default pool if None. `on_error`: "log" costs events
    and never a call; "raise" is for tests.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        policy: Policy | None = None,
        pool: DescriptorPool | None = None,
        on_error: Literal["log", "raise"] = "log",
    ) -> None:
        self.path: Path | None = None  # of the file that this process writes
        self._target = os.fspath(path)
        self._policy = policy or Policy()
        self._pool = pool
        self._pid = os.getpid()
        self.redactor = Redactor(self._policy, os.urandom(32))
        self._forget()
        self.sink = Sink(self._open, raises=on_error == "raise")
        self.sink.open()
        _after_fork_in_child(self)
        atexit.register(_close, weakref.ref(self))

    def interceptor(self) -> grpc.ServerInterceptor:
        """For `grpc.server(…, interceptors=[recorder.interceptor(), …])`: the first of the list."""
        from .interceptor import RecordingInterceptor  # noqa: PLC0415 - the interceptor knows the recorder

        return RecordingInterceptor(self)

    def close(self) -> None:
        """Finish the file. Calls that are open stay open in it. A second call does nothing."""
        self.sink.close()

    def stats(self) -> Stats:
        """What was recorded and what was lost so far."""
        return self.sink.stats

    @property
    def failure(self) -> str | None:
        """Why events are being lost, or None."""
        return self.sink.failure

    def begin(self, tap: Tap, opening: Opening, now: int) -> list[Record]:
        """A step for the sink: number the call, and describe its service if the file does not do so yet."""
        self._calls += 1
        return [*self._schema(opening.method), *tap.open(now, self._calls, opening)]

    def _schema(self, method: str) -> list[Record]:
        service = method.strip("/").rpartition("/")[0]
        if not service or service in self._services:
            return []
        self._services.add(service)
        found = files_of(service, self._pool, self._files)
        if found is None:
            return []
        files, names = found
        self._files.update(names)
        return [Schema(services=(service,), files=files)]

    def _forget(self) -> None:
        self._calls = 0
        self._services: set[str] = set()
        self._files: set[str] = set()

    def _open(self) -> tuple[Writer, int]:
        path = self._choose()
        writer: Writer = JsonLinesWriter(path) if path.suffix == ".jsonl" else CaptureWriter(path)
        self.path = path
        clock = time.monotonic_ns()
        writer.append(_meta(self._policy, clock))
        return writer, clock

    def _choose(self) -> Path:
        path = Path(self._target)
        if self._target.endswith(os.sep) or path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
            return path / f"{_program()}-{stamp}-{os.getpid()}.cap"
        if os.getpid() != self._pid:
            return path.with_name(f"{path.stem}-{os.getpid()}{path.suffix}")
        return path

    def _after_fork(self) -> None:
        self._forget()
        self.sink.after_fork()


def _program() -> str:
    name = Path(sys.argv[0] if sys.argv else "").stem
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in name) or "python"


def _meta(policy: Policy, clock: int) -> Meta:
    versions = {name: metadata.version(package) for name, package in _PACKAGES.items()}
    return Meta(
        created_ns=time.time_ns(),
        clock_ns=clock,
        side="server",
        program=_program(),
        pid=os.getpid(),
        versions={
            "library": f"capture-replay {_own_version()}",
            "python": platform.python_version(),
            "platform": platform.platform(),
            **versions,
        },
        policy=policy.as_body(),
        redacts=policy.redact,
    )


def _own_version() -> str:
    try:
        return metadata.version("capture-replay")
    except metadata.PackageNotFoundError:  # run from a source tree
        return "unknown"


def _close(reference: weakref.ref[Recorder]) -> None:
    recorder = reference()
    if recorder is not None:
        recorder.close()


def _after_fork_in_child(recorder: Recorder) -> None:
    reference = weakref.ref(recorder)

    def after_fork() -> None:
        alive = reference()
        if alive is not None:
            alive._after_fork()

    os.register_at_fork(after_in_child=after_fork)
