"""Calls beside one another: each is held to its own order, and so many are under way at a time.

The capture is read in its order, and each step goes into the lane of its call, which has a task. Where the capture has
more calls at once than are allowed, they are let in all the same: the others would wait for steps that stand behind
them in the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from capture_recorder.capfile.records import Cancel, Status

from .plan import Step

AS_MANY: Final = 100
"""Calls at a time where nothing else was asked for: as many as servers usually allow on a connection."""
QUEUED: Final = 1_000  # steps of a lane that were read ahead


class Lanes:
    """`carry_out` does one step. `most`: calls at a time."""

    def __init__(self, carry_out: Callable[[Step], Awaitable[None]], most: int) -> None:
        self._carry_out = carry_out
        self._most = most
        self._lanes: dict[int, asyncio.Queue[Step | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._starving: set[int] = set()
        self._change = asyncio.Event()
        self._failure: BaseException | None = None

    async def dispatch(self, steps: Iterable[Step], done: Callable[[Step], None], over: Callable[[], bool]) -> None:
        """Carry the steps out, until there are no more or `over` says that it is enough."""
        try:
            for step in steps:
                call = step.event.call
                if call not in self._lanes:
                    await self._room()
                    self._begin(call, done)
                await self._lanes[call].put(step)
                if isinstance(step.event, (Status, Cancel)):
                    await self._lanes.pop(call).put(None)
                if over() or self._failure is not None:
                    break
            for queue in self._lanes.values():
                await queue.put(None)
            await asyncio.gather(*self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
        if self._failure is not None:
            raise self._failure

    async def _room(self) -> None:
        """Wait until another call may begin."""
        while len(self._tasks) >= self._most and not self._all_starve():
            self._change.clear()
            await self._change.wait()

    def _all_starve(self) -> bool:
        """Whether every lane waits for a step that is not read yet."""
        return len(self._starving) == len(self._tasks)

    def _begin(self, call: int, done: Callable[[Step], None]) -> None:
        queue: asyncio.Queue[Step | None] = asyncio.Queue(QUEUED)
        self._lanes[call] = queue
        task = asyncio.create_task(self._run(call, queue, done))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._change.set()

    async def _run(self, call: int, queue: asyncio.Queue[Step | None], done: Callable[[Step], None]) -> None:
        while True:
            if queue.empty():
                self._starving.add(call)
                self._change.set()
            step = await queue.get()
            self._starving.discard(call)
            if step is None:
                return
            if self._failure is not None:
                continue  # the reader may be waiting for room
            try:
                await self._carry_out(step)
            except Exception as error:  # noqa: BLE001 - it is raised by `dispatch`
                self._failure = error
            done(step)
