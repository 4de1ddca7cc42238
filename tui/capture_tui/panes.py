"""Widgets that show lines: one cursor, only what is on screen is made. Each kind says which lines there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from .model.document import Document
from .model.frame import Frame, Key, direction_of
from .model.hexdump import columns_for, hex_line, roles_of
from .model.listing import call_line, delta_text, frame_line, ladder_line, time_text
from .model.paint import ROLES, Line, Role, cut, wrapped
from .model.rows import KeyRows, Rows
from .model.tree import Node, Tree

_MOVES: Final = {"up": -1, "down": 1}


class Pane(ScrollView, can_focus=True):
    """Rows with a cursor. A subclass has `count` and `line`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"role--{role}" for role in ROLES} | {"row--cursor", "row--blurred"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "page up", show=False),
        Binding("pagedown,ctrl+f,space", "page(1)", "page down", show=False),
        Binding("home,g", "end(-1)", "the first", show=False),
        Binding("end,G", "end(1)", "the last", show=False),
    ]

    class Moved(Message):
        """The cursor is somewhere else. `by_user` only where a key or the mouse did it."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

        @property
        def control(self) -> Pane:
            """The pane."""
            return self.pane

    class Chosen(Message):
        """Enter, or a second click, on the row of the cursor."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

        @property
        def control(self) -> Pane:
            """The pane."""
            return self.pane

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self.cursor = 0

    # --- for subclasses ---------------------------------------------------------------------------------------------

    def count(self) -> int:
        """How many rows there are."""
        return 0

    def line(self, row: int, columns: int) -> Line:
        """A row."""
        raise NotImplementedError

    def cursor_row(self) -> int:
        """The row of the cursor."""
        return self.cursor

    # --- what is shown ----------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """What there is to show has changed."""
        self.virtual_size = Size(self.scrollable_content_region.width, self.count())
        self.refresh()

    def on_resize(self, _event: events.Resize) -> None:
        """See Textual."""
        self.reload()
        self.call_after_refresh(self.show_cursor)

    def render_line(self, y: int) -> Strip:
        """See Textual."""
        width = self.scrollable_content_region.width
        row = y + round(self.scroll_offset.y)
        base = self.rich_style
        if not 0 <= row < self.count():
            return Strip.blank(width, base)
        line = cut(self.line(row, width), width)
        is_cursor = row == self.cursor_row()
        if is_cursor:
            base += self.get_component_rich_style("row--cursor" if self.has_focus else "row--blurred", partial=True)
        segments = [Segment(text, base + self._style(role)) for text, role in line if text]
        return Strip(segments).adjust_cell_length(width, base)

    def _style(self, role: Role) -> Style:
        return self.get_component_rich_style(f"role--{role}", partial=True)

    def on_focus(self) -> None:
        """See Textual."""
        self.refresh()

    def on_blur(self) -> None:
        """See Textual."""
        self.refresh()

    # --- moving -----------------------------------------------------------------------------------------------------

    def show_cursor(self) -> None:
        """Scroll as far as shows it."""
        self.scroll_to_region(Region(0, self.cursor_row(), 1, 1), animate=False, force=True, immediate=True)

    def go(self, row: int) -> None:
        """Move the cursor to a row."""
        row = max(0, min(row, self.count() - 1))
        moved = row != self.cursor
        self.cursor = row
        self.show_cursor()
        self.refresh()
        if moved:
            self.post_message(self.Moved(self))

    def action_move(self, by: int) -> None:
        """One up or down."""
        self.go(self.cursor + by)

    def action_page(self, by: int) -> None:
        """A page up or down."""
        self.action_move(by * max(1, self.scrollable_content_region.height - 1))

    def action_end(self, by: int) -> None:
        """To the first or the last."""
        self.go(0 if by < 0 else self.count() - 1)

    def key_enter(self) -> None:
        """Choose."""
        self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        """The row under the mouse."""
        at = event.get_content_offset(self)
        row = -1 if at is None else at.y + round(self.scroll_offset.y)
        if at is not None and 0 <= row < self.count():
            again = row == self.cursor_row()
            self.clicked(row, at.x)
            if event.chain == 2 or (again and event.chain == 1 and self.has_focus):
                self.post_message(self.Chosen(self))

    def clicked(self, row: int, _x: int) -> None:
        """A row was clicked."""
        self.go(row)


