"""The command `capture-file`: one module for each of its commands.

Others are found by the entry points of the group `capture_replay.commands`: `diff` is the replayer's, which stands
above this package.
"""

from __future__ import annotations

from importlib import metadata
from typing import Final

import click

from .common import Commands, run, version

_GROUP: Final = "capture_replay.commands"
COMMANDS: Final = {
    "info": "info",
    "frames": "frames",
    "stats": "stats",
    "verify": "verify",
    "recover": "recover",
    "cut": "cut",
    "merge": "merge",
    "pack": "pack",
    "unpack": "pack",
    "convert": "convert",
}
"""Our own commands, each with its module; imported when it is wanted, since none needs what the others do."""

EPILOG = """\b
Example:
  capture-file info session.cap
  capture-file frames session.cap --errors
  capture-file recover session.cap.part -o session.cap

\b
Exit status:
  0 the capture is clean · 3 torn or damaged (what is whole was shown) · 2 wrong usage
  1 failed: no capture, not readable, or not whole where it has to be
"""


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version(), prog_name="capture-file")
def command() -> None:
    """Look into capture files, check, mend, cut, join, pack, convert and compare them."""


for name, module in COMMANDS.items():
    command.add_lazily(metadata.EntryPoint(name, f"{__name__}.{module}:{name}", _GROUP))
for entry in metadata.entry_points(group=_GROUP):
    command.add_lazily(entry)


def main() -> None:
    """The console script."""
    run(command)


__all__ = ["main"]
