"""`capture-file verify`: is every byte, number and index entry as it should be; if not, where, and what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click
from rich.text import Text

from ..capfile.verify import KEPT, Fault, Verification
from ..capfile.verify import verify as verified
from ..terminal import console, folded
from ..text import counted, human_size, printable
from .common import DAMAGED, OK, as_line, damage_json, opened, progress

_LISTED: Final = 50

EPILOG = """\b
Example:
  capture-file verify session.cap && capture-replay session.cap --target localhost:50051

\b
Exit status:
  0 clean · 3 torn or damaged · 1 no capture, or not readable · 2 wrong usage
"""


@click.command(short_help="Check every checksum, number and index entry.", epilog=EPILOG)
@click.argument("file", metavar="FILE", type=click.Path(path_type=str))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def verify(file: str, as_json: bool) -> int:
    """Check all of the capture FILE ('-': standard input): every checksum, record number and index entry."""
    with opened(file, salvage=True) as reader, progress("verifying", reader):
        found = verified(reader)
    if as_json:
        click.echo(as_line(_json(file, found), indent=2))
    else:
        _show(file, found)
    return OK if found.clean else DAMAGED


def _json(file: str, found: Verification) -> dict[str, Any]:
    return {
        "file": file,
        "condition": found.condition,
        "clean": found.clean,
        "records": found.records,
        "lost": found.lost,
        "bytes": found.bytes_checked,
        "faults": found.faults,
        "damage": [damage_json(damage) for damage in found.damage],
        "index": [_fault_json(fault) for fault in found.index],
        "remarks": [_fault_json(remark) for remark in found.remarks],
        "gaps": found.gaps,
        "unknown_records": found.unknown,
    }


def _fault_json(fault: Fault) -> dict[str, Any]:
    return {"offset": fault.offset, "seq": fault.seq, "why": fault.why}


def _show(file: str, found: Verification) -> None:
    out = console()
    sign, style = ("✓", "green") if found.clean else ("!", "yellow") if found.condition == "torn" else ("✗", "red")
    out.print(Text(printable(f"{sign} {file}: {_verdict(found)}"), style=style))

    def say(line: str, style: str = "") -> None:
        first, *more = folded(printable(line), out.width - 4)
        for text in (f"  {first}", *(f"    {rest}" for rest in more)):
            out.print(Text(text, style=style))

    say(_held(found))
    lines = list(_faults(file, found))
    for line in lines[:_LISTED]:
        say(line)
    if found.faults > _LISTED:
        say(f"and {found.faults - _LISTED:,} more; --json lists {min(found.faults, 2 * KEPT):,}")
    for remark in found.remarks[:_LISTED]:
        say(f"{file}: {remark}; no recorder writes that", "yellow")
    if found.gaps:
        say(f"it has {counted(found.gaps, 'gap')}: events were lost there before this file was made", "yellow")
    if not found.clean:
        say(f"What is whole of it: capture-file recover {file} -o NEW.cap")


def _verdict(found: Verification) -> str:
    if found.clean:
        return "clean"
    what = "torn, not closed by its recorder (yet)" if found.condition == "torn" else "damaged"
    if found.condition == "clean":  # every checksum is right, and what records say of one another is not
        what = "not as it should be"
    return f"{what}: {counted(found.faults, 'fault')}, {counted(found.lost, 'record')} lost"


def _held(found: Verification) -> str:
    held = f"{counted(found.records, 'record')}, {human_size(found.bytes_checked)}"
    return f"{held}; every checksum, number and index entry is right" if found.clean else f"whole are {held}"


def _faults(file: str, found: Verification) -> Iterator[str]:
    for damage in found.damage:
        yield f"{file}: {damage}"
    for fault in found.index:
        yield f"{file}: {fault}"
