"""The schema that a capture carries: into it from a server's descriptors, and out of it to names and values.

This module and its helpers `scalars` and `fields` alone know protobuf. Descriptors come from strangers: what does not
parse or does not link is a problem to be told of, never an exception, and no code of theirs is run.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError

from . import wire
from .fields import Leaves, flatten
from .records import REQUEST, Schema
from .scalars import FIXED, is_packed, known_field
from .values import elements, fixed_text, map_key, number_text, raw_text, value_text

_MAX_DEPTH: Final = 100


def files_of(
    service: str, pool: descriptor_pool.DescriptorPool | None = None, have: Collection[str] = ()
) -> tuple[bytes, tuple[str, ...]] | None:
    """The file that defines `service` (full name) and all its imports, imports first, without those that are in `have`,
    as a serialized FileDescriptorSet, and their names. None if the pool (the default one if None) does not know it."""
    try:
        file = (pool or descriptor_pool.Default()).FindServiceByName(service).file
    except KeyError:
        return None
    files = descriptor_pb2.FileDescriptorSet()
    names: dict[str, None] = {}
    _collect(file, set(have), names, files)
    return files.SerializeToString(deterministic=True), tuple(names)


def _collect(
    file: FileDescriptor, have: set[str], names: dict[str, None], files: descriptor_pb2.FileDescriptorSet
) -> None:
    if file.name in have:
        return
    have.add(file.name)
    for imported in file.dependencies:
        _collect(imported, have, names, files)
    file.CopyToProto(files.file.add())
    names[file.name] = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """A message as far as it can be read. `error` says why it could not; without a type there is none to fail."""

    type_name: str | None = None
    message: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Location:
    """The innermost field that a byte of a message belongs to: its path in the schema's names, the bytes from `start`
    to `end` that it takes with its tag, and its value in some words."""

    path: str
    start: int
    end: int
    value: str


class SchemaSet:
    """All that the `schema` records of a capture describe. `problems` has a sentence for each thing that is wrong."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.services: list[str] = []
        self._pool = descriptor_pool.DescriptorPool()
        self._types: dict[tuple[str, int], Descriptor | None] = {}

    def add(self, record: Schema) -> None:
        """Take a record's descriptors in."""
        self._types.clear()
        files = descriptor_pb2.FileDescriptorSet()
        try:
            files.ParseFromString(record.files)
        except DecodeError:
            self.problems.append("the descriptors of a schema record do not parse")
            return
        for file in files.file:
            try:
                self._pool.Add(file)
            except Exception as error:  # noqa: BLE001 - the pool has no error class of its own for what it refuses
                self.problems.append(f"{file.name} does not link: {error}")
        self.services.extend(record.services)

    def descriptor(self, method: str, direction: int) -> Descriptor | None:
        """The type of the messages of a method ("/package.Service/Method") in a direction."""
        key = (method, direction)
        if key not in self._types:
            self._types[key] = self._find(method, direction)
        return self._types[key]

    def type_of(self, method: str, direction: int) -> str | None:
        """The full name of that type."""
        found = self.descriptor(method, direction)
        return None if found is None else str(found.full_name)

    def _find(self, method: str, direction: int) -> Descriptor | None:
        service, _, name = method.strip("/").rpartition("/")
        try:
            found = self._pool.FindServiceByName(service).methods_by_name[name]
        except Exception:  # noqa: BLE001 - KeyError, or what the pool says of descriptors that do not link
            return None
        return found.input_type if direction == REQUEST else found.output_type

    def decode(self, method: str, direction: int, payload: bytes) -> Decoded:
        """A payload as a message of its type. Never raises."""
        descriptor = self.descriptor(method, direction)
        if descriptor is None:
            return Decoded()
        try:
            message = message_factory.GetMessageClass(descriptor)()
            message.ParseFromString(payload)
        except Exception as error:  # noqa: BLE001 - DecodeError, or a descriptor that the factory does not like
            return Decoded(descriptor.full_name, None, f"not a {descriptor.full_name}: {error}")
        return Decoded(descriptor.full_name, message)

    def as_json(self, decoded: Decoded) -> dict[str, Any] | None:
        """The message in JSON, with the schema's field names. None if there is none, or if JSON cannot hold it."""
        if decoded.message is None:
            return None
        try:
            return json_format.MessageToDict(
                decoded.message, preserving_proto_field_name=True, descriptor_pool=self._pool
            )
        except Exception:  # noqa: BLE001 - an Any of an unknown type, a date that is none, a nesting that is too deep
            return None

    def flatten(self, method: str, direction: int, payload: bytes) -> Leaves | None:
        """The leaves of a payload (fields.py). None without a schema, or where it is no message of its type."""
        descriptor = self.descriptor(method, direction)
        if descriptor is None:
            return None
        try:
            return flatten(descriptor, payload)
        except Exception:  # noqa: BLE001 - Undecodable, or descriptors that link and lack what every message has
            return None

    def locate(self, method: str, direction: int, payload: bytes, offset: int) -> Location | None:
        """The innermost field that byte `offset` of the payload belongs to; past the end, the last field. None without
        a schema, or where the payload is not taken apart so far."""
        descriptor = self.descriptor(method, direction)
        if descriptor is None or not payload:
            return None
        try:
            return _locate(descriptor, payload, 0, len(payload), min(offset, len(payload) - 1), "", 0)
        except Exception:  # noqa: BLE001 - descriptors that link and still lack what every message has
            return None


def _locate(
    descriptor: Descriptor | None, data: bytes, start: int, end: int, offset: int, prefix: str, depth: int
) -> Location | None:
    """The field at `offset` in the message that stands from `start` to `end`."""
    counts: dict[int, int] = {}
    try:
        for item in wire.fields(data, start, end):
            known = known_field(descriptor, item)
            index = counts.get(item.number, 0)
            if item.tag <= offset < item.next:
                return _inside(known, data, item, index, offset, prefix, depth)
            if known is not None and known.is_repeated:
                counts[item.number] = index + elements(known, data, item)
    except wire.WireError:
        pass
    return None


def _inside(
    known: FieldDescriptor | None,
    data: bytes,
    item: wire.WireField,
    index: int,
    offset: int,
    prefix: str,
    depth: int,
) -> Location:
    if known is None:
        return Location(f"{prefix}#{item.number}", item.tag, item.next, raw_text(data, item))
    path = prefix + known.name
    if is_packed(known, item):
        return _packed(known, data, item, index, offset, path)
    if known.is_repeated:
        path += map_key(known, data, item) or f"[{index}]"
    if known.message_type is None:
        return Location(path, item.tag, item.next, value_text(known, data, item))
    inner = None
    if offset >= item.start and depth < _MAX_DEPTH:
        inner = _locate(known.message_type, data, item.start, item.end, offset, f"{path}.", depth + 1)
    return inner or Location(path, item.tag, item.next, f"{item.end - item.start:,} bytes")


def _packed(known: FieldDescriptor, data: bytes, item: wire.WireField, index: int, offset: int, path: str) -> Location:
    """An element of a packed field, whose first one has number `index`."""
    layout, at = FIXED.get(known.type), item.start
    try:
        while at < item.end:
            number, after = (0, at + layout.size) if layout else wire.varint(data, at, item.end)
            if at <= offset < after <= item.end:
                value = fixed_text(known, data, at) if layout else number_text(known, number)
                return Location(f"{path}[{index}]", at, after, value)
            at, index = after, index + 1
    except wire.WireError:
        pass
    return Location(path, item.tag, item.next, f"{item.end - item.start:,} bytes, packed")
