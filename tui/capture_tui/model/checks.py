"""Checksums of a message, tensor by tensor: what is declared, what is there, and how the fragments lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from capture_recorder.lens import Reading, TensorCheck
from capture_recorder.text import counted

from .paint import Line, Piece, Role, clean

_LISTED: Final = 20  # gaps and overlaps of a tensor
_NAME: Final = 200


def check_lines(reading: Reading, columns: int) -> Iterator[Line]:
    """What the tab shows."""
    if not reading.checks:
        yield [("This message carries no checksum that a lens knows.", "dim")]
        return
    bad = sum(check.verdict != "ok" for check in reading.checks)
    of = counted(len(reading.checks), "tensor")
    yield [(f"✗ {bad:,} of {of} failed", "error") if bad else (f"✓ {of}, all as declared", "good")]
    for check in reading.checks:
        yield []
        yield from _check(check, columns)


def _check(check: TensorCheck, columns: int) -> Iterator[Line]:
    good = check.verdict == "ok"
    sign: Piece = ("✓ ", "good") if good else ("✗ ", "error")
    yield [sign, (clean(check.tensor, _NAME) or "(no name)", "strong"), (f"  {check.verdict}", sign[1])]
    if check.why:
        yield [("  ", "text"), (clean(check.why, _NAME), "error")]
    same = check.declared == check.computed
    yield [("  declared  ", "dim"), (check.declared or "(none)", "bytes"), ("  CRC32C", "dim")]
    if check.computed:
        yield [
            ("  computed  ", "dim"),
            (check.computed, "bytes" if same else "error"),
            ("  =" if same else "  ≠", sign[1]),
        ]
    else:
        yield [("  computed  ", "dim"), ("(the bytes are not all there)", "warn")]
    pieces = counted(check.pieces, "fragment")
    yield [("  tiling    ", "dim"), (f"{check.end:,} of {check.total:,} bytes in {pieces}", "text")]
    if check.total or check.end:
        yield [("  ", "text"), *tiling_bar(check, max(10, columns - 4))]
    for what, ranges, role in (("missing", check.gaps, "error"), ("twice", check.overlaps, "warn")):
        for start, end in ranges[:_LISTED]:
            yield [(f"  {what:<8}  bytes {start:,} to {end:,}", role)]  # type: ignore[list-item]
        if len(ranges) > _LISTED:
            yield [(f"  {what:<8}  and {len(ranges) - _LISTED:,} more", role)]  # type: ignore[list-item]


def tiling_bar(check: TensorCheck, columns: int) -> Line:
    """The tensor's bytes from left to right: `█` once, `░` missing, `▓` twice, `▶` beyond its end."""
    total = max(check.total, check.end, 1)
    cells = ["█"] * columns
    missing = [*check.gaps, *([(check.end, check.total)] if check.end < check.total else [])]
    beyond = [(check.total, check.end)] if check.end > check.total else []
    for sign, ranges in (("░", missing), ("▓", check.overlaps), ("▶", beyond)):
        for start, end in ranges:
            first = min(columns - 1, start * columns // total)
            last = max(first + 1, min(columns, -(-end * columns // total)))
            cells[first:last] = sign * (last - first)
    roles: dict[str, Role] = {"█": "good", "░": "error", "▓": "warn", "▶": "error"}
    line: Line = []
    for cell in cells:
        if line and line[-1][0][-1] == cell:
            line[-1] = (line[-1][0] + cell, roles[cell])
        else:
            line.append((cell, roles[cell]))
    return line
