"""What a person sees on a terminal while captures are replayed; nothing where standard error is no terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from capture_recorder.text import printable

from ..plan import Step
from ..result import Result

_STRIDE: Final = 100  # steps between two updates of the progress: each takes longer than a step


class Bars:
    """A `runner.Watcher`: a bar for the run if there are several captures, and one for each under way. `show` gets each
    result as it comes."""

    def __init__(self, console: Console, show: Callable[[Result], None], files: int) -> None:
        self._show = show
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._all = self._progress.add_task(f"replaying {files:,} captures", total=files) if files > 1 else None
        self._tasks: dict[str, tuple[TaskID, int]] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._progress.stop()

    def began(self, file: str) -> None:
        """See `Watcher`."""
        self._tasks[file] = (self._progress.add_task(printable(Path(file).name), total=None), 0)

    def measured(self, file: str, steps: int) -> None:
        """See `Watcher`."""
        if file in self._tasks:
            task, _ = self._tasks[file]
            self._tasks[file] = (task, 0)
            self._progress.update(task, total=steps, completed=0)

    def step(self, file: str, step: Step) -> None:  # noqa: ARG002 - told, and not shown
        """See `Watcher`."""
        if file in self._tasks:
            task, done = self._tasks[file]
            self._tasks[file] = (task, done + 1)
            if done % _STRIDE == 0:
                self._progress.update(task, completed=done)

    def ended(self, result: Result) -> None:
        """See `Watcher`."""
        if result.file in self._tasks:  # a file that was given twice has one bar
            task, _ = self._tasks.pop(result.file)
            self._progress.remove_task(task)
        if self._all is not None:
            self._progress.advance(self._all)
        if self._progress.live.is_started:  # the bars go away for the moment
            self._progress.stop()
            self._show(result)
            self._progress.start()
        else:
            self._show(result)
