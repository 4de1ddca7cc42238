"""The client's side of a replay: bytes out on a call, answers in. Opaque; nothing here knows a message type.

Behind a narrow interface (`Client`, `LiveCall`), so that another way to speak to a server can take its place.
All four kinds of RPC are the same on the wire, so each is opened as a stream of requests and a stream of responses.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
from grpc import aio

from .compare import Answer, HeadersCame, MessageCame, StatusCame

Pairs = Sequence[tuple[str, str | bytes]]
Answered = Callable[[Answer], Awaitable[None]]
"""Told all that the target does on a call, in order; while it waits nothing more is read, and flow control acts."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),  # the capture says how large messages are, not the client
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 16 * 1024 * 1024),
    ("grpc.absolute_max_metadata_size", 16 * 1024 * 1024),
    ("grpc.enable_retries", 0),  # a call that fails is an answer, not a reason to send it again
    ("grpc.enable_http_proxy", 0),  # a proxy of the environment is not the target
    ("grpc.use_local_subchannel_pool", 1),  # a connection of our own, also beside another replay of this process
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
REFUSED_FOR: Final = 2.0
"""Seconds in which a target that refuses connections may still come up, before it counts as not there."""


class TargetUnreachable(Exception):
    """There is no server at the target, or none that speaks to us; the text says what was tried."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How to speak TLS: PEM files for the authority, and for a client certificate; `server_name` to expect another
    name than the target's."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Raises OSError if a file cannot be read."""
        ca, key, cert = (path.read_bytes() if path else None for path in (self.ca, self.key, self.cert))
        return grpc.ssl_channel_credentials(ca, key, cert)


class LiveCall(Protocol):
    """A call that is under way. A `send` or `half_close` that is cancelled cancels the call."""

    async def send(self, payload: bytes) -> None:
        """Returns when the message is on its way. A call that has ended takes it and drops it."""

    async def half_close(self) -> None:
        """The client's stream ends."""

    def cancel(self) -> None:
        """The client gives the call up."""


class Client(Protocol):
    """A connection to a target."""

    def open(self, method: str, metadata: Pairs, seconds: float | None, answered: Answered) -> LiveCall:
        """Begin a call, with so many seconds to its deadline."""

    def ask(self, method: str, metadata: Pairs, seconds: float | None, answered: Answered, payload: bytes) -> LiveCall:
        """Begin a call, send its only request and end its requests, in one."""

    async def close(self) -> None:
        """Give up all calls, and the connection."""


class GrpcClient:
    """A client over grpc.aio. Raises TargetUnreachable from `connect` and `ready`."""

    def __init__(self, target: str, channel: aio.Channel, tls: Tls | None = None, *, owns: bool = True) -> None:
        self.target = target
        self._tls = tls
        self._channel = channel
        self._owns = owns
        self._calls: set[_AioCall] = set()

    @classmethod
    async def connect(
        cls, target: str, *, tls: Tls | None = None, timeout: float = 10.0, refused_for: float = REFUSED_FOR
    ) -> GrpcClient:
        """A client whose connection stands. `target` is HOST:PORT, or any name that gRPC resolves (`unix:PATH`).
        `refused_for`: seconds in which a target that refuses may still come up."""
        options: list[tuple[str, Any]] = list(_OPTIONS)
        if tls is None:
            channel = aio.insecure_channel(target, options=options)
        else:
            if tls.server_name:
                options.append(("grpc.ssl_target_name_override", tls.server_name))
            channel = aio.secure_channel(target, tls.credentials(), options=options)
        client = cls(target, channel, tls)
        try:
            await client.ready(timeout, refused_for)
        except BaseException:
            await channel.close()
            raise
        return client

    async def ready(self, timeout: float, refused_for: float = REFUSED_FOR) -> None:
        """Returns when the connection stands."""
        try:
            await _wait_until_ready(self._channel, timeout, refused_for)
        except TimeoutError:
            raise TargetUnreachable(await _why_unreachable(self.target, self._tls, timeout)) from None

    def borrowed(self) -> GrpcClient:
        """Another client over the same connection, for calls of its own: to close it ends its calls alone."""
        return GrpcClient(self.target, self._channel, self._tls, owns=False)

    def open(self, method: str, metadata: Pairs, seconds: float | None, answered: Answered) -> _AioCall:
        """See `Client`."""
        multi: Any = self._channel.stream_stream(method)  # no (de)serializers: bytes as they are
        return self._begun(multi(metadata=tuple(metadata), timeout=seconds), answered)

    def ask(self, method: str, metadata: Pairs, seconds: float | None, answered: Answered, payload: bytes) -> _AioCall:
        """See `Client`."""
        multi: Any = self._channel.unary_stream(method)
        return self._begun(multi(payload, metadata=tuple(metadata), timeout=seconds), answered, asked=True)

    def _begun(self, live: Any, answered: Answered, *, asked: bool = False) -> _AioCall:
        call = _AioCall(live, answered, asked=asked)
        self._calls.add(call)
        call.reading.add_done_callback(lambda _: self._calls.discard(call))
        return call

    async def close(self) -> None:
        """See `Client`."""
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*(call.reading for call in calls), return_exceptions=True)
        if self._owns:
            await self._channel.close()


