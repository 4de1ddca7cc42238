"""Other forms: there and back gives the same, what cannot be held is said, and strangers' files get a sentence."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capture_recorder.capfile import CaptureError, CaptureWriter, Entry
from capture_recorder.capfile.records import (
    EVENT_TYPES,
    Call,
    Cancel,
    Gap,
    HalfClose,
    Headers,
    Message,
    Meta,
    Note,
    Record,
    Redacted,
    Status,
)
from capture_recorder.capfile.verify import verify
from capture_recorder.forms import FORMS, binarylog, events, form_of, prototype
from helpers.captures import ONE_OF_EACH, Memory, opened_bytes, unary

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "v1"
WHOLE = [
    path
    for path in sorted(GOLDEN.glob("*.cap"))
    if json.loads(path.with_suffix(".json").read_text())["condition"] == "clean"
]


def written(records: Sequence[Record]) -> bytes:
    output = Memory()
    writer = CaptureWriter(output, file_id=b"formtest")
    for record in records:
        writer.append(record)
    writer.close()
    return bytes(output.data)


def saved(form: Any, capture: bytes) -> tuple[bytes, list[str]]:
    output = Memory()
    with opened_bytes(capture) as reader:
        said = form.save(reader, output)
    assert output.finished
    return bytes(output.data), said


def loaded(form: Any, data: bytes) -> tuple[bytes, list[str]]:
    output = Memory()
    said = form.load(io.BytesIO(data), "file", output)
    with opened_bytes(bytes(output.data)) as reader:
        assert verify(reader).clean
    return bytes(output.data), said


def records(data: bytes) -> list[Record]:
    with opened_bytes(data) as reader:
        return [item.record for item in reader.scan() if isinstance(item, Entry)]


def calls(data: bytes) -> list[Record]:
    return [record for record in records(data) if isinstance(record, EVENT_TYPES)]


# --- JSON lines of events ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_events_give_the_capture_back_to_the_byte(path: Path) -> None:
    data = path.read_bytes()
    lines, said = saved(events, data)
    assert said == []
    assert form_of(lines) == "jsonl"
    assert lines.isascii()
    back, said = loaded(events, lines)
    assert said == []
    if path.stem != "later-minor-version":
        assert saved(events, back) == (lines, [])
    if not path.stem.startswith(("packed", "later")):  # those come back unpacked, and with our version
        assert back == data


def test_what_json_cannot_hold_is_there_as_bytes() -> None:
    odd: dict[str, Any] = {
        "floats": [1.5, float("inf"), float("nan")],
        "bytes keys": {b"k": 1},
        "tags": [{"base64": "no"}, {"map": {"a": 1}}],
        "deep": [[[[[]]]]],
        "text": "\x00\ud7ff\u202e",
        "large": 2**64 - 1,
        "negative": -(2**63),
    }
    for key, value in odd.items():
        data = written([ONE_OF_EACH[0], Status(call=1, time_ns=1, code=0, extra={key: value})])
        assert loaded(events, saved(events, data)[0])[0] == data, key
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    data = written([ONE_OF_EACH[0], Status(call=1, time_ns=1, code=0, extra={"deep": deep})])
    assert loaded(events, saved(events, data)[0])[0] == data


def test_a_note_about_what_follows_or_about_nothing_stays_as_it_is() -> None:
    notes = [Note(text="later", about=4), Note(text="never", about=2**64 - 1), Note(text="before", about=1)]
    data = written([ONE_OF_EACH[0], *notes, *unary(1)])
    assert loaded(events, saved(events, data)[0])[0] == data


def test_lines_without_a_beginning_get_one_and_a_second_is_refused() -> None:
    lines = saved(events, written([ONE_OF_EACH[0], *unary(1)]))[0].splitlines(keepends=True)
    assert isinstance(records(loaded(events, b"".join(lines[2:]))[0])[0], Meta)
    with pytest.raises(CaptureError, match="line 3: a second `meta` record"):
        loaded(events, b"".join((*lines[:2], lines[1].replace(b'"seq": 1', b'"seq": 2'))))


def test_lines_that_were_chosen_are_numbered_anew_and_that_is_said() -> None:
    lines = saved(events, written(ONE_OF_EACH))[0].splitlines(keepends=True)
    chosen = [line for line in lines if json.loads(line).get("record") != "headers"]
    back, said = loaded(events, b"".join(chosen))
    assert said == ["its lines are not numbered one after another: the events have other numbers now"]
    note = next(record for record in records(back) if hasattr(record, "about"))
    assert records(back)[(note.about or 0) - 1] == ONE_OF_EACH[4]


def test_lines_by_hand_need_neither_header_nor_numbers() -> None:
    lines = (
        b'{"record": "meta", "created_ns": 1, "clock_ns": 2}\n'
        b'{"record": "call", "call": 1, "time_ns": 3, "method": "/s/M", "kind": "unary"}\n'
        b'{"record": "message", "call": 1, "direction": 0, "index": 0, "time_ns": 4, "payload": {"base64": "aGk="}}\n'
    )
    assert form_of(lines) == "jsonl"
    assert records(loaded(events, lines)[0])[:3] == [
        Meta(created_ns=1, clock_ns=2),
        Call(call=1, time_ns=3, method="/s/M", kind="unary"),
        Message(call=1, direction=0, index=0, time_ns=4, payload=b"hi"),
    ]


# --- the prototype ----------------------------------------------------------------------------------------------------


def test_the_prototypes_lines_come_back_as_they_were() -> None:
    lines = [
        {"requests": ["0a00", "", "ff"], "responses": ["0a00"]},
        {"requests": [], "responses": []},
        {"requests": ["01"], "responses": ["02", "03"]},
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert form_of(data) == "prototype"
    capture, said = loaded(prototype, data)
    assert any("no order between requests and responses" in clause for clause in said)
    assert saved(prototype, capture)[0] == data
    assert [(r.direction, r.payload) for r in records(capture) if isinstance(r, Message) and r.call == 1] == [
        (0, b"\x0a\x00"), (1, b"\x0a\x00"), (0, b""), (0, b"\xff"),
    ]  # fmt: skip


@pytest.mark.parametrize("path", [GOLDEN / "kinds.cap", GOLDEN / "recorded.cap"], ids=lambda path: path.stem)
def test_of_a_capture_the_prototype_keeps_the_messages_of_sessions(path: Path) -> None:
    data = path.read_bytes()
    lines, said = saved(prototype, data)
    assert any("calls that are not bidirectional" in clause for clause in said)
    back, _ = loaded(prototype, lines)
    assert saved(prototype, back)[0] == lines
    bidi = {record.call for record in records(data) if isinstance(record, Call) and record.kind == "bidi"}

    def messages(data: bytes, of: set[int] | None = None) -> list[tuple[int, bytes]]:
        found = [r for r in records(data) if isinstance(r, Message) and (of is None or r.call in of)]
        return sorted((r.direction, r.payload) for r in found)

    assert messages(back) == messages(data, bidi)


# --- gRPC's binary log ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_a_binary_log_comes_back_as_it_was(path: Path) -> None:
    log, _ = saved(binarylog, path.read_bytes())
    if not log:
        return
    assert form_of(log) == "binarylog"
    back, _ = loaded(binarylog, log)
    assert saved(binarylog, back)[0] == log


@pytest.mark.parametrize("path", [GOLDEN / "kinds.cap", GOLDEN / "recorded.cap"], ids=lambda path: path.stem)
def test_of_a_capture_a_binary_log_keeps_every_event(path: Path) -> None:
    before, after = calls(path.read_bytes()), calls(loaded(binarylog, saved(binarylog, path.read_bytes())[0])[0])
    first = before[0].time_ns  # a log has no time 0 but its first entry's
    assert [_held(record, first) for record in before] == [_held(record, 0) for record in after]


def _held(event: Record, first: int) -> Record:
    """The event without what a log cannot hold."""
    assert isinstance(event, EVENT_TYPES)
    event = replace(event, time_ns=event.time_ns - first)
    if isinstance(event, Call):
        kept = tuple(pair for pair in event.metadata if not isinstance(pair[1], Redacted))
        return replace(event, kind="", metadata=kept)
    return event


def entry(**fields: Any) -> bytes:
    data: bytes = binarylog.entry_class()(**fields).SerializeToString()
    return struct.pack(">I", len(data)) + data


def header(call_id: int, method: str = "/s/M", **more: Any) -> bytes:
    return entry(call_id=call_id, sequence_id_within_call=1, type=1, client_header={"method_name": method}, **more)


def test_the_log_of_another_implementation() -> None:
    """As grpc-go's sink writes: ids of its own, a server header always, a half-close after the last response."""
    t = {"seconds": 1_700_000_000, "nanos": 5}
    log = b"".join([
        header(900, "/s/Chat", timestamp=t, logger=2, peer={"type": 2, "address": "::1", "ip_port": 5}),
        entry(call_id=900, type=3, timestamp=t, message={"length": 1, "data": b"a"}),
        entry(call_id=900, type=3, timestamp=t, message={"length": 1, "data": b"b"}),
        entry(call_id=900, type=2, timestamp=t, server_header={"metadata": {"entry": [{"key": "k", "value": b"v"}]}}),
        entry(call_id=900, type=4, timestamp={"seconds": 1_700_000_001}, message={"length": 1, "data": b"a"}),
        entry(call_id=900, type=5, timestamp=t),
        entry(call_id=900, type=6, timestamp=t,
              trailer={"status_code": 5, "status_message": "no", "status_details": b"\x01"}),
        entry(call_id=900, type=7, timestamp=t),
    ])  # fmt: skip
    capture, said = loaded(binarylog, log)
    t0, t1 = 0, 999_999_995
    assert calls(capture) == [
        Call(call=1, time_ns=t0, method="/s/Chat", kind="client_streaming", peer="ipv6:[::1]:5"),
        Message(call=1, direction=0, index=0, time_ns=t0, payload=b"a"),
        Message(call=1, direction=0, index=1, time_ns=t0, payload=b"b"),
        Headers(call=1, time_ns=t0, metadata=(("k", b"v"),)),
        Message(call=1, direction=1, index=0, time_ns=t1, payload=b"a"),
        HalfClose(call=1, time_ns=t1),
        Status(call=1, time_ns=t1, code=5, message="no", metadata=(("grpc-status-details-bin", b"\x01"),)),
    ]
    assert any("grpc-go logs the half-close" in clause for clause in said)
    assert "1 entries are of no call that is open: left out" in said
    meta = records(capture)[0]
    assert isinstance(meta, Meta)
    assert meta.created_ns == 1_700_000_000_000_000_005


