"""What the commands share: exit statuses, opening a file, and an event in words and in JSON."""

from __future__ import annotations

import base64
import sys
from typing import Any, Final

from ..capfile import CaptureError, CaptureReader, Damage, open_capture
from ..capfile.reader import CLEAN
from ..capfile.records import Metadata, Redacted
from ..text import printable

FAILED: Final = 1
DAMAGED: Final = 3
INTERRUPTED: Final = 130


class Failed(Exception):
    """The command ends here; the text is one sentence."""

    def __init__(self, sentence: str, status: int = FAILED) -> None:
        super().__init__(printable(sentence))
        self.status = status


def opened(file: str) -> CaptureReader:
    """The capture, or standard input for "-". Raises Failed."""
    try:
        return open_capture(file, stdin=sys.stdin.buffer if file == "-" else None)
    except CaptureError as error:
        raise Failed(str(error)) from error


def status_of(reader: CaptureReader) -> int:
    """The exit status that says whether the capture was whole; to be asked after a scan."""
    return 0 if reader.condition == CLEAN else DAMAGED


def damage_json(damage: Damage) -> dict[str, Any]:
    """A range that holds no good record."""
    names = ("offset", "size", "why", "first", "last")
    return {name: getattr(damage, name) for name in names}


def metadata_json(metadata: Metadata) -> list[list[Any]]:
    """Pairs in their order. A value that is not text is `{"base64": …}`, a redacted one `{"redacted": …}`."""
    return [[key, _value_json(key, value)] for key, value in metadata]


def _value_json(key: str, value: bytes | Redacted) -> Any:
    if isinstance(value, Redacted):
        return {"redacted": {"length": value.length, "digest": value.digest.hex()}}
    if not key.endswith("-bin"):
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {"base64": base64.b64encode(value).decode()}
