"""What can go wrong with a capture file. The tree is flat; each error carries its data and makes its own sentence.

CaptureError
├── CannotOpen           the system would not open it
├── CannotRead           the system would not read it
├── NotACapture          the file is something else, or its preamble is destroyed
├── UnsupportedCapture   a capture, of a version or with features that this reader does not know
├── NotWhole             a capture that is torn or damaged, where a whole one is needed
├── NothingLeft          nothing of a capture was asked for
├── RecordError          a record whose checksum is right and whose body is not what FORMAT.md says
├── ForeignForm          a file of another form that does not hold what that form has to
└── CaptureWriteError    the file could not be created or written
"""

from __future__ import annotations

from dataclasses import dataclass


class CaptureError(Exception):
    """Base of every error of this package; `str()` is one sentence for people."""


@dataclass(eq=False)
class CannotOpen(CaptureError):
    """`why` is what the system answered."""

    file: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}: cannot be opened: {self.why}"


@dataclass(eq=False)
class CannotRead(CaptureError):
    """`why` is what the system answered at `offset`, in bytes."""

    file: str
    offset: int
    why: str

    def __str__(self) -> str:
        return (
            f"{self.file}: cannot be read at offset {self.offset}: {self.why}; "
            "copy what can be read to another disk, and recover that"
        )


@dataclass(eq=False)
class NotACapture(CaptureError):
    """`why` is a clause that follows "not a capture: "; `offset` is where it was seen, in bytes. `recoverable`: records
    can be read nevertheless."""

    file: str
    why: str
    offset: int = 0
    recoverable: bool = False

    def __str__(self) -> str:
        if self.recoverable:
            return (
                f"{self.file}: a damaged capture: {self.why} (offset {self.offset}); "
                "its records can be read: make a clean capture of them with `capture-file recover`"
            )
        return f"{self.file}: not a capture: {self.why} (offset {self.offset})"


@dataclass(eq=False)
class UnsupportedCapture(CaptureError):
    """A newer layout: `found` says what the file asks for, `known` what this reader has."""

    file: str
    found: str
    known: str

    def __str__(self) -> str:
        return (
            f"{self.file}: a capture of {self.found}, which this reader does not know "
            f"(it reads {self.known}); use a newer capture-replay"
        )


@dataclass(eq=False)
class NotWhole(CaptureError):
    """`what` was to be done with the capture; `why` and `offset` (bytes) say what is wrong with it."""

    file: str
    what: str
    offset: int
    why: str

    def __str__(self) -> str:
        return (
            f"{self.file}: cannot {self.what}: the capture is not whole at offset {self.offset}: {self.why}; "
            "make a clean one of it first: `capture-file recover`"
        )


@dataclass(eq=False)
class NothingLeft(CaptureError):
    """`why` says what was asked for, and is not in it."""

    file: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}: {self.why}"


@dataclass(eq=False)
class RecordError(CaptureError):
    """A record body that breaks the specification; `why` names the key."""

    why: str

    def __str__(self) -> str:
        return self.why


@dataclass(eq=False)
class ForeignForm(CaptureError):
    """`where` is a place in a file that is to be converted ("line 7"), `why` a clause."""

    file: str
    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}: {self.where}: {self.why}"


@dataclass(eq=False)
class CaptureWriteError(CaptureError):
    """The capture could not be created or written; `why` says what the system answered and what to do."""

    file: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}: {self.why}"
