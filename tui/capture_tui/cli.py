"""`capture-view FILE`: flags in, the viewer or its print-out; exit status out."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import click

from capture_recorder.capfile import CaptureError
from capture_recorder.capfile.decoder import CLEAN
from capture_recorder.terminal import output_to_the_end
from capture_recorder.text import printable
from capture_replayer.api import places_of
from capture_replayer.cli.options import SETTINGS, CaptureFile, Sectioned, tls_from, tls_options, where
from capture_replayer.spawn import STARTS_WITHIN

from . import view
from .model.detail import metadata_lines
from .model.document import Document, IsAPipe
from .model.figures import figure_lines
from .model.filters import BadFilter, Filter
from .model.frame import Frame, key_of
from .model.hexdump import columns_for, hex_line
from .model.listing import call_line, frame_line, ladder_line, time_text
from .model.paint import Line, cut, plain, safe
from .model.rows import Rows

FAILED, DAMAGED = 1, 3
_WIDTH: Final = 120
_PORT: Final = 8000

EPILOG = """\b
Example:
  capture-view session.cap
  capture-view session.cap --spawn 'capture-server --listen {address}'
  capture-view session.cap --print --filter failed
  capture-view session.cap --print --frame 27 --tab checksums

\b
In the viewer, ? lists the keys; with --target or --spawn, s and c step through a replay.
Exit status: 0 · 1 the file cannot be opened · 2 wrong usage · 3 (--print) torn or damaged
"""


def _version() -> str:
    from importlib import metadata  # noqa: PLC0415

    return metadata.version("capture-replay")


@click.command(
    cls=Sectioned,
    epilog=EPILOG,
    context_settings=SETTINGS,
    sections={
        "Replay": ("target", "spawn", "recorded_clock", "timeout"),
        "TLS": ("tls", "ca", "cert", "key", "server_name"),
        "Without a terminal": ("as_text", "what", "filter_", "call", "frame", "tab", "width", "web", "port"),
    },
)
@click.argument("file", metavar="FILE", type=CaptureFile())
@click.option("--target", metavar="HOST:PORT", help="Step through a replay against this server.")
@click.option(
    "--spawn", metavar="CMD", help="Start a fresh server for it: CMD has {address}, {host} and {port}, or {unix}."
)
@click.option(
    "--clock",
    "recorded_clock",
    type=click.Choice(["real", "recorded"]),
    default="real",
    show_default=True,
    help="What a spawned server sees as the time.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="For each wait of a replay.",
)
@tls_options
@click.option("--light", is_flag=True, help="Begin with light colours.")
@click.option("--print", "as_text", is_flag=True, help="Print a view, or a frame, and end.")
@click.option(
    "--view",
    "what",
    type=click.Choice(["frames", "calls", "ladder", "stats"]),
    default="frames",
    show_default=True,
    help="What --print shows.",
)
@click.option("--filter", "filter_", metavar="EXPR", help="Only frames for which this CEL expression holds.")
@click.option("--call", type=click.IntRange(min=1), metavar="N", help="Only this call.")
@click.option("--frame", type=click.IntRange(min=1), metavar="N", help="Begin at this frame; --print shows its detail.")
@click.option("--tab", type=click.Choice(view.TABS), default="decoded", show_default=True, help="Which detail.")
@click.option(
    "--width", type=click.IntRange(20, 400), default=_WIDTH, show_default=True, metavar="COLUMNS", help="Of --print."
)
@click.option("--web", is_flag=True, help="Serve the viewer to a browser on this machine (needs textual-serve).")
@click.option("--port", type=click.IntRange(1, 65535), default=_PORT, show_default=True, help="Of --web.")
@click.version_option(_version(), prog_name="capture-view")
def command(file: str, **given: Any) -> None:
    """Step through the capture FILE: its calls, its frames, each message decoded and in bytes.

    With --target or --spawn the requests can be sent again one by one, each answer beside the recorded one.
    """
    if given["web"]:
        _serve(given["port"])
        return
    place = None
    if given["target"] or given["spawn"]:
        tls = tls_from(*(given[name] for name in ("tls", "ca", "cert", "key", "server_name")))
        targets = (given["target"],) if given["target"] else ()
        found = where(targets, given["spawn"], tls, timeout=given["timeout"], starts_within=STARTS_WITHIN)
        try:
            place = places_of(found, recorded_clock=given["recorded_clock"] == "recorded", timeout=given["timeout"])[0]
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    try:
        document = Document(file)
        if given["as_text"] and not document.scanned:
            document.scan()
    except (CaptureError, IsAPipe) as error:
        _fail(str(error))
    try:
        if given["call"] and document.scanned and given["call"] not in document.calls():
            _fail(f"{file}: there is no call {given['call']} in it; --print --view calls lists its calls")
        if given["as_text"]:
            _print(document, given)
        else:
            _show(document, place, given)
    except BadFilter as error:
        raise click.UsageError(f"--filter: {error}") from None
    finally:
        document.close()


def _fail(text: str) -> NoReturn:
    click.echo(printable(text), err=True)
    sys.exit(FAILED)


def _show(document: Document, place: Any, given: dict[str, Any]) -> None:
    if "TEXTUAL_DRIVER" not in os.environ and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("the viewer needs a terminal; --print shows the capture without one")
    from .app import Viewer  # noqa: PLC0415 - --print and --help do not wait for Textual

    app = Viewer(document, place, dark=not given["light"])
    app.replay_timeout = given["timeout"]
    app.start_at(given["call"], given["frame"], given["filter_"], view.TABS.index(given["tab"]))
    last = app.run()
    if last:
        click.echo(printable(last), err=True)
    sys.exit(app.return_code or 0)


def _serve(port: int) -> None:
    try:
        from .web import Door  # noqa: PLC0415 - an extra
    except ImportError:
        _fail("--web needs textual-serve: pip install 'capture-replay[web]'")
    words = [word for word in sys.argv[1:] if word != "--web"]
    try:
        Door(shlex.join([sys.executable, "-m", "capture_tui", *words]), port).serve()
    except OSError as error:
        _fail(f"cannot serve on port {port}: {(error.strerror or str(error)).lower()}; --port takes another")


# --- without a terminal -----------------------------------------------------------------------------------------------


def _print(document: Document, given: dict[str, Any]) -> None:
    lines = (
        map(safe, _detail(document, given))
        if given["frame"]
        else (cut(line, given["width"]) for line in _view(document, given))
    )
    for line in lines:
        click.echo(plain(line).rstrip())
    sys.exit(0 if document.condition == CLEAN else DAMAGED)


def _detail(document: Document, given: dict[str, Any]) -> Iterator[Line]:
    width, frame = given["width"], document.frame(key_of(given["frame"]))
    if frame is None:
        _fail(f"{document.path}: record {given['frame']} is no frame; --print without --frame lists them")
    yield frame_line(frame, document.known(frame, large=True), width, time=time_text(frame.time_ns, width))
    yield []
    match given["tab"]:
        case "hex":
            yield from _hex(frame, width)
        case "checksums":
            yield from view.checks(document, frame, width)
        case "metadata":
            yield from metadata_lines(document, frame)
        case "difference":
            yield from view.difference(document, frame, None, width)
        case _:
            tree = view.tree_of(document, frame)
            yield from view.notice(document, frame, tree)
            for node in () if tree is None else tree.rows:
                yield node.line()


def _hex(frame: Frame, width: int) -> Iterator[Line]:
    payload = b"" if frame.message is None else frame.message.payload
    wide = columns_for(width)
    for at in range(0, len(payload), wide):
        yield hex_line(payload, at, wide, ["value"] * wide)


def _view(document: Document, given: dict[str, Any]) -> Iterator[Line]:
    width, what = given["width"], given["what"]
    if what == "calls":
        document.count_errors()
        for call in document.calls() if given["call"] is None else [given["call"]]:
            yield call_line(document.call(call), width, label=document.label(call), errors=document.errors[call])
        return
    if what == "stats":
        from capture_recorder.capfile import Entry  # noqa: PLC0415
        from capture_recorder.capfile.stats import stats  # noqa: PLC0415

        yield from figure_lines(stats(item for item in document.reader.scan() if isinstance(item, Entry)), width)
        return
    chosen = None if given["filter_"] is None else Filter(given["filter_"], document)
    rows: Rows = document.all_rows() if given["call"] is None else document.rows_of(given["call"])
    before = 0
    for frame in document.items(rows.window(0, rows.size)):
        wait = (frame.time_ns or before) - before
        before = frame.time_ns or before
        if chosen is None or chosen.matches(frame):
            known, time = (
                document.known(frame, large=True),
                time_text(frame.time_ns, max(width, 120) if what == "ladder" else width),
            )
            if what == "ladder":
                yield ladder_line(frame, known, width, time=time, wait_ns=wait)
            else:
                yield frame_line(frame, known, width, time=time, with_call=given["call"] is None)


def main() -> None:
    """The console script."""
    with output_to_the_end("capture-view", failed=FAILED, cut_off=0):
        command(prog_name="capture-view")
