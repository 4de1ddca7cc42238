"""A capture file against a target: is it fit for it, carry it out, judge. The library behind `capture-replay`.

Everything that keeps a verdict from being reached is a `CannotTell`, with one sentence; a verdict is never guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final

from capture_recorder import lens
from capture_recorder.capfile import CaptureError, CaptureReader, Catalog, Damage, Entry, Unknown, open_capture
from capture_recorder.capfile.decoder import DAMAGED, TORN, UNREADABLE
from capture_recorder.capfile.reader import Item
from capture_recorder.capfile.records import EVENT_TYPES, Call, Cancel, Gap, HalfClose, Message, Schema
from capture_recorder.capfile.schema import SchemaSet
from capture_recorder.text import counted

from .client import Client, TargetUnreachable
from .compare import VERDICTS
from .engine import Options, Outcome, carry_out
from .explain import Divergence, describe, explain, replaced
from .plan import Coherence, Step, plan
from .result import Result

SHOWN_DIVERGENCES: Final = 100


class CannotTell(Exception):
    """No verdict: the text is one sentence that says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What one pass over a capture tells before anything is sent. `steps` counts those that a replay will do."""

    condition: str
    schemas: SchemaSet
    calls: int
    steps: int


def survey(reader: CaptureReader, calls: Collection[int] = (), *, allow_torn: bool = False) -> Survey:
    """Look at every record. Raises CannotTell where a replay could prove nothing."""
    if reader.size is None:
        raise CannotTell(f"{reader.name}: a pipe can be read once and a replay reads twice; save the capture to a file")
    schemas = SchemaSet()
    complaints = _Complaints(calls)
    seen: set[int] = set()
    steps = 0
    for item in reader.scan():
        complaints.look_at(item)
        record = item.record if isinstance(item, Entry) else None
        if isinstance(record, Schema):
            schemas.add(record)
        elif isinstance(record, EVENT_TYPES) and (not calls or record.call in calls):
            steps += 1
            seen.add(record.call)
    _refuse(reader, allow_torn=allow_torn)
    if complaints.first is not None:
        raise CannotTell(f"{reader.name}: {complaints.first}")
    missing = sorted(set(calls) - seen)
    if missing:
        raise CannotTell(f"{reader.name}: there is no call {missing[0]} in it; `capture-file frames` lists its calls")
    if not steps:
        raise CannotTell(f"{reader.name}: there is nothing in it to be replayed")
    return Survey(reader.condition, schemas, len(seen), steps)


class _Complaints:
    """The first thing in a capture, besides damage, for which a replay of these calls could prove nothing."""

    def __init__(self, calls: Collection[int]) -> None:
        self.first: str | None = None
        self._calls = calls
        self._coherence = Coherence()

    def look_at(self, item: Item) -> None:
        """The next item of a scan."""
        if self.first is None:
            self.first = self._complaint(item)

    def _complaint(self, item: Item) -> str | None:
        if isinstance(item, Unknown) and item.critical:
            return (
                f"record {item.seq} at offset {item.offset} is of type {item.type}, which this version does not know; "
                "use a newer capture-replay"
            )
        if not isinstance(item, Entry):
            return None
        record = item.record
        if isinstance(record, Gap) and (not self._calls or record.call is None or record.call in self._calls):
            return (
                f"{counted(record.events, 'event')} lost before record {item.seq} ({record.why}); "
                "a capture with a gap cannot be replayed as if it were whole"
            )
        if isinstance(record, EVENT_TYPES):
            fault = self._coherence.fault(item.seq, record)
            return None if fault is None else f"{fault} (offset {item.offset}); no recorder writes that"
        return None


def _refuse(reader: CaptureReader, *, allow_torn: bool) -> None:
    if reader.condition == DAMAGED:
        first = next((item for item in reader.scan() if isinstance(item, Damage)), None)
        where = f"{first}" if first else "its trailer does not match its records"
        raise CannotTell(f"{reader.name}: the capture is damaged: {where}; `capture-file info` lists all of it")
    if reader.condition == TORN and not allow_torn:
        raise CannotTell(
            f"{reader.name}: the capture is torn: the recorder did not close it, at offset {reader.size}; "
            "what is whole of it can be replayed with --allow-torn"
        )


async def replay_capture(
    file: str,
    connect: Callable[[], Awaitable[Client]],
    *,
    options: Options | None = None,
    calls: Collection[int] = (),
    allow_torn: bool = False,
    started: Callable[[Survey], None] = lambda _survey: None,
    progress: Callable[[Step], None] = lambda _step: None,
) -> Result:
    """Replay one capture file against the target that `connect` gives a client of. Never raises for what the file or
    the target does: a `Result` with an `error` says it."""
    condition = UNREADABLE
    try:
        with open_capture(file) as reader:
            surveyed = survey(reader, calls, allow_torn=allow_torn)
            condition = surveyed.condition
            client = await connect()
            started(surveyed)
            steps = plan(reader.entries(), calls)
            outcome = await carry_out(steps, client, options or Options(), progress)
            if outcome.steps != surveyed.steps:
                raise CannotTell(f"{file}: the file changed while it was replayed")
            return _judge(file, reader, surveyed, outcome)
    except (CaptureError, CannotTell, TargetUnreachable) as error:
        return Result(file, _condition_of(file, condition), error=str(error))


def _condition_of(file: str, known: str) -> str:
    """The condition of a file that was refused, as far as it can be read."""
    if known != UNREADABLE:
        return known
    try:
        with open_capture(file) as reader:
            return reader.condition
    except CaptureError:
        return UNREADABLE


def _with_cause(divergence: Divergence, reader: CaptureReader, schemas: SchemaSet) -> Divergence:
    """Say in words which request led to it."""
    entry = Catalog(reader).read(divergence.cause) if divergence.cause else None
    if entry is None or not isinstance(entry.record, (Call, Message, HalfClose, Cancel)):
        return divergence
    text = describe(entry.record)
    if isinstance(entry.record, Message):
        decoded = schemas.decode(divergence.method, entry.record.direction, entry.record.payload)
        if decoded.message is not None:
            size = len(entry.record.payload)
            text = f"{lens.read(divergence.method, decoded.message).summary} ({size:,} bytes)"
    return replaced(divergence, cause_text=text)


def _judge(file: str, reader: CaptureReader, surveyed: Survey, outcome: Outcome) -> Result:
    counts: Counter[str] = Counter()
    divergences: list[Divergence] = []
    stalls = {(stall.call, stall.event) for stall in outcome.stalls}
    for number, call in outcome.calls.items():
        counts += call.comparison.counts
        for finding in call.comparison.findings:
            stalled = (number, finding.seq) in stalls and finding.verdict == "missing"
            ended = call.comparison.status_came
            divergences.append(explain(call.recorded, finding, surveyed.schemas, stalled=stalled, ended=ended))
    divergences.sort(key=lambda divergence: (divergence.event, divergence.after))
    if divergences:
        divergences[0] = _with_cause(divergences[0], reader, surveyed.schemas)
    return Result(
        file,
        surveyed.condition,
        len(outcome.calls),
        {verdict: counts[verdict] for verdict in VERDICTS},
        tuple(divergences[:SHOWN_DIVERGENCES]),
        tuple(sorted(outcome.withheld)),
        outcome.gave_up,
    )
