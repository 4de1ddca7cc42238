"""Reads a capture from its beginning: every byte is seen, every checksum held, and the file's condition told.

Bytes come in windows through `pread`, so memory stays flat, a pipe reads as well as a file, and a file that shrinks
while it is read is a torn capture and not a bus error. To one record by the index: catalog.py.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple, Self, TypeVar

from . import codec, framing
from .decoder import DAMAGED, Damage, Decoder, RawRecord
from .errors import CannotOpen, CannotRead, NotACapture, RecordError, UnsupportedCapture
from .framing import FIRST_SKIPPABLE, HEAD_SIZE, PREAMBLE_SIZE, TRAILER_SIZE, Preamble, Trailer
from .records import Record

WINDOW: Final = 1024 * 1024  # bytes a read: large enough that the call does not count, small enough to stay in cache
NEARBY: Final = 64 * 1024  # likewise from an entry of the index to the record that is sought
ONE_RECORD: Final = 4096  # likewise where one record is wanted, and it is known where
T = TypeVar("T")


class Entry(NamedTuple):
    """A good record and where it stands. `seq` is its number, from 1; an event is called by it. `offset` and `size` are
    in bytes; of a record out of a block, `offset` is the block's, and `size` is what it would be outside of one."""

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
    """An open capture: a path, or what is open as `stdin`, by whatever name. A context manager. With `salvage` a file
    is opened whose preamble is damaged, if records can be read by what is left of it.

    Raises NotACapture, UnsupportedCapture and OSError when opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, stdin: BinaryIO | None = None, salvage: bool = False) -> None:
        self.name = os.fspath(path)
        self.watch: Callable[[int], None] | None = None  # is told how far a scan is, in bytes, before each window
        self.preamble_fault: str | None = None  # what is wrong with it, of a file that was opened nevertheless
        self._condition: str | None = None
        if stdin is not None:
            self._fd = os.dup(stdin.fileno())  # `stdin` may be a file that goes when nobody has it
        else:
            self._fd = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            mode = os.fstat(self._fd).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(21, "is a folder, not a capture", self.name)
            self._seekable = stat.S_ISREG(mode)
            self._start = b"" if self._seekable else _read_fully(self._fd, PREAMBLE_SIZE)
            self.preamble = self._open_preamble(salvage)
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
        if fd >= 0:
            os.close(fd)

    @property
    def size(self) -> int | None:
        """Bytes of the file as it is now; None for a pipe."""
        return os.fstat(self._fd).st_size if self._seekable else None

    @property
    def is_being_written(self) -> bool:
        """Whether the process that creates it holds its lock. False where the file system has no locks."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return False

    @property
    def condition(self) -> str:
        """`clean`, `torn` or `damaged`; found by the last `scan` that ran to its end, or by one made for it."""
        if self._condition is None:
            for _ in self._decoded(lambda *_: None):
                pass
        assert self._condition is not None
        return self._condition

    def _open_preamble(self, salvage: bool) -> Preamble:
        data = os.pread(self._fd, PREAMBLE_SIZE, 0) if self._seekable else self._start
        if not data:
            raise NotACapture(self.name, "the file is empty")
        preamble = framing.parse_preamble(data)
        if isinstance(preamble, str):
            left = self._salvaged(data)
            if left is None or not salvage:
                raise NotACapture(self.name, preamble, recoverable=left is not None)
            self.preamble_fault = preamble
            return left
        known = f"version {framing.MAJOR}"
        if preamble.major != framing.MAJOR:
            raise UnsupportedCapture(self.name, f"format version {preamble.major}", known)
        unknown = preamble.features & ~framing.KNOWN_FEATURES
        if unknown:
            bits = ", ".join(str(bit) for bit in range(32) if unknown >> bit & 1)
            raise UnsupportedCapture(self.name, f"format version {preamble.major} with feature {bits}", known)
        return preamble

    def _salvaged(self, data: bytes) -> Preamble | None:
        """A preamble for a file whose own is damaged: by an id under which the first records that are found check."""
        size = self.size
        if size is None or len(data) < PREAMBLE_SIZE:
            return None
        start = os.pread(self._fd, WINDOW, 0)
        trailer = framing.parse_trailer(os.pread(self._fd, TRAILER_SIZE, max(0, size - TRAILER_SIZE)))
        for file_id in framing.likely_ids(data, trailer):
            if framing.has_records(start, file_id):
                return Preamble(framing.MAJOR, framing.MINOR, framing.KNOWN_FEATURES, file_id)
        return None

    def scan(self) -> Iterator[Item]:
        """Every record and every damage in file order; at its end `condition` is known. A pipe is read once only."""
        return self._decoded(_entry)

    def raw(self) -> Iterator[tuple[RawRecord, Entry | Unknown] | Damage]:
        """As `scan`, each record with its body as it stands: for rewriters. The body is good until the next step."""
        return self._decoded(_raw_and_entry)

    def entries(self) -> Iterator[Entry]:
        """The good records of known types in file order."""
        return (item for item in self.scan() if type(item) is Entry)

    def follow(self, idle: Callable[[], bool]) -> Iterator[Item]:
        """As `scan`, of a file that is being written: at what is its end for now, `idle` is asked whether to go on.
        It ends with the trailer, too."""
        decoder = Decoder(self.preamble, _entry)
        state = (0, 0)
        while not decoder.ended:
            if state == (decoder.offset, decoder.wants) and not idle():
                yield from self._windows(decoder, decoder.offset, WINDOW)
                break
            state = (decoder.offset, decoder.wants)
            if decoder.offset > (self.size or 0):
                raise CannotRead(self.name, decoder.offset, "the file is shorter now than what was read of it")
            # read anew each time: a write that failed is cut off again, and other bytes come in its place
            data = os.pread(self._fd, max(WINDOW, decoder.wants), decoder.offset)
            yield from decoder.scan(data, decoder.offset, final=False)
        self._condition = decoder.condition

    def from_offset(self, offset: int, window: int = NEARBY) -> Iterator[Item]:
        """As `scan`, from a record or block at `offset` on, in windows of so many bytes; nothing where none begins
        there. `condition` stays."""
        seed = framing.seed_of(self.preamble.file_id)
        data = os.pread(self._fd, HEAD_SIZE, offset)
        head = framing.parse_head(seed, data) if len(data) == HEAD_SIZE else None
        if head is None:
            return
        decoder = Decoder(self.preamble, _entry, self.size)
        decoder.offset, decoder.last_seq = offset, head.seq - 1
        yield from self._windows(decoder, offset, window)

    def chunks(self, size: int) -> Iterator[bytes]:
        """The file's bytes, in pieces of `size`."""
        offset = 0
        while piece := os.pread(self._fd, size, offset):
            yield piece
            offset += len(piece)

    def is_file(self, path: str | os.PathLike[str]) -> bool:
        """Whether this is the file at `path`, by whatever name it was opened."""
        return os.path.samestat(os.fstat(self._fd), os.stat(path))  # noqa: PTH116 - of either a str or a Path

    def trailer(self) -> Trailer | None:
        """The file's last 40 bytes, where they are a trailer of it."""
        size = self.size
        if size is None or size < PREAMBLE_SIZE + TRAILER_SIZE:
            return None
        trailer = framing.parse_trailer(os.pread(self._fd, TRAILER_SIZE, size - TRAILER_SIZE))
        return trailer if trailer is not None and trailer.file_id == self.preamble.file_id else None

    def _decoded(self, make: Callable[[int, int, int, int, int, memoryview], T]) -> Iterator[T | Damage]:
        """The decoder over the whole file."""
        decoder = Decoder(self.preamble, make, self.size)
        if self.preamble_fault is not None:
            yield Damage(0, PREAMBLE_SIZE, self.preamble_fault)
        yield from self._windows(decoder, PREAMBLE_SIZE, WINDOW)
        self._condition = decoder.condition if self.preamble_fault is None else DAMAGED

    def _windows(self, decoder: Decoder[T], base: int, window: int) -> Iterator[T | Damage]:
        """Feeds a decoder from `base` on. One buffer serves for all windows: fresh memory would cost as much as the
        checksums."""
        buffer, filled, final = bytearray(window), 0, False
        while not final:
            if self.watch is not None:
                self.watch(base)
            wanted = decoder.offset + decoder.wants - base
            if wanted > len(buffer):  # of a pipe a length cannot be held against the file, so memory follows what came
                size = wanted if self._seekable else min(wanted, 2 * len(buffer))
                buffer = buffer[:filled] + bytearray(size - filled)
            room = len(buffer) - filled
            came = self._fill(memoryview(buffer)[filled:], base + filled)
            filled += came
            final = came < room
            yield from decoder.scan(buffer, base, final, filled)
            done = min(decoder.offset - base, filled)
            view = memoryview(buffer)
            view[: filled - done] = view[done:filled]
            base, filled = base + done, filled - done

    def _fill(self, room: memoryview, offset: int) -> int:
        """Fills `room` with what stands at `offset`; how much came is less only at the end of the file."""
        came = 0
        while came < len(room):
            piece = room[came:]
            try:
                got = os.preadv(self._fd, [piece], offset + came) if self._seekable else os.readv(self._fd, [piece])
            except OSError as error:
                raise CannotRead(self.name, offset + came, (error.strerror or str(error)).lower()) from error
            if got == 0:
                break
            came += got
        return came


