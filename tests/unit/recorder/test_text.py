"""Nothing that a terminal acts on gets through; what can be read stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_recorder.text import ascii_bytes, human_duration, human_size, printable


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x07\r\n\x00", "\\x1b[31mred\\x07\\x0d\\x0a\\x00"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("a\u200db\ufeff", "a\\u200db\\ufeff"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
        ("pay\u3164pal\ufe0f", "pay\\u3164pal\\ufe0f"),  # letters and marks that nobody sees
        ("[red]büß 漢字 😀", "[red]büß 漢字 😀"),
    ],
)
def test_what_is_escaped(text: str, safe: str) -> None:
    assert printable(text) == safe


def test_a_long_text_is_cut() -> None:
    assert printable("x" * 100, 10) == "x" * 9 + "…"
    assert printable("x" * 10, 10) == "x" * 10


def test_what_is_escaped_is_cut_to_the_limit_too_and_never_within_an_escape() -> None:
    assert printable("\x1b" * 100, 10) == "\\x1b\\x1b…"
    assert printable("ab\u202e", 7) == "ab…"


@given(st.text(), st.integers(min_value=1, max_value=40))
def test_no_more_than_the_limit(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert shown.isprintable()


def test_bytes_that_are_mostly_text() -> None:
    assert ascii_bytes(b"grpc-python/1.85 \x1b[2J\xff") == "grpc-python/1.85 \\x1b[2J\\xff"


@given(st.text())
def test_the_result_is_always_printable(text: str) -> None:
    assert printable(text).isprintable()


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB"), (1 << 52, "4,096 TiB")]
)
def test_sizes(size: int, text: str) -> None:
    assert human_size(size) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (41_000, "41 µs"),
        (999_600, "1000 µs"),
        (1_230_000_000, "1.23 s"),
        (61 * 10**9, "1 min 01 s"),
        (7500 * 10**9, "2 h 05 min"),
    ],
)
def test_durations(ns: int, text: str) -> None:
    assert human_duration(ns) == text
