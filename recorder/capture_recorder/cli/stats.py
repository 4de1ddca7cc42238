"""`capture-file stats`: messages and bytes by method and direction, sizes and gaps, the slowest answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..capfile.records import DIRECTIONS
from ..capfile.stats import SLOWEST, Flow, Histogram, Stats
from ..capfile.stats import stats as stats_of
from ..terminal import console, print_table
from ..text import human_duration, human_size, printable
from .common import as_line, opened, progress, status_of

_EMPTY: Final = 2  # rows without anything one after another, from which on they are left out
_SHAPELESS: Final = 8  # fewer messages have no shape worth a picture; the table has them
_BAR: Final = 24  # columns of the longest bar
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_ARROWS: Final = ("→", "←")

EPILOG = """\b
Example:
  capture-file stats session.cap
  capture-file stats session.cap --json | jq '.slowest[0]'
"""


@click.command(short_help="Figures: sizes, gaps, slowest answers.", epilog=EPILOG)
@click.argument("file", metavar="FILE", type=click.Path(path_type=str))
@click.option(
    "--slowest",
    type=click.IntRange(min=0),
    metavar="N",
    default=SLOWEST,
    show_default=True,
    help="Answers to list.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def stats(file: str, slowest: int, as_json: bool) -> int:
    """Figures of the messages in the capture FILE ('-': standard input).

    An answer is timed from the last message of the client's to the first of the server's after it, in its call."""
    with opened(file) as reader, progress("counting", reader):
        found = stats_of(reader.entries(), slowest)
        if as_json:
            click.echo(as_line(_json(file, found), indent=2))
        else:
            _show(console(), found)
        return status_of(reader)


def _json(file: str, found: Stats) -> dict[str, Any]:
    flows = [
        {
            "method": method,
            "direction": DIRECTIONS[direction],
            "size": _histogram_json(flow.sizes),
            "gap_ns": _histogram_json(flow.gaps),
        }
        for (method, direction), flow in found.flows.items()
    ]
    names = ("call", "request", "response", "took_ns", "method")
    return {
        "file": file,
        "calls": dict(found.calls),
        "flows": flows,
        "answer_ns": _histogram_json(found.answers),
        "slowest": [{name: getattr(answer, name) for name in names} for answer in found.slowest],
    }


def _histogram_json(histogram: Histogram) -> dict[str, Any]:
    """`below`: how many values are less than this power of two, and not less than the one before."""
    return {
        "count": histogram.count,
        "total": histogram.total,
        "least": histogram.least,
        "most": histogram.most,
        "buckets": [{"below": 1 << bits, "count": histogram.buckets[bits]} for bits in sorted(histogram.buckets)],
    }


def _show(out: Console, found: Stats) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("method", no_wrap=True, overflow="ellipsis")
    for name in ("", "calls", "messages", "payload", "half ≤", "99 % ≤", "largest"):
        table.add_column(name, justify="right")
    for (method, direction), flow in found.flows.items():
        sizes = flow.sizes
        figures = map(human_size, (sizes.total, sizes.quantile(0.5), sizes.quantile(0.99), sizes.most))
        counts = (_ARROWS[direction], f"{found.calls[method]:,}", f"{sizes.count:,}")
        table.add_row(*(Text(printable(cell)) for cell in (method.rpartition("/")[2] or method, *counts, *figures)))
    print_table(out, table)
    for (method, direction), flow in found.flows.items():
        if flow.sizes.count >= _SHAPELESS:
            _show_flow(out, f"{_ARROWS[direction]} {method}", flow)
    if found.answers.count:
        out.print()
        out.print(Text("answers: from the client's last message to the server's first after it", style="bold"))
        _bars(out, found.answers, human_duration)
    if found.slowest:
        out.print()
        out.print(Text("slowest answers", style="bold"))
        slowest = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for name in ("took", "call", "request", "response"):
            slowest.add_column(name, justify="right")
        slowest.add_column("method", overflow="fold")
        for answer in found.slowest:
            numbers = (human_duration(answer.took_ns), *map(str, (answer.call, answer.request, answer.response)))
            slowest.add_row(*map(Text, numbers), Text(printable(answer.method)))
        print_table(out, slowest)


def _show_flow(out: Console, title: str, flow: Flow) -> None:
    out.print()
    out.print(Text(printable(title), style="bold"))
    _bars(out, flow.sizes, human_size)
    if flow.gaps.count:
        out.print(Text("  between two of a call", style="dim"))
        _bars(out, flow.gaps, human_duration)


def _bars(out: Console, histogram: Histogram, words: Callable[[int], str]) -> None:
    empty = 0
    for label, count, bar in _rows(histogram, words):
        empty = 0 if count else empty + 1
        if empty < _EMPTY:
            out.print(Text.assemble(f"  {label:>20}  {count:>9,}", (f"  {bar}" if bar else "", "cyan")))
        elif empty == _EMPTY:
            out.print(Text(f"  {'⋮':>20}", style="dim"))


def _rows(histogram: Histogram, words: Callable[[int], str]) -> Iterator[tuple[str, int, str]]:
    """One row for each bucket from the first to the last that has something."""
    most = max(histogram.buckets.values(), default=1)
    for bits in range(min(histogram.buckets), max(histogram.buckets) + 1) if histogram.buckets else ():
        count = histogram.buckets[bits]
        eighths = max(round(count / most * _BAR * 8), 1 if count else 0)
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        label = f"{words(1 << bits - 1)} – {words(1 << bits)}" if bits else words(0)
        yield label, count, bar
