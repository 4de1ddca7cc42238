"""The recorder's place in a synchronous `grpc.server`.

grpcio hands an interceptor no bytes, so the handler that it found is wrapped for each call: its deserializer sees the
bytes before they are parsed, its serializer's result is seen before it is sent. The deserializer runs in grpcio's one
serving thread; there the bytes are only kept, and they are written in the handler's thread, just before it gets the
message. What grpcio answers to an error of a handler follows its `_server.py`, and a test holds the two together.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import grpc

from .capfile.records import KINDS, Event, Metadata, Record
from .tap import Opening, Tap

if TYPE_CHECKING:
    from .recorder import Recorder

_DEADLINE_SLACK: Final = 0.02  # of the time to the deadline: gRPC rounds a timeout up on its way, by so much at most
_CLOCK_SLACK: Final = 0.005  # seconds
_FOREVER: Final = 1e9  # seconds; grpcio says that so much is left where there is no deadline
_HANDLERS: Final = {
    # (requests stream, responses stream): kind, attribute of the behavior, factory of a handler
    (False, False): (KINDS[0], "unary_unary", grpc.unary_unary_rpc_method_handler),
    (False, True): (KINDS[1], "unary_stream", grpc.unary_stream_rpc_method_handler),
    (True, False): (KINDS[2], "stream_unary", grpc.stream_unary_rpc_method_handler),
    (True, True): (KINDS[3], "stream_stream", grpc.stream_stream_rpc_method_handler),
}
_PASSED_ON: Final = (
    "experimental_non_blocking",
    "experimental_thread_pool",
)  # grpcio reads these off a behavior


class RecordingInterceptor(grpc.ServerInterceptor):
    """Made by `Recorder.interceptor()`. A call that cannot be watched is served all the same."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Called by grpcio in its serving thread, once for each call."""
        handler = continuation(handler_call_details)
        try:
            if handler is None:
                _unimplemented(self._recorder, handler_call_details)
                return None
            return _Watch(self._recorder, handler_call_details, handler).handler()
        except Exception as error:  # noqa: BLE001 - a fault of ours must not cost the call
            self._recorder.sink.failed(error)
            return handler


def _unimplemented(recorder: Recorder, details: grpc.HandlerCallDetails) -> None:
    """grpcio rejects the call by itself: no handler, no context, and a status that is always the same."""
    tap = Tap()
    opening = Opening(details.method, "unknown", metadata=recorder.redactor.metadata(details.invocation_metadata))
    code = grpc.StatusCode.UNIMPLEMENTED.value[0]
    recorder.sink.post(
        lambda now: [*recorder.begin(tap, opening, now), *tap.status(now, code, "Method not found!", ())]
    )


def _harmless(method: Callable[..., None]) -> Callable[..., None]:
    """A fault of ours in a handler's thread is the recording's loss; the handler does not see it."""

    @functools.wraps(method)
    def guarded(watch: _Watch, *args: Any) -> None:
        try:
            method(watch, *args)
        except Exception as error:  # noqa: BLE001
            watch.sink.failed(error)

    return guarded


