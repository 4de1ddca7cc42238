"""Small captures for tests: one of every record, damage at will, and what a reader makes of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from capture_recorder.capfile import CaptureReader, CaptureWriter, Damage, Entry, Unknown, open_capture
from capture_recorder.capfile.records import (
    Call,
    Cancel,
    Gap,
    HalfClose,
    Headers,
    Message,
    Meta,
    Note,
    Record,
    Redacted,
    Schema,
    Status,
)

FILE_ID = bytes(range(1, 9))

ONE_OF_EACH: tuple[Record, ...] = (
    Meta(created_ns=1_700_000_000_000_000_000, clock_ns=5, program="test", pid=7, versions={"python": "3"}),
    Schema(services=("a.B",), files=b"\x0a\x00"),
    Call(
        call=1,
        time_ns=1,
        method="/a.B/C",
        kind="bidi",
        peer="ipv4:127.0.0.1:1",
        metadata=(("k", b"v"), ("k", b"w"), ("x-bin", b"\x00\xff"), ("authorization", Redacted(3, b"12345678"))),
        time_left_ns=5_000_000_000,
    ),
    Headers(call=1, time_ns=2, metadata=(("h", b"1"),)),
    Message(call=1, direction=0, index=0, time_ns=3, payload=b"hello"),
    Message(call=1, direction=1, index=0, time_ns=4, payload=b""),
    HalfClose(call=1, time_ns=5),
    Status(call=1, time_ns=6, code=5, message="no such thing", metadata=(("t", b"1"),)),
    Call(call=2, time_ns=7, method="/a.B/D", kind="unary"),
    Cancel(call=2, time_ns=8, why="deadline"),
    Gap(time_ns=9, why="disk full", events=2, size=10),
    Note(text="look here", about=5),
)


def write_capture(path: Path, records: Iterable[Record] = ONE_OF_EACH, *, close: bool = True) -> Path:
    """A capture of these records; without `close`, as a killed recorder leaves it."""
    writer = CaptureWriter(path, file_id=FILE_ID)
    for record in records:
        writer.append(record)
    if close:
        return writer.close()
    writer.abandon()
    writer.part.rename(path)
    return path


class Memory:
    """An output that keeps what is written to it: for rewriters, where a file would only take time."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.path = self.part = Path("memory")
        self.closed = self.finished = self.discarded = False

    @property
    def offset(self) -> int:
        return len(self.data)

    def put(self, parts: Sequence[bytes], total: int) -> None:
        for part in parts:
            self.data += part
        assert total == sum(map(len, parts))

    def sync(self) -> None: ...

    def finish(self) -> None:
        self.finished = True

    def abandon(self) -> None:
        self.closed = True

    def discard(self) -> None:
        self.closed = self.discarded = True


@contextlib.contextmanager
def opened_bytes(data: bytes, *, salvage: bool = False) -> Iterator[CaptureReader]:
    """A reader of a capture that is in memory, through a file of the kernel's."""
    fd = os.memfd_create("capture")
    try:
        os.write(fd, data)
        with open_capture(f"/proc/self/fd/{fd}", salvage=salvage) as reader:
            yield reader
    finally:
        os.close(fd)


def read_all(path: Path) -> tuple[str, list[Entry | Unknown | Damage]]:
    """The condition of a file and every item of a scan."""
    with open_capture(path) as reader:
        items = list(reader.scan())
        return reader.condition, items


def events(path: Path) -> list[Record]:
    """The good records of known types."""
    return [item.record for item in read_all(path)[1] if isinstance(item, Entry)]


def messages(path: Path, call: int, direction: int) -> list[bytes]:
    """The payloads of one direction of a call."""
    return [r.payload for r in events(path) if isinstance(r, Message) and r.call == call and r.direction == direction]


def unary(
    call: int,
    request: bytes = b"q",
    responses: Sequence[bytes] = (b"a",),
    *,
    method: str = "/s/M",
    start: int = 0,
    code: int = 0,
) -> list[Record]:
    """The events of a whole unary call."""
    return [
        Call(call=call, time_ns=start, method=method, kind="unary"),
        Message(call=call, direction=0, index=0, time_ns=start + 1, payload=request),
        *(
            Message(call=call, direction=1, index=i, time_ns=start + 2, payload=payload)
            for i, payload in enumerate(responses)
        ),
        Status(call=call, time_ns=start + 3, code=code),
    ]


def readable(value: object) -> object:
    """A value of a record as the JSON beside a golden capture has it."""
    match value:
        case bytes():
            return {"hex": value.hex()}
        case list() | tuple():
            return [readable(item) for item in value]
        case dict():
            return {key: readable(item) for key, item in value.items()}
        case Redacted():
            return {"len": value.length, "mac": {"hex": value.digest.hex()}}
    return value
