"""The vocabulary of a capture: one frozen dataclass for each table of FORMAT.md section 6, and their codec.

Each field names its msgpack key and its check beside its type, so a dataclass here *is* the table of the specification.
Keys that this version does not know are kept in `extra`, and written again, so that a rewrite loses nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgpack

from .errors import RecordError
from .framing import Buffer, RecordType

REQUEST: Final = 0
RESPONSE: Final = 1
DIRECTIONS: Final = ("request", "response")

KINDS: Final = ("unary", "server_streaming", "client_streaming", "bidi", "unknown")
"""The four kinds of RPC; `unknown` where the server had no handler for the method."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """What stands for a metadata value that was not to be kept: its length in bytes, and a keyed hash of it, so that
    equal values stay recognisable within one capture."""

    length: int
    digest: bytes


MetadataValue = bytes | Redacted
Metadata = tuple[tuple[str, MetadataValue], ...]
"""Ordered pairs, duplicates kept. Values are bytes, those of keys without `-bin` too."""


# --- checks: a value as msgpack gave it, to the value of the field; anything else is a TypeError or ValueError --------


def _natural(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("is not a whole number from 0 up")
    return value


def _positive(value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError("is not a whole number from 1 up")
    return value


def _optional_natural(value: object) -> int | None:
    return None if value is None else _natural(value)


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError("is not text")
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _binary(value: object) -> bytes:
    if type(value) is not bytes:
        raise TypeError("is not binary")
    return value


def _direction(value: object) -> int:
    if value not in (REQUEST, RESPONSE) or type(value) is not int:
        raise ValueError("is neither 0 (request) nor 1 (response)")
    return value


def _mapping(value: object) -> dict[str, Any]:
    if type(value) is not dict or not all(type(key) is str for key in value):
        raise TypeError("is not a map with text keys")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if type(value) is not list:
        raise TypeError("is not a list")
    return tuple(_text(item) for item in value)


def _naturals(value: object) -> tuple[int, ...]:
    if type(value) is not list:
        raise TypeError("is not a list")
    return tuple(_natural(item) for item in value)


def _optional_naturals(value: object) -> tuple[int, ...] | None:
    return None if value is None else _naturals(value)


def _rows(value: object) -> tuple[tuple[int, ...], ...]:
    if type(value) is not list:
        raise TypeError("is not a list")
    return tuple(_naturals(item) for item in value)


def _metadata(value: object) -> Metadata:
    if type(value) is not list:
        raise TypeError("is not a list of pairs")
    return tuple(_pair(item) for item in value)


def _pair(item: object) -> tuple[str, MetadataValue]:
    if type(item) is not list or len(item) != 2:
        raise TypeError("holds something that is not a pair")
    key, value = item
    if type(value) is dict:
        return _text(key), Redacted(_natural(value.get("len")), _binary(value.get("mac")))
    return _text(key), _binary(value)


def _plain(value: object) -> object:
    """A field's value as msgpack writes it."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Redacted):
        return {"len": value.length, "mac": value.digest}
    return value


_REQUIRED: Any = object()


def _key(name: str, check: Callable[[object], Any], default: Any = _REQUIRED) -> Any:
    """A dataclass field with its key in the file. A field with a default may be absent from a record."""
    metadata = {"key": name, "check": check}
    if default is _REQUIRED:
        return field(metadata=metadata)
    return (
        field(default_factory=default, metadata=metadata)
        if default is dict
        else field(default=default, metadata=metadata)
    )


