"""`capture-file` as a stranger runs it: data on stdout, words on stderr, an exit status, and no traceback ever."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from google.protobuf import any_pb2, descriptor_pb2

from capture_recorder.capfile import CaptureWriter, framing
from capture_recorder.capfile.records import Call, Gap, Message, Meta, Record, Schema, Status
from capture_recorder.capfile.schema import files_of
from capture_server.build import chunk, open_request, tensor
from helpers.captures import ONE_OF_EACH, unary, write_capture
from helpers.processes import BIN, capture_file

SERVICE = "shard_runtime.v1.ShardRuntime"
EVIL = "/x.[bold]Y\x1b]0;owned\x07\u202e/[/]\x00"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write_capture(tmp_path / "a.cap")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    found = files_of(SERVICE)
    assert found is not None
    method = f"/{SERVICE}/Session"
    corrupt = chunk("s", "w", 1, [tensor("weights", b"abc", checksum=1), tensor("bias", b"x")])
    records: list[Record] = [
        Meta(created_ns=1_700_000_000_123_456_789, clock_ns=0),
        Schema(services=(SERVICE,), files=found[0]),
        Call(call=1, time_ns=1000, method=method, kind="bidi"),
        Message(call=1, direction=0, index=0, time_ns=2000, payload=open_request("s").SerializeToString()),
        Message(call=1, direction=0, index=1, time_ns=3000, payload=corrupt.SerializeToString()),
        Message(call=1, direction=1, index=0, time_ns=4000, payload=b"\x0a\xff"),
        Status(call=1, time_ns=5000, code=7, message="no", metadata=(("a-bin", b"\x00"), ("b", b"c"))),
    ]
    return write_capture(tmp_path / "s.cap", records)


def test_info_in_json(session: Path) -> None:
    done = capture_file("info", session, "--json")
    body = json.loads(done.stdout)
    assert done.returncode == 0
    assert body["file"] == str(session)
    assert (body["condition"], body["format"], body["calls"]) == ("clean", "1.0", 1)
    assert body["messages"] == {"request": 2, "response": 1}
    assert body["started"] == "2023-11-14T22:13:20.123456789Z"
    assert body["duration_ns"] == 5000
    assert body["services"] == [SERVICE]
    (method,) = body["methods"].values()
    assert (method["kind"], method["calls"], method["statuses"]) == ("bidi", 1, {"PERMISSION_DENIED": 1})
    assert body["bytes"] == method["bytes"] > 0


def test_info_for_people(capture: Path) -> None:
    done = capture_file("info", capture)
    assert done.returncode == 0
    assert "✓ clean" in done.stdout
    assert "gap: 2 events lost: disk full" in done.stdout
    assert re.search(r"/a\.B/\n.*\n  C +bidi +1 +1 +1 +5 B +NOT_FOUND 1\n", done.stdout)
    assert not re.search(r" \n", done.stdout)


def test_frames_in_json(session: Path) -> None:
    done = capture_file("frames", session, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [(x["seq"], x["event"], x["direction"], x["index"], x["time_ns"]) for x in lines] == [
        (3, "open", "request", None, 1000),
        (4, "message", "request", 0, 2000),
        (5, "message", "request", 1, 3000),
        (6, "message", "response", 0, 4000),
        (7, "status", "response", None, 5000),
    ]
    assert base64.b64decode(lines[1]["payload"]) == open_request("s").SerializeToString()
    assert lines[1]["size"] == len(base64.b64decode(lines[1]["payload"]))
    assert lines[1]["decoded"]["open"]["route_session_id"] == "s"
    assert [c["verdict"] for c in lines[2]["checksums"]] == ["mismatch", "ok"]
    assert "decoded" not in lines[3]
    assert "not a shard_runtime.v1.SessionResponse" in lines[3]["decode_error"]
    assert (lines[4]["code"], lines[4]["code_name"]) == (7, "PERMISSION_DENIED")
    assert lines[4]["metadata"] == [["a-bin", {"base64": "AA=="}], ["b", "c"]]


def test_frames_for_people(session: Path) -> None:
    done = capture_file("frames", session)
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert "✗ weights: declared 00000001, computed 364b3fb7  ✓1 chunk" in lines[2]
    assert "PERMISSION_DENIED no" in lines[4]


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_a_row_fits_the_terminal(session: Path, columns: int) -> None:
    done = subprocess.run(
        [BIN / "capture-file", "frames", session],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": str(columns)},
        check=False,
    )
    widths = [len(line) for line in done.stdout.splitlines()]
    assert max(widths) <= columns


def test_facts_and_losses_are_folded_at_the_edge(tmp_path: Path) -> None:
    records: list[Record] = [
        Meta(created_ns=0, clock_ns=0, program="p", redacts=tuple(f"secret-{n}" for n in range(9))),
        Gap(time_ns=1, why="the disk was full, and then it was full again", events=2),
    ]
    path = write_capture(tmp_path / "a.cap", records)
    env = {**os.environ, "COLUMNS": "60", "TERM": "xterm"}
    run = [BIN / "capture-file", "info", path]
    lines = subprocess.run(run, capture_output=True, text=True, env=env, check=False).stdout.splitlines()[2:]
    assert max(map(len, lines)) <= 60
    assert "redacts      secret-0, secret-1, secret-2, secret-3," in lines
    assert lines[-2:] == [
        "! gap: 2 events lost: the disk was full, and then it was",
        "  full again (record 2)",
    ]


def test_verdicts_are_in_words_where_there_is_no_room_for_sentences(session: Path) -> None:
    env = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    run = [BIN / "capture-file", "frames", session]
    lines = subprocess.run(run, capture_output=True, text=True, env=env, check=False).stdout.splitlines()
    assert "✗ weights: mismatch  ✓1 chunk" in lines[2]
    assert lines[0].endswith("ShardRuntime/Session")


def test_a_message_without_a_form_in_json_says_so(tmp_path: Path) -> None:
    files = descriptor_pb2.FileDescriptorSet()
    any_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="a.proto", package="p", syntax="proto3", dependency=["google/protobuf/any.proto"])
    whatever = ".google.protobuf.Any"
    file.service.add(name="S").method.add(name="M", input_type=whatever, output_type=whatever)
    payload = any_pb2.Any(type_url="type.googleapis.com/no.Such", value=b"x").SerializeToString()
    records: list[Record] = [
        Schema(services=("p.S",), files=files.SerializeToString()),
        Call(call=1, time_ns=0, method="/p.S/M", kind="unary"),
        Message(call=1, direction=0, index=0, time_ns=0, payload=payload),
    ]
    line = capture_file("frames", write_capture(tmp_path / "a.cap", records), "--json").stdout.splitlines()[1]
    body = json.loads(line)
    assert body["decode_error"] == "this google.protobuf.Any has no form in JSON"
    assert base64.b64decode(body["payload"]) == payload


def test_damage_is_shown_where_it_is_and_is_the_exit_status(capture: Path) -> None:
    data = bytearray(capture.read_bytes())
    data[data.index(b"hello")] ^= 1
    capture.write_bytes(data)
    shown = capture_file("frames", capture)
    assert shown.returncode == 3
    assert "damage at offset" in shown.stdout.splitlines()[2]
    lines = [json.loads(line) for line in capture_file("frames", capture, "--json").stdout.splitlines()]
    assert lines[2]["damage"]["first"] == lines[2]["damage"]["last"] == 5
    info = capture_file("info", capture)
    assert info.returncode == 3
    assert "✗ damaged" in info.stdout
    assert "record 5 lost" in info.stdout


def test_a_torn_capture(tmp_path: Path) -> None:
    path = write_capture(tmp_path / "torn.cap", close=False)
    done = capture_file("info", path)
    assert done.returncode == 3
    assert "! torn" in done.stdout


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "not a capture: the file is empty (offset 0)"),
        (b"\xff\xd8\xff", "not a capture: it does not begin with the capture magic (offset 0)"),
        (framing.pack_preamble(framing.Preamble(9, 0, 0, b"12345678")), "a capture of format version 9"),
    ],
)
@pytest.mark.parametrize("command", ["info", "frames"])
def test_one_sentence_for_what_is_no_capture(command: str, data: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "x.cap"
    path.write_bytes(data)
    done = capture_file(command, path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"{path}: {sentence}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["info"], ["info", "a", "b"], ["nonsense"], ["frames", "--nonsense", "x"]])
def test_wrong_usage(arguments: list[str]) -> None:
    done = capture_file(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_missing_file(tmp_path: Path) -> None:
    done = capture_file("info", tmp_path / "none.cap")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{tmp_path}/none.cap: cannot be opened: no such file or directory\n"


def test_from_a_pipe(capture: Path) -> None:
    with capture.open("rb") as stdin:
        data = stdin.read()
    done = subprocess.run([BIN / "capture-file", "info", "-", "--json"], input=data, capture_output=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["calls"] == 2


@pytest.mark.parametrize("command", ["info", "frames", "frames --json"])
def test_into_a_pipe_that_closes(command: str, tmp_path: Path) -> None:
    path = write_capture(tmp_path / "long.cap", [e for call in range(1, 3000) for e in unary(call, bytes(100))])
    done = subprocess.run(
        ["bash", "-c", f"{BIN}/capture-file {command} {path} | head -n 1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("command", ["info", "frames", "frames --json"])
@pytest.mark.parametrize(
    ("streams", "status", "words"),
    [
        (">/dev/full", 1, "capture-file: no space left on device\n"),
        (">&-", 0, ""),
        ("- <&- >&2", 2, None),  # two files are wrong usage; what counts is that it says so
    ],
)
def test_odd_streams(command: str, streams: str, status: int, words: str | None, capture: Path) -> None:
    shell = ["bash", "-c", f"{BIN}/capture-file {command} {capture} {streams}"]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == status
    assert words is None or done.stderr == words


def test_standard_input_that_is_closed() -> None:
    done = subprocess.run(["bash", "-c", f"{BIN}/capture-file info - <&-"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("-: cannot be opened: ")


def test_where_the_terminal_knows_ascii_only(session: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for command in ("info", "frames"):
        run = [BIN / "capture-file", command, session]
        done = subprocess.run(run, capture_output=True, text=True, env=env, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "\\u" in done.stdout


def test_a_file_name_that_is_not_text(capture: Path) -> None:
    name = os.fsencode(capture.parent) + b"/\xff\x1b.cap"
    capture.rename(os.fsdecode(name))
    for arguments in ((b"info",), (b"info", b"--json"), (b"frames",)):
        done = subprocess.run([os.fsencode(BIN / "capture-file"), *arguments, name], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"\x1b" not in done.stdout


def test_the_version_is_told() -> None:
    done = capture_file("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("capture-file, version ")


def test_help_has_an_example_for_every_command() -> None:
    for command in ("info", "frames"):
        assert f"capture-file {command} session.cap" in capture_file(command, "--help").stdout


def test_what_this_version_does_not_know_is_listed(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "new.cap")
    writer.append(Meta(created_ns=0, clock_ns=0))
    writer.append_raw(99, 0, b"\x80")
    path = writer.close()
    assert "of type 99, which is not known; it takes a newer capture-replay" in capture_file("info", path).stdout
    assert json.loads(capture_file("info", path, "--json").stdout)["unknown_records"] == 1
    assert json.loads(capture_file("frames", path, "--json").stdout)["unknown"]["type"] == 99


def test_nothing_that_a_terminal_acts_on_gets_through(tmp_path: Path) -> None:
    records: list[Record] = [
        Meta(created_ns=0, clock_ns=0, program="\x1b[31mprogram", versions={"python\x07": "\u202e3"}),
        Schema(services=(EVIL,), files=b"\xff"),
        Call(call=1, time_ns=1, method=EVIL, kind="\x1b", peer="\x1b[2J", metadata=(("\x1b", b"\x1b[2J"),)),
        Message(call=1, direction=0, index=0, time_ns=2, payload=b"\x1b[2J"),
        Status(call=1, time_ns=3, code=99, message="\x1b[2J[red]\r\nfake", metadata=(("k", b"\x9b\x1b"),)),
    ]
    path = write_capture(tmp_path / "evil.cap", records)
    for command in ("info", "frames"):
        done = capture_file(command, path)
        assert done.returncode == 0
        text = done.stdout.replace("\n", "")
        assert text.isprintable()
        assert "\\x1b" in text
        assert "fake\n" not in done.stdout or "\\x0afake" in done.stdout
    assert "[bold]" in capture_file("frames", path).stdout


def test_every_event_is_one_frame(capture: Path) -> None:
    lines = [json.loads(line) for line in capture_file("frames", capture, "--json").stdout.splitlines()]
    names = [record.NAME for record in ONE_OF_EACH if hasattr(record, "NAME")]
    assert [line["event"] for line in lines if "event" in line] == names
    assert [line["gap"]["events"] for line in lines if "gap" in line] == [2]
    assert lines[0]["metadata"][3] == ["authorization", {"redacted": {"length": 3, "digest": "3132333435363738"}}]
