"""What the commands share: how they end, opening a file, and what a capture holds in words and in JSON."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import metadata as distributions
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from ..capfile import (
    CannotOpen,
    CaptureError,
    CaptureReader,
    CaptureWriteError,
    Damage,
    NotACapture,
    open_capture,
)
from ..capfile.decoder import CLEAN
from ..capfile.framing import MAGIC
from ..capfile.output import Output, PartFile, Pipe, own_part
from ..capfile.records import Gap, Metadata, Redacted
from ..terminal import console, discard_output
from ..text import printable

_NO_PROGRESS: Final = 64 * 1024 * 1024  # bytes that are read in less than a second
PEEK: Final = 1 << 16  # bytes by which it is told what a file is
OK: Final = 0
FAILED: Final = 1
DAMAGED: Final = 3
INTERRUPTED: Final = 130


class Commands(click.Group):
    """Commands that may be cut off: when the reader of the output has what it wanted (`… | head`), nothing failed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lazy: dict[str, distributions.EntryPoint] = {}

    def add_lazily(self, entry: distributions.EntryPoint) -> None:
        """A command of another package, which is imported when it is wanted."""
        self._lazy[entry.name] = entry

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """All names, in the order in which `--help` lists them."""
        return [*self.commands, *self._lazy]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name in self._lazy:
            command = self._lazy[cmd_name].load()
            assert isinstance(command, click.Command)
            return command
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """The exit status of the command."""
        try:
            status = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:  # here and not in `run`, since click would make it 1 on the way
            discard_output()
            return OK
        except SystemExit as error:  # rich's way of saying it
            if isinstance(error.__context__, BrokenPipeError):
                return OK
            raise
        return status


def run(command: click.Group) -> NoReturn:
    """Run it as this process. Every error becomes one sentence and an exit status, here and nowhere else."""
    if sys.stdout is None:  # started with `>&-`
        _closed.add(STDOUT)
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for as long as we live
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an ASCII locale is no reason to fail at an arrow
            stream.reconfigure(errors="backslashreplace")
    for sign in (signal.SIGTERM, signal.SIGHUP):  # so that nothing half made is left
        if signal.getsignal(sign) is not signal.SIG_IGN:  # as `nohup` has it
            signal.signal(sign, _end)
    try:
        status = command.main(standalone_mode=False)
    except click.ClickException as error:
        with contextlib.suppress(OSError):  # nobody can be told
            error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except CaptureError as error:
        status = _fail(str(error))
    except OSError as error:  # the disk of the output is full, that of the capture is broken
        discard_output()
        status = _fail(f"{error.filename or 'capture-file'}: {(error.strerror or str(error)).lower()}")
    finally:
        for part in _unfinished:  # of a whole one there is no such file any more
            with contextlib.suppress(OSError):
                part.unlink()
    sys.exit(status)


def _end(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)  # as a shell has it


def _fail(sentence: str) -> int:
    say(sentence)
    return FAILED


def version() -> str:
    """Our own, as installed."""
    try:
        return distributions.version("capture-replay")
    except distributions.PackageNotFoundError:  # run from a source tree
        return "unknown"


def opened(file: str, *, twice: bool = False, salvage: bool = False) -> CaptureReader:
    """The capture, or standard input for "-". What is no file and is to be read `twice` is kept in one without a name.
    Raises CaptureError."""
    if twice and not _is_regular(file):
        with spooled(file, partial(_refuse_others, file)) as stream:
            return open_capture(file, stdin=stream, salvage=salvage)
    stdin: BinaryIO | None = getattr(sys.stdin, "buffer", None) if file == "-" else None
    return open_capture(file, stdin=stdin, salvage=salvage)


def _refuse_others(file: str, head: bytes) -> None:
    if not head.startswith(MAGIC):
        raise NotACapture(file, "it does not begin with the capture magic" if head else "the file is empty")


