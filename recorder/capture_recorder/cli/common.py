"""What the commands share: exit statuses, opening a file, and an event in words and in JSON."""

from __future__ import annotations

import base64
import os
import sys
from typing import IO, Any, Final

from rich.console import Console, ConsoleDimensions
from rich.table import Table

from ..capfile import CaptureError, CaptureReader, Damage, open_capture
from ..capfile.reader import CLEAN
from ..capfile.records import Metadata, Redacted
from ..text import printable

FAILED: Final = 1
DAMAGED: Final = 3
INTERRUPTED: Final = 130
_WIDTH_OF_A_FILE: Final = 10_000  # what is not a terminal gets whole lines


class Failed(Exception):
    """The command ends here; the text is one sentence."""

    def __init__(self, sentence: str, status: int = FAILED) -> None:
        super().__init__(printable(sentence))
        self.status = status


def opened(file: str) -> CaptureReader:
    """The capture, or standard input for "-". Raises Failed."""
    try:
        return open_capture(file, stdin=sys.stdin.buffer if file == "-" else None)
    except CaptureError as error:
        raise Failed(str(error)) from error


def status_of(reader: CaptureReader) -> int:
    """The exit status that says whether the capture was whole; to be asked after a scan."""
    return 0 if reader.condition == CLEAN else DAMAGED


def console(stream: IO[str] | None = None) -> Console:
    """A console that interprets nothing of what it is given, and cuts lines at the terminal's edge only."""
    out = Console(file=stream or sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not out.is_terminal and "COLUMNS" not in os.environ:
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


def damage_json(damage: Damage) -> dict[str, Any]:
    """A range that holds no good record."""
    names = ("offset", "size", "why", "first", "last")
    return {name: getattr(damage, name) for name in names}


def metadata_json(metadata: Metadata) -> list[list[Any]]:
    """Pairs in their order. A value that is not text is `{"base64": …}`, a redacted one `{"redacted": …}`."""
    return [[key, _value_json(key, value)] for key, value in metadata]


def _value_json(key: str, value: bytes | Redacted) -> Any:
    if isinstance(value, Redacted):
        return {"redacted": {"length": value.length, "digest": value.digest.hex()}}
    if not key.endswith("-bin"):
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {"base64": base64.b64encode(value).decode()}
