"""Carries a plan out: the steps in their order, each wait bounded, every answer compared.

A target that stalls gives verdicts and no hang. Once a call has stalled, nothing more of it is waited for until the end
of the capture, where all such calls have one more time limit together; when nothing at all comes back any more, the
replay gives up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from capture_recorder.capfile.records import Call, Cancel, HalfClose, Headers, Message, Redacted, Status

from .client import Client, LiveCall, Pairs
from .compare import Answer, Comparison
from .plan import Do, Expect, Step

SETTLE: Final = 0.2
"""Seconds in which a call that was recorded as left open may still show an answer that the recording does not have."""
GIVE_UP_AFTER: Final = 3
"""Calls that stalled, with no answer of any call since the first of them: then the target is as good as dead."""
AHEAD: Final = 1_000
"""Answers of one call that may wait to be compared; while there are more, flow control holds the target back."""
FLOOD: Final = 10_000
"""Answers of one call that nobody asked for; a target that sends more is cut off."""
_FOREVER: Final = 365 * 86_400.0  # seconds; a deadline beyond it is as good as none, and clocks stay in their range
_OWNED_BY_TRANSPORT: Final = frozenset({"user-agent", "content-type", "te"})
_RESERVED: Final = ("grpc-", ":")  # beginnings of keys that are gRPC's or HTTP/2's own


@dataclass(frozen=True, slots=True)
class Options:
    """`timeout`: seconds for each wait. `metadata`: sent with every call, in the place of the recorded keys."""

    timeout: float = 10.0
    metadata: tuple[tuple[str, str | bytes], ...] = ()


class Progress(Protocol):
    """Told of each step that is done."""

    def __call__(self, step: Step, /) -> None: ...


@dataclass(slots=True)
class Outcome:
    """Everything that a replay found. `stalls` holds (call, number of the event that was waited for)."""

    calls: dict[int, ReplayedCall] = field(default_factory=dict)
    stalls: list[tuple[int, int]] = field(default_factory=list)
    withheld: set[str] = field(default_factory=set)  # metadata names that the capture holds redacted only
    gave_up: bool = False
    steps: int = 0  # those that were carried out, and those that were not for want of an answering target


class ReplayedCall:
    """A call as it is replayed: the live call, its comparison, and what is known of its course."""

    def __init__(self, recorded: Call, told: Callable[[], None]) -> None:
        self.recorded = recorded
        self.comparison = Comparison()
        self.live: LiveCall | None = None
        self.stalled = False
        self.blocked = False  # a send has not gone through; it must not be overtaken
        self.closed = False  # by us: what the target does now was seen by no client
        self.ends = False  # the capture has its status
        self.last_ns = recorded.time_ns  # of the last recorded event
        self._told = told
        self._drains = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    async def answered(self, answer: Answer) -> None:
        """The target did something on this call. While this waits, nothing more is read."""
        if self.closed:
            return
        self._told()
        self.comparison.came(answer)
        self._news.set()
        while self.comparison.backlog > AHEAD and not self._drains:
            self._room.clear()
            await self._room.wait()
        if self.comparison.backlog > FLOOD and self.live is not None:
            self.live.cancel()

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait for the condition, or for the end of the call, after which nothing comes."""
        self._room.set()
        while not met() and self.comparison.status_came is None:
            self._news.clear()
            await self._news.wait()

    def drain(self) -> None:
        """Everything was asked for: read on, whatever comes."""
        self._drains = True
        self._room.set()

    async def ended(self) -> None:
        """Wait for the target's status."""
        self.drain()
        await self.until(lambda: False)

    def close(self) -> None:
        """Give the call up, if it is still there."""
        self.closed = True
        self.drain()
        if self.live is not None:
            self.live.cancel()


async def carry_out(steps: Iterable[Step], client: Client, options: Options, progress: Progress) -> Outcome:
    """Replay the steps in their order against `client`. The outcome's comparisons are finished."""
    run = _Run(client, options)
    remaining = iter(steps)
    for step in remaining:
        if isinstance(step, Do):
            await run.do(step)
        else:
            await run.expect(step)
        run.outcome.steps += 1
        progress(step)
        if run.outcome.gave_up:
            break
    for step in remaining:  # a target that is given up owes what is left
        run.outcome.steps += 1
        run.owe(step)
    await run.finish()
    return run.outcome