# --- the records ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """The first record: when, where and by what the capture was made."""

    TYPE: ClassVar = RecordType.META
    created_ns: int = _key("created", _natural)  # wall clock at time 0 of the capture, ns since 1970
    clock_ns: int = _key("clock", _natural)  # monotonic clock at the same moment, ns
    side: str = _key("side", _text, "server")  # whose view it is
    program: str = _key("program", _text, "")
    pid: int = _key("pid", _natural, 0)
    versions: Mapping[str, Any] = _key("versions", _mapping, dict)  # library, python, grpcio, protobuf, platform
    policy: Mapping[str, Any] = _key("policy", _mapping, dict)
    redacts: tuple[str, ...] = _key("redacts", _texts, ())  # globs over metadata names
    derived: Mapping[str, Any] = _key("derived", _mapping, dict)  # of a capture made of others: `from`, `by`
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Descriptors of services that follow: a serialized FileDescriptorSet, imports before their importers. A `.proto`
    file stands in a capture once; later records add what was not needed before."""

    TYPE: ClassVar = RecordType.SCHEMA
    services: tuple[str, ...] = _key("services", _texts)
    files: bytes = _key("files", _binary)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The event `open`: one RPC begins. `call` counts from 1 in the order in which the server saw them."""

    TYPE: ClassVar = RecordType.CALL
    NAME: ClassVar = "open"
    call: int = _key("c", _positive)
    time_ns: int = _key("t", _natural)  # of every event: ns since the capture's time 0
    method: str = _key("method", _text)  # "/package.Service/Method"
    kind: str = _key("kind", _text)  # one of KINDS
    peer: str = _key("peer", _text, "")
    authority: str = _key("authority", _text, "")
    metadata: Metadata = _key("metadata", _metadata, ())
    time_left_ns: int | None = _key("left", _optional_natural, None)  # to the RPC's deadline; None without one
    compression: str | None = _key("compression", _optional_text, None)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """The server's initial metadata, where the handler sent it by itself."""

    TYPE: ClassVar = RecordType.HEADERS
    NAME: ClassVar = "headers"
    call: int = _key("c", _positive)
    time_ns: int = _key("t", _natural)
    metadata: Metadata = _key("metadata", _metadata, ())
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message, its exact bytes. `index` counts from 0 in its direction. The payload is the map's last key."""

    TYPE: ClassVar = RecordType.MESSAGE
    NAME: ClassVar = "message"
    call: int = _key("c", _positive)
    direction: int = _key("d", _direction)
    index: int = _key("n", _natural)
    time_ns: int = _key("t", _natural)
    payload: bytes = _key("p", _binary)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfClose:
    """The server read the end of the client's stream. Not written for kinds with a single request."""

    TYPE: ClassVar = RecordType.HALF_CLOSE
    NAME: ClassVar = "half_close"
    call: int = _key("c", _positive)
    time_ns: int = _key("t", _natural)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """The call ended before the server sent a status. `why`: `client` (cancelled or gone) or `deadline`."""

    TYPE: ClassVar = RecordType.CANCEL
    NAME: ClassVar = "cancel"
    call: int = _key("c", _positive)
    time_ns: int = _key("t", _natural)
    why: str = _key("why", _text, "client")
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The server's end of the call. `code` is gRPC's number (0 is OK), `metadata` the trailing metadata."""

    TYPE: ClassVar = RecordType.STATUS
    NAME: ClassVar = "status"
    call: int = _key("c", _positive)
    time_ns: int = _key("t", _natural)
    code: int = _key("code", _natural)
    message: str = _key("message", _text, "")
    metadata: Metadata = _key("metadata", _metadata, ())
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The recorder lost or cut something: `events` of them, `size` payload bytes, of `call` (None: of any)."""

    TYPE: ClassVar = RecordType.GAP
    time_ns: int = _key("t", _natural)
    why: str = _key("why", _text)
    call: int | None = _key("c", _optional_natural, None)
    events: int = _key("events", _natural, 0)
    size: int = _key("bytes", _natural, 0)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A sparse index of the records since the checkpoint before. A hint: whoever follows it verifies what is there."""

    TYPE: ClassVar = RecordType.CHECKPOINT
    previous: int = _key("prev", _natural)  # offset of the checkpoint before, 0 for none
    records: tuple[tuple[int, ...], ...] = _key("records", _rows)  # [seq, offset], ascending
    calls: tuple[tuple[int, ...], ...] = _key("calls", _rows)  # [call, seq, offset] of each `call` record
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The last record of a capture that was closed cleanly: totals, and where the checkpoints are."""

    TYPE: ClassVar = RecordType.FOOTER
    checkpoints: tuple[int, ...] = _key("checkpoints", _naturals)  # offsets, ascending
    openings: tuple[int, ...] | None = _key("openings", _optional_naturals, None)  # of those that list a call
    schemas: tuple[int, ...] | None = _key("schemas", _optional_naturals, None)  # offsets of all `schema` records
    calls: int = _key("calls", _natural)
    requests: int = _key("requests", _natural)
    responses: int = _key("responses", _natural)
    size: int = _key("bytes", _natural)  # of all payloads
    gaps: int = _key("gaps", _natural)
    duration_ns: int = _key("duration", _natural)  # time of the last event
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A reader's remark on an event (`seq`), added later; may be skipped by who does not care."""

    TYPE: ClassVar = RecordType.NOTE
    text: str = _key("text", _text)
    about: int | None = _key("seq", _optional_natural, None)
    extra: Mapping[str, Any] = field(default_factory=dict)


