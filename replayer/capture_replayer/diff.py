"""Two captures compared event by event, as a replay compares: requests too, since here both sides have them.

The n-th call of a method in one is held against the n-th of that method in the other; both are read side by side, so
that as long as they agree nothing of them is kept. Times, and the order between calls, are not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Final

from capture_recorder.capfile import CaptureReader, Damage, Entry
from capture_recorder.capfile.records import (
    EVENT_TYPES,
    REQUEST,
    Call,
    Cancel,
    Event,
    Gap,
    HalfClose,
    Headers,
    Message,
    Schema,
    Status,
)
from capture_recorder.capfile.schema import SchemaSet

from .compare import VERDICTS, Answer, Comparison, Expected, HeadersCame, MessageCame, StatusCame
from .explain import Divergence, describe, explain
from .judge import RulesJudge
from .result import Result
from .rules import Rules

SHOWN: Final = 100  # divergences that are kept

_A, _B = 0, 1
_Key = tuple[str, int]
"""A method, and which of its calls."""


@dataclass(slots=True)
class _Pair:
    """A call of each capture, of which either may be missing. Requests and responses are compared each for themselves:
    how they interleave is timing."""

    key: _Key
    requests: Comparison
    responses: Comparison
    calls: list[Call | None] = field(default_factory=lambda: [None, None])
    seqs: list[int] = field(default_factory=lambda: [0, 0])  # of their beginnings
    ends: list[dict[str, tuple[int, HalfClose | Cancel]]] = field(default_factory=lambda: [{}, {}])
    events: list[int] = field(default_factory=lambda: [0, 0])
    ended: list[bool] = field(default_factory=lambda: [False, False])


class Unreadable(Exception):
    """A capture that cannot be compared; the text is one sentence."""


MakeJudge = Callable[[Callable[[], SchemaSet]], RulesJudge]
"""A judge, over the schema that it is given."""


STRICT: Final[MakeJudge] = partial(RulesJudge, Rules())


def diff(a: CaptureReader, b: CaptureReader, make_judge: MakeJudge = STRICT) -> Result:
    """`a` is what was expected, `b` what came instead. A Result with an error where one of them is not whole."""
    counts: Counter[str] = Counter()
    divergences: list[Divergence] = []
    schemas = SchemaSet()
    judge = make_judge(lambda: schemas)
    try:
        gaps: Counter[str] = Counter()
        calls = _compare(a, b, schemas, judge, counts, divergences, gaps)
    except Unreadable as error:
        return Result(b.name, b.condition, error=str(error))
    divergences.sort(key=lambda divergence: (divergence.event, divergence.after))
    kept = tuple(divergences[:SHOWN])
    counted = {verdict: counts[verdict] for verdict in VERDICTS}
    accepts = judge.accepts("equivalent")
    return Result(
        b.name, b.condition, calls, counted, kept, accepts_equivalent=accepts, gaps=gaps.total(), used=judge.used
    )


def _compare(
    a: CaptureReader,
    b: CaptureReader,
    schemas: SchemaSet,
    judge: RulesJudge,
    counts: Counter[str],
    divergences: list[Divergence],
    gaps: Counter[str],
) -> int:
    pairs: dict[_Key, _Pair] = {}
    keys: tuple[dict[int, _Key], dict[int, _Key]] = ({}, {})  # of the open calls of each side
    begun: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    calls = 0
    for entries in zip_longest(_events(a, schemas, gaps), _events(b, SchemaSet(), gaps)):
        for side, entry in enumerate(entries):
            if entry is None:
                continue
            event = entry.record
            assert isinstance(event, EVENT_TYPES)
            if isinstance(event, Call):
                keys[side][event.call] = (event.method, begun[side][event.method])
                begun[side][event.method] += 1
            key = keys[side].get(event.call)
            if key is None:
                continue  # no recorder writes an event of a call that is not open
            if key not in pairs:
                calls += 1
                method = key[0]
                pairs[key] = _Pair(key, Comparison(method, judge, direction=REQUEST), Comparison(method, judge))
            pair = pairs[key]
            _take(pair, side, entry.seq, event)
            if pair.ended[side]:
                del keys[side][event.call]
            if all(pair.ended):
                divergences += _finish(pairs.pop(key), judge, counts)
    for pair in pairs.values():
        divergences += _finish(pair, judge, counts)
    return calls


def _events(reader: CaptureReader, schemas: SchemaSet, gaps: Counter[str]) -> Iterator[Entry]:
    for item in reader.scan():
        if isinstance(item, Damage):
            raise Unreadable(
                f"{reader.name}: the capture is not whole: {item}; make a clean one of it first: `capture-file recover`"
            )
        if isinstance(item, Entry) and isinstance(item.record, Schema):
            schemas.add(item.record)
        elif isinstance(item, Entry) and isinstance(item.record, Gap):
            gaps[reader.name] += 1
        elif isinstance(item, Entry) and isinstance(item.record, EVENT_TYPES):
            yield item


def _take(pair: _Pair, side: int, seq: int, event: Event) -> None:
    """The next event of one side."""
    pair.events[side] += 1
    if isinstance(event, (HalfClose, Cancel)):
        pair.ends[side][event.NAME] = (seq, event)
    elif isinstance(event, Call):
        pair.calls[side], pair.seqs[side] = event, seq
        opening = Headers(call=event.call, time_ns=event.time_ns, metadata=event.metadata)
        _put(pair.requests, side, seq, opening)
    elif isinstance(event, Message) and event.direction == REQUEST:
        _put(pair.requests, side, seq, event)
        if side == _A:
            pair.responses.did(seq)
    else:
        _put(pair.responses, side, seq, event)
    pair.ended[side] |= isinstance(event, (Status, Cancel))


def _put(comparison: Comparison, side: int, seq: int, event: Expected) -> None:
    if side == _A:
        comparison.want(seq, event)
    else:
        comparison.came(_as_answer(event))


def _as_answer(event: Expected) -> Answer:
    match event:
        case Headers(metadata=metadata):
            return HeadersCame(metadata)
        case Message(payload=payload):
            return MessageCame(payload)
        case Status(code=code, message=message, metadata=metadata):
            return StatusCame(code, message, metadata)


def _finish(pair: _Pair, judge: RulesJudge, counts: Counter[str]) -> list[Divergence]:
    """What the pair comes to."""
    a, b = pair.calls
    if a is None or b is None:
        return [_alone(pair, counts)]
    found: list[Divergence] = []
    for comparison, direction in ((pair.requests, "request"), (pair.responses, "response")):
        comparison.finish()
        counts.update(comparison.counts)
        ended = comparison.status_came
        found += (explain(a, finding, judge, ended=ended, direction=direction) for finding in comparison.findings)
    for name in sorted({*pair.ends[_A], *pair.ends[_B]}):
        wanted, came = pair.ends[_A].get(name), pair.ends[_B].get(name)
        verdict = "missing" if came is None else "extra" if wanted is None else "identical"
        if wanted and came and isinstance(wanted[1], Cancel) and wanted[1] != _like(came[1], wanted[1]):
            verdict = "different"
        counts[verdict] += 1
        if verdict != "identical":
            seq = wanted[0] if wanted else pair.seqs[_A]
            found.append(
                Divergence(
                    a.call, seq, name, a.method, verdict, "request", None, wanted is None,
                    expected=describe(wanted[1]) if wanted else None, actual=describe(came[1]) if came else None,
                )
            )  # fmt: skip
    return found


def _like(event: HalfClose | Cancel, other: HalfClose | Cancel) -> HalfClose | Cancel:
    """The event with the call and the time of the other, so that the rest can be compared."""
    why = event.why if isinstance(event, Cancel) else ""
    return Cancel(call=other.call, time_ns=other.time_ns, why=why, extra=other.extra)


def _alone(pair: _Pair, counts: Counter[str]) -> Divergence:
    """A call that only one of the captures has."""
    side = _A if pair.calls[_A] is not None else _B
    call = pair.calls[side]
    assert call is not None
    verdict = "missing" if side == _A else "extra"
    counts[verdict] += pair.events[side]
    words = f"{describe(call)}, with {pair.events[side]:,} events"
    expected, actual = (words, None) if side == _A else (None, words)
    return Divergence(
        call.call, pair.seqs[side], "open", call.method, verdict, "request", expected=expected, actual=actual
    )
