"""`capture-file frames`: a capture's events in observation order, decoded, with checksum verdicts and error codes."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from typing import Any, Final

import click
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
from ..text import human_size, printable
from .common import damage_json, metadata_json, opened, status_of

_ARROWS: Final = ("→", "←")  # request, response


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


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=str))
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; payloads in base64.")
def frames(file: str, as_json: bool) -> int:
    """The events of the capture FILE ('-': standard input), in the order in which the server saw them."""
    with opened(file) as reader:
        out = Frames()
        lines = _json_lines(out, reader.scan()) if as_json else None
        if lines is not None:
            for line in lines:
                sys.stdout.write(line + "\n")
        else:
            screen = console()
            for text in _rows(out, reader.scan(), screen):
                screen.print(text)
        sys.stdout.flush()
        return status_of(reader)


# --- for programs ---------------------------------------------------------------------------------------------------


def _json_lines(frames: Frames, items: Iterator[Entry | Unknown | Damage]) -> Iterator[str]:
    for item in items:
        body: dict[str, Any] | None = None
        if isinstance(item, Damage):
            body = {"damage": damage_json(item)}
        elif isinstance(item, Entry) and isinstance(item.record, Gap):
            gap = item.record
            body = {"gap": {"seq": item.seq, "why": gap.why, "call": gap.call, "events": gap.events, "bytes": gap.size}}
        elif isinstance(item, Entry) and isinstance(item.record, Schema):
            frames.schemas.add(item.record)
        elif isinstance(item, Entry) and isinstance(item.record, EVENT_TYPES):
            body = _json(frames, item.seq, item.record)
        if body is not None:
            yield json.dumps(body)


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
    if decoded.error is not None:
        body["decode_error"] = decoded.error
    if reading.checks:
        names = ("tensor", "verdict", "declared", "computed", "why")
        body["checksums"] = [{name: getattr(check, name) for name in names} for check in reading.checks]
    if reading.error is not None:
        body["error"] = reading.error
    return body


# --- for people -----------------------------------------------------------------------------------------------------


def _rows(frames: Frames, items: Iterator[Entry | Unknown | Damage], screen: Console) -> Iterator[Text]:
    width = screen.width
    for item in items:
        if isinstance(item, Damage):
            yield Text(printable(f"✗ damage at {item}"), style="bold red")
        elif isinstance(item, Unknown):
            yield Text(
                f"? {item.seq:>5}  a record of type {item.type}, which this version does not know", style="yellow"
            )
        elif isinstance(item.record, Gap):
            gap = item.record
            text = f"! {item.seq:>5}  gap: the recorder lost {gap.events} events: {gap.why}"
            yield Text(printable(text), style="bold yellow")
        elif isinstance(item.record, Schema):
            frames.schemas.add(item.record)
        elif isinstance(item.record, EVENT_TYPES):
            yield _row(frames, item.seq, item.record, width)


def _row(frames: Frames, seq: int, event: Event, width: int) -> Text:
    """Number, time, call, arrow, event, size; then checks and error code, and what else there is room for."""
    method = frames.method(event)
    _, reading = frames.read(method, event)
    size = human_size(len(event.payload)) if isinstance(event, Message) else ""
    text = Text(no_wrap=True)
    text.append(f"{seq:>5} ", style="dim")
    text.append(f"{event.time_ns / 1e9:>11.6f} ", style="dim")
    text.append(f"#{event.call:<3} {_ARROWS[direction(event)]} ")
    text.append(f"{event.NAME:<10} {size:>9}  ", style="bold" if not size else "")
    _checks(text, reading)
    text.append(printable(_summary(event, method, reading, frames), limit=width))
    text.truncate(width, overflow="ellipsis")
    text.rstrip()
    return text


def _checks(text: Text, reading: Reading) -> None:
    bad = [check for check in reading.checks if check.verdict != "ok"]
    if reading.checks and not bad:
        text.append(f"✓{len(reading.checks) if len(reading.checks) > 1 else ''} ", style="green")
    for check in bad:
        text.append(f"✗ {printable(check.tensor, 20)}: {printable(check.why, 60)}  ", style="bold red")
    if reading.error is not None:
        text.append(f"{printable(reading.error)} ", style="bold red")


def _summary(event: Event, method: str, reading: Reading, frames: Frames) -> str:
    match event:
        case Call():
            return f"{method} {_metadata(event.metadata)}".rstrip()
        case Headers():
            return _metadata(event.metadata)
        case Status(code=code, message=message):
            return " ".join(filter(None, (status_name(code), message, _metadata(event.metadata))))
        case Cancel(why=why):
            return f"by the {why}"
        case Message(payload=payload):
            if reading.summary:
                return reading.summary
            return frames.schemas.decode(method, event.direction, payload).error or payload[:32].hex(" ")
        case _:
            return ""


def _metadata(metadata: Metadata) -> str:
    return " ".join(
        f"{key}={'<redacted>' if isinstance(value, Redacted) else value.decode('ascii', 'backslashreplace')}"
        for key, value in metadata
    )
