"""The filter language: CEL over a frame. The message's fields stand by the names that the schema gives them, enums by
their names; beside them is what every frame has (`NAMES`). https://github.com/google/cel-spec

A field that a message does not have makes an expression false, not wrong: most messages lack most fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from capture_recorder.capfile.records import DIRECTIONS, Status
from capture_recorder.capfile.schema import SchemaSet
from capture_recorder.status import status_name

from .document import Document, is_error
from .frame import Frame

LONGEST: Final = 2_000  # characters of an expression
_MOST: Final = 10_000  # elements of a list that an expression sees
_DEPTH: Final = 40
NAMES: Final = (
    "call", "method", "direction", "size", "time", "status", "event", "error", "index", "seq", "failed", "message",
)  # fmt: skip
_WORDS_OF_CEL: Final = frozenset(("true", "false", "null", "in", "google", "type"))
_TYPES: Final = {"str": "text", "int": "a number", "float": "a number", "bytes": "bytes", "dict": "a message",
                 "list": "a list"}  # fmt: skip
_COMPLAINT: Final = re.compile(r"ERROR: <input>:\d+:(\d+): (.+?)(?= expecting |ERROR: |\| |$)")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class BadFilter(ValueError):
    """An expression that cannot be one; the text says why in a sentence."""


class Filter:
    """`matches(frame)`. Raises BadFilter."""

    def __init__(self, expression: str, document: Document) -> None:
        self.expression = expression.strip()
        if len(self.expression) > LONGEST:
            raise BadFilter(f"a filter has at most {LONGEST:,} characters")
        from cel import compile as compile_cel  # noqa: PLC0415 - costs a tenth of a second, and most do not filter

        try:
            self._program = compile_cel(self.expression)
        except Exception as error:
            raise BadFilter(f"not an expression: {_reason(error)}") from error
        self._document = document
        self._gave: set[str] = set()
        self._names = frozenset(_WORD.findall(re.sub(r"\"[^\"]*\"|'[^']*'", "", self.expression)))
        self._of_frame = self._names & set(NAMES)
        self._decodes = bool(self._names - set(NAMES) | self._names & {"message", "error", "failed"})

    def matches(self, frame: Frame) -> bool:
        """Whether the frame is one of those."""
        try:
            found = self._program.execute(self._context(frame))
            if not isinstance(found, bool):
                self._gave.add(type(found).__name__)
            return found is True
        except Exception:  # noqa: BLE001 - a field that is not there (KeyError, RuntimeError), types that do not compare
            return False

    def complaint(self) -> str:
        """Why nothing may have matched, where that is in the expression; else nothing."""
        words = re.sub(r"\"[^\"]*\"|'[^']*'", "", self.expression)
        roots = re.findall(r"(?<![\w.])([A-Za-z_]\w*)(?!\w|\s*\()", words)
        own = re.findall(r"\(\s*(\w+)\s*,", words)  # as in items.exists(item, item > 1)
        known = _field_names(self._document) | set(NAMES) | _WORDS_OF_CEL | set(own)
        strange = [word for word in dict.fromkeys(roots) if word not in known]
        if strange:
            return f"nothing here is called {strange[0]}"
        if self._gave:
            return f"the expression gives {_TYPES.get(min(self._gave), min(self._gave))}, not true or false"
        return ""

    def _context(self, frame: Frame) -> dict[str, Any]:
        context: dict[str, Any] = {}
        reading = None
        if self._decodes and frame.message is not None:
            decoded, reading = self._document.read(frame)
            if decoded.message is not None:
                fields = _fields(decoded.message, self._names, 0)
                context |= fields
                context["message"] = fields
            if "failed" in self._names:
                context["failed"] = is_error(frame, (decoded, reading))
        elif "failed" in self._names:
            context["failed"] = is_error(frame, self._document.read(frame))
        context |= {"call": frame.call or 0, "method": frame.method, "event": frame.kind, "seq": frame.seq}
        context |= {"size": frame.size, "time": (frame.time_ns or 0) / 1e9}
        direction = frame.direction
        context["direction"] = "" if direction is None else DIRECTIONS[direction]
        if frame.message is not None:
            context["index"] = frame.message.index
        if isinstance(frame.record, Status):
            context["status"] = status_name(frame.record.code)
        if reading is not None and reading.error is not None:
            context["error"] = reading.error
        return context


def _reason(error: Exception) -> str:
    """The library's first complaint, and where it is, without the list of all that could have stood there."""
    text = " ".join(str(error).split()) or type(error).__name__
    found = _COMPLAINT.search(text)
    return f"character {found[1]}: {found[2].strip()[0].lower()}{found[2].strip()[1:160]}" if found else text[:200]


def _field_names(document: Document) -> set[str]:
    """What the fields of the messages of a capture are called."""
    methods = {document.method(call) for call in document.calls()[:1_000]}
    found = [document.schemas.descriptor(method, direction) for method in methods for direction in (0, 1)]
    return {name for descriptor in found if descriptor is not None for name in descriptor.fields_by_name}


def _fields(message: Any, names: frozenset[str], depth: int) -> dict[str, Any]:
    """The fields of a message that an expression names, and that are set or have no way not to be."""
    out: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.name not in names or (field.has_presence and not message.HasField(field.name)) or depth > _DEPTH:
            continue
        value = getattr(message, field.name)
        if field.is_repeated:
            out[field.name] = _several(field, value, names, depth)
        else:
            out[field.name] = _one(field, value, names, depth)
    return out


def _several(field: FieldDescriptor, value: Any, names: frozenset[str], depth: int) -> Any:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        of = inner.fields_by_name["value"]
        return {key: _one(of, value[key], names, depth) for key, _ in zip(value, range(_MOST), strict=False)}
    return [_one(field, element, names, depth) for element, _ in zip(value, range(_MOST), strict=False)]


def _one(field: FieldDescriptor, value: Any, names: frozenset[str], depth: int) -> Any:
    if field.message_type is not None:
        return _fields(value, names, depth + 1)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value


def completions(schemas: SchemaSet, methods: Iterator[str] | list[str], typed: str) -> list[str]:
    """What the last word of an unfinished expression may go on to: names of fields, one step further than it is."""
    match = re.search(r"[A-Za-z_][A-Za-z0-9_.]*$", typed)
    if match is None and re.search(r"[\w\"')\]]$", typed):
        return []  # behind a value
    word = match.group() if match else ""
    prefix, _, last = word.rpartition(".")
    found: dict[str, None] = {}
    if not prefix:
        found |= dict.fromkeys(name for name in NAMES if name.startswith(last))
    steps = [step for step in prefix.split(".") if step and step != "message"]
    for method in methods:
        for direction in (0, 1):
            descriptor: Descriptor | None = schemas.descriptor(method, direction)
            for step in steps:
                field = None if descriptor is None else descriptor.fields_by_name.get(step)
                descriptor = None if field is None else field.message_type
            if descriptor is not None:
                found |= dict.fromkeys(f.name for f in descriptor.fields if f.name.startswith(last))
    head = typed[: len(typed) - len(last)]
    return [head + name for name in found if name != last]
