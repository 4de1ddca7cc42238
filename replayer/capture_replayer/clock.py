"""The recorded wall clock for a spawned server: the replayer sets it before each request; until then it stands still.

Only the wall clock: the monotonic one, and with it all timers, are left alone. In a Python server it is read from a
page of shared memory (`clock_site/sitecustomize.py`, over time-machine); for any other program it goes through
libfaketime, whose thread-safe library the system has to have. docs/adr/0009 says why these.
"""

from __future__ import annotations

import contextlib
import importlib.util
import mmap
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, Literal

SITE: Final = Path(__file__).with_name("clock_site")
LIBRARY: Final = "libfaketimeMT.so.1"
"""The one for programs with threads. The other shows the real time now and then while another thread asks."""
LIBRARIES: Final = tuple(
    Path(folder, "faketime", LIBRARY)
    for folder in (
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
    )
)
Method = Literal["python", "preload"]


class ClockUnavailable(Exception):
    """The process would not see the recorded clock; the text is one sentence, with what would help. `hopeless`: nor
    would it by another method."""

    def __init__(self, text: str, *, hopeless: bool = False) -> None:
        super().__init__(text)
        self.hopeless = hopeless


class RecordedClock:
    """The clock of one server, in ns since 1970. `method`: `python`, or `preload` for any program that is not linked
    statically. Raises ClockUnavailable where the method is not there."""

    def __init__(self, start_ns: int, method: Method = "python") -> None:
        self._method = method
        self._library = next((path for path in LIBRARIES if path.exists()), None)
        self._time_machine = importlib.util.find_spec("_time_machine")
        if method == "preload" and self._library is None:
            raise ClockUnavailable(f"{LIBRARY} is not installed (Debian: apt-get install libfaketime)")
        if method == "python" and (self._time_machine is None or self._time_machine.origin is None):
            raise ClockUnavailable("time-machine is not installed beside capture-replay")
        self.folder = Path(tempfile.mkdtemp(prefix="capture-replay-"))  # mode 0700
        (self.folder / "pids").mkdir()
        with (self.folder / "page").open("w+b") as file:
            file.truncate(mmap.PAGESIZE)
            self._map = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self._page = memoryview(self._map).cast("q")
        self.set(start_ns)

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment for the server: `base`, and what makes it see this clock."""
        if self._method == "preload":
            return {
                **base,
                "LD_PRELOAD": _before(str(self._library), base.get("LD_PRELOAD")),
                "FAKETIME_TIMESTAMP_FILE": str(self.folder / "faketime"),
                "FAKETIME_FMT": "%s",
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        assert self._time_machine is not None
        assert self._time_machine.origin is not None
        return {
            **base,
            "PYTHONPATH": _before(str(SITE), base.get("PYTHONPATH")),
            "CAPTURE_REPLAY_CLOCK": str(self.folder),
            "CAPTURE_REPLAY_TIME_MACHINE": str(Path(self._time_machine.origin).parent),
        }

    def check(self, pids: Collection[int]) -> None:
        """Whether one of these processes, which serve, really has this clock. Raises ClockUnavailable if not."""
        broken = bool(pids) and all(_sleeps_absolutely(pid) for pid in pids)
        if self._method == "preload":
            if broken:
                raise ClockUnavailable(f"the server is a Python whose time.sleep fails under {LIBRARY}")
            if not any(LIBRARY in _read(f"/proc/{pid}/maps") for pid in pids):
                raise ClockUnavailable(f"the server did not load {LIBRARY}: a static binary, or one that may not")
            return
        if any((self.folder / "pids" / str(pid)).exists() for pid in pids):
            return
        for pid in pids:
            why = _read(self.folder / "pids" / f"{pid}.failed")
            if why:
                raise ClockUnavailable(
                    f"the server is a Python that cannot have the recorded clock: {why}", hopeless=broken
                )
        raise ClockUnavailable(
            "the server is no Python that reads PYTHONPATH (python -I and -E do not)", hopeless=broken
        )

    def set(self, now_ns: int) -> None:
        """What the server sees from now on."""
        if self._method == "python":
            self._page[0] = now_ns  # one aligned store of 8 bytes
            return
        seconds, ns = divmod(now_ns, 1_000_000_000)
        new = self.folder / "faketime.new"
        new.write_text(f"{seconds}.{ns:09d}5\n", encoding="ascii")  # half a ns more: libfaketime cuts what it reads
        new.replace(self.folder / "faketime")

    def close(self) -> None:
        """Remove the folder. A server that is still there goes on seeing the last time that was set."""
        shutil.rmtree(self.folder, ignore_errors=True)


def methods() -> tuple[Method, ...]:
    """The ways that can be tried here, the better one first."""
    return ("python", "preload") if any(path.exists() for path in LIBRARIES) else ("python",)


def hint() -> str:
    """What would help where the better way does not work and the other is not there."""
    return "" if "preload" in methods() else f"; {LIBRARY}, for any program, is not installed (Debian: libfaketime)"


def _before(first: str, rest: str | None) -> str:
    return f"{first}:{rest}" if rest else first


def _sleeps_absolutely(pid: int) -> bool:
    """Whether it is a Python that sleeps until a time of the monotonic clock, as it does from 3.11 on: libfaketime up
    to 0.9.10 makes an error of that where it is told to leave that clock alone (its issue 426)."""
    with contextlib.suppress(OSError):
        if found := re.match(r"python3?(?:\.(\d+))?", Path(f"/proc/{pid}/exe").readlink().name):
            return int(found[1] or 11) >= 11
    return False


def _read(path: str | Path) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""