def test_a_payload_that_the_log_truncated_becomes_a_gap() -> None:
    log = header(1) + entry(call_id=1, type=3, payload_truncated=True, message={"length": 100, "data": b"abc"})
    capture, said = loaded(binarylog, log)
    assert [(r.why, r.call, r.events, r.size) for r in records(capture) if isinstance(r, Gap)] == [
        ("truncated in the binary log", 1, 1, 97)
    ]
    assert "1 payloads are truncated in it: gaps stand for them" in said


def test_numbers_that_a_log_or_a_capture_cannot_hold() -> None:
    capture = written([ONE_OF_EACH[0], ONE_OF_EACH[2], Status(call=1, time_ns=1, code=1 << 40)])
    log, said = saved(binarylog, capture)
    assert "1 status codes of more than 32 bits" in said
    assert [r.code for r in records(loaded(binarylog, log)[0]) if isinstance(r, Status)] == [2]
    for seconds in (-(1 << 40), 1 << 62):
        output = Memory()
        log = header(1, timestamp={"seconds": 5}) + entry(call_id=1, type=5, timestamp={"seconds": seconds})
        try:
            binarylog.load(io.BytesIO(log), "file", output)
        except CaptureError as error:
            assert "more than the format can hold" in str(error)
            assert output.discarded


