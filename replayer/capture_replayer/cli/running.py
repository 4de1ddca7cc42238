"""Runs the library's coroutines from a command: signals that ask for the end end them in order."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from capture_recorder.terminal import console

_T = TypeVar("_T")
INTERRUPTED: Final = 130


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run it. After SIGINT, SIGTERM or SIGHUP all servers that were started are stopped, and the process exits."""

    async def guarded() -> _T:
        task = asyncio.ensure_future(work)

        def stop(sign: signal.Signals) -> None:
            stopped.append(sign)
            task.cancel()

        for sign in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(sign) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(sign, stop, sign)
        return await task

    stopped: list[signal.Signals] = []
    try:
        return asyncio.run(guarded())
    except KeyboardInterrupt:
        status = INTERRUPTED
    except asyncio.CancelledError:
        status = 128 + (stopped[0] if stopped else signal.SIGTERM)
    console(sys.stderr).print("interrupted")
    sys.exit(status)
