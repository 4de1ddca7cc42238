"""Carries a plan out: the steps in their order, each wait bounded, every answer compared.

A target that stalls gives verdicts and no hang. Once a call has stalled, nothing more of it is waited for until the end
of the capture, where all such calls have one more time limit together; when nothing at all comes back any more, the
replay gives up.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Literal, Protocol

from capture_recorder.capfile.records import Call, Cancel, HalfClose, Headers, Message, Redacted, Status

from .client import Answered, Client, LiveCall, Pairs
from .compare import Answer, Comparison, Judge
from .lanes import AS_MANY, Lanes
from .limit import Limit
from .plan import SINGLE_REQUEST, Do, Expect, Step

TIMEOUT: Final = 10.0  # seconds of a wait, where nothing else was asked for
SETTLE: Final = 0.2
"""Seconds in which a call that was recorded as left open may still show an answer that the recording does not have."""
GIVE_UP_AFTER: Final = 3
"""Calls that stalled, with no answer of any call since the first of them: then the target is as good as dead."""
AHEAD: Final = 1_000
"""Answers of one call that may wait to be compared; while there are more, flow control holds the target back. So many
may `asap` requests be ahead of their answers, too."""
FLOOD: Final = 10_000
"""Answers of one call that nobody asked for; a target that sends more is cut off."""
PATIENCE: Final = 0.25
"""Seconds that a target with the recorded clock gets for an answer before the clock moves on to the answer's time: it
may be waiting for it."""
LONGEST_GAP: Final = 600.0
"""Seconds of a recorded wait that count. A capture may be anybody's, and must not make a replay wait for ever."""
_FOREVER: Final = 365 * 86_400.0  # seconds; a deadline beyond it is as good as none, and clocks stay in their range
_OWNED_BY_TRANSPORT: Final = frozenset({"user-agent", "content-type", "te"})
_RESERVED: Final = ("grpc-", ":")  # beginnings of keys that are gRPC's or HTTP/2's own

Order = Literal["causal", "timed", "asap"]
ORDERS: Final[tuple[Order, ...]] = ("causal", "timed", "asap")


@dataclass(frozen=True, slots=True)
class Options:
    """`timeout`: seconds for each wait, beyond what the recording took for it. `metadata`: sent with every call, in the
    place of the recorded keys. `speed`: how many times as fast as recorded, where the order is `timed`. `concurrency`:
    so many calls at a time, each held to its own order alone; None: the recorded order holds over all calls.
    `stop_early`: the first divergence is enough. `clock`: told the recorded time (ns since the capture's time 0) that
    the target is to see."""

    timeout: float = TIMEOUT
    metadata: tuple[tuple[str, str | bytes], ...] = ()
    order: Order = "causal"
    speed: float = 1.0
    concurrency: int | None = None
    stop_early: bool = False
    clock: Callable[[int], None] | None = None


class Progress(Protocol):
    """Told of each step that is done."""

    def __call__(self, step: Step, /) -> None: ...


Gate = Callable[[Step], Awaitable[None]]


class Observer(Protocol):
    """Told all that crosses in a replay, in the order in which it does."""

    def did(self, event: Call | Message | HalfClose | Cancel) -> None:
        """A request event goes out."""

    def came(self, call: int, answer: Answer) -> None:
        """The target did something on a call, by its number in the capture."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A wait that came to its limit: for which event of which call, how many seconds, after which request (0: none),
    and how many answers of which calls came meanwhile."""

    call: int
    event: int
    seconds: float
    since: int
    meanwhile: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class Outcome:
    """Everything that a replay found."""

    calls: dict[int, ReplayedCall] = field(default_factory=dict)
    stalls: list[Stall] = field(default_factory=list)
    withheld: set[str] = field(default_factory=set)  # metadata names that the capture holds redacted only
    gave_up: bool = False
    stopped: bool = False  # at the first divergence, as was asked
    steps: int = 0  # those that were carried out, and those that were not for want of an answering target


class ReplayedCall:
    """A call as it is replayed: the live call, its comparison, and what is known of its course."""

    def __init__(self, recorded: Call, judge: Judge | None, limit: Limit, told: Callable[[int, Answer], None]) -> None:
        self.recorded = recorded
        self.limit = limit
        self.comparison = Comparison(recorded.method, judge)
        self.live: LiveCall | None = None
        self.deferred = False  # not opened yet: that goes with its request
        self.stalled = False
        self.closed = False  # by us: what the target does now was seen by no client
        self.ends = False  # the capture has its status
        self.flooded = False  # and so it was cut
        self.last_ns = recorded.time_ns  # of the last recorded event
        self._told = told
        self._drains = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    async def answered(self, answer: Answer) -> None:
        """The target did something on this call. While this waits, nothing more is read."""
        if self.closed:
            return
        self._told(self.recorded.call, answer)
        self.comparison.came(answer)
        self._news.set()
        while self.comparison.backlog > AHEAD and not self._drains:
            self._room.clear()
            await self._room.wait()
        if self.comparison.backlog > FLOOD and self.live is not None:
            self.flooded = True
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


