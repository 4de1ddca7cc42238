"""The command `capture-file`: one module for each of its commands."""

from __future__ import annotations

import sys

import click

from .common import INTERRUPTED, Failed
from .frames import frames
from .info import info

EPILOG = """\b
Example:
  capture-file info session.cap
  capture-file frames session.cap --json | head

\b
Exit status:
  0 the capture is clean · 3 torn or damaged (what is whole was shown)
  1 no capture, or not readable · 2 wrong usage
"""


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="capture-replay")
def command() -> None:
    """Look into capture files."""


command.add_command(info)
command.add_command(frames)


def main() -> None:
    """Run the command; every error becomes one sentence and an exit status, here and nowhere else."""
    try:
        status = command.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except Failed as error:
        click.echo(str(error), err=True)
        status = error.status
    except BrokenPipeError:  # the reader has what it wanted: `… | head`
        sys.stderr.close()
        status = 0
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
        status = 0
    sys.exit(status)


__all__ = ["main"]
