"""Records to bytes and back: a body is one msgpack map with the keys of its table. FORMAT.md section 6.

Keys that this version does not know are written again, so that a rewrite loses nothing. Messages, of which nearly every
capture is made, have ways of their own that do the same in a fraction of the time.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgpack

from .errors import RecordError
from .framing import Buffer, RecordType
from .records import CLASSES, Message, Record, Redacted, table


def encode(record: Record) -> tuple[bytes, bytes]:
    """A record's body in two parts that follow one another; the second is a message's payload itself, not a copy.
    Raises RecordError where a number is more than the format can hold."""
    try:
        if type(record) is Message and not record.extra:
            return _message_prefix(record), record.payload
        return _encode(record), b""
    except (OverflowError, struct.error) as error:
        raise RecordError(
            f"a number of a `{record.TYPE.name.lower()}` record is more than the format can hold"
        ) from error


def _encode(record: Record) -> bytes:
    body: dict[str, Any] = {}
    for row in table(record.TYPE):
        value = getattr(record, row.attribute)
        if row.required or value != row.default:
            body[row.key] = _plain(value)
    payload = body.pop("p", None)  # unknown keys go before it: the payload stays the last
    body.update(record.extra)
    if payload is not None:
        body["p"] = payload
    return _pack(body)


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
    return _from_body(kind, unpack(body)) if kind in CLASSES else None


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
    record: Record = CLASSES[kind](**values, extra=body)
    return record


def _plain(value: object) -> object:
    """A field's value as msgpack writes it."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Redacted):
        return {"len": value.length, "mac": value.digest}
    return value
