"""Screens over the main one: help, figures, what can be copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from .model.paint import Line
from .panes import ReadPane, TextPane


class Lines(ModalScreen[None]):
    """Lines to be read."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,i", "dismiss", "Back")]

    def __init__(self, title: str, lines: Sequence[Line], indent: int = 4) -> None:
        """`indent`: of what a line that is too long goes on with."""
        super().__init__()
        self._title, self._lines, self._indent = title, list(lines), indent

    def compose(self) -> ComposeResult:
        """See Textual."""
        pane = ReadPane(id="lines", indent=self._indent)
        pane.border_title = self._title
        pane.border_subtitle = "↑↓ pgup pgdn · esc: back"
        yield pane

    def on_mount(self) -> None:
        """See Textual."""
        pane = self.query_one(TextPane)
        pane.put(self._lines)
        pane.focus()


class Choice(ModalScreen[str | None]):
    """One of several things to do. Dismissed with its name."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", "Back")]

    def __init__(self, title: str, options: Sequence[tuple[str, str]]) -> None:
        """`options`: a name, and the words for it. The first letter of the name chooses it."""
        super().__init__()
        self._title, self._options = title, options

    def compose(self) -> ComposeResult:
        """See Textual."""
        with Vertical(id="choice") as box:
            box.border_title = self._title
            yield OptionList(*(Option(f" {name[0]}  {words}", id=name) for name, words in self._options), markup=False)
            yield Label("enter or its letter: do it · esc: back", markup=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """See Textual."""
        self.dismiss(event.option_id)

    def on_key(self, event) -> None:  # type: ignore[no-untyped-def]
        """A letter."""
        for name, _ in self._options:
            if event.key == name[0]:
                event.stop()
                self.dismiss(name)
