"""Patterns over the paths of fields."""

from __future__ import annotations

import pytest

from capture_recorder.capfile.paths import Path, Pattern, text

TENSOR: Path = ("chunk", "bundle", "tensors", "[0]", "name")
LABEL: Path = ("labels", "['a.b[c]']", "value")


@pytest.mark.parametrize(
    ("pattern", "path", "covers"),
    [
        ("chunk", TENSOR, True),
        ("chunk.bundle.tensors[0].name", TENSOR, True),
        ("chunk.bundle.tensors[1].name", TENSOR, False),
        ("chunk.bundle.tensors[*].name", TENSOR, True),
        ("chunk.bundle.tensors.name", TENSOR, True),
        ("chunk.bundle.tensors", TENSOR, True),
        ("chunk.*.tensors.*", TENSOR, True),
        ("*.name", TENSOR, False),
        ("**.name", TENSOR, True),
        ("**.tensors[0]", TENSOR, True),
        ("**.tensors[1]", TENSOR, False),
        ("chunk.**.name", TENSOR, True),
        ("chunk.**.bundle.**.name", TENSOR, True),
        ("**", TENSOR, True),
        ("chunk.b*.t?nsors", TENSOR, True),
        ("chunk.b?.tensors", TENSOR, False),
        ("chun", TENSOR, False),
        ("name", TENSOR, False),
        ("labels['a.b[c]']", LABEL, True),
        ('labels["a.b[c]"].value', LABEL, True),
        ("labels['a']", LABEL, False),
        ("labels.value", LABEL, True),
        ("labels[*]", LABEL, True),
        ("#12", ("#12", "[0]"), True),
        ("m[-7]", ("m", "[-7]"), True),
        ("m[true].x", ("m", "[true]", "x"), True),
        ("a.b.c", ("a", "b"), False),
    ],
)
def test_what_a_pattern_covers(pattern: str, path: Path, covers: bool) -> None:
    assert Pattern(pattern).matches(path) is covers


@pytest.mark.parametrize("path", [TENSOR, LABEL, ("#12", "[0]"), ("m", "[true]", "x"), ("a",)])
def test_a_path_as_text_is_a_pattern_of_it(path: Path) -> None:
    assert Pattern(text(path)).matches(path)


@pytest.mark.parametrize("pattern", ["", ".", "a.", ".a", "a..b", "a[", "a[b]", "a[0", "[0]", "a]b", "a['x]", "a[0]b"])
def test_what_is_no_path_is_refused_with_the_place(pattern: str) -> None:
    with pytest.raises(ValueError, match="is no path of a field"):
        Pattern(pattern)


def test_many_stars_cost_no_more_than_their_number() -> None:
    pattern = Pattern(".".join(["**"] * 200 + ["x"]))
    assert not pattern.matches(("a",) * 2_000)
    assert not Pattern("*a" * 50).matches(("a" * 2_000 + "b",) * 20)
