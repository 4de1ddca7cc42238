"""`capture-file merge`: several captures of one program as one, in time order."""

from __future__ import annotations

import contextlib

import click

from ..capfile.merge import merge as merged
from ..text import counted
from .common import OK, opened, output_to, progress, rewriter, say

EPILOG = """\b
Example:
  capture-file merge monday.cap tuesday.cap -o week.cap
"""


@click.command(short_help="Several captures as one, in time order.", epilog=EPILOG)
@click.argument("files", metavar="IN…", type=click.Path(path_type=str), nargs=-1, required=True)
@rewriter
def merge(files: tuple[str, ...], output: str, force: bool) -> int:
    """Put the captures IN… together, by the wall clock. Calls are numbered anew, events too.

    It replays as one where it was of one life of the server: what a server knew from before is in no capture."""
    if files.count("-") > 1:
        raise click.UsageError("standard input can be read once.")
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(opened(file, twice=True)) for file in files]
        stack.enter_context(progress("merging", *readers))
        made = merged(readers, output_to(output, readers, force=force))
    if len(made.programs) > 1:
        say(
            f"note: they are of {len(made.programs)} programs: {', '.join(name or 'unnamed' for name in made.programs)}"
        )
    say(f"{output}: {counted(made.events, 'event')} of {counted(made.calls, 'call')}")
    return OK
