"""ShardRuntime over gRPC: the thin side. What is answered is in `session.py`, who may change what in `store.py`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from crc32c import crc32c

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb

from . import bundle as bundles
from . import session as sessions
from .build import tensor
from .session import Answer, Refusal
from .store import CapacityExhausted, Store

MAX_ID: Final = 1024  # characters of an id that state is kept under


class ShardRuntime:
    """One worker. `clock` tells the time that deadlines are held against, in ns since 1970."""

    def __init__(
        self, *, clock: Callable[[], int] = time.time_ns, workers: int = 64, store: Store | None = None
    ) -> None:
        self._clock = clock
        self._workers = workers
        self._store = store or Store()
        self._lock = threading.Lock()
        self._queued = self._resident = 0
        self._validated, self._detail = self_check()
        self.state = pb.SERVING_STATE_STARTING

    # --- Session -----------------------------------------------------------------------------------------------------

    def Session(self, requests: Iterator[pb.SessionRequest], context: Any) -> Iterator[pb.SessionResponse]:  # noqa: N802
        """The long stream: each request gets one answer, in its order."""
        opened: str | None = None
        try:
            for request in requests:
                if request.WhichOneof("kind") == "open":
                    answer = self._open(opened, request.open)
                    if opened is None and answer.response.HasField("accepted"):
                        opened = request.open.route_session_id
                elif opened is None:
                    known = request.WhichOneof("kind") is not None
                    answer = sessions.not_open() if known else sessions.unknown("")
                else:
                    answer = self._handle(opened, request)
                yield answer.response
                if answer.ends:
                    return
        finally:
            if opened is not None:
                self._store.detach(opened)

    def _open(self, opened: str | None, request: pb.SessionOpen) -> Answer:
        session_id = request.route_session_id
        refusal = sessions.open_refusal(opened, request)
        if refusal is None and len(session_id) > MAX_ID:
            refusal = Refusal(pb.ERROR_CODE_INVALID_REQUEST, f"a session id of {len(session_id)} characters")
        if refusal is None:
            try:
                with self._store.locked(session_id) as session:
                    answer = sessions.do_open(session, request)
                    if opened is None and answer.response.HasField("accepted"):
                        self._store.attach(session_id)
                    return answer
            except CapacityExhausted:
                detail = f"all {self._store.capacity} sessions have a stream"
                refusal = Refusal(pb.ERROR_CODE_CAPACITY_EXHAUSTED, detail)
        return Answer(sessions.refused(session_id[:MAX_ID], refusal))

    def _handle(self, session_id: str, request: pb.SessionRequest) -> Answer:
        with self._counted(request):
            try:
                work = sessions.look_at(self._store.peek(session_id), request)
                with self._store.locked(session_id) as session:
                    if not session.opened:  # released by somebody else meanwhile
                        return sessions.not_open(session_id)
                    if work is not None:
                        return sessions.do_work(session, work, self._clock())
                    answer = sessions.do_other(session, request)
            except CapacityExhausted:
                return sessions.not_open(session_id)
        if answer.drops:
            self._store.drop(session_id)
        return answer

    @contextmanager
    def _counted(self, request: pb.SessionRequest) -> Iterator[None]:
        """The figures of Health, while a chunk is between its arrival and its answer."""
        is_chunk = request.WhichOneof("kind") in ("chunk", "decode")
        size = request.ByteSize() if is_chunk else 0
        with self._lock:
            self._queued += is_chunk
            self._resident += size
        try:
            yield
        finally:
            with self._lock:
                self._queued -= is_chunk
                self._resident -= size

    # --- unary -------------------------------------------------------------------------------------------------------

    def Cancel(self, request: pb.CancelRequest, context: Any) -> pb.CancelResponse:  # noqa: N802
        """A work item or a session, on whatever connection, open or not yet."""
        if len(request.route_session_id) > MAX_ID or len(request.work_id) > MAX_ID:
            return pb.CancelResponse()
        try:
            with self._store.locked(request.route_session_id) as session:
                newly = sessions.cancel(session, request.work_id, sessions.CANCELLED)
        except CapacityExhausted:
            newly = 0
        return pb.CancelResponse(cancelled_work_items=newly)

    def Release(self, request: pb.ReleaseRequest, context: Any) -> pb.ReleaseResponse:  # noqa: N802
        """Drop a session's state; whether there was a session."""
        return pb.ReleaseResponse(released=self._store.drop(request.route_session_id))

    def GetCapability(self, request: pb.CapabilityRequest, context: Any) -> pb.CapabilityReport:  # noqa: N802
        """What this worker is. The time of the check is not told: no clock is in a response."""
        return pb.CapabilityReport(
            schema_version=pb.SCHEMA_VERSION_1,
            shard_range=pb.ShardRange(start_layer=0, end_layer=0, effective_start_layer=0),
            backend="echo",
            device="cpu",
            validated=self._validated,
            detail=self._detail,
            max_concurrent_sessions=self._store.capacity,
            flow_control=sessions.DEFAULT_FLOW,
            accepted_compression=[pb.COMPRESSION_NONE, pb.COMPRESSION_ZSTD],
            supported_schema_versions=sessions.SUPPORTED,
        )

    def Health(self, request: pb.HealthRequest, context: Any) -> pb.HealthReport:  # noqa: N802
        """How it is doing: counted, not estimated."""
        active = self._store.active
        with self._lock:
            queued, resident = self._queued, self._resident
        return pb.HealthReport(
            schema_version=pb.SCHEMA_VERSION_1,
            state=self.state,
            active_sessions=active,
            queued_chunks=queued,
            batch_occupancy=min(1.0, queued / self._workers),
            kv_pressure=active / self._store.capacity,
            resident_bytes=resident,
        )


def self_check() -> tuple[bool, str]:
    """Run the checksum and the echo path for real: (whether they work, what was found)."""
    if crc32c(b"123456789") != 0xE3069283:
        return False, "the checksum is not Castagnoli's"
    data = bytes(range(256)) * 16
    session = sessions.Session("self-check")
    sessions.do_open(session, pb.SessionOpen(schema_version=pb.SCHEMA_VERSION_1, route_session_id="self-check"))
    good, bad = tensor("t", data, parts=3), tensor("t", data, parts=3)
    bad.checksum.value = bytes(4)
    for step, (sample, expected) in enumerate(((good, "chunk"), (bad, "status"))):
        envelope = pb.Envelope(schema_version=pb.SCHEMA_VERSION_1, route_session_id="self-check", idempotency_step=step)
        bundle = pb.TensorBundle(bundle_version=1, tensors=[sample])
        request = pb.SessionRequest(chunk=pb.ActivationChunk(envelope=envelope, bundle=bundle))
        work = sessions.look_at(session, request)
        assert work is not None
        response = sessions.do_work(session, work, 0).response
        if response.WhichOneof("kind") != expected or (expected == "chunk" and response.chunk != request.chunk):
            return False, f"the echo path answered {response.WhichOneof('kind')} where {expected} was due"
    return True, f"checksum and echo checked on {len(data)} bytes; chunks up to {bundles.HARD_LIMIT} bytes"
