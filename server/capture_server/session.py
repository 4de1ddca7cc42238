"""What a Session answers. Pure: a session's state and a request in, the answer and the change of the state out.

The checks are an ordered table: the first that applies decides. No clock, no random value and no lock is in here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb

from . import bundle as bundles

DEFAULT_FLOW: Final = pb.FlowControl(
    credits_granted=16, max_inflight_chunks=16, max_chunk_bytes=4 * 1024 * 1024, max_prefill_chunk_tokens=512
)
SUPPORTED: Final = (pb.SCHEMA_VERSION_1,)
CANCELLED: Final = "cancelled"
_KEPT: Final = 1_000_000  # applied steps, and cancelled work items, of one session: memory has an end

Step = tuple[str, int]


@dataclass(slots=True)
class Session:
    """A session's state. It can hold cancellations before it is open. Whoever shares it holds a lock."""

    session_id: str
    opened: bool = False
    epoch: int = 0
    credits: int = 0
    flow: pb.FlowControl = field(default_factory=pb.FlowControl)
    applied: dict[Step, None] = field(default_factory=dict)
    cancelled: dict[str, str] = field(default_factory=dict)  # work id: reason
    reason: str | None = None  # why the whole session was cancelled

    @property
    def active(self) -> bool:
        """Whether it is open and can still do work."""
        return self.opened and self.reason is None

    @property
    def chunk_limit(self) -> int:
        """Bytes of a chunk that it takes."""
        return self.flow.max_chunk_bytes or bundles.HARD_LIMIT


@dataclass(frozen=True, slots=True)
class Work:
    """A chunk or a decode step, looked at outside of any lock. `fault`: what is wrong with its bundle."""

    envelope: pb.Envelope
    answer: pb.ActivationChunk
    checks_epoch: bool
    size: int
    fault: str | None

    @property
    def step(self) -> Step:
        return self.envelope.work_id, self.envelope.idempotency_step


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error of the table."""

    code: pb.ErrorCode
    detail: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a request; `ends` says that the stream ends with it, `drops` that the session's state goes."""

    response: pb.SessionResponse
    ends: bool = False
    drops: bool = False


# --- work: the table --------------------------------------------------------------------------------------------------

Check = Callable[[Session, Work, int], "Refusal | pb.Ack | None"]


def _schema(session: Session, work: Work, now: int) -> Refusal | None:
    if work.envelope.schema_version in SUPPORTED:
        return None
    return Refusal(pb.ERROR_CODE_UNSUPPORTED_SCHEMA, f"schema version {work.envelope.schema_version}, supported: 1")


def _mismatch(session: Session, work: Work, now: int) -> Refusal | None:
    named = work.envelope.route_session_id
    if named == session.session_id:
        return None
    return Refusal(pb.ERROR_CODE_SESSION_MISMATCH, f"session {named!r} on a stream of session {session.session_id!r}")


def _cancelled(session: Session, work: Work, now: int) -> Refusal | None:
    reason = session.reason if session.reason is not None else session.cancelled.get(work.envelope.work_id)
    return None if reason is None else Refusal(pb.ERROR_CODE_CANCELLED, reason)


def _stale(session: Session, work: Work, now: int) -> Refusal | None:
    if not work.checks_epoch or work.envelope.route_epoch >= session.epoch:
        return None
    return Refusal(pb.ERROR_CODE_EPOCH_STALE, f"route epoch {work.envelope.route_epoch} is older than {session.epoch}")


def _expired(session: Session, work: Work, now: int) -> Refusal | None:
    deadline = work.envelope.deadline_unix_nanos
    if deadline == 0 or now <= deadline:
        return None
    return Refusal(pb.ERROR_CODE_DEADLINE_EXCEEDED, f"the deadline {deadline} has passed")


def _duplicate(session: Session, work: Work, now: int) -> pb.Ack | None:
    if work.step not in session.applied:
        return None
    return pb.Ack(work_id=work.step[0], idempotency_step=work.step[1], duplicate=True)


def _no_credit(session: Session, work: Work, now: int) -> Refusal | None:
    return (
        Refusal(pb.ERROR_CODE_FLOW_CONTROL_VIOLATION, "no credit left", retryable=True) if not session.credits else None
    )


