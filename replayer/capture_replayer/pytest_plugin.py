"""Captures as tests: `pytest captures/ --replay-spawn 'my-server --listen {address}'`.

Every `*.cap` file below a directory for which a server is known is a test item, its report the text of the failure. The
server comes from the command line, from `capture-replay.toml` in the capture's folder or one above it, or from the ini
file. The fixture `grpc_recorder` records what a test does.

pytest loads this in every run, so it imports nothing of ours before it is used.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from capture_recorder import Recorder

    from .api import ReplayOptions, Report

SUFFIX: Final = ".cap"
SETTINGS_FILE: Final = "capture-replay.toml"
_WHERE: Final = ("spawn", "target")


class Diverged(Exception):
    """The server did not answer as recorded; the text is the report."""


class CouldNotTell(Exception):
    """There is no verdict: no server, or a capture that is not whole."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """--replay-spawn, --replay-target, --replay-record-to; the first two in the ini file as well."""
    group = parser.getgroup("capture-replay", "replay of gRPC captures (*.cap)")
    group.addoption(
        "--replay-spawn", metavar="COMMAND", help="start a fresh server for each capture: a command with {address}"
    )
    group.addoption("--replay-target", metavar="HOST:PORT", help="the server to replay captures against")
    group.addoption(
        "--replay-record-to", metavar="DIR", help="keep what the fixture grpc_recorder records in this folder"
    )
    parser.addini("replay_spawn", "as --replay-spawn")
    parser.addini("replay_target", "as --replay-target")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A capture is a test where it is known what to replay it against."""
    if file_path.suffix != SUFFIX or not _settings(parent.config, file_path.parent):
        return None
    collector: pytest.Collector = CaptureFile.from_parent(parent, path=file_path)
    return collector


def _settings(config: pytest.Config, folder: Path) -> dict[str, Any]:
    """`spawn` or `target`, and the options of `replay`; nothing where there is neither. Raises UsageError."""
    given = {name: value for name in _WHERE if (value := config.getoption(f"--replay-{name}"))}
    if len(given) > 1:
        raise pytest.UsageError("--replay-spawn and --replay-target exclude one another")
    found = _of_folder(folder, config.rootpath)
    if given:
        found = {name: value for name, value in found.items() if name not in _WHERE} | given
    if not any(name in found for name in _WHERE):
        found |= {name: value for name in _WHERE if (value := config.getini(f"replay_{name}"))}
    return found if any(name in found for name in _WHERE) else {}


@cache
def _of_folder(folder: Path, root: Path) -> dict[str, Any]:
    """What the nearest settings file says, from the folder up to pytest's root."""
    for place in (folder, *folder.parents):
        path = place / SETTINGS_FILE
        if path.is_file():
            return _read(path)
        if place == root:
            break
    return {}


def _read(path: Path) -> dict[str, Any]:
    from .api import ReplayOptions  # noqa: PLC0415 - see above

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"{path}: {error}") from error
    known = {*_WHERE, *ReplayOptions.__annotations__} - {
        "watcher",
        "jobs",
        "save_actual",
        "update",
        "force",
        "fail_fast",
    }
    unknown = sorted(set(table) - known)
    if unknown:
        raise pytest.UsageError(f"{path}: {unknown[0]!r} is not known; there are {', '.join(sorted(known))}")
    return table


class CaptureFile(pytest.File):
    """A capture."""

    def collect(self) -> Iterator[CaptureItem]:
        """Its replay, which is one test."""
        yield CaptureItem.from_parent(self, name="replay")


class CaptureItem(pytest.Item):
    """The replay of a capture."""

    def runtest(self) -> None:
        """Replay it."""
        report = _replay(self.path, _settings(self.config, self.path.parent))
        (result,) = report.results
        if result.error is not None:
            raise CouldNotTell(str(report))
        if not report.passed:
            raise Diverged(str(report))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The report; a traceback for what is a fault of ours."""
        if isinstance(excinfo.value, (Diverged, CouldNotTell)):
            return str(excinfo.value).rstrip()
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it is, and its name in a heading."""
        return self.path, None, f"replay of {self.path.name}"


def _replay(path: Path, settings: dict[str, Any]) -> Report:
    from .api import replay  # noqa: PLC0415
    from .place import Target  # noqa: PLC0415
    from .spawn import Spawn  # noqa: PLC0415

    where = Spawn(settings["spawn"]) if "spawn" in settings else Target(settings["target"])
    options: ReplayOptions = {name: value for name, value in settings.items() if name not in _WHERE}  # type: ignore[assignment]
    try:
        return replay(path, where, **options)
    except ValueError as error:
        raise CouldNotTell(f"{path}: {error}") from error


@pytest.fixture
def grpc_recorder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Recorder]:
    """A recorder for this test: give `grpc_recorder.interceptor()` to a server. The capture is closed after the test,
    named in the report if it fails, and kept where --replay-record-to says."""
    from capture_recorder import Recorder  # noqa: PLC0415

    name = re.sub(r"[^\w.-]+", "_", request.node.nodeid.partition("::")[2] or request.node.name).strip("_")
    path = tmp_path / f"{name}{SUFFIX}"
    recorder = Recorder(path, on_error="raise")
    yield recorder
    recorder.close()
    folder = request.config.getoption("--replay-record-to")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(shutil.move(path, Path(folder, path.name)))
    request.node.add_report_section("teardown", "capture", f"recorded: {path}\n")
