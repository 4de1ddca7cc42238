"""`capture-replay FILE… --target HOST:PORT`: flags in, exit status out; the work is the library's."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import click
from rich.console import Console

from capture_recorder.capfile import CaptureError
from capture_recorder.terminal import console
from capture_recorder.text import printable

from ..api import ReplayOptions, Report, expand, places_of, replay_async, settings_of
from ..clock import ClockUnavailable
from ..engine import ORDERS, TIMEOUT
from ..junit import as_junit
from ..learn import FEWEST, Learned, learn
from ..replay import CannotTell
from ..report import REPLAY, Words, as_text, show, summary
from ..rules import BadRules, as_toml
from ..spawn import STARTS_WITHIN, Spawn
from ..versus import versus
from .options import (
    SETTINGS,
    CaptureFile,
    Factor,
    MetadataType,
    Seconds,
    Sectioned,
    comparison_options,
    spawned,
    tls_from,
    tls_options,
    where,
)
from .running import run
from .watch import Bars

CANNOT_TELL = 125
USAGE: Final = 2
_TARGET: Final = click.Path(path_type=str)

EPILOG = """\b
Example:
  capture-server --listen localhost:50051 --capture session.cap
  capture-replay session.cap --target localhost:50051
  capture-replay session.cap --spawn 'capture-server --listen {address}'
  git bisect run capture-replay bug.cap --spawn './serve {address}'

\b
Besides:
  capture-replay shrink FILE     the smallest part of a capture that still fails
  capture-file diff A B          two captures, compared in the same way

\b
Exit status, for scripts and `git bisect run`:
  0 all pass · 1 a divergence · 2 wrong usage
  125 could not tell (no server, or a capture that is damaged, torn or no capture)
