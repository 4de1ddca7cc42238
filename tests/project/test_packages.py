"""What is imported by whom: each package alone, in a fresh process, with a look at what that brought in."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ("capture_proto", "capture_server", "capture_recorder", "capture_replayer", "capture_tui")
HEAVY = ("grpc", "google.protobuf", "msgpack", "crc32c", "click", "rich", "textual", "zstandard")
# package: what of OURS and HEAVY its import may bring
MAY = {
    "capture_proto": {"capture_proto"},
    "capture_proto.shard_runtime.v1.shard_runtime_pb2": {"capture_proto", "google.protobuf"},
    "capture_recorder": {"capture_recorder", "grpc", "google.protobuf", "msgpack", "crc32c"},
    "capture_recorder.capfile": {"capture_recorder", "google.protobuf", "msgpack", "crc32c"},
    "capture_recorder.lens": {"capture_recorder", "google.protobuf", "msgpack", "crc32c"},
    "capture_replayer": {"capture_replayer", "capture_recorder", "grpc", "google.protobuf", "msgpack", "crc32c"},
    "capture_server": {"capture_server"},
    "capture_server.service": {"capture_server", "capture_proto", "google.protobuf", "crc32c", "zstandard"},
    "capture_tui": {"capture_tui"},
}


@pytest.mark.parametrize("package", MAY)
def test_a_package_alone_brings_in_no_more_than_it_may(package: str) -> None:
    code = f"import sys, json, {package}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout))
    brought = {name for name in (*OURS, *HEAVY) if name in modules}
    assert brought <= MAY[package]


def test_the_interceptor_is_made_without_a_further_import() -> None:
    """What a server pays for recording: grpc and what the package itself brings, and nothing else."""
    code = (
        "import sys, json, grpc, tempfile; before = set(sys.modules); import capture_recorder\n"
        "capture_recorder.Recorder(tempfile.mkdtemp() + '/a.cap').interceptor()\n"
        "print(json.dumps(sorted({m.partition('.')[0] for m in set(sys.modules) - before})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    foreign = {name for name in json.loads(done.stdout) if name not in sys.stdlib_module_names and name[0] != "_"}
    assert foreign <= {"capture_recorder", "google", "msgpack", "crc32c"}


def test_the_import_contracts_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        capture_output=True,
        check=True,
    )
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_adds_no_top_level_module_of_another_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(OURS)
    assert all(f"{package}/py.typed" in names for package in OURS)
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.timeout(280)
def test_the_wheel_in_an_empty_environment_gives_working_commands(wheel: Path, tmp_path: Path) -> None:
    """The environment's dependencies are those of this one, by path, so that no registry is needed."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel],
        check=True,
    )
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    assert {path.name for path in site.iterdir() if path.suffix != ".dist-info"} >= set(OURS)
    here = next(Path(entry) for entry in sys.path if entry.endswith("site-packages"))
    needed = site / "needed"  # the dependencies alone: this environment's own editable install must not be seen
    needed.mkdir()
    for path in here.iterdir():
        if "capture_replay" not in path.name and path.suffix != ".pth":
            (needed / path.name).symlink_to(path)
    (site / "needed.pth").write_text(f"{needed}\n")
    for command in ("capture-server", "capture-replay", "capture-file", "capture-view"):
        for flag in ("--version", "--help"):
            done = subprocess.run(
                [tmp_path / "venv" / "bin" / command, flag], capture_output=True, text=True, check=False, cwd=tmp_path
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout
    where = subprocess.run(
        [python, "-c", "import capture_server.client as c; print(c.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(site) in where.stdout


def test_the_version_is_one() -> None:
    from importlib import metadata

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata.version("capture-replay") == project["version"]


def test_the_lock_has_every_dependency_with_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    lock = (ROOT / "requirements.lock").read_text()
    for requirement in wanted:
        name = requirement.split(">")[0].split("<")[0].split("=")[0]
        assert f"\n{name}==" in lock
    entries = [entry for entry in lock.split("\n") if "==" in entry and not entry.startswith("#")]
    assert lock.count("--hash=sha256:") >= len(entries)


FOLDERS = ("proto", "server", "recorder", "replayer", "tui")
# library: the modules that may import it
ONLY_IN = {
    "click": r"(^|/)cli(/|\.py$)|capture_server/client\.py$",
    "rich": r"(^|/)cli(/|\.py$)|/report\.py$|/terminal\.py$|^tui/",
    "textual": r"^tui/",
    "pytest": r"/pytest_plugin\.py$",
    "google.protobuf": r"forms/(binarylog|log_entry)\.py$|capfile/(schema|scalars|fields|values)\.py$"
    r"|/lens/|^proto/|/recorder\.py$|^tui/",
    "zstandard": r"^server/|lens/shard_runtime\.py$|capfile/blocks\.py$",
}


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_is_imported_where_it_belongs(library: str) -> None:
    found = False
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        names = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        if any(name == library or name.startswith(f"{library}.") for name in names):
            found = True
            assert re.search(ONLY_IN[library], str(path.relative_to(ROOT))), path
    assert found or library == "textual"
