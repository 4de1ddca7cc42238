"""What a protocol means: which field is a checksum, which an error code, what a message is about in one line.

A lens works on messages by field names alone, so it needs no generated code. `lens_for` finds the one for a method;
other packages add theirs as entry points of the group `capture_replay.lenses` (name: the protobuf package).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from typing import Any, Final, Protocol

GROUP: Final = "capture_replay.lenses"
_METHODS: Final = 1024  # whose lens is remembered: a capture may name any number of them


@dataclass(frozen=True, slots=True)
class TensorCheck:
    """A checksum that a message declares, held against its bytes.

    `verdict` is `ok`, or in a word what is wrong: `mismatch`, `zlib` (another checksum), `gap`, `overlap`, `short`,
    `beyond`, `missing` (none is declared), `broken` (it does not decompress), `unchecked` (too large to be decompressed
    here). `why` says it in a sentence. `declared` and `computed` are hexadecimal, `computed` empty where the bytes are
    not all there. `gaps` and `overlaps` are ranges of bytes, each from its first to past its last; `end` is past the
    last byte that is there, of `total` that there should be; `pieces` is how many pieces they come in.
    """

    tensor: str
    verdict: str
    declared: str
    computed: str
    why: str = ""
    gaps: tuple[tuple[int, int], ...] = ()
    overlaps: tuple[tuple[int, int], ...] = ()
    end: int = 0
    total: int = 0
    pieces: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What a lens sees in a message: `summary` in a line, `error` the code that it carries if it carries one, `fields`
    what it is about, as pairs of a name and a value. Not yet safe for a terminal."""

    summary: str = ""
    error: str | None = None
    checks: tuple[TensorCheck, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()


class Lens(Protocol):
    """Reads a decoded protobuf message. Should not raise for anything that a message of its package can hold."""

    def __call__(self, message: Any) -> Reading: ...


@lru_cache(maxsize=_METHODS)
def lens_for(method: str) -> Lens:
    """The lens for a method ("/package.Service/Method"): its package's, or the general one."""
    from . import general, shard_runtime  # noqa: PLC0415 - they use this module's words

    package = method.strip("/").rpartition("/")[0].rpartition(".")[0]
    if package == shard_runtime.PACKAGE:
        return shard_runtime.read
    entry = _installed().get(package)
    if entry is None:
        return general.read
    loaded: Lens = entry.load()
    return loaded


@cache
def _installed() -> dict[str, metadata.EntryPoint]:
    """The lenses of other packages. Looked for once: that takes milliseconds, and methods are many."""
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def read(method: str, message: Any) -> Reading:
    """What the method's lens sees. Never raises: a schema that only has the name of one that a lens knows is read by
    the general one, and where that fails too nothing is seen."""
    from . import general  # noqa: PLC0415

    try:
        return lens_for(method)(message)
    except Exception:  # noqa: BLE001 - a lens may be anybody's
        try:
            return general.read(message)
        except Exception as error:  # noqa: BLE001 - of a hostile schema's messages, any method may be a field
            return Reading(f"(the lens failed: {type(error).__name__})")
