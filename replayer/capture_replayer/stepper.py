"""A replay that somebody steps through: it stands before a request event, until it is told how far to go.

A lost server, a stall and a capture that cannot be replayed are states of it, none of them an exception.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final, Literal

from capture_recorder.capfile import CaptureError, open_capture
from capture_recorder.capfile.records import RESPONSE, Call, Cancel, HalfClose, Headers, Message

from .client import TargetUnreachable
from .clock import ClockUnavailable
from .compare import Answer, HeadersCame, MessageCame, difference
from .engine import Options
from .explain import Divergence
from .judge import RulesJudge
from .place import Place, Visit
from .plan import Do, Expect, Step
from .replay import CannotTell, Prepared, replay_once, survey
from .result import Result
from .rules import BadRules, Rules
from .spawn import NotStarted

State = Literal["idle", "starting", "standing", "running", "over", "lost"]
"""`idle`: not begun. `standing`: before the step `next`. `over`: `result` has the verdict. `lost`: `error` says why."""
_FAILURES: Final = (CaptureError, CannotTell, TargetUnreachable, ClockUnavailable, BadRules, NotStarted, OSError)


@dataclass(frozen=True, slots=True)
class Paired:
    """An answer beside the recorded event that it stands for; `verdict` as in a report."""

    answer: Answer
    event: Expect
    verdict: str


class Stepper:
    """Steps through a replay of a capture in a place, in recorded order. To be used in one event loop; `changed` is
    called whenever there is something new to be shown. Close it."""

    def __init__(
        self,
        file: str,
        place: Place,
        *,
        calls: Collection[int] = (),
        options: Options | None = None,
        rules: Rules | None = None,
        allow_torn: bool = False,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.state: State = "idle"
        self.next: Step | None = None  # what is carried out next, or is awaited now
        self.sent: list[int] = []  # request events that went out, by their numbers
        self.answers: dict[int, Paired] = {}  # by the number of the recorded event
        self.diverged: list[int] = []  # recorded events whose answers are not accepted, as far as is known
        self.result: Result | None = None
        self.error: str | None = None
        self._file, self._place, self._calls = file, place, calls
        self._options, self._rules, self._allow_torn = options or Options(), rules or Rules(), allow_torn
        self._changed = changed
        self._stop: Callable[[Step], bool] = lambda _step: True
        self._stop_next = False
        self._go = asyncio.Event()
        self._stands = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stack = contextlib.AsyncExitStack()
        self._judge: RulesJudge | None = None
        self._expected: defaultdict[int, list[Expect]] = defaultdict(list)
        self._came: defaultdict[int, list[Answer]] = defaultdict(list)
        self._methods: dict[int, str] = {}
        self._headers: dict[int, Expect] = {}
        self._headers_came: dict[int, Answer] = {}
        self._visit: Visit | None = None
        self._said: tuple[str, ...] = ()  # by a server that did not start

    @property
    def died(self) -> str | None:
        """How a spawned server ended by itself, as a clause."""
        server = None if self._visit is None else self._visit.server
        return self.result.died if self.result is not None else None if server is None else server.ending()

    @property
    def output(self) -> tuple[str, ...]:
        """The last lines that such a server printed."""
        if self.result is not None:
            return self.result.output
        server = None if self._visit is None else self._visit.server
        return server.output if server is not None and self.died else self._said

    def divergence(self, seq: int) -> Divergence | None:
        """What the verdict says of a recorded event, once there is one."""
        found = () if self.result is None else self.result.divergences
        return next((divergence for divergence in found if divergence.event == seq), None)

    @property
    def awaited(self) -> Expect | None:
        """The recorded answer that is waited for now."""
        return self.next if self.state == "running" and isinstance(self.next, Expect) else None

    async def step(self) -> None:
        """Let the next request event go out, and wait for the answers that were recorded before the one after it."""
        first: list[int] = []

        def stop(step: Step) -> bool:
            if isinstance(step, Do):
                first.append(step.seq)
            return len(first) > 1

        await self._let(stop)

    async def run(self, breakpoint: Callable[[int], bool] = lambda _seq: False) -> None:  # noqa: A002 - gdb's word
        """Go on to the next divergence, the next event for which `breakpoint` says so, or the end."""
        start = None if self.next is None else self.next.seq
        known = len(self.diverged)

        def stop(step: Step) -> bool:
            if len(self.diverged) > known:
                return True
            if step.seq == start or not breakpoint(step.seq):
                return False
            if isinstance(step, Do):
                return True
            self._stop_next = True  # its answer is to be seen
            return False

        await self._let(stop)

    async def run_to(self, seq: int) -> None:
        """Go on until event number `seq` is next."""
        await self._let(lambda step: step.seq >= seq)

    async def restart(self, before: int | None = None) -> None:
        """Begin again against a fresh server, and run to just before event `before` (the first one, if None)."""
        await self.close()
        self.state, self.next, self.result, self.error = "idle", None, None, None
        self._visit, self._said = None, ()
        self.sent, self.answers, self.diverged = [], {}, []
        self._expected.clear()
        self._came.clear()
        self._headers.clear()
        self._headers_came.clear()
        self._stack = contextlib.AsyncExitStack()
        await self.run_to(before or 0)

    async def close(self) -> None:
        """Stop, and the spawned server too."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._stack.aclose()

    # --- inside -----------------------------------------------------------------------------------------------------

    async def _let(self, stop: Callable[[Step], bool]) -> None:
        """Go on until `stop` says of the next step that it is far enough."""
        if self.state in ("over", "lost", "running", "starting"):
            return
        self._stop = stop
        self._stands.clear()
        if self._task is None:
            self.state = "starting"
            self._changed()
            self._task = asyncio.create_task(self._whole())
        else:
            self.state = "running"
            self._go.set()
            self._changed()
        await self._stands.wait()

    async def _whole(self) -> None:
        """The replay, from its first step to its last."""
        try:
            reader = self._stack.enter_context(open_capture(self._file))
            found = await asyncio.to_thread(survey, reader, self._calls, allow_torn=self._allow_torn)
            capture = Prepared(self._file, reader, found, self._calls)
            self._judge = RulesJudge(self._rules, lambda: found.schemas)
            start_ns = found.meta.created_ns if found.meta is not None else 0
            self._visit = visit = await self._stack.enter_async_context(self._place.visit(start_ns))
            self.state = "running"
            options = self._options
            if (clock := visit.clock) is not None:
                options = replace(options, clock=lambda now_ns: clock(start_ns + now_ns))
            result = await replay_once(
                capture, visit.client, options=options, rules=self._rules, observer=self, gate=self._gate
            )
            self.result = await _with_death(result, visit)
            self.diverged = sorted({*self.diverged, *(found.event for found in result.divergences)})
            self.state, self.next = "over", None
        except _FAILURES as error:
            self.state, self.error = "lost", str(error)
            self._said = getattr(error, "output", ())
        finally:
            self._stands.set()
            self._changed()

    async def _gate(self, step: Step) -> None:
        """See `engine.carry_out`."""
        self.next = step
        if self._stop_next or self._stop(step):
            self._stop_next = False
            self._go.clear()
            self.state = "standing"
            self._stands.set()
            self._changed()
            await self._go.wait()
            if isinstance(step, Do):
                self._stop(step)  # the new one has seen it too
        if isinstance(step, Do):
            self.sent.append(step.seq)
            if isinstance(step.event, Call):
                self._methods[step.event.call] = step.event.method
            return
        if isinstance(step.event, Headers):
            self._headers[step.event.call] = step
        else:
            self._expected[step.event.call].append(step)
        self._pair(step.event.call)
        self._changed()

    def did(self, event: Call | Message | HalfClose | Cancel) -> None:
        """See `engine.Observer`."""

    def came(self, call: int, answer: Answer) -> None:
        """See `engine.Observer`."""
        if isinstance(answer, HeadersCame):
            self._headers_came[call] = answer
        else:
            self._came[call].append(answer)
        self._pair(call)
        self._changed()

    def _pair(self, call: int) -> None:
        """Set answers beside recorded events, one after the other."""
        if call in self._headers and call in self._headers_came:
            self._judged(self._headers[call], self._headers_came[call])
        for step, answer in zip(self._expected[call], self._came[call], strict=False):
            if step.seq not in self.answers:
                self._judged(step, answer)

    def _judged(self, step: Expect, answer: Answer) -> None:
        if step.seq in self.answers:
            return
        judge, verdict = self._judge, "identical"
        assert judge is not None
        if isinstance(step.event, Message) != isinstance(answer, MessageCame):
            verdict = "different"
        elif difference(step.event, answer) is not None:
            verdict = judge.verdict(self._methods[step.event.call], RESPONSE, step.event, answer)
        self.answers[step.seq] = Paired(answer, step, verdict)
        if not judge.accepts(verdict):
            self.diverged.append(step.seq)


async def _with_death(result: Result, visit: Visit) -> Result:
    if result.passed:
        return result
    died, output = await visit.death()
    return replace(result, died=died, output=output)