Event = Call | Headers | Message | HalfClose | Cancel | Status
"""Anything recorded of a call; each has `call`, `time_ns` and `NAME`."""

Record = Meta | Schema | Event | Gap | Checkpoint | Footer | Note
EVENT_TYPES: Final = (Call, Headers, Message, HalfClose, Cancel, Status)
_CLASSES: Final[dict[int, type[Any]]] = {
    cls.TYPE: cls for cls in (Meta, Schema, *EVENT_TYPES, Gap, Checkpoint, Footer, Note)
}


@dataclass(frozen=True, slots=True)
class Key:
    """A row of the specification's table of a record. `default` is what the absence of an optional key means."""

    key: str
    attribute: str
    check: Callable[[object], Any]
    required: bool
    default: Any


@cache
def table(kind: int) -> tuple[Key, ...]:
    """The specification's table of a record type, in file order."""
    return tuple(
        Key(
            item.metadata["key"],
            item.name,
            item.metadata["check"],
            item.default is MISSING and item.default_factory is MISSING,
            item.default if item.default_factory is MISSING else item.default_factory(),
        )
        for item in fields(_CLASSES[kind])
        if "key" in item.metadata
    )


def encode(record: Record) -> tuple[bytes, bytes]:
    """A record's body in two parts that follow one another; the second is a message's payload itself, not a copy."""
    if type(record) is Message and not record.extra:
        return _message_prefix(record), record.payload
    body: dict[str, Any] = {}
    for row in table(record.TYPE):
        value = getattr(record, row.attribute)
        if row.required or value != row.default:
            body[row.key] = _plain(value)
    payload = body.pop("p", None)  # unknown keys go before it: the payload stays the last
    body.update(record.extra)
    if payload is not None:
        body["p"] = payload
    return _pack(body), b""


def _pack(value: object) -> bytes:
    packed = msgpack.packb(value, use_bin_type=True)
    assert isinstance(packed, bytes)
    return packed


def _message_prefix(message: Message) -> bytes:
    """The map up to and with the header of its last value, `p`. By hand: a recorder does this for every message."""
    call, direction, index, time_ns = message.call, message.direction, message.index, message.time_ns
    beginning = _BEGINNINGS.get((call, direction))
    if beginning is None:
        if len(_BEGINNINGS) > _MOST_BEGINNINGS:
            _BEGINNINGS.clear()
        beginning = b"\x85\xa1c%b\xa1d%b\xa1n" % (_natural_bytes(call), _natural_bytes(direction))
        _BEGINNINGS[call, direction] = beginning
    number = _SMALL[index] if index < 128 else _natural_bytes(index)
    time = _U64(0xCF, time_ns) if time_ns >> 32 else _natural_bytes(time_ns)
    return b"".join((beginning, number, b"\xa1t", time, b"\xa1p", _bin_header(len(message.payload))))


