"""`capture-file frames`: a capture's events in observation order, decoded, with checksum verdicts and error codes."""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ..capfile import CaptureReader, Catalog, Damage, Entry, Unknown
from ..capfile.records import (
    DIRECTIONS,
    EVENT_TYPES,
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
from ..capfile.schema import Decoded
from ..lens import Reading
from ..status import status_name
from ..terminal import console
from ..text import ascii_bytes, counted, hex_lines, human_size, printable
from .common import (
    DAMAGED,
    OK,
    as_line,
    damage_json,
    gap_json,
    is_measured,
    metadata_json,
    opened,
    status_of,
)
from .events import Filter, Methods, direction, filter_of, filtered, is_error

Item = Entry | Unknown | Damage

_ARROWS: Final = (("→", "cyan"), ("←", "magenta"))  # request, response
_OPENINGS: Final = frozenset((Call.NAME,))
_RARE: Final = 100  # records that are read in the time in which one is found
_TICK: Final = 0.1  # seconds between two looks at a file that is being written
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
  capture-file frames session.cap --call 7 --errors
  capture-file frames session.cap --events 4711 --hex
  capture-file frames session.cap --json | jq -c 'select(.error) | [.seq, .error]'
  capture-file frames session.cap.part --follow
"""


@click.command(short_help="Its events, decoded; chosen, followed, in hex.", epilog=EPILOG)
@click.argument("file", metavar="FILE", type=click.Path(path_type=str))
@filtered
@click.option("--hex", "as_hex", is_flag=True, help="The bytes of each message, too.")
@click.option("--raw", is_flag=True, help="Nothing but the bytes of the messages, one after another.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; payloads in base64.")
@click.option("--follow", is_flag=True, help="Go on while the capture is being written.")
def frames(file: str, as_hex: bool, raw: bool, as_json: bool, follow: bool, **choice: Any) -> int:
    """The events of the capture FILE ('-': standard input), in the order in which the server saw them.

    Of several choices an event has to meet all. Damage and gaps are shown in any case, but for those outside of a span
    (--events): nothing else is read then."""
    if as_hex + raw + as_json > 1:
        raise click.UsageError("--hex, --raw and --json are three forms; choose one.")
    if raw and sys.stdout.isatty():
        raise click.UsageError("--raw is no text: send it to a file or a program.")
    wanted = filter_of(**choice)
    with opened(file) as reader:
        if follow and reader.size is None:
            raise click.UsageError("a pipe is read as it comes; --follow is for files.")
        source = _Source(reader, wanted, follow=follow)
        if as_json:
            _print_lines(_json_lines(source))
        elif raw:
            _print_raw(source)
        else:
            _print_rows(source, console(), as_hex=as_hex)
        return source.status()


class _Source:
    """The items of a capture that are wanted. Where only a span of events is, or how calls begin, the index leads
    there, and nothing else is read."""

    def __init__(self, reader: CaptureReader, wanted: Filter, *, follow: bool) -> None:
        self._reader, self._wanted, self._follow = reader, wanted, follow
        by_index = (wanted.first > 1 or wanted.names == _OPENINGS) and reader.size is not None and not follow
        catalog = Catalog(reader) if by_index else None
        self._catalog = catalog if catalog is not None and catalog.complete else None
        self._damaged = False
        self._stopped = False  # before the end of the file
        self.methods = Methods(self._catalog)

    def __iter__(self) -> Iterator[tuple[Item, str]]:
        """Each item with the method of its call; empty where it is no event."""
        for item in self._items():
            self._damaged |= isinstance(item, Damage)
            record = item.record if isinstance(item, Entry) else None
            if isinstance(record, Schema):
                self.methods.schemas.add(record)
            elif isinstance(record, EVENT_TYPES) and isinstance(item, Entry):
                method = self.methods.of(record)
                if self._passes(item.seq, record, method):
                    yield item, method
            elif record is None or isinstance(record, Gap):
                yield item, ""

    def _items(self) -> Iterator[Item]:
        if self._follow:
            yield from self._reader.follow(Patience(self._reader))
            return
        if self._catalog is not None:
            for schema in self._catalog.schemas():
                self.methods.schemas.add(schema)
        for item in self._found():
            if isinstance(item, Entry) and item.seq > self._wanted.last and self._reader.size is not None:
                self._stopped = True
                return
            yield item

    def _found(self) -> Iterator[Item]:
        if self._catalog is None:
            return self._reader.scan()
        if self._wanted.names == _OPENINGS and self._calls_are_rare():
            found = map(self._catalog.opening, self._catalog.calls)
            return (entry for entry in found if entry is not None)
        return self._catalog.items_from(self._wanted.first) if self._wanted.first > 1 else self._reader.scan()

    def _calls_are_rare(self) -> bool:
        """Whether going to each is less work than reading everything."""
        trailer = self._reader.trailer()
        return (
            trailer is not None
            and self._catalog is not None
            and len(self._catalog.calls) * _RARE < trailer.record_count
        )

    def _passes(self, seq: int, event: Event, method: str) -> bool:
        if not self._wanted.passes(seq, event, method):
            return False
        return not self._wanted.errors or is_error(event, *self.methods.read(method, event))

    def status(self) -> int:
        """Of what was read: the rest of a file was not looked at where the index led past it."""
        if self._catalog is not None or self._stopped:
            return DAMAGED if self._damaged else OK
        return status_of(self._reader)


class Patience:
    """Waits for a capture to grow, as long as somebody writes it."""

    def __init__(self, reader: CaptureReader) -> None:
        self._reader = reader
        self._last_chance = False

    def __call__(self) -> bool:
        """Whether to look again."""
        if self._last_chance:
            return False
        if self._reader.is_being_written:
            time.sleep(_TICK)
        else:
            self._last_chance = True  # what it wrote between our look and its end
        return True


def _print_lines(lines: Iterator[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()  # whoever reads on sees each as it comes


def _print_raw(source: _Source) -> None:
    for item, _ in source:
        if isinstance(item, Entry) and isinstance(item.record, Message):
            sys.stdout.buffer.write(item.record.payload)
    sys.stdout.buffer.flush()


# --- for programs ---------------------------------------------------------------------------------------------------


def _json_lines(source: _Source) -> Iterator[str]:
    for item, method in source:
        match item:
            case Damage():
                yield as_line({"damage": damage_json(item)})
            case Unknown():
                names = ("seq", "offset", "size", "type", "flags")
                yield as_line({"unknown": {name: getattr(item, name) for name in names}})
            case Entry(record=Gap() as gap):
                yield as_line({"gap": gap_json(item.seq, gap)})
            case Entry(seq=seq, record=record) if isinstance(record, EVENT_TYPES):
                yield as_line(_json(source.methods, seq, record, method))


def _json(methods: Methods, seq: int, event: Event, method: str) -> dict[str, Any]:
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
            body |= _message_json(methods, method, event)
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


def _message_json(methods: Methods, method: str, event: Message) -> dict[str, Any]:
    decoded, reading = methods.read(method, event)
    body: dict[str, Any] = {}
    if decoded.type_name is not None:
        body["type"] = decoded.type_name
    as_json = methods.schemas.as_json(decoded)
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


def _print_rows(source: _Source, screen: Console, *, as_hex: bool) -> None:
    """Each row as soon as it is known. Rich is for colour: without, it would only make a pipe five times slower."""
    if screen.is_terminal:
        screen.print(Text(_HEADER, style="dim"))
    width = screen.width if is_measured(screen) else None
    for item, method in source:
        row = _row(source.methods, item, method, width)
        if width is not None:
            row.truncate(width, overflow="ellipsis")
        row.rstrip()
        if screen.is_terminal:
            screen.print(row)
        else:
            screen.file.write(row.plain + "\n")
        if as_hex and isinstance(item, Entry) and isinstance(item.record, Message):
            screen.file.writelines(f"      {line}\n" for line in hex_lines(item.record.payload))
        screen.file.flush()


def _row(methods: Methods, item: Item, method: str, width: int | None) -> Text:
    match item:
        case Damage():
            return Text(printable(f"✗ damage at {item}"), style="bold red")
        case Unknown():
            what = f"? {item.seq:>3}  a record of type {item.type}, which this version does not know"
            return Text(what, style="yellow")
        case Entry(record=Gap() as gap):
            text = f"! {item.seq:>3}  gap: {counted(gap.events, 'event')} lost: {gap.why}"
            return Text(printable(text), style="bold yellow")
        case Entry(seq=seq, record=record) if isinstance(record, EVENT_TYPES):
            return _event_row(methods, seq, record, method, width)
    raise TypeError(type(item).__name__)


def _event_row(methods: Methods, seq: int, event: Event, method: str, width: int | None) -> Text:
    """Number, time, call, arrow, event, size; then checks and error code, and what else there is room for."""
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
    for words, style in _what(methods, event, method, room):
        text.append(printable(words, width), style=style)  # no more than a row of it: it may be as long as the capture
        text.append(" ")
    return text


def _what(methods: Methods, event: Event, method: str, room: int | None) -> Iterator[tuple[str, str]]:
    """What there is to say of an event, the most important first, each with its style."""
    match event:
        case Message():
            yield from _message_words(*methods.read(method, event), event.payload, room)
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
