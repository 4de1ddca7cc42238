"""What a capture may hold does not reach the terminal raw, does not break the columns, and does not end the viewer."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from textual.pilot import Pilot

from capture_recorder.capfile.records import (
    REQUEST,
    RESPONSE,
    Call,
    HalfClose,
    Headers,
    Message,
    Meta,
    Note,
    Record,
    Schema,
    Status,
)
from capture_tui.app import Viewer
from capture_tui.panes import HexPane, Pane, TreePane
from helpers.captures import write_capture
from helpers.processes import BIN
from helpers.viewer import drive, keys, type_in, until

# Nothing of this is to be seen on the wire of a terminal. U+200D joins, U+202E turns round, OSC 0 and 52 set the title
# and the clipboard, DECSTR and RIS reset, DCS and APC open strings.
RAW = {
    "title": "\x1b]0;owned\x07", "clipboard": "\x1b]52;c;b3duZWQ=\x07", "red": "\x1b[31;45m", "reset": "\x1bc",
    "string": "\x1bP1$t\x1b\\", "apc": "\x1b_Gi=1\x1b\\", "c1": "\x9b31m", "bidi": "a\u202eb\u2066c",
    "joiner": "\u200d", "nul": "x\x00y",
    "bell": "\x07", "back": "\x08\x08\x08", "newline": "one\ntwo\r\nthree", "tag": "\U000e0041",
}  # fmt: skip
MARKUP = ("[red]x[/]", "[/", "[00]", "[@click=app.quit]y[/]", "[link=https://example.com]z[/link]")
WIDE = ("👩\u200d👩\u200d👧\u200d👦" * 9, "漢字" * 90, "é" * 300)


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def hostile() -> list[Record]:
    """Such strings wherever a capture has a string."""
    text = "".join(RAW.values()) + "".join(MARKUP)
    pairs = tuple((f"k{number}", value.encode()) for number, value in enumerate((*RAW.values(), *MARKUP, *WIDE)))
    records: list[Record] = [
        Meta(created_ns=1, clock_ns=1, program=text, versions={text: text}),
        Call(call=1, time_ns=1, method=f"/{text}/{text}", kind="bidi", peer=text, metadata=pairs),
        Headers(call=1, time_ns=2, metadata=pairs),
    ]
    texts = [value.encode() for value in (*RAW.values(), *MARKUP, *WIDE)]
    for number in range(0, len(texts), 4):
        some = texts[number : number + 4]
        payload = b"".join(
            field(1, value) + field(2, b"\xff\xfe" + value) + field(3, field(1, value)) for value in some
        )
        records.append(Message(call=1, time_ns=3 + number, direction=RESPONSE, index=number, payload=payload))
    records += [
        Status(call=1, time_ns=90, code=2, message=text, metadata=(*pairs, ("grpc-status-details-bin", b"\xff"))),
        Note(text=text, about=5),
    ]
    return records


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write_capture(tmp_path / "hostile.cap", hostile())


class Terminal:
    """A pty with `capture-view` in it. Everything that it is sent is kept."""

    def __init__(self, columns: int, rows: int, *words: str | Path) -> None:
        self.sent, self.ended = b"", False
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", LANG="C.UTF-8")
            os.environ.pop("NO_COLOR", None)
            os.execv(BIN / "capture-view", ["capture-view", *map(str, words)])
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def read_until(self, *texts: str) -> None:
        """Until all of these have come since the last time."""
        begin, end = len(self.sent), time.monotonic() + 60
        while not all(text.encode() in self.sent[begin:] for text in texts):
            assert time.monotonic() < end, self.sent[begin:][-2000:]
            self._read(1)

    def status(self) -> int:
        """Read to its end; the exit status."""
        end = time.monotonic() + 60
        while self._read(1) or not self.ended:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self, seconds: float) -> bool:
        if not select.select([self._fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # Linux: the other end is closed
            self.ended = True
            return False
        self.sent += data
        return bool(data)


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=str)
def test_nothing_of_a_capture_reaches_the_terminal_raw(capture: Path, size: tuple[int, int]) -> None:
    """Each tab of frames of each kind, the metadata, the ladder, the figures and a note, in a real terminal."""
    terminal = Terminal(*size, capture)
    terminal.read_until("Calls", "row 1 of")
    for press, seen in (
        ("4", "Metadata"), ("j", "frame"), ("1j", "row 3"), ("2j", "row 4"), ("5j", "row 5"), ("1j", "row 6"),
        ("/", "field=value"), ("[red]\r", "[red]x"), ("G", "of"), ("v", "Ladder"),
        ("i", "back"), ("q:", "the number of a frame"), ("6\r", "frame 6"),
        ("vw", ""), ("m", ""), ("y", "grpcurl"), ("h", "by way of the terminal"), ("q:", "the number of a frame"),
        ("5\r", "frame 5"),
    ):  # fmt: skip
        terminal.press(press)
        if seen:
            terminal.read_until(seen)
    terminal.press("q")
    assert terminal.status() == 0
    sent = terminal.sent.decode("utf-8", "surrogateescape")
    for name, text in RAW.items():
        if name not in ("bell", "back", "newline"):
            assert text not in sent, name
    for sign in ("\u202e", "\u2066", "\u200d", "\x00", "\U000e0041", "\x9b"):
        assert sign not in sent, ascii(sign)
    assert "owned" in sent, "the text itself is there, escaped"
    assert "[red]x" in sent
    assert not re.search(r"\x1b\](?!52;c;|22;)", sent), "copies and the pointer's shape only"


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=str)
def test_rows_are_as_wide_as_the_screen_whatever_is_in_them(capture: Path, size: tuple[int, int]) -> None:
    """Each frame in each tab."""

    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        for index in range(5):
            app.action_tab(index)
            for key in app.frames.rows.window(0, app.frames.rows.size):
                app.frames.go_key(key)
                await pilot.pause()
                for pane in app.query(Pane):
                    if pane.is_on_screen:
                        check(pane)

    def check(pane: Pane) -> None:
        wide = pane.scrollable_content_region.width
        for y in range(pane.scrollable_content_region.height):
            strip = pane.render_line(y)
            assert strip.cell_length == wide
            assert strip.text.isprintable()

    drive(talk, capture, size=size)


# --- more than a screen can be made for at once -----------------------------------------------------------------------


def schema(*, imports: str = "", of: str = ".a.M") -> Schema:
    """M { bytes data = 1; M inner = 2; map<int32, int32> entries = 3; }"""
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="a", syntax="proto3")
    message = file.message_type.add(name="M")
    message.field.add(name="data", number=1, type=12, label=1)
    message.field.add(name="inner", number=2, type=11, type_name=of, label=1)
    message.field.add(name="entries", number=3, type=11, type_name=".a.M.EntriesEntry", label=3)
    entry = message.nested_type.add(name="EntriesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=5, label=1)
    entry.field.add(name="value", number=2, type=5, label=1)
    file.service.add(name="B").method.add(name="C", input_type=".a.M", output_type=".a.M", client_streaming=True)
    if imports:
        file.dependency.append(imports)
    files = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    return Schema(services=("a.B",), files=files)


def nested(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = field(2, data)
    return data


MILLION = b"".join(field(3, b"\x08" + varint(number) + b"\x10\x01") for number in range(1_000_000))
HEAVY: dict[str, tuple[list[Record], bytes, str]] = {
    "64 MiB of bytes": ([schema()], field(1, bytes(64 << 20)), "64.0 MiB"),
    "a million entries": ([schema()], MILLION, "entries"),
    "a thousand deep": ([schema()], nested(1_000), "inner"),
    "ten thousand deep": ([schema()], nested(10_000), "inner"),
    "a schema with an import that is not there": ([schema(imports="gone.proto")], field(1, b"x"), "1"),
    "a schema with a type that is not there": ([schema(of=".a.Gone")], field(1, b"x"), "1"),
    "a schema that is no schema": ([Schema(services=("a.B",), files=b"\xff\xff\xff")], field(1, b"x"), "1"),
    "no schema": ([], field(1, b"x"), "1"),
}


def heavy(schemas: list[Record], payload: bytes) -> Iterator[Record]:
    yield Meta(created_ns=1, clock_ns=1)
    yield from schemas
    yield Call(call=1, time_ns=1, method="/a.B/C", kind="bidi")
    for direction in (REQUEST, RESPONSE):
        yield Message(call=1, time_ns=2 + direction, direction=direction, index=0, payload=payload)
    yield HalfClose(call=1, time_ns=4)
    yield Status(call=1, time_ns=5, code=0)


@pytest.mark.parametrize("name", HEAVY)
def test_the_viewer_lives_with(name: str, tmp_path: Path) -> None:
    """Each tab of it, its tree opened as far as a key press each goes, its bytes to the last one, and a search."""
    schemas, payload, shown = HEAVY[name]
    path = write_capture(tmp_path / "a.cap", heavy(schemas, payload))

    async def talk(app: Viewer, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.document.scanned)
        await keys(app, pilot, "down")
        frame = app.frame
        assert frame is not None
        assert frame.message is not None
        tree = app.query_one(TreePane)
        await until(pilot, lambda: tree.tree_ is not None)
        assert any(shown in "".join(text for text, _ in tree.line(row, 120)) for row in range(min(tree.count(), 9)))
        await keys(app, pilot, "enter", *["down", "right"] * 3, "end", "right", "home")
        await keys(app, pilot, "2", "enter", "end")
        await keys(app, pilot, "home")
        assert app.query_one(HexPane).data == payload
        await keys(app, pilot, "3", "4", "5", "1")
        await keys(app, pilot, "escape", "tab", "shift+tab")
        await type_in(app, pilot, "slash", "zzz")
        await type_in(app, pilot, "f", "size > 1")

    app = drive(talk, path)
    assert app.return_code in (0, None)
