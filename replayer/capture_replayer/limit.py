"""A time limit for the waits of one task, for those who wait a thousand times a second.

`asyncio.timeout` makes a timer for each wait and takes it away again. Here one timer stands for all waits of a task; it
looks, when it rings, whether the wait that is under way then is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

_NEVER: Final = float("inf")


class Limit:
    """For the task in which it is made; `within` is not used there twice at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._due = _NEVER  # when the wait that is under way is over, in the loop's time
        self._timer: asyncio.TimerHandle | None = None
        self._rang = False

    async def within(self, seconds: float, wait: Awaitable[None]) -> bool:
        """Whether the wait came to its end in time; if not, it was cancelled."""
        self._due = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._due:
            self._set(self._due)
        try:
            await wait
        except asyncio.CancelledError:
            if not self._cleared():
                raise
            return False
        finally:
            self._due = _NEVER
        return not self._cleared()  # who waits for a call of gRPC's may have swallowed it

    def _cleared(self) -> bool:
        """Whether the cancellation was ours; it is taken back."""
        rang, self._rang = self._rang, False
        if rang and self._task is not None:
            return self._task.uncancel() == 0  # else somebody else wants the end of the task, too
        return False

    def _set(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._loop.time() >= self._due and self._task is not None:
            self._rang = True
            self._task.cancel()
        elif self._due != _NEVER:
            self._set(self._due)

    def close(self) -> None:
        """No more waits."""
        if self._timer is not None:
            self._timer.cancel()
