"""Runs in a spawned Python server before its own code: its wall clock becomes the one of the recording.

Python imports this by its name, from PYTHONPATH. It may find itself in any environment and any version of Python, so it
uses nothing but the standard library, little of it, and time-machine by its path. What it cannot do it says in a file,
for the replayer.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import mmap
import os
import sys
import time
from types import ModuleType
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.environ.get("CAPTURE_REPLAY_CLOCK", "")
TIME_MACHINE = os.environ.get("CAPTURE_REPLAY_TIME_MACHINE", "")
# These make timers of the wall clock: gRPC takes deadlines as absolute times and turns them into its monotonic one.
TIMERS = {
    "grpc._channel",
    "grpc._common",
    "grpc._cython.cygrpc",
    "grpc._server",
    "grpc._utilities",
    "grpc.aio._utils",
    "grpc.beta.utilities",
}


class RealTime:
    """What these modules have for the module `time`: its real clock."""

    def __init__(self, clock: Any) -> None:
        self.time = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class GiveRealTime(importlib.abc.MetaPathFinder):
    """Finds the modules of TIMERS as they are found anyway, and gives them the real clock when they are loaded."""

    def __init__(self, clock: Any) -> None:
        self.real = RealTime(clock)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in TIMERS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                module.time = self.real

            loader.exec_module = exec_module
        return spec


def load(name: str, path: str) -> ModuleType:
    """A module from its file."""
    spec: Any = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_time_machine() -> Any:
    """time-machine from where it is, without the rest of that environment; and without pytest, which it imports."""
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = os.path.join(TIME_MACHINE, "_time_machine" + suffix)
        if os.path.exists(path):
            load("_time_machine", path)
            break
    else:
        raise ImportError("time-machine is there for another Python than %d.%d" % sys.version_info[:2])
    modules: Any = sys.modules
    hidden = {name: modules.get(name) for name in ("pytest", "dateutil", "dateutil.parser")}
    modules.update(dict.fromkeys(hidden))  # None: not to be imported
    try:
        return load("time_machine", os.path.join(TIME_MACHINE, "time_machine", "__init__.py"))
    finally:
        for name, module in hidden.items():
            if module is None:
                del modules[name]
            else:
                modules[name] = module


def install() -> None:
    """Read the time from the page that the replayer shares, from now on."""
    with open(os.path.join(FOLDER, "page"), "rb") as file:
        page = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)).cast("q")
    real = time.time
    time_machine = load_time_machine()
    original = time_machine.escape_hatch.time.time
    traveller = time_machine.travel(0, tick=False).start()
    traveller.time_ns = lambda: page[0]  # one aligned load: never half of a time that is being set
    asctime, ctime = time.asctime, time.ctime
    time.asctime = lambda *when: asctime(*(when or (time.localtime(),)))
    time.ctime = lambda secs=None: ctime(time.time() if secs is None else secs)
    sys.meta_path.insert(0, GiveRealTime(original))
    assert real is time.time, "it is patched in its place"
    if time.time_ns() != page[0] and time.time_ns() != page[0]:
        raise RuntimeError("this version of time-machine does not ask for the time")


def note(name: str, text: str) -> None:
    """Leave word for the replayer, in one step."""
    path = os.path.join(FOLDER, "pids", str(os.getpid()))
    with open(path + ".new", "w") as file:
        file.write(text)
    os.replace(path + ".new", path + name)


def run_the_next() -> None:
    """The sitecustomize that this environment would have had."""
    others = [path for path in sys.path if os.path.abspath(path or os.curdir) != HERE]
    sys.path[:] = others
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if FOLDER:
    try:
        install()
        note("", "python %d.%d" % sys.version_info[:2])
    except BaseException as error:
        try:
            note(".failed", "%s" % error)
        except OSError:
            pass
run_the_next()
