"""The prototype's form of a capture: JSON lines, one object a Session, `{"requests": [hex], "responses": [hex]}`.

Kept so that its users' files and tools go on working. It holds neither order nor status, and a Session is written when
it ends; a `.cap` has none of these faults.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from .capfile.errors import CaptureWriteError
from .capfile.records import DIRECTIONS, Call, Cancel, Message, Record, Status


class JsonLinesWriter:
    """Takes what a `CaptureWriter` takes; keeps the bidirectional calls' messages. Raises CaptureWriteError."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._sessions: dict[int, dict[str, list[str]]] = {}
        try:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            why = f"cannot be created: {(error.strerror or str(error)).lower()}"
            raise CaptureWriteError(str(self.path), why) from error

    def append(self, record: Record) -> None:
        """A record of any type; those that the form cannot hold are passed over."""
        if isinstance(record, Call) and record.kind == "bidi":
            self._sessions[record.call] = {"requests": [], "responses": []}
        elif isinstance(record, Message) and record.call in self._sessions:
            self._sessions[record.call][f"{DIRECTIONS[record.direction]}s"].append(record.payload.hex())
        elif isinstance(record, (Status, Cancel)) and record.call in self._sessions:
            self._write(self._sessions.pop(record.call))

    def close(self) -> None:
        """Write the Sessions that are still open, and close the file."""
        for call in sorted(self._sessions):
            self._write(self._sessions.pop(call))
        self.abandon()

    def abandon(self) -> None:
        """Close the file as it is."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _write(self, session: dict[str, list[str]]) -> None:
        data = json.dumps(session).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            why = f"cannot be written: {(error.strerror or str(error)).lower()}"
            raise CaptureWriteError(str(self.path), why) from error
