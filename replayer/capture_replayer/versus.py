"""Two servers held against one another instead of against the recording: what the baseline answered becomes a capture,
and that is replayed against the candidate."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from .api import ReplayOptions, Where, places_of, settings_of
from .place import Place
from .result import Result
from .rules import BadRules, beside
from .runner import Settings, Silent, Watcher, one


async def versus(files: list[str], baseline: Where, candidate: Where, options: ReplayOptions) -> list[Result]:
    """The results of the candidate, in the order of the files. Raises BadRules, and ValueError as `replay` does. What
    the baseline answered is kept where `save_actual` says: events are numbered as in it."""
    recorded_clock = options.get("clock") == "recorded"
    fresh = options.get("fresh", "capture")
    (a, b) = (places_of([side], fresh=fresh, recorded_clock=recorded_clock)[0] for side in (baseline, candidate))
    settings = settings_of(options, several=len(files) > 1)
    watcher = options.get("watcher") or Silent()
    results: list[Result] = []
    async with a, b:
        for file in files:
            watcher.began(file)
            result = await _one(file, a, b, settings, watcher)
            watcher.ended(result)
            results.append(result)
            if options.get("fail_fast", False) and not result.passed:
                break
    return results


async def _one(file: str, baseline: Place, candidate: Place, settings: Settings, watcher: Watcher) -> Result:
    with tempfile.TemporaryDirectory(prefix="capture-replay-") as folder:
        path = settings.saved_to(file) if settings.saved_to is not None else Path(folder, Path(file).name)
        answered = replace(settings, saved_to=None, updated_to=lambda _file: path)  # with the recorded times
        first = await one(file, baseline, answered, watcher)
        if first.error is not None:
            return replace(first, error=f"the baseline: {first.error}")
        if not first.updated:
            why = f"it {first.died}" if first.died else "a wait came to its limit"
            return replace(first, error=f"the baseline did not answer to everything in {file}: {why}")
        try:
            rules = settings.rules | beside(file) if settings.beside else settings.rules
        except BadRules as error:
            return replace(first, error=str(error))
        again = replace(settings, saved_to=None, updated_to=None, rules=rules, beside=False, calls=())
        second = await one(str(path), candidate, again)
        return replace(second, file=file, seconds=first.seconds + second.seconds)
