"""A capture as parts that can be left out, so that what is left is still a capture: causally valid, and replayable.

A part is a request event with the response events that follow it in its call; the first part of a call is its opening,
without which none of its others can be. Where a message can be left out of, its fields are parts too. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from capture_recorder.capfile import Entry, wire
from capture_recorder.capfile.records import EVENT_TYPES, REQUEST, Call, Cancel, HalfClose, Message, Record

from .plan import SINGLE_REQUEST

DEEPEST: Final = 20  # messages within messages whose fields are tried
Cut = tuple[int, int]
"""The bytes of a field, from its tag on to past its end."""


@dataclass(frozen=True, slots=True)
class Part:
    """The numbers of its events, the first that of the request event. `opens`: it is the beginning of its call."""

    call: int
    events: tuple[int, ...]
    opens: bool = False


def parts(entries: Iterable[Entry]) -> list[Part]:
    """The parts of a capture, in the order of their request events."""
    found: list[tuple[int, list[int], bool]] = []
    latest: dict[int, list[int]] = {}  # of each call, the events of its last part
    single: set[int] = set()  # calls whose one request belongs to their opening
    for entry in entries:
        event = entry.record
        if not isinstance(event, EVENT_TYPES):
            continue
        opens = isinstance(event, Call)
        asks = isinstance(event, (HalfClose, Cancel)) or (isinstance(event, Message) and event.direction == REQUEST)
        if isinstance(event, Call) and event.kind in SINGLE_REQUEST:
            single.add(event.call)
        if opens or (asks and not (event.call in single and isinstance(event, Message))):
            latest[event.call] = [entry.seq]
            found.append((event.call, latest[event.call], opens))
        else:
            latest[event.call].append(entry.seq)
    return [Part(call, tuple(events), opens) for call, events, opens in found]


def with_openings(kept: Collection[Part], everything: Iterable[Part]) -> list[Part]:
    """The parts, and the openings of their calls."""
    calls = {part.call for part in kept}
    wanted = set(kept)
    return [part for part in everything if part in wanted or (part.opens and part.call in calls)]


def assemble(
    entries: Iterable[Entry], kept: Iterable[Part], payloads: dict[int, bytes] | None = None
) -> Iterator[Record]:
    """The records of a capture that has these parts alone, with other payloads for some messages (by event number)."""
    wanted = {event for part in kept for event in part.events}
    indexes: Counter[tuple[int, int]] = Counter()
    for entry in entries:
        record = entry.record
        if entry.seq not in wanted:
            continue
        if isinstance(record, Message):
            key = (record.call, record.direction)
            payload = (payloads or {}).get(entry.seq, record.payload)
            record = replace(record, index=indexes[key], payload=payload)
            indexes[key] += 1
        yield record


# --- fields -----------------------------------------------------------------------------------------------------------


def fields_of(payload: bytes, within: tuple[Cut, ...] = ()) -> list[tuple[Cut, ...]]:
    """The fields of a message, or of one within it: each as the fields that it is in, from outside in, and itself. None
    where the bytes are no message."""
    start, end = _content(payload, within[-1]) if within else (0, len(payload))
    if len(within) >= DEEPEST:
        return []
    try:
        return [(*within, (item.tag, item.next)) for item in wire.fields(payload, start, end)]
    except wire.WireError:
        return []


def without(payload: bytes, cuts: Collection[tuple[Cut, ...]]) -> bytes:
    """The message without these fields; the lengths of the messages that they were in are made to fit."""
    return _rebuilt(payload, 0, len(payload), (), set(cuts))


def _rebuilt(payload: bytes, start: int, end: int, within: tuple[Cut, ...], cuts: set[tuple[Cut, ...]]) -> bytes:
    inner = {cut[: len(within) + 1] for cut in cuts if cut[: len(within)] == within}
    if not inner:
        return payload[start:end]
    out = bytearray()
    for item in wire.fields(payload, start, end):
        place = (*within, (item.tag, item.next))
        if place in cuts:
            continue
        if place not in inner or item.wire_type != wire.BYTES:
            out += payload[item.tag : item.next]
            continue
        content = _rebuilt(payload, item.start, item.end, place, cuts)
        out += _varint(item.number << 3 | wire.BYTES) + _varint(len(content)) + content
    return bytes(out)


def _content(payload: bytes, cut: Cut) -> tuple[int, int]:
    """Where what is in a field stands; nothing where it is no message."""
    (item,) = wire.fields(payload, *cut)
    return (item.start, item.end) if item.wire_type == wire.BYTES else (0, 0)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
