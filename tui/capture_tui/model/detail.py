"""Metadata and status of a call, and what there is to say of an event that is no message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from capture_recorder.capfile import wire
from capture_recorder.capfile.records import Call, Cancel, Gap, Headers, Metadata, Redacted, Status
from capture_recorder.status import status_name
from capture_recorder.text import ascii_bytes, counted, hex_lines, human_duration

from .document import Document
from .frame import Frame
from .paint import Line, clean
from .rows import Rows
from .tree import Tree

DETAILS: Final = "grpc-status-details-bin"
_VALUE: Final = 4_096  # characters of a value
_ROWS: Final = 200


def metadata_lines(document: Document, frame: Frame) -> Iterator[Line]:
    """Everything that a call has besides its messages: opening, headers, trailers, status. Of a frame without a call,
    what it is."""
    if frame.record is None:
        for damage in frame.damage:
            yield [("✗ ", "error"), (clean(str(damage), _VALUE), "error")]
        if frame.unknown is not None:
            yield [(f"A record of type {frame.unknown.type}: this version does not know what it means.", "warn")]
        return
    if isinstance(frame.record, Gap):
        yield [("! ", "warn"), (f"{counted(frame.record.events, 'event')} were not recorded", "warn")]
        yield [("  why  ", "dim"), (clean(frame.record.why, _VALUE), "text")]
    if not frame.call:
        return
    opening = document.opening(frame.call)
    if opening is None:
        yield [("The opening of this call is not in the capture.", "warn")]
    else:
        yield from _opening(opening)
    for key in _others(document.rows_of(frame.call)):
        other = document.frame(key)
        if other is not None:
            yield from _event(other)


def _others(rows: Rows) -> list[int]:
    """The first and the last frames of a call: headers and status are among them."""
    size = rows.size
    if size <= 2 * _ROWS:
        return rows.window(0, size)
    return [*rows.window(0, _ROWS), *rows.window(size - _ROWS, _ROWS)]


def _opening(call: Call) -> Iterator[Line]:
    yield [("Call ", "strong"), (f"#{call.call}", "key"), (f"  {clean(call.method, _VALUE)}", "strong")]
    yield [("  kind      ", "dim"), (clean(call.kind.replace("_", " "), 60), "text")]
    if call.peer:
        yield [("  peer      ", "dim"), (clean(call.peer, _VALUE), "text")]
    if call.time_left_ns is not None:
        yield [("  deadline  ", "dim"), (f"{human_duration(max(0, call.time_left_ns))} after the call came in", "text")]
    yield from _metadata("Request headers", call.metadata)


def _event(frame: Frame) -> Iterator[Line]:
    match frame.record:
        case Headers(metadata=metadata):
            yield from _metadata(f"Response headers, event {frame.seq}", metadata)
        case Status(code=code, message=message, metadata=metadata):
            yield []
            yield [(f"Status, event {frame.seq}", "strong")]
            yield [
                ("  code      ", "dim"),
                (f"{'✓' if code == 0 else '✗'} {status_name(code)} ({code})", "good" if code == 0 else "error"),
            ]
            if message:
                yield [("  message   ", "dim"), (clean(message, _VALUE), "text")]
            yield from _metadata("Trailers", metadata)
        case Cancel(why=why):
            yield []
            yield [(f"Cancelled by the {clean(why, 60)}, event {frame.seq}", "warn")]
        case _:
            pass


def _metadata(title: str, metadata: Metadata) -> Iterator[Line]:
    yield []
    yield [(title, "strong"), ("" if metadata else "  none", "dim")]
    wide = min(28, max((len(key) for key, _ in metadata), default=0))
    for key, value in metadata:
        name = (f"  {clean(key, 60):<{wide}}  ", "key")
        if isinstance(value, Redacted):
            yield [name, ("<redacted>", "warn")]  # type: ignore[list-item]
        elif key == DETAILS:
            yield [name, (f"{len(value):,} bytes", "dim")]  # type: ignore[list-item]
            yield from details_lines(value)
        elif key.endswith("-bin"):
            yield [name, (value[:_VALUE].hex(" ") or "(empty)", "bytes")]  # type: ignore[list-item]
        else:
            yield [name, (clean(ascii_bytes(value), _VALUE), "string")]  # type: ignore[list-item]


def details_lines(value: bytes) -> Iterator[Line]:
    """`grpc-status-details-bin`: a google.rpc.Status (code = 1, message = 2, details = 3, each an Any), which says more
    of an error than a code can. https://github.com/googleapis/googleapis/blob/master/google/rpc/status.proto"""
    try:
        for item in wire.fields(value):
            raw = value[item.start : item.end]
            if item.number == 1 and item.value is not None:
                yield [("    code     ", "dim"), (status_name(item.value), "error")]
            elif item.number == 2 and item.wire_type == wire.BYTES:
                yield [("    message  ", "dim"), (clean(raw.decode("utf-8", "backslashreplace"), _VALUE), "text")]
            elif item.number == 3 and item.wire_type == wire.BYTES:
                yield from _any(raw)
            else:
                yield [(f"    #{item.number}", "dim"), (f"  {raw[:64].hex(' ')}", "value")]
    except wire.WireError as error:
        yield [(f"    ✗ not a google.rpc.Status: {error}", "error")]
        for line in list(hex_lines(value[:1_024])):
            yield [(f"    {line}", "bytes")]


def _any(raw: bytes) -> Iterator[Line]:
    url, body = "(no type)", b""
    for item in wire.fields(raw):
        if item.number == 1 and item.wire_type == wire.BYTES:
            url = raw[item.start : item.end].decode("utf-8", "backslashreplace")
        elif item.number == 2 and item.wire_type == wire.BYTES:
            body = raw[item.start : item.end]
    yield [("    detail   ", "dim"), (clean(url.rpartition("/")[2], _VALUE), "type"), (f"  {len(body):,} bytes", "dim")]
    for node in Tree(body).rows:
        yield [("    ", "text"), *node.line()]
