"""JSON lines of strangers: one object a line, and for everything else one sentence that names the line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from ..capfile.errors import ForeignForm


def first_object(head: bytes) -> str | None:
    """The beginning of the first line, if it may be a JSON object: all of it, where it is longer than `head`."""
    line = head.lstrip().split(b"\n", 1)[0]
    return line.decode("utf-8", "replace") if line.startswith(b"{") else None


def objects(stream: BinaryIO, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object with the name of its place, "line 7". Raises ForeignForm."""
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise ForeignForm(name, where, f"is not JSON: {why}") from error
        if not isinstance(value, dict):
            raise ForeignForm(name, where, "is not a JSON object")
        yield where, value
