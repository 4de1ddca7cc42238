"""Other forms of what a capture holds, each with a `load` into a capture and a `save` out of one.

`load(stream, name, output)` and `save(reader, output)` return what the one form holds and the other cannot, a clause
each: that is said, never dropped in silence. What is no such file raises ForeignForm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Final

from ..capfile import CaptureReader
from ..capfile.output import Output
from . import binarylog, events, prototype


@dataclass(frozen=True, slots=True)
class Form:
    """One of them. `looks_like` tells it from the first bytes of a file."""

    title: str
    looks_like: Callable[[bytes], bool]
    load: Callable[[BinaryIO, str, Output], list[str]]
    save: Callable[[CaptureReader, Output], list[str]]


FORMS: Final = {
    "jsonl": Form("JSON lines of events", events.looks_like, events.load, events.save),
    "prototype": Form("the prototype's JSON lines", prototype.looks_like, prototype.load, prototype.save),
    "binarylog": Form("a gRPC binary log", binarylog.looks_like, binarylog.load, binarylog.save),
}


def form_of(head: bytes) -> str | None:
    """The name of the form of a file that begins so; None for none of them."""
    return next((name for name, form in FORMS.items() if form.looks_like(head)), None)
