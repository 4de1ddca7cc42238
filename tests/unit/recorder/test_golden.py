"""The golden captures: what version 1 is. Never regenerated; a reader that finds something else in one is wrong."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from capture_recorder.capfile import CaptureError, Damage, Entry
from capture_recorder.capfile.framing import RecordType
from capture_recorder.capfile.pack import pack, unpack
from capture_recorder.capfile.records import table
from capture_recorder.capfile.recover import recover
from capture_recorder.capfile.verify import verify
from helpers.captures import Memory, opened_bytes, readable
from helpers.second_reader import Second

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
FILES = sorted((GOLDEN / "v1").glob("*.cap"))


def expected(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
    return found


def golden(function: Any) -> Any:
    return pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)(function)


WHOLE = [path for path in FILES if expected(path)["condition"] == "clean"]


@golden
def test_the_reader_finds_what_is_expected(path: Path) -> None:
    wanted = expected(path)
    found: list[dict[str, Any]] = []
    damage: list[int] = []
    try:
        with opened_bytes(path.read_bytes()) as reader:
            for item in reader.raw():
                if isinstance(item, Damage):
                    damage.append(item.offset)
                    continue
                raw, decoded = item
                line = {"seq": raw.seq, "type": raw.type, "flags": raw.flags, "body": raw.body.hex()}
                found.append(line | ({"fields": _fields(decoded)} if isinstance(decoded, Entry) else {}))
            condition = reader.condition
    except CaptureError as error:
        condition = "refused" if "use a newer" in str(error) else "unreadable"
    assert (condition, damage) == (wanted["condition"], wanted["damage"])
    assert found == [_with_defaults(record) for record in wanted["records"]]


def _fields(entry: Entry) -> dict[str, Any]:
    """What the reader made of a record, by the keys of the specification."""
    known = {row.key: readable(getattr(entry.record, row.attribute)) for row in table(entry.record.TYPE)}
    return known | {key: readable(value) for key, value in entry.record.extra.items()}


def _with_defaults(record: dict[str, Any]) -> dict[str, Any]:
    """An expected record with what the absence of a key means."""
    if "fields" not in record:
        return record
    defaults = {row.key: readable(row.default) for row in table(record["type"]) if not row.required}
    return record | {"fields": defaults | record["fields"]}


@golden
def test_the_second_reader_finds_what_is_expected(path: Path) -> None:
    wanted, found = expected(path), Second(path.read_bytes())
    records = [(n, t, f, body.hex()) for n, t, f, body in found.records]
    assert (found.condition, found.damaged) == (wanted["condition"], wanted["damage"])
    assert records == [(r["seq"], r["type"], r["flags"], r["body"]) for r in wanted["records"]]


@golden
def test_what_is_recovered_is_clean(path: Path) -> None:
    wanted = expected(path)
    if wanted["condition"] == "refused":
        return
    output = Memory()
    with opened_bytes(path.read_bytes(), salvage=True) as reader:
        recover(reader, output)
    with opened_bytes(bytes(output.data)) as reader:
        assert verify(reader).clean


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_packing_and_unpacking_gives_the_file_back(path: Path) -> None:
    data = path.read_bytes()
    packed, unpacked = Memory(), Memory()
    with opened_bytes(data) as reader:
        assert verify(reader).clean
        pack(reader, packed)
    with opened_bytes(bytes(packed.data)) as reader:
        assert verify(reader).clean
        unpack(reader, unpacked)
    if path.stem.startswith("packed"):
        assert packed.data == data or Second(bytes(packed.data)).records == Second(data).records
    elif path.stem != "later-minor-version":  # what we write says the version that we are
        assert unpacked.data == data
    index = (RecordType.CHECKPOINT, RecordType.FOOTER)  # whose offsets are others
    wanted = [(r["seq"], r["type"], r["flags"], bytes.fromhex(r["body"])) for r in expected(path)["records"]]
    found = Second(bytes(packed.data)).records
    assert [record[:3] for record in found] == [record[:3] for record in wanted]
    assert [r for r in found if r[1] not in index] == [r for r in wanted if r[1] not in index]


def test_they_have_everything_there_is() -> None:
    types = {record["type"] for path in FILES for record in expected(path)["records"]}
    conditions = {expected(path)["condition"] for path in FILES}
    assert types >= {kind.value for kind in RecordType if kind != RecordType.BLOCK}
    assert conditions == {"clean", "torn", "damaged", "unreadable", "refused"}
    assert all(path.with_suffix(".json").exists() for path in FILES)


def test_none_of_them_was_ever_changed() -> None:
    """By the history, where there is one: a golden file is added, and no commit touches it again."""
    try:
        log = subprocess.run(
            ["git", "log", "--format=", "--name-status", "--diff-filter=MD", "--", str(GOLDEN / "v1")],
            cwd=GOLDEN, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no history here")
    assert log.stdout.strip() == ""
