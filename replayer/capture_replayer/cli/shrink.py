"""`capture-replay shrink FILE`: the smallest part of a capture that still fails in the same way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final, Self, cast

import click
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from capture_recorder.capfile import CaptureError
from capture_recorder.terminal import console
from capture_recorder.text import printable

from ..api import ReplayOptions, places_of, settings_of
from ..clock import ClockUnavailable
from ..engine import TIMEOUT
from ..replay import CannotTell
from ..rules import BadRules
from ..shrink import Progress, Shrunk, Size
from ..shrink import shrink as shrunk
from ..spawn import STARTS_WITHIN
from .options import SETTINGS, CaptureFile, Seconds, comparison_options, spawned, tls_from, tls_options
from .running import run

CANNOT_TELL: Final = 125

EPILOG = """\b
Example:
  capture-replay shrink big.cap --spawn './serve {address}' -o small.cap

\b
Exit status:
  0 shrunk · 2 wrong usage · 125 could not (it passes, or the server does not start)
"""

TEST: Final = '''"""Made by `capture-replay shrink` from {source}: {size} of {before}.

It fails for as long as the fault is there:
{failure}
"""

from pathlib import Path

from capture_replayer import Spawn, replay

COMMAND = {command!r}


def test_{name}() -> None:
    report = replay(Path(__file__).with_name({file!r}), Spawn(COMMAND){more})
    assert report.passed, str(report)
'''


@click.command(epilog=EPILOG, context_settings=SETTINGS)
@click.argument("file", metavar="FILE", type=CaptureFile())
@click.option(
    "--spawn",
    metavar="COMMAND",
    required=True,
    help="Starts a fresh server for each trial: a command with {address}, or {host} and {port}, or unix:{unix}.",
)
@click.option(
    "-o", "--output", metavar="OUT", required=True, type=click.Path(path_type=Path), help="The capture to be made."
)
@click.option(
    "--test",
    "test_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The test to be made that shows the fault; test_NAME.py beside OUT, if not given.",
)
@click.option("--no-fields", is_flag=True, help="Leave the messages as they are.")
@click.option(
    "--start-timeout",
    metavar="SECONDS",
    type=Seconds(),
    default=STARTS_WITHIN,
    show_default=True,
    help="Limit for a server to start.",
)
@click.option(
    "--clock",
    type=click.Choice(["real", "recorded"]),
    default="real",
    show_default=True,
    help="The wall clock that the server sees.",
)
@tls_options
@click.option(
    "--call",
    "calls",
    metavar="N",
    type=click.IntRange(min=1),
    multiple=True,
    help="Only this call; may be given again.",
)
@click.option(
    "--timeout", metavar="SECONDS", type=Seconds(), default=TIMEOUT, show_default=True, help="Limit of each wait."
)
@comparison_options
@click.option("--no-rules", is_flag=True, help="Leave NAME.rules.toml, which may stand beside NAME.cap, unread.")
@click.option("--allow-torn", is_flag=True, help="Shrink what is whole of a capture that was not closed.")
@click.option("--force", is_flag=True, help="Write over files that are there.")
def shrink(
    file: str,
    spawn: str,
    output: Path,
    test_file: Path | None,
    no_fields: bool,
    start_timeout: float,
    clock: Any,
    tls: bool,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    server_name: str | None,
    no_rules: bool,
    force: bool,
    **more: Any,
) -> None:
    """Leave out of FILE what its failure does not need: whole calls, then request events, then fields.

    Each trial replays what is left against a fresh server, and counts if the first divergence is of the same kind. Run
    again after an interruption, it goes on where it was.
    """
    command = spawned(spawn, tls_from(tls, ca, cert, key, server_name), start_timeout)
    test_file = test_file or output.with_name(f"test_{_identifier(output.stem)}.py")
    if test_file.exists() and not force:
        raise click.UsageError(f"{test_file} is there already; --force writes over it, --test gives another name")
    options = cast("ReplayOptions", {**more, "clock": clock, "rules_beside": not no_rules})
    words = console(sys.stderr)
    try:
        settings = settings_of(options, several=False)
        (place,) = places_of([command], recorded_clock=clock == "recorded")

        async def work() -> Shrunk:
            async with place:
                return await shrunk(
                    file, place, output, settings,
                    server=spawn, fields=not no_fields, force=force, progress=progress,
                )  # fmt: skip

        with _Shown(words) as progress:
            done = run(work())
    except BadRules as error:
        raise click.UsageError(str(error)) from None
    except (CannotTell, CaptureError, ClockUnavailable) as error:
        words.print(f"? {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(CANNOT_TELL)
    failure = f"{done.divergence.verdict}: {done.divergence.kind} of {done.divergence.method}"
    if done.divergence.field:
        failure += f", field {done.divergence.field}"
    text = TEST.format(
        source=printable(Path(file).name),
        size=done.after,
        before=done.before,
        failure=printable(failure),
        command=spawn,
        name=_identifier(output.stem),
        file=output.name,
        more=', clock="recorded"' if clock == "recorded" else "",
    )
    test_file.write_text(text, encoding="utf-8")
    trials = f"{done.trials:,} trials" + (f", {done.known:,} known from before" if done.known else "")
    console().print(f"{done.before} → {done.after} in {trials}", highlight=False)
    console().print(
        f"{output}, and {test_file} shows it: {printable(failure)}", highlight=False, markup=False, soft_wrap=True
    )


def _identifier(stem: str) -> str:
    """The name as one of Python's."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in stem)


class _Shown(Progress):
    """How it goes, on a terminal."""

    def __init__(self, words: Console) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        self._bar = Bar(*columns, console=words, transient=True, disable=not words.is_terminal)
        self._task = self._bar.add_task("replaying it as it is", total=None)
        self._what = "what comes after the failure"

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._bar.stop()

    def phase(self, what: str, size: Size) -> None:
        """See `Progress`."""
        self._what = what
        self._bar.update(self._task, description=f"leaving out {what}: {size}")

    def tried(self, trials: int, size: Size) -> None:
        """See `Progress`."""
        self._bar.update(self._task, description=f"leaving out {self._what}: {size}, trial {trials:,}")
