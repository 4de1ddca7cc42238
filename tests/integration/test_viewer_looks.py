"""What the viewer looks like: each view and tab, at three sizes, dark and light. Where a change is meant, they are made
anew by `pytest --snapshot-update`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from capture_tui.app import Viewer
from capture_tui.model.document import Document

SESSION = Path(__file__).resolve().parents[1] / "golden" / "viewer" / "session.cap"
VIEWS = {
    "decoded": ["e", "e", "e", "e"],
    "hex": ["e", "enter", "down", "down", "2"],
    "checksums": ["e", "e", "e", "e", "3"],
    "metadata": ["e", "4"],
    "difference": ["e", "e", "e", "e", "E", "5"],
    "ladder": ["v", "down", "down"],
    "statistics": ["i"],
    "help": ["question_mark"],
}


@pytest.mark.parametrize("light", [False, True], ids=["dark", "light"])
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("view", VIEWS)
def test_the_screen(view: str, size: tuple[int, int], light: bool, snap_compare: Callable[..., bool]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        for key in VIEWS[view]:
            await pilot.press(key)
            await pilot.app.workers.wait_for_complete()
            await pilot.pause()

    app = Viewer(Document(str(SESSION)), dark=not light)
    assert snap_compare(app, terminal_size=size, run_before=before)