"""

SECTIONS: Final = {
    "Where": ("targets", "spawn", "fresh", "start_timeout", "clock", "tls", "ca", "cert", "key", "server_name"),
    "What and when": (
        "calls", "order", "speed", "concurrency", "attempts", "timeout", "metadata", "jobs", "fail_fast", "allow_torn",
    ),
    "What passes": ("ignore", "ignore_metadata", "accept", "rules", "no_rules", "learn_runs", "baseline", "candidate"),
    "Results": ("json_file", "junit", "save_actual", "update", "force"),
}  # fmt: skip


@click.command(cls=Sectioned, sections=SECTIONS, epilog=EPILOG, context_settings=SETTINGS)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=CaptureFile())
@click.option(
    "--target",
    "targets",
    metavar="HOST:PORT",
    multiple=True,
    help="The server to replay against; also unix:PATH or dns:NAME:PORT. Given again, the captures are shared out.",
)
@click.option(
    "--spawn",
    metavar="COMMAND",
    help="Start a fresh server for each capture: a command with {address}, or {host} and {port}, or unix:{unix}.",
)
@click.option(
    "--fresh",
    type=click.Choice(["capture", "run"]),
    default="capture",
    show_default=True,
    help="Start a server for each capture, or one for all.",
)
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
    help="The wall clock that a spawned server sees: its own, or at each request the recorded one.",
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
    "--order",
    type=click.Choice(ORDERS),
    default="causal",
    show_default=True,
    help="causal: each request when all that the server had sent before it has come back. timed: and not before its "
    "recorded time. asap: as fast as flow control lets them.",
)
@click.option("--speed", metavar="FACTOR", type=Factor(), help="With --order timed: so many times as fast as recorded.")
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(min=1),
    help="For calls that do not depend on one another: so many at a time, each held to its own order alone.",
)
@click.option(
    "--attempts",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Where requests of several calls raced, try so many of their legal orders before it counts as a divergence.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Seconds(),
    default=TIMEOUT,
    show_default=True,
    help="Limit of each wait, beyond what the recording took for it.",
)
@click.option(
    "--metadata",
    type=MetadataType(),
    multiple=True,
    help="Send this with every call, in the place of the recorded key; may be given again.",
)
@click.option(
    "--jobs", metavar="N", type=click.IntRange(min=1), default=1, show_default=True, help="Captures at a time."
)
@click.option("--fail-fast", is_flag=True, help="Stop at the first capture that does not pass.")
@click.option("--allow-torn", is_flag=True, help="Replay what is whole of a capture that was not closed.")
@comparison_options
@click.option("--no-rules", is_flag=True, help="Leave NAME.rules.toml, which may stand beside NAME.cap, unread.")
@click.option(
    "--learn",
    "learn_runs",
    metavar="K",
    type=click.IntRange(min=FEWEST),
    help="Replay K times, find what varies, and print rules that leave it out.",
)
@click.option("--baseline", metavar="WHERE", help="With --candidate: hold its answers against those of this server.")
@click.option("--candidate", metavar="WHERE", help="An address, or a command as for --spawn.")
@click.option("--json", "json_file", metavar="FILE|-", help="Write the result as JSON; '-' is standard output.")
@click.option("--junit", metavar="FILE", type=_TARGET, help="Write the result as JUnit XML.")
@click.option(
    "--save-actual",
    metavar="PATH",
    type=_TARGET,
    help="Write what was seen as a capture; a folder for several. `capture-file diff` sets both side by side.",
)
@click.option(
    "--update",
    metavar="PATH",
    type=_TARGET,
    help="Accept the answers: write a capture with the recorded requests and the new answers; a folder for several.",
)
@click.option("--force", is_flag=True, help="Write over files that are there.")
@click.version_option(package_name="capture-replay")
def replay(
    files: tuple[str, ...],
    targets: tuple[str, ...],
    spawn: str | None,
    fresh: Any,
    start_timeout: float,
    clock: Any,
    tls: bool,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    server_name: str | None,
    speed: float | None,
    learn_runs: int | None,
    baseline: str | None,
    candidate: str | None,
    json_file: str | None,
    junit: str | None,
    no_rules: bool,
    **more: Any,
) -> None:
    """Send the recorded requests of FILE to a fresh server and check that it answers with the same bytes.

    Requests go out in the recorded causal order: each when everything that the server had sent before it has come back.
    A folder stands for the captures in it.
    """
    secure = tls_from(tls, ca, cert, key, server_name)
    if speed is not None and more["order"] != "timed":
        raise click.UsageError("--speed is for --order timed: the other orders do not look at the clock")
    if clock == "recorded" and (more["order"] == "asap" or more["concurrency"] is not None):
        raise click.UsageError("--clock recorded needs one order over all calls: no --order asap, no --concurrency")
    given = {**more, "fresh": fresh, "clock": clock, "speed": speed or 1.0, "rules_beside": not no_rules}
    options = cast("ReplayOptions", given)
    _no_folder(json_file, junit)
    words = console(sys.stderr)
    report = words if json_file == "-" else console()
    try:
        captures = expand(files)
        if baseline is not None or candidate is not None:
            if baseline is None or candidate is None or targets or spawn is not None or learn_runs is not None:
                raise click.UsageError(
                    "--baseline and --candidate go together, and without --target, --spawn or --learn"
                )
            sides = [_side(text, secure, start_timeout) for text in (baseline, candidate)]
            wording = Words("not as the baseline answered", "baseline", "candidate")
            with Bars(words, partial(show, console=report, words=wording), len(captures)) as bars:
                results = run(versus(captures, sides[0], sides[1], options | {"watcher": bars}))
            done = Report(tuple(results))
        else:
            places = where(targets, spawn, secure, timeout=more["timeout"], starts_within=start_timeout)
            if learn_runs is not None:
                sys.exit(_learn(captures, places[0], options, learn_runs))
            with Bars(words, partial(show, console=report, words=REPLAY), len(captures)) as bars:
                done = run(replay_async(captures, places, **(options | {"watcher": bars})))
    except (BadRules, ValueError, CaptureError) as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        if error.filename is None:  # standard output's
            raise
        raise click.UsageError(f"cannot use {error.filename}: {(error.strerror or str(error)).lower()}") from error
    summary(done.results, done.unused, done.seconds, report)
    written = _write(done, json_file, junit, words)
    sys.exit(done.exit_status if written or done.exit_status else USAGE)


def _side(text: str, tls: Any, starts_within: float) -> Any:
    """A server of a comparison: a command has a place for the address, and an address has none."""
    if "{" in text:
        return spawned(text, tls, starts_within)
    return where((text,), None, tls, starts_within=starts_within)[0]


def _learn(captures: list[str], place: Any, options: ReplayOptions, runs: int) -> int:
    """Print the rules; the exit status."""
    words = console(sys.stderr)
    recorded_clock = options.get("clock") == "recorded"
    (there,) = places_of([place], fresh=options.get("fresh", "capture"), recorded_clock=recorded_clock)

    async def all_of_them() -> list[Learned]:
        async with there:
            settings = settings_of(options, several=False)
            return [await learn(file, there, settings, runs) for file in captures]

    try:
        learned = run(all_of_them())
    except (CannotTell, ClockUnavailable) as error:
        words.print(f"? {error}", markup=False, highlight=False)
        return CANNOT_TELL
    if not isinstance(place, Spawn):
        words.print(
            "not fresh: each run found the server as the last one left it; --spawn starts one for each", style="yellow"
        )
    proposals = {proposal.rule: proposal for each in learned for proposal in each.proposals}
    problems = [problem for each in learned for problem in each.problems]
    if proposals:
        sys.stdout.write(as_toml(proposals, [proposal.comment for proposal in proposals.values()]))
    for problem in problems:
        words.print(f"✗ {problem}", markup=False, highlight=False, soft_wrap=True)
    told = f"{len(proposals)} rule{'' if len(proposals) == 1 else 's'}" if proposals else "nothing varied"
    words.print(f"{runs} runs of {len(captures)} capture{'' if len(captures) == 1 else 's'}: {told}", highlight=False)
    return 1 if problems else 0


def _no_folder(*files: str | None) -> None:
    """A long replay is not to end with a result that has nowhere to go. Raises click.UsageError."""
    for file in files:
        if file not in (None, "-") and not Path(file).parent.is_dir():
            raise click.UsageError(f"cannot write {file}: {Path(file).parent} is no folder")


def _write(report: Report, json_file: str | None, junit: str | None, words: Console) -> bool:
    """The result for machines; whether all of it is written. The verdict stands, whatever becomes of the files."""
    written = True
    if json_file is not None:
        text = json.dumps(report.as_json(), ensure_ascii=json_file == "-", indent=2) + "\n"
        if json_file == "-":
            sys.stdout.write(text)
        else:
            written = _write_file(json_file, text.encode("utf-8", "backslashreplace"), words)
    if junit is not None:
        written = _write_file(junit, as_junit(list(report.results), as_text), words) and written
    return written


def _write_file(file: str, data: bytes, words: Console) -> bool:
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        words.print(f"! cannot write {printable(file)}: {reason}", markup=False, highlight=False, soft_wrap=True)
        return False
    return True
