"""What a recorder keeps and what it hides. The defaults are right for production: credentials are never kept."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from .capfile.records import Metadata, MetadataValue, Redacted

CREDENTIALS: Final = (
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "*-token",
    "*-token-bin",
    "*-secret",
    "*-secret-bin",
    "*-password",
)
_DIGEST_SIZE = 8  # bytes: enough to tell a capture's values apart, too few to be worth attacking


@dataclass(frozen=True, slots=True)
class Policy:
    """`redact`: globs over metadata names; of such a value only length and a keyed hash are written."""

    redact: tuple[str, ...] = CREDENTIALS

    def as_body(self) -> dict[str, Any]:
        """The policy as the `meta` record states it."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Redactor:
    """Applies `Policy.redact`. `key` is random for each recorder and stands in no file."""

    policy: Policy
    key: bytes = field(repr=False)

    def metadata(self, pairs: Iterable[tuple[str, str | bytes]] | None) -> Metadata:
        """Metadata as grpc gives it, to metadata as a capture keeps it: ordered, duplicates kept, values as bytes."""
        return tuple((name, self._value(name, value)) for name, value in pairs or ())

    def _value(self, name: str, value: str | bytes) -> MetadataValue:
        data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
        if not any(fnmatch.fnmatchcase(name.lower(), glob) for glob in self.policy.redact):
            return data
        return Redacted(len(data), hashlib.blake2b(data, key=self.key, digest_size=_DIGEST_SIZE).digest())
