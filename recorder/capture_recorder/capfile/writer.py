"""Writes a capture: one record at a time, each with one system call, nothing kept back.

The file is `NAME.part` (created by us alone, mode 0600, locked) until `close` has written footer and trailer and
renames it, so that a name without `.part` stands for a whole capture. Payloads are not copied on the way.
A write that fails is cut off again, so that what is in the file stays whole.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from . import framing, records
from .errors import CaptureWriteError
from .framing import Buffer, Preamble, Trailer
from .index import Index

PART: Final = ".part"
_log = logging.getLogger("capture_recorder")


class CaptureWriter:
    """An open capture. Not for several threads at once: whoever shares it holds a lock.

    Raises CaptureWriteError, from the constructor too.
    """

    def __init__(self, path: str | os.PathLike[str], *, file_id: bytes | None = None, replace: bool = False) -> None:
        self.path = Path(path)
        self.part = self.path.with_name(self.path.name + PART)
        self.file_id = file_id if file_id is not None else os.urandom(8)
        self.seq = 0  # of the last record written
        self.offset = 0  # where the next record begins
        self._seed = framing.seed_of(self.file_id)
        self._index = Index()
        self._replace = replace  # a file of that name, when this one is whole
        self._fd = _create(self.path, self.part, replace=replace)
        try:
            self._put(framing.pack_preamble(Preamble(framing.MAJOR, framing.MINOR, 0, self.file_id)))
        except CaptureWriteError:
            os.close(self._fd)
            self.part.unlink(missing_ok=True)
            raise

    @property
    def closed(self) -> bool:
        """Whether `close` or `abandon` was called."""
        return self._fd < 0

    def append(self, record: records.Record) -> int:
        """Write one record; its number. When this returns, the kernel has it. Raises CaptureWriteError, and then the
        record is not in the file."""
        seq = self._append(record)
        self._checkpoint_if_due()
        return seq

    def append_raw(self, kind: int, flags: int, body: Buffer, record: records.Record | None = None) -> int:
        """Write a record whose body is packed already, as it is; for rewriters, which keep what they do not know.
        `record` is what it says, where that is known."""
        offset = self.offset
        seq = self._frame(kind, flags, body, b"")
        if record is not None:
            self._index.add(record, seq, offset)
            self._checkpoint_if_due()
        return seq

    def _checkpoint_if_due(self) -> None:
        if self._index.is_due:
            with contextlib.suppress(CaptureWriteError):  # an index is a hint; the record before it is in the file
                self._append(self._index.checkpoint())

    def _append(self, record: records.Record) -> int:
        offset = self.offset
        prefix, payload = records.encode(record)
        seq = self._frame(record.TYPE, 0, prefix, payload)
        self._index.add(record, seq, offset)
        return seq

    def _frame(self, kind: int, flags: int, prefix: Buffer, payload: bytes) -> int:
        length = len(prefix) + len(payload)
        if length > framing.MAX_BODY:
            raise CaptureWriteError(str(self.part), f"a record of {length:,} bytes is more than the format can hold")
        seq = self.seq + 1
        head = framing.pack_head(self._seed, kind, flags, seq, length)
        tail = framing.pack_tail(self._seed, head, prefix, payload)
        self._put(head, prefix, payload, tail)
        self.seq = seq
        return seq

    def _put(self, *parts: Buffer) -> None:
        """All parts, by one call where the kernel takes them at once. On failure the file is as it was before."""
        if self._fd < 0:
            raise CaptureWriteError(str(self.part), "this capture is closed")
        total = sum(map(len, parts))
        try:
            written = os.writev(self._fd, parts)
            if written < total:
                _write_rest(self._fd, b"".join(parts)[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.offset)
            raise CaptureWriteError(str(self.part), f"cannot be written: {_reason(error)}") from error
        self.offset += total

    def sync(self) -> None:
        """Have the disk confirm what was written so far."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise CaptureWriteError(str(self.part), f"cannot be synced: {_reason(error)}") from error

    def close(self) -> Path:
        """Write footer and trailer, sync, rename; the capture's path. A second call does nothing."""
        if self._fd < 0:
            return self.path
        try:
            footer_offset = self.offset
            checkpoint = self._index.checkpoint()
            if checkpoint.records:
                self._append(checkpoint)
                footer_offset = self.offset
            self._append(self._index.footer())
            self._put(framing.pack_trailer(Trailer(footer_offset, self.seq, self.file_id)))
            self.sync()
            _rename(self.part, self.path, replace=self._replace)
        finally:
            self.abandon()
        return self.path

    def replace_by(self, pieces: Iterable[bytes]) -> Path:
        """Make the file a copy of another capture, to the byte, and give it its name."""
        self.offset = 0
        os.ftruncate(self._fd, 0)
        try:
            for piece in pieces:
                self._put(piece)
            self.sync()
            _rename(self.part, self.path, replace=self._replace)
        finally:
            self.abandon()
        return self.path

    def discard(self) -> None:
        """Let the file go, and remove what there is of it."""
        if not self.closed:
            self.abandon()
            self.part.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Let the file go as it is: a `.part` that any reader opens as torn."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _create(path: Path, part: Path, *, replace: bool) -> int:
    """Open `part` for us alone. A capture is evidence: nothing that exists is written over."""
    if path.exists() and not replace:
        raise CaptureWriteError(str(path), "exists already, and a capture is never written over; give another name")
    for _ in range(2):
        try:
            fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            _set_aside(path, part)
            continue
        except OSError as error:
            raise CaptureWriteError(str(path), f"cannot be created: {_reason(error)}") from error
        with contextlib.suppress(OSError):  # a file system without locks still has O_EXCL
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd
    raise CaptureWriteError(str(part), "is being created by another process; give each process its own name")


def _set_aside(path: Path, part: Path) -> None:
    """What a killed recorder left behind keeps its bytes under another name; what a live one writes is not touched."""
    try:
        fd = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise CaptureWriteError(str(part), f"is in the way: {_reason(error)}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        why = "is being written by another process; give each process its own name, or a folder"
        raise CaptureWriteError(str(part), why) from error
    finally:
        os.close(fd)
    number = 1
    while (aside := path.with_name(f"{path.stem}.torn-{number}{path.suffix}")).exists():
        number += 1
    part.rename(aside)
    _log.warning("%s was left by a recorder that did not close it; kept as %s", part, aside)


def _rename(part: Path, path: Path, *, replace: bool) -> None:
    """Give the finished file its name, if that is still free, and have the folder remember it."""
    try:
        if replace:
            part.replace(path)
        else:
            _name_without_replacing(part, path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise CaptureWriteError(str(path), f"is whole, but stays {part.name}: {_reason(error)}") from error


def _name_without_replacing(part: Path, path: Path) -> None:
    try:
        os.link(part, path)  # unlike rename, never replaces
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS) or path.exists():
            raise
        part.rename(path)  # a file system without links
    else:
        part.unlink()


def _write_rest(fd: int, rest: bytes) -> None:
    while rest:
        rest = rest[os.write(fd, rest) :]


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower() if error.errno else str(error)
