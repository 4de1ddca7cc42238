"""A message taken apart into leaves: what it means, without how it was encoded.

Two payloads have the same leaves exactly if protobuf takes them for the same message, unknown fields included: the
order on the wire, over-long varints, packing, the order of map entries, defaults that were written out and messages
that came in pieces are gone. https://protobuf.dev/programming-guides/encoding says how each of these is read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ..text import printable
from . import wire
from .paths import Path
from .scalars import FIXED, VARINTS, is_packed, known_field

MAX_DEPTH: Final = 100  # of messages, as in protobuf's own decoders
MAX_LEAVES: Final = 200_000
"""Of one message. A leaf takes some 400 bytes, and a hostile payload can have one for each of its own."""
_SHOWN: Final = 24  # bytes of a value that a line has room for
_SHOWN_TEXT: Final = 60  # characters of one

_FLOATS: Final = (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE)
Leaves = dict[Path, "Leaf"]
Span = tuple[int, int]
Items = dict[int, tuple[FieldDescriptor, list[wire.WireField]]]


class Undecodable(ValueError):
    """These bytes are no message of the type, or one with more in it than is taken apart."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value in a message: a number, text or bytes; of a float its bytes, so that NaN is NaN. From `start` to `end` is
    where the payload has it, with its tag. `known` is its field in the schema; None for an unknown one."""

    value: int | str | bytes | None  # None: a message that is set, and empty
    start: int = field(compare=False)
    end: int = field(compare=False)
    known: FieldDescriptor | None = field(compare=False)
    wire_type: int | None = None  # of an unknown one

    def text(self) -> str:
        """The value in few characters, safe for a terminal."""
        if self.value is None:
            return "(set, and empty)"
        if isinstance(self.value, str):
            return printable(repr(self.value[: _SHOWN_TEXT + 1]), _SHOWN_TEXT)
        kind = None if self.known is None else self.known.type
        if isinstance(self.value, bytes):
            return str(FIXED[kind].unpack(self.value)[0]) if kind in FIXED else _bytes(self.value)
        return self.enum or (str(bool(self.value)).lower() if kind == FieldDescriptor.TYPE_BOOL else str(self.value))

    @property
    def enum(self) -> str | None:
        """The name of the value in its enum, where it has one."""
        enum = self.known.enum_type if self.known is not None else None
        if enum is None or not isinstance(self.value, int) or self.value not in enum.values_by_number:
            return None
        name: str = enum.values_by_number[self.value].name
        return name


def changed(a: Leaves, b: Leaves) -> list[Path]:
    """Where two messages differ: the paths of the first, then those that only the second has."""
    return [path for path in {**a, **b} if a.get(path) != b.get(path)]


def flatten(descriptor: Descriptor, data: bytes) -> Leaves:
    """The leaves of a message, by their paths. Raises Undecodable."""
    leaves: Leaves = {}
    try:
        _message(leaves, descriptor, data, [(0, len(data))], (), 0)
    except wire.WireError as error:
        raise Undecodable(str(error)) from error
    return leaves


def _message(
    out: Leaves, descriptor: Descriptor | None, data: bytes, spans: list[Span], path: Path, depth: int
) -> None:
    """A message that stands in pieces: protobuf merges them, which is the same as to read one after the other."""
    if depth > MAX_DEPTH:
        raise Undecodable(f"offset {spans[0][0]}: messages are nested too deep")
    single: Items = {}
    entries: dict[Path, tuple[FieldDescriptor, wire.WireField, list[wire.WireField]]] = {}
    counts: Counter[int] = Counter()  # elements so far of each repeated field, and of each unknown one
    for start, end in spans:
        for item in wire.fields(data, start, end):
            known = known_field(descriptor, item)
            if known is None or (item.value is not None and _is_foreign(known, item.value)):
                _unknown(out, data, item, _numbered(path, item.number, counts), depth)
            elif is_packed(known, item):
                _packed(out, known, data, item, path, counts)
            elif not known.is_repeated:
                _set(single, known, item)
            elif _is_map(known):
                key, values, foreign = _entry(known, data, item)
                if foreign is not None:
                    name = _numbered(path, item.number, counts)
                    out[name] = Leaf(f"{key}: {foreign}", item.tag, item.next, None, wire.BYTES)
                else:  # the last of a key counts
                    entries[(*path, known.name, key)] = (known, item, values)
            else:
                _value(out, known, data, [item], _element(path, known, counts), depth)
            if len(out) > MAX_LEAVES:
                raise Undecodable(f"more than {MAX_LEAVES:,} values")
    for known, items in single.values():
        _value(out, known, data, items, (*path, known.name), depth)
    for name, (known, item, values) in entries.items():
        value_field = _of_entry(known)[1]
        if values:
            _value(out, value_field, data, values, name, depth, always=True)
        else:
            out[name] = Leaf(_default(value_field), item.tag, item.next, value_field)


def _set(single: Items, known: FieldDescriptor, item: wire.WireField) -> None:
    """A field that is not repeated: the last one counts, of a message all pieces, of a oneof the last member."""
    if known.containing_oneof is not None:
        for other in known.containing_oneof.fields:
            if other.number != known.number:
                single.pop(other.number, None)
    if known.message_type is not None and known.number in single:
        single[known.number][1].append(item)
    else:
        single[known.number] = (known, [item])


def _value(
    out: Leaves,
    known: FieldDescriptor,
    data: bytes,
    items: list[wire.WireField],
    path: Path,
    depth: int,
    *,
    always: bool = False,
) -> None:
    """The last of the items; if it is a message, all of them. A default that might as well be left out is no leaf, but
    in a list or (`always`) in a map."""
    item = items[-1]
    if known.message_type is not None:
        before = len(out)
        _message(out, known.message_type, data, [(i.start, i.end) for i in items], path, depth + 1)
        if len(out) == before:
            out[path] = Leaf(None, item.tag, item.next, known)
        return
    value = _scalar(known, data, item)
    if always or known.is_repeated or known.has_presence or not _is_default(known, value):
        out[path] = Leaf(value, item.tag, item.next, known)


def _scalar(known: FieldDescriptor, data: bytes, item: wire.WireField) -> int | str | bytes:
    if item.value is not None and known.type in VARINTS:
        return VARINTS[known.type](item.value)
    return _from_bytes(known, data[item.start : item.end])


def _from_bytes(known: FieldDescriptor, raw: bytes) -> int | str | bytes:
    """A value that is no varint."""
    if known.type == FieldDescriptor.TYPE_STRING:
        return raw.decode("utf-8", "surrogateescape")
    if known.type in FIXED and known.type not in _FLOATS:
        number: int = FIXED[known.type].unpack(raw)[0]
        return number
    return raw


def _is_default(known: FieldDescriptor, value: int | str | bytes) -> bool:
    return not any(value) if known.type in _FLOATS and isinstance(value, bytes) else not value


def _packed(
    out: Leaves, known: FieldDescriptor, data: bytes, item: wire.WireField, path: Path, counts: Counter[int]
) -> None:
    """The elements of a packed field."""
    layout, at = FIXED.get(known.type), item.start
    if layout is not None and (item.end - at) % layout.size:
        raise Undecodable(f"offset {item.tag}: a packed field ends within a value")
    while at < item.end:
        if len(out) > MAX_LEAVES:
            raise Undecodable(f"more than {MAX_LEAVES:,} values")
        if layout is not None:
            after = at + layout.size
            out[_element(path, known, counts)] = Leaf(_from_bytes(known, data[at:after]), at, after, known)
        else:
            number, after = wire.varint(data, at, item.end)
            if _is_foreign(known, number):
                out[_numbered(path, known.number, counts)] = Leaf(number, at, after, None, wire.VARINT)
            else:
                out[_element(path, known, counts)] = Leaf(VARINTS[known.type](number), at, after, known)
        at = after


def _entry(known: FieldDescriptor, data: bytes, item: wire.WireField) -> tuple[str, list[wire.WireField], int | None]:
    """An entry of a map, which is a message of a key and a value: the key's segment of the path, and where its value
    stands (nowhere: the default). A number as value that a closed enum does not have makes it an unknown field."""
    key_field, value_field = _of_entry(known)
    key: int | str | bytes | None = _default(key_field)
    values: list[wire.WireField] = []
    foreign: int | None = None
    for part in wire.fields(data, item.start, item.end):
        if known_field(known.message_type, part) is None:
            continue  # protobuf drops what else is in an entry
        if part.number == 1:
            key = _scalar(key_field, data, part)
        elif part.value is not None and _is_foreign(value_field, part.value):
            foreign = VARINTS[value_field.type](part.value)
        elif value_field.message_type is not None:
            values.append(part)
        else:
            values = [part]
    shown = str(bool(key)).lower() if key_field.type == FieldDescriptor.TYPE_BOOL else repr(key)
    return f"[{shown}]", values, None if values else foreign


def _of_entry(known: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor]:
    """The fields of a map's entries."""
    assert known.message_type is not None
    fields = known.message_type.fields_by_number
    return fields[1], fields[2]


