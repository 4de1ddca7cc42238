"""The command `capture-replay`, and `diff` of `capture-file`: one module for each command."""

from __future__ import annotations

import sys

from capture_recorder.terminal import output_to_the_end

_CANNOT_TELL = 125


def main() -> None:
    """`capture-replay FILE…`, or `capture-replay shrink FILE`; a capture of that name is `./shrink`."""
    with output_to_the_end("capture-replay", failed=_CANNOT_TELL, cut_off=_CANNOT_TELL):
        if sys.argv[1:2] == ["shrink"]:
            from .shrink import shrink  # noqa: PLC0415 - a command is imported when it is wanted

            shrink(sys.argv[2:], prog_name="capture-replay shrink")
        else:
            from .replay import replay  # noqa: PLC0415

            replay(prog_name="capture-replay")
