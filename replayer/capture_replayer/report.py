"""The result for people. It leads with the first divergence; the totals come last, where the eye stays."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from capture_recorder.terminal import print_table
from capture_recorder.text import printable

from .engine import FLOOD, Stall
from .explain import NOT_SET, Divergence, HexWindow
from .result import Result
from .rules import Rule

_COUNT_STYLES: Final = {
    "identical": "green",
    "equivalent": "yellow",
    "ignored": "yellow",
    "different": "red",
    "missing": "red",
    "extra": "red",
}
_QUIET: Final = ("equivalent", "ignored")  # verdicts that are not named where there are none
_WIDTH: Final = 120  # columns of a report that is text
_SLOWEST: Final = 3  # captures that a summary names
_CALLS: Final = 5  # calls that a stall names
_LINES: Final = 10  # of a dead server's output


@dataclass(frozen=True, slots=True)
class Words:
    """What the two sides are called."""

    differs: str = "not as recorded"
    expected: str = "recorded"
    actual: str = "replayed"


REPLAY: Final = Words()


def show(result: Result, console: Console, words: Words = REPLAY) -> None:
    """One capture's result. Nothing of the capture is taken for markup, and no control character gets through."""
    file = printable(result.file)
    if result.error is not None:
        console.print(Text.assemble(("? ", "bold yellow"), printable(result.error)))
        _output(result, console)
        return
    if result.passed:
        console.print(Text.assemble(("✓ ", "bold green"), f"{file}: {_passed(result)}"))
        _remarks(result, console)
        return
    total = sum(result.counts.values())
    console.print(
        Text.assemble(("✗ ", "bold red"), f"{file}: {_count(result.failed, 'event')} of {total:,} {words.differs}"),
        soft_wrap=True,
    )
    console.print()
    first = result.divergences[0]
    print_table(console, _divergence(first, words))
    if len(first.fields) > 1 or any(change.ignored for change in first.fields):
        console.print()
        print_table(console, _fields(first, words))
    console.print()
    console.print(_counts(result))
    _remarks(result, console)


