"""One timer for the waits of a task: what is late is cancelled, and nobody else's cancellation is taken for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from capture_replayer.limit import Limit


async def never() -> None:
    await asyncio.Event().wait()


async def soon() -> None:
    await asyncio.sleep(0)


async def deaf() -> None:
    """As a call of gRPC's, which takes the cancellation of its task for its own end."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return


@pytest.mark.parametrize(("wait", "came"), [(soon, True), (never, False), (deaf, False)])
def test_in_time_or_not(wait: Callable[[], Awaitable[None]], came: bool) -> None:
    async def main() -> None:
        limit = Limit()
        for _ in range(3):
            assert await limit.within(0.01, wait()) is came
        assert await limit.within(10, soon())
        limit.close()

    asyncio.run(main())


def test_a_shorter_limit_after_a_longer_one_rings_first() -> None:
    async def main() -> None:
        limit = Limit()
        assert await limit.within(1_000, soon())
        assert not await limit.within(0.01, never())
        limit.close()

    asyncio.run(main())


def test_a_timer_that_rings_early_for_a_later_wait_is_set_anew() -> None:
    async def main() -> None:
        limit = Limit()
        assert await limit.within(0.02, soon())
        assert not await limit.within(0.08, never()), "the first wait's timer rang in the middle"
        limit.close()

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [0.01, 1_000])
def test_somebody_elses_cancellation_goes_through(seconds: float) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def waits() -> None:
            limit = Limit()
            begun.set()
            while True:
                await limit.within(seconds, never())

        task = asyncio.create_task(waits())
        await begun.wait()
        await asyncio.sleep(0.03)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)

    asyncio.run(main())


def test_both_at_once_end_the_task() -> None:
    async def main() -> None:
        async def waits() -> None:
            limit = Limit()
            loop = asyncio.get_running_loop()
            task = asyncio.current_task()
            assert task is not None
            loop.call_later(0.01, task.cancel)
            loop.call_later(0.01, loop.stop)  # both are due in the same turn of the loop
            await limit.within(0.01, never())

        task = asyncio.ensure_future(waits())
        with pytest.raises(asyncio.CancelledError):
            await task

    with pytest.raises(RuntimeError, match="before Future completed"):
        asyncio.run(main())


def test_an_error_of_the_wait_is_its_own() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise OSError("the wait's")

    async def main() -> None:
        limit = Limit()
        with pytest.raises(OSError, match="the wait's"):
            await limit.within(10, fails())
        assert await limit.within(10, soon())
        limit.close()

    asyncio.run(main())
