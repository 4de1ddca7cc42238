"""The viewer on a screen of its own, driven by its keys; and in a real terminal."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import Input, Static

from capture_tui.app import Viewer
from capture_tui.model.document import Document
from capture_tui.model.frame import key_of, seq_of
from capture_tui.model.notes import Notes
from capture_tui.model.paint import plain
from capture_tui.panes import HexPane, Pane, TabRow, TextPane, TreePane
from capture_tui.screens import Choice, Lines
from helpers.processes import BIN, HELPERS
from helpers.viewer import SESSION, drive, keys, lines, rows, type_in, until

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SERVER = f"{BIN / 'capture-server'} --listen {{address}}"
LENIENT = f"{sys.executable} {HELPERS / 'lenient_server.py'} --listen {{address}}"


def test_moving_paging_and_the_ends() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        first = app.frames.key
        await keys(app, pilot, "down", "j")
        third = app.frames.key
        await keys(app, pilot, "up", "k")
        assert (app.frames.key, third > first) == (first, True)
        await keys(app, pilot, "G")
        last = app.frames.key
        assert last == app.document.table.keys[-1]
        await keys(app, pilot, "pageup")
        assert first < app.frames.key < last
        await keys(app, pilot, "end", "g")
        assert app.frames.key == first
        await keys(app, pilot, "space")
        assert app.frames.key > third
        await keys(app, pilot, "home")
        assert app.frames.key == first

    drive(talk, size=(80, 24))


def test_every_other_key_for_a_move_does_the_same() -> None:
    """Of each binding with several keys: from the same place, each leads to the same place."""

    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        for name, start in (("frames", "end"), ("decoded", "home"), ("hex", "home")):
            if name != "frames":
                await keys(app, pilot, "1" if name == "decoded" else "2")
            pane = app.query_one(f"#{name}", Pane)
            for binding in (Pane if name == "frames" else type(pane)).BINDINGS:
                assert isinstance(binding, Binding)
                seen = set()
                for key in binding.key.split(","):
                    pane.focus()
                    await pilot.press(start, "up", key)
                    await pilot.pause()
                    seen.add((pane.cursor_row(), pane.count(), getattr(pane, "at", None)))
                assert len(seen) == 1, (name, binding.key, seen)

    drive(talk, size=(80, 24))


def test_a_call_shows_its_frames_alone_and_a_goes_back() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        app.calls.focus()
        await keys(app, pilot, "down", "down")
        call = app.document.calls()[1]
        assert app.call == call
        assert app.frames.rows.size == app.document.call(call).events
        await keys(app, pilot, "enter")
        assert app.focused is app.frames
        await keys(app, pilot, "a")
        assert (app.call, app.calls.cursor, app.frames.rows.size) == (None, 0, len(app.document.table))
        await keys(app, pilot, "a")
        assert app.call == call

    drive(talk)


def test_tabs_show_each_side_of_a_message() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await keys(app, pilot, "e", "e", "3")
        assert "tiling" in "".join(lines(app.query_one("#checksums", TextPane))) or "no checksum" in "".join(
            lines(app.query_one("#checksums", TextPane))
        )
        await keys(app, pilot, "4")
        assert any("Request headers" in line for line in lines(app.query_one("#metadata", TextPane)))
        await keys(app, pilot, "5")
        assert any(line.startswith("≠") for line in lines(app.query_one("#difference", TextPane)))
        await keys(app, pilot, "2")
        assert app.query_one("#hex", HexPane).data
        await keys(app, pilot, "1")
        tree = app.query_one(TreePane)
        assert any("status" in plain(tree.line(row, 200)) for row in range(tree.count()))

    drive(talk)


def test_bytes_and_fields_are_linked_in_both_directions() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await keys(app, pilot, "e", "enter", "down", "down", "down")
        tree, dump = app.query_one(TreePane), app.query_one(HexPane)
        assert tree.node is not None
        assert dump.span == (tree.node.start, tree.node.end)
        await keys(app, pilot, "2")
        dump.focus()
        await keys(app, pilot, "end")
        node = tree.node
        assert node is not None
        assert node.end == len(dump.data)
        assert dump.span == (node.start, node.end)
        await keys(app, pilot, "left", "right", "up", "down", "home")
        assert (dump.at, dump.span[0]) == (0, 0)

    drive(talk)


def test_a_tree_opens_and_closes_by_the_arrows() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await keys(app, pilot, "e", "enter")
        tree = app.query_one(TreePane)
        count = tree.count()
        await keys(app, pilot, "left")
        closed = tree.count()
        assert closed < count
        await keys(app, pilot, "right")
        assert closed < tree.count() <= count  # what was open inside is closed again
        await keys(app, pilot, "enter")
        assert tree.count() == closed
        await keys(app, pilot, "enter", "down", "down", "left")
        assert tree.cursor < count

    drive(talk)


def test_errors_searches_and_filters() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await keys(app, pilot, "e")
        first = app.frames.key
        await keys(app, pilot, "e")
        second = app.frames.key
        assert second > first
        await keys(app, pilot, "E")
        assert app.frames.key == first
        await type_in(app, pilot, "slash", "zlib")
        found = app.frames.key
        assert "zlib" in rows(app)[app.frames.keys().index(found)]
        await keys(app, pilot, "n", "N")
        assert app.frames.key == found
        await type_in(app, pilot, "f", 'error == "PAYLOAD_CORRUPT"')
        assert 0 < app.frames.rows.size < 20
        assert all("PAYLOAD_CORRUPT" in row for row in rows(app))
        await keys(app, pilot, "escape")
        assert app.frames.rows.size == len(app.document.table)
        await type_in(app, pilot, "f", "size >")
        assert app.query_one("#entry", Input).has_class("shown")  # it says what is wrong, and what was typed stays
        await keys(app, pilot, "escape")
        assert not app.query_one("#entry", Input).has_class("shown")

    drive(talk)


def test_a_newcomers_ways_lead_somewhere() -> None:
    """What somebody tried who knew nothing of the program, and what hindered them."""

    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.document.errors.total() > 0)
        heading = str(app.query_one("#heading", Static).content)
        assert "✓ clean file" in heading
        assert f"✗ {app.document.errors.total()} errors" in heading
        assert any("✗6" in "".join(text for text, _ in app.calls.line(row, 34)) for row in range(app.calls.count()))
        await keys(app, pilot, "e", "2", "tab", "down", "right")
        title = str(app.query_one(HexPane).border_title)
        assert title.startswith("byte 0x")
        assert "PAYLOAD_CORRUPT" in title
        error = app.frame
        assert error is not None
        await keys(app, pilot, "r")  # the request that led to it
        assert app.frame is not None
        assert (app.frame.direction, app.frame.call) == (0, error.call)
        assert str(app.query_one(HexPane).border_title) == "", "of another message"
        await keys(app, pilot, "r")
        assert app.frame.key == error.key
        await keys(app, pilot, "1", *["down"] * 9, "enter")  # a field that has nothing in it: its whole value
        assert isinstance(app.screen, Lines)
        await keys(app, pilot, "escape", "a")
        assert app.call == error.call
        await keys(app, pilot, "escape")
        assert app.call is None
        assert app.frames.key == error.key
        await type_in(app, pilot, "f", "checksum")
        assert app.frames.rows.size == 0
        assert ["nothing here is called checksum" in note.message for note in app._notifications] == [True]
        await type_in(app, pilot, "f", "error")
        (note,) = app._notifications  # one at a time
        assert "gives text, not true or false" in note.message
        await keys(app, pilot, "escape")
        assert app.frames.key == error.key, "where it was before the filter"

    drive(talk)


def test_help_moves_by_a_row() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await keys(app, pilot, "question_mark", "down", "j", "j")
        pane = app.screen.query_one(TextPane)
        assert pane.scroll_offset.y == 3
        await keys(app, pilot, "up", "end")
        assert pane.scroll_offset.y == pane.max_scroll_y
        await keys(app, pilot, "q")
        assert not isinstance(app.screen, Lines)

    drive(talk, size=(80, 24))


def test_the_filter_line_completes_names_of_fields() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await pilot.press("f")
        await pilot.press(*"chunk.env")
        entry = app.query_one("#entry", Input)
        await until(pilot, lambda: entry._suggestion == "chunk.envelope")
        await pilot.press("right")
        assert entry.value == "chunk.envelope"

    drive(talk)


def test_going_to_a_frame_or_a_time() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await type_in(app, pilot, "colon", "20")
        assert seq_of(app.frames.key) == 20
        await type_in(app, pilot, "colon", "0s")
        assert app.frames.key == app.document.table.keys[0]
        await type_in(app, pilot, "colon", "99999s")
        assert app.frames.key == app.document.table.keys[-1]
        await type_in(app, pilot, "colon", "soon")
        assert app.query_one("#entry", Input).has_class("shown")

    drive(talk)


def test_reverse_watch_jumps_to_where_the_value_came_from() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await type_in(app, pilot, "slash", "100 bytes of 90")
        here = app.frames.key
        tree = app.query_one(TreePane)
        at = tree.tree_.find("chunk.envelope.route_session_id") if tree.tree_ is not None else None
        assert at is not None
        tree.go(len(tree.notice) + at)
        await keys(app, pilot, "w")
        assert app.frames.key < here
        assert tree.node is not None
        assert tree.node.path == "chunk.envelope.route_session_id"

    drive(talk)


def test_damage_and_gaps_are_rows_that_x_finds() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await keys(app, pilot, "x")
        frame = app.frame
        assert frame is not None
        assert frame.damage
        assert any("damage at offset" in row for row in rows(app))
        await keys(app, pilot, "X", "m")
        assert not app.notes.of

    drive(talk, GOLDEN / "v1" / "damaged-body.cap")


def test_views_help_figures_and_themes() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await keys(app, pilot, "v")
        assert any("▶│" in row for row in rows(app))
        await keys(app, pilot, "v", "t")
        assert any("+" in row for row in rows(app))
        await keys(app, pilot, "t")
        before = app.theme
        await keys(app, pilot, "T")
        assert app.theme != before
        await keys(app, pilot, "question_mark")
        assert isinstance(app.screen, Lines)
        said = lines(app.screen.query_one(TextPane))
        for binding in Viewer.BINDINGS:
            assert isinstance(binding, Binding)
            assert any((binding.tooltip or binding.description) in line for line in said), binding
        await keys(app, pilot, "escape", "i")
        await until(pilot, lambda: isinstance(app.screen, Lines))
        assert any("Latency" in line for line in lines(app.screen.query_one(TextPane)))
        await keys(app, pilot, "escape", "z")
        assert app.screen.maximized is app.frames
        await keys(app, pilot, "z")
        assert app.screen.maximized is None

    drive(talk)


def test_copies_and_files_leave_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await keys(app, pilot, "e", "enter", "down")
        frame = app.frame
        assert frame is not None
        assert frame.message is not None
        wanted = {
            "h": frame.message.payload.hex(),
            "p": "status",
            "r": f"capture-replay {SESSION}",
            "g": "grpcurl",
            "j": "{",
        }
        for key, text in wanted.items():
            await keys(app, pilot, "y")
            assert isinstance(app.screen, Choice)
            await keys(app, pilot, key)
            assert app.clipboard.startswith(text), key
            if key != "p":  # what is long, or a command, can be read whole
                assert isinstance(app.screen, Lines)
                assert text in "".join(lines(app.screen.query_one(TextPane)))
                await keys(app, pilot, "escape")
        await type_in(app, pilot, "o", "bytes.bin")
        assert Path("bytes.bin").read_bytes() == frame.message.payload
        await type_in(app, pilot, "o", "bytes.bin")  # nothing is written over
        assert app.query_one("#entry", Input).has_class("shown")
        await keys(app, pilot, "escape", "a")
        await type_in(app, pilot, "O", "cut.cap")
        with_one = Document("cut.cap")
        assert [with_one.label(call) for call in with_one.calls()] == [app.document.label(frame.call or 0)]
        await keys(app, pilot, "S")
        assert len(list(Path().glob("*.svg"))) == 1

    drive(talk)


def test_bookmarks_and_notes_are_kept_in_the_capture(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    path.write_bytes(SESSION.read_bytes())

    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await keys(app, pilot, "e", "m")
        marked = app.frames.key
        await keys(app, pilot, "down", "down")
        await type_in(app, pilot, "M", "[red]why?")
        noted = app.frames.key
        assert any("◆" in row for row in rows(app))
        await keys(app, pilot, "apostrophe")
        assert app.frames.key == marked
        await keys(app, pilot, "apostrophe")
        assert app.frames.key == noted
        await keys(app, pilot, "q")

    app = drive(talk, path)
    assert app.return_value == f"the notes are in {path}"
    assert sorted(Notes(Document(str(path))).of.values()) == ["", "[red]why?"]


def test_a_replay_is_stepped_run_and_stepped_back() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await keys(app, pilot, "s", "s")
        stepper = app.stepper
        assert stepper is not None
        sent = list(stepper.sent)
        assert len(sent) == 2
        assert all(paired.verdict == "identical" for paired in stepper.answers.values())
        await keys(app, pilot, "s", "u")
        assert (stepper.sent, stepper.state) == (sent, "standing")
        await type_in(app, pilot, "colon", "20")
        await keys(app, pilot, "b", "c")
        assert stepper.next is not None
        assert 20 <= stepper.next.seq <= 21
        await keys(app, pilot, "b")
        await type_in(app, pilot, "B", 'error == "PAYLOAD_CORRUPT"')
        await keys(app, pilot, "c")
        assert stepper.state == "standing"
        await type_in(app, pilot, "B", "")
        await keys(app, pilot, "c")
        assert stepper.state == "over"
        assert "every answer passed" in str(app.query_one("#replay", Static).render())

    drive(talk, spawn=SERVER)


def test_a_lost_server_is_a_state_of_the_screen() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await keys(app, pilot, "s")
        assert app.stepper is not None
        assert app.stepper.state == "lost"
        assert "did not start" in str(app.query_one("#replay", Static).render())
        await keys(app, pilot, "c", "u")
        assert app.is_running

    drive(talk, spawn="false {address}")


def test_the_story_of_a_corrupt_chunk() -> None:
    """Jump to the error, see what fails to tile, watch a field backwards, step a replay, see the divergence."""

    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await type_in(app, pilot, "slash", "session=not_tiling")
        await keys(app, pilot, "e")
        frame = app.frame
        assert frame is not None
        assert "✗ t: bytes 50 to 60 are missing" in rows(app)[app.frames.keys().index(frame.key)]
        await keys(app, pilot, "3")
        said = lines(app.query_one("#checksums", TextPane))
        assert any("✗ t  gap" in line for line in said)
        assert any("░" in line for line in said)
        await keys(app, pilot, "1", "down", "down")
        tree = app.query_one(TreePane)
        at = tree.tree_.find("chunk.envelope.work_id") if tree.tree_ is not None else None
        assert at is not None
        tree.go(len(tree.notice) + at)
        await keys(app, pilot, "w")
        assert tree.node is not None
        assert (tree.node.path, tree.node.value) == ("chunk.envelope.work_id", "'w'")
        await keys(app, pilot, "c")
        stepper = app.stepper
        assert stepper is not None
        assert stepper.diverged
        first = min(stepper.diverged)
        assert app.frames.key == key_of(first)
        said = lines(app.query_one("#difference", TextPane))
        assert any("replayed" in line for line in said)
        assert any(line.startswith("≠") for line in said)
        assert rows(app)[app.frames.keys().index(key_of(first))].startswith("≠")
        await keys(app, pilot, "g", "d")
        assert app.frames.key == key_of(first)
        await keys(app, pilot, "D", "p")
        assert any("of the same kind before it" in line for line in lines(app.query_one("#difference", TextPane)))

    drive(talk, spawn=LENIENT)


def test_the_screen_is_whole_at_every_width() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        for width, height in ((40, 10), (80, 24), (120, 40), (200, 60), (240, 70)):
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            assert app.frames.scrollable_content_region.width > 15
            assert app.query_one(TreePane).scrollable_content_region.height > 0 or height < 12

    drive(talk)


def test_the_mouse_selects_rows_tabs_fields_and_bytes() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await pilot.click("#frames", offset=(20, 4))  # the border is row 0
        await pilot.pause()
        assert app.frames.key == app.frames.keys()[3]
        await pilot.click("#calls", offset=(5, 3))
        await pilot.pause()
        assert app.call == app.document.calls()[1]
        await pilot.click("#frames", offset=(20, 2))
        await pilot.pause()
        frame = app.frame
        assert frame is not None
        assert frame.message is not None
        tree, hexed = app.query_one(TreePane), app.query_one(HexPane)
        await pilot.click("#decoded", offset=(8, 1 + len(tree.notice) + 1))
        await pilot.pause()
        assert tree.node is not None
        inner = tree.node
        assert inner.depth == 1
        count = tree.count()
        await pilot.click("#decoded", offset=(0, 1 + len(tree.notice)))  # the triangle of the message around it
        await pilot.pause()
        closed = tree.count()
        assert closed < count
        await pilot.click("#decoded", offset=(0, 1 + len(tree.notice)))
        await pilot.pause()
        assert tree.count() > closed
        words = f" {'1 Decoded'}  "
        await pilot.click("#tabs", offset=(len(words) + 4, 0))
        await pilot.pause()
        assert app.query_one("#hex").is_on_screen
        await pilot.click("#hex", offset=(10 + 3 * 3, 1))  # the fourth byte of the first row
        await pilot.pause()
        assert hexed.at == 3
        assert hexed.span[0] <= 3 < hexed.span[1]
        await pilot.click("#frames", offset=(20, 5))
        await pilot.pause()
        await pilot.click("#frames", offset=(20, 5))  # a second click goes into its detail
        await pilot.pause()
        assert app.focused is hexed

    drive(talk)


def test_every_size_has_its_titles_whole() -> None:
    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        for width in (80, 100, 120, 170, 200, 220, 240):
            await pilot.resize_terminal(width, 30)
            await pilot.pause()
            row = app.query_one("#tabs", TabRow)
            assert row.render().cell_len <= row.content_size.width + 1
            assert row.render().plain.rstrip().endswith(("5 Diff", "5 Difference"))

    drive(talk)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed here")
def test_a_run_in_a_real_terminal(tmp_path: Path) -> None:
    socket, done = tmp_path / "tmux", tmp_path / "status"

    def tmux(*words: str) -> str:
        return subprocess.run(
            ["tmux", "-S", socket, "-f", "/dev/null", *words], capture_output=True, text=True, check=True
        ).stdout

    def sees(text: str) -> None:
        import time

        end = time.monotonic() + 60
        while text not in (screen := tmux("capture-pane", "-p", "-t", "v")):
            assert time.monotonic() < end, screen
            time.sleep(0.05)

    viewer = f"{BIN / 'capture-view'} {SESSION} --spawn '{SERVER}'"
    command = f"{viewer}; echo $? >{done}.part; mv {done}.part {done}; echo all is over; cat"
    tmux("new-session", "-d", "-s", "v", "-x", "80", "-y", "24", command)
    try:
        sees("Calls")
        tmux("send-keys", "-t", "v", "s")
        sees("is next")
        tmux("send-keys", "-t", "v", "/")
        sees("field=value")
        tmux("send-keys", "-t", "v", "zlib", "Enter")
        sees("zlib's CR…")
        tmux("send-keys", "-t", "v", "f")
        sees("nothing: all frames")
        tmux("send-keys", "-t", "v", "failed", "Enter")
        sees("filter failed")
        tmux("send-keys", "-t", "v", "q")
        sees("all is over")
        assert "Calls" not in tmux("capture-pane", "-p", "-t", "v")  # the screen is as it was before
        assert done.read_text().strip() == "0"
    finally:
        subprocess.run(["tmux", "-S", socket, "kill-server"], capture_output=True, check=False)
