"""`capture-replay FILE --target HOST:PORT`: flags in, exit status out; the work is `replay.py`'s."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from capture_recorder.terminal import console
from capture_recorder.text import printable

from ..client import GrpcClient, Tls
from ..engine import Options
from ..plan import Step
from ..replay import Survey, replay_capture
from ..report import show
from ..result import Result

_STRIDE = 100  # steps between two updates of the progress: each takes longer than a step
PASSED, DIVERGED, CANNOT_TELL, INTERRUPTED = 0, 1, 125, 130

EPILOG = """\b
Example:
  capture-server --listen localhost:50051 --capture session.cap
  capture-replay session.cap --target localhost:50051

\b
Exit status, for scripts and `git bisect run`:
  0 all identical · 1 a divergence · 2 wrong usage
  125 could not tell (no server, or a capture that is damaged, torn or no capture)
"""


class Seconds(click.ParamType[float]):
    """A time limit: a number above 0, or `inf`."""

    name = "seconds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = 0.0
        if not seconds > 0:  # so written that NaN is refused too
            self.fail(f"{value!r} is not a number of seconds above 0", param, ctx)
        return seconds


class MetadataType(click.ParamType[tuple[str, "str | bytes"]]):
    """`key=value`, a pair of metadata; the value of a `-bin` key is given in base64."""

    name = "key=value"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str | bytes]:
        if isinstance(value, tuple):
            return value
        key, sign, text = str(value).partition("=")
        key = key.strip().lower()
        if not sign or not key or not all(c.isascii() and (c.isalnum() or c in "-_.") for c in key):
            self.fail(f"{value!r} is not key=value", param, ctx)
        if not key.endswith("-bin"):
            if not (text.isascii() and text.isprintable()):
                self.fail(
                    f"the value of {key!r} is not printable ASCII; a key that ends in -bin takes base64", param, ctx
                )
            return key, text
        try:
            return key, base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except ValueError:
            self.fail(f"the value of {key!r} is not base64", param, ctx)


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=str))
@click.option("--target", metavar="HOST:PORT", required=True, help="The server to replay against; also unix:PATH.")
@click.option(
    "--call",
    "calls",
    metavar="N",
    type=click.IntRange(min=1),
    multiple=True,
    help="Only this call; may be given again.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Seconds(),
    default=10.0,
    show_default=True,
    help="Limit of each wait.",
)
@click.option(
    "--metadata",
    type=MetadataType(),
    multiple=True,
    help="Send this with every call, in the place of the recorded key; may be given again.",
)
@click.option("--tls", is_flag=True, help="Speak TLS to the target.")
@click.option(
    "--ca",
    metavar="PEM",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Trust this authority (implies --tls).",
)
@click.option(
    "--cert",
    metavar="PEM",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Client certificate; with --key.",
)
@click.option(
    "--key",
    metavar="PEM",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Key of the client certificate.",
)
@click.option("--server-name", metavar="NAME", help="Name that the server's certificate is for, if not the target's.")
@click.option("--allow-torn", is_flag=True, help="Replay what is whole of a capture that was not closed.")
@click.option("--json", "json_file", metavar="FILE|-", help="Write the result as JSON; '-' is standard output.")
@click.version_option(package_name="capture-replay")
def main(
    files: tuple[str, ...],
    target: str,
    calls: tuple[int, ...],
    timeout: float,
    metadata: tuple[tuple[str, str | bytes], ...],
    tls: bool,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    server_name: str | None,
    allow_torn: bool,
    json_file: str | None,
) -> None:
    """Send the recorded requests of FILE to a fresh server and check that it answers with the same bytes.

    Requests go out in the recorded causal order: each when everything that the server had sent before it has come back.
    """
    if (cert is None) != (key is None):
        raise click.UsageError("--cert and --key go together")
    secure = Tls(ca, cert, key, server_name) if tls or ca or cert or server_name else None
    words = console(sys.stderr)
    report = words if json_file == "-" else console()
    options = Options(timeout, metadata)

    async def run() -> list[Result]:
        results = []
        for file in files:
            with _Watcher(words, file) as watcher:
                result = await replay_capture(
                    file,
                    lambda: _connect(target, secure, timeout, watcher),
                    options=options,
                    calls=calls,
                    allow_torn=allow_torn,
                    started=watcher.started,
                    progress=watcher.progress,
                )
            show(result, report)
            results.append(result)
        return results

    try:
        results = asyncio.run(run())
        if json_file is not None:
            _write_json(results, json_file)
    except KeyboardInterrupt:
        words.print("interrupted")
        sys.exit(INTERRUPTED)
    sys.exit(exit_status(results))


def exit_status(results: list[Result]) -> int:
    """A divergence that was seen outweighs a capture that could not be judged."""
    if any(result.error is None and not result.passed for result in results):
        return DIVERGED
    return PASSED if all(result.passed for result in results) else CANNOT_TELL


async def _connect(target: str, tls: Tls | None, timeout: float, watcher: _Watcher) -> GrpcClient:
    watcher.connecting(target)
    try:
        return await GrpcClient.connect(target, tls=tls, timeout=timeout)
    except OSError as error:
        raise click.UsageError(f"cannot read {error.filename}: {error.strerror}") from error


def _write_json(results: list[Result], file: str) -> None:
    report = {
        "passed": all(result.passed for result in results),
        "captures": [result.as_json() for result in results],
    }
    text = json.dumps(report, ensure_ascii=file == "-", indent=2) + "\n"
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise click.UsageError(f"cannot write {file}: {(error.strerror or str(error)).lower()}") from error


class _Watcher:
    """What a person sees on a terminal while it runs; nothing where standard error is no terminal."""

    def __init__(self, console: Console, file: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(f"reading {printable(Path(file).name)}", total=None)
        self._done = 0
        self._name = printable(Path(file).name)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def connecting(self, target: str) -> None:
        self._progress.update(self._task, description=f"connecting to {printable(target)}")

    def started(self, survey: Survey) -> None:
        self._progress.update(self._task, description=f"replaying {self._name}", total=survey.steps)

    def progress(self, _step: Step) -> None:
        self._done += 1
        if self._done % _STRIDE == 0:
            self._progress.update(self._task, completed=self._done)
