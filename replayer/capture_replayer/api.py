"""The library: `replay(captures, target, …) -> Report`, and the same for asyncio.

from capture_replayer import Spawn, replay

report = replay("session.cap", Spawn("my-server --listen {address}"), clock="recorded")
assert report.passed, report
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypedDict, Unpack

from .engine import TIMEOUT, Options, Order
from .place import Fresh, Place, Spawned, Target, There
from .result import Result
from .rules import Rule, given
from .runner import Settings, Watcher, run
from .spawn import Spawn

SUFFIX: Final = ".cap"
PASSED, DIVERGED, CANNOT_TELL = 0, 1, 125

Capture = str | os.PathLike[str]
Where = str | Target | Spawn
"""An address, or what is to be started."""


class ReplayOptions(TypedDict, total=False):
    """What `replay` takes besides. Times are in seconds.

    `order` and `speed`, `concurrency`: see `engine.Options`. `attempts`: so many orders of racing requests are tried.
    `clock`: what a spawned server sees. `fresh`: a spawned server for each capture, or one for all. `ignore` (fields),
    `ignore_metadata`, `accept` and `rules` (TOML files) loosen the comparison; `rules_beside` uses those that stand
    beside a capture. `jobs`: spawned servers at a time. `save_actual` and `update`: a file for one capture, a folder
    for several.
    """

    order: Order
    speed: float
    concurrency: int | None
    attempts: int
    clock: Literal["real", "recorded"]
    fresh: Fresh
    timeout: float
    calls: Sequence[int]
    metadata: Sequence[tuple[str, str | bytes]]
    ignore: Sequence[str]
    ignore_metadata: Sequence[str]
    accept: Literal["identical", "equivalent"]
    rules: Sequence[Capture]
    rules_beside: bool
    allow_torn: bool
    stop_early: bool
    jobs: int
    fail_fast: bool
    save_actual: Capture | None
    update: Capture | None
    force: bool
    watcher: Watcher | None


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a run. `str()` of it is the text that the command prints."""

    results: tuple[Result, ...]
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether all captures passed, and there was one."""
        return bool(self.results) and all(result.passed for result in self.results)

    @property
    def exit_status(self) -> int:
        """A divergence that was seen outweighs a capture that could not be judged; one that was accepted is none."""
        if any(result.error is None and not (result.passed or result.updated) for result in self.results):
            return DIVERGED
        return CANNOT_TELL if any(result.error is not None for result in self.results) or not self.results else PASSED

    @property
    def unused(self) -> tuple[Rule, ...]:
        """Rules that never matched, in no capture that they were there for."""
        judged = [result for result in self.results if result.error is None]
        rules = dict.fromkeys(rule for result in judged for rule in result.rules.ignore)
        return tuple(rule for rule in rules if not any(result.used[rule] for result in judged))

    def as_json(self) -> dict[str, object]:
        """The object of `--json`."""
        captures = [result.as_json() for result in self.results]
        body: dict[str, object] = {"passed": self.passed, "captures": captures}
        return body | ({"rules_never_matched": [str(rule) for rule in self.unused]} if self.unused else {})

    def __str__(self) -> str:
        from .report import as_text  # noqa: PLC0415 - a program that only looks at results does not load rich

        return "\n".join(as_text(result) for result in self.results)


def replay(
    captures: Capture | Iterable[Capture], target: Where | Sequence[Where], **more: Unpack[ReplayOptions]
) -> Report:
    """Send the recorded requests to the target and hold its answers against the recorded ones. Folders stand for the
    captures in them; several targets share the captures. Raises BadTarget, BadRules, and ValueError for a bad command;
    what a capture or a server does is in the report."""
    return asyncio.run(replay_async(captures, target, **more))


async def replay_async(
    captures: Capture | Iterable[Capture], target: Where | Sequence[Where], **more: Unpack[ReplayOptions]
) -> Report:
    """`replay`, in a running event loop."""
    start = time.monotonic()
    files = expand([captures] if isinstance(captures, (str, os.PathLike)) else captures)
    targets = [target] if isinstance(target, (str, Target, Spawn)) else list(target)
    places = places_of(
        targets,
        jobs=more.get("jobs", 1),
        fresh=more.get("fresh", "capture"),
        recorded_clock=more.get("clock") == "recorded",
        timeout=more.get("timeout", TIMEOUT),
    )
    results = await run(
        files,
        places,
        settings_of(more, several=len(files) > 1),
        fail_fast=more.get("fail_fast", False),
        watcher=more.get("watcher"),
    )
    return Report(tuple(results), time.monotonic() - start)


def settings_of(more: ReplayOptions, *, several: bool) -> Settings:
    """How each capture is to be replayed."""
    rules = given(
        more.get("ignore", ()),
        more.get("ignore_metadata", ()),
        more.get("accept", "identical"),
        [os.fspath(file) for file in more.get("rules", ())],
    )
    return Settings(
        Options(
            more.get("timeout", TIMEOUT),
            tuple(more.get("metadata", ())),
            more.get("order", "causal"),
            more.get("speed", 1.0),
            more.get("concurrency"),
            more.get("stop_early", False),
        ),
        tuple(more.get("calls", ())),
        more.get("allow_torn", False),
        rules,
        more.get("rules_beside", True),
        more.get("attempts", 1),
        named(more.get("save_actual"), several=several),
        named(more.get("update"), several=several),
        more.get("force", False),
    )


def places_of(
    targets: Sequence[Where],
    *,
    jobs: int = 1,
    fresh: Fresh = "capture",
    recorded_clock: bool = False,
    timeout: float = 10.0,
) -> list[Place]:
    """A place for each of `jobs` at a time, and one at least for each target."""
    if recorded_clock and not all(isinstance(target, Spawn) for target in targets):
        raise ValueError("the recorded clock is for servers that are spawned: the clock of another is out of reach")
    makers: list[Callable[[], Place]] = []
    for target in targets:
        if isinstance(target, Spawn):
            makers.append(lambda spawn=target: Spawned(spawn, fresh=fresh, recorded_clock=recorded_clock))  # type: ignore[misc]
        else:
            there = Target(target, timeout=timeout) if isinstance(target, str) else target
            makers.append(lambda there=there: There(there))  # type: ignore[misc]
    return [makers[number % len(makers)]() for number in range(max(jobs, len(makers)))]


def expand(captures: Iterable[Capture]) -> list[str]:
    """Files as they are, folders as the captures in them. Raises ValueError for a folder without any."""
    files: list[str] = []
    for capture in captures:
        path = Path(capture)
        if not path.is_dir():
            files.append(os.fspath(capture))
            continue
        found = sorted(str(file) for file in path.rglob(f"*{SUFFIX}") if file.is_file())
        if not found:
            raise ValueError(f"{path}: there is no capture (*{SUFFIX}) in this folder")
        files += found
    return files


def named(place: Capture | None, *, several: bool) -> Callable[[str], Path] | None:
    """Where the capture that is made of one goes: the file `place`, or one of the same name in the folder `place`."""
    if place is None:
        return None
    path = Path(place)
    if several or path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        return lambda file: path / Path(file).name
    return lambda _file: path
