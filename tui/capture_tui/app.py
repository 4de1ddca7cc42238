"""The viewer: calls, frames and detail on one screen, and the keys that move between them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Event
from typing import ClassVar, Final

from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.suggester import Suggester
from textual.widgets import ContentSwitcher, Footer, Input, Static

from capture_recorder.capfile import CaptureError
from capture_recorder.capfile.cut import Span, cut
from capture_recorder.capfile.output import PartFile
from capture_recorder.capfile.reader import open_capture
from capture_recorder.capfile.stats import stats
from capture_replayer.compare import MessageCame
from capture_replayer.engine import TIMEOUT, Options
from capture_replayer.explain import describe
from capture_replayer.place import Place
from capture_replayer.report import stall_text
from capture_replayer.stepper import Stepper

from . import view
from .guide import INDENT, guide
from .inks import inks
from .model.detail import metadata_lines
from .model.document import LARGE, Document
from .model.export import frame_json, grpcurl_command, replay_command
from .model.figures import figure_lines
from .model.filters import BadFilter, Filter, completions
from .model.frame import Frame, Key, key_of, seq_of
from .model.notes import Notes
from .model.paint import Line, clean
from .model.rows import Rows
from .model.search import BadSearch, Predicate, failing, find, searcher, select, watch_back
from .model.tree import Node
from .panes import CallPane, FramePane, HexPane, Pane, TabRow, TextPane, TreePane, keys_of
from .screens import Choice, Lines

_TICK: Final = 0.15  # seconds between two looks at a scan
_COPIES: Final = (
    ("field", "the value of the selected field"),
    ("path", "the path of the selected field"),
    ("json", "the frame as JSON"),
    ("hex", "the frame's bytes in hexadecimal"),
    ("replay", "the capture-replay command for its call"),
    ("grpcurl", "a grpcurl command with the requests of its call so far"),
)
_COMMANDS: Final = {"replay": "HOST:PORT stands for your server.", "grpcurl": "HOST:PORT stands for your server."}
_SHORT: Final = 60  # characters of a copy; of more there is a screen
_MOST_READ: Final = 20_000  # characters on such a screen
_PROMPTS: Final = {
    "search": "text, hex: de ad, or field=value",
    "filter": 'such as error == "PAYLOAD_CORRUPT" && size > 100; nothing: all frames',
    "go": "the number of a frame, or a time such as 1.5s",
    "note": "a note on this frame; nothing: take it away",
    "break": 'stop a replay at frames such as status == "INTERNAL"; nothing: none',
    "save": "a file for the bytes of this message",
    "cut": "a file for a capture of the selected call, or of what the filter shows",
}


class _Names(Suggester):
    """Goes on with names of fields, as the schema has them."""

    def __init__(self, document: Document) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._document = document

    async def get_suggestion(self, value: str) -> str | None:
        """See Textual."""
        methods = dict.fromkeys(self._document.method(call) for call in self._document.calls()[:1_000])
        return next(iter(completions(self._document.schemas, list(methods), value)), None)


class Viewer(App[str]):
    """See the module. What `run` returns is a sentence to be printed afterwards, or nothing."""

    CSS_PATH = "viewer.tcss"
    TITLE = "capture-view"
    ENABLE_COMMAND_PALETTE = True
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual's own
        (0, "-narrow"), (100, "-medium"), (170, "-wide"), (220, "-vast"),
    ]  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Help", key_display="?", tooltip="this help"),
        Binding(
            "slash", "ask('search')", "Search", key_display="/", tooltip="search for text, bytes or a field's value"
        ),
        Binding("n", "again(1)", "the next that was searched for", show=False),
        Binding("N", "again(-1)", "the one before", show=False),
        Binding("f", "ask('filter')", "Filter", tooltip="only frames for which an expression holds"),
        Binding("e", "error(1)", "Error", tooltip="the next error or failed checksum"),
        Binding("E", "error(-1)", "the error before", show=False),
        Binding("r", "partner", "Reply", tooltip="the answer to this request, or the request that led to this answer"),
        Binding("d", "divergence(1)", "the next divergence of a replay", show=False),
        Binding("D", "divergence(-1)", "the divergence before", show=False),
        Binding("x", "damage(1)", "the next damage or gap", show=False),
        Binding("X", "damage(-1)", "the damage or gap before", show=False),
        Binding("w", "watch", "reverse watch: where the field changed last", show=False),
        Binding("colon", "ask('go')", "go to a frame or a time", key_display=":", show=False),
        Binding("a", "all", "Call", tooltip="the call of this frame alone, and all calls again"),
        Binding("v", "ladder", "Ladder", tooltip="ladder of client and server, and back"),
        Binding("t", "time", "time since the start, or since the frame before", show=False),
        Binding("i", "figures", "statistics", show=False),
        Binding("1", "tab(0)", "the message, decoded", show=False),
        Binding("2", "tab(1)", "its bytes", show=False),
        Binding("3", "tab(2)", "checksums", show=False),
        Binding("4", "tab(3)", "metadata and status", show=False),
        Binding("5", "tab(4)", "difference", show=False),
        Binding("p", "other", "difference from the replay, or from the message before", show=False),
        Binding("m", "bookmark", "a bookmark here, or none", show=False),
        Binding("M", "ask('note')", "a note on this frame", show=False),
        Binding("apostrophe", "noted", "the next bookmark or note", key_display="'", show=False),
        Binding("s", "step", "Step replay", tooltip="send the next request"),
        Binding("c", "run_on", "run on to the next divergence or breakpoint", show=False),
        Binding("u", "step_back", "begin again, and stop one request earlier", show=False),
        Binding("b", "breakpoint", "a breakpoint at this frame, or none", show=False),
        Binding("B", "ask('break')", "a breakpoint where an expression holds", show=False),
        Binding("F", "follow", "follow a file that is being written", show=False),
        Binding("y", "copy", "Copy", tooltip="copy the frame, a field, or a command"),
        Binding("o", "ask('save')", "save the bytes of the message", show=False),
        Binding("O", "ask('cut')", "save the call, or what the filter shows, as a capture", show=False),
        Binding("S", "picture", "save a screenshot as SVG", show=False),
        Binding("z", "zoom", "one pane alone, and back", show=False),
        Binding("T", "theme", "light or dark", show=False),
        Binding("escape", "cancel", "Back", tooltip="stop what is going on; leave a line; show all frames"),
        Binding("q", "leave", "Quit", tooltip="quit"),
    ]

    def __init__(self, document: Document, place: Place | None = None, *, dark: bool = True) -> None:
        super().__init__()
        self.document = document
        self.notes = Notes(document)
        self.place = place
        self.stepper: Stepper | None = None
        self.call: int | None = None
        self.filter: Filter | None = None
        self.break_at: set[int] = set()
        self.break_if: Filter | None = None
        self.following = document.live
        self._asked = ""
        self._before_filter: Key = 0
        self._wanted: Predicate | None = None
        self._stop = Event()
        self._busy = ""
        self._tab = 0
        self._against_replay = True
        self._linking = False
        self._wait_since = 0.0
        self._dark = dark
        self._first: Key | None = None
        self.replay_timeout = TIMEOUT

    def start_at(self, call: int | None, frame: int | None, expression: str | None, tab: int) -> None:
        """What the command line asked for. Raises BadFilter."""
        self.call, self._tab = call, tab
        self._first = None if frame is None else key_of(frame)
        self.filter = None if expression is None else Filter(expression, self.document)

    def get_css_variables(self) -> dict[str, str]:
        """See Textual."""
        given = super().get_css_variables()
        return given | inks(given)

    # --- the screen -------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """See Textual."""
        yield Static(id="heading")
        with Horizontal(id="main"):
            yield CallPane(self.document, id="calls")
            with Vertical(id="right"):
                yield FramePane(self.document, id="frames")
                with Vertical(id="detail"):
                    yield TabRow(view.TITLES, view.SHORT, self._tab, id="tabs")
                    with ContentSwitcher(initial="decoded"):
                        yield TreePane(id="decoded")
                        yield HexPane(id="hex")
                        yield TextPane(id="checksums")
                        yield TextPane(id="metadata")
                        yield TextPane(id="difference")
        yield Static(id="replay")
        yield Static(id="status")
        yield Input(id="entry", compact=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """See Textual."""
        self.theme = "textual-dark" if self._dark else "textual-light"
        self.frames.focus()
        self.query_one(ContentSwitcher).current = view.TABS[self._tab]
        self.calls.show(self.call)
        self.show_call(self.call, self._first)
        self.refresh_marks()
        if self.notes.problem:
            self.say(self.notes.problem, "warning")
        if not self.document.scanned:
            self.set_timer(_TICK, self.scan)  # the screen comes first: the scan takes its share of the interpreter
            self._timer = self.set_interval(_TICK, self._grown)
        else:
            self.count_errors()

    @property
    def frames(self) -> FramePane:
        """The pane of frames."""
        return self.query_one("#frames", FramePane)

    @property
    def calls(self) -> CallPane:
        """The pane of calls."""
        return self.query_one("#calls", CallPane)

    @property
    def frame(self) -> Frame | None:
        """The frame of the cursor."""
        return self.frames.frame

    def say(self, text: str, severity: str = "information") -> None:
        """A sentence that goes away by itself, or for the next one."""
        self.clear_notifications()
        self.notify(clean(text, 400), severity=severity, markup=False, timeout=6)  # type: ignore[arg-type]

    def painted(self, line: Line) -> Text:
        """A line with the colours of the theme."""
        pane = self.frames
        return Text.assemble(
            *((text, pane.get_component_rich_style(f"role--{role}", partial=True)) for text, role in line),
            no_wrap=True, overflow="ellipsis", end="",
        )  # fmt: skip

    def show_status(self) -> None:
        """Identity, place and what goes on."""
        document, pane = self.document, self.frames
        self.query_one("#heading", Static).update(self.painted(view.heading(document)))
        line: Line = [
            (f"{'damage after ' if pane.key % 2 else ''}frame {seq_of(pane.key):,}", "strong"),
            (f" · row {pane.rows.slot(pane.key) + 1:,} of {pane.rows.size:,}", "dim"),
        ]
        if self.call is not None:
            line.append((f" · call #{self.call}", "key"))
        if self.filter is not None:
            line.append((f" · filter {clean(self.filter.expression, 60)}", "warn"))
        if self.following and document.live:
            line.append((" · following", "good"))
        note = self.notes.of.get(seq_of(pane.key))
        if note is not None and pane.key % 2 == 0:
            line.append((f" · ◆ {clean(note, 200)}", "mark"))
        if self._busy:
            line.append((f" · {self._busy}", "strong"))
        self.query_one("#status", Static).update(self.painted(line))
        self.refresh_bindings()
        title = "Ladder: client │ server" if pane.ladder else "Frames"
        pane.border_title = Content(title)

    @on(Pane.Moved, "#frames")
    def _frame_moved(self) -> None:
        rows = self.frames.rows
        if self.following and self.document.live and self.frames.key != rows.move(0, rows.size):
            self.following = False  # who looks at something else is not to be taken away from it
        self.show_frame()
        self.show_status()

    @on(Pane.Moved, "#calls")
    def _call_moved(self) -> None:
        self.show_call(self.calls.call)

    @on(Pane.Chosen, "#calls")
    def _call_chosen(self) -> None:
        self.frames.focus()

    @on(Pane.Chosen, "#frames")
    def _frame_chosen(self) -> None:
        self.query_one(f"#{view.TABS[self._tab]}", Pane).focus()

    @on(Pane.Moved, "#decoded")
    def _field_moved(self) -> None:
        node = self.query_one(TreePane).node
        if node is not None:
            self.query_one(HexPane).mark((node.start, node.end), node.path, move=True)
            self.query_one(TreePane).border_title = Content(clean(node.path, 200))

    @on(Pane.Moved, "#hex")
    def _byte_moved(self) -> None:
        pane, tree = self.query_one(HexPane), self.query_one(TreePane)
        tree.select(pane.at)
        node = tree.node
        if node is not None:
            pane.mark((node.start, node.end), node.path, move=False)
            pane.border_title = Content(clean(f"byte {pane.at:#x} ({pane.at:,}): {node.path} {node.value}", 200))

    @on(TabRow.Picked)
    def _tab_picked(self, event: TabRow.Picked) -> None:
        self.action_tab(event.index)

    def show_frame(self) -> None:
        """The detail of the frame of the cursor, in the tab that is open."""
        frame = self.frame
        tree_pane, hex_pane = self.query_one(TreePane), self.query_one(HexPane)
        if frame is None:
            tree_pane.put(None, [[("No frame is selected.", "dim")]])
            hex_pane.put(b"", None)
            return
        message = frame.message
        name = view.TABS[self._tab]
        if name in ("decoded", "hex"):
            tree = view.tree_of(self.document, frame)
            tree_pane.border_title = hex_pane.border_title = Content("")
            tree_pane.put(tree, view.notice(self.document, frame, tree))
            descriptor = None if message is None else self.document.schemas.descriptor(frame.method, message.direction)
            hex_pane.put(b"" if message is None else message.payload, descriptor)
            if name == "hex" and tree_pane.node is not None:
                hex_pane.mark((tree_pane.node.start, tree_pane.node.end), tree_pane.node.path, move=True)
            return
        pane = self.query_one(f"#{name}", TextPane)
        columns = max(20, pane.scrollable_content_region.width - 1)
        if frame.size > LARGE:
            pane.put([[("decoding …", "dim")]])
            self._show_large(frame, name, columns)
        else:
            pane.put(self._lines(frame, name, columns))

    @work(thread=True, exclusive=True, group="large", description="large")
    def _show_large(self, frame: Frame, name: str, columns: int) -> None:
        lines = self._lines(frame, name, columns)

        def put() -> None:
            if self.frames.key == frame.key and view.TABS[self._tab] == name:
                self.query_one(f"#{name}", TextPane).put(lines)

        self._tell(put)

    def _lines(self, frame: Frame, name: str, columns: int) -> list[Line]:
        if name == "checksums":
            return view.checks(self.document, frame, columns)
        if name == "metadata":
            return list(metadata_lines(self.document, frame))
        paired = self.stepper.answers.get(frame.seq) if self.stepper is not None and self._against_replay else None
        missed = None if self.stepper is None else self.stepper.divergence(frame.seq)
        if paired is None and missed is not None and self._against_replay:
            return view.missed(missed)
        if paired is None:
            return view.difference(self.document, frame, None, columns)
        if frame.message is not None and isinstance(paired.answer, MessageCame):
            other = view.Other(f"replayed, {paired.verdict}", paired.answer.payload)
            return view.difference(self.document, frame, other, columns)
        sign = "= " if paired.verdict == "identical" else "≠ "
        return [
            [(sign + paired.verdict, "good" if paired.verdict == "identical" else "error")],
            [("− recorded  ", "error"), (clean(describe(paired.event.event), 400), "text")],
            [("+ replayed  ", "good"), (clean(describe(paired.answer), 400), "text")],
        ]

    def show_call(self, call: int | None, key: Key | None = None) -> None:
        """The frames of a call, or of all: from where the cursor is, if that is among them."""
        frame = self.frame
        if key is None and call is not None and (frame is None or frame.call != call):
            key = next(iter(self.document.rows_of(call).window(0, 1)), None)
        self.call = call
        self.frames.with_call = call is None
        self._show_rows(key)

    def rows(self) -> Rows:
        """The frames of the view, without a filter."""
        return self.document.all_rows() if self.call is None else self.document.rows_of(self.call)

    def _show_rows(self, key: Key | None = None) -> None:
        if self.filter is not None:
            self.select(key)
            return
        self.frames.show(self.rows(), key)
        self.show_frame()
        self.show_status()

    def show_key(self, key: Key) -> None:
        """Move to a frame, wherever it is: out of a call or a filter that do not have it."""
        if key not in self.frames.rows.window(self.frames.rows.slot(key), 1):
            frame = self.document.frame(key)
            self.filter = None
            if frame is None or frame.call != self.call:
                self.call = None
                self.frames.with_call = True
                self.calls.show(None)
            self.frames.show(self.rows(), key)
            self.show_frame()
        else:
            self.frames.go_key(key)
        self.show_status()

    def refresh_marks(self) -> None:
        """Bookmarks, and what a replay has found."""
        marks: dict[Key, str] = {key_of(seq): "bookmark" for seq in self.notes.of}
        call_marks: dict[int, str] = {}
        stepper = self.stepper
        if stepper is not None:
            marks |= {key_of(seq): "passed" for seq in (*stepper.sent, *stepper.answers)}
            marks |= {key_of(seq): "divergence" for seq in stepper.diverged}
            if stepper.next is not None:
                marks[key_of(stepper.next.seq)] = "next"
            for seq in stepper.diverged:
                frame = self.document.frame(key_of(seq))
                if frame is not None and frame.call:
                    call_marks[frame.call] = "divergence"
        marks |= {key_of(seq): "break" for seq in self.break_at if marks.get(key_of(seq)) != "next"}
        self.frames.marks, self.calls.marks = marks, call_marks
        self.frames.refresh()
        self.calls.refresh()

    def _tell(self, callback: Callable[..., object], *args: object) -> None:
        """From a worker: do something on the screen, if that is still there when its turn comes."""

        def there() -> None:
            if self.query("#frames"):
                callback(*args)

        with contextlib.suppress(RuntimeError):  # the program is over
            self.call_from_thread(there)

    # --- reading ----------------------------------------------------------------------------------------------------

    @work(thread=True, exclusive=True, group="scan", description="scan")
    def scan(self) -> None:
        """Read the file beside everything else."""
        self.document.scan(lambda: self.is_running, follow=self.document.live)

    @work(thread=True, exclusive=True, group="count", description="count")
    def count_errors(self) -> None:
        """Look for errors in each call, beside everything else."""
        if self.document.count_errors(lambda: self.is_running):
            self._tell(self._counted)

    def _counted(self) -> None:
        self.calls.refresh()
        self.show_status()

    def _grown(self) -> None:
        """The scan went on."""
        done = self.document.scanned
        self.calls.reload()
        pane = self.frames
        if not self.document.indexed or done:
            at_end = self.following and self.document.live
            if self.filter is None:
                rows = self.rows()
                if done or rows.size != pane.count() or isinstance(pane.rows, type(rows)):
                    last = rows.move(0, rows.size) if at_end and rows.size else None
                    changed = last is not None and last != pane.key
                    pane.rows = rows
                    pane.reload()
                    if changed and last is not None:
                        pane.go_key(last)
        self.notes.refresh()
        self.show_status()
        if done:
            self._timer.stop()
            self.count_errors()
            self.refresh_marks()
            if pane.key == 0:
                pane.show(self.rows())
                self.show_frame()

    # --- finding ----------------------------------------------------------------------------------------------------

    def _goes_on(self, words: str) -> Callable[[float], bool]:
        """What a worker asks now and then."""
        stop = self._stop = Event()
        last = [0.0]

        def goes_on(part: float) -> bool:
            now = time.monotonic()
            if now - last[0] > _TICK:
                last[0] = now
                self._busy = f"{words} {part:.0%}, esc stops"
                self._tell(self.show_status)
            return not stop.is_set() and self.is_running

        return goes_on

    def _find(self, wanted: Predicate, by: int, none: str) -> None:
        self._finder(wanted, by, none, self._goes_on("searching"))

    @work(thread=True, exclusive=True, group="find", description="find")
    def _finder(self, wanted: Predicate, by: int, none: str, goes_on: Callable[[float], bool]) -> None:
        stop, rows, start = self._stop, self.frames.rows, self.frames.key
        key = find(self.document, rows, start, wanted, back=by < 0, goes_on=goes_on)
        self._tell(self._found, key, start, by, "" if stop.is_set() else none)

    def _found(self, key: Key | None, start: Key, by: int, none: str) -> None:
        self._busy = ""
        if key is None:
            if none:
                self.say(none, "warning")
        else:
            if (key < start) if by > 0 else (key > start):
                self.say("went on from the other end")
            elif key == start:
                self.say("this is the only one")
            self.show_key(key)
        self.show_status()

    def select(self, key: Key | None = None) -> None:
        """Show what the filter lets through, as it is found."""
        if self.filter is not None:
            self._selector(
                self.filter, self.rows(), self.frames.key if key is None else key, self._goes_on("filtering")
            )

    @work(thread=True, exclusive=True, group="find", description="find")
    def _selector(self, wanted: Filter, rows: Rows, key: Key, goes_on: Callable[[float], bool]) -> None:
        found: list[Key] = []
        self._tell(self.frames.show, keys_of(found), key)
        shown = [0, time.monotonic()]

        def took(one: Key) -> None:
            found.append(one)
            if time.monotonic() - shown[1] > _TICK:
                shown[1] = time.monotonic()
                self._tell(self.frames.reload)

        select(self.document, rows, wanted.matches, goes_on, took)

        def done() -> None:
            self._busy = ""
            if self.filter is wanted:
                self.frames.show(keys_of(found), key)
                self.show_frame()
                if not found:
                    why = wanted.complaint()
                    self.say(f"no frame matches the filter{f': {why}' if why else ''}", "warning")
            self.show_status()

        self._tell(done)

    def action_again(self, by: int) -> None:
        """The search again."""
        if self._wanted is None:
            self.action_ask("search")
        else:
            self._find(self._wanted, by, "nothing of the kind is among these frames")

    def action_error(self, by: int) -> None:
        """To an error."""
        self._find(failing(self.document), by, "there is no error among these frames")

    def action_partner(self) -> None:
        """From an answer to the request that led to it, and from a request to its answer."""
        frame = self.frame
        if frame is None or frame.direction is None:
            self.say("an event of a call has a partner; this is none", "warning")
            return
        key = self.document.partner(frame)
        if key is None:
            self.say("there is nothing of the kind in its call", "warning")
        else:
            self.show_key(key)

    def action_damage(self, by: int) -> None:
        """To a damage or a gap."""
        self._find(lambda frame: frame.event is None, by, "there is neither damage nor a gap among these frames")

    def action_divergence(self, by: int) -> None:
        """To a divergence of the replay."""
        diverged = set() if self.stepper is None else set(self.stepper.diverged)
        if not diverged:
            self.say("no divergence is known; s steps through a replay, c runs it", "warning")
            return
        rows = sorted(key_of(seq) for seq in diverged)
        after = [key for key in rows if (key > self.frames.key if by > 0 else key < self.frames.key)]
        self.show_key((after or rows)[0 if by > 0 else -1])
        self.action_tab(4)

    def action_watch(self) -> None:
        """Reverse watch."""
        node, frame = self.query_one(TreePane).node, self.frame
        if node is None or frame is None or not node.path:
            self.say("select a field first: enter, then the arrows", "warning")
            return
        self._watcher(frame, node.path, self._goes_on("looking back"))

    @work(thread=True, exclusive=True, group="find", description="find")
    def _watcher(self, frame: Frame, path: str, goes_on: Callable[[float], bool]) -> None:
        change = watch_back(self.document, frame, path, goes_on)

        def done() -> None:
            self._busy = ""
            if change is None:
                self.say(f"no message before it in its call has {path}", "warning")
            else:
                self.show_key(change.key)
                tree = self.query_one(TreePane)
                at = None if tree.tree_ is None else tree.tree_.find(path)
                if at is not None:
                    tree.reload()
                    tree.go(len(tree.notice) + at)
                before = "first set" if change.before is None else f"was {change.before}"
                self.say(f"{path} became {change.value} here ({before})")
            self.show_status()

        self._tell(done)

    # --- asking -----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """See Textual. While a line is written, its keys are letters; and Back is offered where there is a way back."""
        if action == "cancel":
            return bool(
                self._line_is_open or self._busy or self.screen.maximized is not None or self.filter or self.call
            )
        if action == "step" and self.place is None and not self._line_is_open:
            return False
        return not (self._line_is_open and action in _KEYS)

    @property
    def _line_is_open(self) -> bool:
        return bool(self.query("#entry.shown"))

    def action_ask(self, what: str) -> None:
        """Open the line at the bottom."""
        entry = self.query_one("#entry", Input)
        self._asked = what
        entry.placeholder = f"{what}: {_PROMPTS[what]}"
        entry.suggester = _Names(self.document) if what in ("filter", "break") else None
        given = {"filter": self.filter, "break": self.break_if}.get(what)
        entry.value = given.expression if given is not None else ""
        if what == "note":
            entry.value = self.notes.of.get(seq_of(self.frames.key), "")
        entry.cursor_position = len(entry.value)
        self.clear_notifications()
        entry.add_class("shown")
        entry.focus()
        self.refresh_bindings()

    @on(Input.Submitted, "#entry")
    def _answered(self, event: Input.Submitted) -> None:
        text, what = event.value, self._asked
        try:
            {
                "search": self._search, "filter": self._filter, "go": self._go, "note": self._note,
                "break": self._break, "save": self._save, "cut": self._cut,
            }[what](text)  # fmt: skip
        except (BadFilter, BadSearch) as error:
            self.say(str(error), "error")
            return
        self._close_entry()

    def _close_entry(self) -> None:
        self.query_one("#entry", Input).remove_class("shown")
        self.frames.focus()
        self.refresh_bindings()

    def action_cancel(self) -> None:
        """Out of whatever it is."""
        if self._line_is_open:
            self._close_entry()
        elif self._busy:
            self._stop.set()
        elif self.screen.maximized is not None:
            self.screen.minimize()
        elif self.filter is not None:
            self._filter("")
        elif self.call is not None:
            self.action_all()
        else:
            self.frames.focus()

    def _search(self, text: str) -> None:
        self._wanted = searcher(text, self.document)
        self._find(self._wanted, 1, f"{text!r} is not among these frames")

    def _filter(self, text: str) -> None:
        chosen = Filter(text, self.document) if text.strip() else None
        self._stop.set()
        if self.filter is None:
            self._before_filter = self.frames.key
        self.filter = chosen
        self._show_rows(self.frames.key or self._before_filter)

    def _go(self, text: str) -> None:
        word = text.strip().lower().removeprefix("@").replace(",", "")
        if word.isdecimal():
            self.show_key(self.document.all_rows().move(key_of(int(word)), 0) or 0)
            return
        try:
            ns = round(float(word.removesuffix("s")) * 1e9)
        except (ValueError, OverflowError):
            raise BadSearch(f"{text!r} is neither the number of a frame nor a time such as 1.5s") from None
        key = self.document.at_time(ns)
        if key is not None:
            self.show_key(key)

    def _note(self, text: str) -> None:
        self._put_note(text.strip() or None)

    def _put_note(self, text: str | None) -> None:
        if self.frames.key % 2:
            self.say("what is damaged has no number to note it by", "warning")
            return
        self.notes.put(seq_of(self.frames.key), text)
        if self.notes.problem:
            self.say(self.notes.problem, "warning")
        self.refresh_marks()
        self.show_status()

    def action_bookmark(self) -> None:
        """Set or take away."""
        self._put_note(None if seq_of(self.frames.key) in self.notes.of else "")

    def action_noted(self) -> None:
        """The next frame with a note."""
        keys = sorted(key_of(seq) for seq in self.notes.of)
        if not keys:
            self.say("there are no bookmarks; m sets one, M writes a note", "warning")
            return
        self.show_key(next((key for key in keys if key > self.frames.key), keys[0]))

    # --- views ------------------------------------------------------------------------------------------------------

    def action_all(self) -> None:
        """All calls, or the call of the frame."""
        frame = self.frame
        call = None if self.call is not None or frame is None else frame.call
        self.calls.show(call)
        self.show_call(call, self.frames.key)

    def action_ladder(self) -> None:
        """List or ladder."""
        self.frames.ladder = not self.frames.ladder
        self.frames.refresh()
        self.show_status()

    def action_time(self) -> None:
        """Absolute or relative."""
        self.frames.absolute = not self.frames.absolute
        self.frames.refresh()

    def action_tab(self, index: int) -> None:
        """Open a tab."""
        inside = self.focused is not None and self.focused.id in view.TABS
        self._tab = index
        self.query_one(ContentSwitcher).current = view.TABS[index]
        if inside:
            self.query_one(f"#{view.TABS[index]}", Pane).focus()
        self.query_one(TabRow).open = index
        self.call_after_refresh(self.show_frame)

    def action_other(self) -> None:
        """The other side of the difference."""
        self._against_replay = not self._against_replay
        self.action_tab(4)

    @work(thread=True, exclusive=True, group="figures", description="figures")
    def action_figures(self) -> None:
        """Statistics."""
        columns = max(40, self.size.width * 9 // 10 - 6)
        with open_capture(self.document.path, salvage=True) as reader:
            lines = list(figure_lines(stats(reader.entries()), columns))
        self._tell(self.push_screen, Lines("statistics", lines))

    def action_help(self) -> None:
        """What can be done here."""
        panes = {"every list": Pane.BINDINGS, "the decoded message": TreePane.BINDINGS, "the bytes": HexPane.BINDINGS}
        self.push_screen(Lines("Help", guide(self.BINDINGS, panes), INDENT))

    def action_zoom(self) -> None:
        """One pane alone."""
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif self.focused is not None:
            self.screen.maximize(self.focused)

    def action_theme(self) -> None:
        """Light or dark."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"
        self.call_after_refresh(self.show_status)

    def action_follow(self) -> None:
        """Follow, or stop."""
        if not self.document.live:
            self.say("this file is not being written", "warning")
            return
        self.following = not self.following
        self.show_status()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """See Textual: the palette has what the keys do."""
        yield from super().get_system_commands(screen)
        for binding in self.BINDINGS:
            if isinstance(binding, Binding):
                action = binding.action
                key = binding.key_display or binding.key
                yield SystemCommand(
                    binding.description, f"key {key}", lambda action=action: self.run_worker(self.run_action(action))
                )

    # --- out of it --------------------------------------------------------------------------------------------------

    def action_copy(self) -> None:
        """Choose what."""
        self.push_screen(Choice("Copy", _COPIES), self._copy)

    def _copy(self, what: str | None) -> None:
        frame, node = self.frame, self.query_one(TreePane).node
        if what is None or frame is None:
            return
        payload = b"" if frame.message is None else frame.message.payload
        text: str | None = None
        if what == "field" and node is not None:
            text = _value(node, payload)
        elif what == "path" and node is not None:
            text = node.path
        elif what == "json":
            text = frame_json(self.document, frame)
        elif what == "hex":
            text = payload.hex()
        elif what == "replay":
            text = replay_command(self.document, frame)
        elif what == "grpcurl":
            text = grpcurl_command(self.document, frame)
        if not text:
            self.say(f"there is no {what} to copy here", "warning")
            return
        self.copy_to_clipboard(text)
        if "\n" not in text and len(text) <= _SHORT and what not in _COMMANDS:
            self.say(f"copied, by way of the terminal: {text}")
            return
        more = [_COMMANDS[what]] if what in _COMMANDS and self.place is None else []
        self._read("Copied, by way of the terminal (OSC 52)", text, more)

    def _read(self, title: str, text: str, more: Sequence[str] = ()) -> None:
        """A text on a screen of its own, with some words below it."""
        lines: list[Line] = [[(clean(part), "text")] for part in text[:_MOST_READ].split("\n")]
        if len(text) > _MOST_READ:
            more = [*more, f"… and {len(text) - _MOST_READ:,} characters more"]
        told: list[Line] = [[(word, "dim")] for word in more]
        self.push_screen(Lines(title, [*lines, *([[]] if told else []), *told], 0))

    @on(Pane.Chosen, "#decoded")
    def _field_chosen(self) -> None:
        frame, node = self.frame, self.query_one(TreePane).node
        if (
            frame is not None
            and frame.message is not None
            and node is not None
            and not node.opens
            and node.more is None
        ):
            self._read(clean(node.path or "value", 200), _value(node, frame.message.payload))

    def _save(self, name: str) -> None:
        frame = self.frame
        if frame is None or frame.message is None:
            self.say("only messages have bytes", "warning")
            return
        try:
            with Path(name).expanduser().open("xb") as file:
                file.write(frame.message.payload)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise BadSearch(f"{name}: {why}") from None
        self.say(f"{frame.size:,} bytes are in {name}")

    def _cut(self, name: str) -> None:
        chosen: Callable[[object], bool] | None = None
        calls = [self.call] if self.call is not None else []
        if not calls and self.filter is not None:
            shown = self.frames.rows.window(0, self.frames.rows.size)
            calls = sorted({frame.call for frame in self.document.items(shown) if frame.call})
        try:
            with open_capture(self.document.path) as source:
                made = cut(
                    source, PartFile(Path(name).expanduser()), calls=calls, span=Span(), chosen=chosen, how="viewer"
                )
        except (CaptureError, OSError) as error:
            raise BadSearch(str(error)) from None
        self.say(f"{made.calls} calls, {made.events} events are in {name}")

    def action_picture(self) -> None:
        """A screenshot."""
        name = f"{Path(self.document.name).stem}-{seq_of(self.frames.key)}.svg"
        try:
            Path(name).write_text(self.export_screenshot(), encoding="utf-8")
        except OSError as error:
            self.say(f"{name}: {error.strerror}", "error")
            return
        self.say(f"the screen is in {name}")

    # --- a replay ---------------------------------------------------------------------------------------------------

    def _stepping(self) -> Stepper | None:
        if self.place is None:
            self.say(
                "to step through a replay, open the capture with --target HOST:PORT or --spawn 'CMD {address}'",
                "warning",
            )
            return None
        if self.stepper is None:
            self.stepper = Stepper(
                self.document.path,
                self.place,
                calls=[self.call] if self.call else (),
                options=Options(timeout=self.replay_timeout),
                changed=self._replay_changed,
            )
            self.set_interval(0.5, self._show_replay)
        if self.stepper.state in ("running", "starting"):
            self.say("the replay is under way; u begins again", "warning")
            return None
        return self.stepper

    def _replay_changed(self) -> None:
        self._wait_since = time.monotonic()
        self.call_later(self._show_replay)

    @work(group="replay")
    async def action_step(self) -> None:
        """One request event."""
        stepper = self._stepping()
        if stepper is not None:
            seen = set(stepper.answers)
            await stepper.step()
            self._arrived(stepper, seen)

    @work(group="replay")
    async def action_run_on(self) -> None:
        """To the next divergence or breakpoint."""
        stepper = self._stepping()
        if stepper is not None:
            seen = set(stepper.answers)
            await stepper.run(self._breaks)
            self._arrived(stepper, seen)

    @work(group="replay")
    async def action_step_back(self) -> None:
        """Begin again, up to the request before."""
        stepper = self.stepper
        if stepper is None or self.place is None:
            self._stepping()
            return
        before = stepper.sent[-1] if stepper.sent else None
        await stepper.restart(before)
        self._arrived(stepper, set(stepper.answers))

    def _breaks(self, seq: int) -> bool:
        if seq in self.break_at:
            return True
        frame = None if self.break_if is None else self.document.frame(key_of(seq))
        return frame is not None and self.break_if is not None and self.break_if.matches(frame)

    def _arrived(self, stepper: Stepper, seen: set[int]) -> None:
        """It stands again: show what came, above all what differs."""
        new = sorted(set(stepper.answers) - seen)
        differing = [seq for seq in stepper.diverged if seq not in seen]
        self._show_replay()
        if differing:
            self.show_key(key_of(min(differing)))
            self.action_tab(4)
        elif new:
            self.show_key(key_of(new[-1]))
        elif stepper.next is not None:
            self.show_key(key_of(stepper.next.seq))

    def _show_replay(self) -> None:
        stepper = self.stepper
        if stepper is None:
            return
        panel = self.query_one("#replay", Static)
        panel.add_class("shown")
        verdicts: dict[str, int] = {}
        for paired in stepper.answers.values():
            verdicts[paired.verdict] = verdicts.get(paired.verdict, 0) + 1
        came = ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items()) or "none"
        line: Line = [("replay ", "strong")]
        match stepper.state:
            case "standing" if stepper.next is not None:
                line.append((f"► event {stepper.next.seq} is next", "warn"))
            case "over" if stepper.result is not None:
                passed = stepper.result.passed
                line.append(
                    ("✓ over: every answer passed" if passed else "≠ over: it differs", "good" if passed else "error")
                )
            case "lost":
                line.append((f"✗ {clean(stepper.error or '', 300)}", "error"))
            case state:
                line.append((f"… {state}", "dim"))
        if stepper.awaited is not None:
            seconds = time.monotonic() - self._wait_since
            line.append((f"  awaiting event {stepper.awaited.seq} for {seconds:.1f} s", "warn"))
        line.append((f"  sent {len(stepper.sent):,} · answers {came}", "text"))
        if stepper.diverged:
            line.append((f"  ≠ event {', '.join(map(str, sorted(stepper.diverged)[:5]))}", "error"))
        lines = [self.painted(line)]
        stalled = next((found for found in getattr(stepper.result, "divergences", ()) if found.stall is not None), None)
        if stalled is not None and stalled.stall is not None:
            lines.append(self.painted([(f"  event {stalled.event}: {stall_text(stalled.stall)}", "warn")]))
        if stepper.died:
            lines.append(self.painted([(f"✗ the server {clean(stepper.died, 200)}; u begins again", "error")]))
        lines += [self.painted([(f"  server: {clean(text, 300)}", "dim")]) for text in stepper.output[-2:]]
        panel.update(Text("\n").join(lines))
        self.refresh_marks()

    def action_breakpoint(self) -> None:
        """At this frame, or no more."""
        self.break_at ^= {seq_of(self.frames.key)}
        self.refresh_marks()

    def _break(self, text: str) -> None:
        self.break_if = Filter(text, self.document) if text.strip() else None

    async def action_leave(self) -> None:
        """Stop what was started, keep the notes, and go."""
        self._stop.set()
        if self.stepper is not None:
            await self.stepper.close()
        self.exit(self.notes.settle())


def _value(node: Node, payload: bytes) -> str:
    """A field's whole value."""
    raw = payload[node.inner : node.end]
    if node.role == "string":
        return raw.decode("utf-8", "backslashreplace")
    return raw.hex() if node.role == "bytes" else node.value


_KEYS: Final = frozenset(
    binding.action.partition("(")[0] for binding in Viewer.BINDINGS if isinstance(binding, Binding)
) - {"cancel"}
