"""A replay that is stepped through: what it stands before, what it has seen, and every way in which it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from capture_recorder.capfile import Entry
from capture_recorder.capfile.records import Call, Cancel, HalfClose, Message
from capture_replayer import Spawn
from capture_replayer.api import places_of
from capture_replayer.engine import Options
from capture_replayer.plan import Do
from capture_replayer.stepper import Stepper
from helpers.captures import read_all
from helpers.odd import odd_command

Talk = Callable[[Stepper], Awaitable[None]]


def step_through(capture: Path, talk: Talk, command: str, *, timeout: float = 20) -> Stepper:
    """What `talk` does with a stepper in that place."""

    async def main() -> Stepper:
        stepper = Stepper(str(capture), places_of([Spawn(command, 10)])[0], options=Options(timeout=timeout))
        try:
            async with asyncio.timeout(60):
                await talk(stepper)
        finally:
            await stepper.close()
        return stepper

    return asyncio.run(main())


def requests(capture: Path) -> list[int]:
    """The request events of a capture."""
    return [
        item.seq
        for item in read_all(capture)[1]
        if isinstance(item, Entry)
        and (
            isinstance(item.record, (Call, HalfClose, Cancel))
            or (isinstance(item.record, Message) and item.record.direction == 0)
        )
    ]


def test_each_step_sends_one_request_event_and_no_more(odd_capture: Path) -> None:
    wanted = requests(odd_capture)

    async def talk(stepper: Stepper) -> None:
        assert (stepper.state, stepper.sent, stepper.next) == ("idle", [], None)
        for count in range(1, len(wanted) + 1):
            await stepper.step()
            assert stepper.sent == wanted[:count]
            if count < len(wanted):
                assert stepper.state == "standing"
                assert isinstance(stepper.next, Do)
                assert stepper.next.seq == wanted[count]
                recorded = {seq for seq in stepper.answers if seq < wanted[count]}
                assert set(stepper.answers) == recorded, "what was recorded later is not there yet"
        assert stepper.state == "over"
        assert stepper.result is not None
        assert stepper.result.passed
        await stepper.step()  # nothing is left to be done
        assert stepper.state == "over"

    step_through(odd_capture, talk, odd_command())


def test_it_runs_to_the_divergence_and_begins_again_before_it(odd_capture: Path) -> None:
    async def talk(stepper: Stepper) -> None:
        await stepper.run()
        assert len(stepper.diverged) >= 1
        first = stepper.diverged[0]
        assert stepper.answers[first].verdict == "different"
        sent = list(stepper.sent)
        await stepper.restart(before=sent[-1])
        assert (stepper.state, stepper.sent, stepper.diverged) == ("standing", sent[:-1], [])
        assert stepper.next is not None
        assert stepper.next.seq == sent[-1]
        await stepper.step()
        assert stepper.sent == sent
        assert stepper.diverged[0] == first
        await stepper.run_to(1 << 60)
        assert stepper.state == "over"
        assert stepper.result is not None
        assert not stepper.result.passed

    step_through(odd_capture, talk, odd_command("wrong price"))


def test_a_breakpoint_on_a_request_stands_before_it_and_on_an_answer_after_it(odd_capture: Path) -> None:
    asked = requests(odd_capture)

    async def talk(stepper: Stepper) -> None:
        await stepper.run(lambda seq: seq == asked[2])
        assert stepper.next is not None
        assert stepper.next.seq == asked[2]
        assert asked[2] not in stepper.sent
        await stepper.run(lambda seq: seq == asked[2])
        assert stepper.state == "over", "the event that it stood before stops it no second time"
        answer = max(stepper.answers)
        await stepper.restart()
        assert stepper.sent == []
        await stepper.run(lambda seq: seq == answer)
        assert answer in stepper.answers or stepper.state == "over"

    step_through(odd_capture, talk, odd_command())


def test_a_stall_ends_it_with_what_was_awaited(odd_capture: Path) -> None:
    async def talk(stepper: Stepper) -> None:
        await stepper.run_to(1 << 60)
        assert stepper.state == "over"
        assert stepper.result is not None
        found = stepper.divergence(9)
        assert found is not None
        assert found.stall is not None
        assert found.stall.event == 9
        assert stepper.divergence(5) is None

    step_through(odd_capture, talk, odd_command("hang"), timeout=0.5)


def test_while_it_waits_it_says_for_what_and_can_be_left(odd_capture: Path) -> None:
    async def talk(stepper: Stepper) -> None:
        going = asyncio.create_task(stepper.run_to(1 << 60))
        while stepper.awaited is None or stepper.awaited.seq in stepper.answers:
            assert not going.done()
            await asyncio.sleep(0.01)
        await stepper.step()  # is refused while it runs
        assert stepper.state == "running"
        await stepper.close()
        await asyncio.wait_for(going, 10)

    step_through(odd_capture, talk, odd_command("hang"), timeout=60)


def test_a_server_that_dies_is_told(odd_capture: Path) -> None:
    async def talk(stepper: Stepper) -> None:
        await stepper.run_to(1 << 60)
        assert stepper.state == "over"
        assert stepper.result is not None
        assert stepper.result.died == "was killed by SIGKILL"
        assert "about to die: the disk of the moon is full" in stepper.output

    step_through(odd_capture, talk, odd_command("die"))


def test_a_death_is_known_before_the_end(odd_capture: Path) -> None:
    async def talk(stepper: Stepper) -> None:
        assert stepper.died is None
        await stepper.run()
        assert stepper.state == "standing"
        while stepper.died is None:  # the connection breaks before the process is gone
            await asyncio.sleep(0.01)
        assert stepper.died == "was killed by SIGKILL"
        assert "about to die: the disk of the moon is full" in stepper.output
        await stepper.restart()
        assert stepper.died is None
        assert stepper.output == ()

    step_through(odd_capture, talk, odd_command("die"))


@pytest.mark.parametrize(
    ("command", "said"),
    [("false {address}", "it ended with status 1"), ("/nowhere/server {address}", "no such file or directory")],
)
def test_a_server_that_does_not_start_is_a_state(command: str, said: str, odd_capture: Path) -> None:
    async def talk(stepper: Stepper) -> None:
        await stepper.step()
        assert stepper.state == "lost"
        assert stepper.error is not None
        assert said in stepper.error
        await stepper.step()
        await stepper.restart()
        assert stepper.state == "lost"

    step_through(odd_capture, talk, command)


def test_a_capture_that_cannot_be_replayed_is_a_state(tmp_path: Path) -> None:
    path = tmp_path / "no.cap"
    path.write_bytes(b"no capture")

    async def talk(stepper: Stepper) -> None:
        await stepper.step()
        assert stepper.state == "lost"
        assert stepper.error is not None
        assert "not a capture" in stepper.error or "magic" in stepper.error

    step_through(path, talk, odd_command())
