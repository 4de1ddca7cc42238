"""Many captures, each against a place, several at a time: who gets what when. What happens in each: `replay.py`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from capture_recorder.capfile import CaptureError, open_capture
from capture_recorder.capfile.decoder import UNREADABLE

from .actual import ActualCapture, Several
from .client import TargetUnreachable
from .clock import ClockUnavailable
from .engine import Options
from .place import Place
from .plan import Step
from .races import Choice, Tried, next_choice
from .replay import CannotTell, Prepared, prepared, replay_once
from .result import Result
from .rules import BadRules, Rules, beside
from .spawn import NotStarted

LARGE: Final = 1 << 20
"""Bytes of a capture from which on it is looked through in a thread, so that other replays do not wait for it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How each capture is replayed. `attempts`: replays of a capture whose divergence may come from a race, each in
    another legal order. `beside`: use the rules that stand beside a capture, too. `saved_to` and `updated_to` say where
    the capture of the replay, or the one that takes the recording's place, goes."""

    options: Options = field(default_factory=Options)
    calls: tuple[int, ...] = ()
    allow_torn: bool = False
    rules: Rules = field(default_factory=Rules)
    beside: bool = True
    attempts: int = 1
    saved_to: Callable[[str], Path] | None = None
    updated_to: Callable[[str], Path] | None = None
    force: bool = False


class Watcher(Protocol):
    """Told how a run goes."""

    def began(self, file: str) -> None: ...
    def measured(self, file: str, steps: int) -> None: ...
    def step(self, file: str, step: Step) -> None: ...
    def ended(self, result: Result) -> None: ...


class Silent:
    """A `Watcher` that keeps it to itself."""

    def began(self, file: str) -> None:
        """See `Watcher`."""

    def measured(self, file: str, steps: int) -> None:
        """See `Watcher`."""

    def step(self, file: str, step: Step) -> None:
        """See `Watcher`."""

    def ended(self, result: Result) -> None:
        """See `Watcher`."""


async def run(
    files: Sequence[str],
    places: Sequence[Place],
    settings: Settings,
    *,
    fail_fast: bool = False,
    watcher: Watcher | None = None,
) -> list[Result]:
    """Replay all files, one at a time in each place. The results are in the order of the files; with `fail_fast` those
    after the first that failed may be missing."""
    watcher = watcher or Silent()
    results: dict[int, Result] = {}
    remaining = iter(enumerate(files))
    failed = asyncio.Event()

    async def work(place: Place) -> None:
        async with place:
            for index, file in remaining:
                watcher.began(file)
                result = results[index] = await one(file, place, settings, watcher)
                watcher.ended(result)
                if fail_fast and not result.passed:
                    failed.set()
                if failed.is_set():
                    return

    workers = [asyncio.create_task(work(place)) for place in places[: len(files)]]
    stop = asyncio.create_task(failed.wait())
    try:
        await asyncio.wait({stop, asyncio.create_task(_all(workers))}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (stop, *workers):
            task.cancel()
        ends = await asyncio.gather(*workers, return_exceptions=True)  # they stop their servers before they end
    for end in ends:
        if isinstance(end, Exception):
            raise end
    return [results[index] for index in sorted(results)]


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)


async def one(file: str, place: Place, settings: Settings, watcher: Watcher | None = None) -> Result:
    """Replay one capture. Never raises for what the file or the target does: a Result with an `error` says it."""
    start = time.perf_counter()
    output: tuple[str, ...] = ()
    try:
        rules = settings.rules | (beside(file) if settings.beside else Rules())
        async with _prepared(file, settings) as capture:
            result = await _attempts(capture, place, replace(settings, rules=rules), watcher or Silent())
            return replace(result, seconds=time.perf_counter() - start, rules=rules)
    except NotStarted as error:
        text, output = str(error), error.output
    except (CaptureError, CannotTell, TargetUnreachable, ClockUnavailable, BadRules) as error:
        text = str(error)
    seconds = time.perf_counter() - start
    return Result(file, condition_of(file), seconds=seconds, output=output, error=text)


@contextlib.asynccontextmanager
async def _prepared(file: str, settings: Settings) -> AsyncIterator[Prepared]:
    opening = prepared(file, settings.calls, allow_torn=settings.allow_torn)
    with contextlib.ExitStack() as stack:
        if _size(file) > LARGE:
            yield await asyncio.to_thread(stack.enter_context, opening)
        else:
            yield stack.enter_context(opening)


async def _attempts(capture: Prepared, place: Place, settings: Settings, watcher: Watcher) -> Result:
    """Replay, and where a race may be to blame, again in another of its legal orders. The attempt that passed, or the
    one that got farthest."""
    choice: Choice = {}
    result, outputs = await _attempt(capture, place, settings, choice, watcher)
    attempts = 1
    try:
        tried: Tried = {()}
        while not result.passed and attempts < settings.attempts:
            other = next_choice(choice, capture.survey.races, _farness(result), tried)
            if other is None:
                break
            attempts += 1
            again, again_outputs = await _attempt(capture, place, settings, other, watcher)
            if again.passed or _farness(again) > _farness(result):
                result, outputs, again_outputs, choice = again, again_outputs, outputs, other
            again_outputs.discard()
        updated = outputs.keep(whole=result.whole)
        return replace(result, attempts=attempts, updated=updated)
    finally:
        outputs.discard()


async def _attempt(
    capture: Prepared, place: Place, settings: Settings, choice: Choice, watcher: Watcher
) -> tuple[Result, Several]:
    meta = capture.survey.meta
    start_ns = meta.created_ns if meta is not None else 0
    outputs = _outputs(capture, settings)
    try:
        async with place.visit(start_ns) as visit:
            options = settings.options
            if (clock := visit.clock) is not None:
                options = replace(options, clock=lambda now_ns: clock(start_ns + now_ns))
            watcher.measured(capture.file, capture.survey.steps)
            result = await replay_once(
                capture,
                visit.client,
                options=options,
                rules=settings.rules,
                choice=choice,
                observer=outputs,
                progress=lambda step: watcher.step(capture.file, step),
            )
            if not result.passed:
                died, output = await visit.death()
                result = replace(result, died=died, output=output)
    except BaseException:
        outputs.discard()
        raise
    return result, outputs


def _farness(result: Result) -> int:
    """The event at which the result diverged."""
    return result.divergences[0].event if result.divergences else 0


def _outputs(capture: Prepared, settings: Settings) -> Several:
    survey = capture.survey
    captures: list[ActualCapture] = []
    try:
        for where, recorded_times in ((settings.saved_to, False), (settings.updated_to, True)):
            if where is not None:
                path, origin = where(capture.file), Path(capture.file).name
                made = ActualCapture(
                    path,
                    survey.meta,
                    survey.schema_records,
                    origin,
                    recorded_times=recorded_times,
                    force=settings.force,
                )
                captures.append(made)
    except CaptureError:
        Several(captures).discard()
        raise
    return Several(captures)


def condition_of(file: str) -> str:
    """The condition of a file that was refused, as far as it can be told without reading it whole."""
    try:
        with open_capture(file) as reader:
            return reader.condition
    except CaptureError:
        return UNREADABLE


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size  # noqa: PTH116
    except (OSError, ValueError):
        return 0
