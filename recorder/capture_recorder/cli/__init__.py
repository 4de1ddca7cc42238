"""The command `capture-file`: one module for each of its commands.

Others are found by the entry points of the group `capture_replay.commands`: `diff` is the replayer's, which stands
above this package.
"""

from __future__ import annotations

from importlib import metadata

import click

from .common import Commands, run, version
from .convert import convert
from .cut import cut
from .frames import frames
from .info import info
from .merge import merge
from .pack import pack, unpack
from .recover import recover
from .stats import stats
from .verify import verify

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


for each in (info, frames, stats, verify, recover, cut, merge, pack, unpack, convert):
    command.add_command(each)
for entry in metadata.entry_points(group="capture_replay.commands"):
    command.add_lazily(entry)


def main() -> None:
    """The console script."""
    run(command)


__all__ = ["main"]