async def carry_out(
    steps: Iterable[Step],
    client: Client,
    options: Options,
    progress: Progress,
    *,
    judge: Judge | None = None,
    observer: Observer | None = None,
    single: bool = False,
    gate: Gate | None = None,
) -> Outcome:
    """Replay the steps against `client`. `single`: they are of one call. `gate` is awaited before each step, where they
    are carried out one after the other. The outcome's comparisons are finished."""
    in_lanes = not single and (options.order == "asap" or options.concurrency is not None)
    run = _Run(client, options, judge, observer, in_lanes=in_lanes)
    remaining = iter(steps)
    if run.in_lanes:
        await Lanes(run.step, options.concurrency or AS_MANY).dispatch(remaining, progress, run.over)
    else:
        step = next(remaining, None)
        while step is not None and not run.over():
            if gate is not None:
                await gate(step)
            if isinstance(step, Do):
                await run.step(step)
                upcoming = next(remaining, None)
            else:  # what comes next is read while the target works
                upcoming = next(remaining, None)
                await run.step(step)
            progress(step)
            step = upcoming
        remaining = remaining if step is None else chain((step,), remaining)
    for step in () if run.outcome.stopped else remaining:  # a target that is given up owes what is left
        run.owe(step)
    await run.finish()
    return run.outcome


