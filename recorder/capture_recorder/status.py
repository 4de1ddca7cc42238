"""gRPC's status codes by name, for tools that do not load gRPC."""

from __future__ import annotations

from typing import Final

# https://github.com/grpc/grpc/blob/master/doc/statuscodes.md
NAMES: Final = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)


def status_name(code: int) -> str:
    """`NOT_FOUND`; of a code that gRPC does not have, its number as text."""
    return NAMES[code] if 0 <= code < len(NAMES) else str(code)
