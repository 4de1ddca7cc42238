"""`capture-file verify`: is every byte, number and index entry as it should be; if not, where, and what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click
from rich.text import Text

from ..capfile.verify import Fault, Verification
from ..capfile.verify import verify as verified
from ..terminal import console
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
    lines = [printable(line) for line in _faults(file, found)]
    for line in lines[:_LISTED]:
        out.print(Text(f"  {line}"))
    if found.faults > _LISTED:
        out.print(Text(f"  and {found.faults - _LISTED:,} more; --json lists {min(found.faults, 20_000):,}"))
    for remark in found.remarks[:_LISTED]:
        out.print(Text(printable(f"  {file}: {remark}; no recorder writes that"), style="yellow"))
    if found.gaps:
        gaps = counted(found.gaps, "gap")
        out.print(Text(f"  it has {gaps}: events were lost there before this file was made", style="yellow"))
    if not found.clean:
        out.print(Text(printable(f"What is whole of it: capture-file recover {file} -o NEW.cap")))


def _verdict(found: Verification) -> str:
    held = f"{counted(found.records, 'record')}, {human_size(found.bytes_checked)}"
    if found.clean:
        return f"clean: {held}; every checksum, number and index entry is right"
    places = f"{counted(found.faults, 'fault')}, {counted(found.lost, 'record')} lost"
    what = "torn, its recorder did not close it" if found.condition == "torn" else "damaged"
    if found.condition == "clean":  # every record is there, and the index does not tell the truth
        what = "its index is wrong"
    return f"{what}: {places}; whole are {held}"


def _faults(file: str, found: Verification) -> Iterator[str]:
    for damage in found.damage:
        yield f"{file}: {damage}"
    for fault in found.index:
        yield f"{file}: {fault}"
