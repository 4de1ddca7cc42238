"""A fresh server for a replay: started on a free address, waited for until it serves, stopped with all its processes.

The command is run without a shell, in a process group of its own. What it prints is kept, the last of it, for the case
that it dies. A guard stands beside it for the case that we do, by SIGKILL or for want of memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from .client import GrpcClient, TargetUnreachable, Tls, no_connection
from .compare import Answer, MessageCame, StatusCame

STARTS_WITHIN: Final = 30.0  # seconds, where nothing else was asked for
STOPS_WITHIN: Final = 3.0
"""Seconds from SIGTERM to SIGKILL. Its clients are gone by then, so there is little that it could still have to do."""
LINES: Final = 40  # the last lines of its output are kept, of each no more than
WIDTH: Final = 2_000  # characters
PLACES: Final = ("address", "host", "port", "unix")
_HOST: Final = "127.0.0.1"
_LONGEST: Final = 90  # bytes of the path of a folder for a socket
_POLL: Final = 0.02  # seconds between two looks whether it listens
_HEALTH: Final = "/grpc.health.v1.Health/Check"
_GUARD: Final = """
read -r _
kill -TERM "-$1"; sleep 1; kill -KILL "-$1"
[ -z "$2" ] || rm -rf -- "$2"
"""
_NOT_SERVING: Final = (b"", b"\x08\x02")  # HealthCheckResponse with status UNKNOWN or NOT_SERVING


class NotStarted(TargetUnreachable):
    """The spawned server did not come to serve. `output` has the last lines that it printed."""

    def __init__(self, text: str, output: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.output = output


@dataclass(frozen=True, slots=True)
class Spawn:
    """How to start a server: `command` with `{address}` (HOST:PORT), or `{host}` and `{port}`, or `{unix}` (the path of
    a socket). Words are split as a shell does, and nothing else of a shell is there. Raises ValueError for a command
    that names no address."""

    command: str
    starts_within: float = STARTS_WITHIN  # seconds
    tls: Tls | None = None

    def __post_init__(self) -> None:
        shlex.split(self.command)
        if not any(f"{{{place}}}" in self.command for place in ("address", "port", "unix")):
            raise ValueError("the command has no {address}, nor {port} or {unix}: no server of it could be found")
        if self.uses_unix and any(f"{{{place}}}" in self.command for place in ("address", "port")):
            raise ValueError("a server listens at {unix} or at {address}, not at both")

    @property
    def uses_unix(self) -> bool:
        """Whether it listens at a socket of the file system."""
        return "{unix}" in self.command

    def words(self, places: Mapping[str, str]) -> list[str]:
        """The command, its places filled. Other braces are left as they are."""
        words = shlex.split(self.command)
        for place, value in places.items():
            words = [word.replace(f"{{{place}}}", value) for word in words]
        return words


class Server:
    """A spawned server at `address`, for as long as the block of `async with` lasts."""

    def __init__(self, spawn: Spawn, environment: Mapping[str, str] | None = None) -> None:
        self.address = ""
        self._spawn = spawn
        self._environment = environment
        self._folder = ""
        self._awaited = ""  # what is still missing of a server that listens
        self._process: asyncio.subprocess.Process | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._output: deque[str] = deque(maxlen=LINES)

    async def __aenter__(self) -> Self:
        """Start it. Raises NotStarted where that fails; it does not serve yet, see `ready`."""
        self._folder = _short_folder() if self._spawn.uses_unix else ""
        unix = str(Path(self._folder, "socket"))
        port = free_port()
        places = {"address": f"{_HOST}:{port}", "host": _HOST, "port": str(port), "unix": unix}
        self.address = f"unix:{unix}" if self._spawn.uses_unix else places["address"]
        words = self._spawn.words(places)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,  # and so a process group, which is stopped as one
                env=None if self._environment is None else dict(self._environment),
            )
        except (OSError, ValueError) as error:
            self._clear()
            why = getattr(error, "strerror", None) or str(error)
            raise NotStarted(f"cannot start {words[0]}: {why.lower()}") from error
        self._reading = asyncio.create_task(self._read(self._process))
        self._guard = _guard(self._process.pid, self._folder)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Stop it, and everything that it started."""
        assert self._process is not None
        assert self._reading is not None
        self._signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOPS_WITHIN):
                await self._process.wait()
        self._signal(signal.SIGKILL)  # what is left of the group, also of a server that ended by itself
        await self._process.wait()
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
        _, late = await asyncio.wait({self._reading}, timeout=1)  # who left the group may have kept the pipe
        for task in late:
            task.cancel()
        self._clear()

    async def ready(self) -> GrpcClient:
        """A client of it, when it serves: accepts a gRPC connection, and says SERVING where it has gRPC's health
        service. Raises NotStarted."""
        assert self._process is not None
        serving = asyncio.ensure_future(self._serving())
        ending = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait(
                {serving, ending}, return_when=asyncio.FIRST_COMPLETED, timeout=self._spawn.starts_within
            )
            if serving.done():
                return serving.result()
            if ending.done():
                await self._gone()
                raise NotStarted(f"the server did not start: it {self.ending()}", self.output)
            text = (
                f"the server did not start: it did not serve at {self.address} within {self._spawn.starts_within:g} s"
            )
            raise NotStarted(f"{text}: {self._awaited}" if self._awaited else text, self.output)
        finally:
            for task in (serving, ending):
                task.cancel()
            await asyncio.gather(serving, ending, return_exceptions=True)

    @property
    def output(self) -> tuple[str, ...]:
        """The last lines that it printed."""
        return tuple(line for line in self._output if line.strip())

    def ending(self) -> str | None:
        """How it ended by itself, as a clause; None while it runs."""
        status = None if self._process is None else self._process.returncode
        if status is None:
            return None
        if status >= 0:
            return f"ended with status {status}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-status).name}"
        return f"was killed by signal {-status}"

    async def death(self, within: float) -> str | None:
        """`ending`, with some seconds for it to come about: a connection breaks before the process is gone."""
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._process.wait()
                await self._gone()
        return self.ending()

    def serving(self) -> list[int]:
        """The processes of its group that listen at the address; all of the group where that cannot be told."""
        assert self._process is not None
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        group = [pid for pid in pids if _group_of(pid) == self._process.pid]
        sockets = _listening(self.address)
        return [pid for pid in group if sockets & _sockets_of(pid)] or group

    async def _serving(self) -> GrpcClient:
        while not await _accepts(self.address):
            await asyncio.sleep(_POLL)
        self._awaited = no_connection(self._spawn.tls)
        limit = self._spawn.starts_within
        client = await GrpcClient.connect(self.address, tls=self._spawn.tls, timeout=limit, refused_for=limit)
        self._awaited = "its health service does not say SERVING"
        try:
            while not await _healthy(client):
                await asyncio.sleep(_POLL)
        except BaseException:
            await client.close()
            raise
        return client

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        rest = ""
        while data := await process.stdout.read(1 << 16):
            *lines, rest = (rest + data.decode("utf-8", "replace")).split("\n")
            self._output.extend(line[:WIDTH] for line in lines)
            rest = rest[:WIDTH]
        self._output.append(rest)

    async def _gone(self) -> None:
        """Read what it still had to say. A child of it may live on with the pipe."""
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=0.5)

    def _clear(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _signal(self, sign: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, sign)


def _guard(group: int, folder: str) -> subprocess.Popen[bytes] | None:
    """A shell that outlives us where we are killed and can stop nothing: its standard input ends with us."""
    command = ["/bin/sh", "-c", _GUARD, "guard", str(group), folder]
    with contextlib.suppress(OSError):  # no shell, no guard
        return subprocess.Popen(  # noqa: S603 - our own words
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    return None


def _short_folder() -> str:
    """A folder for a socket, whose path may have no more than about a hundred bytes (unix(7))."""
    folder = tempfile.mkdtemp(prefix="capture-replay-")
    if len(os.fsencode(folder)) <= _LONGEST:
        return folder
    Path(folder).rmdir()
    return tempfile.mkdtemp(prefix="capture-replay-", dir="/tmp")


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


async def _accepts(address: str) -> bool:
    """Whether something listens there."""
    host, _, port = address.rpartition(":")
    try:
        if address.startswith("unix:"):
            _, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
        else:
            _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    return True


async def _healthy(client: GrpcClient) -> bool:
    """Whether the server says that it serves, or has nothing to say about it."""
    answers: list[Answer] = []
    ended = asyncio.Event()

    async def answered(answer: Answer) -> None:
        answers.append(answer)
        if isinstance(answer, StatusCame):
            ended.set()

    call = client.open(_HEALTH, (), STARTS_WITHIN, answered)
    await call.send(b"")
    await call.half_close()
    await ended.wait()
    return not any(isinstance(answer, MessageCame) and answer.payload in _NOT_SERVING for answer in answers)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _listening(address: str) -> set[str]:
    """The sockets that listen there, by their inodes (proc_pid_net(5))."""
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        rows = [line.split() for line in _lines("/proc/net/unix")]
        return {row[6] for row in rows if len(row) == 8 and row[7] == path}
    port = f":{int(address.rpartition(':')[2]):04X}"
    rows = [line.split() for line in (*_lines("/proc/net/tcp"), *_lines("/proc/net/tcp6"))]
    return {row[9] for row in rows if len(row) > 9 and row[1].endswith(port) and row[3] == "0A"}  # 0A: LISTEN


def _sockets_of(pid: int) -> set[str]:
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(link).removeprefix("socket:[").rstrip("]"))  # noqa: PTH115 - not a path
    return found


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