class _AioCall:
    """A `LiveCall`; a task reads its answers. `asked`: its requests ended with the first, and went out already."""

    def __init__(self, call: Any, answered: Answered, *, asked: bool = False) -> None:
        self._call = call
        self._asked = asked
        self._answered = answered
        self.reading = asyncio.create_task(self._read())

    async def send(self, payload: bytes) -> None:
        try:
            await self._call.write(payload)
        except (aio.AioRpcError, asyncio.InvalidStateError):
            pass
        except asyncio.CancelledError:
            _unless_it_is_ours()

    async def half_close(self) -> None:
        if self._asked:
            return
        try:
            await self._call.done_writing()
        except (aio.AioRpcError, asyncio.InvalidStateError):
            pass
        except asyncio.CancelledError:
            _unless_it_is_ours()

    def cancel(self) -> None:
        self._call.cancel()

    async def _read(self) -> None:
        call = self._call
        with contextlib.suppress(aio.AioRpcError, asyncio.CancelledError):
            await self._answered(HeadersCame(_metadata(await call.initial_metadata())))
            while (payload := await call.read()) is not aio.EOF:
                await self._answered(MessageCame(payload))
        code = await call.code()
        await self._answered(
            StatusCame(code.value[0], await call.details() or "", _metadata(await call.trailing_metadata()))
        )


def _unless_it_is_ours() -> None:
    """grpc.aio raises CancelledError for a call that is cancelled. Raise it again where our own task is."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _metadata(pairs: Any) -> tuple[tuple[str, bytes], ...]:
    return tuple(
        (key, value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value)
        for key, value in pairs or ()
    )


async def _wait_until_ready(channel: aio.Channel, timeout: float, refused_for: float) -> None:
    """Raises TimeoutError: after `timeout` seconds, or sooner where every attempt was refused."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    async with asyncio.timeout_at(end) as limit:
        state = channel.get_state(try_to_connect=True)
        while state is not grpc.ChannelConnectivity.READY:
            if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                limit.reschedule(min(end, limit.when() or end, loop.time() + refused_for))
            await channel.wait_for_state_change(state)
            state = channel.get_state(try_to_connect=True)


async def _why_unreachable(target: str, tls: Tls | None, timeout: float) -> str:
    """gRPC keeps the reason to itself; a plain connection to the same place tells it."""
    text = f"cannot connect to {target}"
    host, _, port = target.removeprefix("dns:").lstrip("/").rpartition(":")
    if not host or not port.isdecimal():
        return f"{text} within {timeout:g} s"
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            writer.close()
    except TimeoutError:
        return f"{text} within {timeout:g} s"
    except (OSError, OverflowError) as error:
        why = _refusal(error)
        return f"{text}: {why}; is the server running there?"
    return f"{text}: {no_connection(tls)}"


def no_connection(tls: Tls | None) -> str:
    """What is known of a place that takes connections, but none of gRPC's."""
    hint = (
        "is it a gRPC server, and does it want TLS (--tls)?"
        if tls is None
        else "does it speak TLS, and do the certificates fit?"
    )
    return f"something listens there, but no gRPC connection came about; {hint}"


def _refusal(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "the name is not known"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return str(getattr(error, "strerror", None) or error).lower()
