"""Reads a capture: by scan, which sees every byte and tells the file's condition, or by its index, to one record.

Bytes come in windows through `pread`, so memory stays flat, a pipe reads as well as a file, and a file that shrinks
while it is read is a torn capture and not a bus error.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, Self

from . import framing, records
from .decoder import BadPreamble, Damage, Decoder, End, RawRecord
from .errors import CannotOpen, NotACapture, RecordError, UnsupportedCapture
from .framing import FIRST_SKIPPABLE, HEAD_SIZE, PREAMBLE_SIZE, TAIL_SIZE, TRAILER_SIZE, Preamble
from .records import Footer, Record

WINDOW: Final = 1024 * 1024  # bytes a read: large enough that the call does not count, small enough to stay in cache

CLEAN: Final = "clean"
TORN: Final = "torn"
DAMAGED: Final = "damaged"
UNREADABLE: Final = "unreadable"


@dataclass(frozen=True, slots=True)
class Entry:
    """A good record and where it stands. `seq` is its number, from 1; an event is called by it. `size` is in bytes."""

    seq: int
    offset: int
    size: int
    record: Record


@dataclass(frozen=True, slots=True)
class Unknown:
    """A whole record of a type, or with a flag, that this version does not know."""

    seq: int
    offset: int
    size: int
    type: int
    flags: int
    body: bytes

    @property
    def critical(self) -> bool:
        """Whether a capture that holds it must not be replayed by us."""
        return self.type < FIRST_SKIPPABLE or self.flags & ~framing.KNOWN_FLAGS != 0


Item = Entry | Unknown | Damage


class CaptureReader:
    """An open capture: a path, or "-" for standard input. A context manager.

    Raises NotACapture, UnsupportedCapture and OSError when opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, stdin: BinaryIO | None = None) -> None:
        self.name = os.fspath(path)
        self._condition: str | None = None
        if self.name == "-" and stdin is not None:
            self._fd, self._owns = stdin.fileno(), False
        else:
            self._fd, self._owns = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC), True
        try:
            mode = os.fstat(self._fd).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(21, "is a folder, not a capture", self.name)
            self._seekable = stat.S_ISREG(mode)
            self._start = b"" if self._seekable else _read_fully(self._fd, PREAMBLE_SIZE)
            self.preamble = self._open_preamble()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        fd, self._fd = self._fd, -1
        if fd >= 0 and self._owns:
            os.close(fd)

    @property
    def size(self) -> int | None:
        """Bytes of the file as it is now; None for a pipe."""
        return os.fstat(self._fd).st_size if self._seekable else None

    @property
    def condition(self) -> str:
        """`clean`, `torn` or `damaged`; found by the last `scan` that ran to its end, or by one made for it."""
        if self._condition is None:
            for _ in self.scan():
                pass
        assert self._condition is not None
        return self._condition

    def _open_preamble(self) -> Preamble:
        data = os.pread(self._fd, PREAMBLE_SIZE, 0) if self._seekable else self._start
        if not data:
            raise NotACapture(self.name, "the file is empty")
        preamble = framing.parse_preamble(data)
        if isinstance(preamble, str):
            raise NotACapture(self.name, preamble)
        known = f"version {framing.MAJOR}"
        if preamble.major != framing.MAJOR:
            raise UnsupportedCapture(self.name, f"format version {preamble.major}", known)
        unknown = preamble.features & ~framing.KNOWN_FEATURES
        if unknown:
            bits = ", ".join(str(bit) for bit in range(32) if unknown >> bit & 1)
            raise UnsupportedCapture(self.name, f"format version {preamble.major} with feature {bits}", known)
        return preamble

    def scan(self) -> Iterator[Item]:
        """Every record and every damage in file order; at its end `condition` is known. A pipe is read once only."""
        for item in self.raw():
            yield item if isinstance(item, Damage) else item[1]

    def raw(self) -> Iterator[tuple[RawRecord, Entry | Unknown] | Damage]:
        """As `scan`, each record with its body as it stands: for rewriters. The body is good until the next step."""
        verdict = _Condition()
        for item in self._raw_items():
            verdict.see(item)
            if isinstance(item, RawRecord):
                decoded = _decoded(item)
                if isinstance(decoded, Damage):
                    verdict.see_invalid()
                    yield decoded
                else:
                    yield item, decoded
            elif isinstance(item, Damage):
                yield item
        self._condition = verdict.condition

    def entries(self) -> Iterator[Entry]:
        """The good records of known types in file order."""
        return (item for item in self.scan() if isinstance(item, Entry))

    def chunks(self, size: int) -> Iterator[bytes]:
        """The file's bytes, in pieces of `size`."""
        offset = 0
        while piece := self._window(offset, size):
            yield piece
            offset += len(piece)

    def is_file(self, path: str | os.PathLike[str]) -> bool:
        """Whether this is the file at `path`, by whatever name it was opened."""
        return os.path.samestat(os.fstat(self._fd), os.stat(path))  # noqa: PTH116 - of either a str or a Path

    def footer(self) -> Footer | None:
        """The totals of a clean capture, read through its trailer; None where there is none to be trusted."""
        size = self.size
        if size is None or size < PREAMBLE_SIZE + TRAILER_SIZE:
            return None
        trailer = framing.parse_trailer(os.pread(self._fd, TRAILER_SIZE, size - TRAILER_SIZE))
        if trailer is None or trailer.file_id != self.preamble.file_id:
            return None
        entry = self._entry_at(trailer.footer_offset, trailer.record_count)
        return entry.record if entry is not None and isinstance(entry.record, Footer) else None

    def read(self, seq: int) -> Entry | None:
        """Record number `seq` by the index, without reading what is before it; by scan where there is no index."""
        start = self._nearest(seq)
        while start is not None:
            entry = self._entry_at(start[1], start[0])
            if entry is None:
                break  # the index does not tell the truth: the records do
            if entry.seq == seq:
                return entry
            start = (entry.seq + 1, entry.offset + entry.size)
        return next((entry for entry in self.entries() if entry.seq == seq), None)

    def _nearest(self, seq: int) -> tuple[int, int] | None:
        """(number, offset) of an indexed record at or before `seq`."""
        footer = self.footer()
        for offset in reversed(footer.checkpoints if footer else ()):
            entry = self._entry_at(offset, None)
            if entry is None or not isinstance(entry.record, records.Checkpoint):
                return None
            rows = [row for row in entry.record.records if len(row) == 2 and row[0] <= seq]
            if rows:
                return rows[-1][0], rows[-1][1]
        return None

    def _entry_at(self, offset: int, seq: int | None) -> Entry | None:
        """The record at `offset`, if a whole one stands there and has number `seq`."""
        seed = framing.seed_of(self.preamble.file_id)
        data = os.pread(self._fd, HEAD_SIZE, offset)
        head = framing.parse_head(seed, data) if len(data) == HEAD_SIZE else None
        end = self.size
        if head is None or (seq is not None and head.seq != seq) or end is None:
            return None
        size = HEAD_SIZE + head.length + TAIL_SIZE
        if offset + size > end:
            return None
        raw = os.pread(self._fd, size, offset)
        if len(raw) != size or not framing.body_is_whole(seed, raw):
            return None
        decoded = _decoded(
            RawRecord(offset, size, head.type, head.flags, head.seq, memoryview(raw)[HEAD_SIZE:-TAIL_SIZE])
        )
        return decoded if isinstance(decoded, Entry) else None

    def _raw_items(self) -> Iterator[Preamble | RawRecord | Damage | End]:
        """The decoder over windows of the file."""
        decoder = Decoder(self.size)
        data, base = (b"" if self._seekable else self._start), 0
        final = False
        while not final:
            wanted = max(WINDOW, decoder.offset + decoder.wants - base - len(data))
            more = self._window(base + len(data), wanted)
            final = len(more) < wanted
            data = data[decoder.offset - base :] + more
            base = decoder.offset
            try:
                yield from decoder.scan(data, base, final)
            except BadPreamble as error:
                raise NotACapture(self.name, str(error)) from error

    def _window(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset`; fewer only at the end of the file."""
        if not self._seekable:
            return _read_fully(self._fd, size)
        pieces: list[bytes] = []
        while size > 0 and (piece := os.pread(self._fd, min(size, 64 * WINDOW), offset)):
            pieces.append(piece)
            offset, size = offset + len(piece), size - len(piece)
        return b"".join(pieces)


def _read_fully(fd: int, size: int) -> bytes:
    """`size` bytes of a pipe; fewer only at its end."""
    pieces: list[bytes] = []
    while size > 0 and (piece := os.read(fd, min(size, WINDOW))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _decoded(raw: RawRecord) -> Item:
    if raw.flags & ~framing.KNOWN_FLAGS:
        return Unknown(raw.seq, raw.offset, raw.size, raw.type, raw.flags, bytes(raw.body))
    try:
        record = records.decode(raw.type, raw.body)
    except RecordError as error:
        return Damage(raw.offset, raw.size, f"record {raw.seq} is not valid: {error}", raw.seq, raw.seq)
    if record is None:
        return Unknown(raw.seq, raw.offset, raw.size, raw.type, raw.flags, bytes(raw.body))
    return Entry(raw.seq, raw.offset, raw.size, record)


class _Condition:
    """What a whole scan says of a file. FORMAT.md section 9 has the table."""

    def __init__(self) -> None:
        self._end: End | None = None
        self._damage = False
        self._hole = False  # good records follow damage, or a record's checksums are right and its body is not
        self._footer_last = False
        self._tail_size = 0

    def see(self, item: object) -> None:
        """The next item of the scan."""
        if isinstance(item, End):
            self._end = item
        elif isinstance(item, Damage):
            self._damage, self._tail_size = True, item.size
        elif isinstance(item, RawRecord):
            self._damage |= self._end is not None  # nothing may follow the trailer
            self._hole |= self._damage
            self._footer_last = item.type == framing.RecordType.FOOTER

    def see_invalid(self) -> None:
        """A record that no crash leaves behind."""
        self._damage = self._hole = True

    @property
    def condition(self) -> str:
        """The verdict after the last item."""
        if self._end is not None:
            return CLEAN if self._end.agrees and not self._damage else DAMAGED
        bad_trailer = self._footer_last and self._damage and self._tail_size >= TRAILER_SIZE
        return DAMAGED if self._hole or bad_trailer else TORN


def open_capture(path: str | os.PathLike[str], *, stdin: BinaryIO | None = None) -> CaptureReader:
    """`CaptureReader` with the system's errors made into sentences. Raises CaptureError alone."""
    try:
        return CaptureReader(path, stdin=stdin)
    except OSError as error:
        raise CannotOpen(os.fspath(path) or '""', (error.strerror or str(error)).lower()) from error
