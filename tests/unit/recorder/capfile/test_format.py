"""FORMAT.md is the specification: its tables are the code's, and its example is a file that the code reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from capture_recorder.capfile import CaptureWriter, blocks, framing
from capture_recorder.capfile.framing import RecordType
from capture_recorder.capfile.records import Call, Message, Meta, Record, Status, table
from helpers.captures import events, read_all

ROOT = Path(__file__).resolve().parents[4]
TEXT = (ROOT / "recorder" / "FORMAT.md").read_text(encoding="utf-8")
EXAMPLE: tuple[Record, ...] = (
    Meta(created_ns=0, clock_ns=0),
    Call(call=1, time_ns=1, method="/s/m", kind="unary"),
    Message(call=1, direction=0, index=0, time_ns=2, payload=b"\x08\x01"),
    Message(call=1, direction=1, index=0, time_ns=3, payload=b""),
    Status(call=1, time_ns=4, code=0),
)


def example() -> bytes:
    block = TEXT.rsplit("```", 2)[1]
    data = bytearray()
    for line in block.strip().splitlines():
        offset, _, rest = line.partition("  ")
        assert int(offset, 16) == len(data)
        data += bytes.fromhex(rest[:47])
    return bytes(data)


def test_the_example_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    path.write_bytes(example())
    assert read_all(path)[0] == "clean"
    assert tuple(events(path)[: len(EXAMPLE)]) == EXAMPLE


def test_the_example_is_what_the_writer_writes(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.cap", file_id=bytes(range(1, 9)))
    for record in EXAMPLE:
        writer.append(record)
    assert writer.close().read_bytes() == example()


def test_the_record_types_are_those_of_the_text() -> None:
    section = TEXT[TEXT.index("| type | record |") : TEXT.index("## 5.")]
    rows = re.findall(r"\b(\d+) \| `(\w+)`", section)
    assert {name.upper(): int(number) for number, name in rows} == {t.name: t.value for t in RecordType}


@pytest.mark.parametrize("kind", list(RecordType), ids=lambda kind: kind.name.lower())
def test_the_keys_are_those_of_the_text(kind: RecordType) -> None:
    section = re.search(rf"^### [^\n]*\b{kind.name.lower()} \({kind.value}\).*?(?=^##)", TEXT, re.M | re.S)
    assert section is not None
    in_text: dict[str, str] = {}
    for row in re.findall(r"^\| (`[^|]*) \|([^|]*)\|([^|]*)\|", section[0], re.M):
        in_text.update({key: row[2].strip() for key in re.findall(r"`(\w+)`", row[0])})
    if kind == RecordType.BLOCK:
        assert in_text.keys() == blocks.KEYS.keys()
        return
    for row in table(kind):
        assert row.key in in_text
        assert (in_text[row.key] == "") == row.required


@pytest.mark.parametrize(
    ("size", "heading"),
    [
        (framing.PREAMBLE_SIZE, "## 3. Preamble ({} bytes)"),
        (framing.TRAILER_SIZE, "## 5. Trailer ({} bytes)"),
    ],
)
def test_the_sizes_are_those_of_the_text(size: int, heading: str) -> None:
    assert heading.format(size) in TEXT


@pytest.mark.parametrize("constant", [framing.MAGIC, framing.SYNC, framing.END_MAGIC])
def test_the_constants_are_those_of_the_text(constant: bytes) -> None:
    assert f"`{constant.hex(' ').upper()}`" in TEXT
