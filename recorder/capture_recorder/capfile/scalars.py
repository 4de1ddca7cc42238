"""How a field on the wire is read by the type that the schema gives it: the tables that decoding by hand needs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from . import wire


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _zigzag(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value >> 1 ^ -(value & 1)


# A number on the wire, by the type that the schema gives it; 32-bit types take the low bits, as protobuf does.
VARINTS: Final[dict[int, Callable[[int], int]]] = {
    FieldDescriptor.TYPE_INT32: lambda value: _signed(value, 32),
    FieldDescriptor.TYPE_INT64: lambda value: _signed(value, 64),
    FieldDescriptor.TYPE_UINT32: lambda value: value & 0xFFFFFFFF,
    FieldDescriptor.TYPE_UINT64: lambda value: value,
    FieldDescriptor.TYPE_SINT32: lambda value: _zigzag(value, 32),
    FieldDescriptor.TYPE_SINT64: lambda value: _zigzag(value, 64),
    FieldDescriptor.TYPE_BOOL: lambda value: int(value != 0),
    FieldDescriptor.TYPE_ENUM: lambda value: _signed(value, 32),
}
FIXED: Final = {
    FieldDescriptor.TYPE_DOUBLE: struct.Struct("<d"),
    FieldDescriptor.TYPE_FIXED64: struct.Struct("<Q"),
    FieldDescriptor.TYPE_SFIXED64: struct.Struct("<q"),
    FieldDescriptor.TYPE_FLOAT: struct.Struct("<f"),
    FieldDescriptor.TYPE_FIXED32: struct.Struct("<I"),
    FieldDescriptor.TYPE_SFIXED32: struct.Struct("<i"),
}
WIRE_TYPES: Final = {
    **dict.fromkeys(VARINTS, wire.VARINT),
    **{kind: wire.FIXED64 if layout.size == 8 else wire.FIXED32 for kind, layout in FIXED.items()},
    FieldDescriptor.TYPE_STRING: wire.BYTES,
    FieldDescriptor.TYPE_BYTES: wire.BYTES,
    FieldDescriptor.TYPE_MESSAGE: wire.BYTES,
    FieldDescriptor.TYPE_GROUP: wire.GROUP,
}


def known_field(descriptor: Descriptor | None, item: wire.WireField) -> FieldDescriptor | None:
    """The field in the schema. One that is written as another type than its own is unknown, as it is to protobuf."""
    known = descriptor.fields_by_number.get(item.number) if descriptor is not None else None
    if known is None or item.wire_type == WIRE_TYPES[known.type] or is_packed(known, item):
        return known
    return None


def is_packed(known: FieldDescriptor, item: wire.WireField) -> bool:
    is_number = known.type in VARINTS or known.type in FIXED
    return is_number and bool(known.is_repeated) and item.wire_type == wire.BYTES
