"""What the commands share: how they end, opening a file, and what a capture holds in words and in JSON."""

from __future__ import annotations

import base64
import io
import json
import os
import sys
from importlib import metadata as distributions
from typing import Any, Final, NoReturn

import click
from rich.console import Console

from ..capfile import CaptureError, CaptureReader, Damage, open_capture
from ..capfile.decoder import CLEAN
from ..capfile.records import Gap, Metadata, Redacted
from ..text import printable

OK: Final = 0
FAILED: Final = 1
DAMAGED: Final = 3
INTERRUPTED: Final = 130


class Commands(click.Group):
    """Commands that may be cut off: when the reader of the output has what it wanted (`… | head`), nothing failed."""

    def invoke(self, ctx: click.Context) -> Any:
        """The exit status of the command."""
        try:
            status = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:  # here and not in `run`, since click would make it 1 on the way
            _discard_output()
            return OK
        except SystemExit as error:  # rich's way of saying it
            if isinstance(error.__context__, BrokenPipeError):
                return OK
            raise
        return status


def run(command: click.Group) -> NoReturn:
    """Run it as this process. Every error becomes one sentence and an exit status, here and nowhere else."""
    if sys.stdout is None:  # started with `>&-`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for as long as we live
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an ASCII locale is no reason to fail at an arrow
            stream.reconfigure(errors="backslashreplace")
    try:
        status = command.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except CaptureError as error:
        status = _fail(str(error))
    except OSError as error:  # the disk of the output is full, that of the capture is broken
        _discard_output()
        status = _fail(f"{error.filename or 'capture-file'}: {(error.strerror or str(error)).lower()}")
    sys.exit(status)


def _fail(sentence: str) -> int:
    click.echo(printable(sentence), err=True)
    return FAILED


def _discard_output() -> None:
    """What is still in the buffer goes nowhere, so that Python does not fail at it once more when it ends."""
    try:
        fd = sys.stdout.fileno()
    except (OSError, ValueError):  # no file behind it
        return
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, fd)
    os.close(devnull)


def version() -> str:
    """Our own, as installed."""
    try:
        return distributions.version("capture-replay")
    except distributions.PackageNotFoundError:  # run from a source tree
        return "unknown"


def opened(file: str) -> CaptureReader:
    """The capture, or standard input for "-". Raises CaptureError."""
    return open_capture(file, stdin=getattr(sys.stdin, "buffer", None) if file == "-" else None)


def status_of(reader: CaptureReader) -> int:
    """The exit status that says whether the capture was whole; to be asked after a scan."""
    return OK if reader.condition == CLEAN else DAMAGED


def is_measured(out: Console) -> bool:
    """Whether lines are to be cut: on a terminal, and where the environment says how many columns there are."""
    return out.is_terminal or "COLUMNS" in os.environ


def as_line(body: dict[str, Any], indent: int | None = None) -> str:
    """JSON in ASCII, so that nothing in it can act on a terminal."""
    return json.dumps(body, indent=indent).replace("\x7f", "\\u007f")


def damage_json(damage: Damage) -> dict[str, Any]:
    """A range that holds no good record."""
    names = ("offset", "size", "why", "first", "last")
    return {name: getattr(damage, name) for name in names}


def gap_json(seq: int, gap: Gap) -> dict[str, Any]:
    """What the recorder lost, before record `seq`."""
    return {"seq": seq, "why": gap.why, "call": gap.call, "events": gap.events, "bytes": gap.size}


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