class CallPane(Pane):
    """The calls of a capture, after a row that stands for all of them."""

    def __init__(self, document: Document, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.border_title = "Calls"
        self.document = document
        self.marks: dict[int, str] = {}
        self._calls = document.calls()

    def reload(self) -> None:
        """See `Pane`."""
        self._calls = self.document.calls()
        super().reload()

    def count(self) -> int:
        """See `Pane`."""
        return len(self._calls) + 1

    def line(self, row: int, columns: int) -> Line:
        """See `Pane`."""
        if row == 0:
            return [("≡ all calls", "strong")]
        info = self.document.call(self._calls[row - 1])
        return call_line(
            info,
            columns,
            mark=self.marks.get(info.call, ""),
            known=info.events > 0,
            label=self.document.label(info.call),
            errors=self.document.errors[info.call],
        )

    @property
    def call(self) -> int | None:
        """The call of the cursor; None for all of them."""
        return None if self.cursor == 0 or self.cursor > len(self._calls) else self._calls[self.cursor - 1]

    def show(self, call: int | None) -> None:
        """Move the cursor to a call without a word."""
        self.cursor = 0 if call is None or call not in self._calls else self._calls.index(call) + 1
        self.show_cursor()
        self.refresh()


class FramePane(Pane):
    """Frames, as a list or as a ladder. The cursor is the key of a frame."""

    def __init__(self, document: Document, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.border_title = "Frames"
        self.document = document
        self.rows: Rows = document.all_rows()
        self.key: Key = self.rows.move(0, 0) or 0
        self.ladder = False
        self.absolute = True
        self.with_call = True
        self.marks: dict[Key, str] = {}
        self._seen: tuple[int, int, int, Rows] | None = None
        self._keys: list[Key] = []

    def count(self) -> int:
        """See `Pane`."""
        return self.rows.size

    def show(self, rows: Rows, key: Key | None = None) -> None:
        """Other rows, with the cursor on this frame or the nearest after it."""
        self.rows = rows
        self._seen = None
        if key is not None:
            self.key = key
        kept = rows.window(rows.slot(self.key), 1)
        self.key = kept[0] if kept else (rows.move(self.key, 0) or 0)
        self.reload()
        self.call_after_refresh(self.show_cursor)

    def keys(self) -> list[Key]:
        """The frames that are on screen."""
        seen = (round(self.scroll_offset.y), max(1, self.scrollable_content_region.height), self.rows.size, self.rows)
        if seen != self._seen:
            self._seen = seen
            self._keys = self.rows.window(seen[0], seen[1] + 1)
            self.document.glimpses(self._keys)  # read together
        return self._keys

    def cursor_row(self) -> int:
        """See `Pane`."""
        top, keys = round(self.scroll_offset.y), self.keys()
        return top + keys.index(self.key) if self.key in keys else self.rows.slot(self.key)

    def line(self, row: int, columns: int) -> Line:
        """See `Pane`."""
        at, keys = row - round(self.scroll_offset.y), self.keys()
        if not 0 <= at < len(keys):
            return []
        before = keys[at - 1] if at else self.rows.move(keys[0], -1)
        frame, previous = self.document.glimpses((keys[at], keys[at] if before is None else before))
        if frame is None:
            return [("  …", "dim")]
        wait = 0
        if previous is not None and previous.time_ns is not None and frame.time_ns is not None:
            wait = frame.time_ns - previous.time_ns
        known = self.document.known(frame)
        time = time_text(frame.time_ns, 120 if self.ladder else columns) if self.absolute else delta_text(wait)
        mark = self.marks.get(frame.key, "")
        if self.ladder:
            return ladder_line(frame, known, columns, time=time, wait_ns=wait, mark=mark)
        return frame_line(frame, known, columns, time=time, mark=mark, with_call=self.with_call)

    @property
    def frame(self) -> Frame | None:
        """The frame of the cursor."""
        return self.document.frame(self.key)

    def go_key(self, key: Key) -> None:
        """Move the cursor to a frame."""
        moved = key != self.key
        self.key = key
        if key not in self.keys()[: self.scrollable_content_region.height]:
            height = self.scrollable_content_region.height
            self.scroll_to(y=max(0, self.rows.slot(key) - height // 3), animate=False, force=True, immediate=True)
        self.refresh()
        if moved:
            self.post_message(self.Moved(self))

    def go(self, row: int) -> None:
        """See `Pane`."""
        keys = self.rows.window(max(0, min(row, self.count() - 1)), 1)
        if keys:
            self.go_key(keys[0])

    def action_move(self, by: int) -> None:
        """See `Pane`."""
        key = self.rows.move(self.key, by)
        if key is not None:
            old = self.key
            self.key = key
            height = self.scrollable_content_region.height
            if key not in self.keys()[:height]:
                top = round(self.scroll_offset.y) + by
                slot = self.rows.slot(key)
                self.scroll_to(y=max(slot - height + 1, min(top, slot), 0), animate=False, force=True, immediate=True)
            self.refresh()
            if key != old:
                self.post_message(self.Moved(self))

    def action_end(self, by: int) -> None:
        """See `Pane`."""
        self.action_move(by * max(1, self.rows.size))

    def show_cursor(self) -> None:
        """See `Pane`."""
        key, height = self.key, self.scrollable_content_region.height
        if height > 0 and key not in self.keys()[:height]:
            self.scroll_to(y=max(0, self.rows.slot(key) - height // 3), animate=False, force=True, immediate=True)

    def clicked(self, row: int, _x: int) -> None:
        """See `Pane`."""
        at, keys = row - round(self.scroll_offset.y), self.keys()
        if 0 <= at < len(keys):
            self.go_key(keys[at])

    def waits(self) -> int | None:
        """Which way the frame of the cursor went."""
        frame = self.frame
        return None if frame is None or frame.event is None else direction_of(frame.event)


class TextPane(Pane):
    """Lines that are there."""

    def __init__(self, *, id: str, indent: int = 4) -> None:  # noqa: A002
        super().__init__(id=id)
        self._indent = indent
        self._given: list[Line] = []
        self._lines: list[Line] = []
        self._wide = 0

    def put(self, lines: list[Line]) -> None:
        """Show other lines, from their beginning."""
        self._given, self._wide, self.cursor = lines, 0, 0
        self.scroll_to(y=0, animate=False, force=True, immediate=True)
        self.reload()

    def reload(self) -> None:
        """See `Pane`."""
        wide = max(8, self.scrollable_content_region.width)
        if wide != self._wide:
            self._wide = wide
            self._lines = [part for line in self._given for part in wrapped(line, wide, self._indent)]
        super().reload()

    def count(self) -> int:
        """See `Pane`."""
        return len(self._lines)

    def line(self, row: int, columns: int) -> Line:
        """See `Pane`."""
        return self._lines[row]


class ReadPane(TextPane):
    """Lines to be read: the keys move them, not a cursor."""

    def cursor_row(self) -> int:
        """See `Pane`."""
        return -1

    def show_cursor(self) -> None:
        """See `Pane`."""

    def go(self, row: int) -> None:
        """See `Pane`."""
        self.scroll_to(y=row, animate=False, force=True, immediate=True)

    def action_move(self, by: int) -> None:
        """See `Pane`."""
        self.go(round(self.scroll_offset.y) + by)

    def clicked(self, row: int, _x: int) -> None:
        """See `Pane`."""


class TreePane(Pane):
    """The fields of a message."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,plus", "open", "open", show=False),
        Binding("left,minus", "close", "close", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.tree_: Tree | None = None
        self.notice: list[Line] = []
        self._given: list[Line] = []
        self._wide = 0

    def put(self, tree: Tree | None, notice: list[Line]) -> None:
        """Show another message, under some lines about it."""
        old = self.node
        self.tree_, self._given, self._wide = tree, notice, 0
        again = None if old is None or tree is None else tree.find(old.path)
        self.reload()
        self.cursor = 0 if tree is None else len(self.notice) + (again or 0)
        self.call_after_refresh(self.show_cursor)

    def reload(self) -> None:
        """See `Pane`."""
        wide = max(8, self.scrollable_content_region.width)
        if wide != self._wide:
            self._wide, before = wide, len(self.notice)
            self.notice = [part for line in self._given for part in wrapped(line, wide, 4)]
            if self.cursor >= before:
                self.cursor += len(self.notice) - before
        super().reload()

    def count(self) -> int:
        """See `Pane`."""
        return len(self.notice) + (0 if self.tree_ is None else len(self.tree_.rows))

    def line(self, row: int, columns: int) -> Line:
        """See `Pane`."""
        if row < len(self.notice):
            return self.notice[row]
        assert self.tree_ is not None
        return self.tree_.rows[row - len(self.notice)].line()

    @property
    def node(self) -> Node | None:
        """The field of the cursor."""
        at = self.cursor - len(self.notice)
        return self.tree_.rows[at] if self.tree_ is not None and 0 <= at < len(self.tree_.rows) else None

    def select(self, offset: int) -> None:
        """Move the cursor to the field that a byte belongs to."""
        at = None if self.tree_ is None else self.tree_.reveal(offset)
        if at is not None:
            self.reload()
            self.cursor = len(self.notice) + at
            self.refresh()
            self.call_after_refresh(self.show_cursor)

    def key_enter(self) -> None:
        """Open or close; of a field that has nothing in it, its whole value is asked for."""
        node = self.node
        if self.tree_ is not None and node is not None and (node.opens or node.more is not None):
            self.tree_.toggle(self.cursor - len(self.notice))
            self.reload()
        elif node is not None:
            self.post_message(self.Chosen(self))

    def action_open(self) -> None:
        """Show what is in the field."""
        if self.tree_ is not None and self.node is not None and not self.node.is_open:
            self.tree_.open(self.cursor - len(self.notice))
            self.reload()

    def action_close(self) -> None:
        """Hide what is in the field, or go to the one that it is in."""
        if self.tree_ is None or self.node is None:
            return
        at = self.cursor - len(self.notice)
        if self.node.is_open:
            self.tree_.close(at)
            self.reload()
        else:
            self.go(len(self.notice) + self.tree_.parent(at))

    def clicked(self, row: int, x: int) -> None:
        """See `Pane`."""
        self.go(row)
        node = self.node
        if node is not None and x <= 2 * min(node.depth, 24) + 1:
            self.key_enter()


class HexPane(Pane):
    """The bytes of a message. The cursor is a byte (`at`); `span` are those of the selected field."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "step(1)", "the next byte", show=False),
        Binding("left,h", "step(-1)", "the byte before", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.data = b""
        self.at = 0
        self.span = (0, 0)
        self.path = ""
        self._descriptor: object = None
        self._roles: dict[int, list[Role]] = {}

    def put(self, data: bytes, descriptor: object) -> None:
        """Show other bytes."""
        self.data, self._descriptor, self.at, self.span, self.path = data, descriptor, 0, (0, 0), ""
        self._roles.clear()
        self.scroll_to(y=0, animate=False, force=True, immediate=True)
        self.reload()

    def mark(self, span: tuple[int, int], path: str, *, move: bool) -> None:
        """Light a field, with the cursor at its beginning if `move`."""
        self.span, self.path = span, path
        if move:
            self.at = span[0]
            self.show_cursor()
        self.refresh()

    @property
    def wide(self) -> int:
        """Bytes in a row."""
        return columns_for(self.scrollable_content_region.width)

    def count(self) -> int:
        """See `Pane`."""
        return 1 if not self.data else -(-len(self.data) // self.wide)

    def cursor_row(self) -> int:
        """See `Pane`."""
        return self.at // self.wide

    def line(self, row: int, columns: int) -> Line:
        """See `Pane`."""
        if not self.data:
            return [("(no bytes)", "dim")]
        at, wide = row * self.wide, self.wide
        if row not in self._roles:
            if len(self._roles) > 4_096:
                self._roles.clear()
            height = max(1, self.scrollable_content_region.height)
            top = round(self.scroll_offset.y)
            first = top if top <= row < top + height else row
            roles = roles_of(self.data, self._descriptor, first * wide, (first + height + 1) * wide)
            for index in range(0, len(roles), wide):
                self._roles[first + index // wide] = roles[index : index + wide]
        span = (0, 0) if self.span == (0, len(self.data)) else self.span  # all of it lit would be nothing lit
        return hex_line(
            self.data,
            at,
            wide,
            self._roles[row],
            selected=span,
            cursor=self.at if self.has_focus else -1,
        )

    def on_resize(self, event: events.Resize) -> None:
        """See `Pane`."""
        self._roles.clear()
        super().on_resize(event)

    def go_offset(self, offset: int) -> None:
        """Move the cursor to a byte."""
        offset = max(0, min(offset, len(self.data) - 1))
        if offset != self.at:
            self.at = offset
            self.show_cursor()
            self.refresh()
            self.post_message(self.Moved(self))

    def go(self, row: int) -> None:
        """See `Pane`."""
        self.go_offset(row * self.wide + self.at % self.wide)

    def action_move(self, by: int) -> None:
        """See `Pane`."""
        self.go_offset(self.at + by * self.wide)

    def action_step(self, by: int) -> None:
        """A byte on or back."""
        self.go_offset(self.at + by)

    def action_end(self, by: int) -> None:
        """See `Pane`."""
        self.go_offset(0 if by < 0 else len(self.data) - 1)

    def clicked(self, row: int, x: int) -> None:
        """See `Pane`."""
        cell = x - 10
        group, rest = divmod(max(0, cell), 25)
        index = group * 8 + min(7, rest // 3)
        letters = x - 10 - self.wide * 3 - self.wide // 8 - 1
        if letters >= 0:
            index = letters
        self.go_offset(row * self.wide + min(index, self.wide - 1))


def keys_of(keys: list[Key]) -> Rows:
    """Rows of these frames."""
    return KeyRows(keys)


class TabRow(Widget):
    """The titles of the tabs, in one row: the long ones where there is room for all of them."""

    open: reactive[int] = reactive(0)

    class Picked(Message):
        """A click on a title."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, titles: Sequence[str], short: Sequence[str], opened: int, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._titles, self._short = titles, short
        self.set_reactive(TabRow.open, opened)

    def _words(self) -> list[str]:
        long, short = ([f" {number} {title} " for number, title in enumerate(titles, 1)]
                       for titles in (self._titles, self._short))  # fmt: skip
        return long if len("".join(long)) <= self.content_size.width else short

    def render(self) -> Text:
        """See Textual."""
        text = Text(no_wrap=True, overflow="ellipsis", end="")
        for index, words in enumerate(self._words()):
            text.append(words, "reverse bold" if index == self.open else "")
        return text

    def on_click(self, event: events.Click) -> None:
        """The tab whose title is there."""
        at, end = event.get_content_offset(self), 0
        for index, words in enumerate(self._words()):
            end += len(words)
            if at is not None and at.x < end:
                self.post_message(self.Picked(index))
                return
