"""`capture-file frames`: a capture's events in observation order, decoded, with checksum verdicts and error codes."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from typing import Any, Final

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from .. import lens
from ..capfile import Damage, Entry, Unknown
from ..capfile.records import (
    DIRECTIONS,
    EVENT_TYPES,
    REQUEST,
    RESPONSE,
    Call,
    Cancel,
    Event,
    Gap,
    Headers,
    Message,
    Metadata,
    Redacted,
    Schema,
    Status,
)
from ..capfile.schema import Decoded, SchemaSet
from ..lens import Reading
from ..status import status_name
from ..terminal import console
from ..text import ascii_bytes, human_size, printable
from .common import (
    as_line,
    damage_json,
    gap_json,
    is_measured,
    metadata_json,
    opened,
    status_of,
)

Item = Entry | Unknown | Damage

_ARROWS: Final = (("→", "cyan"), ("←", "magenta"))  # request, response
_BAD_SHOWN: Final = 3  # checks that failed, on a row
_BYTES_SHOWN: Final = 32  # of a payload that nothing is known of
_VERDICTS: Final = {
    "zlib": "zlib's CRC-32",
    "missing": "no checksum",
    "beyond": "too long",
    "short": "too short",
    "broken": "does not expand",
    "unchecked": "not checked",
}
"""Verdicts of a check in few words, where the word itself says too little."""

EPILOG = """\b
Example:
  capture-file frames session.cap
  capture-file frames session.cap --json | jq -c 'select(.error) | [.seq, .error]'
