"""A file that is still being written is followed; what takes long shows how far it is, and can be stopped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from capture_recorder.capfile import CaptureWriter
from capture_recorder.capfile.records import Call, Message, Meta, Status
from capture_tui.app import Viewer
from capture_tui.model.document import Document
from capture_tui.model.frame import Frame, Key, key_of, seq_of
from helpers.viewer import drive, rows, type_in, until


def message(index: int, payload: bytes = b"\x08\x01") -> Message:
    return Message(call=1, time_ns=2 + index, direction=0, index=index, payload=payload)


@pytest.fixture
def growing(tmp_path: Path) -> CaptureWriter:
    """A capture of a call and ten messages that is still being written."""
    writer = CaptureWriter(tmp_path / "a.cap")
    writer.append(Meta(created_ns=1, clock_ns=1))
    writer.append(Call(call=1, time_ns=1, method="/a.B/C", kind="bidi"))
    for index in range(10):
        writer.append(message(index))
    return writer


def test_a_file_that_grows_is_followed_to_its_end(growing: CaptureWriter) -> None:
    """At the end of it, until F or a move says otherwise; to its close, after which it is clean."""

    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        assert app.document.condition == "live"
        assert app.following
        await until(pilot, lambda: app.frames.rows.size == 11)
        for index in range(10, 60):
            growing.append(message(index))
        await until(pilot, lambda: app.frames.rows.size == 61)
        await until(pilot, lambda: seq_of(app.frames.key) == 62)
        assert any("62" in row for row in rows(app)), "the last one is on screen"
        await keys_of_a_live_one(app, pilot, "F")
        assert not app.following
        growing.append(message(60))
        await until(pilot, lambda: app.frames.rows.size == 62)
        assert seq_of(app.frames.key) == 62, "the cursor stays"
        await keys_of_a_live_one(app, pilot, "F")
        growing.append(Status(call=1, time_ns=99, code=0))
        await until(pilot, lambda: seq_of(app.frames.key) == 64)
        assert app.frames.key == key_of(64)
        growing.close()
        await until(pilot, lambda: app.document.scanned)
        assert app.document.condition == "clean"
        await until(pilot, lambda: "✓ clean" in str(app.query_one("#heading", Static).content))

    drive(talk, growing.part, size=(80, 24))


def test_moving_away_ends_the_following(growing: CaptureWriter) -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.frames.rows.size == 11)
        await keys_of_a_live_one(app, pilot, "g")
        growing.append(message(10))
        await until(pilot, lambda: app.frames.rows.size == 12)
        assert seq_of(app.frames.key) == 2
        assert not app.following
        growing.close()

    drive(talk, growing.part, size=(80, 24))


async def keys_of_a_live_one(app: Viewer, pilot: Pilot[Any], *pressed: str) -> None:
    """As `keys`, which waits for the workers: here one of them follows the file."""
    for key in pressed:
        await pilot.press(key)
        await pilot.pause()


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30,000 messages."""
    path = tmp_path_factory.mktemp("long") / "long.cap"
    writer = CaptureWriter(path)
    writer.append(Meta(created_ns=1, clock_ns=1))
    writer.append(Call(call=1, time_ns=1, method="/a.B/C", kind="bidi"))
    for index in range(30_000):
        writer.append(message(index, b"\x0a\x04" + index.to_bytes(4, "little")))
    return writer.close()


@pytest.mark.parametrize(
    ("key", "text", "doing"), [("slash", "not there", "searching"), ("f", "size == 6", "filtering")]
)
def test_what_takes_long_shows_how_far_it_is_and_esc_stops_it(
    key: str, text: str, doing: str, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held up in its middle until the screen was looked at."""
    looked, given, items = Event(), [0], Document.items

    def slow(self: Document, wanted: Iterable[Key]) -> Iterator[Frame]:
        for number, frame in enumerate(items(self, wanted)):
            given[0] = number
            if number in (2_000, 4_000, 6_000):
                time.sleep(0.2)  # longer than from one word about it to the next
            if number == 20_000:
                assert looked.wait(60)
            yield frame

    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.document.scanned)
        monkeypatch.setattr(Document, "items", slow)
        await pilot.press(key)
        await pilot.pause()
        app.query_one("#entry", Input).value = text
        await pilot.press("enter")
        await until(pilot, lambda: doing in str(app.query_one("#status", Static).content))
        said = str(app.query_one("#status", Static).content)
        assert "esc stops" in said
        assert "%" in said
        before = app.frames.key
        await pilot.press("down")  # the screen is not held up
        await pilot.pause()
        assert app.frames.key > before
        await pilot.press("escape")
        await pilot.pause()
        looked.set()
        await app.workers.wait_for_complete()
        await until(pilot, lambda: doing not in str(app.query_one("#status", Static).content))
        assert given[0] < 29_000, "it went on to the end"

    drive(talk, long)


def test_a_search_over_all_of_it_ends(long: Path) -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.document.scanned)
        wanted = (29_990).to_bytes(4, "little").hex(" ")
        await type_in(app, pilot, "slash", f"hex: {wanted}")
        assert app.frame is not None
        assert app.frame.message == message(29_990, b"\x0a\x04" + (29_990).to_bytes(4, "little"))
        await type_in(app, pilot, "colon", "1")
        assert seq_of(app.frames.key) == 2

    drive(talk, long)
