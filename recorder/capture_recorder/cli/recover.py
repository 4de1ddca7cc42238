"""`capture-file recover`: a clean capture with everything that is whole in another, and a list of what was lost."""

from __future__ import annotations

from typing import Final

import click

from ..capfile.recover import recover as recovered
from ..text import counted
from .common import DAMAGED, OK, as_line, damage_json, opened, output_to, progress, rewriter, say

_LISTED: Final = 50

EPILOG = """\b
Example:
  capture-file recover session.cap.part -o session.cap

\b
Exit status:
  0 nothing was lost · 3 something was · 1 failed, and nothing is written · 2 wrong usage
"""


@click.command(short_help="A clean capture of what is whole.", epilog=EPILOG)
@click.argument("file", metavar="IN", type=click.Path(path_type=str))
@rewriter
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def recover(file: str, output: str, force: bool, as_json: bool) -> int:
    """Write all that is whole of the capture IN ('-': standard input) to a clean capture.

    Where records are lost in the middle, a gap stands in their place. A clean capture is copied as it is."""
    if as_json and output == "-":
        raise click.UsageError("--json and -o - both want standard output.")
    with opened(file, twice=True, salvage=True) as reader, progress("recovering", reader):
        result = recovered(reader, output_to(output, [reader], force=force))
    if as_json:
        body = {
            "file": file,
            "output": output,
            "condition": result.condition,
            "records": result.records,
            "lost": [damage_json(damage) for damage in result.lost],
        }
        click.echo(as_line(body, indent=2))
    for damage in () if as_json else result.lost[:_LISTED]:
        say(f"{file}: lost at {damage}")
    if len(result.lost) > _LISTED and not as_json:
        say(f"{file}: and {len(result.lost) - _LISTED:,} places more; --json lists all")
    was = "not as it should be" if result.condition == "clean" else result.condition
    was = "clean, and copied as it is" if result.copied else was
    say(f"{output}: {counted(result.records, 'record')} of {file}, which was {was}")
    return DAMAGED if result.lost else OK
