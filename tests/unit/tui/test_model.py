"""The viewer's model, without a screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capture_recorder.capfile import wire
from capture_recorder.capfile.records import REQUEST, RESPONSE, Call, Message, Meta, Status
from capture_recorder.capfile.verify import verify
from capture_recorder.lens import TensorCheck
from capture_tui.model.checks import check_lines, tiling_bar
from capture_tui.model.detail import details_lines, metadata_lines
from capture_tui.model.difference import difference_lines
from capture_tui.model.document import Document, IsAPipe, is_error
from capture_tui.model.export import frame_json, grpcurl_command, replay_command
from capture_tui.model.filters import LONGEST, BadFilter, Filter, completions
from capture_tui.model.frame import Key, key_of, seq_of
from capture_tui.model.hexdump import hex_line, roles_of
from capture_tui.model.listing import call_line, frame_line, ladder_line, time_text, wait_bar
from capture_tui.model.notes import SUFFIX, Notes
from capture_tui.model.paint import cut, plain, width, wrapped
from capture_tui.model.rows import KeyRows, NumberRows
from capture_tui.model.search import BadSearch, failing, find, searcher, select, watch_back
from capture_tui.model.tree import PAGE, Tree, readings
from helpers.captures import opened_bytes, write_capture

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
SESSION = GOLDEN / "viewer" / "session.cap"
ON = lambda _part: True  # noqa: E731


@pytest.fixture
def session() -> Document:
    return Document(str(SESSION))


def frame_of(document: Document, words: str):  # type: ignore[no-untyped-def]
    """The first frame whose row says this."""
    rows = document.all_rows()
    for frame in document.items(rows.window(0, rows.size)):
        if words in plain(frame_line(frame, document.known(frame), 400, time="")):
            return frame
    raise AssertionError(words)


def tree_of(document: Document, frame) -> Tree:  # type: ignore[no-untyped-def]
    return Tree(frame.message.payload, document.schemas.descriptor(frame.method, frame.message.direction))


# --- documents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((GOLDEN / "v1").glob("*.cap")), ids=lambda path: path.stem)
def test_every_golden_capture_that_can_be_read_can_be_shown(path: Path) -> None:
    wanted = json.loads(path.with_suffix(".json").read_text())
    if "refused" in path.stem:
        return
    document = Document(str(path))
    rows = document.all_rows()
    shown = [document.frame(key) for key in rows.window(0, rows.size)]
    assert None not in shown
    for frame in shown:
        assert frame is not None
        for columns in (20, 60, 200):
            for line in (
                frame_line(frame, document.known(frame), columns, time="0"),
                ladder_line(frame, document.known(frame), columns, time="0", wait_ns=5),
            ):
                assert width(line) <= columns
    assert document.condition == {"unreadable": "damaged"}.get(wanted["condition"], wanted["condition"])
    assert ("damaged" in path.stem) <= any(frame is not None and frame.damage for frame in shown) or (
        "footer" in path.stem or "trailer" in path.stem
    )


def test_an_indexed_capture_shows_the_same_frames_before_and_after_its_scan() -> None:
    path = GOLDEN / "v1" / "long.cap"
    document = Document(str(path))
    after = document.all_rows().window(0, 10**6)
    fresh = Document.__new__(Document)
    fresh.__init__(str(path))  # type: ignore[misc]
    rows = NumberRows(fresh._last_seq(), fresh._next_frame)
    assert rows.window(0, 10**6) == after
    walked: list[Key] = [after[0]]
    while (following := rows.move(walked[-1], 1)) not in (None, walked[-1]):
        assert following is not None
        walked.append(following)
    assert walked == after
    assert rows.move(after[-1], -3) == after[-4]


@pytest.mark.parametrize("scanned", [False, True])
def test_a_time_is_found_by_the_index_and_after_the_scan(scanned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capture_tui.model.document.SMALL", 0)
    for path in (GOLDEN / "v1" / "packed-long.cap", GOLDEN / "v1" / "long.cap", SESSION):
        document = Document(str(path))
        whole = Document(str(path))
        whole.scan()
        if scanned:
            document.scan()
        assert document.scanned is scanned
        table = whole.table
        for ns in (0, *(time + by for time in table.times[:: max(1, len(table) // 20)] for by in (-1, 0, 1)), 1 << 62):
            first = next((row for row in range(len(table)) if table.times[row] >= ns), len(table) - 1)
            assert document.at_time(ns) == table.keys[first], ns


def test_a_pipe_is_refused_with_a_sentence(tmp_path: Path) -> None:
    import os
    import threading

    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    data = SESSION.read_bytes()
    writer = threading.Thread(target=lambda: fifo.write_bytes(data), daemon=True)
    writer.start()
    with pytest.raises(IsAPipe, match="save the capture to a file"):
        Document(str(fifo))


def test_calls_are_labelled_by_their_sessions(session: Document) -> None:
    assert [session.label(call) for call in session.calls()][:4] == ["decode", "zstd", "not_tiling", "checksum_failure"]
    info = session.call(session.calls()[0])
    assert "Session decode" in plain(call_line(info, 60, label="decode"))


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_call_that_lost_events_is_marked() -> None:
    for path in sorted((GOLDEN / "v1").glob("*.cap")):
        if path.stem in ("empty", "refused-feature", "refused-version"):
            continue
        document = Document(str(path))
        marked = [number for number in document.calls() if plain(call_line(document.call(number), 60)).startswith("▒")]
        if document.whole:
            assert marked == [], path
        if path.stem == "damaged-body":
            assert marked == [2]


def test_rows_move_to_the_nearest_and_stop_at_the_ends() -> None:
    rows = KeyRows([4, 6, 10])
    assert (rows.move(4, 1), rows.move(4, 9), rows.move(10, -1), rows.move(5, 1), rows.move(5, 0)) == (6, 10, 6, 6, 6)
    assert KeyRows([]).move(4, 1) is None
    assert rows.slot(7) == 2


@pytest.mark.parametrize("frames", [(3, 4, 6, 9), (1,), (10,), (1, 2, 3)], ids=str)
def test_rows_by_number_move_as_those_by_key(frames: tuple[int, ...]) -> None:
    """From every frame, from before the first and from after the last, however far."""

    def next_frame(seq: int, step: int) -> int | None:
        ahead = [number for number in frames if (number >= seq if step > 0 else number <= seq)]
        return None if not ahead or not 1 <= seq <= 10 else (min(ahead) if step > 0 else max(ahead))

    by_key, by_number = KeyRows([key_of(seq) for seq in frames]), NumberRows(10, next_frame)
    for seq in (0, *frames, 10):
        for by in (-50, *range(-5, 6), 50):
            if seq in frames or by == 0 or (seq == 0) == (by < 0):
                assert by_number.move(key_of(seq), by) == by_key.move(key_of(seq), by), (seq, by)
    assert by_number.window(0, 10) == by_key.window(0, 10)


def test_the_ends_of_a_long_capture_are_one_step_away() -> None:
    asked: list[int] = []

    def next_frame(seq: int, step: int) -> int | None:
        asked.append(seq)
        return seq if 1 <= seq <= 1_000_000 else None

    rows = NumberRows(1_000_000, next_frame)
    assert rows.move(key_of(3), 1_000_000) == key_of(1_000_000)
    assert rows.move(key_of(999_999), -1_000_000) == key_of(1)
    assert len(asked) < 20


# --- the tree and the bytes -------------------------------------------------------------------------------------------


def test_every_byte_selects_the_field_that_has_it(session: Document) -> None:
    frame = frame_of(session, "t: bytes 50 to 60 are missing")
    payload = frame.message.payload
    tree = tree_of(session, frame)
    for offset in range(len(payload)):
        at = tree.reveal(offset)
        assert at is not None
        node = tree.rows[at]
        assert node.start <= offset < node.end
        located = session.schemas.locate(frame.method, frame.message.direction, payload, offset)
        assert located is not None
        assert (node.path, node.start, node.end) == (located.path, located.start, located.end)


def test_a_tree_closes_and_finds_its_parents(session: Document) -> None:
    tree = tree_of(session, frame_of(session, "t: bytes 50 to 60 are missing"))
    at = tree.find("chunk.bundle.tensors[0].fragments[0].payload")
    assert at is not None
    assert tree.rows[tree.parent(at)].name == "fragments[0]"
    assert "CRC32C" in plain(tree.rows[at].line())
    tree.close(0)
    assert len(tree.rows) == 1
    tree.toggle(0)
    assert len(tree.rows) > 1


def test_unknown_bytes_have_every_reading_side_by_side() -> None:
    data = b"\x0a\x09image.png\x10\x03\x1d\x00\x00\x80\x3f"
    fields = list(wire.fields(data))
    said = [dict(readings(data, item)) for item in fields]
    assert set(said[0]) >= {"string", "bytes"}
    assert said[1] == {"uint": "3", "sint": "-2"}
    assert said[2]["float"] == "1"
    nested = b"\x0a\x02\x08\x41"
    (item,) = wire.fields(nested)
    assert set(dict(readings(nested, item))) == {"message", "string", "bytes"}
    tree = Tree(nested)
    assert "unknown, length-delimited" in plain(tree.rows[0].line())
    tree.open(0)
    assert tree.rows[1].path == "#1.#1"


def test_what_is_no_message_says_from_where() -> None:
    tree = Tree(b"\x08\x01\x12\x7fabc")
    assert tree.error == "✗ from offset 2 on this is no message: 127 bytes are announced, 3 are there"


def test_a_message_nested_a_thousand_deep_opens_step_by_step() -> None:
    data = b""
    for _ in range(1_000):
        data = b"\x0a" + _varint(len(data)) + data
    tree = Tree(data)
    at = 0
    while tree.rows[at].opens:
        tree.open(at)
        at += 1
    assert at == 999
    assert "deep)" in plain(tree.rows[at].line())


def test_a_million_elements_are_shown_in_pages() -> None:
    tree = Tree(b"\x08\x01" * 1_000_000)
    assert len(tree.rows) == PAGE + 1
    tree.open(PAGE)
    assert len(tree.rows) == 2 * PAGE + 1
    for page in range(2, 2_000):  # each goes on where the one before stopped, however many there were
        tree.open(page * PAGE)
    assert [node.start for node in tree.rows] == [2 * row for row in range(2_000 * PAGE + 1)]


def test_a_byte_far_away_in_many_fields_is_not_looked_for_to_the_end() -> None:
    tree = Tree(b"\x08\x01" * 1_000_000)
    assert tree.reveal(2 * 150 + 1) == 150
    assert tree.reveal(2 * 3_000) == 3_000
    row = tree.reveal(1_999_999)
    assert row is not None
    assert tree.rows[row].more is not None
    assert len(tree.rows) < 30_000


def test_tag_length_and_value_are_told_apart() -> None:
    data = b"\x0a\x03abc\x10\x07"
    assert roles_of(data, None, 0, 7) == ["tag", "length", "value", "value", "value", "tag", "value"]
    line = hex_line(data, 0, 8, roles_of(data, None, 0, 8), selected=(0, 5), cursor=5)
    assert plain(line) == "00000000  0a 03 61 62 63 10 07     │··abc·· │"
    assert ("10", "cursor") in line


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


# --- tabs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("t: bytes 50 to 60 are missing", "missing   bytes 50 to 60"),
        ("t: bytes 40 to 50 twice", "twice     bytes 40 to 50"),
        ("t: declared 00000000", "computed  09a51547  ≠"),
        ("this is zlib's CRC-32, not CRC-32C", "this is zlib's CRC-32, not CRC-32C"),
    ],
)
def test_checksums_say_what_is_wrong_and_where(session: Document, words: str, wanted: str) -> None:
    frame = frame_of(session, words)
    assert any(wanted in plain(line) for line in check_lines(session.read(frame)[1], 60))


def test_the_tiling_bar_marks_gaps_overlaps_and_ends() -> None:
    def bar(**more: object) -> str:
        return plain(tiling_bar(TensorCheck("t", "x", "", "", **more), 10))  # type: ignore[arg-type]

    assert bar(end=100, total=100) == "█" * 10
    assert bar(end=100, total=100, gaps=((50, 60),)) == "█████░████"
    assert bar(end=100, total=100, overlaps=((0, 1),)) == "▓█████████"
    assert bar(end=50, total=100) == "█████░░░░░"
    assert bar(end=100, total=80) == "████████▶▶"


def test_metadata_has_the_status_by_name_and_its_details(session: Document) -> None:
    text = "\n".join(plain(line) for line in metadata_lines(session, frame_of(session, "PAYLOAD_CORRUPT")))
    assert "✓ OK (0)" in text
    assert "/shard_runtime.v1.ShardRuntime/Session" in text
    detail = b"\x0a\x1dtype.googleapis.com/a.b.Fault\x12\x04\x0a\x02hi"
    details = [plain(line) for line in details_lines(b"\x08\x05\x12\x03why\x1a" + bytes([len(detail)]) + detail)]
    assert details[:3] == ["    code     NOT_FOUND", "    message  why", "    detail   a.b.Fault  4 bytes"]
    assert "hi" in details[3]
    assert "not a google.rpc.Status" in plain(next(iter(details_lines(b"\xff"))))


def test_differences_are_by_field_and_by_byte(session: Document) -> None:
    frame = frame_of(session, "t: declared 00000000")
    payload = frame.message.payload
    changed = payload.replace(b"\x18\x05", b"\x18\x06") if b"\x18\x05" in payload else payload[:-1] + b"\x00"
    text = [
        plain(line)
        for line in difference_lines(session.schemas, frame.method, 0, payload, changed, ("one", "other"), 80)
    ]
    assert text[0].startswith("− one")
    assert any(line.startswith("≠ ") for line in text)
    same = [
        plain(line) for line in difference_lines(session.schemas, frame.method, 0, payload, payload, ("a", "b"), 80)
    ]
    assert same[-1] == "= byte for byte the same"


# --- finding ----------------------------------------------------------------------------------------------------------


def matching(document: Document, expression: str) -> list[int]:
    found: list[Key] = []
    assert select(document, document.all_rows(), Filter(expression, document).matches, ON, found.append)
    return [seq_of(key) for key in found]


def test_filters_know_fields_enums_and_what_every_frame_has(session: Document) -> None:
    every = matching(session, "true")
    corrupt = matching(session, 'error == "PAYLOAD_CORRUPT"')
    assert corrupt
    assert matching(session, 'status.error.code == "ERROR_CODE_PAYLOAD_CORRUPT"') == corrupt
    assert set(matching(session, "failed")) > set(corrupt)
    assert matching(session, 'call == 6 && direction == "request"') == [
        seq for seq in matching(session, "call == 6") if seq in matching(session, 'direction == "request"')
    ]
    assert matching(session, "size > 100 && chunk.envelope.idempotency_step >= 3")
    assert len(matching(session, 'status == "OK"')) == len(session.calls())
    assert len(matching(session, 'event == "open"')) == len(session.calls())
    assert matching(session, 'method.endsWith("/Cancel")')
    assert matching(session, "chunk.bundle.tensors.exists(t, t.total_bytes == 300u || t.total_bytes == 300)")
    assert matching(session, "no_such_field == 1") == []
    assert len(every) == len(session.table)


@pytest.mark.parametrize("expression", ["==", "size >", "(" * 500, "x" * (LONGEST + 1), '"'])
def test_what_is_no_expression_is_refused_with_a_sentence(session: Document, expression: str) -> None:
    with pytest.raises(BadFilter) as error:
        Filter(expression, session)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("size > 1000000", ""),
        ("chunk.envelope.idempotency_step > 99", ""),
        ("has(chunk.envelope) && status in ['x']", ""),
        ('error == "no.such.word"', ""),
        ("checksum", "nothing here is called checksum"),
        ("chunk.tensors.exists(one, one == 1)", ""),
        ("stauts == 'OK'", "nothing here is called stauts"),
        ("size", "the expression gives a number, not true or false"),
        ("method", "the expression gives text, not true or false"),
    ],
)
def test_a_filter_that_matches_nothing_says_why(session: Document, expression: str, said: str) -> None:
    chosen = Filter(expression, session)
    rows = session.all_rows()
    assert not any(chosen.matches(frame) for frame in session.items(rows.window(0, rows.size)))
    assert chosen.complaint() == said


def test_field_names_complete_from_the_schema(session: Document) -> None:
    methods = [session.method(call) for call in session.calls()]
    assert "size > 1 && chunk.envelope.idempotency_step" in completions(
        session.schemas, methods, "size > 1 && chunk.envelope.idem"
    )
    assert "direction" in completions(session.schemas, methods, "dir")


def test_searching_goes_on_from_the_other_end(session: Document) -> None:
    rows = session.all_rows()
    wanted = searcher("payload_corrupt", session)
    first = find(session, rows, 0, wanted, goes_on=ON)
    assert first is not None
    last = find(session, rows, first, wanted, back=True, goes_on=ON)
    assert last is not None
    assert last > first
    assert find(session, rows, last, wanted, goes_on=ON) == first
    assert find(session, rows, first, searcher("is not there at all", session), goes_on=ON) is None
    assert find(session, rows, 0, wanted, goes_on=lambda _part: False) in (first, None)


def test_text_bytes_and_fields_can_be_searched(session: Document) -> None:
    frame = frame_of(session, "t: declared 00000000")
    rows, raw = session.all_rows(), frame.message.payload[:12]
    assert find(session, rows, 0, searcher(f"hex: {raw.hex(' ')}", session), goes_on=ON) == frame.key
    found = find(session, rows, 0, searcher("idempotency_step=3", session), goes_on=ON)
    assert found is not None
    assert find(session, rows, 0, searcher("code=ERROR_CODE_PAYLOAD_CORRUPT", session), goes_on=ON) is not None
    for bad in ("", "hex: 1"):
        with pytest.raises(BadSearch):
            searcher(bad, session)


def test_errors_are_found_in_both_directions(session: Document) -> None:
    rows, wanted = session.all_rows(), failing(session)
    first = find(session, rows, 0, wanted, goes_on=ON)
    assert first is not None
    frame = session.frame(first)
    assert frame is not None
    assert is_error(frame, session.read(frame))
    second = find(session, rows, first, wanted, goes_on=ON)
    assert second is not None
    assert find(session, rows, second, wanted, back=True, goes_on=ON) == first


def test_reverse_watch_finds_where_a_value_came_from(tmp_path: Path) -> None:
    values = [1, 1, 2, 2, 2, 3]
    records = [Meta(created_ns=1, clock_ns=1), Call(call=1, time_ns=1, method="/a.B/C", kind="bidi")]
    records += [
        Message(call=1, time_ns=2 + n, direction=REQUEST, index=n, payload=b"\x08" + bytes([value]))
        for n, value in enumerate(values)
    ]
    from google.protobuf import descriptor_pb2

    from capture_recorder.capfile.records import Schema

    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="a", syntax="proto3")
    message = file.message_type.add(name="M")
    message.field.add(name="n", number=1, type=5, label=1)
    file.service.add(name="B").method.add(
        name="C", input_type=".a.M", output_type=".a.M", client_streaming=True, server_streaming=True
    )
    files = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    records.insert(1, Schema(services=("a.B",), files=files))
    document = Document(str(write_capture(tmp_path / "a.cap", records)))
    last = document.frame(key_of(9))
    assert last is not None
    change = watch_back(document, last, "n")
    assert change is not None
    assert (seq_of(change.key), change.before, change.value) == (6, "1", "2")
    earlier = document.frame(change.key)
    assert earlier is not None
    change = watch_back(document, earlier, "n")
    assert change is not None
    assert (seq_of(change.key), change.before) == (4, None)
    assert watch_back(document, last, "other") is None


# --- out of it --------------------------------------------------------------------------------------------------------


def test_a_frame_leaves_as_json_and_as_commands(session: Document) -> None:
    frame = frame_of(session, "PAYLOAD_CORRUPT")
    body = json.loads(frame_json(session, frame))
    assert body["error"] == "PAYLOAD_CORRUPT"
    assert body["message"]["status"]["error"]["code"] == "ERROR_CODE_PAYLOAD_CORRUPT"
    assert replay_command(session, frame) == f"capture-replay {SESSION} --call {frame.call} --target HOST:PORT"
    command = grpcurl_command(session, frame)
    assert command is not None
    assert command.startswith("grpcurl -plaintext -d '{")
    assert command.endswith("HOST:PORT shard_runtime.v1.ShardRuntime/Session")


# --- notes ------------------------------------------------------------------------------------------------------------


def test_notes_go_into_the_capture_and_nothing_else_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    path.write_bytes(SESSION.read_bytes())
    before = Document(str(path))
    notes = Notes(before)
    notes.put(9, "look here")
    notes.put(12, "")
    assert Path(f"{path}{SUFFIX}").exists()  # a crash now loses nothing
    assert Notes(Document(str(path))).of == {9: "look here", 12: ""}
    assert notes.settle() == f"the notes are in {path}"
    assert not Path(f"{path}{SUFFIX}").exists()
    after = Document(str(path))
    assert Notes(after).of == {9: "look here", 12: ""}
    assert list(after.table.keys) == list(before.table.keys)
    assert after.reader.preamble.file_id == before.reader.preamble.file_id
    with opened_bytes(path.read_bytes()) as reader:
        assert verify(reader).clean
    again = Notes(after)
    again.put(12, None)
    assert again.settle() == f"the notes are in {path}"
    assert Notes(Document(str(path))).of == {9: "look here"}


def test_notes_on_a_torn_capture_stay_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "torn.cap"
    path.write_bytes((GOLDEN / "v1" / "torn-between-records.cap").read_bytes())
    notes = Notes(Document(str(path)))
    notes.put(3, "torn")
    assert "not finished" in notes.settle()
    assert path.read_bytes() == (GOLDEN / "v1" / "torn-between-records.cap").read_bytes()
    assert Notes(Document(str(path))).of[3] == "torn"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"\xff", b'{"file": "00", "notes": {}}', b'{"file": 1, "notes": 1}']
)
def test_what_is_no_file_of_notes_is_left_alone(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "a.cap"
    path.write_bytes(SESSION.read_bytes())
    beside = Path(f"{path}{SUFFIX}")
    beside.write_bytes(body)
    notes = Notes(Document(str(path)))
    assert "left alone" in notes.problem
    notes.put(9, "x")
    assert notes.settle() == f"the notes are in {path}"
    assert beside.read_bytes() == body
    assert Notes(Document(str(path))).of == {9: "x"}


# --- safety -----------------------------------------------------------------------------------------------------------

HOSTILE = ("[red]x", "[/", "[00]", "\x1b[31m", "\x00", "\u202eabc", "a\u200db", "👩‍👩‍👧‍👦" * 9, "é" * 300, "漢字" * 90)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_strings_of_a_capture_keep_rows_in_their_columns(tmp_path: Path, text: str, columns: int) -> None:
    records = [
        Meta(created_ns=1, clock_ns=1, program=text),
        Call(call=1, time_ns=1, method=f"/{text}/{text}", kind=text, peer=text, metadata=(("k", text.encode()),)),
        Message(
            call=1,
            time_ns=2,
            direction=RESPONSE,
            index=0,
            payload=b"\x0a" + _varint(len(text.encode())) + text.encode(),
        ),
        Status(call=1, time_ns=3, code=2, message=text),
    ]
    document = Document(str(write_capture(tmp_path / "a.cap", records)))
    lines = [call_line(document.call(1), columns, label=text)]
    for frame in document.frames(document.all_rows().window(0, 9)):
        known = document.known(frame)
        lines.append(frame_line(frame, known, columns, time=time_text(frame.time_ns, columns)))
        lines.append(ladder_line(frame, known, columns, time="0", wait_ns=10**9))
        lines += [cut(line, columns) for line in metadata_lines(document, frame)]
        if frame.message is not None:
            lines += [cut(node.line(), columns) for node in Tree(frame.message.payload).rows]
    for line in lines:
        assert width(line) <= columns
        assert plain(line).isprintable()


def test_lines_wrap_and_waits_have_bars() -> None:
    line = [("漢字" * 20, "text"), (" and more", "dim")]
    parts = list(wrapped(line, 30, 4))  # type: ignore[arg-type]
    assert all(width(part) <= 30 for part in parts)
    assert "".join(plain(part).strip() for part in parts).replace(" ", "") == plain(line).replace(" ", "")  # type: ignore[arg-type]
    assert [wait_bar(ns).count("▇") for ns in (0, 10**6, 10**7, 10**12)] == [0, 1, 2, 5]
