"""The prototype's form of a capture: JSON lines, one object a Session, `{"requests": [hex], "responses": [hex]}`.

Kept so that its users' files and tools go on working. It holds neither order nor status, and a Session is written when
it ends; a `.cap` has none of these faults.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from .capfile.errors import CaptureWriteError
from .capfile.records import DIRECTIONS, Call, Cancel, Message, Record, Status


class Sessions:
    """Gathers the messages of bidirectional calls; a line of the form for each that ends."""

    def __init__(self) -> None:
        self._open: dict[int, dict[str, list[str]]] = {}

    def take(self, record: Record) -> bytes | None:
        """A record of any type; those that the form cannot hold are passed over."""
        if isinstance(record, Call) and record.kind == "bidi":
            self._open[record.call] = {"requests": [], "responses": []}
        elif isinstance(record, Message) and record.call in self._open:
            self._open[record.call][f"{DIRECTIONS[record.direction]}s"].append(record.payload.hex())
        elif isinstance(record, (Status, Cancel)) and record.call in self._open:
            return _line(self._open.pop(record.call))
        return None

    def rest(self) -> Iterator[bytes]:
        """Those that are still open."""
        while self._open:
            yield _line(self._open.pop(min(self._open)))


def _line(session: dict[str, list[str]]) -> bytes:
    return json.dumps(session).encode() + b"\n"


class JsonLinesWriter:
    """Takes what a `CaptureWriter` takes; keeps the bidirectional calls' messages. Raises CaptureWriteError."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._sessions = Sessions()
        try:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            why = f"cannot be created: {(error.strerror or str(error)).lower()}"
            raise CaptureWriteError(str(self.path), why) from error

    def append(self, record: Record) -> None:
        """A record of any type."""
        self._write(self._sessions.take(record) or b"")

    def close(self) -> None:
        """Write the Sessions that are still open, and close the file."""
        for line in self._sessions.rest():
            self._write(line)
        self.abandon()

    def abandon(self) -> None:
        """Close the file as it is."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            why = f"cannot be written: {(error.strerror or str(error)).lower()}"
            raise CaptureWriteError(str(self.path), why) from error
