"""What a user says may differ: from the command line, or from a TOML file that may stand beside the capture.

accept = "equivalent"            # another encoding of the same message passes

[[ignore]]
field = "chunk.envelope.*_nanos" # a path in the message; `*`, `**`, `[*]`; a message covers all below it
method = "/pkg.Service/*"        # only there; everywhere without it

[[ignore]]
metadata = "x-request-*"         # of headers and of trailing metadata

[[ignore]]
status = "message"               # the words of a status; its code is never ignored
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from capture_recorder.capfile.paths import Pattern

BESIDE: Final = ".rules.toml"
"""`a.rules.toml` is the rules of `a.cap` where it stands beside it."""
WHAT: Final = ("field", "metadata", "status")
LARGEST: Final = 1 << 20  # bytes of a rules file: it may have come with the capture


class BadRules(ValueError):
    """Rules that cannot be used; the text is one sentence, with the file."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that is ignored: `what` it is (one of WHAT), the pattern, and the methods that it is for. `source` is
    where the rule was given."""

    what: str
    pattern: str
    method: str = "*"
    source: str = ""

    def __str__(self) -> str:
        where = "" if self.method == "*" else f" of {self.method}"
        return f"{self.what} {self.pattern}{where}"


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of a replay. `sources`: the files that they come from."""

    ignore: tuple[Rule, ...] = ()
    accept_equivalent: bool = False
    sources: tuple[str, ...] = ()

    def __or__(self, other: Rules) -> Rules:
        return Rules(
            (*self.ignore, *other.ignore),
            self.accept_equivalent or other.accept_equivalent,
            (*self.sources, *other.sources),
        )


def rule(what: str, pattern: str, method: str = "*", source: str = "") -> Rule:
    """A rule that is checked. Raises BadRules."""
    if what == "status" and pattern != "message":
        raise BadRules(f'{_in(source)}of a status only the "message" can be ignored, not {pattern!r}')
    if not pattern:
        raise BadRules(f"{_in(source)}an empty pattern for {what} ignores nothing")
    if what == "field":
        try:
            Pattern(pattern)
        except ValueError as error:
            raise BadRules(f"{_in(source)}{error}") from None
    return Rule(what, pattern, method, source)


def given(ignore: Iterable[str], ignore_metadata: Iterable[str], accept: str, files: Iterable[str]) -> Rules:
    """The rules of a command line. Raises BadRules."""
    fields = [rule("field", pattern, source="--ignore") for pattern in ignore]
    metadata = [rule("metadata", key.lower(), source="--ignore-metadata") for key in ignore_metadata]
    rules = Rules((*fields, *metadata), accept == "equivalent")
    for file in files:
        rules |= load(file)
    return rules


def load(path: str | Path) -> Rules:
    """The rules of a file. Raises BadRules."""
    source = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise BadRules(f"{source}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    if len(data) > LARGEST:
        raise BadRules(f"{source}: more than {LARGEST:,} bytes of rules")
    try:
        table = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadRules(f"{source}: not TOML: {error}") from None
    return parse(table, source)


def beside(capture: str | Path) -> Rules:
    """The rules that stand beside a capture; none if there are none. Raises BadRules."""
    path = Path(capture)
    rules = path.with_name(path.name.removesuffix(".cap") + BESIDE)
    return load(rules) if rules.is_file() else Rules()


def parse(table: dict[str, Any], source: str) -> Rules:
    """The rules of a TOML document. Raises BadRules for what it does not know: a rule with a slip of the pen would
    ignore nothing, or too much."""
    unknown = sorted(set(table) - {"accept", "ignore"})
    if unknown:
        raise BadRules(f"{source}: {unknown[0]!r} is not known; there are accept and [[ignore]]")
    accept = table.get("accept")
    if accept not in (None, "identical", "equivalent"):
        raise BadRules(f'{source}: accept is "identical" or "equivalent", not {accept!r}')
    entries = table.get("ignore", [])
    if not isinstance(entries, list):
        raise BadRules(f"{source}: ignore is a list of tables: write [[ignore]]")
    ignore = tuple(_entry(entry, f"{source}, rule {number}") for number, entry in enumerate(entries, 1))
    return Rules(ignore, accept == "equivalent", (source,))


def _entry(entry: object, source: str) -> Rule:
    if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
        raise BadRules(f"{source}: the values of a rule are text")
    unknown = sorted(set(entry) - {*WHAT, "method", "why"})
    if unknown:
        raise BadRules(f"{source}: {unknown[0]!r} is not known; there are {', '.join(WHAT)}, method, why")
    what = [name for name in WHAT if name in entry]
    if len(what) != 1:
        raise BadRules(f"{source}: a rule is about one of {', '.join(WHAT)}")
    return rule(what[0], entry[what[0]], entry.get("method", "*"), source)


def as_toml(rules: Iterable[Rule], comments: Iterable[str] = ()) -> str:
    """Rules as a file of them, a comment before each."""
    blocks = []
    for each, comment in zip(rules, comments, strict=True):
        lines = [f"# {comment}", "[[ignore]]", f"{each.what} = {_text(each.pattern)}"]
        if each.method != "*":
            lines.append(f"method = {_text(each.method)}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _text(value: str) -> str:
    """A TOML basic string: JSON's, but for DEL and what lies beyond the basic plane."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}") for c in value) + '"'


def of_method(rules: Iterable[Rule], method: str) -> list[Rule]:
    """Those for a method."""
    return [each for each in rules if fnmatchcase(method, each.method)]


def _in(source: str) -> str:
    return f"{source}: " if source else ""
