"""What came of comparing one capture with something: counts of verdicts, and the divergences."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .compare import VERDICTS
from .explain import Divergence
from .races import Race
from .rules import Rule, Rules


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one capture. `error` says why there is no verdict; then `passed` is False and nothing is counted."""

    file: str
    condition: str
    calls: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))
    divergences: tuple[Divergence, ...] = ()  # in observation order, the first of those that are not accepted
    accepts_equivalent: bool = False
    withheld: tuple[str, ...] = ()  # metadata names that the capture has redacted, and that were not sent
    gave_up: bool = False
    stopped: bool = False  # at the first divergence, as was asked
    flooded: tuple[int, ...] = ()  # calls that were cut, since the target sent without end
    gaps: int = 0  # where events were lost, in what was compared
    races: int = 0  # where the recorded order was not the client's to see
    race: Race | None = None  # the one that the first divergence may come from
    attempts: int = 1  # replays until this one, each with another order of the races
    used: Counter[Rule] = field(default_factory=Counter)  # events that each rule made pass
    rules: Rules = field(default_factory=Rules)  # that it was judged by
    seconds: float = 0.0
    died: str | None = None  # how a spawned server ended by itself, as a clause
    output: tuple[str, ...] = ()  # the last lines that such a one printed, or one that did not start
    updated: bool = False  # a new capture, with the answers that came, was written
    error: str | None = None

    @property
    def whole(self) -> bool:
        """Whether the target answered to all, whatever it answered."""
        stalled = any(divergence.stall is not None for divergence in self.divergences)
        return self.error is None and not (stalled or self.gave_up or self.stopped or self.died)

    @property
    def failed(self) -> int:
        """How many events are not as they should be."""
        accepted = {"identical", "ignored"} | ({"equivalent"} if self.accepts_equivalent else set())
        return sum(n for verdict, n in self.counts.items() if verdict not in accepted)

    @property
    def passed(self) -> bool:
        """Whether every event was as it should be."""
        return self.error is None and not self.failed

    def as_json(self) -> dict[str, object]:
        """The object that `--json` has for it."""
        first = self.divergences[0].as_json() if self.divergences else None
        body: dict[str, object] = {
            "file": self.file,
            "condition": self.condition,
            "passed": self.passed,
            "calls": self.calls,
            "counts": self.counts,
            "first_divergence": first,
        }
        more: dict[str, object] = {
            "races": self.races,
            "racy": None if self.race is None else str(self.race),
            "attempts": self.attempts if self.attempts > 1 else None,
            "rules": {str(rule): n for rule, n in self.used.items()},
            "flooded": list(self.flooded),
            "gaps": self.gaps,
            "seconds": round(self.seconds, 3),
            "died": self.died,
            "output": list(self.output),
            "error": self.error,
        }
        return body | {name: value for name, value in more.items() if value}