class _Watch:
    """One call of a synchronous server, from its handler's point of view."""

    def __init__(
        self, recorder: Recorder, details: grpc.HandlerCallDetails, handler: grpc.RpcMethodHandler[Any, Any]
    ) -> None:
        self._recorder = recorder
        self.sink = recorder.sink
        self._details = details
        self._original: Any = handler
        self._kind, self._attribute, self._factory = _HANDLERS[
            bool(handler.request_streaming), bool(handler.response_streaming)
        ]
        self._tap = Tap()
        self._context: Any = None
        self._pending: deque[bytes] = deque()  # read off the wire, not yet given to the handler
        self._undecodable = False
        self._time_left_ns: int | None = None

    def handler(self) -> grpc.RpcMethodHandler[Any, Any]:
        """A handler that does what the original does, and is watched."""
        behavior = getattr(self._original, self._attribute)
        watched = self._watched(behavior)
        for name in _PASSED_ON:
            if hasattr(behavior, name):
                setattr(watched, name, getattr(behavior, name))
        made: grpc.RpcMethodHandler[Any, Any] = self._factory(
            watched, request_deserializer=self._deserialize, response_serializer=self._serialize
        )
        return made

    # --- bytes -------------------------------------------------------------------------------------------------------

    def _deserialize(self, data: bytes) -> Any:
        """In the serving thread: nothing here may wait."""
        self._pending.append(data)
        original = self._original.request_deserializer
        if original is None:
            return data
        try:
            request = original(data)
        except BaseException:
            self._cannot_deserialize()
            raise
        if request is None:  # grpcio takes it for the same
            self._cannot_deserialize()
        return request

    def _cannot_deserialize(self) -> None:
        """grpcio answers by itself. A single request's behavior never runs then, so this is the place to tell of it."""
        self._undecodable = True
        if self._context is None:
            self.sink.post(lambda now: self._begin(now, None))
            self.sink.post(self._end_of_undecodable)

    def _end_of_undecodable(self, now: int) -> list[Event]:
        code: int = grpc.StatusCode.INTERNAL.value[0]
        return [
            *self._take_pending(now),
            *self._tap.status(now, code, "Exception deserializing request!", ()),
        ]

    def _take_pending(self, now: int) -> list[Event]:
        """A step: under the sink's lock, so that two threads of a handler never take the same bytes."""
        taken: list[Event] = []
        while self._pending:
            taken += self._tap.request(now, self._pending.popleft())
        return taken

    def _serialize(self, response: Any) -> Any:
        original = self._original.response_serializer
        try:
            data = response if original is None else original(response)
        except BaseException:
            self._ended("Failed to serialize response!", grpc.StatusCode.INTERNAL)
            raise
        if data is None:
            self._ended("Failed to serialize response!", grpc.StatusCode.INTERNAL)
        else:
            self._about_to_send(data)
        return data

    @_harmless
    def _about_to_send(self, data: bytes) -> None:
        if self._context.is_active():  # else grpcio drops it
            self.sink.observe(lambda now: self._tap.response(now, data))
            if not self._original.response_streaming:
                self._ended()

    # --- the handler's course ----------------------------------------------------------------------------------------

    def _watched(self, behavior: Callable[..., Any]) -> Callable[..., Any]:
        def watched(argument: Any, context: Any, *callback: Callable[[Any], None]) -> Any:
            self._opened(context)
            if self._original.request_streaming:
                argument = _Requests(argument, self)
            else:
                self.delivered()
            try:
                result = behavior(argument, context, *map(self._watched_callback, callback))
            except Exception as error:
                self._raised("Exception calling application: {}", error)
                raise
            streams = self._original.response_streaming and not callback
            return _Responses(result, self) if streams else result

        return watched

    def _watched_callback(self, send: Callable[[Any], None]) -> Callable[[Any], None]:
        """For grpcio's non-blocking handlers, which send by a callback; None ends the call."""

        def watched(response: Any) -> None:
            if response is None:
                self.exhausted()
            send(response)

        return watched

    @_harmless
    def _opened(self, context: Any) -> None:
        self._context = context
        self.sink.observe(lambda now: self._begin(now, context))
        context.add_callback(self._terminated)
        send = context.send_initial_metadata

        @functools.wraps(send)
        def send_initial_metadata(initial_metadata: Any) -> None:
            self.sink.observe(lambda now: self._tap.headers(now, self._metadata(initial_metadata)))
            send(initial_metadata)

        context.send_initial_metadata = send_initial_metadata

    def _metadata(self, pairs: Any) -> Metadata:
        return self._recorder.redactor.metadata(pairs)

    def _begin(self, now: int, context: Any) -> list[Record]:
        metadata = self._metadata(self._details.invocation_metadata)
        opening = Opening(self._details.method, self._kind, metadata=metadata)
        if context is not None:
            left = context.time_remaining()
            self._time_left_ns = None if left is None or left > _FOREVER else int(left * 1e9)
            opening = Opening(
                self._details.method,
                self._kind,
                peer=context.peer(),
                authority=_authority(context),
                metadata=metadata,
                time_left_ns=self._time_left_ns,
            )
        return self._recorder.begin(self._tap, opening, now)

    def delivered(self) -> None:
        """The handler is about to get the message whose bytes are pending."""
        if self._pending:
            self.sink.observe(self._take_pending)

    @_harmless
    def half_closed(self) -> None:
        """The request iterator is exhausted: by a half-close, if the call is still alive. A reset can look like one for
        a moment; what the handler acts upon is what is written."""
        self.delivered()
        if self._undecodable:
            self.sink.observe(self._end_of_undecodable)
        elif self._context.is_active():
            self.sink.observe(self._tap.half_close)

    def exhausted(self) -> None:
        """The handler has no more responses."""
        self._ended()

    def iteration_raised(self, error: Exception) -> None:
        """The handler failed while it made a response."""
        self._raised("Exception iterating responses: {}", error)

    def _raised(self, text: str, error: Exception) -> None:
        try:
            text = text.format(error)
        except Exception:  # noqa: BLE001 - whatever the exception's own __str__ raises
            text = "Calling application raised unprintable Exception!"
        self._ended(text, grpc.StatusCode.UNKNOWN)

    @_harmless
    def _ended(self, details: str = "", code: grpc.StatusCode = grpc.StatusCode.OK) -> None:
        """grpcio is about to send the status. What the handler has set goes before what its course suggests."""
        context = self._context
        if not context.is_active():
            return
        own_code, own_details = context.code(), context.details()
        if own_code is not None:
            code = own_code if isinstance(own_code, grpc.StatusCode) else grpc.StatusCode.UNKNOWN
        if own_details is not None:
            details = own_details.decode("utf-8", "replace") if isinstance(own_details, bytes) else own_details
        metadata = self._metadata(context.trailing_metadata())
        number: int = code.value[0]
        self.sink.observe(lambda now: self._tap.status(now, number, details, metadata))

    def _terminated(self) -> None:
        """In the serving thread, at the end of every call. One without a status was ended by client or deadline."""
        if self._tap.ended:
            return
        if self._undecodable:
            self.sink.post(self._end_of_undecodable)
            return
        slack = _CLOCK_SLACK + _DEADLINE_SLACK * (self._time_left_ns or 0) / 1e9
        why = "deadline" if self._context.time_remaining() <= slack else "client"
        self.sink.post(lambda now: self._tap.cancel(now, why))


def _authority(context: Any) -> str:
    """The call's `:authority`. grpcio has it and shows it nowhere; where it moves, the capture has none."""
    host = getattr(getattr(getattr(context, "_rpc_event", None), "call_details", None), "host", b"")
    return host.decode("utf-8", "replace") if isinstance(host, bytes) else str(host)


class _Requests:
    """A handler's request iterator, watched: it iterates, and is otherwise the one it stands for."""

    def __init__(self, inner: Any, watch: _Watch) -> None:
        self._inner = inner
        self._watch = watch

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            request = next(self._inner)
        except StopIteration:
            self._watch.half_closed()
            raise
        except Exception:
            self._watch.delivered()  # what was read before the call was cancelled
            raise
        self._watch.delivered()
        return request

    next = __next__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Responses:
    """A handler's response iterator, watched for its end."""

    def __init__(self, inner: Any, watch: _Watch) -> None:
        self._inner = inner
        self._watch = watch

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            response = next(self._inner)
        except StopIteration:
            self._watch.exhausted()
            raise
        except Exception as error:
            self._watch.iteration_raised(error)
            raise
        if response is None:  # grpcio takes it for the end
            self._watch.exhausted()
        return response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
