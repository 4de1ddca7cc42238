"""Bytes in hexadecimal, with what each is on the wire: tag, length or value; and the field that is selected."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from capture_recorder.capfile import wire
from capture_recorder.capfile.scalars import is_packed, known_field

from .paint import Line, Role

_BUDGET: Final = 50_000  # fields that are taken apart to colour a window
_DEPTH: Final = 200
_LIT: Final[dict[Role, Role]] = {"tag": "selected-tag", "length": "selected-length", "value": "selected-value"}


def columns_for(columns: int) -> int:
    """How many bytes a line of so many columns has room for."""
    return 32 if columns >= 143 else 16 if columns >= 76 else 8


def hex_line(
    data: bytes, at: int, count: int, roles: list[Role], *, selected: tuple[int, int] = (0, 0), cursor: int = -1
) -> Line:
    """The bytes from `at` on: offset, hexadecimal, ASCII. `roles` are theirs, from `at` on."""
    piece = data[at : at + count]

    def role(offset: int) -> Role:
        if offset == cursor:
            return "cursor"
        kind = roles[offset - at]
        return _LIT.get(kind, kind) if selected[0] <= offset < selected[1] else kind

    line: Line = [(f"{at:08x}  ", "dim")]
    cells = [(role(at + index), index) for index in range(len(piece))]
    for kind, group in groupby(cells, key=lambda cell: cell[0]):
        indexes = [index for _, index in group]
        text = ""
        for index in indexes:
            text += f"{piece[index]:02x}" + ("  " if index % 8 == 7 else " ")
        tail = len(text) - len(text.rstrip())
        line.append((text.rstrip(), kind))
        after = at + indexes[-1] + 1
        inside = selected[0] < after < selected[1] and kind != "cursor"
        line.append((" " * tail, "selected-value" if inside else "text"))
    missing = count - len(piece)
    pad = sum(4 if index % 8 == 7 else 3 for index in range(len(piece), count)) if missing else 0
    line.append((" " * pad + "│", "dim"))
    for kind, group in groupby(cells, key=lambda cell: cell[0]):
        line.append(("".join(_letter(piece[index]) for _, index in group), kind))
    line.append((" " * missing + "│", "dim"))
    return line


def _letter(byte: int) -> str:
    return chr(byte) if 0x20 <= byte < 0x7F else "·"


def roles_of(data: bytes, descriptor: Any, start: int, end: int) -> list[Role]:
    """What each byte from `start` to `end` is. Where taking the message apart would be too much, `value`."""
    out: list[Role] = ["value"] * (min(end, len(data)) - start)
    stack: list[tuple[int, int, Any, int]] = [(0, len(data), descriptor, 0)]
    budget = _BUDGET
    while stack:
        begin, stop, known_type, depth = stack.pop()
        try:
            for item in wire.fields(data, begin, stop):
                budget -= 1
                if budget < 0:
                    return out
                if item.next <= start:
                    continue
                if item.tag >= end:
                    break
                _, after_tag = wire.varint(data, item.tag, stop)
                _put(out, start, item.tag, after_tag, "tag")
                if item.wire_type == wire.BYTES:
                    _put(out, start, after_tag, item.start, "length")
                known = known_field(known_type, item)
                if (
                    known is not None
                    and known.message_type is not None
                    and depth < _DEPTH
                    and not is_packed(known, item)
                ):
                    stack.append((item.start, item.end, known.message_type, depth + 1))
        except wire.WireError:
            continue
    return out


def _put(out: list[Role], base: int, start: int, end: int, role: Role) -> None:
    for at in range(max(start, base), min(end, base + len(out))):
        out[at - base] = role
