"""The help: the keys, from the bindings themselves, under headings; and what the signs mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from textual.binding import Binding, BindingType

from .model.filters import NAMES
from .model.paint import Line

INDENT: Final = 20  # columns of the keys
_HEADINGS: Final = {
    "Find": ("slash", "n", "N", "f", "e", "E", "r", "d", "D", "x", "X", "w", "colon"),
    "Look": ("a", "v", "t", "i", "1", "2", "3", "4", "5", "p", "z", "T", "F"),
    "Replay (with --target or --spawn)": ("s", "c", "u", "b", "B"),
    "Keep": ("m", "M", "apostrophe", "y", "o", "O", "S"),
    "Else": (),
}
_SHOWN: Final = {"plus": "+", "minus": "-", "pageup": "pgup", "pagedown": "pgdn", "space": "space"}
_SIGNS: Final = (
    ("→ ←", "from the client, from the server"),
    ("✓ ✗", "as it should be; an error, or a check that failed"),
    ("✓2", "two tensors in it, whose checksums are right"),
    ("✓ clean file", "nothing of it is damaged or missing; errors in calls are not its"),
    ("≠ = ►", "in a replay: differs, passed, comes next"),
    ("◆ ● ! ▒", "a bookmark or note, a breakpoint, a gap, damage"),
)


def guide(main: Iterable[BindingType], panes: Mapping[str, Iterable[BindingType]]) -> list[Line]:
    """The lines. `main`: the bindings that always hold; `panes`: those of each kind of pane, by what it is called."""
    left = {binding.key: binding for binding in main if isinstance(binding, Binding)}
    lines: list[Line] = []
    for heading, keys in _HEADINGS.items():
        chosen = [left.pop(key) for key in (keys or tuple(left)) if key in left]
        rows = [_row(binding) for binding in chosen]
        if not keys:
            rows += [("tab", "the next pane; shift+tab the one before"),
                     ("enter", "into the detail of the frame"), ("ctrl+p", "command palette")]  # fmt: skip
        lines += _section(heading, rows)
    for name, bindings in panes.items():
        lines += _section(f"In {name}", [_row(binding) for binding in bindings if isinstance(binding, Binding)])
    lines += _section("Signs", _SIGNS)
    lines += [
        [("Filters", "strong")],
        [("  CEL over the fields of a message, and ", "text"), (" ".join(NAMES), "key")],
        [('  chunk.envelope.idempotency_step >= 3 && error == "PAYLOAD_CORRUPT"', "string")],
        [],
        [("Notes are kept in the capture when you quit, or beside it where it cannot be written.", "dim")],
    ]
    return lines


def _section(heading: str, rows: Iterable[tuple[str, str]]) -> list[Line]:
    lines: list[Line] = [[(f"  {keys:<{INDENT - 2}}", "key"), (words, "text")] for keys, words in rows]
    return [[(heading, "strong")], *lines, []]


def _row(binding: Binding) -> tuple[str, str]:
    keys = binding.key_display or ", ".join(_SHOWN.get(key, key) for key in binding.key.split(","))
    return keys, binding.tooltip or binding.description
