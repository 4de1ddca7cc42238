"""The colours of the viewer, of those of a theme: solid, and readable on each of its papers.

A theme's own text colours are meant for one background. Here a line may be that of the cursor, so each ink is made
lighter on a dark paper, darker on a light one, until it stands out from all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from textual.color import Color

ENOUGH: Final = 4.5  # the contrast of text, WCAG 2.2, success criterion 1.4.3
_PAPERS: Final = {"blurred": "foreground", "cursor": "primary", "selected": "accent"}
_SHARE: Final = {True: 0.25, False: 0.12}  # of that colour in a dark paper, and in a light one
_INKS: Final = ("primary", "secondary", "accent", "success", "warning", "error")


def contrast(one: Color, other: Color) -> float:
    """From 1, no difference, to 21, black on white. https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio"""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: Color) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def inks(theme: Mapping[str, str]) -> dict[str, str]:
    """The variables `line`, `blurred`, `cursor`, `selected`, `dim` and `ink-…`, of a theme's own ones.

    Where a theme leaves its colours to the terminal, so do these.
    """
    paper, ink = Color.parse(theme["background"]), Color.parse(theme["foreground"])
    if paper.ansi is not None or ink.ansi is not None:
        plain = {"line": "foreground", "blurred": "surface", "cursor": "surface", "selected": "surface"}
        return {name: theme[of] for name, of in (plain | {"dim": "foreground"}).items()} | {
            f"ink-{name}": theme[name] for name in _INKS
        }
    share = _SHARE[paper.brightness < 0.5]
    papers = {name: paper.blend(Color.parse(theme[of]), share) for name, of in _PAPERS.items()}
    under = [paper, *papers.values()]
    drawn = {"dim": _drawn(paper.blend(ink, 0.6), ink, under)}
    drawn |= {f"ink-{name}": _drawn(Color.parse(theme[name]), ink, under) for name in _INKS}
    return {name: color.hex for name, color in (papers | drawn | {"line": paper.blend(ink, 0.3)}).items()}


def _drawn(color: Color, ink: Color, papers: list[Color]) -> Color:
    """The colour, made as much lighter or darker as makes it readable."""
    way = 1 if papers[0].brightness < 0.5 else -1
    for step in range(20):
        tried = color.lighten(way * step / 20)
        if all(contrast(tried, paper) >= ENOUGH for paper in papers):
            return tried
    return ink
