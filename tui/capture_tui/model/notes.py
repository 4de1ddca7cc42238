"""Notes and bookmarks: remarks on frames. They go into the capture as records that any reader may skip, or, where it
cannot be written, is torn or packed, into a file beside it.

A note is written beside the capture at once, and taken into it at the end: a long capture is copied once, not for each.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from capture_recorder.capfile import CaptureError, CaptureWriter, Entry, open_capture
from capture_recorder.capfile.framing import FEATURE_BLOCKS
from capture_recorder.capfile.output import PartFile
from capture_recorder.capfile.records import Footer, Note
from capture_recorder.capfile.rewrite import INDEX, Copier, whole

from .document import Document

SUFFIX: Final = ".notes.json"
MOST: Final = 1 << 30
"""Bytes of a capture that is rewritten to take notes in."""
_LIMIT: Final = 16 << 20  # bytes of a file of notes


class Notes:
    """The notes on one capture: `of` has the text of each frame's (by record number; "" is a bookmark)."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._beside = Path(document.path + SUFFIX)
        self.of: dict[int, str] = {}
        self.problem = ""
        self._dirty = False
        self._foreign = False  # what stands beside is none of ours
        self._own: dict[int, str | None] | None = self._read()
        self.refresh()

    def refresh(self) -> None:
        """Take in what the scan has found since."""
        recorded = {note.about: note.text for note in self._document.table.notes if note.about is not None}
        changes = self._own or {}
        merged = {**recorded, **changes}
        self.of = {seq: text for seq, text in merged.items() if text is not None}

    def put(self, seq: int, text: str | None) -> None:
        """Set a frame's note, or (None) take it away. `problem` says where that could not be kept."""
        self._own = {**(self._own or {}), seq: text}
        self._dirty = True
        self.refresh()
        if self._foreign:
            return
        body = {
            "file": self._document.reader.preamble.file_id.hex(),
            "notes": {str(k): v for k, v in self._own.items()},
        }
        part = self._beside.with_name(self._beside.name + ".part")
        try:
            part.write_text(json.dumps(body), encoding="utf-8")
            part.replace(self._beside)
        except OSError as error:
            self.problem = f"{self._beside} cannot be written: {error.strerror}; the note lasts until you quit"

    def settle(self) -> str:
        """At the end: take what stands beside the capture into it. Says in a sentence what became of it, or nothing."""
        if not self._dirty or not self._own:
            return ""
        try:
            self._write(self._document.path)
        except (CaptureError, OSError) as error:
            why = str(error) if isinstance(error, CaptureError) else f"{error.strerror}"
            return self._kept(why)
        except _LeftBeside as error:
            return self._kept(str(error))
        if not self._foreign:
            self._beside.unlink(missing_ok=True)
        return f"the notes are in {self._document.path}"

    def _kept(self, why: str) -> str:
        kept = self._beside.exists() and not self._foreign
        return f"the notes are in {self._beside}: {why}" if kept else f"the notes are lost: {why}"

    def _write(self, path: str) -> None:
        with open_capture(path) as source:
            if source.preamble.file_id != self._document.reader.preamble.file_id:
                raise _LeftBeside("the capture was replaced meanwhile")
            if source.preamble.features & FEATURE_BLOCKS:
                raise _LeftBeside("the capture is packed")
            if source.is_being_written or source.trailer() is None:
                raise _LeftBeside("the capture is not finished")
            if (source.size or 0) > MOST:
                raise _LeftBeside("the capture is larger than a gibibyte")
            if not os.access(path, os.W_OK):
                raise _LeftBeside("the capture is read-only")
            changed = self._own or {}
            writer = CaptureWriter(PartFile(path, replace=True, own=True), file_id=source.preamble.file_id)
            try:
                copier, last = Copier(writer), None
                for raw, decoded in whole(source, "note something in it"):
                    record = decoded.record if isinstance(decoded, Entry) else None
                    if isinstance(record, Footer):
                        last = record
                    if isinstance(record, INDEX) or (isinstance(record, Note) and record.about in changed):
                        continue
                    copier.copy(raw, decoded)
                for seq, text in sorted(changed.items()):
                    number = copier.number_of(seq)
                    if text is not None and number is not None:
                        writer.append(Note(text=text, about=number))
                writer.close(last.extra if last else None)
            except BaseException:
                writer.discard()
                raise

    def _read(self) -> dict[int, str | None] | None:
        """What an earlier viewer left beside the capture."""
        try:
            if self._beside.stat().st_size > _LIMIT:
                return None
            body = json.loads(self._beside.read_text(encoding="utf-8"))
            if body["file"] != self._document.reader.preamble.file_id.hex():
                self._foreign = True
                self.problem = f"{self._beside} is about another capture, and was left alone"
                return None
            notes = {int(key): text for key, text in body["notes"].items() if text is None or isinstance(text, str)}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._foreign = True
            self.problem = f"{self._beside} is no file of notes, and was left alone"
            return None
        self._dirty = True
        return notes


class _LeftBeside(Exception):
    """Why the notes are not taken into the capture."""