def _too_large(session: Session, work: Work, now: int) -> Refusal | None:
    if work.size <= session.chunk_limit:
        return None
    return Refusal(pb.ERROR_CODE_FLOW_CONTROL_VIOLATION, f"a chunk of {work.size} bytes, limit {session.chunk_limit}")


def _corrupt(session: Session, work: Work, now: int) -> Refusal | None:
    return None if work.fault is None else Refusal(pb.ERROR_CODE_PAYLOAD_CORRUPT, work.fault)


CHECKS: Final[tuple[Check, ...]] = (
    _schema,
    _mismatch,
    _cancelled,
    _stale,
    _expired,
    _duplicate,
    _no_credit,
    _too_large,
    _corrupt,
)


def look_at(session: Session, request: pb.SessionRequest) -> Work | None:
    """A request as work, its bundle inspected; None if it is none. Slow: to be called without the lock."""
    match request.WhichOneof("kind"):
        case "chunk":
            chunk = request.chunk
            bundle = chunk.bundle if chunk.HasField("bundle") else None
            return _work(session, chunk.envelope, chunk, bundle, checks_epoch=True)
        case "decode":
            answer = _decoded(session, request.decode)
            bundle = answer.bundle if answer.HasField("bundle") else None
            return _work(session, answer.envelope, answer, bundle, checks_epoch=False)
    return None


def _work(
    session: Session,
    envelope: pb.Envelope,
    answer: pb.ActivationChunk,
    bundle: pb.TensorBundle | None,
    *,
    checks_epoch: bool,
) -> Work:
    if bundle is None:
        return Work(envelope, answer, checks_epoch, 0, "there is no tensor in it")
    size = bundles.size(bundle)
    fault = bundles.fault(bundle) if size <= session.chunk_limit else None  # refused for its size, unseen
    return Work(envelope, answer, checks_epoch, size, fault)


def _decoded(session: Session, step: pb.DecodeStep) -> pb.ActivationChunk:
    """What a decode step is answered with, if it is taken."""
    chunk = pb.ActivationChunk(
        envelope=pb.Envelope(
            schema_version=pb.SCHEMA_VERSION_1,
            work_id=step.work_id,
            route_session_id=session.session_id,
            route_epoch=session.epoch,
            idempotency_step=step.idempotency_step,
            phase=pb.PHASE_DECODE,
            position=pb.PositionSpan(first_position=step.position, token_count=1),
            deadline_unix_nanos=step.deadline_unix_nanos,
        )
    )
    if step.HasField("bundle"):
        chunk.bundle.CopyFrom(step.bundle)
    elif step.HasField("tensor"):
        chunk.bundle.CopyFrom(
            pb.TensorBundle(
                bundle_version=1,
                tensors=[step.tensor],
                architecture=pb.ARCHITECTURE_TYPE_DENSE,
                boundary_point="pre_tail_residual",
            )
        )
    return chunk


def do_work(session: Session, work: Work, now: int) -> Answer:
    """Hold the work against the table; taken, it is applied and costs a credit. `now`: ns since 1970."""
    for check in CHECKS:
        found = check(session, work, now)
        if isinstance(found, pb.Ack):
            return Answer(pb.SessionResponse(ack=found))
        if found is not None:
            return Answer(refused(session.session_id, found, work.step))
    if not work.checks_epoch:  # a decode step has none of its own: it is of the epoch that it was taken in
        work.answer.envelope.route_epoch = session.epoch
    session.credits -= 1
    session.applied[work.step] = None
    _forget_the_oldest(session.applied)
    return Answer(pb.SessionResponse(chunk=work.answer))


def refused(session_id: str, refusal: Refusal, step: Step = ("", 0), *, terminal: bool = False) -> pb.SessionResponse:
    """An error as a response."""
    return pb.SessionResponse(
        status=pb.ShardStatus(
            work_id=step[0],
            route_session_id=session_id,
            idempotency_step=step[1],
            error=pb.ShardError(code=refusal.code, detail=refusal.detail, retryable=refusal.retryable),
            terminal=terminal,
        )
    )


# --- everything else --------------------------------------------------------------------------------------------------


