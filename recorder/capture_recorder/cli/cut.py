"""`capture-file cut`: some calls, a session, a span of time or of events, as a capture that still replays."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import click

from ..capfile import CaptureReader
from ..capfile.cut import ENDLESS, Span
from ..capfile.cut import cut as made_of
from ..capfile.records import Event, Schema
from ..lens.general import short
from ..text import counted, printable
from .common import OK, opened, output_to, progress, rewriter, say
from .events import Methods, Range, Seconds

_SESSION: Final = "session"  # what a lens calls it

EPILOG = """\b
Example:
  capture-file cut day.cap --call 7 -o bug.cap
  capture-file cut day.cap --session a-route-id -o bug.cap
  capture-file cut day.cap --since 12.5 --until 14 -o bug.cap
"""


@click.command(short_help="A smaller capture that still replays.", epilog=EPILOG)
@click.argument("file", metavar="IN", type=click.Path(path_type=str))
@rewriter
@click.option(
    "--call", "calls", type=click.IntRange(min=1), multiple=True, metavar="N", help="This call; may be repeated."
)
@click.option("--session", metavar="ID", help="Every call that has a message of this session.")
@click.option("--events", type=Range(), metavar="A:B", help="Calls with an event of these; nothing after event B.")
@click.option("--since", type=Seconds(), metavar="S", help="Calls that are active after so many seconds.")
@click.option("--until", type=Seconds(), metavar="S", help="Nothing after so many seconds from the capture's start.")
def cut(
    file: str,
    output: str,
    force: bool,
    calls: tuple[int, ...],
    session: str | None,
    events: tuple[int, int] | None,
    since: int | None,
    until: int | None,
) -> int:
    """Make a smaller capture of IN ('-': standard input).

    A call is kept from its beginning, since what a server answers depends on what it was told before; what is still
    open where the cut ends is left open, and replays so. Of several choices a call has to meet all. Calls keep their
    numbers."""
    asked = {"call": calls, "session": session, "events": events, "since": since, "until": until}
    if all(value is None or value == () for value in asked.values()):
        raise click.UsageError("nothing to cut by: give --call, --session, --events, --since or --until.")
    first, last = events or (1, ENDLESS)
    span = Span(first, last, since or 0, ENDLESS if until is None else until)
    how = "cut " + " ".join(f"--{name} {_plain(value)}" for name, value in asked.items() if value not in (None, ()))
    with opened(file, twice=True) as reader, progress("cutting", reader):
        chosen = None if session is None else _of_session(reader, session)
        out = output_to(output, [reader], force=force)
        made = made_of(reader, out, calls=calls, span=span, chosen=chosen, how=how)
    open_calls = f", {made.left_open:,} of them left open where it ends" if made.left_open else ""
    say(f"{output}: {counted(made.events, 'event')} of {counted(made.calls, 'call')}{open_calls}")
    return OK


def _of_session(reader: CaptureReader, session: str) -> Callable[[Event], bool]:
    """Whether an event is a message of the session, as the lens of its method sees it."""
    methods = Methods()
    for entry in reader.entries():
        if isinstance(entry.record, Schema):
            methods.schemas.add(entry.record)

    def chosen(event: Event) -> bool:
        _, reading = methods.read(methods.of(event), event)
        return any(name == _SESSION and value == short(session, len(value)) for name, value in reading.fields)

    return chosen


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return re.sub(r"\s", "_", printable(str(value), 80))
