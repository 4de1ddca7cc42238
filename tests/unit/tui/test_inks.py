"""Every ink can be read on every paper, in every theme; and the screen uses these, not what Textual makes of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from capture_tui.app import Viewer
from capture_tui.inks import ENOUGH, contrast, inks
from capture_tui.model.document import Document
from capture_tui.model.paint import ROLES

SESSION = Path(__file__).resolve().parents[2] / "golden" / "viewer" / "session.cap"


def test_contrast_is_that_of_wcag() -> None:
    """Its ends, and #777777 on white: 4.48, the gray that just fails."""
    black, white = Color.parse("#000000"), Color.parse("#ffffff")
    assert round(contrast(black, white), 2) == round(contrast(white, black), 2) == 21
    assert contrast(white, white) == 1
    assert round(contrast(Color.parse("#777777"), white), 2) == 4.48


@pytest.mark.parametrize("name", [name for name in sorted(BUILTIN_THEMES) if "ansi" not in name])
def test_all_can_be_read_in_every_theme(name: str) -> None:
    theme = BUILTIN_THEMES[name]
    given = theme.to_color_system().generate() | theme.variables
    found = {key: Color.parse(value) for key, value in inks(given).items()}
    papers = [Color.parse(given["background"]), found["cursor"], found["selected"], found["blurred"]]
    written = [color for key, color in found.items() if key == "dim" or key.startswith("ink-")]
    assert len(written) == 7
    # where not even the theme's own foreground is readable on them, it is the best that there is
    at_best = min(contrast(Color.parse(given["foreground"]), paper) for paper in papers)
    assert min(contrast(one, paper) for one in written for paper in papers) >= min(ENOUGH, at_best) - 0.05


@pytest.mark.parametrize("name", [name for name in sorted(BUILTIN_THEMES) if "ansi" in name])
def test_a_theme_of_the_terminals_own_colours_is_left_to_it(name: str) -> None:
    theme = BUILTIN_THEMES[name]
    found = inks(theme.to_color_system().generate() | theme.variables)
    assert all(Color.parse(value).ansi is not None or value == "transparent" for value in found.values())


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
def test_what_is_painted_can_be_read(theme: str) -> None:
    """Of every role, on each row: the styles that go to the terminal."""

    async def main() -> None:
        app = Viewer(Document(str(SESSION)))
        async with app.run_test(size=(120, 40)) as pilot:
            app.theme = theme
            await pilot.pause()
            pane = app.frames
            for row in (None, "row--cursor", "row--blurred"):
                base = pane.rich_style
                if row is not None:
                    base += pane.get_component_rich_style(row, partial=True)
                for role in ROLES:
                    style = base + pane.get_component_rich_style(f"role--{role}", partial=True)
                    assert style.color is not None
                    assert style.bgcolor is not None
                    ink, paper = Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
                    assert contrast(ink, paper) >= ENOUGH - 0.05, (theme, row, role)

    asyncio.run(main())
