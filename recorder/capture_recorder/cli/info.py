"""`capture-file info`: what is in a capture, and is it whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..capfile import CaptureReader, Damage, Entry, Unknown
from ..capfile.framing import FEATURE_BLOCKS
from ..capfile.records import REQUEST, Call, Cancel, Gap, Message, Meta, Schema, Status
from ..capfile.schema import SchemaSet
from ..status import status_name
from ..terminal import console, folded, print_table
from ..text import counted, human_duration, human_size, printable
from .common import as_line, damage_json, gap_json, opened, progress, status_of

_CONDITIONS: Final = {
    "clean": ("✓", "green", "clean: closed by its recorder, every checksum is right"),
    "torn": ("!", "yellow", "torn: not closed by its recorder (yet); what is listed here is whole"),
    "damaged": ("✗", "red", "damaged: some of it is lost; see below"),
}
_LISTED: Final = 20  # damages and gaps that a person is shown
_LABEL: Final = 13  # columns

EPILOG = """\b
Example:
  capture-file info session.cap
  ssh host cat session.cap | capture-file info - --json | jq .condition
"""


@dataclass
class _Method:
    """The calls of one method."""

    kind: str
    calls: int = 0
    requests: int = 0
    responses: int = 0
    size: int = 0
    statuses: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "calls": self.calls,
            "requests": self.requests,
            "responses": self.responses,
            "bytes": self.size,
            "statuses": dict(self.statuses),
        }


class Survey:
    """What one scan of a capture finds."""

    def __init__(self, reader: CaptureReader) -> None:
        self.meta: Meta | None = None
        self.methods: dict[str, _Method] = {}
        self.schemas = SchemaSet()
        self.gaps: list[tuple[int, Gap]] = []  # each with its record's number
        self.damage: list[Damage] = []
        self.unknown: list[str] = []  # a sentence each: their bodies may be as large as the file
        self.records = self.duration_ns = 0
        self._open: dict[int, str] = {}
        for item in reader.scan():
            self._take(item)
        for method in self._open.values():
            self.methods[method].statuses["open"] += 1

    def _take(self, item: Entry | Unknown | Damage) -> None:
        if isinstance(item, Damage):
            self.damage.append(item)
            return
        self.records += 1
        if isinstance(item, Unknown):
            self.unknown.append(_unknown(item))
            return
        record = item.record
        self.duration_ns = max(self.duration_ns, getattr(record, "time_ns", 0))
        match record:
            case Meta():
                self.meta = self.meta or record
            case Schema():
                self.schemas.add(record)
            case Gap():
                self.gaps.append((item.seq, record))
            case Call():
                self.methods.setdefault(record.method, _Method(record.kind)).calls += 1
                self._open[record.call] = record.method
            case Message():
                self._count(record)
            case Status(code=code):
                self._end(record.call, status_name(code))
            case Cancel(why=why):
                self._end(record.call, f"cancelled ({why})")
            case _:
                pass

    def _count(self, message: Message) -> None:
        method = self.methods.setdefault(self._open.get(message.call, "?"), _Method("unknown"))
        method.size += len(message.payload)
        if message.direction == REQUEST:
            method.requests += 1
        else:
            method.responses += 1

    def _end(self, call: int, how: str) -> None:
        method = self.methods.get(self._open.pop(call, "?"))
        if method is not None:
            method.statuses[how] += 1

    def total(self, what: str) -> int:
        """A figure over all methods."""
        return sum(getattr(method, what) for method in self.methods.values())


@click.command(short_help="What is in it, and is it whole.", epilog=EPILOG)
@click.argument("file", metavar="FILE", type=click.Path(path_type=str))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def info(file: str, as_json: bool) -> int:
    """What is in the capture FILE ('-': standard input): when and by what it was made, its methods, is it whole."""
    with opened(file) as reader:
        size = reader.size
        with progress("reading", reader):
            survey = Survey(reader)
        if as_json:
            click.echo(as_line(_json(file, reader, survey, size), indent=2))
        else:
            _show(console(), file, reader, survey, size)
        return status_of(reader)


def _format(reader: CaptureReader) -> str:
    return f"{reader.preamble.major}.{reader.preamble.minor}"


def _started(survey: Survey) -> str | None:
    if survey.meta is None or not survey.meta.created_ns:
        return None
    seconds, ns = divmod(survey.meta.created_ns, 10**9)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09}Z"
    except (OverflowError, ValueError, OSError):
        return None


def _json(file: str, reader: CaptureReader, survey: Survey, size: int | None) -> dict[str, Any]:
    meta = survey.meta
    return {
        "file": file,
        "condition": reader.condition,
        "format": _format(reader),
        "calls": survey.total("calls"),
        "messages": {"request": survey.total("requests"), "response": survey.total("responses")},
        "bytes": survey.total("size"),
        "methods": {name: method.as_json() for name, method in survey.methods.items()},
        "started": _started(survey),
        "duration_ns": survey.duration_ns,
        "id": reader.preamble.file_id.hex(),
        "side": meta.side if meta else None,
        "program": meta.program if meta else None,
        "versions": _plain(meta.versions) if meta else {},
        "redacted": list(meta.redacts) if meta else [],
        "derived": _derived(meta) if meta and meta.derived else None,
        "services": survey.schemas.services,
        "schema_problems": survey.schemas.problems,
        "records": survey.records,
        "unknown_records": len(survey.unknown),
        "packed": _is_packed(reader),
        "file_bytes": size,
        "gaps": [gap_json(seq, gap) for seq, gap in survey.gaps],
        "damage": [damage_json(damage) for damage in survey.damage],
    }


def _file(reader: CaptureReader, survey: Survey, size: int | None) -> Iterator[str]:
    yield f"format {_format(reader)}"
    if _is_packed(reader):
        yield "packed"
    yield counted(survey.records, "record")
    if size:
        yield human_size(size)
    yield f"id {reader.preamble.file_id.hex()}"


def _is_packed(reader: CaptureReader) -> bool:
    return bool(reader.preamble.features & FEATURE_BLOCKS)


def _derived(meta: Meta) -> str:
    """Of which captures, by their ids, and how; a stranger's may be anything."""
    sources = meta.derived.get("from")
    ids = ", ".join(map(str, sources)) if isinstance(sources, list) and sources else "another form"
    return f"{ids}, by {meta.derived.get('by', 'some means')}"


