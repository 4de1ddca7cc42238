"""The lens for messages of which only the schema is known: the kind that is set, short values, an error code."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from . import Reading

_SHOWN: Final = 4  # values on a line
_LONG: Final = 32  # characters or bytes; what is longer is told by its size
_DEPTH: Final = 8
_ERRORS: Final = ("ErrorCode", "Error", "Code", "Status", "StatusCode")


def read(message: Any) -> Reading:
    """See `Lens`."""
    values: list[str] = []
    name = kind(message)
    inner = getattr(message, name) if name else message
    for field, value in inner.ListFields() if hasattr(inner, "ListFields") else ():
        text = _text(field, value)
        if text is not None and len(values) < _SHOWN:
            values.append(f"{field.name}={text}")
    return Reading(" ".join([*([name] if name else []), *values]), error_code(message))


def kind(message: Any) -> str | None:
    """The field that is set of a message's only oneof."""
    oneofs = [oneof for oneof in message.DESCRIPTOR.oneofs if len(oneof.fields) > 1]
    return message.WhichOneof(oneofs[0].name) if len(oneofs) == 1 else None


def error_code(message: Any, depth: int = 0) -> str | None:
    """The name of the first value that is set of an enum that is called like an error."""
    for field, value in message.ListFields():
        if field.is_repeated or depth > _DEPTH:
            continue
        if field.enum_type is not None and field.enum_type.name.endswith(_ERRORS) and value:
            known = field.enum_type.values_by_number.get(value)
            return known.name if known else str(value)
        if field.message_type is not None:
            found = error_code(value, depth + 1)
            if found is not None:
                return found
    return None


def _text(field: FieldDescriptor, value: Any) -> str | None:
    if field.is_repeated:
        return f"[{len(value)}]"
    if field.message_type is not None:
        return None
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    if isinstance(value, bytes):
        return value.hex() if len(value) * 2 <= _LONG else f"<{len(value):,} bytes>"
    if isinstance(value, str):
        return value if len(value) <= _LONG else f"{value[: _LONG - 1]}…"
    return str(value)
