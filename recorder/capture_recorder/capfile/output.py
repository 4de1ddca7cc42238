"""Where a capture is written to: a file that gets its name when it is whole, or a pipe.

The file is `NAME.part` until then: created by us alone, mode 0600, locked. A write that fails is cut off again, so that
what is in the file stays whole.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from .errors import CaptureWriteError
from .framing import Buffer

PART: Final = ".part"
_LONGEST: Final = 200  # bytes; 255 are the most that file systems take
_log = logging.getLogger("capture_recorder")


class Output(Protocol):
    """What a capture can be written to. Its methods are those of `PartFile`."""

    path: Path
    part: Path  # where it is meanwhile

    @property
    def offset(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def put(self, parts: Sequence[Buffer], total: int) -> None: ...
    def sync(self) -> None: ...
    def finish(self) -> None: ...
    def abandon(self) -> None: ...
    def discard(self) -> None: ...


class PartFile:
    """A file on the way to `path`. With `replace` a file of that name gives way to it, in the moment that it is whole.
    With `own` its name meanwhile is nobody else's, so that of a recorder is left alone: what it left may be the source.

    Raises CaptureWriteError, from the constructor too.
    """

    def __init__(self, path: str | os.PathLike[str], *, replace: bool = False, own: bool = False) -> None:
        self.path = Path(path)
        if not self.path.name:
            raise CaptureWriteError(os.fspath(path) or '""', "is no name of a file; give another")
        self.part = own_part(self.path) if own else self.path.with_name(self.path.name + PART)
        self._offset = 0
        self._replace, self._own = replace, own
        self._fd = _create(self.path, self.part, replace=replace)

    @property
    def offset(self) -> int:
        """Bytes written."""
        return self._offset

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._fd < 0

    def put(self, parts: Sequence[Buffer], total: int) -> None:
        """All parts, `total` bytes, by one call where the kernel takes them at once. On failure the file is as it was
        before."""
        if self._fd < 0:
            raise CaptureWriteError(str(self.part), "this capture is closed")
        try:
            written = os.writev(self._fd, parts)
            if written < total:
                _write_rest(self._fd, b"".join(parts)[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._offset)
            raise CaptureWriteError(str(self.part), f"cannot be written: {_reason(error)}") from error
        self._offset += total

    def sync(self) -> None:
        """Have the disk confirm what was written so far."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise CaptureWriteError(str(self.part), f"cannot be synced: {_reason(error)}") from error

    def finish(self) -> None:
        """Sync, and give it its name."""
        self.sync()
        try:
            _rename(self.part, self.path, replace=self._replace)
        except OSError as error:
            stays = f"is whole, but stays {self.part.name}" if not self._own else "cannot be given its name"
            raise CaptureWriteError(str(self.path), f"{stays}: {_reason(error)}") from error

    def abandon(self) -> None:
        """Let the file go as it is."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def discard(self) -> None:
        """Let the file go, and remove what there is of it."""
        if not self.closed:
            self.abandon()
            self.part.unlink(missing_ok=True)


def own_part(path: Path) -> Path:
    """The name that a PartFile of this process's own has until it is whole."""
    name = os.fsdecode(os.fsencode(path.name)[:_LONGEST])  # with the rest it still is a name that file systems take
    return path.with_name(f"{name}.{os.getpid()}{PART}")


class Pipe:
    """Standard output, or another descriptor of which we are not the owner: what is written is gone."""

    def __init__(self, fd: int, name: str = "-") -> None:
        self.path = self.part = Path(name)
        self._offset = 0
        self._closed = False
        self._fd = fd

    @property
    def offset(self) -> int:
        """Bytes written."""
        return self._offset

    @property
    def closed(self) -> bool:
        """Whether nothing more is to be written."""
        return self._closed

    def put(self, parts: Sequence[Buffer], total: int) -> None:
        """All parts. A reader that went away is a BrokenPipeError, as everywhere."""
        try:
            _write_rest(self._fd, b"".join(parts))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CaptureWriteError(str(self.path), f"cannot be written: {_reason(error)}") from error
        self._offset += total

    def sync(self) -> None:
        """Nothing that one could wait for."""

    def finish(self) -> None:
        """No name to be given."""

    def abandon(self) -> None:
        """The descriptor is not ours to close."""
        self._closed = True

    discard = abandon


def _create(path: Path, part: Path, *, replace: bool) -> int:
    """Open `part` for us alone. A capture is evidence: nothing that exists is written over."""
    if path.is_dir():
        raise CaptureWriteError(str(path), "is a folder; give the name of a file in it")
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
            fcntl.flock(fd, fcntl.LOCK_EX)  # nobody can have it for longer than a look (CaptureReader.is_being_written)
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
    """Give the finished file its name, if that is still free, and have the folder remember it. Raises OSError."""
    if replace:
        part.replace(path)
    else:
        _name_without_replacing(part, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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
