"""Text for people: whatever came out of a capture, made safe for a terminal; sizes and durations that can be read."""

from __future__ import annotations

from typing import Final

_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_DURATIONS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))


def printable(text: str, limit: int | None = None) -> str:
    """Escapes what a terminal would act on or not show: controls, escapes, bidi overrides, zero-width and lone
    surrogates. Letters of all scripts stay. Longer than `limit` characters, it is cut and ends in "…"."""
    if limit is not None and len(text) > limit:  # first, so that a long text costs no more than it shows
        text = text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def human_size(size: int) -> str:
    """Bytes as `512 B`, `1.5 MiB`."""
    value = float(size)
    for unit in _SIZES:
        if value < 1024 or unit == _SIZES[-1]:
            break
        value /= 1024
    return f"{size:,} B" if unit == "B" else f"{value:.1f} {unit}"


def human_duration(ns: int) -> str:
    """Nanoseconds as `41 µs`, `1.23 s`, `2 h 05 min`."""
    if ns >= 3600 * 10**9:
        return f"{ns // (3600 * 10**9)} h {ns // (60 * 10**9) % 60:02} min"
    if ns >= 60 * 10**9:
        return f"{ns // (60 * 10**9)} min {ns // 10**9 % 60:02} s"
    for unit, name in _DURATIONS:
        if ns >= unit:
            return f"{ns / unit:.3g} {name}"
    return f"{ns} ns"
