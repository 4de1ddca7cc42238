"""Where captures are replayed: a target that is there already, or a server that is started for each.

A place hands out clients, one for each replay. Over a target they share the connection; a spawned server is a fresh one
for each replay, or one for all (`fresh="run"`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol, Self

from .client import Client, GrpcClient, Tls
from .clock import ClockUnavailable, RecordedClock, hint, methods
from .spawn import Server, Spawn

Fresh = Literal["capture", "run"]
_DIES_WITHIN: Final = 0.3  # seconds from a broken connection until the process behind it is gone


class BadTarget(ValueError):
    """A target that cannot be one; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server that is there: HOST:PORT, unix:PATH, dns:NAME:PORT, ipv4:… or ipv6:…. Raises BadTarget."""

    address: str
    tls: Tls | None = None
    timeout: float = 10.0  # seconds for the connection

    def __post_init__(self) -> None:
        scheme, colon, rest = self.address.partition(":")
        if scheme in ("unix", "unix-abstract") and colon:
            if not rest:
                raise BadTarget(f"{self.address!r} names no socket; write unix:PATH")
            return
        rest = rest.rpartition("/")[2] if scheme in ("dns", "ipv4", "ipv6") and colon else self.address
        host, colon, port = rest.rpartition(":")
        if not colon or not host or (host.count(":") and not host.startswith("[") and scheme != "ipv6"):
            raise BadTarget(f"{self.address!r} is not HOST:PORT, nor unix:PATH or dns:NAME:PORT")
        if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
            raise BadTarget(f"{self.address!r}: the port is a number from 1 to 65535")


@dataclass(frozen=True, slots=True)
class Visit:
    """A client for one replay. `clock` sets what the target sees, in ns since 1970; None where it has its own."""

    client: Client
    clock: Callable[[int], None] | None = None
    server: Server | None = None

    async def death(self) -> tuple[str | None, tuple[str, ...]]:
        """How a spawned server ended by itself, and what it printed last; to be asked after something went wrong."""
        if self.server is None:
            return None, ()
        died = await self.server.death(_DIES_WITHIN)
        return died, self.server.output if died else ()


class Place(Protocol):
    """Somewhere to replay, for as long as the block of `async with` lasts."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc: object) -> None: ...

    def visit(self, now_ns: int) -> contextlib.AbstractAsyncContextManager[Visit]:
        """For one replay. `now_ns`: what a recorded clock shows at first. Raises TargetUnreachable."""


class There:
    """A `Place` with a server that is there."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._client: GrpcClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._client is not None:
            await self._client.close()

    @contextlib.asynccontextmanager
    async def visit(self, now_ns: int) -> AsyncIterator[Visit]:  # noqa: ARG002 - its clock is its own
        """See `Place`."""
        target = self._target
        if self._client is None:
            self._client = await GrpcClient.connect(target.address, tls=target.tls, timeout=target.timeout)
        else:
            await self._client.ready(target.timeout)
        yield Visit(self._client.borrowed())


class Spawned:
    """A `Place` with a server that is started for it. `recorded_clock`: it sees the time that it is told."""

    def __init__(self, spawn: Spawn, *, fresh: Fresh = "capture", recorded_clock: bool = False) -> None:
        self._spawn = spawn
        self._fresh = fresh
        self._recorded_clock = recorded_clock
        self._kept = contextlib.AsyncExitStack()
        self._visit: Visit | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._kept.aclose()

    @contextlib.asynccontextmanager
    async def visit(self, now_ns: int) -> AsyncIterator[Visit]:
        """See `Place`."""
        if self._fresh == "capture":
            async with contextlib.AsyncExitStack() as stack:
                yield await self._start(stack, now_ns)
            return
        if self._visit is None:
            self._visit = await self._start(self._kept, now_ns)
        client = self._visit.client
        assert isinstance(client, GrpcClient)
        await client.ready(self._spawn.starts_within)
        yield Visit(client.borrowed(), self._visit.clock, self._visit.server)

    async def _start(self, stack: contextlib.AsyncExitStack, now_ns: int) -> Visit:
        """A server that serves, and sees what it is to see. Raises TargetUnreachable, and ClockUnavailable."""
        if not self._recorded_clock:
            return await self._serve(stack, None)
        waiting = list(methods())
        while True:
            method = waiting.pop(0)
            async with contextlib.AsyncExitStack() as attempt:
                try:
                    visit = await self._serve(attempt, RecordedClock(now_ns, method))
                except ClockUnavailable as error:
                    if error.hopeless or not waiting:
                        more = "" if error.hopeless else hint()
                        raise ClockUnavailable(f"--clock recorded: {error}{more}") from None
                else:
                    stack.push_async_exit(attempt.pop_all())
                    return visit

    async def _serve(self, stack: contextlib.AsyncExitStack, clock: RecordedClock | None) -> Visit:
        environment = None
        if clock is not None:
            stack.callback(clock.close)
            environment = clock.environment(os.environ)
        server = await stack.enter_async_context(Server(self._spawn, environment))
        client = await server.ready()
        stack.push_async_callback(client.close)
        if clock is not None:
            clock.check(server.serving())
        return Visit(client, clock.set if clock is not None else None, server)