def open_refusal(stream_session: str | None, request: pb.SessionOpen) -> Refusal | None:
    """What keeps an `open` from being looked at; `stream_session` is the session that the stream has open."""
    if request.schema_version not in SUPPORTED:
        return Refusal(pb.ERROR_CODE_UNSUPPORTED_SCHEMA, f"schema version {request.schema_version}, supported: 1")
    if stream_session not in (None, request.route_session_id):
        named, has = request.route_session_id, stream_session
        return Refusal(pb.ERROR_CODE_SESSION_MISMATCH, f"session {named!r} on a stream of session {has!r}")
    return None


def do_open(session: Session, request: pb.SessionOpen) -> Answer:
    """Open, or open again: applied steps and cancellations are kept, epoch and flow control are as proposed."""
    if session.opened and request.route_epoch < session.epoch:
        detail = f"route epoch {request.route_epoch} is older than {session.epoch}"
        return Answer(refused(session.session_id, Refusal(pb.ERROR_CODE_EPOCH_STALE, detail)))
    flow = request.proposed_flow_control if request.HasField("proposed_flow_control") else DEFAULT_FLOW
    session.opened, session.epoch, session.credits = True, request.route_epoch, flow.credits_granted
    session.flow = pb.FlowControl()
    session.flow.CopyFrom(flow)
    accepted = pb.SessionAccepted(
        schema_version=request.schema_version,
        route_session_id=request.route_session_id,
        route_epoch=request.route_epoch,
        flow_control=flow,
        accepted_compression=request.accepted_compression or [pb.COMPRESSION_NONE],
    )
    if request.HasField("fingerprint"):
        accepted.fingerprint.CopyFrom(request.fingerprint)
    return Answer(pb.SessionResponse(accepted=accepted))


def do_other(session: Session, request: pb.SessionRequest) -> Answer:
    """`flow_control`, `cancel`, `release`, and a kind that is empty or unknown."""
    match request.WhichOneof("kind"):
        case "flow_control":
            return Answer(pb.SessionResponse(flow_control=_grant(session, request.flow_control)))
        case "cancel":
            work_id, reason = request.cancel.work_id, request.cancel.reason or CANCELLED
            cancel(session, work_id, reason)
            refusal = Refusal(pb.ERROR_CODE_CANCELLED, reason)
            response = refused(session.session_id, refusal, (work_id, 0), terminal=not work_id)
            return Answer(response, ends=not work_id)
        case "release":
            status = pb.ShardStatus(work_id=request.release.work_id, route_session_id=session.session_id, terminal=True)
            return Answer(pb.SessionResponse(status=status), ends=True, drops=True)
    return unknown(session.session_id)


def unknown(session_id: str) -> Answer:
    """The answer to a kind that is empty or not known."""
    refusal = Refusal(pb.ERROR_CODE_INVALID_REQUEST, "a request without a kind, or of one that is not known")
    return Answer(refused(session_id, refusal, terminal=True), ends=True)


def not_open(session_id: str = "") -> Answer:
    """The answer to anything but `open` before an `open`."""
    return Answer(refused(session_id, Refusal(pb.ERROR_CODE_SESSION_NOT_OPEN, "the stream has no open session")))


def _grant(session: Session, grant: pb.FlowControl) -> pb.FlowControl:
    """Credits rise by what is granted, never above what may be in flight. What the session now has."""
    limit = session.flow.max_inflight_chunks
    risen = session.credits + grant.credits_granted
    session.credits = max(session.credits, min(risen, limit)) if limit else min(risen, 2**32 - 1)
    now = pb.FlowControl()
    now.CopyFrom(session.flow)
    now.credits_granted = session.credits
    return now


def cancel(session: Session, work_id: str, reason: str) -> int:
    """Cancel a work item, or with no `work_id` the session; how many are newly cancelled."""
    if not work_id:
        newly = session.reason is None
        session.reason = reason if newly else session.reason
        return int(newly)
    if work_id in session.cancelled:
        return 0
    session.cancelled[work_id] = reason
    _forget_the_oldest(session.cancelled)
    return 1


def _forget_the_oldest(kept: dict[Any, Any]) -> None:
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]