def _plain(versions: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in versions.items()}


# --- for people -----------------------------------------------------------------------------------------------------


def _show(out: Console, file: str, reader: CaptureReader, survey: Survey, size: int | None) -> None:
    sign, style, sentence = _CONDITIONS[reader.condition]
    out.print(Text(printable(file), style="bold"))
    out.print(Text(f"{sign} {sentence}", style=style))
    for name, value in _facts(reader, survey, size):
        first, *more = folded(printable(value), out.width - _LABEL)
        out.print(Text.assemble((f"{name:<{_LABEL}}", "dim"), first))
        for line in more:
            out.print(Text(" " * _LABEL + line))
    services: dict[str, dict[str, _Method]] = {}
    for path, method in survey.methods.items():
        service, _, name = path.rpartition("/")
        services.setdefault(service, {})[name] = method
    for service, methods in services.items():
        out.print()
        out.print(Text(f"{printable(service)}/", style="bold"))
        print_table(out, _methods(methods))
    losses = list(_losses(survey))
    if losses:
        out.print()
    for loss in losses[:_LISTED]:
        first, *more = folded(printable(loss), out.width - 2)
        out.print(Text("\n".join((f"! {first}", *(f"  {line}" for line in more))), style="yellow"))
    if len(losses) > _LISTED:
        out.print(Text(f"! and {len(losses) - _LISTED:,} more; --json lists all", style="yellow"))


def _unknown(record: Unknown) -> str:
    needed = "; it takes a newer capture-replay to replay this capture" if record.critical else ""
    return f"record {record.seq}, offset {record.offset}: of type {record.type}, which is not known{needed}"


def _losses(survey: Survey) -> Iterator[str]:
    """What is not there, or not to be read, a sentence each."""
    for seq, gap in survey.gaps:
        yield f"gap: {counted(gap.events, 'event')} lost: {gap.why} (record {seq})"
    for damage in survey.damage:
        yield f"damage: {damage}"
    yield from survey.unknown
    for problem in survey.schemas.problems:
        yield f"schema: {problem}"


def _facts(reader: CaptureReader, survey: Survey, size: int | None) -> list[tuple[str, str]]:
    meta = survey.meta
    counts = (counted(survey.total(what), what[:-1]) for what in ("calls", "requests", "responses"))
    facts = [
        ("holds", f"{', '.join(counts)}, {human_size(survey.total('size'))} of payload"),
        ("started", (_started(survey) or "not told").replace("T", " ")),
        ("lasted", human_duration(survey.duration_ns)),
    ]
    if meta is not None:
        facts.append(("recorded by", f"{meta.program or 'a program'} (pid {meta.pid}), {meta.side}'s side"))
        versions = ", ".join(f"{name} {value}" for name, value in _plain(meta.versions).items())
        facts += [("with", versions)] if versions else []
        if meta.derived:
            facts.append(("made of", _derived(meta)))
        unsaid = "not told" if meta.derived and not meta.policy else "nothing: credentials are in it as they came"
        facts.append(("redacts", ", ".join(meta.redacts) or unsaid))
    facts.append(("file", ", ".join(_file(reader, survey, size))))
    facts.append(("schema of", ", ".join(survey.schemas.services) or "nothing: messages are shown as bytes"))
    return facts


def _methods(methods: dict[str, _Method]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("  method", overflow="fold")
    for name in ("kind", "calls", "requests", "responses", "payload", "ended"):
        table.add_column(name, justify="left" if name in ("kind", "ended") else "right")
    for name, method in methods.items():
        ended = ", ".join(f"{how} {n:,}" for how, n in method.statuses.most_common())
        figures = (f"{method.calls:,}", f"{method.requests:,}", f"{method.responses:,}", human_size(method.size))
        table.add_row(*(Text(printable(cell)) for cell in (f"  {name}", method.kind, *figures, ended)))
    return table
