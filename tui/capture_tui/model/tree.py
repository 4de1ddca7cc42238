"""A message as a tree of its fields, each with the bytes that it takes. Nothing is taken apart before it is opened, so
neither a message that is nested a thousand deep nor a map of a million entries costs more than what is shown of it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from crc32c import crc32c

from capture_recorder.capfile import wire
from capture_recorder.capfile.scalars import FIXED, is_packed, known_field
from capture_recorder.capfile.values import elements, fixed_text, map_key, number_text, value_text

from .paint import Line, Role, clean

PAGE: Final = 200
"""Children that are shown at once; the row after them opens more."""
_PAGES: Final = 100  # pages that are opened to show where a byte belongs to
OPENED: Final = 60  # rows to which a small message is opened from the start
_CRC_MOST: Final = 16 << 20  # bytes of a field whose CRC is computed for its row
_SHOWN: Final = 16  # bytes
_TEXT: Final = 200  # characters
_WIRE: Final = ("varint", "fixed64", "length-delimited", "group", "end of group", "fixed32")
_TYPES: Final = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    10: "group", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "sfixed32", 16: "sfixed64", 17: "sint32",
    18: "sint64",
}  # fmt: skip


@dataclass(slots=True)
class Node:
    """A field, or a row that opens more of them. From `start` to `end` are its bytes, with its tag; `inner` is where
    its value begins. `descriptor` is its type where it is a message of a known one."""

    path: str
    depth: int
    start: int
    inner: int
    end: int
    name: str = ""
    type: str = ""
    value: str = ""
    role: Role = "text"
    number: int = 0
    opens: bool = False
    is_open: bool = False
    descriptor: Any = None
    parent: Node | None = None
    known: Any = None
    item: wire.WireField | None = None
    more: tuple[Node, Iterator[Node]] | None = None  # of a row that opens more: the next ones
    counts: dict[int, int] = field(default_factory=dict)

    def line(self) -> Line:
        """The row."""
        sign = ("▾ " if self.is_open else "▸ ") if self.opens or self.more is not None else "  "
        line: Line = [("  " * min(self.depth, 24), "text"), (sign, "dim")]
        if self.depth > 24:
            line.append((f"({self.depth} deep) ", "dim"))
        line.append((clean(self.name, _TEXT), "key"))
        if self.type:
            line.append((f" {clean(self.type, _TEXT)}", "type"))
        if self.value:
            line += [(" ", "text"), (self.value, self.role)]
        return line


class Tree:
    """A payload, by its type if that is known (`descriptor`), else as what it is on the wire. `rows` are those that are
    shown. `error` says where it is no message any more."""

    def __init__(self, payload: bytes, descriptor: Any = None) -> None:
        self.payload = payload
        self.rows: list[Node] = []
        self.error: str | None = None
        root = Node("", -1, 0, 0, len(payload), descriptor=descriptor)
        self.rows.extend(self._page(self._children(root)))
        at = 0
        while at < len(self.rows) and len(self.rows) < OPENED:
            node = self.rows[at]
            if node.opens and node.known is not None and node.depth < 4 and node.end - node.start < 65_536:
                self.open(at)
            at += 1

    def toggle(self, at: int) -> None:
        """Open or close a row."""
        if self.rows[at].is_open:
            self.close(at)
        else:
            self.open(at)

    def open(self, at: int) -> None:
        """Show what is in it; of a row that stands for more, the next of them."""
        node = self.rows[at]
        if node.more is not None:
            first, others = node.more
            self.rows[at : at + 1] = self._page(others, first)
        elif node.opens and not node.is_open:
            node.is_open = True
            self.rows[at + 1 : at + 1] = self._page(self._children(node))

    def close(self, at: int) -> None:
        """Hide what is in it."""
        node = self.rows[at]
        node.is_open = False
        end = at + 1
        while end < len(self.rows) and self.rows[end].depth > node.depth:
            end += 1
        del self.rows[at + 1 : end]

    def parent(self, at: int) -> int:
        """The row of the message that a field is in; its own, if it is in none."""
        above = at
        while above > 0 and self.rows[above].depth >= self.rows[at].depth:
            above -= 1
        return above if self.rows[above].depth < self.rows[at].depth else at

    def reveal(self, offset: int) -> int | None:
        """Open as much as shows the innermost field that a byte belongs to. Its row, or the one that stands for more of
        them where it is too far away; None where there is none."""
        found: int | None = None
        at = pages = 0
        while at < len(self.rows):
            node = self.rows[at]
            if node.more is not None and node.start <= offset:
                pages += 1
                if pages > _PAGES:
                    return at
                self.open(at)
                continue
            if node.more is None and node.start <= offset < node.end:
                found = at
                if not node.opens or offset < node.inner or node.known is None:
                    break
                self.open(at)
                at += 1
                continue
            if found is not None and node.depth <= self.rows[found].depth:
                break
            at += 1
        return found

    def find(self, path: str) -> int | None:
        """The row of a field by its path, as far as it is there; opens what is above it."""
        at = 0
        while at < len(self.rows):
            node = self.rows[at]
            if node.path == path:
                return at
            if node.opens and not node.is_open and path.startswith((f"{node.path}.", f"{node.path}[")):
                self.open(at)
            at += 1
        return None

    def _page(self, nodes: Iterator[Node], *first: Node) -> list[Node]:
        rows = [*first, *islice(nodes, PAGE - len(first))]
        following = next(nodes, None) if len(rows) == PAGE else None
        if following is not None:
            depth = following.depth
            at = following.start
            rows.append(Node("", depth, at, at, at, f"… the next {PAGE}", more=(following, nodes)))
        return rows

    def _children(self, parent: Node) -> Iterator[Node]:
        """What stands in a message, a packed field, or an unknown field that may be one."""
        if parent.known is not None and parent.item is not None and is_packed(parent.known, parent.item):
            yield from self._packed(parent)
            return
        depth, prefix = parent.depth + 1, f"{parent.path}." if parent.path else ""
        counts: dict[int, int] = {}
        try:
            for item in wire.fields(self.payload, parent.inner, parent.end):
                yield self._node(parent, item, depth, prefix, counts)
        except wire.WireError as error:
            text = f"✗ from offset {error.offset} on this is no message: {error.why}"
            self.error = self.error or text
            yield Node("", depth, error.offset, error.offset, parent.end, text, role="error", parent=parent)

    def _node(self, parent: Node, item: wire.WireField, depth: int, prefix: str, counts: dict[int, int]) -> Node:
        data, known = self.payload, known_field(parent.descriptor, item)
        if known is None:
            return self._unknown(parent, item, depth, prefix)
        name: str = known.name
        index = counts.get(item.number, 0)
        packed = is_packed(known, item)
        if known.is_repeated:
            counts[item.number] = index + elements(known, data, item)
            if not packed:
                name += map_key(known, data, item) or f"[{index}]"
        node = Node(
            prefix + name, depth, item.tag, item.start, item.next, name, _type(known), number=item.number,
            parent=parent, known=known, item=item, descriptor=known.message_type, counts={0: index},
        )  # fmt: skip
        size = item.end - item.start
        if packed:
            node.opens, node.value, node.role = size > 0, f"{elements(known, data, item):,} packed", "dim"
        elif known.message_type is not None:
            node.opens, node.value, node.role = size > 0, f"{size:,} bytes" if size else "(empty)", "dim"
        elif known.type == 12:
            node.value, node.role = _bytes(data, item), "bytes"
        else:
            node.value = clean(value_text(known, data, item), _TEXT)
            node.role = "string" if known.type == 9 else "enum" if known.type == 14 else "number"
            if known.type == 9 and size > _TEXT:
                node.value += f" ({size:,} bytes)"
        return node

    def _packed(self, parent: Node) -> Iterator[Node]:
        known, item, data = parent.known, parent.item, self.payload
        assert item is not None
        layout, at, index = FIXED.get(known.type), item.start, parent.counts.get(0, 0)
        while at < item.end:
            try:
                number, after = (0, at + layout.size) if layout else wire.varint(data, at, item.end)
            except wire.WireError as error:
                yield Node("", parent.depth + 1, at, at, item.end, f"✗ {error.why}", role="error")
                return
            if after > item.end:
                return
            value = fixed_text(known, data, at) if layout else number_text(known, number)
            name = f"[{index}]"
            yield Node(
                parent.path + name,
                parent.depth + 1,
                at,
                at,
                after,
                name,
                "",
                value,
                "number",
                parent=parent,
                known=known,
            )
            at, index = after, index + 1

    def _unknown(self, parent: Node, item: wire.WireField, depth: int, prefix: str) -> Node:
        name = f"#{item.number}"
        node = Node(
            prefix + name, depth, item.tag, item.start, item.next, name, f"unknown, {_WIRE[item.wire_type]}",
            "   ".join(f"{what}: {text}" for what, text in readings(self.payload, item)), "value",
            number=item.number, parent=parent, item=item,
        )  # fmt: skip
        node.opens = item.wire_type == wire.GROUP or (item.end > item.start and _is_message(self.payload, item))
        return node


def readings(data: bytes, item: wire.WireField) -> Iterator[tuple[str, str]]:
    """Everything that an unknown field may be, with its value if it is that."""
    if item.wire_type == wire.VARINT:
        value = item.value or 0
        yield "uint", f"{value:,}"
        if value >= 1 << 63:
            yield "int", f"{value - (1 << 64):,}"
        yield "sint", f"{(value >> 1) ^ -(value & 1):,}"
        if value < 2:
            yield "bool", str(bool(value)).lower()
        return
    raw = data[item.start : item.end] if item.end - item.start <= 65_536 else data[item.start : item.start + 65_536]
    if item.wire_type in (wire.FIXED32, wire.FIXED64):
        for what, layout in (("uint", "I"), ("int", "i"), ("float", "f")):
            wide = layout.upper() if what == "uint" else layout
            layout = {"I": "Q", "i": "q", "f": "d"}[wide] if item.wire_type == wire.FIXED64 else layout
            yield (
                {"f": "float", "d": "double"}.get(layout, what),
                f"{struct.unpack('<' + layout, raw)[0]:.9g}"
                if (what == "float")
                else f"{struct.unpack('<' + layout, raw)[0]:,}",
            )
        return
    if item.wire_type == wire.BYTES:
        if _is_message(data, item):
            count = sum(1 for _, _ in zip(range(1_000), wire.fields(data, item.start, item.end), strict=False))
            yield "message", f"{count:,} field{'' if count == 1 else 's'}"
        with suppress(UnicodeDecodeError):
            yield "string", clean(repr(raw[: 4 * _TEXT].decode()), 60)
        yield "bytes", _bytes(data, item)


def _is_message(data: bytes, item: wire.WireField) -> bool:
    """Whether the bytes can be taken apart; of very many, the first fields."""
    if item.wire_type != wire.BYTES or item.start == item.end:
        return False
    try:
        for _ in zip(range(1_000), wire.fields(data, item.start, item.end), strict=False):
            pass
    except wire.WireError:
        return False
    return True


def _bytes(data: bytes, item: wire.WireField) -> str:
    size = item.end - item.start
    if not size:
        return "(empty)"
    head = data[item.start : min(item.end, item.start + _SHOWN)].hex(" ")
    crc = f", CRC32C {crc32c(memoryview(data)[item.start : item.end]):08x}" if size <= _CRC_MOST else ""
    return f"{head}{' …' if size > _SHOWN else ''} ({size:,} byte{'' if size == 1 else 's'}{crc})"


def _type(known: Any) -> str:
    if known.message_type is not None:
        if known.message_type.GetOptions().map_entry:
            return "map entry"
        return str(known.message_type.name)
    if known.enum_type is not None:
        return str(known.enum_type.name)
    return _TYPES.get(known.type, "?")