_BEGINNINGS: Final[dict[tuple[int, int], bytes]] = {}  # of the messages of a call in a direction, which all have it
_MOST_BEGINNINGS: Final = 4096
_SMALL: Final = [bytes((value,)) for value in range(128)]
_U16: Final = struct.Struct(">BH").pack
_U32: Final = struct.Struct(">BI").pack
_U64: Final = struct.Struct(">BQ").pack


def _natural_bytes(value: int) -> bytes:
    """A whole number from 0 up in msgpack's shortest form."""
    if value < 1 << 7:
        return _SMALL[value]
    if value < 1 << 8:
        return bytes((0xCC, value))
    if value < 1 << 16:
        return _U16(0xCD, value)
    return _U32(0xCE, value) if value < 1 << 32 else _U64(0xCF, value)


def _bin_header(size: int) -> bytes:
    if size < 1 << 8:
        return bytes((0xC4, size))
    return _U16(0xC5, size) if size < 1 << 16 else _U32(0xC6, size)


def decode(kind: int, body: Buffer) -> Record | None:
    """A record from its type and body, or None for a type that this version does not know.

    Raises RecordError where the body is not what the specification says.
    """
    if kind == RecordType.MESSAGE:
        plain = plain_message(body)
        if plain is not None:
            return plain
    return _from_body(kind, unpack(body)) if kind in _CLASSES else None


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class _Thawed:
    """A Message on the way to be one. A frozen dataclass sets each field through object.__setattr__, and that for six
    fields takes as long as all else that decoding a message takes."""

    __slots__ = ("call", "direction", "extra", "index", "payload", "time_ns")

    def __init__(self, call: int, direction: int, index: int, time_ns: int, payload: bytes) -> None:
        self.call = call
        self.direction = direction
        self.index = index
        self.time_ns = time_ns
        self.payload = payload
        self.extra = _NOTHING


def message(call: int, direction: int, index: int, time_ns: int, payload: bytes) -> Message:
    """A Message without extra keys, in a fifth of the time: for those who make one for each that goes by."""
    made: Any = _Thawed(call, direction, index, time_ns, payload)
    made.__class__ = Message
    return made  # type: ignore[no-any-return]


def plain_message(body: Buffer) -> Message | None:
    """A message with the keys of the table and no others, as nearly every record is one; None for the long way."""
    try:
        fields = msgpack.unpackb(body)
    except ValueError:
        return None
    if type(fields) is not dict or len(fields) != 5:
        return None
    get = fields.get
    call, direction, index, time_ns, payload = get("c"), get("d"), get("n"), get("t"), get("p")
    if not (
        type(call) is type(direction) is type(index) is type(time_ns) is int
        and type(payload) is bytes
        and call > 0
        and 0 <= direction <= 1
        and index >= 0
        and time_ns >= 0
    ):
        return None
    made: Any = _Thawed(call, direction, index, time_ns, payload)
    made.__class__ = Message
    return made  # type: ignore[no-any-return]


def unpack(body: Buffer) -> dict[str, Any]:
    """The msgpack map of a body. Raises RecordError. Nothing larger than the body itself is allocated for it."""
    try:
        value = msgpack.unpackb(body, raw=False, strict_map_key=True, ext_hook=_no_ext)
    except ValueError as error:  # every error of msgpack is one, StackError and UnicodeDecodeError too
        raise RecordError(f"its body is not msgpack: {type(error).__name__}") from error
    if type(value) is not dict or not all(type(key) is str for key in value):
        raise RecordError("its body is not a map with text keys")
    return value


def _no_ext(code: int, _data: bytes) -> None:
    raise ValueError(f"extension type {code}")


def _from_body(kind: int, body: dict[str, Any]) -> Record:
    values: dict[str, Any] = {}
    for row in table(kind):
        if row.key in body:
            try:
                values[row.attribute] = row.check(body.pop(row.key))
            except (TypeError, ValueError) as error:
                raise RecordError(f"its key {row.key!r} {error}") from error
        elif row.required:
            raise RecordError(f"its key {row.key!r} is missing")
    record: Record = _CLASSES[kind](**values, extra=body)
    return record
