"""Text with roles: what a piece of text is, not how it looks. The screen gives each role a style, `--print` another.

No role carries a meaning alone: there is a word or a sign beside each colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, get_args

from rich.cells import cell_len, set_cell_size

from capture_recorder.text import printable

Role = Literal[
    "text", "dim", "strong", "error", "warn", "good", "request", "response", "key", "type", "number", "string",
    "bytes", "enum", "tag", "length", "value", "cursor", "mark",
    "selected-tag", "selected-length", "selected-value",
    "call0", "call1", "call2", "call3", "call4", "call5",
]  # fmt: skip
Piece = tuple[str, Role]
Line = list[Piece]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
_CALLS: Final[tuple[Role, ...]] = ("call0", "call1", "call2", "call3", "call4", "call5")


def call_role(call: int | None) -> Role:
    """The role of what belongs to a call: six of them in turn, always beside its number."""
    return _CALLS[(call - 1) % len(_CALLS)] if call else "dim"


def clean(text: str, limit: int | None = None) -> str:
    """A string of a capture, safe for a screen: see `printable`."""
    return printable(text, limit)


def plain(line: Iterable[Piece]) -> str:
    """The text without its roles."""
    return "".join(text for text, _ in line)


def width(line: Iterable[Piece]) -> int:
    """Columns that it takes."""
    return sum(cell_len(text) for text, _ in line)


def safe(line: Line) -> Line:
    """The line, with whatever a screen would act on escaped: what somebody forgot to clean is cleaned here."""
    return [(text, role) if text.isprintable() else (clean(text), role) for text, role in line]


def cut(line: Line, columns: int) -> Line:
    """The line in so many columns at the most, with "…" where it was longer, and safe for a screen."""
    line = safe(line)
    if width(line) <= columns:
        return line
    out: Line = []
    room = columns - 1
    for text, role in line:
        size = cell_len(text)
        if size > room:
            out.append((set_cell_size(text, max(0, room)) + "…", role))
            break
        out.append((text, role))
        room -= size
    return out if columns > 0 else []


def fit(text: str, columns: int, *, right: bool = False) -> str:
    """The text in exactly so many columns."""
    size = cell_len(text)
    if size > columns:
        return set_cell_size(text, max(0, columns - 1)) + "…" if columns > 0 else ""
    pad = " " * (columns - size)
    return pad + text if right else text + pad


def wrapped(line: Line, columns: int, indent: int = 0) -> Iterator[Line]:
    """The line in several of so many columns; those after the first are indented."""
    out: Line = []
    room = columns
    for text, role in line:
        while cell_len(text) > room > 0:
            head = text[: max(1, _fitting(text, room))]
            space = head.rfind(" ")
            if text[len(head)] != " " and space > len(head) // 2:  # a word goes to the next line whole
                head = head[: space + 1]
            out.append((head.rstrip(" "), role))
            yield out
            text, out, room = text[len(head) :].lstrip(" "), [(" " * indent, "text")], max(1, columns - indent)
        out.append((text, role))
        room -= cell_len(text)
    yield out


def _fitting(text: str, columns: int) -> int:
    """How many characters have room."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if cell_len(text[:middle]) <= columns:
            low = middle
        else:
            high = middle - 1
    return low
