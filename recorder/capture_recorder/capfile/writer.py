"""Writes a capture: one record at a time, each with one system call, nothing kept back.

Until `close` has written footer and trailer the file is `NAME.part` (output.py), so that a name without `.part` stands
for a whole capture. Payloads are not copied on the way.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import blocks, codec, framing
from .errors import CaptureWriteError, RecordError
from .framing import HEAD_SIZE, TAIL_SIZE, Buffer, Preamble, Trailer
from .index import Index
from .output import Output, PartFile
from .records import Record

Member = tuple[int, int, Buffer, Record | None]
"""A record that is packed already: type, flags, body, and what it says, where that is known."""


class CaptureWriter:
    """An open capture. Not for several threads at once: whoever shares it holds a lock.

    `path` may be an open output instead. `features` are the file's; without `indexes` checkpoints are written only
    where `checkpoint` is called. Raises CaptureWriteError, from the constructor too.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Output,
        *,
        file_id: bytes | None = None,
        features: int = 0,
        indexes: bool = True,
    ) -> None:
        self._out: Output = PartFile(path) if isinstance(path, (str, os.PathLike)) else path
        self.path, self.part = self._out.path, self._out.part
        self.file_id = file_id if file_id is not None else os.urandom(8)
        self.seq = 0  # of the last record written
        self.offset = 0  # where the next record begins, in bytes
        self._put = self._out.put
        self._seed = framing.seed_of(self.file_id)
        self._index = Index()
        self._indexes = indexes
        try:
            preamble = framing.pack_preamble(Preamble(framing.MAJOR, framing.MINOR, features, self.file_id))
            self._put((preamble,), len(preamble))
            self.offset = len(preamble)
        except CaptureWriteError:
            self._out.discard()
            raise

    @property
    def closed(self) -> bool:
        """Whether `close` or `abandon` was called."""
        return self._out.closed

    def append(self, record: Record) -> int:
        """Write one record; its number. When this returns, the kernel has it. Raises CaptureWriteError, and then the
        record is not in the file."""
        try:
            prefix, payload = codec.encode(record)
        except RecordError as error:
            raise CaptureWriteError(str(self.path), str(error)) from error
        return self._append(record.TYPE, 0, prefix, payload, record)

    def append_raw(self, kind: int, flags: int, body: Buffer, record: Record | None = None) -> int:
        """Write a record whose body is packed already, as it is; for rewriters, which keep what they do not know.
        `record` is what it says, where that is known."""
        return self._append(kind, flags, body, b"", record)

    def append_block(self, members: Sequence[Member], level: int) -> None:
        """Write records as one block. They get the numbers that they would have had without it."""
        offset, first = self.offset, self.seq + 1
        body = blocks.pack(((kind, flags, body) for kind, flags, body, _ in members), level)
        self._frame(framing.RecordType.BLOCK, 0, body, b"")
        for seq, (_, _, _, record) in enumerate(members, first):
            self._index.add(record, seq, offset)
        self.seq = first + len(members) - 1

    def checkpoint(self, extra: Mapping[str, Any] | None = None) -> None:
        """Write the index of what came since the last checkpoint. `extra`: keys that are no version's that we know."""
        offset = self.offset
        checkpoint = self._index.checkpoint(extra or {})
        prefix, payload = codec.encode(checkpoint)
        self._index.add(checkpoint, self._frame(checkpoint.TYPE, 0, prefix, payload), offset)

    def _append(self, kind: int, flags: int, prefix: Buffer, payload: bytes, record: Record | None) -> int:
        offset = self.offset
        seq = self._frame(kind, flags, prefix, payload)
        index = self._index
        index.add(record, seq, offset)
        if index.is_due and self._indexes:
            with contextlib.suppress(CaptureWriteError):  # an index is a hint; the record before it is in the file
                self.checkpoint()
        return seq

    def _frame(self, kind: int, flags: int, prefix: Buffer, payload: bytes) -> int:
        length = len(prefix) + len(payload)
        if length > framing.MAX_BODY:
            raise CaptureWriteError(str(self.part), f"a record of {length:,} bytes is more than the format can hold")
        seq = self.seq + 1
        before, tail = framing.frame(self._seed, kind, flags, seq, prefix, payload)
        size = HEAD_SIZE + length + TAIL_SIZE
        self._put((before, payload, tail), size)
        self.seq = seq
        self.offset += size
        return seq

    def sync(self) -> None:
        """Have the disk confirm what was written so far."""
        self._out.sync()

    def close(self, extra: Mapping[str, Any] | None = None) -> Path:
        """Write footer (with keys that are no version's that we know) and trailer, sync, rename; the capture's path. A
        second call does nothing."""
        if self.closed:
            return self.path
        try:
            if self._indexes and self._index.has_news:
                self.checkpoint()
            footer_offset = self.offset
            footer = self._index.footer(extra or {})
            self._frame(footer.TYPE, 0, *codec.encode(footer))
            trailer = framing.pack_trailer(Trailer(footer_offset, self.seq, self.file_id))
            self._put((trailer,), len(trailer))
            self._out.finish()
        finally:
            self.abandon()
        return self.path

    def discard(self) -> None:
        """Let the file go, and remove what there is of it."""
        self._out.discard()

    def abandon(self) -> None:
        """Let the file go as it is: a `.part` that any reader opens as torn."""
        self._out.abandon()


def copy(pieces: Iterable[bytes], output: Output) -> None:
    """Make of an output a copy of another capture, to the byte, and finish it."""
    try:
        for piece in pieces:
            output.put((piece,), len(piece))
        output.finish()
        output.abandon()
    except BaseException:
        output.discard()
        raise
