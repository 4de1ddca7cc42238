"""The vocabulary of a capture: one frozen dataclass for each table of FORMAT.md section 6.

Each field names its msgpack key and its check beside its type, so a dataclass here *is* the table of the specification.
Keys that this version does not know are kept in `extra`. To and from bytes: codec.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Final

from .framing import RecordType

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
CLASSES: Final[dict[int, type[Any]]] = {
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
        for item in fields(CLASSES[kind])
        if "key" in item.metadata
    )
