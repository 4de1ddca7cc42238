"""Paths of fields, and patterns over them. Pure.

A path is its segments: names of fields, and in brackets the index of an element or the key of a map's entry. In a
pattern a name may be a glob, `*` is any one field, `**` any number of segments, `[*]` any element; a pattern covers all
that is below it, and where it leaves brackets out, all elements.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import translate
from typing import Final

Path = tuple[str, ...]
"""For example `("tensors", "[0]", "labels", "['a.b']")`."""

_TOKEN: Final = re.compile(r"""\[(?:\*|-?\d+|true|false|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|[^.\[\]]+|\.""")
_ANY: Final = "**"


def text(path: Path) -> str:
    """The path as people write it."""
    return "".join(segment if segment[0] == "[" or not i else f".{segment}" for i, segment in enumerate(path))


class Pattern:
    """A pattern that is ready to be used. Raises ValueError, with one sentence, for what is none."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self._segments = [_Segment(segment) for segment in _segments(pattern)]

    def matches(self, path: Path) -> bool:
        """Whether the path is covered. Costs at most the product of both lengths, whatever they hold."""
        end = len(self._segments)
        states = self._closed({0})
        for segment in path:
            if end in states:
                return True
            following: set[int] = set()
            for state in states:
                mine = self._segments[state]
                if mine.any:
                    following.add(state)
                elif mine.matches(segment):
                    following.add(state + 1)
                if segment[0] == "[" and not mine.bracket:
                    following.add(state)  # brackets that the pattern leaves out
            states = self._closed(following)
        return end in states

    def _closed(self, states: set[int]) -> set[int]:
        """With the states that are reached without a segment: `**` may stand for none."""
        closed = set(states)
        for state in range(len(self._segments)):
            if state in closed and self._segments[state].any:
                closed.add(state + 1)
        return closed


class _Segment:
    """One segment of a pattern."""

    def __init__(self, segment: str) -> None:
        self.any = segment == _ANY
        self.bracket = segment[0] == "["
        self._every = segment in ("*", "[*]")
        self._literal = segment
        is_glob = not self.bracket and any(c in segment for c in "*?")
        self._glob = re.compile(translate(segment.replace("[", "[[]"))) if is_glob else None

    def matches(self, segment: str) -> bool:
        if self.bracket != (segment[0] == "["):
            return False
        if self._glob is not None and not self._every:
            return self._glob.match(segment) is not None
        return self._every or segment == self._literal


def _segments(pattern: str) -> Iterator[str]:
    at, after_dot = 0, True  # a name has to come
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        part = found[0] if found else " "
        if (part[0] not in ".[") != after_dot or found is None:
            raise ValueError(f"{pattern!r} is no path of a field: character {at + 1} does not fit")
        at, after_dot = found.end(), part[0] == "."
        if part[0] == "[" and part[1] in "'\"":
            try:
                part = f"[{ast.literal_eval(part[1:-1])!r}]"
            except (ValueError, SyntaxError):
                raise ValueError(f"{pattern!r} is no path of a field: {part} is no text") from None
        if not after_dot:
            yield part
    if after_dot:
        raise ValueError(f"{pattern!r} is no path of a field: it ends too early")
