"""What a protocol means: which field is a checksum, which an error code, what a message is about in one line.

A lens works on messages by field names alone, so it needs no generated code. `lens_for` finds the one for a method;
other packages add theirs as entry points of the group `capture_replay.lenses` (name: the protobuf package).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any, Final, Protocol

GROUP: Final = "capture_replay.lenses"


@dataclass(frozen=True, slots=True)
class TensorCheck:
    """A checksum that a message declares, held against its bytes. `verdict` is `ok` or says what is wrong, in a word;
    `why` in a sentence. `declared` and `computed` are hexadecimal."""

    tensor: str
    verdict: str
    declared: str
    computed: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a lens sees in a message. `error`: the code that it carries, if it carries one."""

    summary: str = ""
    error: str | None = None
    checks: tuple[TensorCheck, ...] = ()


class Lens(Protocol):
    """Reads a decoded protobuf message. Must not raise for anything that a message of its package can hold."""

    def __call__(self, message: Any) -> Reading: ...


@cache
def lens_for(method: str) -> Lens:
    """The lens for a method ("/package.Service/Method"): its package's, or the general one."""
    from . import general, shard_runtime  # noqa: PLC0415 - they use this module's words

    package = method.strip("/").rpartition("/")[0].rpartition(".")[0]
    if package == shard_runtime.PACKAGE:
        return shard_runtime.read
    for entry in metadata.entry_points(group=GROUP):
        if entry.name == package:
            loaded: Lens = entry.load()
            return loaded
    return general.read


def read(method: str, message: Any) -> Reading:
    """What the method's lens sees; a lens that fails sees nothing."""
    try:
        return lens_for(method)(message)
    except Exception as error:  # noqa: BLE001 - a lens may be anybody's
        return Reading(f"(the lens failed: {type(error).__name__})")