class _Run:
    """The state of one replay."""

    def __init__(self, client: Client, options: Options) -> None:
        self.outcome = Outcome()
        self._client = client
        self._options = options
        self._answers = 0
        self._answers_at_stall = 0
        self._now_ns = 0  # the recorded time of the step that is carried out

    async def do(self, step: Do) -> None:
        """A request event goes out."""
        event = step.event
        call = self._call(event)
        call.comparison.did(step.seq)
        if call.live is None and not isinstance(event, Call):
            return
        match event:
            case Call():
                seconds = None
                if event.time_left_ns is not None:  # a debugger is slow: never less than one wait of ours
                    seconds = min(max(event.time_left_ns / 1e9, self._options.timeout), _FOREVER)
                call.live = self._client.open(event.method, self._metadata(event), seconds, call.answered)
            case Message():
                await self._send(call, step, lambda live: live.send(event.payload))
                if step.ends_requests:
                    await self._send(call, step, lambda live: live.half_close())
            case HalfClose():
                await self._send(call, step, lambda live: live.half_close())
            case Cancel():
                call.close()

    async def expect(self, step: Expect) -> None:
        """A response event is awaited, and compared when it comes."""
        call, comparison = self._want(step)
        match step.event:
            case Headers():
                await self._wait(call, step, call.until(lambda: comparison.headers_came is not None))
            case Message():
                await self._wait(call, step, call.until(lambda: comparison.came_count >= comparison.wanted_count))
            case Status():
                await self._wait(call, step, call.ended())

    def owe(self, step: Step) -> None:
        """A step that is not carried out any more; its answer is missing."""
        if isinstance(step, Expect):
            self._want(step)
        else:
            self._call(step.event).comparison.did(step.seq)

    async def finish(self) -> None:
        """The capture is at its end: give late answers their last chance, close, and judge."""
        calls = self.outcome.calls.values()
        late = [call for call in calls if call.stalled and call.ends and call.live is not None]
        if late and not self.outcome.gave_up:
            await _all_within(self._options.timeout, [call.ended() for call in late])
        left_open = [call for call in calls if not call.ends and not call.closed]
        if left_open:
            await _all_within(SETTLE, [call.ended() for call in left_open])
        for call in calls:
            # What comes after the last recorded event is held against the target only where the recording would
            # have shown it: not after a cancel, nor in the moment in which the recording itself ended.
            silent = call.ends or (not call.closed and self._now_ns - call.last_ns >= SETTLE * 1e9)
            call.close()
            call.comparison.finish(extras=silent)
        await self._client.close()

    def _call(self, event: Call | Message | HalfClose | Cancel | Headers | Status) -> ReplayedCall:
        self._now_ns = event.time_ns
        if isinstance(event, Call):
            self.outcome.calls[event.call] = ReplayedCall(event, self._count_answer)
        call = self.outcome.calls[event.call]
        call.last_ns = event.time_ns
        return call

    def _count_answer(self) -> None:
        self._answers += 1

    def _want(self, step: Expect) -> tuple[ReplayedCall, Comparison]:
        call = self._call(step.event)
        call.ends = call.ends or isinstance(step.event, Status)
        call.comparison.want(step.seq, step.event)
        return call, call.comparison

    async def _send(
        self, call: ReplayedCall, step: Do, action: Callable[[LiveCall], Coroutine[None, None, None]]
    ) -> None:
        if call.live is None or call.blocked or call.comparison.status_came is not None:
            return
        task = asyncio.ensure_future(action(call.live))  # not cancelled on a stall: that would cancel the call
        await asyncio.wait({task}, timeout=self._options.timeout)
        if not task.done():
            call.blocked = True
            self._stall(call, step)

    async def _wait(self, call: ReplayedCall, step: Expect, met: Coroutine[None, None, None]) -> None:
        if call.stalled or call.live is None:
            met.close()
            return
        try:
            async with asyncio.timeout(self._options.timeout):
                await met
        except TimeoutError:
            self._stall(call, step)

    def _stall(self, call: ReplayedCall, step: Step) -> None:
        if not self.outcome.stalls:
            self._answers_at_stall = self._answers
        call.stalled = True
        self.outcome.stalls.append((call.recorded.call, step.seq))
        silent = self._answers == self._answers_at_stall
        self.outcome.gave_up = silent and len(self.outcome.stalls) >= GIVE_UP_AFTER

    def _metadata(self, call: Call) -> Pairs:
        given = {key.lower() for key, _ in self._options.metadata}
        pairs: list[tuple[str, str | bytes]] = []
        for key, value in call.metadata:
            if key in _OWNED_BY_TRANSPORT or key in given or key.startswith(_RESERVED):
                continue
            if isinstance(value, Redacted):
                self.outcome.withheld.add(key)
            else:
                pairs.append((key, value))
        return [*pairs, *self._options.metadata]


async def _all_within(seconds: float, waits: list[Coroutine[None, None, None]]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