def _read_fully(fd: int, size: int) -> bytes:
    """`size` bytes of a pipe; fewer only at its end."""
    pieces: list[bytes] = []
    while size > 0 and (piece := os.read(fd, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _entry(seq: int, offset: int, size: int, kind: int, flags: int, body: memoryview) -> Entry | Unknown:
    """What a record says. Raises RecordError."""
    record: Record | None = None
    if kind == _MESSAGE and not flags:  # nearly every record
        record = codec.plain_message(body)
    if flags and kind in framing.FLAGLESS:
        raise RecordError("it has a flag, and records of its type have none")
    if record is None:
        record = None if flags & ~framing.KNOWN_FLAGS else codec.decode(kind, body)
    if record is None:
        return Unknown(seq, offset, size, kind, flags, bytes(body))
    return _new_entry(Entry, (seq, offset, size, record))


_MESSAGE: Final = int(framing.RecordType.MESSAGE)
_new_entry = tuple.__new__  # a NamedTuple's own constructor takes twice as long


def _raw_and_entry(
    seq: int, offset: int, size: int, kind: int, flags: int, body: memoryview
) -> tuple[RawRecord, Entry | Unknown]:
    return RawRecord(seq, offset, size, kind, flags, body), _entry(seq, offset, size, kind, flags, body)


def open_capture(
    path: str | os.PathLike[str], *, stdin: BinaryIO | None = None, salvage: bool = False
) -> CaptureReader:
    """`CaptureReader` with the system's errors made into sentences. Raises CaptureError alone."""
    try:
        return CaptureReader(path, stdin=stdin, salvage=salvage)
    except OSError as error:
        raise CannotOpen(os.fspath(path) or '""', (error.strerror or str(error)).lower()) from error
    except ValueError as error:  # a NUL in it, or half of a surrogate pair
        raise CannotOpen(os.fspath(path), "no file can have this name") from error
