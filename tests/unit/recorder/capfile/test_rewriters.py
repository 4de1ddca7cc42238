"""Cut, merge, pack: what they keep, what they change, and that the result is a capture like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from capture_recorder.capfile import CaptureError, CaptureWriter, Catalog, Entry
from capture_recorder.capfile.blocks import MAX_EXPANDED
from capture_recorder.capfile.cut import Span, cut
from capture_recorder.capfile.index import INTERVAL_RECORDS
from capture_recorder.capfile.merge import merge
from capture_recorder.capfile.pack import BLOCK_SIZE, pack, unpack
from capture_recorder.capfile.records import (
    EVENT_TYPES,
    Call,
    Cancel,
    Checkpoint,
    Footer,
    Gap,
    HalfClose,
    Message,
    Meta,
    Note,
    Record,
    Schema,
    Status,
)
from capture_recorder.capfile.verify import verify
from helpers.captures import ONE_OF_EACH, Memory, opened_bytes, unary

META = Meta(created_ns=1000, clock_ns=0, program="p")


def written(
    records: Sequence[Record], file_id: bytes = b"source01", then: Callable[[CaptureWriter], Any] | None = None
) -> bytes:
    output = Memory()
    writer = CaptureWriter(output, file_id=file_id)
    for record in records:
        writer.append(record)
    if then:
        then(writer)
    writer.close()
    return bytes(output.data)


def entries(data: bytes) -> list[Entry]:
    """All of a capture that verifies clean, its index records left out."""
    with opened_bytes(data) as reader:
        assert verify(reader).clean
        return [entry for entry in reader.entries() if not isinstance(entry.record, (Checkpoint, Footer))]


def records(data: bytes) -> list[Record]:
    return [entry.record for entry in entries(data)]


def interleaved() -> list[Record]:
    """Two sessions, and a unary call in between."""
    return [
        META,
        Call(call=1, time_ns=10, method="/s/Chat", kind="bidi"),
        Call(call=2, time_ns=20, method="/s/Chat", kind="bidi"),
        Message(call=1, direction=0, index=0, time_ns=30, payload=b"1a"),
        Message(call=2, direction=0, index=0, time_ns=40, payload=b"2a"),
        Message(call=1, direction=1, index=0, time_ns=50, payload=b"1a"),
        *unary(3, start=60),
        Message(call=2, direction=1, index=0, time_ns=70, payload=b"2a"),
        HalfClose(call=1, time_ns=80),
        Status(call=1, time_ns=90, code=0),
        Note(text="of call 2", about=11),
        Note(text="of call 1", about=4),
        Note(text="of nothing"),
        Gap(time_ns=95, why="lost", call=2, events=1),
        Gap(time_ns=96, why="lost", events=1),
        Cancel(call=2, time_ns=100),
    ]


# --- cut --------------------------------------------------------------------------------------------------------------


def cut_out(data: bytes, **choice: Any) -> tuple[list[Record], Any]:
    output = Memory()
    with opened_bytes(data) as reader:
        made = cut(reader, output, **choice)
    return records(bytes(output.data)), made


def calls_of(found: Sequence[Record]) -> set[int]:
    return {record.call for record in found if isinstance(record, EVENT_TYPES)}


def test_cut_by_call_keeps_all_of_it_and_its_number() -> None:
    found, made = cut_out(written(interleaved()), calls=[2], how="cut --call 2")
    assert [record for record in found if isinstance(record, EVENT_TYPES)] == [
        record for record in interleaved() if isinstance(record, EVENT_TYPES) and record.call == 2
    ]
    assert (made.calls, made.events, made.left_open) == (1, 4, 0)
    assert isinstance(found[0], Meta)
    assert found[0].derived == {"from": [b"source01".hex()], "by": "cut --call 2"}


def test_cut_keeps_the_notes_and_gaps_that_concern_it() -> None:
    data = written(interleaved())
    found, _ = cut_out(data, calls=[2])
    notes = [record for record in found if isinstance(record, Note)]
    assert [note.text for note in notes] == ["of call 2", "of nothing"]
    assert found[(notes[0].about or 0) - 1] == interleaved()[10]
    assert [gap.call for gap in found if isinstance(gap, Gap)] == [2, None]
    assert [gap.call for gap in cut_out(data, calls=[1])[0] if isinstance(gap, Gap)] == [None]


def test_a_span_chooses_calls_and_ends_the_capture() -> None:
    found, made = cut_out(written(interleaved()), span=Span(last=6))
    assert calls_of(found) == {1, 2}
    assert (made.events, made.left_open) == (5, 2)
    assert max(record.time_ns for record in found if isinstance(record, EVENT_TYPES)) == 50


def test_a_call_is_kept_from_its_beginning_where_a_span_begins_later() -> None:
    found, _ = cut_out(written(interleaved()), span=Span(since_ns=92))
    assert calls_of(found) == {2}
    assert isinstance(found[1], Call)
    assert isinstance(found[-1], Cancel)


@pytest.mark.parametrize(
    "choice", [{"calls": [9]}, {"calls": [1, 9]}, {"span": Span(first=1000)}, {"chosen": lambda e: False}]
)
def test_a_cut_of_nothing_writes_nothing(choice: dict[str, Any]) -> None:
    output = Memory()
    with opened_bytes(written(interleaved())) as reader, pytest.raises(CaptureError, match="nothing was written"):
        cut(reader, output, **choice)
    assert output.discarded


# --- merge ------------------------------------------------------------------------------------------------------------


def merged(*sources: bytes) -> list[Record]:
    import contextlib

    output = Memory()
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(opened_bytes(data)) for data in sources]
        merge(readers, output)
    return records(bytes(output.data))


def test_merge_is_in_time_order_with_calls_numbered_anew() -> None:
    early = written([META, *unary(1, b"x", start=10), *unary(2, b"y", start=500)], b"source01")
    late = written([Meta(created_ns=1300, clock_ns=0, program="p"), *unary(1, b"z", start=10)], b"source02")
    found = merged(late, early)
    messages = [(r.call, r.time_ns, r.payload) for r in found if isinstance(r, Message) and r.direction == 0]
    assert messages == [(1, 11, b"x"), (2, 311, b"z"), (3, 501, b"y")]
    assert isinstance(found[0], Meta)
    assert found[0].created_ns == 1000
    assert found[0].derived["from"] == [b"source02".hex(), b"source01".hex()]
    times = [record.time_ns for record in found if isinstance(record, EVENT_TYPES)]
    assert times == sorted(times)


def test_merge_keeps_one_schema_of_each_and_gaps_of_their_calls() -> None:
    schema = Schema(services=("a.B",), files=b"\x0a\x00")
    one = written(
        [
            META,
            schema,
            *unary(1),
            Call(call=2, time_ns=9, method="/s/M", kind="bidi"),
            Gap(time_ns=10, why="w", call=2),
        ],
        b"source01",
    )
    two = written([META, schema, *unary(1), Gap(time_ns=10, why="w")], b"source02")
    found = merged(one, two)
    assert sum(isinstance(record, Schema) for record in found) == 1
    assert {(gap.call) for gap in found if isinstance(gap, Gap)} == {3, None}


def test_merge_of_the_same_capture_twice_is_refused() -> None:
    data = written([META, *unary(1)])
    with pytest.raises(CaptureError, match="is given twice"):
        merged(data, data)


def test_times_beyond_what_a_capture_can_hold_are_refused_with_a_sentence() -> None:
    late = written([Meta(created_ns=2**63, clock_ns=0), *unary(1, start=2**64 - 10)], b"source02")
    with pytest.raises(CaptureError, match=r"record 2 at offset \d+: its time beside the others is more than"):
        merged(written([META, *unary(1)]), late)


# --- what all rewriters do --------------------------------------------------------------------------------------------

UNKNOWN = (200, 0, b"anything")


def rewriters() -> dict[str, Callable[[Any, Any], Any]]:
    return {
        "cut": lambda reader, output: cut(reader, output, calls=[1]),
        "merge": lambda reader, output: merge([reader], output),
        "pack": pack,
        "unpack": unpack,
    }


@pytest.mark.parametrize("name", rewriters())
def test_unknown_keys_and_skippable_records_are_copied_untouched(name: str) -> None:
    def later(writer: CaptureWriter) -> None:
        writer.append_raw(*UNKNOWN)
        writer.append(Status(call=1, time_ns=9, code=0, extra={"later": [1, b"\x00", {"x": None}]}))

    data = written(
        [META, *unary(1)[:2], Message(call=1, direction=1, index=0, time_ns=3, payload=b"p", extra={"new": "key"})],
        then=later,
    )
    output = Memory()
    with opened_bytes(data) as reader:
        rewriters()[name](reader, output)
    with opened_bytes(bytes(output.data)) as reader:
        kept = [(raw.type, raw.flags, bytes(raw.body)) for raw, _ in reader.raw()]
        extras = [entry.record.extra for entry in reader.entries() if isinstance(entry.record, EVENT_TYPES)]
    assert UNKNOWN in kept
    assert {"new": "key"} in extras
    assert {"later": [1, b"\x00", {"x": None}]} in extras


@pytest.mark.parametrize("name", rewriters())
@pytest.mark.parametrize("how", ["torn", "damaged"])
def test_what_is_not_whole_is_refused_with_place_and_advice(name: str, how: str) -> None:
    data = bytearray(written([META, *unary(1)]))
    if how == "torn":
        del data[-50:]
    else:
        data[150] ^= 1
    output = Memory()
    with opened_bytes(bytes(data)) as reader, pytest.raises(CaptureError) as error:
        rewriters()[name](reader, output)
    assert "is not whole at offset" in str(error.value)
    assert "capture-file recover" in str(error.value)
    assert output.discarded
    assert not output.finished


@pytest.mark.parametrize("name", rewriters())
@pytest.mark.parametrize("records", [unary(1), [META, *unary(1), META]], ids=["no meta", "two"])
def test_what_does_not_begin_as_a_capture_does_is_refused(name: str, records: Sequence[Record]) -> None:
    output = Memory()
    with opened_bytes(written(records)) as reader, pytest.raises(CaptureError, match="meta"):
        rewriters()[name](reader, output)
    assert output.discarded


@pytest.mark.parametrize("name", ["cut", "merge"])
def test_a_critical_record_that_is_not_known_is_not_renumbered_blindly(name: str) -> None:
    data = written([META, *unary(1)], then=lambda writer: writer.append_raw(100, 0, b"\x80"))
    with (
        opened_bytes(data) as reader,
        pytest.raises(CaptureError, match=r"record 6 at offset \d+ is of a type that is not known"),
    ):
        rewriters()[name](reader, Memory())


# --- pack -------------------------------------------------------------------------------------------------------------


def long(count: int = 3 * INTERVAL_RECORDS, size: int = 20) -> bytes:
    messages = [
        Message(call=1, direction=i % 2, index=i // 2, time_ns=i, payload=(b"%d " % i) * size) for i in range(count)
    ]
    return written([META, Call(call=1, time_ns=0, method="/s/M", kind="bidi"), *messages])


def packed_of(data: bytes) -> bytes:
    output = Memory()
    with opened_bytes(data) as reader:
        pack(reader, output)
    return bytes(output.data)


def unpacked_of(data: bytes) -> bytes:
    output = Memory()
    with opened_bytes(data) as reader:
        unpack(reader, output)
    return bytes(output.data)


@pytest.mark.parametrize("data", [written(ONE_OF_EACH), written([META]), long()], ids=["one of each", "empty", "long"])
def test_unpacking_gives_back_what_was_packed_to_the_byte(data: bytes) -> None:
    packed = packed_of(data)
    assert unpacked_of(packed) == data
    assert packed_of(packed) == packed
    assert unpacked_of(data) == data
    assert [(e.seq, e.record) for e in entries(packed)] == [(e.seq, e.record) for e in entries(data)]


def test_packing_makes_it_smaller() -> None:
    data = long()
    assert len(packed_of(data)) < len(data) / 5


@pytest.mark.parametrize("size", [BLOCK_SIZE, MAX_EXPANDED - 100, MAX_EXPANDED + 1])
def test_large_records_are_packed_alone_and_the_largest_are_left(size: int) -> None:
    payload = bytes(size)
    data = written([META, *unary(1)[:1], Message(call=1, direction=0, index=0, time_ns=1, payload=payload), *unary(2)])
    packed = packed_of(data)
    assert (len(packed) > size) == (size > MAX_EXPANDED)
    assert unpacked_of(packed) == data


@pytest.mark.parametrize("seq", [1, 2, 3, 33, 1024, 1025, 1026, 2000, 3072, 3076])
def test_an_event_of_a_packed_capture_is_found_by_the_index(seq: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = long(size=200)
    packed = packed_of(data)
    with opened_bytes(data) as reader:
        wanted = next(entry for entry in reader.entries() if entry.seq == seq)
    with opened_bytes(packed) as reader:
        catalog = Catalog(reader)
        monkeypatch.setattr(reader, "scan", lambda: pytest.fail("it was scanned"))
        found = catalog.read(seq)
    assert found is not None
    assert (found.seq, type(found.record)) == (seq, type(wanted.record))
    if not isinstance(wanted.record, (Checkpoint, Footer)):
        assert found.record == wanted.record
