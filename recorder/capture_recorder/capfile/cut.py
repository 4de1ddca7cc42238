"""Makes a smaller capture of one: some calls, a session, a span of time or of events. What it makes still replays.

A call is kept from its beginning, since what a server answers depends on all that it was told before: a span *chooses*
the calls that have an event in it, and its end is where the capture ends; a call that goes on there is left open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from .decoder import Damage
from .errors import CaptureWriteError, NothingLeft
from .output import Output
from .reader import CaptureReader, Entry, Unknown
from .records import EVENT_TYPES, Event, Gap, Meta, Note
from .rewrite import INDEX, Copier, derived_id, whole
from .writer import CaptureWriter

ENDLESS: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class Span:
    """Events by number, and by time in ns since the capture's time 0; both ends are in it."""

    first: int = 1
    last: int = ENDLESS
    since_ns: int = 0
    until_ns: int = ENDLESS

    def begins(self, seq: int, time_ns: int) -> bool:
        """Whether the event is not before the span."""
        return seq >= self.first and time_ns >= self.since_ns

    def ends(self, seq: int, time_ns: int) -> bool:
        """Whether the event is past it."""
        return seq > self.last or time_ns > self.until_ns


@dataclass(slots=True)
class Cut:
    """What was kept: how many calls and events, and of them how many calls are open where they were not."""

    calls: int = 0
    events: int = 0
    left_open: int = 0


def cut(
    source: CaptureReader,
    output: Output,
    *,
    calls: Collection[int] = (),
    span: Span | None = None,
    chosen: Callable[[Event], bool] | None = None,
    how: str = "cut",
) -> Cut:
    """Write to `output` what of `source`, a file, is of `calls` (none given: of any), has an event in `span`, and an
    event that is `chosen` (by default all are). `how` is written into the capture.

    Raises NotWhole, NothingLeft, CaptureWriteError; then there is no output.
    """
    within = span or Span()
    keep = _choose(source, calls, within, chosen)
    missing = sorted(set(calls) - keep)
    if missing or not keep:
        output.discard()
        what = f"call {missing[0]} has no event that was asked for" if missing else "it has no event that was asked for"
        raise NothingLeft(source.name, f"{what}; nothing was written")
    writer = CaptureWriter(output, file_id=derived_id("cut", source.preamble.file_id, how.encode()))
    try:
        made = _copy(source, writer, keep, within, how)
        writer.close()
    except BaseException:
        writer.discard()
        raise
    return made


def _choose(
    source: CaptureReader, calls: Collection[int], span: Span, chosen: Callable[[Event], bool] | None
) -> set[int]:
    """The calls to be kept."""
    inside: set[int] = set()
    matching: set[int] = set()
    for item in source.scan():
        if isinstance(item, Damage) or not isinstance(item, Entry) or not isinstance(item.record, EVENT_TYPES):
            continue
        event = item.record
        if calls and event.call not in calls:
            continue
        if span.begins(item.seq, event.time_ns) and not span.ends(item.seq, event.time_ns):
            inside.add(event.call)
        if chosen is not None and chosen(event):
            matching.add(event.call)
    return inside if chosen is None else inside & matching


def _copy(source: CaptureReader, writer: CaptureWriter, keep: set[int], span: Span, how: str) -> Cut:
    copier, made = Copier(writer), Cut()
    open_calls: set[int] = set()
    cut_off: set[int] = set()
    ended = False
    for raw, decoded in whole(source, "cut it"):
        record = decoded.record if isinstance(decoded, Entry) else None
        if isinstance(decoded, Unknown) and decoded.critical:
            why = f"record {decoded.seq} at offset {decoded.offset} is of a type that is not known: it cannot be cut"
            raise CaptureWriteError(source.name, f"{why}; use a newer capture-replay")
        time_ns = getattr(record, "time_ns", 0)
        ended = ended or span.ends(raw.seq, time_ns)
        if isinstance(record, INDEX):
            continue
        if isinstance(record, EVENT_TYPES):
            if record.call not in keep:
                continue
            if ended:
                if record.call in open_calls:
                    cut_off.add(record.call)
                continue
            made.events += 1
            (open_calls.discard if record.NAME in ("status", "cancel") else open_calls.add)(record.call)
        elif isinstance(record, Gap):
            if ended or record.call not in (None, *keep):
                continue
        elif isinstance(record, Note) and record.about is not None and copier.number_of(record.about) is None:
            continue
        if isinstance(record, Meta):
            derived = {"from": [source.preamble.file_id.hex()], "by": how}
            copier.copy(raw, decoded, replace(record, derived=derived))
        else:
            copier.copy(raw, decoded)
    made.calls, made.left_open = len(keep), len(cut_off)
    return made
