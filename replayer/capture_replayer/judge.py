"""Holds events that are not identical against the schema and the user's rules: another encoding of the same message,
or a difference only in what is to be ignored. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from capture_recorder.capfile.fields import Leaves, changed
from capture_recorder.capfile.paths import Path, Pattern
from capture_recorder.capfile.records import Headers, Message, Metadata, Status
from capture_recorder.capfile.schema import SchemaSet

from .compare import Answer, Expected, HeadersCame, MessageCame, StatusCame, metadata_difference
from .rules import Rule, Rules, of_method

_OK: Final = 0


@dataclass(frozen=True, slots=True)
class _Method:
    """The rules of one method, ready to be used."""

    fields: tuple[tuple[Rule, Pattern], ...]
    metadata: tuple[Rule, ...]
    status: tuple[Rule, ...]


class RulesJudge:
    """A `compare.Judge` over the schema of one capture, which is asked for when it is needed. `used` counts for each
    rule how many events it made pass."""

    def __init__(self, rules: Rules, schemas: Callable[[], SchemaSet]) -> None:
        self.used: Counter[Rule] = Counter()
        self._rules = rules
        self._schemas = schemas
        self._methods: dict[str, _Method] = {}
        self._last: tuple[Expected, Answer, set[Rule] | None] | None = None  # a verdict is often asked for twice

    @property
    def schemas(self) -> SchemaSet:
        """The schema."""
        return self._schemas()

    def accepts(self, verdict: str) -> bool:
        """See `compare.Judge`."""
        return verdict in ("identical", "ignored") or (verdict == "equivalent" and self._rules.accept_equivalent)

    def verdict(self, method: str, direction: int, expected: Expected, actual: Answer) -> str:
        """See `compare.Judge`."""
        rules = self._excluding(method, direction, expected, actual)
        if rules is None:
            return "different"
        return "ignored" if rules else "equivalent"

    def ignored(self, method: str, direction: int, expected: Expected, actual: Answer) -> None:
        """See `compare.Judge`."""
        self.used.update(self._excluding(method, direction, expected, actual) or ())

    def _excluding(self, method: str, direction: int, expected: Expected, actual: Answer) -> set[Rule] | None:
        """The rules that exclude all that differs, none if nothing does but the encoding; None if something counts."""
        two = (expected, actual)
        if self._last is None or self._last[0] is not expected or self._last[1] is not actual:
            self._last = (*two, self._rules_of(method, direction, expected, actual))
        return self._last[2]

    def _rules_of(self, method: str, direction: int, expected: Expected, actual: Answer) -> set[Rule] | None:
        match expected, actual:
            case Message(), MessageCame():
                changes = self.changes(method, direction, expected.payload, actual.payload)
                if changes is None:
                    return None
                rules = {self._ignoring(method, path) for path in changes}
                return None if None in rules else {rule for rule in rules if rule is not None}
            case Headers(), HeadersCame():
                return self._metadata(method, expected.metadata, actual.metadata)
            case Status(), StatusCame() if expected.code == actual.code:
                words = set(self._of(method).status) if expected.message != actual.message else set()
                if expected.code != _OK and expected.message != actual.message and not words:
                    return None
                if metadata_difference(expected.metadata, actual.metadata) is None:
                    return words
                metadata = self._metadata(method, expected.metadata, actual.metadata)
                return None if metadata is None else words | metadata
        return None

    def likeness(self, method: str, direction: int, payload: bytes) -> Hashable:
        """See `compare.Judge`."""
        leaves = self.schemas.flatten(method, direction, payload)
        if leaves is None:
            return payload
        return frozenset((path, leaf) for path, leaf in leaves.items() if self._ignoring(method, path) is None)

    def changes(self, method: str, direction: int, expected: bytes, actual: bytes) -> list[Path] | None:
        """The paths of the fields in which two messages differ; None where they cannot both be taken apart."""
        sides = self.leaves(method, direction, expected, actual)
        return None if sides is None else changed(*sides)

    def ignores(self, method: str, path: Path) -> bool:
        """Whether the field is none that counts."""
        return self._ignoring(method, path) is not None

    def leaves(self, method: str, direction: int, expected: bytes, actual: bytes) -> tuple[Leaves, Leaves] | None:
        """Both messages by their fields; None where they cannot both be taken apart."""
        a = self.schemas.flatten(method, direction, expected)
        b = self.schemas.flatten(method, direction, actual) if a is not None else None
        return None if a is None or b is None else (a, b)

    def _metadata(self, method: str, expected: Metadata, actual: Metadata) -> set[Rule] | None:
        rules = self._of(method).metadata
        if metadata_difference(*(_without(metadata, rules) for metadata in (expected, actual))) is not None:
            return None
        return {rule for rule in rules if _has(expected, rule) or _has(actual, rule)}

    def _ignoring(self, method: str, path: Path) -> Rule | None:
        return next((rule for rule, pattern in self._of(method).fields if pattern.matches(path)), None)

    def _of(self, method: str) -> _Method:
        if method not in self._methods:
            rules = of_method(self._rules.ignore, method)
            by: dict[str, list[Rule]] = {"field": [], "metadata": [], "status": []}
            for rule in rules:
                by[rule.what].append(rule)
            fields = tuple((rule, Pattern(rule.pattern)) for rule in by["field"])
            self._methods[method] = _Method(fields, tuple(by["metadata"]), tuple(by["status"]))
        return self._methods[method]


def _without(metadata: Metadata, rules: Iterable[Rule]) -> Metadata:
    return tuple((key, value) for key, value in metadata if not any(fnmatchcase(key, rule.pattern) for rule in rules))


def _has(metadata: Metadata, rule: Rule) -> bool:
    return any(fnmatchcase(key, rule.pattern) for key, _ in metadata)