def test_what_a_log_cannot_hold_is_said() -> None:
    secret = (("authorization", Redacted(3, b"12345678")),)
    capture = written([
        *ONE_OF_EACH,
        Call(call=3, time_ns=10, method="/s/M", kind="unary", metadata=secret, compression="gzip"),
        Cancel(call=3, time_ns=11, why="deadline"),
    ])  # fmt: skip
    said = " ".join(saved(binarylog, capture)[1])
    for what in (
        "redacted values",
        "names of a compression",
        "gaps",
        "schemas",
        "kinds of calls",
        "reasons of a cancel",
    ):
        assert what in said


# --- strangers' files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "data", "sentence"),
    [
        ("jsonl", b'{"seq": 1', "file: line 1: is not JSON"),
        ("jsonl", b'{"capture": {"id": "xyz"}}', "file: line 1: 'id' is not 8 bytes in hex"),
        ("jsonl", b'{"capture": {}}\n[1]\n', "file: line 2: is not a JSON object"),
        ("jsonl", b'{"record": "meta"}', "file: line 1: is not a record of type 1: its key 'created' is missing"),
        ("jsonl", b'{"record": "what"}', "file: line 1: 'record' or 'type' does not name a type of record"),
        ("jsonl", b'{"type": 300}', "does not name a type of record"),
        ("jsonl", b'{"type": 12, "body": ""}', "a block is no record by itself"),
        ("jsonl", b'{"type": 99}', "of a type that is not known `body` is needed"),
        (
            "jsonl",
            b'{"seq": 5, "type": 99, "body": ""}\n\n{"seq": 5, "type": 99, "body": ""}',
            "line 3: 'seq' is no number above",
        ),
        ("jsonl", b'{"seq": 18446744073709551616, "type": 99, "body": ""}', "line 1: 'seq' is no number above"),
        (
            "jsonl",
            b'{"record": "meta", "created_ns": 18446744073709551616, "clock_ns": 1}',
            "is not a record of type 1",
        ),
        ("jsonl", b'{"record": "note", "text": "\\ud800"}', "is not a record of type 128"),
        ("jsonl", b'{"type": 99, "body": "!"}', "is not a record of type 99"),
        ("jsonl", b'{"record": "footer", "body": "gA=="}', "is not a record of type 11"),
        ("jsonl", b'{"record": "note", "text": {"base64": "\xff"}}', "is not"),
        ("jsonl", b"[" * 100_000, "line 1: is not JSON"),
        ("prototype", b'{"requests": ["0"], "responses": []}', "line 1: 'requests' is not a list of messages in hex"),
        ("prototype", b'{"requests": []}', "line 1: 'responses' is not a list of messages in hex"),
        ("prototype", b'{"requests": 5, "responses": []}', "line 1: 'requests' is not"),
        ("binarylog", header(1) + b"\x00", "ends in an entry"),
        ("binarylog", header(1) + struct.pack(">I", 50) + b"short", "ends in an entry of 50 bytes"),
        ("binarylog", header(1) + struct.pack(">I", 1) + b"\xff", "this is no GrpcLogEntry"),
    ],
)
def test_what_does_not_hold_what_its_form_has_to_gets_one_sentence(form: str, data: bytes, sentence: str) -> None:
    output = Memory()
    with pytest.raises(CaptureError) as error:
        FORMS[form].load(io.BytesIO(data), "file", output)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert output.discarded


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 100, b"hello", b"[]", b'{"a": 1}', b"\xff" * 10, b"\x00\x00\x00\x01\x00"]
)
def test_what_is_of_no_form_is_none(data: bytes) -> None:
    assert form_of(data) is None


def test_a_first_entry_longer_than_what_is_looked_at_is_told() -> None:
    log, _ = saved(binarylog, written([ONE_OF_EACH[0], *unary(1, method="/s/" + "M" * 100_000)]))
    assert form_of(log[:5000]) == "binarylog"
    assert form_of(b"\x7f" + log[1:5000]) is None


def test_a_line_longer_than_what_is_looked_at_is_told() -> None:
    line = json.dumps({"requests": ["00" * 100_000], "responses": []}).encode()
    assert form_of(line[:1000]) == "prototype"
    assert form_of(saved(events, written([ONE_OF_EACH[0], *unary(1, b"x" * 100_000)]))[0][:5]) is None
    assert form_of(saved(events, written([ONE_OF_EACH[0], *unary(1, b"x" * 100_000)]))[0][:20]) == "jsonl"
