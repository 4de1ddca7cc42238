"""What varies between replays against fresh servers of one build, as rules that leave it out.

The answers of each run are held against those of the first, and every field in which one differs is noted. A field is
proposed with `[*]` only where all of its elements varied; one that was the same in all runs never is.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from capture_recorder.capfile import Entry, open_capture
from capture_recorder.capfile import paths as field_paths
from capture_recorder.capfile.fields import changed
from capture_recorder.capfile.records import RESPONSE, Call, Headers, Message, Metadata, Schema, Status
from capture_recorder.capfile.schema import SchemaSet

from .compare import Answer, Expected, HeadersCame, MessageCame, StatusCame
from .diff import diff
from .explain import NOT_SET
from .judge import RulesJudge
from .place import Place
from .replay import CannotTell
from .rules import Rule, Rules
from .runner import Settings, one

FEWEST: Final = 2  # runs: one has nothing to be held against
_OK: Final = 0


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule, and why: in how many answers it varied, and two of its values."""

    rule: Rule
    times: int
    examples: tuple[str, str]

    @property
    def comment(self) -> str:
        """Why, in a line."""
        answers = "1 answer" if self.times == 1 else f"{self.times:,} answers"
        return f"varied in {answers}, for example {self.examples[0]} and {self.examples[1]}"


@dataclass(frozen=True, slots=True)
class Learned:
    """What came of it. `problems` has a sentence for each variation that no rule can leave out."""

    runs: int
    proposals: tuple[Proposal, ...] = ()
    problems: tuple[str, ...] = ()


async def learn(file: str, place: Place, settings: Settings, runs: int) -> Learned:
    """Replay a capture so many times. Raises CannotTell where a run came to no end."""
    with tempfile.TemporaryDirectory(prefix="capture-replay-") as folder:
        saved = [Path(folder, f"{number}.cap") for number in range(runs)]
        for path in saved:
            saving = replace(settings, saved_to=partial(_at, path), updated_to=None, attempts=1)
            result = await one(file, place, saving)
            if result.error is not None:
                raise CannotTell(result.error)
            if not result.whole:
                raise CannotTell(f"{file}: the server did not answer to everything, so nothing can be learned of it")
        noted = _Noted()
        for other in saved[1:]:
            with open_capture(saved[0]) as a, open_capture(other) as b:
                result = diff(a, b, partial(_Learner, noted))
            noted.problems.update(
                f"event {d.event} of the first run ({d.kind}, call {d.call}): {d.verdict} in another run; "
                "no rule leaves that out"
                for d in result.divergences
            )
        return Learned(runs, tuple(noted.proposals(saved[0])), tuple(sorted(noted.problems)))


def _at(path: Path, _file: str) -> Path:
    return path


class _Noted:
    """What varied, and where."""

    def __init__(self) -> None:
        self.problems: set[str] = set()
        self.fields: dict[tuple[str, field_paths.Path], list[tuple[str, str]]] = defaultdict(list)
        self.metadata: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        self.status: dict[str, list[tuple[str, str]]] = defaultdict(list)

    def proposals(self, first: Path) -> list[Proposal]:
        """The rules that leave it out."""
        stable = self._stable(first)
        found: dict[Rule, list[tuple[str, str]]] = {}
        for (method, path), examples in self.fields.items():
            general = _general(path)
            proposed = path if (method, general) in stable else general
            found.setdefault(Rule("field", field_paths.text(proposed), method), []).extend(examples)
        for (method, key), examples in self.metadata.items():
            found.setdefault(Rule("metadata", key, method), []).extend(examples)
        for method, examples in self.status.items():
            found.setdefault(Rule("status", "message", method), []).extend(examples)
        return [Proposal(rule, len(examples), examples[0]) for rule, examples in found.items()]

    def _stable(self, first: Path) -> set[tuple[str, field_paths.Path]]:
        """The fields (with `[*]`) of which an element was the same in all runs, or is there in an answer that was."""
        wanted = {(method, _general(path)) for method, path in self.fields if _general(path) != path}
        found: set[tuple[str, field_paths.Path]] = set()
        methods: dict[int, str] = {}
        schemas = SchemaSet()
        with open_capture(first) as reader:
            for item in reader.scan() if wanted else ():
                record = item.record if isinstance(item, Entry) else None
                if isinstance(record, Schema):
                    schemas.add(record)
                elif isinstance(record, Call):
                    methods[record.call] = record.method
                elif isinstance(record, Message) and record.direction == RESPONSE:
                    method = methods[record.call]
                    for path in schemas.flatten(method, RESPONSE, record.payload) or ():
                        if (method, _general(path)) in wanted and (method, path) not in self.fields:
                            found.add((method, _general(path)))
        return found


def _general(path: field_paths.Path) -> field_paths.Path:
    return tuple("[*]" if segment[0] == "[" else segment for segment in path)


class _Learner(RulesJudge):
    """Notes every difference that a rule can leave out, and lets it pass."""

    def __init__(self, noted: _Noted, schemas: Callable[[], SchemaSet]) -> None:
        super().__init__(Rules(accept_equivalent=True), schemas)
        self._noted = noted

    def verdict(self, method: str, direction: int, expected: Expected, actual: Answer) -> str:
        """See `compare.Judge`."""
        if direction != RESPONSE or (isinstance(expected, Status) and expected.code != getattr(actual, "code", None)):
            return "different"
        if isinstance(expected, Message) and isinstance(actual, MessageCame):
            decoded = self.leaves(method, direction, expected.payload, actual.payload) is not None
            return "ignored" if decoded else "different"
        return "ignored"

    def ignored(self, method: str, direction: int, expected: Expected, actual: Answer) -> None:
        """See `compare.Judge`."""
        match expected, actual:
            case Message(), MessageCame():
                sides = self.leaves(method, direction, expected.payload, actual.payload)
                assert sides is not None
                for path in changed(*sides):
                    a, b = (side[path].text() if path in side else NOT_SET for side in sides)
                    self._noted.fields[method, path].append((a, b))
            case Headers(), HeadersCame():
                self._metadata_varies(method, expected.metadata, actual.metadata)
            case Status(), StatusCame():
                if expected.code != _OK and expected.message != actual.message:
                    self._noted.status[method].append((repr(expected.message), repr(actual.message)))
                self._metadata_varies(method, expected.metadata, actual.metadata)

    def _metadata_varies(self, method: str, a: Metadata, b: Metadata) -> None:
        keys = {key for key, _ in (*a, *b)}
        for key in sorted(keys):
            there, here = ([value for name, value in side if name == key] for side in (a, b))
            if there != here:
                self._noted.metadata[method, key].append((_first(there), _first(here)))


def _first(values: Sequence[object]) -> str:
    value = values[0] if values else None
    return value.decode("ascii", "backslashreplace") if isinstance(value, bytes) else NOT_SET
