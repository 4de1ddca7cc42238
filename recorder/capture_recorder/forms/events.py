"""JSON lines of events: one object a record, with all that is in it, so that the capture comes back to the byte.

    {"capture": {"format": "1.0", "id": "…", "index": true}}
    {"seq": 5, "record": "message", "call": 1, "direction": 0, "index": 0, "time_ns": 3, "payload": {"base64": "aGk="}}

Bytes are `{"base64": …}`. A map that could be mistaken for that is `{"map": {…}}`. Keys that no version of ours knows
are in `extra`. Where JSON does not give the record's very bytes back, they are there too, as `body`.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, BinaryIO, Final

import msgpack

from ..capfile import CaptureReader, CaptureWriter, codec
from ..capfile.decoder import RawRecord
from ..capfile.errors import ForeignForm, RecordError
from ..capfile.framing import KNOWN_FLAGS, RecordType
from ..capfile.output import Output
from ..capfile.reader import Entry, Unknown
from ..capfile.records import Checkpoint, Footer, Meta, table
from ..capfile.rewrite import Copier, whole
from .lines import first_object, objects

_NAMES: Final = {kind.value: kind.name.lower() for kind in RecordType if kind != RecordType.BLOCK}
_TYPES: Final = {name: kind for kind, name in _NAMES.items()}
_DEEPEST: Final = 100
_TAGS: Final = frozenset(("base64", "map"))


class _NotPlain(ValueError):
    """A value that JSON has no form for."""


def looks_like(head: bytes) -> bool:
    """See `Form`."""
    line = first_object(head)
    return line is not None and line[1:].lstrip().startswith(('"capture"', '"seq"', '"record"'))


# --- out of a capture -------------------------------------------------------------------------------------------------


def save(reader: CaptureReader, output: Output) -> list[str]:
    """See the package. Nothing is lost."""
    preamble = reader.preamble
    head = {"format": f"{preamble.major}.{preamble.minor}", "id": preamble.file_id.hex(), "index": True}
    try:
        _put(output, {"capture": head})
        for raw, decoded in whole(reader, "convert it"):
            _put(output, _object(raw, decoded))
        output.finish()
        output.abandon()
    except BaseException:
        output.discard()
        raise
    return []


def _put(output: Output, body: dict[str, Any]) -> None:
    line = json.dumps(body).encode() + b"\n"
    output.put((line,), len(line))


def _object(raw: RawRecord, decoded: Entry | Unknown) -> dict[str, Any]:
    if isinstance(decoded, Unknown):
        named: dict[str, Any] = {"seq": raw.seq, "type": raw.type, "flags": raw.flags}
        return {**named, "body": _base64(raw.body)}
    body: dict[str, Any] = {"seq": raw.seq, "record": _NAMES[raw.type]}
    record = decoded.record
    if isinstance(record, (Checkpoint, Footer)):  # made anew, for the places that records then have
        return {**body, "body": _base64(raw.body)} if record.extra else body
    fields = msgpack.unpackb(raw.body)
    attributes = {row.key: row.attribute for row in table(raw.type)}
    try:
        known = {attributes[key]: _to_json(value) for key, value in fields.items() if key in attributes}
        extra = {key: _to_json(value) for key, value in fields.items() if key not in attributes}
        body |= {**known, "extra": extra} if extra else known
        if _packed(raw.type, body) == raw.body:
            return body
    except (_NotPlain, RecordError, ValueError):  # of msgpack: it is nested too deeply
        body = {"seq": raw.seq, "record": _NAMES[raw.type]}
    return {**body, "body": _base64(raw.body)}


def _base64(data: bytes | memoryview) -> str:
    return base64.b64encode(data).decode("ascii")


def _to_json(value: Any, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise _NotPlain
    if isinstance(value, bytes):
        return {"base64": _base64(value)}
    if isinstance(value, list):
        return [_to_json(item, depth + 1) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise _NotPlain
        inner = {key: _to_json(item, depth + 1) for key, item in value.items()}
        return {"map": inner} if len(inner) == 1 and not _TAGS.isdisjoint(inner) else inner
    if value is None or isinstance(value, (str, int, bool)):
        return value
    if isinstance(value, float) and value - value == 0:  # neither infinite nor NaN
        return value
    raise _NotPlain


# --- into a capture ---------------------------------------------------------------------------------------------------


def load(stream: BinaryIO, name: str, output: Output) -> list[str]:
    """See the package."""
    try:
        lines = objects(stream, name)
        where, first = next(lines, ("line 1", {}))
        header = first.get("capture")
        has_index = isinstance(header, dict) and bool(header.get("index"))
        writer = CaptureWriter(output, file_id=_file_id(name, where, header), indexes=not has_index)
        loader = _Loader(writer, name, has_index)
        if header is None and first:
            loader.take(where, first)
        for where, line in lines:
            loader.take(where, line)
        writer.close(loader.footer_extra)
    except BaseException:
        output.discard()
        raise
    if loader.renumbered:
        return ["its lines are not numbered one after another: the events have other numbers now"]
    return []


def _file_id(name: str, where: str, header: object) -> bytes | None:
    """The id that the first line gives."""
    if not isinstance(header, dict) or "id" not in header:
        return None
    try:
        file_id = bytes.fromhex(header["id"])
    except (TypeError, ValueError):
        file_id = b""
    if len(file_id) != 8:
        raise ForeignForm(name, where, "'id' is not 8 bytes in hex")
    return file_id


class _Loader:
    """Writes the records that lines stand for."""

    def __init__(self, writer: CaptureWriter, name: str, has_index: bool) -> None:
        self.renumbered = False
        self.footer_extra: dict[str, Any] | None = None
        self._writer, self._name, self._has_index = writer, name, has_index
        self._copier = Copier(writer)
        self._last = 0

    def take(self, where: str, line: dict[str, Any]) -> None:
        """One line."""
        seq = line.get("seq", self._last + 1)
        if type(seq) is not int or not self._last < seq < 1 << 64:
            raise ForeignForm(self._name, where, "'seq' is no number above that of the line before")
        self._last = seq
        kind, flags = self._type(where, line)
        if kind in (RecordType.CHECKPOINT, RecordType.FOOTER):
            self._index(where, kind, line)
            return
        try:
            body = _body(kind, line)
            record = None if flags & ~KNOWN_FLAGS else codec.decode(kind, body)
        except _UNFIT as error:
            raise ForeignForm(self._name, where, f"is not a record of type {kind}: {error}") from error
        if kind == RecordType.META and self._writer.seq:
            raise ForeignForm(self._name, where, "a second `meta` record")
        if kind != RecordType.META and not self._writer.seq:
            self._writer.append(Meta(created_ns=0, clock_ns=0))  # a capture begins with one
        raw = RawRecord(seq, 0, 0, kind, flags, memoryview(body))
        decoded = Unknown(seq, 0, 0, kind, flags, body) if record is None else Entry(seq, 0, 0, record)
        self.renumbered |= seq != self._writer.seq + 1
        self._copier.copy(raw, decoded)

    def _type(self, where: str, line: dict[str, Any]) -> tuple[int, int]:
        kind = _TYPES.get(str(line.get("record")), line.get("type"))
        flags = line.get("flags", 0)
        if type(kind) is not int or type(flags) is not int or not (0 < kind < 256 and 0 <= flags < 256):
            raise ForeignForm(self._name, where, "'record' or 'type' does not name a type of record")
        if kind == RecordType.BLOCK:
            raise ForeignForm(self._name, where, "a block is no record by itself")
        return kind, flags

    def _index(self, where: str, kind: int, line: dict[str, Any]) -> None:
        extra: Any = {}
        if "body" in line:
            try:
                record = codec.decode(kind, _body(kind, line))
            except _UNFIT as error:
                raise ForeignForm(self._name, where, f"is not a record of type {kind}: {error}") from error
            assert isinstance(record, (Checkpoint, Footer))
            extra = record.extra
        if kind == RecordType.FOOTER:
            self.footer_extra = extra
        elif self._has_index:
            self._writer.checkpoint(extra)


_UNFIT: Final = (RecordError, binascii.Error, TypeError, ValueError, RecursionError, OverflowError)


def _body(kind: int, line: dict[str, Any]) -> bytes:
    if "body" in line:
        return base64.b64decode(line["body"], validate=True)
    return _packed(kind, line)


def _packed(kind: int, line: dict[str, Any]) -> bytes:
    """The body that a line stands for, its keys in the line's order, a message's payload last."""
    if kind not in _NAMES:
        raise RecordError("of a type that is not known `body` is needed")
    keys = {row.attribute: row.key for row in table(kind)}
    fields = {keys[name]: _from_json(value) for name, value in line.items() if name in keys}
    extra = _from_json(line.get("extra", {}))
    if not isinstance(extra, dict):
        raise RecordError("its 'extra' is not a map")
    payload = {"p": fields.pop("p")} if "p" in fields else {}
    packed = msgpack.packb({**fields, **extra, **payload}, use_bin_type=True)
    assert isinstance(packed, bytes)
    return packed


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if isinstance(value, dict):
        if len(value) == 1 and "base64" in value:
            return base64.b64decode(value["base64"], validate=True)
        if len(value) == 1 and "map" in value and isinstance(value["map"], dict):
            value = value["map"]
        return {key: _from_json(item) for key, item in value.items()}
    return value
