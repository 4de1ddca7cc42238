"""Output for people, shared by the commands: nothing is interpreted, and what is no terminal gets whole lines."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final

from rich.console import Console, ConsoleDimensions
from rich.table import Table

_WIDTH_OF_A_FILE: Final = 10_000


def console(stream: IO[str] | None = None) -> Console:
    """A console on standard output, or on another stream. Text is shown as it is given: no markup, no emoji names, no
    guesses at what might be a number. Colour only on a terminal, and not with NO_COLOR."""
    out = Console(file=stream or sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:  # rich does not look at it on a dumb terminal
        out.size = ConsoleDimensions(int(columns), out.size.height)
    elif not out.is_terminal:
        out.size = ConsoleDimensions(_WIDTH_OF_A_FILE, 100)
    return out


def print_table(out: Console, table: Table) -> None:
    """Print a table without the blanks that fill its last column, which have no use outside of a terminal."""
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as captured:
        out.print(table)
    out.print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def folded(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` characters, where words allow it; one line at least."""
    return textwrap.wrap(text, max(width, 20), break_on_hyphens=False, break_long_words=False) or [""]


def discard_output() -> None:
    """What is still in the buffer goes nowhere, so that Python does not fail at it once more when it ends."""
    try:
        fd = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):  # no file behind it
        return
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, fd)
    os.close(devnull)


@contextmanager
def output_to_the_end(name: str, *, failed: int, cut_off: int) -> Iterator[None]:
    """Around a command that writes to standard output. Where that cannot be written, one sentence says so and the exit
    status is `failed`; where its reader has gone, nothing is said and it is `cut_off`."""
    stream = sys.stdout
    try:
        try:
            yield
        except SystemExit as end:
            # rich's way of saying it; and click's, which then stands between us and the stream
            if isinstance(end.__context__, BrokenPipeError) or sys.stdout is not stream:
                sys.stdout = stream
                raise BrokenPipeError from None
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        sys.exit(cut_off)
    except OSError as error:
        if error.filename is not None:
            raise
        discard_output()
        with suppress(OSError):  # nobody can be told
            sys.stderr.write(f"{name}: the output cannot be written: {(error.strerror or str(error)).lower()}\n")
        sys.exit(failed)
