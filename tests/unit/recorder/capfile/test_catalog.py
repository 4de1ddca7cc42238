"""Finding records: by the index in a few kilobytes, by a scan in batches where there is none; never what is not so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from capture_recorder.capfile import CallRow, CaptureReader, CaptureWriter, Catalog, Entry, open_capture
from capture_recorder.capfile.index import INTERVAL_RECORDS
from capture_recorder.capfile.records import Call, Checkpoint, Message, Meta, Record, Schema
from helpers.captures import FILE_ID, Memory, opened_bytes


def many(calls: int = 3, messages: int = 2 * INTERVAL_RECORDS, size: int = 100) -> list[Record]:
    """Calls that begin one after another, each with its messages; a schema before the first and before the last."""
    records: list[Record] = [Meta(created_ns=0, clock_ns=0), Schema(services=("s",), files=b"\x0a\x00")]
    for call in range(1, calls + 1):
        if call == calls:
            records.append(Schema(services=("t",), files=b"\x0a\x00"))
        records.append(Call(call=call, time_ns=call, method=f"/s/M{call}", kind="bidi"))
        records += [
            Message(call=call, direction=0, index=i, time_ns=call, payload=bytes(size))
            for i in range(messages // calls)
        ]
    return records


def written(records: Sequence[Record], *, close: bool = True) -> bytes:
    output = Memory()
    writer = CaptureWriter(output, file_id=FILE_ID)
    for record in records:
        writer.append(record)
    if close:
        writer.close()
    return bytes(output.data)


class Counted:
    """How many bytes were read of files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        pread, preadv = os.pread, os.preadv

        def counting_pread(fd: int, size: int, offset: int) -> bytes:
            data = pread(fd, size, offset)
            self.bytes += len(data)
            return data

        def counting_preadv(fd: int, buffers: list[Any], offset: int) -> int:
            size = preadv(fd, buffers, offset)
            self.bytes += size
            return size

        monkeypatch.setattr(os, "pread", counting_pread)
        monkeypatch.setattr(os, "preadv", counting_preadv)


def test_calls_schemas_and_any_record_are_found_without_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    data = written(many(messages=20 * INTERVAL_RECORDS, size=1000))
    with opened_bytes(data) as reader:
        everything = {entry.seq: entry for entry in reader.entries()}
        counted = Counted(monkeypatch)
        monkeypatch.setattr(CaptureReader, "scan", lambda self: pytest.fail("it was scanned"))
        catalog = Catalog(reader)
        assert catalog.complete
        assert not catalog.advance()
        wanted = {
            e.record.call: CallRow(e.record.call, e.seq, e.offset)
            for e in everything.values()
            if isinstance(e.record, Call)
        }
        assert catalog.calls == wanted
        assert [schema.services for schema in catalog.schemas()] == [("s",), ("t",)]
        opened = catalog.opening(2)
        assert opened is not None
        assert opened == everything[wanted[2].seq]
        for seq in (1, 2, 33, 1024, 1025, 1026, 5000, 9999, len(everything)):
            assert catalog.read(seq) == everything[seq]
        assert catalog.read(len(everything) + 1) is None
    assert counted.bytes < len(data) / 20


def test_from_a_record_on() -> None:
    data = written(many())
    with opened_bytes(data) as reader:
        catalog, everything = Catalog(reader), list(reader.scan())
        for seq in (1, 2, 1000, 1025, 2000):
            assert list(catalog.items_from(seq)) == everything[seq - 1 :]


@pytest.mark.parametrize("cut", [0, 10])
def test_a_torn_file_is_scanned_in_batches_and_can_be_used_meanwhile(cut: int) -> None:
    data = written(many(), close=False)
    data = data[: len(data) - cut]
    with opened_bytes(data) as reader:
        entries = [item for item in reader.scan() if isinstance(item, Entry)]
        catalog = Catalog(reader)
        assert not catalog.complete
        assert catalog.calls == {}
        seen = [catalog.bytes_seen]
        assert catalog.advance(100)
        assert list(catalog.calls) == [1]
        assert catalog.read(50) == entries[49]
        assert catalog.read(1500) == entries[1499]  # further than the scan is
        while catalog.advance(500):
            seen.append(catalog.bytes_seen)
        assert catalog.complete
        assert seen == sorted(set(seen))
        assert list(catalog.calls) == [1, 2, 3]
        assert [schema.services for schema in catalog.schemas()] == [("s",), ("t",)]
        for seq in (1, 32, 33, 700, len(entries)):
            assert catalog.read(seq) == entries[seq - 1]


def lying(checkpoint: Checkpoint) -> bytes:
    """A clean file whose only checkpoint is this one."""
    output = Memory()
    writer = CaptureWriter(output, file_id=FILE_ID, indexes=False)
    for record in many(messages=30):
        writer.append(record)
    writer._index._calls = list(checkpoint.calls)  # type: ignore[arg-type]
    writer._index._entries = list(checkpoint.records)  # type: ignore[arg-type]
    writer.checkpoint()
    writer.close()
    return bytes(output.data)


@pytest.mark.parametrize(
    "records",
    [((1, 40),), ((1, 32), (5, 33)), ((20, 32),), ((1, 10**15),), (), ((1,),), ((1, 32), (9, 32))],
    ids=[
        "no record there",
        "inside a record",
        "another number",
        "past the end",
        "empty",
        "short row",
        "farther than said",
    ],
)
def test_an_index_that_lies_is_not_believed(records: tuple[tuple[int, ...], ...]) -> None:
    data = lying(Checkpoint(previous=0, records=records, calls=()))
    with opened_bytes(data) as reader:
        entries = {entry.seq: entry for entry in reader.entries()}
        catalog = Catalog(reader)
        for seq in (1, 5, 9, 20, 30):
            assert catalog.read(seq) == entries[seq]


@pytest.mark.parametrize(
    "calls", [(), ((1, 3, 32),), ((1, 3, 1), (2, 2, 2), (3, 3, 3)), ((1, 2), (1, 2), (1, 2))], ids=str
)
def test_an_index_of_calls_that_lies_hides_no_call(calls: tuple[tuple[int, ...], ...]) -> None:
    with opened_bytes(lying(Checkpoint(previous=0, records=((1, 32),), calls=calls))) as reader:
        catalog = Catalog(reader)
        while catalog.advance():
            pass
        assert len(catalog.calls) == 3
        opened = [catalog.opening(n) for n in (1, 2, 3)]
        assert [entry.record.method for entry in opened if entry] == ["/s/M1", "/s/M2", "/s/M3"]


def test_an_older_footer_says_neither_where_schemas_nor_where_calls_are(tmp_path: Path) -> None:
    """Both keys are optional: the calls are found in all checkpoints, or by a scan."""
    from dataclasses import replace

    output = Memory()
    writer = CaptureWriter(output, file_id=FILE_ID)
    for record in many():
        writer.append(record)
    real = writer._index.footer
    writer._index.footer = lambda extra: replace(real(extra), openings=None)  # type: ignore[method-assign]
    writer.close()
    with opened_bytes(bytes(output.data)) as reader:
        assert list(Catalog(reader).calls) == [1, 2, 3]


def test_a_file_that_is_being_written(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.cap")
    for record in many():
        writer.append(record)
    with open_capture(writer.part) as reader:
        assert reader.is_being_written
        catalog = Catalog(reader)
        while catalog.advance():
            pass
        assert list(catalog.calls) == [1, 2, 3]
        writer.close()
        assert not reader.is_being_written
