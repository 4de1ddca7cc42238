"""Makes the pictures of the README from the golden captures: `make screenshots`. With `--check`, says whether they are
what the viewer shows today."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from capture_tui.app import Viewer
from capture_tui.model.document import Document

ROOT = Path(__file__).resolve().parent.parent
CAPTURE = ROOT / "tests" / "golden" / "viewer" / "session.cap"
FOLDER = ROOT / "docs" / "screenshots"
PICTURES = {  # name: size, and the keys before it
    "error": ((120, 36), ["e", "e", "e", "e", "3"]),
    "bytes": ((120, 36), ["e", "enter", "down", "down", "down", "2"]),
    "ladder": ((120, 36), ["v", "down", "down", "down"]),
}


async def picture(size: tuple[int, int], keys: list[str]) -> str:
    """The screen as SVG."""
    app = Viewer(Document(str(CAPTURE)))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
            await app.workers.wait_for_complete()
            await pilot.pause()
        svg = app.export_screenshot(title="capture-view session.cap")
    app.document.close()
    return re.sub(r"terminal-\d+", "terminal", svg)  # Rich numbers its classes by the content's checksum


def main() -> int:
    """Write them, or compare."""
    stale = []
    FOLDER.mkdir(exist_ok=True)
    for name, (size, keys) in PICTURES.items():
        path = FOLDER / f"{name}.svg"
        svg = asyncio.run(picture(size, keys))
        if "--check" not in sys.argv:
            path.write_text(svg, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != svg:
            stale.append(path.name)
    if stale:
        print(f"{', '.join(stale)}: not what the viewer shows; run `make screenshots`")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
