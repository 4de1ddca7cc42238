"""Values of fields as text of a few characters, safe for a terminal, from where they stand on the wire."""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import FieldDescriptor

from ..text import printable
from . import wire
from .scalars import FIXED, VARINTS, is_packed, known_field

_SHOWN: Final = 24  # bytes of a value that a line has room for
_SHOWN_TEXT: Final = 80  # characters of one


def elements(known: FieldDescriptor, data: bytes, item: wire.WireField) -> int:
    """How many elements of a repeated field stand in `item`."""
    if not is_packed(known, item):
        return 1
    if known.type in FIXED:
        return (item.end - item.start) // FIXED[known.type].size
    return sum(byte < 0x80 for byte in memoryview(data)[item.start : item.end])  # the last bytes of varints


def map_key(known: FieldDescriptor, data: bytes, item: wire.WireField) -> str | None:
    """`['key']` of an entry of a map; None for any other field."""
    entry = known.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return None
    key = entry.fields_by_number[1]
    value = "''" if key.type == FieldDescriptor.TYPE_STRING else number_text(key, 0)  # a key may be left out
    try:
        for field in wire.fields(data, item.start, item.end):
            if field.number == 1 and known_field(entry, field) is not None:
                value = value_text(key, data, field)
    except wire.WireError:
        pass
    return f"[{value}]"


def value_text(known: FieldDescriptor, data: bytes, item: wire.WireField) -> str:
    """A field that is no message, and that is written as the schema says."""
    if known.type == FieldDescriptor.TYPE_STRING:
        try:
            text = data[item.start : item.end].decode()
            return printable(repr(text[: _SHOWN_TEXT + 1]), _SHOWN_TEXT)
        except UnicodeDecodeError:
            return raw_text(data, item)
    if known.type in FIXED:
        return fixed_text(known, data, item.start)
    return raw_text(data, item) if item.value is None else number_text(known, item.value)


def fixed_text(known: FieldDescriptor, data: bytes, at: int) -> str:
    (value,) = FIXED[known.type].unpack_from(data, at)
    return f"{value:.9g}" if known.type == FieldDescriptor.TYPE_FLOAT else str(value)


def number_text(known: FieldDescriptor, value: int) -> str:
    number = VARINTS[known.type](value) if known.type in VARINTS else value
    if known.type == FieldDescriptor.TYPE_BOOL:
        return str(bool(number)).lower()
    if known.enum_type is not None and number in known.enum_type.values_by_number:
        return f"{known.enum_type.values_by_number[number].name} ({number})"
    return str(number)


def raw_text(data: bytes, item: wire.WireField) -> str:
    if item.wire_type == wire.VARINT:
        return str(item.value)
    shown = data[item.start : min(item.end, item.start + _SHOWN)].hex()
    size = item.end - item.start
    return shown if size <= _SHOWN else f"{shown}… ({size:,} bytes)"