def _default(known: FieldDescriptor) -> int | str | bytes | None:
    """What a field of an entry is that is left out."""
    if known.message_type is not None:
        return None
    if known.type in _FLOATS:
        return bytes(FIXED[known.type].size)
    value: int | str | bytes = known.default_value
    return int(value) if isinstance(value, int) else value


def _unknown(out: Leaves, data: bytes, item: wire.WireField, path: Path, depth: int) -> None:
    """A field that the schema does not have: by its number, its wire type and what it holds."""
    if item.wire_type == wire.GROUP:
        before = len(out)
        _message(out, None, data, [(item.start, item.end)], path, depth + 1)
        if len(out) == before:
            out[path] = Leaf(None, item.tag, item.next, None)
        return
    value = item.value if item.wire_type == wire.VARINT else data[item.start : item.end]
    out[path] = Leaf(value, item.tag, item.next, None, item.wire_type)


def _is_foreign(known: FieldDescriptor, number: int) -> bool:
    """A number that a closed enum does not have is an unknown field."""
    enum = known.enum_type
    return enum is not None and enum.is_closed and VARINTS[known.type](number) not in enum.values_by_number


def _is_map(known: FieldDescriptor) -> bool:
    return known.message_type is not None and bool(known.message_type.GetOptions().map_entry)


def _element(path: Path, known: FieldDescriptor, counts: Counter[int]) -> Path:
    counts[known.number] += 1
    return (*path, known.name, f"[{counts[known.number] - 1}]")


def _numbered(path: Path, number: int, counts: Counter[int]) -> Path:
    counts[-number] += 1  # those of a field whose number the schema has, and the type not, stand beside it
    return (*path, f"#{number}", f"[{counts[-number] - 1}]")


def _bytes(value: bytes) -> str:
    shown = value[:_SHOWN].hex()
    return shown if len(value) <= _SHOWN else f"{shown}… ({len(value):,} bytes)"
