"""The prototype's JSON lines: `{"requests": [hex…], "responses": [hex…]}` for each Session.

It holds no order between requests and responses; they are taken to alternate, as those of ShardRuntime do.
"""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import Any, BinaryIO, Final

from ..capfile import CaptureReader, CaptureWriter
from ..capfile.errors import ForeignForm
from ..capfile.output import Output
from ..capfile.reader import Entry
from ..capfile.records import REQUEST, RESPONSE, Call, Gap, HalfClose, Message, Meta, Schema
from ..capfile.rewrite import whole
from ..jsonl import Sessions
from .lines import first_object, objects

METHOD: Final = "/shard_runtime.v1.ShardRuntime/Session"  # the only one that the prototype recorded


def looks_like(head: bytes) -> bool:
    """See `Form`."""
    line = first_object(head)
    if line is None:
        return False
    try:
        return "requests" in json.loads(line)
    except ValueError:  # a long line is cut
        return line[1:].lstrip().startswith(('"requests"', '"responses"'))


def load(stream: BinaryIO, name: str, output: Output) -> list[str]:
    """See the package."""
    writer = CaptureWriter(output)
    try:
        writer.append(
            Meta(created_ns=0, clock_ns=0, derived={"from": [], "by": "convert of the prototype's JSON lines"})
        )
        for call, (where, session) in enumerate(objects(stream, name), 1):
            _session(writer, call, _messages(session, name, where))
        writer.close()
    except BaseException:
        writer.discard()
        raise
    return [
        "it has no order between requests and responses: they alternate in the capture",
        "it has no times, metadata and statuses: calls are without",
        f"it has no methods: they are {METHOD}",
    ]


def _messages(session: dict[str, Any], name: str, where: str) -> tuple[list[bytes], list[bytes]]:
    found = []
    for key in ("requests", "responses"):
        try:
            found.append([bytes.fromhex(text) for text in session[key]])
        except (KeyError, TypeError, ValueError) as error:
            raise ForeignForm(name, where, f"{key!r} is not a list of messages in hex") from error
    return found[0], found[1]


def _session(writer: CaptureWriter, call: int, messages: tuple[list[bytes], list[bytes]]) -> None:
    writer.append(Call(call=call, time_ns=0, method=METHOD, kind="bidi"))
    for index, pair in enumerate(zip_longest(*messages)):
        for direction, payload in zip((REQUEST, RESPONSE), pair, strict=True):
            if payload is not None:
                writer.append(Message(call=call, direction=direction, index=index, time_ns=0, payload=payload))
    writer.append(HalfClose(call=call, time_ns=0))


def save(reader: CaptureReader, output: Output) -> list[str]:
    """See the package."""
    sessions, others, kinds = Sessions(), 0, set()
    try:
        for _, decoded in whole(reader, "convert it"):
            if not isinstance(decoded, Entry):
                kinds.add("records of later versions")
                continue
            record = decoded.record
            line = sessions.take(record)
            if line is not None:
                output.put((line,), len(line))
            if isinstance(record, Call):
                others += record.kind != "bidi"
            elif isinstance(record, Schema):
                kinds.add("schemas")
            elif isinstance(record, Gap):
                kinds.add("gaps: the lines look whole where the capture is not")
        for line in sessions.rest():
            output.put((line,), len(line))
        output.finish()
        output.abandon()
    except BaseException:
        output.discard()
        raise
    lost = [
        "the order between requests and responses",
        "times, metadata, half-closes and statuses, and what the capture tells of its recorder",
        *sorted(kinds),
    ]
    return ([f"{others:,} calls that are not bidirectional"] if others else []) + lost