def as_text(result: Result) -> str:
    """The report of one capture, without colour."""
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None, force_terminal=False)
    show(result, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _passed(result: Result) -> str:
    """What passed, and where more than identical bytes did, how."""
    calls = _count(result.calls, "call")
    counts = {verdict: n for verdict, n in result.counts.items() if n}
    if set(counts) == {"identical"}:
        return f"{_count(counts['identical'], 'event')} of {calls} identical"
    told = ", ".join(f"{n:,} {verdict}" for verdict, n in counts.items())
    return f"{_count(sum(counts.values()), 'event')} of {calls} passed: {told}"


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
    if divergence.summaries is not None and divergence.summaries[0] != divergence.summaries[1]:
        row(words.expected, divergence.summaries[0])
        row(words.actual, divergence.summaries[1])
    row("field", divergence.field)
    row("at byte", None if divergence.offset is None else f"{divergence.offset:,}")
    row("expected", divergence.expected or "nothing")
    instead = f"nothing: the call ended with {divergence.ended}" if divergence.ended else "nothing"
    row("actual", divergence.actual or instead)
    row("the call ended", divergence.ended if divergence.actual is not None and divergence.ended else None)
    if divergence.window is not None:
        for name, text in zip(
            (f"{words.expected} bytes", f"{words.actual} bytes"), _hex_lines(divergence.window), strict=True
        ):
            row(name, text)
    cause = (
        f"event {divergence.cause}: {divergence.cause_text}" if divergence.cause_text else f"event {divergence.cause}"
    )
    row("led to by", cause if divergence.cause else None)
    row("checksums", divergence.note or None)
    row("stalled", stall_text(divergence.stall) if divergence.stall is not None else None)
    row("looks like", Text(printable(divergence.hint), style="yellow") if divergence.hint else None)
    return table


def stall_text(stall: Stall) -> str:
    """What was waited for, since when, and what came instead."""
    came = ", ".join(f"{_count(n, 'answer')} of call {call}" for call, n in stall.meanwhile[:_CALLS])
    if len(stall.meanwhile) > _CALLS:
        came += f" and of {len(stall.meanwhile) - _CALLS:,} more"
    since = f"since event {stall.since} went out" if stall.since else "since the call began"
    return f"waited {stall.seconds:.3g} s for it, {since}; meanwhile came {came or 'nothing, of any call'}"


def _fields(divergence: Divergence, words: Words) -> Table:
    """The fields of a message that differ, both sides beside one another."""
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    table.add_column(Text(f"  {_count(divergence.changed, 'field')} differ{'s' * (divergence.changed == 1)}"))
    table.add_column(words.expected, overflow="fold")
    table.add_column(words.actual, overflow="fold")
    for change in divergence.fields:
        style = "dim" if change.ignored else ""
        values = [Text(NOT_SET, style="dim") if v is None else Text(v) for v in (change.expected, change.actual)]
        path = Text(f"  {printable(change.path)}").append("  ignored" if change.ignored else "", style="yellow")
        table.add_row(path, *values, style=style)
    if divergence.changed > len(divergence.fields):
        table.add_row(Text(f"  … and {divergence.changed - len(divergence.fields):,} more", style="dim"))
    return table


def _place(divergence: Divergence) -> str:
    where = f"event {divergence.event}"
    if divergence.verdict == "extra":
        where = f"{'after' if divergence.after else 'before'} {where}"
    what = divergence.kind if divergence.index is None else f"{divergence.direction} message {divergence.index}"
    return f"{where}, {what}"


def _verdict(divergence: Divergence) -> str:
    if divergence.verdict == "equivalent":
        return "equivalent: the same message in another encoding; --accept equivalent lets it pass"
    return f"{divergence.verdict} (waited until the time limit)" if divergence.stall else divergence.verdict


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
    shown = {verdict: count for verdict, count in result.counts.items() if count or verdict not in _QUIET}
    for i, (verdict, count) in enumerate(shown.items()):
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
    for source in result.rules.sources:
        console.print(Text(f"  rules: {printable(source)}", style="dim"))
    if result.race is not None and not result.passed:
        tried = f"; {result.attempts} orders were tried" if result.attempts > 1 else ""
        text = f"  racy: {result.race} crossed on the wire, and no client could tell in which order"
        more = "" if result.attempts > 1 else "; --attempts 4 tries the other legal orders"
        console.print(Text(text + tried + more, style="yellow"))
    elif result.attempts > 1:
        console.print(
            Text(f"  racy: passed in attempt {result.attempts}, with a race in another order", style="yellow")
        )
    if result.stopped:
        console.print(Text("  stopped at the first divergence", style="dim"))
    if result.died:
        console.print(Text(f"  the server {result.died}; the last that it printed:", style="yellow"))
        _output(result, console)
    for call in result.flooded:
        text = f"  flood: call {call} got more than {FLOOD:,} answers that nobody asked for, and was cut"
        console.print(Text(text, style="yellow"))
    if result.gave_up:
        console.print(Text("  gave up: nothing came back from the target any more", style="yellow"))


def _output(result: Result, console: Console) -> None:
    for line in result.output[-_LINES:]:
        console.print(Text(f"  │ {printable(line)}", style="dim"))


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def summary(results: Sequence[Result], unused: Sequence[Rule], seconds: float, console: Console) -> None:
    """Of a run of several captures: how many passed, and which took longest. Of any: rules that never matched."""
    for rule in unused:
        source = f" ({printable(rule.source)})" if rule.source else ""
        console.print(Text(f"  never matched: {printable(str(rule))}{source}", style="yellow"))
    updated = sum(result.updated for result in results)
    if updated:
        changed = sum(sum(r.counts.values()) - r.counts["identical"] for r in results if r.updated)
        console.print(f"  updated {_count(updated, 'capture')}: {_count(changed, 'event')} changed", highlight=False)
    if len(results) < 2:
        return
    kinds = {
        "passed": ("green", sum(result.passed for result in results)),
        "diverged": ("red", sum(result.error is None and not result.passed for result in results)),
        "could not tell": ("yellow", sum(result.error is not None for result in results)),
    }
    text = Text(f"{_count(len(results), 'capture')} in {seconds:.1f} s: ")
    for i, (name, (style, n)) in enumerate(kinds.items()):
        text.append(" · " if i else "", style="dim").append(f"{n:,} {name}", style=style if n else "dim")
    console.print()
    console.print(text)
    slowest = sorted(results, key=lambda result: -result.seconds)[:_SLOWEST]
    if len(results) > _SLOWEST:
        told = ", ".join(f"{printable(Path(result.file).name)} {result.seconds:.2f} s" for result in slowest)
        console.print(Text(f"slowest: {told}", style="dim"))
