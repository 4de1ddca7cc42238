"""Statistics of a capture as lines: messages, sizes, gaps, answers, each with its shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from capture_recorder.capfile.stats import Histogram, Stats
from capture_recorder.text import human_duration, human_size

from .paint import Line, Piece, clean, fit

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_ARROWS: Final[tuple[Piece, Piece]] = (("→", "request"), ("←", "response"))
_LATENCY: Final = "Latency: from the client's last message to the server's first after it"
_BAR: Final = 48


def figure_lines(found: Stats, columns: int) -> Iterator[Line]:
    """What the view shows."""
    name = max(12, min(44, columns - 44))
    yield [(f"{'method':<{name}}    messages   payload   half ≤    most", "dim")]
    for (method, direction), flow in found.flows.items():
        sizes = flow.sizes
        counted = (sizes.total, sizes.quantile(0.5), sizes.most)
        figures = f"{sizes.count:>10,}" + "".join(f"{human_size(size):>10}" for size in counted)
        short = fit(clean(method.rpartition("/")[2], 200), name)
        yield [(f"{short} ", "text"), _ARROWS[direction], (figures, "text")]
    for (method, direction), flow in found.flows.items():
        title = f"{_ARROWS[direction][0]} {clean(method, 200)}"
        yield from _shape(f"{title}: sizes", flow.sizes, human_size, columns)
        yield from _shape(f"{title}: gaps", flow.gaps, human_duration, columns)
    yield from _shape(_LATENCY, found.answers, human_duration, columns)
    if found.slowest:
        yield []
        yield [("Slowest answers", "strong")]
    for answer in found.slowest:
        yield [
            (f"  {human_duration(answer.took_ns):>9}  ", "number"),
            (f"call {answer.call}, request {answer.request}, response {answer.response}  ", "text"),
            (clean(answer.method, 200), "dim"),
        ]


def _shape(title: str, histogram: Histogram, words: Callable[[int], str], columns: int) -> Iterator[Line]:
    if histogram.count < 2:
        return
    yield []
    yield [(title, "strong")]
    most = max(histogram.buckets.values())
    wide = max(8, min(_BAR, columns - 30))
    for bits in range(min(histogram.buckets), max(histogram.buckets) + 1):
        count = histogram.buckets.get(bits, 0) if isinstance(histogram.buckets, dict) else histogram.buckets[bits]
        eighths = -(-count * wide * 8 // most)
        bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
        yield [(f"  < {words(1 << bits):>9} ", "dim"), (f"{count:>9,} ", "text"), (bar, "number")]
