"""The result for people. It leads with the first divergence; the totals come last, where the eye stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from capture_recorder.terminal import print_table
from capture_recorder.text import printable

from .explain import Divergence, HexWindow
from .result import Result

_COUNT_STYLES = {"identical": "green", "different": "red", "missing": "red", "extra": "red"}


@dataclass(frozen=True, slots=True)
class Words:
    """What the two sides are called."""

    differs: str = "not as recorded"
    expected_bytes: str = "recorded bytes"
    actual_bytes: str = "replayed bytes"


REPLAY: Final = Words()


def show(result: Result, console: Console, words: Words = REPLAY) -> None:
    """One capture's result. Nothing of the capture is taken for markup, and no control character gets through."""
    file = printable(result.file)
    if result.error is not None:
        console.print(Text.assemble(("? ", "bold yellow"), printable(result.error)))
        return
    if result.passed:
        events, calls = _count(result.counts["identical"], "event"), _count(result.calls, "call")
        console.print(Text.assemble(("✓ ", "bold green"), f"{file}: {events} of {calls} identical"))
        _remarks(result, console)
        return
    wrong = sum(result.counts.values()) - result.counts["identical"]
    console.print(
        Text.assemble(
            ("✗ ", "bold red"),
            f"{file}: {_count(wrong, 'event')} of {sum(result.counts.values()):,} {printable(words.differs)}",
        ),
        soft_wrap=True,
    )
    console.print()
    print_table(console, _divergence(result.divergences[0], words))
    console.print()
    console.print(_counts(result))
    _remarks(result, console)


def _divergence(divergence: Divergence, words: Words) -> Table:
    """The first divergence as a two-column table: what, and its value."""
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")

    def row(name: str, value: str | Text | None) -> None:
        if value is not None:
            table.add_row(Text(f"  {name}"), value if isinstance(value, Text) else Text(printable(value)))

    row("first divergence", Text(_place(divergence), style="bold"))
    row("in", f"call {divergence.call}, {divergence.method}")
    row("verdict", Text(_verdict(divergence), style="bold red"))
    row("field", divergence.field)
    row("at byte", None if divergence.offset is None else f"{divergence.offset:,}")
    row("expected", divergence.expected or "nothing")
    instead = f"nothing: the call ended with {divergence.ended}" if divergence.ended else "nothing"
    row("actual", divergence.actual or instead)
    if divergence.window is not None:
        for name, text in zip((words.expected_bytes, words.actual_bytes), _hex_lines(divergence.window), strict=True):
            row(name, text)
    cause = (
        f"event {divergence.cause}: {divergence.cause_text}" if divergence.cause_text else f"event {divergence.cause}"
    )
    row("led to by", cause if divergence.cause else None)
    return table


def _place(divergence: Divergence) -> str:
    where = f"event {divergence.event}"
    if divergence.verdict == "extra":
        where = f"{'after' if divergence.after else 'before'} {where}"
    what = divergence.kind if divergence.index is None else f"{divergence.direction} message {divergence.index}"
    return f"{where}, {what}"


def _verdict(divergence: Divergence) -> str:
    return f"{divergence.verdict} (waited until the time limit)" if divergence.stalled else divergence.verdict


def _hex_lines(window: HexWindow) -> tuple[Text, Text]:
    """Both sides from the same offset on, the bytes that differ standing out by more than colour."""
    lines = []
    for mine, other in ((window.expected, window.actual), (window.actual, window.expected)):
        text = Text(f"{window.start:06x} ", style="dim")
        for i, byte in enumerate(mine):
            differs = i >= len(other) or other[i] != byte
            text.append(f" {byte:02x}", style="bold red underline" if differs else "not dim")
        if len(mine) < len(other):
            text.append(" (end)", style="bold red")
        lines.append(text)
    return lines[0], lines[1]


def _counts(result: Result) -> Text:
    text = Text("  ")
    for i, (verdict, count) in enumerate(result.counts.items()):
        text.append(" · " if i else "", style="dim")
        text.append(f"{verdict} {count:,}", style=_COUNT_STYLES[verdict] if count else "dim")
    return text


def _remarks(result: Result, console: Console) -> None:
    if result.condition != "clean":
        console.print(Text(f"  the capture is {result.condition}: this says nothing of what it lost", style="yellow"))
    if result.gaps:
        gaps = _count(result.gaps, "gap")
        console.print(Text(f"  {gaps} where events were lost: this says nothing of those", style="yellow"))
    if result.withheld:
        names = printable(", ".join(result.withheld))
        text = f"  not sent, since the capture has it redacted: {names} (give it with --metadata)"
        console.print(Text(text, style="yellow"))
    if result.gave_up:
        console.print(Text("  gave up: nothing came back from the target any more", style="yellow"))


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
