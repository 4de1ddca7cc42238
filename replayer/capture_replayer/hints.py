"""What a divergence looks like: a clock, a checksum. Guesses, told as such. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from capture_recorder.lens import Reading

    from .explain import Divergence

_EXPIRED: Final = re.compile(r"DEADLINE|EXPIRED|TIMED?_?OUT", re.IGNORECASE)
_TIMES: Final = re.compile(r"(time|timestamp|date|clock|_at|_nanos|_micros|_millis|_seconds|_ns|_us|_ms)$")
CLOCK: Final = "replay it with --spawn 'COMMAND {address}' --clock recorded"


def looks_like_time(divergence: Divergence) -> str:
    """A sentence where the two sides part as they do if only the clock is another: a deadline that was kept and is
    not, or the reverse; a field that says when."""
    sides = [divergence.expected or "", divergence.actual or divergence.ended or ""]
    sides = [f"{side} {summary}" for side, summary in zip(sides, divergence.summaries or ("", ""), strict=True)]
    expired = [bool(_EXPIRED.search(side)) for side in sides]
    if expired[0] != expired[1]:
        where = "only in the replay" if expired[1] else "only in the recording"
        return f"the clock: a deadline had passed {where}; {CLOCK}"
    counted = [change for change in divergence.fields if not change.ignored]
    if counted and all(_TIMES.search(re.sub(r"(\[[^]]*\]|\.seconds|\.nanos)+$", "", c.path)) for c in counted):
        return f"the clock: only times differ; {CLOCK}, or leave them out with --ignore {counted[0].path}"
    return ""


def checksum_note(expected: Reading | None, actual: Reading | None) -> str:
    """What the checksums that both messages declare say of their difference."""
    if expected is None or actual is None or not (expected.checks and actual.checks):
        return ""
    there, here = ({check.tensor: check for check in side.checks} for side in (expected, actual))
    for name, check in here.items():
        before = there.get(name)
        if before is None or (before.declared, before.computed) == (check.declared, check.computed):
            continue
        if check.verdict != "ok":
            return f"{name}: corrupt in the replay: {check.why or check.verdict}"
        if before.verdict != "ok":
            return f"{name}: corrupt in the recording, and whole in the replay: {before.why or before.verdict}"
        return (
            f"{name}: other bytes, and their checksum was updated with them ({check.declared}): not a transport fault"
        )
    return ""
