"""Rewrites a finished capture with its records in compressed blocks, and back.

Each record keeps its number, and checkpoints keep their places, so that an event is called the same in both forms and
unpacking gives the very file that was packed.
"""

from __future__ import annotations

from typing import Final

from . import framing
from .blocks import MAX_EXPANDED, MEMBER_SIZE
from .output import Output
from .reader import CaptureReader, Entry
from .records import Checkpoint, Footer
from .rewrite import whole
from .writer import CaptureWriter, Member

BLOCK_SIZE: Final = 1 << 18
"""Bytes of records that a block holds: larger ones compress hardly better, reading one event expands one block, and a
bad byte costs one."""
LEVEL: Final = 9  # of Zstandard: past it time grows much faster than files shrink


def pack(source: CaptureReader, output: Output, level: int = LEVEL) -> None:
    """Write `source` to `output` in compressed blocks. Raises NotWhole, CaptureWriteError; then there is no output."""
    _rewrite(source, output, _Blocks(level), "pack it")


def unpack(source: CaptureReader, output: Output) -> None:
    """Write `source` to `output` without blocks. Raises NotWhole, CaptureWriteError; then there is no output."""
    _rewrite(source, output, None, "unpack it")


def _rewrite(source: CaptureReader, output: Output, packed: _Blocks | None, what: str) -> None:
    features = source.preamble.features & ~framing.FEATURE_BLOCKS | (framing.FEATURE_BLOCKS if packed else 0)
    writer = CaptureWriter(output, file_id=source.preamble.file_id, features=features, indexes=False)
    try:
        last: Footer | None = None
        for raw, decoded in whole(source, what):
            record = decoded.record if isinstance(decoded, Entry) else None
            if isinstance(record, (Checkpoint, Footer)):
                if packed:
                    packed.flush(writer)
                if isinstance(record, Checkpoint):
                    writer.checkpoint(record.extra)
                else:
                    last = record
            elif packed:
                packed.add(writer, (raw.type, raw.flags, bytes(raw.body), record))
            else:
                writer.append_raw(raw.type, raw.flags, raw.body, record)
        writer.close(last.extra if last else None)
    except BaseException:
        writer.discard()
        raise


class _Blocks:
    """Gathers records until a block is full."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._members: list[Member] = []
        self._size = 0

    def add(self, writer: CaptureWriter, member: Member) -> None:
        """One record more. One that no block can hold stands for itself."""
        size = MEMBER_SIZE + len(member[2])
        if self._size + size > BLOCK_SIZE:
            self.flush(writer)
        if size > MAX_EXPANDED:
            kind, flags, body, record = member
            writer.append_raw(kind, flags, body, record)
            return
        self._members.append(member)
        self._size += size

    def flush(self, writer: CaptureWriter) -> None:
        """Write what there is."""
        if self._members:
            writer.append_block(self._members, self._level)
            self._members, self._size = [], 0
