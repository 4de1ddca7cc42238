"""A message beside another: the fields that differ, the bytes that differ, and what the checksums say of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from capture_recorder import lens
from capture_recorder.capfile.fields import changed
from capture_recorder.capfile.paths import text as path_text
from capture_recorder.capfile.schema import SchemaSet
from capture_recorder.text import counted
from capture_replayer.compare import first_difference
from capture_replayer.hints import checksum_note

from .hexdump import columns_for
from .paint import Line, Role, clean

_FIELDS: Final = 200
_AROUND: Final = 4  # lines of bytes before the first difference
_LINES: Final = 12


def difference_lines(
    schemas: SchemaSet, method: str, direction: int, before: bytes, after: bytes, names: tuple[str, str], columns: int
) -> Iterator[Line]:
    """`before` and `after`, which the screen calls `names`."""
    one, other = names
    yield [("− ", "error"), (f"{one} ({len(before):,} bytes)", "text")]
    yield [("+ ", "good"), (f"{other} ({len(after):,} bytes)", "text")]
    yield []
    if before == after:
        yield [("= byte for byte the same", "good")]
        return
    a, b = schemas.flatten(method, direction, before), schemas.flatten(method, direction, after)
    if a is None or b is None:
        yield [("Without a schema that fits both, only their bytes can be told apart.", "dim")]
    else:
        paths = changed(a, b)
        if not paths:
            yield [("≈ the same message, encoded in another way", "warn")]
        else:
            yield [(f"≠ {counted(len(paths), 'field')} differ" if len(paths) > 1 else "≠ 1 field differs", "error")]
        for path in paths[:_FIELDS]:
            yield [(f"  {clean(path_text(path), 200)}", "key")]
            yield [("    − ", "error"), (a[path].text() if path in a else "(not set)", "text" if path in a else "dim")]
            yield [("    + ", "good"), (b[path].text() if path in b else "(not set)", "text" if path in b else "dim")]
        if len(paths) > _FIELDS:
            yield [(f"  and {len(paths) - _FIELDS:,} more", "dim")]
    one_message = schemas.decode(method, direction, before).message
    other_message = schemas.decode(method, direction, after).message
    if one_message is not None and other_message is not None:
        note = _note(method, one_message, other_message)
        if note:
            yield []
            yield [(f"! {clean(note, 400)}", "warn")]
    at = first_difference(before, after)
    yield []
    yield [(f"Bytes, from offset {at:,} on", "strong")]
    yield from _bytes(before, after, at, 16 if columns_for(columns) >= 16 else 8)


def _bytes(before: bytes, after: bytes, at: int, wide: int) -> Iterator[Line]:
    start = max(0, at // wide - _AROUND) * wide
    for offset in range(start, max(len(before), len(after)), wide):
        if offset > start + _LINES * wide:
            yield [("  …", "dim")]
            return
        one, other = before[offset : offset + wide], after[offset : offset + wide]
        if one == other:
            yield [(f"  {offset:08x}  ", "dim"), (one.hex(" "), "text")]
            continue
        for sign, role, piece, against in (("− ", "error", one, other), ("+ ", "good", other, one)):
            yield [(sign, role), (f"{offset:08x}  ", "dim"), *_marked(piece, against, role)]  # type: ignore[list-item, arg-type]


def _marked(piece: bytes, against: bytes, role: Role) -> Line:
    return [
        (f"{byte:02x} ", "text" if index < len(against) and against[index] == byte else role)
        for index, byte in enumerate(piece)
    ]


def _note(method: str, before: object, after: object) -> str:
    return checksum_note(lens.read(method, before), lens.read(method, after))
