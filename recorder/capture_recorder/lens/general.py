"""The lens for messages of which only the schema is known: the kind that is set, short values, an error code."""

from __future__ import annotations

import re
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from . import Reading

_SHOWN: Final = 4  # values on a line
_LONG: Final = 32  # characters or bytes; what is longer is cut, or told by its size
_DEPTH: Final = 8
_ERRORS: Final = re.compile(r"(Error|ErrorCode|Status|StatusCode|(^|Result|Return|Response|Reply)Code)$")
_FINE: Final = re.compile(r"(^|(?<!NOT)_)(OK|SUCCESS|SUCCEEDED|NONE|NO_ERROR|SERVING|READY|HEALTHY|DONE|COMPLETED?)$")
"""Values that such an enum may have besides 0 and that are no error, as the SERVING of gRPC's health check."""


def read(message: Any) -> Reading:
    """See `Lens`."""
    name = kind(message)
    inner = getattr(message, name) if name else None
    is_message = hasattr(inner, "ListFields")  # a oneof may have plain values too
    values = [(field.name, text) for field, text in plain(inner if is_message else message)][:_SHOWN]
    words = [name] if name and is_message else []
    words += [f"{label}={value}" for label, value in values]
    fields = [("kind", name)] if name else []
    return Reading(" ".join(words), error_code(message), fields=(*fields, *values))


def kind(message: Any) -> str | None:
    """The field that is set of a message's only oneof."""
    oneofs = [oneof for oneof in message.DESCRIPTOR.oneofs if len(oneof.fields) > 1]
    return message.WhichOneof(oneofs[0].name) if len(oneofs) == 1 else None


def error_code(message: Any, depth: int = 0) -> str | None:
    """The name of the first value that is set of an enum that is called like an error."""
    for field, value in message.ListFields():
        if field.is_repeated or depth > _DEPTH:
            continue
        if field.enum_type is not None and _ERRORS.search(field.enum_type.name) and value:
            code = enum_name(field, value)
            if not _FINE.search(code):
                return code
        elif field.message_type is not None:
            found = error_code(value, depth + 1)
            if found is not None:
                return found
    return None


def plain(message: Any) -> list[tuple[FieldDescriptor, str]]:
    """The fields that are set and are no messages, each with its value in few characters."""
    found = ((field, _text(field, value)) for field, value in message.ListFields())
    return [(field, text) for field, text in found if text is not None]


def enum_name(field: FieldDescriptor, value: int) -> str:
    """The value's name in its enum, or its number where it has none."""
    known = field.enum_type.values_by_number.get(value) if field.enum_type is not None else None
    return known.name if known else str(value)


def short(text: str, limit: int = _LONG) -> str:
    """The text, cut where it is long."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _text(field: FieldDescriptor, value: Any) -> str | None:
    if field.is_repeated:
        return f"[{len(value)}]"
    if field.message_type is not None:
        return None
    if field.enum_type is not None:
        return enum_name(field, value)
    if isinstance(value, bytes):
        return value.hex() if len(value) * 2 <= _LONG else f"<{len(value):,} bytes>"
    return short(str(value))
