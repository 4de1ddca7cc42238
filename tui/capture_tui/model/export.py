"""What leaves the viewer: a frame as JSON or hexadecimal, and commands that do again what the capture shows."""

from __future__ import annotations

import json
import shlex
from typing import Any, Final

from capture_recorder.capfile.records import DIRECTIONS, REQUEST, Call, Redacted, Status
from capture_recorder.status import status_name

from .document import Document
from .frame import Frame, key_of

_MESSAGES: Final = 100  # of a call that a command line has room for


def frame_json(document: Document, frame: Frame) -> str:
    """The frame as one JSON object."""
    body: dict[str, Any] = {"event": frame.seq, "kind": frame.kind, "call": frame.call, "method": frame.method or None}
    body["time_ns"] = frame.time_ns
    if frame.direction is not None:
        body["direction"] = DIRECTIONS[frame.direction]
    if frame.message is not None:
        decoded, reading = document.read(frame)
        body |= {"index": frame.message.index, "size": frame.size, "type": decoded.type_name, "error": reading.error}
        body["message"] = document.schemas.as_json(decoded)
        if body["message"] is None:
            body["payload_hex"] = frame.message.payload.hex()
    if isinstance(frame.record, Status):
        body |= {"code": status_name(frame.record.code), "message": frame.record.message}
    if frame.damage:
        body["damage"] = [str(damage) for damage in frame.damage]
    return json.dumps({key: value for key, value in body.items() if value is not None}, ensure_ascii=True, indent=2)


def replay_command(document: Document, frame: Frame | None) -> str:
    """The command that replays the frame's call, or the whole capture."""
    words = ["capture-replay", document.path]
    if frame is not None and frame.call:
        words += ["--call", str(frame.call)]
    return shlex.join(words) + " --target HOST:PORT"


def grpcurl_command(document: Document, frame: Frame) -> str | None:
    """The command that sends the requests of the frame's call up to it by grpcurl; None where they cannot be JSON. A
    stream that waits for an answer before it goes on is not what grpcurl does: `replay_command` is."""
    opening = document.opening(frame.call) if frame.call else None
    if opening is None:
        return None
    words = ["grpcurl", "-plaintext", *_headers(opening)]
    messages: list[str] = []
    rows = document.rows_of(opening.call)
    for other in document.items(rows.window(0, min(rows.size, 10_000))):
        if other.key > max(frame.key, key_of(0)) and messages:
            break
        if other.message is not None and other.message.direction == REQUEST:
            body = document.schemas.as_json(document.read(other)[0])
            if body is None or len(messages) == _MESSAGES:
                return None
            messages.append(json.dumps(body))
    if messages:
        words += ["-d", " ".join(messages)]
    return shlex.join(words) + f" HOST:PORT {shlex.quote(opening.method.strip('/'))}"


def _headers(opening: Call) -> list[str]:
    words: list[str] = []
    for key, value in opening.metadata:
        if not isinstance(value, Redacted) and key not in ("user-agent", "content-type", "te") and value.isascii():
            words += ["-H", f"{key}: {value.decode()}"]
    return words
