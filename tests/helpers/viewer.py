"""Opens the viewer on a screen of its own, and presses its keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from capture_replayer.api import places_of
from capture_replayer.spawn import Spawn
from capture_tui.app import Viewer
from capture_tui.model.document import Document
from capture_tui.model.paint import plain
from capture_tui.panes import TextPane

SESSION = Path(__file__).resolve().parents[1] / "golden" / "viewer" / "session.cap"

Talk = Callable[[Viewer, Pilot[Any]], Coroutine[Any, Any, None]]


def drive(talk: Talk, path: Path = SESSION, *, spawn: str | None = None, size: tuple[int, int] = (120, 40)) -> Viewer:
    """Open the viewer, do what `talk` does, and close it."""

    async def whole() -> Viewer:
        place = None if spawn is None else places_of([Spawn(spawn)])[0]
        app = Viewer(Document(str(path)), place)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await talk(app, pilot)
            if app.stepper is not None:
                await app.stepper.close()
        app.document.close()
        return app

    return asyncio.run(whole())


async def until(pilot: Pilot[Any], met: Callable[[], bool]) -> None:
    """Wait for something that comes."""
    async with asyncio.timeout(60):
        while not met():
            await pilot.pause(0.01)


async def keys(app: Viewer, pilot: Pilot[Any], *pressed: str) -> None:
    """Press them one after the other, each after the workers of the one before."""
    for key in pressed:
        await pilot.press(key)
        await app.workers.wait_for_complete()
        await pilot.pause()


def rows(app: Viewer) -> list[str]:
    """The frames that are on screen."""
    pane = app.frames
    return [plain(pane.line(row + round(pane.scroll_offset.y), 200)) for row in range(len(pane.keys()))]


def lines(pane: TextPane) -> list[str]:
    return [plain(pane.line(row, 200)) for row in range(pane.count())]


async def type_in(app: Viewer, pilot: Pilot[Any], key: str, text: str) -> None:
    """Open the line by a key, and write into it."""
    await pilot.press(key)
    await pilot.pause()
    app.query_one("#entry", Input).value = text
    await keys(app, pilot, "enter")
