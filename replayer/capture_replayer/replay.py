"""One capture against one target: is it fit for it, carry it out, judge.

Everything that keeps a verdict from being reached is a `CannotTell`, with one sentence; a verdict is never guessed.
Which targets, how often and how many captures at once: `runner.py`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from capture_recorder import lens
from capture_recorder.capfile import CaptureReader, Catalog, Damage, Entry, Unknown, open_capture
from capture_recorder.capfile.decoder import DAMAGED, TORN
from capture_recorder.capfile.reader import Item
from capture_recorder.capfile.records import EVENT_TYPES, Call, Cancel, Gap, HalfClose, Message, Meta, Schema
from capture_recorder.capfile.schema import SchemaSet
from capture_recorder.text import counted

from .client import Client
from .compare import VERDICTS
from .engine import Gate, Observer, Options, Outcome, carry_out
from .explain import Divergence, describe, explain
from .judge import RulesJudge
from .plan import Coherence, Step, plan
from .races import Choice, Race, RaceFinder, in_order
from .result import Result
from .rules import Rules

SHOWN_DIVERGENCES: Final = 100
KEPT: Final = 4 << 20
"""Bytes of a capture whose steps are kept from the survey, so that the replay does not read it again."""


class CannotTell(Exception):
    """No verdict: the text is one sentence that says why, and what to do."""


@dataclass
class Survey:
    """What one pass over a capture tells before anything is sent. `steps` counts those that a replay will do."""

    condition: str
    calls: int
    steps: int
    meta: Meta | None = None
    races: list[Race] = field(default_factory=list)
    schema_records: list[Schema] = field(default_factory=list)
    kept: list[Step] | None = None  # all steps, of a small capture

    @cached_property
    def schemas(self) -> SchemaSet:
        """The embedded schema. Linked when it is wanted: a replay that is identical never looks."""
        schemas = SchemaSet()
        for record in self.schema_records:
            schemas.add(record)
        return schemas


def survey(reader: CaptureReader, calls: Collection[int] = (), *, allow_torn: bool = False) -> Survey:
    """Look at every record. Raises CannotTell where a replay could prove nothing."""
    if reader.size is None:
        raise CannotTell(f"{reader.name}: a pipe can be read once and a replay reads twice; save the capture to a file")
    found = Survey("", 0, 0, kept=[] if reader.size <= KEPT else None)
    complaints = _Complaints(calls)
    races = RaceFinder()
    seen: set[int] = set()
    for step in plan(_looked_at(reader, complaints, found), calls):
        found.steps += 1
        seen.add(step.event.call)
        races.look_at(step)
        if found.kept is not None:
            found.kept.append(step)
    races.finish()
    _refuse(reader, allow_torn=allow_torn)
    if complaints.first is not None:
        raise CannotTell(f"{reader.name}: {complaints.first}")
    missing = sorted(set(calls) - seen)
    if missing:
        raise CannotTell(f"{reader.name}: there is no call {missing[0]} in it; `capture-file frames` lists its calls")
    if not found.steps:
        raise CannotTell(f"{reader.name}: there is nothing in it to be replayed")
    found.condition, found.calls, found.races = reader.condition, len(seen), races.races
    return found


def _looked_at(reader: CaptureReader, complaints: _Complaints, found: Survey) -> Iterator[Entry]:
    """The entries of a scan; what else is learned of them is kept."""
    for item in reader.scan():
        complaints.look_at(item)
        if not isinstance(item, Entry):
            continue
        if isinstance(item.record, Schema):
            found.schema_records.append(item.record)
        elif isinstance(item.record, Meta) and found.meta is None:
            found.meta = item.record
        yield item


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


@dataclass(frozen=True, slots=True)
class Prepared:
    """A capture that can be replayed."""

    file: str
    reader: CaptureReader
    survey: Survey
    calls: Collection[int] = ()


@contextlib.contextmanager
def prepared(file: str, calls: Collection[int] = (), *, allow_torn: bool = False) -> Iterator[Prepared]:
    """Open a capture for replays. Raises CaptureError and CannotTell."""
    with open_capture(file) as reader:
        yield Prepared(file, reader, survey(reader, calls, allow_torn=allow_torn), calls)


async def replay_once(
    capture: Prepared,
    client: Client,
    *,
    options: Options | None = None,
    rules: Rules | None = None,
    choice: Choice | None = None,
    observer: Observer | None = None,
    progress: Callable[[Step], None] = lambda _step: None,
    gate: Gate | None = None,
) -> Result:
    """Replay a capture against the client's target, its races in the order of `choice`. Raises CannotTell and
    CaptureError."""
    steps: Iterable[Step] = capture.survey.kept or plan(capture.reader.entries(), capture.calls)
    if choice:
        steps = in_order(steps, choice)
    judge = RulesJudge(rules or Rules(), lambda: capture.survey.schemas)
    outcome = await carry_out(
        steps,
        client,
        options or Options(),
        progress,
        judge=judge,
        observer=observer,
        single=capture.survey.calls == 1,
        gate=gate,
    )
    if outcome.steps != capture.survey.steps and not outcome.stopped:
        raise CannotTell(f"{capture.file}: the file changed while it was replayed")
    return _result(capture, outcome, judge)


def _result(capture: Prepared, outcome: Outcome, judge: RulesJudge) -> Result:
    counts: Counter[str] = Counter()
    divergences: list[Divergence] = []
    stalls = {(stall.call, stall.event): stall for stall in outcome.stalls}
    for number, call in outcome.calls.items():
        counts += call.comparison.counts
        for finding in call.comparison.findings:
            stall = stalls.get((number, finding.seq)) if finding.verdict == "missing" else None
            ended = call.comparison.status_came
            divergences.append(explain(call.recorded, finding, judge, stall=stall, ended=ended))
    divergences.sort(key=lambda divergence: (divergence.event, divergence.after))
    if divergences:
        divergences[0] = _with_cause(divergences[0], capture)
    return Result(
        capture.file,
        capture.survey.condition,
        len(outcome.calls),
        {verdict: counts[verdict] for verdict in VERDICTS},
        tuple(divergences[:SHOWN_DIVERGENCES]),
        accepts_equivalent=judge.accepts("equivalent"),
        withheld=tuple(sorted(outcome.withheld)),
        gave_up=outcome.gave_up,
        stopped=outcome.stopped,
        flooded=tuple(sorted(number for number, call in outcome.calls.items() if call.flooded)),
        races=len(capture.survey.races),
        race=_race_before(capture.survey.races, divergences[0]) if divergences else None,
        used=judge.used,
    )


def _race_before(races: list[Race], divergence: Divergence) -> Race | None:
    """The race that a divergence may come from: the nearest before it that its call has a part in, or any."""
    before = [race for race in races if race.first <= divergence.event]
    of_call = [race for race in before if divergence.call in race.calls]
    return next(reversed(of_call or before), None)


def _with_cause(divergence: Divergence, capture: Prepared) -> Divergence:
    """Say in words which request led to it."""
    entry = Catalog(capture.reader).read(divergence.cause) if divergence.cause else None
    if entry is None or not isinstance(entry.record, (Call, Message, HalfClose, Cancel)):
        return divergence
    text = describe(entry.record)
    if isinstance(entry.record, Message):
        decoded = capture.survey.schemas.decode(divergence.method, entry.record.direction, entry.record.payload)
        if decoded.message is not None:
            size = len(entry.record.payload)
            text = f"{lens.read(divergence.method, decoded.message).summary} ({size:,} bytes)"
    return replace(divergence, cause_text=text)
