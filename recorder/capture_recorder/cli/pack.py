"""`capture-file pack` and `unpack`: a finished capture compressed, and back, to the byte."""

from __future__ import annotations

import click

from ..capfile import CaptureReader
from ..capfile.output import Output
from ..capfile.pack import LEVEL
from ..capfile.pack import pack as packed
from ..capfile.pack import unpack as unpacked
from ..text import human_size
from .common import OK, opened, output_to, progress, rewriter, say

EPILOG = """\b
Example:
  capture-file pack session.cap -o session.packed.cap
  capture-file unpack session.packed.cap -o again.cap && cmp session.cap again.cap
"""


@click.command(short_help="Compress a finished capture.", epilog=EPILOG)
@click.argument("file", metavar="IN", type=click.Path(path_type=str))
@rewriter
@click.option(
    "--level",
    type=click.IntRange(1, 22),
    metavar="N",
    default=LEVEL,
    show_default=True,
    help="Zstandard's, up to 22.",
)
def pack(file: str, output: str, force: bool, level: int) -> int:
    """Compress the finished capture IN ('-': standard input). Every command reads it as before, events keep their
    numbers, and `unpack` gives IN back to the byte. A bad byte costs a whole block of it: compress copies."""
    with opened(file) as reader, progress("packing", reader):
        out = output_to(output, [reader], force=force)
        packed(reader, out, level)
        _say(reader, out)
    return OK


@click.command(short_help="Undo pack, to the byte.", epilog=EPILOG)
@click.argument("file", metavar="IN", type=click.Path(path_type=str))
@rewriter
def unpack(file: str, output: str, force: bool) -> int:
    """Undo `pack`: the capture IN ('-': standard input) without compression."""
    with opened(file) as reader, progress("unpacking", reader):
        out = output_to(output, [reader], force=force)
        unpacked(reader, out)
        _say(reader, out)
    return OK


def _say(reader: CaptureReader, out: Output) -> None:
    before, after = reader.size, out.offset
    share = ""
    if before:
        ratio = f"{after / before:.0%} of" if after < before else f"{after / before:.1f} times"
        share = f", {ratio} the {human_size(before)} that it was"
    say(f"{out.path}: {human_size(after)}{share}")
