"""Text for people: whatever came out of a capture, made safe for a terminal; sizes and durations that can be read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_DURATIONS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_INVISIBLE: Final = frozenset(
    map(
        chr,
        chain(
            (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0),  # joiners and fillers
            range(0x180B, 0x1810),
            range(0xFE00, 0xFE10),
            range(0xE0100, 0xE01F0),  # variation selectors
        ),
    )
)
"""What Unicode calls default-ignorable and Python nevertheless calls printable: two names that look the same would not
be. https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point"""


def printable(text: str, limit: int | None = None) -> str:
    """Escapes what a terminal would act on or not show: controls, escapes, bidi overrides, zero-width and lone
    surrogates. Letters of all scripts stay. A result of more than `limit` characters is cut and ends in "…"."""
    if limit is not None:
        text = text[: limit + 1]  # first, so that a long text costs no more than it shows
    if not (text.isprintable() and _INVISIBLE.isdisjoint(text)):
        return _cut([_escaped(c) for c in text], limit)
    return text if limit is None or len(text) <= limit else text[: limit - 1] + "…"


def _cut(pieces: list[str], limit: int | None) -> str:
    """The pieces as one text; where they are too long, as many whole ones as there is room for."""
    text = "".join(pieces)
    if limit is None or len(text) <= limit:
        return text
    size = len(text)
    while pieces and size > limit - 1:
        size -= len(pieces.pop())
    return "".join(pieces) + "…"


def _escaped(character: str) -> str:
    if character.isprintable() and character not in _INVISIBLE:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def ascii_bytes(value: bytes) -> str:
    """Bytes that are text most of the time: printable ASCII as it is, every other byte as `\\x1b`."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in value)


def hex_lines(data: bytes) -> Iterator[str]:
    """Bytes as `hexdump -C` has them: offset, 16 in hex, and as ASCII."""
    for at in range(0, len(data), 16):
        piece = data[at : at + 16]
        halves = f"{piece[:8].hex(' ')}  {piece[8:].hex(' ')}"
        letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
        yield f"{at:08x}  {halves:<48}  |{letters}|"


def counted(count: int, noun: str) -> str:
    """`1 record`, `1,024 records`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def human_size(size: int) -> str:
    """Bytes as `512 B`, `1.5 MiB`; up to a petabyte no wider than 9 characters."""
    value = float(size)
    for unit in _SIZES:
        if value < 1024 or unit == _SIZES[-1]:
            break
        value /= 1024
    if unit == "B":
        return f"{size:,} B"
    return f"{value:.1f} {unit}" if value < 999.95 else f"{value:,.0f} {unit}"


def human_duration(ns: int) -> str:
    """Nanoseconds as `41 µs`, `1.23 s`, `2 h 05 min`."""
    if ns >= 3600 * 10**9:
        return f"{ns // (3600 * 10**9):,} h {ns // (60 * 10**9) % 60:02} min"
    if ns >= 60 * 10**9:
        return f"{ns // (60 * 10**9)} min {ns // 10**9 % 60:02} s"
    for unit, name in _DURATIONS:
        if ns >= unit:
            value = ns / unit
            return f"{value:.3g} {name}" if value < 999.5 else f"{value:.0f} {name}"  # not 1e+03
    return f"{ns} ns"