class _Run:
    """The state of one replay."""

    def __init__(
        self, client: Client, options: Options, judge: Judge | None, observer: Observer | None, *, in_lanes: bool
    ) -> None:
        self.outcome = Outcome()
        self._client = client
        self._options = options
        self._judge = judge
        self._observer = observer
        self.in_lanes = in_lanes
        self._limit = Limit()
        self._deferred: ReplayedCall | None = None  # opened by the last step, and not sent yet
        self._answers = 0
        self._answers_at_stall = 0
        self._recent: deque[int] = deque(maxlen=AHEAD)  # the calls of the last answers
        self._now_ns = 0  # the recorded time of the step that is carried out
        self._began: tuple[float, int] | None = None  # when, in the loop's time and in the recording's

    async def step(self, step: Step) -> None:
        """The next step. Of a replay that is over, nothing more is carried out: a lane may hold steps then."""
        if self.over():
            self.owe(step)
            return
        if self._deferred is not None and (
            step.event.call != self._deferred.recorded.call or not isinstance(step.event, Message)
        ):
            self._open_deferred()
        if isinstance(step, Do):
            await self._do(step)
        else:
            await self._expect(step)
        self.outcome.steps += 1
        if self._options.stop_early and self.outcome.calls[step.event.call].comparison.diverged:
            self.outcome.stopped = True

    def over(self) -> bool:
        """Whether nothing more is to be done."""
        return self.outcome.gave_up or self.outcome.stopped

    async def _do(self, step: Do) -> None:
        """A request event goes out."""
        event = step.event
        if self._options.order == "timed":
            await self._in_time(event.time_ns)
        call = self._call(event)
        call.comparison.did(step.seq)
        if call.live is None and not isinstance(event, Call) and not call.deferred:
            return
        if self._options.clock is not None:
            self._options.clock(event.time_ns)
        if self._observer is not None and not call.closed:
            self._observer.did(event)
        match event:
            case Call():
                if event.kind in SINGLE_REQUEST:  # its request follows at once, most of the time
                    call.deferred, self._deferred = True, call
                else:
                    call.live = self._client.open(*self._opening(call))
            case Message() if call.deferred:
                call.deferred, self._deferred = False, None
                call.live = self._client.ask(*self._opening(call), event.payload)
            case Message():
                await self._send(call, step, lambda live: live.send(event.payload))
                if step.ends_requests:
                    await self._send(call, step, lambda live: live.half_close())
            case HalfClose():
                await self._send(call, step, lambda live: live.half_close())
            case Cancel():
                call.close()

    def _opening(self, call: ReplayedCall) -> tuple[str, Pairs, float | None, Answered]:
        event = call.recorded
        seconds = None
        if event.time_left_ns is not None:  # a debugger is slow: never less than one wait of ours
            seconds = min(max(event.time_left_ns / 1e9, self._options.timeout), _FOREVER)
        return event.method, self._metadata(event), seconds, call.answered

    def _open_deferred(self) -> None:
        """Something else comes before the request of a call that was to be opened with it."""
        call, self._deferred = self._deferred, None
        if call is not None and call.deferred:
            call.deferred = False
            call.live = self._client.open(*self._opening(call))

    async def _in_time(self, time_ns: int) -> None:
        """Not before its recorded time, counted from the first request event."""
        loop = asyncio.get_running_loop()
        if self._began is None:
            self._began = loop.time(), time_ns
        start, start_ns = self._began
        delay = start + (time_ns - start_ns) / 1e9 / self._options.speed - loop.time()
        if delay > 0:
            await asyncio.sleep(delay)

    async def _expect(self, step: Expect) -> None:
        """A response event is awaited, and compared when it comes."""
        before_ns = self.outcome.calls[step.event.call].last_ns if self.in_lanes else self._now_ns
        call, comparison = self._want(step)
        if self._options.order == "asap" and not isinstance(step.event, Status):
            if comparison.owed > AHEAD:
                await self._wait(call, step, 0, lambda: comparison.owed <= AHEAD)
            return
        match step.event:
            case Headers():
                met: Callable[[], bool] = lambda: comparison.headers_came is not None  # noqa: E731
            case Message():
                met = lambda: comparison.owed <= 0  # noqa: E731
            case Status():
                met = lambda: False  # noqa: E731 - the end of the call ends the wait
                call.drain()
        await self._wait(call, step, step.event.time_ns - before_ns, met)
        if self._options.clock is not None:
            self._options.clock(step.event.time_ns)

    def owe(self, step: Step) -> None:
        """A step that is not carried out any more; its answer is missing."""
        if isinstance(step, Expect):
            self._want(step)
        else:
            self._call(step.event).comparison.did(step.seq)
        self.outcome.steps += 1

    async def finish(self) -> None:
        """The capture is at its end: give late answers their last chance, close, and judge."""
        self._open_deferred()
        calls = self.outcome.calls.values()
        if not self.over():
            late = [call for call in calls if call.stalled and call.ends and call.live is not None and not call.closed]
            if late:
                await _all_within(self._options.timeout, [call.ended() for call in late])
        left_open = [call for call in calls if not call.ends and not call.closed and not self.outcome.stopped]
        if left_open:
            await _all_within(SETTLE, [call.ended() for call in left_open])
        for call in calls:
            # What comes after the last recorded event is held against the target only where the recording would
            # have shown it: not after a cancel, nor in the moment in which the recording itself ended.
            silent = call.ends or (not call.closed and self._now_ns - call.last_ns >= SETTLE * 1e9)
            call.close()
            call.comparison.finish(extras=silent and not self.outcome.stopped)
        self._limit.close()
        await self._client.close()

    def _call(self, event: Call | Message | HalfClose | Cancel | Headers | Status) -> ReplayedCall:
        self._now_ns = event.time_ns
        if isinstance(event, Call):
            limit = Limit() if self.in_lanes else self._limit
            self.outcome.calls[event.call] = ReplayedCall(event, self._judge, limit, self._came)
        call = self.outcome.calls[event.call]
        call.last_ns = event.time_ns
        return call

    def _came(self, call: int, answer: Answer) -> None:
        self._answers += 1
        self._recent.append(call)
        if self._observer is not None:
            self._observer.came(call, answer)

    def _want(self, step: Expect) -> tuple[ReplayedCall, Comparison]:
        call = self._call(step.event)
        call.ends = call.ends or isinstance(step.event, Status)
        call.comparison.want(step.seq, step.event)
        return call, call.comparison

    async def _send(
        self, call: ReplayedCall, step: Do, action: Callable[[LiveCall], Coroutine[None, None, None]]
    ) -> None:
        if call.live is None or call.closed or call.comparison.status_came is not None:
            return
        answers = self._answers
        if not await call.limit.within(self._options.timeout, action(call.live)):
            # It was not taken, and so nothing after it can be: the call is cut.
            self._stall(call, step, self._options.timeout, answers)
            call.close()

    async def _wait(self, call: ReplayedCall, step: Expect, recorded_ns: int, met: Callable[[], bool]) -> None:
        """For the condition: as long as the recording took, and the time limit."""
        if call.stalled or call.closed or call.live is None or met() or call.comparison.status_came is not None:
            return
        answers = self._answers
        limit = self._options.timeout + min(max(recorded_ns / 1e9, 0.0), LONGEST_GAP)
        if self._options.clock is not None:
            if await call.limit.within(PATIENCE, call.until(met)):
                return
            self._options.clock(step.event.time_ns)
        came = call.comparison.came_count
        while not await call.limit.within(limit, call.until(met)):
            if self._options.order != "asap" or call.comparison.came_count == came or call.comparison.owed <= 1:
                self._stall(call, step, limit, answers)
                return
            came = call.comparison.came_count  # it works through what it was sent

    def _stall(self, call: ReplayedCall, step: Step, seconds: float, answers: int) -> None:
        if not self.outcome.stalls:
            self._answers_at_stall = self._answers
        call.stalled = True
        new = min(self._answers - answers, len(self._recent))
        meanwhile = Counter(list(self._recent)[-new:] if new else ())
        since = call.comparison.last_cause
        self.outcome.stalls.append(
            Stall(call.recorded.call, step.seq, seconds, since, tuple(sorted(meanwhile.items())))
        )
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
