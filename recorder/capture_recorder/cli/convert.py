"""`capture-file convert`: to and from other forms of what a capture holds."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import click

from ..capfile import open_capture
from ..capfile.errors import ForeignForm
from ..capfile.framing import MAGIC
from ..forms import FORMS, form_of
from .common import OK, PEEK, output_to, progress, say, spooled

_SUFFIXES: Final = {".cap": "cap", ".jsonl": "jsonl", ".binarylog": "binarylog"}

EPILOG = """\b
Example:
  capture-file convert session.cap session.jsonl
  capture-file convert grpc-go.binarylog session.cap
  capture-file convert session.cap old.jsonl --to prototype

\b
Forms:
  cap        a capture
  jsonl      JSON lines of events, one a record; nothing is lost on the way and back
  prototype  JSON lines {"requests": [hex], "responses": [hex]}, one a Session
  binarylog  gRPC's binary log (gRFC A16), entries after their length in 4 bytes
"""


@click.command(short_help="To and from JSON lines and gRPC's binary log.", epilog=EPILOG)
@click.argument("file", metavar="IN", type=click.Path(path_type=str))
@click.argument("output", metavar="OUT", type=click.Path(path_type=str))
@click.option("--to", "to", type=click.Choice(("cap", *FORMS)), help="The form of OUT; by default its suffix says it.")
@click.option("--force", is_flag=True, help="Write over OUT, if there is one.")
def convert(file: str, output: str, to: str | None, force: bool) -> int:
    """Make of IN the file OUT, in another form ('-': standard input and output). What IN is, is told from its content.

    What the form of OUT cannot hold is said."""
    to = to or _SUFFIXES.get(Path(output).suffix)
    if to is None:
        raise click.UsageError(f"which form is {output!r} to have? Give --to, or a suffix: {', '.join(_SUFFIXES)}.")
    with spooled(file, partial(_refuse_others, file)) as stream:
        head = stream.read(PEEK)
        stream.seek(0)
        if head.startswith(MAGIC):
            said = [f"{output}: it cannot hold: {clause}" for clause in _from_capture(file, stream, output, to, force)]
        else:
            said = [f"{file}: note: {clause}" for clause in _to_capture(file, stream, head, output, to, force)]
    for sentence in said:
        say(sentence)
    return OK


def _from_capture(file: str, stream: BinaryIO, output: str, to: str, force: bool) -> list[str]:
    if to == "cap":
        raise click.UsageError(
            f"{file!r} is a capture already; to copy what is whole of one, use `capture-file recover`."
        )
    with open_capture(file, stdin=stream) as reader, progress("converting", reader):
        return FORMS[to].save(reader, output_to(output, [reader], force=force))


def _to_capture(file: str, stream: BinaryIO, head: bytes, output: str, to: str, force: bool) -> list[str]:
    name = form_of(head)
    assert name is not None
    if to != "cap":
        raise click.UsageError(f"{file!r} is {FORMS[name].title}; convert it to a capture first, and that to {to}.")
    if Path(output).exists() and Path(file).exists() and Path(output).samefile(file):
        raise click.UsageError(f"{output!r} is the file itself; give another name.")
    return FORMS[name].load(stream, file, output_to(output, [], force=force))


def _refuse_others(file: str, head: bytes) -> None:
    if not head.startswith(MAGIC) and form_of(head) is None:
        titles = " nor ".join(form.title for form in FORMS.values())
        raise ForeignForm(file, "offset 0", f"this is neither a capture nor {titles}")
