"""What came of comparing one capture with something: counts of verdicts, and the divergences."""

from __future__ import annotations

from dataclasses import dataclass, field

from .compare import VERDICTS
from .explain import Divergence


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one capture. `error` says why there is no verdict; then `passed` is False and nothing is counted."""

    file: str
    condition: str
    calls: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))
    divergences: tuple[Divergence, ...] = ()  # in observation order, the first of them
    withheld: tuple[str, ...] = ()  # metadata names that the capture has redacted, and that were not sent
    gave_up: bool = False
    gaps: int = 0  # where events were lost, in what was compared
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every event was identical, and there was one to be compared."""
        return self.error is None and not any(n for verdict, n in self.counts.items() if verdict != "identical")

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
        if self.gaps:
            body["gaps"] = self.gaps
        return body if self.error is None else {**body, "error": self.error}