def _is_regular(file: str) -> bool:
    """Whether it can be read twice; what is not there fails elsewhere, and better."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode if file == "-" else os.stat(file).st_mode  # noqa: PTH116
    except (OSError, ValueError, AttributeError):
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


@contextlib.contextmanager
def spooled(file: str, check: Callable[[bytes], None]) -> Iterator[BinaryIO]:
    """A file, or standard input for "-", open for reading; what cannot be read twice as a copy. `check` sees its
    beginning first: what comes without an end is not to fill a disk. Raises CannotOpen, and what `check` does."""
    stdin = getattr(sys.stdin, "buffer", None) if file == "-" else None
    try:
        stream = stdin or open(file, "rb")  # noqa: PTH123, SIM115 - its name as it was given, closed below
    except OSError as error:
        raise CannotOpen(file or '""', (error.strerror or str(error)).lower()) from error
    with stream:
        if _is_regular(file):
            check(stream.read(PEEK))
            stream.seek(0)
            yield stream
            return
        with tempfile.TemporaryFile() as copy:
            head = stream.read(PEEK)
            check(head)
            copy.write(head)
            shutil.copyfileobj(stream, copy)
            copy.seek(0)
            yield copy


def output_to(file: str, sources: Sequence[CaptureReader], *, force: bool) -> Output:
    """Where a rewriter writes: a new file, or standard output for "-". Raises CaptureError."""
    if file == "-":
        if STDOUT in _closed:
            raise CaptureWriteError("-", "standard output is closed")
        if sys.stdout.isatty():
            raise CaptureWriteError("-", "a capture is no text: send it to a file or a program, not to a terminal")
        return Pipe(sys.stdout.fileno())
    if any(_is_same(source, file) for source in sources):
        raise CaptureWriteError(file, "is the capture itself, which is never changed; give another name")
    if _is_regular(file):
        target = Path(os.path.realpath(file)) if file else Path()  # what a link leads to is written, the link stays
        if target.name:
            _unfinished.add(own_part(target))  # before it is there: a signal may come at any moment
        if target.exists() and not force and not target.is_dir():
            raise CaptureWriteError(file, "exists already; give another name, or --force to write over it")
        return PartFile(target, replace=force, own=True)
    try:  # a device or a named pipe: it is written to, and never replaced
        return Pipe(os.open(file, os.O_WRONLY | os.O_CLOEXEC), file)
    except OSError as error:
        raise CaptureWriteError(file, f"cannot be opened: {(error.strerror or str(error)).lower()}") from error


def _is_same(source: CaptureReader, file: str) -> bool:
    try:
        return source.is_file(file)
    except (OSError, ValueError):  # it is not there
        return False


STDOUT: Final = 1
_closed: Final[set[int]] = set()  # descriptors that were closed when we were started
_unfinished: Final[set[Path]] = set()  # files that are not to be left behind

_Command = TypeVar("_Command", bound=Callable[..., Any])


def rewriter(command: _Command) -> _Command:
    """The options of a command that writes a capture."""
    to = click.option("-o", "--output", "output", required=True, metavar="OUT", help="Where to ('-': standard output).")
    force = click.option("--force", is_flag=True, help="Write over OUT, if there is one.")
    return to(force(command))


@contextlib.contextmanager
def progress(what: str, *readers: CaptureReader) -> Iterator[None]:
    """Shows on a terminal, after a second, how much of the captures was read."""
    screen = console(sys.stderr)
    total = sum(reader.size or 0 for reader in readers)
    if not screen.is_terminal or total < _NO_PROGRESS:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bars:
        task = bars.add_task(what, total=total)
        seen = dict.fromkeys(readers, 0)

        def watch(reader: CaptureReader, offset: int) -> None:
            seen[reader] = offset
            bars.update(task, completed=sum(seen.values()))

        for reader in readers:
            reader.watch = partial(watch, reader)
        yield


def say(sentence: str) -> None:
    """Words for people go to standard error; where that is full or closed, nowhere."""
    with contextlib.suppress(OSError):
        click.echo(printable(sentence), err=True)


def status_of(reader: CaptureReader) -> int:
    """The exit status that says whether the capture was whole; to be asked after a scan. Words say it too."""
    if reader.condition == CLEAN:
        return OK
    say(f"{reader.name}: the capture is {reader.condition}; `capture-file verify` says where, `recover` what is whole")
    return DAMAGED


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
