"""`capture-file diff`: two captures compared event by event, in the words of a replay."""

from __future__ import annotations

import sys
from functools import partial

import click

from capture_recorder.capfile import CaptureError
from capture_recorder.cli.common import OK, as_line, opened, progress, say
from capture_recorder.terminal import console, discard_output
from capture_recorder.text import printable

from ..diff import diff as compared
from ..judge import RulesJudge
from ..report import Words, show
from ..rules import BadRules, given
from .options import comparison_options

DIVERGED, CANNOT_TELL = 1, 125

EPILOG = """\b
Example:
  capture-file diff monday.cap tuesday.cap

\b
Exit status:
  0 all identical · 1 a divergence · 2 wrong usage · 125 could not tell
"""


@click.command(short_help="Compare two captures event by event.", epilog=EPILOG)
@click.argument("first", metavar="A", type=click.Path(path_type=str))
@click.argument("second", metavar="B", type=click.Path(path_type=str))
@comparison_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def diff(
    first: str,
    second: str,
    ignore: tuple[str, ...],
    ignore_metadata: tuple[str, ...],
    accept: str,
    rules: tuple[str, ...],
    as_json: bool,
) -> int:
    """Is B what A is? Requests, responses, metadata and statuses are compared, times are not.

    The n-th call of a method in A is held against the n-th of that method in B. Events are called by their numbers in
    A; what is extra, is in B only."""
    if first == second == "-":
        raise click.UsageError("standard input can be read once.")
    try:
        judge = partial(RulesJudge, given(ignore, ignore_metadata, accept, rules))
    except BadRules as error:
        raise click.UsageError(str(error)) from None
    try:
        with opened(first) as a, opened(second) as b, progress("comparing", a, b):
            result = compared(a, b, judge)
            torn = [reader for reader in (a, b) if result.error is None and reader.condition != "clean"]
    except CaptureError as error:
        say(str(error))
        return CANNOT_TELL
    try:
        if as_json:
            click.echo(as_line({"expected": first, **result.as_json()}, indent=2))
        else:
            show(result, console(), Words(f"not as in {printable(first)}", "A", "B"))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        say(f"the result cannot be written: {(error.strerror or str(error)).lower()}")
        return CANNOT_TELL
    for reader in torn:
        say(f"{reader.name}: the capture is {reader.condition}: this says nothing of what it lost")
    if result.error is not None:
        return CANNOT_TELL
    return OK if result.passed else DIVERGED