"""


class Frames:
    """Turns the items of a scan into frames. Knows of each open call its method, and of the file its schema."""

    def __init__(self) -> None:
        self.schemas = SchemaSet()
        self._methods: dict[int, str] = {}

    def method(self, event: Event) -> str:
        """The method of the event's call; forgotten with the call's end."""
        if isinstance(event, Call):
            self._methods[event.call] = event.method
        method = self._methods.get(event.call, "?")
        if isinstance(event, (Status, Cancel)):
            self._methods.pop(event.call, None)
        return method

    def read(self, method: str, event: Event) -> tuple[Decoded, Reading]:
        """A message decoded, and what its lens sees; empty for every other event."""
        if not isinstance(event, Message):
            return Decoded(), Reading()
        decoded = self.schemas.decode(method, event.direction, event.payload)
        return decoded, lens.read(method, decoded.message) if decoded.message is not None else Reading()


def direction(event: Event) -> int:
    """Who did it: headers and status are the server's, open, half-close and cancel the client's."""
    if isinstance(event, Message):
        return event.direction
    return RESPONSE if isinstance(event, (Headers, Status)) else REQUEST


@click.command(epilog=EPILOG)
@click.argument("file", metavar="FILE", type=click.Path(path_type=str))
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; payloads in base64.")
def frames(file: str, as_json: bool) -> int:
    """The events of the capture FILE ('-': standard input), in the order in which the server saw them."""
    with opened(file) as reader:
        if as_json:
            for line in _json_lines(Frames(), reader.scan()):
                sys.stdout.write(line + "\n")
                sys.stdout.flush()  # whoever reads on sees each as it comes
        else:
            _print_rows(Frames(), reader.scan(), console())
        return status_of(reader)


# --- for programs ---------------------------------------------------------------------------------------------------


def _json_lines(frames: Frames, items: Iterator[Item]) -> Iterator[str]:
    for item in items:
        match item:
            case Damage():
                yield as_line({"damage": damage_json(item)})
            case Unknown():
                names = ("seq", "offset", "size", "type", "flags")
                yield as_line({"unknown": {name: getattr(item, name) for name in names}})
            case Entry(record=Gap() as gap):
                yield as_line({"gap": gap_json(item.seq, gap)})
            case Entry(record=Schema() as schema):
                frames.schemas.add(schema)
            case Entry(seq=seq, record=record) if isinstance(record, EVENT_TYPES):
                yield as_line(_json(frames, seq, record))


def _json(frames: Frames, seq: int, event: Event) -> dict[str, Any]:
    method = frames.method(event)
    message = event if isinstance(event, Message) else None
    body: dict[str, Any] = {
        "seq": seq,
        "call": event.call,
        "event": event.NAME,
        "direction": DIRECTIONS[direction(event)],
        "index": message.index if message else None,
        "time_ns": event.time_ns,
        "size": len(message.payload) if message else 0,
        "payload": base64.b64encode(message.payload).decode() if message else None,
        "method": method,
    }
    match event:
        case Message():
            body |= _message_json(frames, method, event)
        case Call():
            body |= {
                "kind": event.kind,
                "peer": event.peer,
                "authority": event.authority,
                "metadata": metadata_json(event.metadata),
                "time_left_ns": event.time_left_ns,
            }
        case Headers():
            body["metadata"] = metadata_json(event.metadata)
        case Status():
            body |= {
                "code": event.code,
                "code_name": status_name(event.code),
                "message": event.message,
                "metadata": metadata_json(event.metadata),
            }
        case Cancel():
            body["why"] = event.why
        case _:
            pass
    return body


def _message_json(frames: Frames, method: str, event: Message) -> dict[str, Any]:
    decoded, reading = frames.read(method, event)
    body: dict[str, Any] = {}
    if decoded.type_name is not None:
        body["type"] = decoded.type_name
    as_json = frames.schemas.as_json(decoded)
    if as_json is not None:
        body["decoded"] = as_json
    elif decoded.message is not None:
        body["decode_error"] = f"this {decoded.type_name} has no form in JSON"
    if decoded.error is not None:
        body["decode_error"] = decoded.error
    if reading.checks:
        names = ("tensor", "verdict", "declared", "computed", "why", "gaps", "overlaps")
        body["checksums"] = [{name: getattr(check, name) for name in names} for check in reading.checks]
    if reading.error is not None:
        body["error"] = reading.error
    return body


# --- for people -----------------------------------------------------------------------------------------------------

_HEADER: Final = f"{'seq':>5} {'time':>10} {'call':>4}   {'event':<7} {'size':>9}  what"


def _print_rows(frames: Frames, items: Iterator[Item], screen: Console) -> None:
    """Each row as soon as it is known. Rich is for colour: without, it would only make a pipe five times slower."""
    if screen.is_terminal:
        screen.print(Text(_HEADER, style="dim"))
    width = screen.width if is_measured(screen) else None
    for item in items:
        row = _row(frames, item, width)
        if row is None:
            continue
        if width is not None:
            row.truncate(width, overflow="ellipsis")
        row.rstrip()
        if screen.is_terminal:
            screen.print(row)
        else:
            screen.file.write(row.plain + "\n")
            screen.file.flush()


def _row(frames: Frames, item: Item, width: int | None) -> Text | None:
    match item:
        case Damage():
            return Text(printable(f"✗ damage at {item}"), style="bold red")
        case Unknown():
            what = f"? {item.seq:>3}  a record of type {item.type}, which this version does not know"
            return Text(what, style="yellow")
        case Entry(record=Gap() as gap):
            text = f"! {item.seq:>3}  gap: the recorder lost {gap.events:,} events: {gap.why}"
            return Text(printable(text), style="bold yellow")
        case Entry(record=Schema() as schema):
            frames.schemas.add(schema)
            return None
        case Entry(seq=seq, record=record) if isinstance(record, EVENT_TYPES):
            return _event_row(frames, seq, record, width)
    return None


def _event_row(frames: Frames, seq: int, event: Event, width: int | None) -> Text:
    """Number, time, call, arrow, event, size; then checks and error code, and what else there is room for."""
    method = frames.method(event)
    arrow, colour = _ARROWS[direction(event)]
    text = Text(no_wrap=True)
    text.append(f"{seq:>5} {event.time_ns / 1e9:>10.6f} ", style="dim")
    text.append(f"{event.call:>4} ")
    text.append(f"{arrow} ", style=colour)
    if isinstance(event, Message):
        text.append(f"{event.NAME:<7} {human_size(len(event.payload)):>9}  ")
    else:
        text.append(f"{event.NAME:<17}  ", style="bold")
    room = None if width is None else max(0, width - text.cell_len)
    for words, style in _what(frames, event, method, room):
        text.append(printable(words, width), style=style)  # no more than a row of it: it may be as long as the capture
        text.append(" ")
    return text


def _what(frames: Frames, event: Event, method: str, room: int | None) -> Iterator[tuple[str, str]]:
    """What there is to say of an event, the most important first, each with its style."""
    match event:
        case Message():
            yield from _message_words(*frames.read(method, event), event.payload, room)
        case Call(metadata=metadata):
            whole = room is None or cell_len(printable(method)) <= room
            yield (method if whole else method.rpartition(".")[2]), ""
            yield _metadata(metadata), "dim"
        case Headers(metadata=metadata):
            yield _metadata(metadata), "dim"
        case Status(code=code, message=message, metadata=metadata):
            yield status_name(code), "green" if code == 0 else "bold red"
            yield message, ""
            yield _metadata(metadata), "dim"
        case Cancel(why=why):
            yield f"by the {why}", "yellow"


def _message_words(decoded: Decoded, reading: Reading, payload: bytes, room: int | None) -> Iterator[tuple[str, str]]:
    bad = [check for check in reading.checks if check.verdict != "ok"]
    good = len(reading.checks) - len(bad)
    whole = " ".join(f"✗ {check.tensor}: {check.why}" for check in bad)
    is_short = room is not None and cell_len(printable(whole, room + 1)) > room
    for check in bad[:_BAD_SHOWN]:
        why = _VERDICTS.get(check.verdict, check.verdict) if is_short else check.why
        yield f"✗ {printable(check.tensor, 20) if is_short else check.tensor}: {why} ", "bold red"
    if len(bad) > _BAD_SHOWN:
        yield f"✗ and {len(bad) - _BAD_SHOWN:,} more ", "bold red"
    if good:
        yield f"✓{good if len(reading.checks) > 1 else ''}", "green"
    if reading.error is not None:
        yield reading.error, "bold red"
    if decoded.error is not None:
        yield f"✗ {decoded.error}", "bold red"
    if reading.summary:
        yield reading.summary, ""
    elif decoded.message is None:
        yield payload[:_BYTES_SHOWN].hex(" ") + (" …" if len(payload) > _BYTES_SHOWN else ""), "dim"


def _metadata(metadata: Metadata) -> str:
    return " ".join(
        f"{key}={'<redacted>' if isinstance(value, Redacted) else ascii_bytes(value)}" for key, value in metadata
    )
