"""The commands that check, mend, cut, join, pack, convert and compare, as a stranger runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from capture_recorder.capfile import CaptureWriter
from capture_recorder.capfile.index import INTERVAL_RECORDS
from capture_recorder.capfile.records import (
    Call,
    Cancel,
    Gap,
    HalfClose,
    Message,
    Meta,
    Record,
    Schema,
    Status,
)
from capture_recorder.capfile.schema import files_of
from capture_server.build import chunk, open_request, tensor
from helpers.captures import ONE_OF_EACH, unary, write_capture
from helpers.processes import BIN, capture_file

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "v1"
KINDS = GOLDEN / "kinds.cap"
SERVICE = "shard_runtime.v1.ShardRuntime"
SESSION, CANCEL = f"/{SERVICE}/Session", f"/{SERVICE}/Cancel"


def sessions() -> list[Record]:
    """Two sessions of ShardRuntime, and a unary Cancel of the second."""
    found = files_of(SERVICE)
    assert found is not None
    from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb

    good, corrupt = tensor("weights", b"abc"), tensor("weights", b"abc", checksum=1)
    requests = [open_request("one"), chunk("one", "w", 1, [good]), open_request("two"), chunk("two", "w", 1, [corrupt])]
    data = [request.SerializeToString() for request in requests]
    cancel = pb.CancelRequest(route_session_id="two").SerializeToString()
    return [
        Meta(created_ns=1, clock_ns=0, program="p"),
        Schema(services=(SERVICE,), files=found[0]),
        Call(call=1, time_ns=10, method=SESSION, kind="bidi"),
        Message(call=1, direction=0, index=0, time_ns=20, payload=data[0]),
        Call(call=2, time_ns=1_000_000_000, method=SESSION, kind="bidi"),
        Message(call=2, direction=0, index=0, time_ns=1_000_000_020, payload=data[2]),
        Message(call=1, direction=0, index=1, time_ns=1_500_000_000, payload=data[1]),
        Message(call=2, direction=0, index=1, time_ns=1_500_000_020, payload=data[3]),
        Call(call=3, time_ns=2_000_000_000, method=CANCEL, kind="unary"),
        Message(call=3, direction=0, index=0, time_ns=2_000_000_001, payload=cancel),
        Message(call=3, direction=1, index=0, time_ns=2_000_000_002, payload=b"\x08\x01"),
        Status(call=3, time_ns=2_000_000_003, code=0),
        HalfClose(call=1, time_ns=3_000_000_000),
        Status(call=1, time_ns=3_000_000_001, code=0),
        Status(call=2, time_ns=4_000_000_000, code=13, message="oh"),
    ]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write_capture(tmp_path / "a.cap", sessions())


def seqs(*arguments: str | Path) -> list[int]:
    """The numbers of the events that `frames` lists."""
    done = capture_file("frames", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["seq"] for line in done.stdout.splitlines()]


# --- frames -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        (("--call", "2"), [5, 6, 8, 15]),
        (("--call", "2", "--call", "3"), [5, 6, 8, 9, 10, 11, 12, 15]),
        (("--method", "*/Cancel"), [9, 10, 11, 12]),
        (("--direction", "response"), [11, 12, 14, 15]),
        (("--event", "open", "--event", "half_close"), [3, 5, 9, 13]),
        (("--events", "7:9"), [7, 8, 9]),
        (("--events", "14:"), [14, 15]),
        (("--events", ":4"), [3, 4]),
        (("--events", "13"), [13]),
        (("--since", "1.5", "--until", "2.000000001"), [7, 8, 9, 10]),
        (("--errors",), [8, 15]),
        (("--errors", "--event", "message", "--call", "2"), [8]),
        (("--call", "9"), []),
    ],
    ids=str,
)
def test_frames_are_chosen(capture: Path, choice: tuple[str, ...], wanted: list[int]) -> None:
    assert seqs(capture, *choice) == wanted


def test_a_span_of_a_long_capture_is_shown_without_reading_what_is_before_it(tmp_path: Path) -> None:
    """Decoded all the same: the schema and the call's method are before it. What is before it is not even looked at."""
    meta, schema, opening, first = sessions()[:4]
    assert isinstance(first, Message)
    messages = [
        Message(call=1, direction=0, index=i, time_ns=30, payload=first.payload) for i in range(3 * INTERVAL_RECORDS)
    ]
    path = write_capture(tmp_path / "a.cap", [meta, schema, opening, *messages])
    data = bytearray(path.read_bytes())
    data[40_000] ^= 1
    path.write_bytes(data)
    done = capture_file("frames", path, "--events", "2500", "--json")
    line = json.loads(done.stdout)
    assert (line["seq"], line["method"], line["decoded"]["open"]["route_session_id"]) == (2500, SESSION, "one")
    assert done.returncode == 0
    assert capture_file("frames", path, "--json").returncode == 3


def test_how_calls_begin_is_shown_however_many_they_are(tmp_path: Path) -> None:
    """By the index where they are rare, by a scan where they are not; packed, too."""
    first = [Call(call=c, time_ns=c, method="/s/M", kind="bidi") for c in range(1, 4)]
    last = Call(call=4, time_ns=9, method="/s/M", kind="bidi")
    messages = [Message(call=1, direction=0, index=i, time_ns=9, payload=b"x") for i in range(3 * INTERVAL_RECORDS)]
    rare = write_capture(tmp_path / "rare.cap", [ONE_OF_EACH[0], *first, *messages, last])
    often = write_capture(tmp_path / "often.cap", [ONE_OF_EACH[0], *first, last, *messages[:5]])
    for path, wanted in ((rare, [2, 3, 4, 3080]), (often, [2, 3, 4, 5])):
        packed = tmp_path / f"{path.stem}.packed.cap"
        assert capture_file("pack", path, "-o", packed).returncode == 0
        for each in (path, packed):
            assert seqs(each, "--event", "open") == wanted


def test_frames_in_hex(capture: Path) -> None:
    done = capture_file("frames", capture, "--events", "11", "--hex")
    assert done.stdout.splitlines()[1:] == ["      00000000  08 01                                             |..|"]


def test_frames_raw(capture: Path) -> None:
    command = [BIN / "capture-file", "frames", capture, "--call", "3", "--raw"]
    done = subprocess.run(command, capture_output=True, check=True)
    cancel = sessions()[9]
    assert isinstance(cancel, Message)
    assert done.stdout == cancel.payload + b"\x08\x01"


@pytest.mark.parametrize(
    "wrong",
    [
        ("--events", "9:7"), ("--events", "x"), ("--events", ":"), ("--events", "0"), ("--since", "-1"),
        ("--since", "nan"), ("--until", "soon"), ("--call", "0"), ("--direction", "up"), ("--event", "reply"),
        ("--hex", "--json"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_wrong_choices_are_usage_errors(capture: Path, wrong: tuple[str, ...]) -> None:
    done = capture_file("frames", capture, *wrong)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


# --- verify, recover --------------------------------------------------------------------------------------------------


def test_verify_of_a_clean_capture(capture: Path) -> None:
    done = capture_file("verify", capture)
    assert done.returncode == 0
    assert re.fullmatch(
        rf"✓ {capture}: clean\n  17 records, [\d.]+ KiB; every checksum, number and index entry is right\n", done.stdout
    )


def test_every_damage_names_file_offset_record_and_what_can_be_done(tmp_path: Path) -> None:
    for golden in sorted(GOLDEN.glob("*.cap")):
        wanted = json.loads(golden.with_suffix(".json").read_text())
        done = capture_file("verify", golden)
        text = done.stdout + done.stderr
        assert "Traceback" not in text
        if wanted["condition"] == "clean":
            assert (done.returncode, golden.stem, done.stderr) == (0, golden.stem, "")
        elif wanted["condition"] == "refused":
            assert (done.returncode, done.stderr.count("\n")) == (1, 1)
            assert "use a newer capture-replay" in done.stderr
        else:
            assert done.returncode == 3, golden
            for offset in wanted["damage"]:
                assert re.search(rf"{golden}: offset {offset}: .*", text)
            assert f"What is whole of it: capture-file recover {golden} -o NEW.cap" in text


def test_verify_in_json(tmp_path: Path) -> None:
    done = capture_file("verify", GOLDEN / "damaged-body.cap", "--json")
    body = json.loads(done.stdout)
    assert done.returncode == 3
    assert (body["condition"], body["clean"], body["faults"], body["lost"]) == ("damaged", False, 1, 1)
    (damage,) = body["damage"]
    assert (damage["first"], damage["last"], damage["why"]) == (10, 10, "the checksum of record 10 is wrong")


def test_recover(tmp_path: Path) -> None:
    out = tmp_path / "out.cap"
    done = capture_file("recover", GOLDEN / "damaged-body.cap", "-o", out, "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["lost"][0]["first"] == 10
    assert capture_file("verify", out).returncode == 0
    assert "gap: 1 event lost: damage at offset 1071" in capture_file("frames", out).stdout
    again = tmp_path / "again.cap"
    assert capture_file("recover", out, "-o", again).returncode == 0
    assert again.read_bytes() == out.read_bytes()


def test_recover_of_what_a_killed_recorder_left_into_its_own_name(tmp_path: Path) -> None:
    """`recover a.cap.part -o a.cap`: the source is no half-made output, and stays."""
    writer = CaptureWriter(tmp_path / "a.cap")
    for record in ONE_OF_EACH:
        writer.append(record)
    writer.abandon()
    before = writer.part.read_bytes()
    assert capture_file("recover", writer.part, "-o", writer.path).returncode == 0
    assert writer.part.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.cap", "a.cap.part"]


# --- cut, merge -------------------------------------------------------------------------------------------------------


def test_cut_by_call_and_span(capture: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.cap"
    done = capture_file("cut", capture, "--call", "1", "--until", "2", "-o", out)
    assert done.stderr == f"{out}: 3 events of 1 call, 1 of them left open where it ends\n"
    assert capture_file("verify", out).returncode == 0
    info = capture_file("info", out)
    assert "made of" in info.stdout
    assert "cut --call 1 --until 2" in info.stdout


def test_cut_by_session_takes_all_its_calls(capture: Path, tmp_path: Path) -> None:
    """The unary Cancel on another connection too: without it a replay would go another way."""
    out = tmp_path / "out.cap"
    assert capture_file("cut", capture, "--session", "two", "-o", out).returncode == 0
    lines = [json.loads(line) for line in capture_file("frames", out, "--json").stdout.splitlines()]
    assert {line["call"] for line in lines} == {2, 3}
    done = capture_file("cut", capture, "--session", "three", "-o", tmp_path / "none.cap")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert not (tmp_path / "none.cap").exists()


def test_a_name_that_is_too_long_gets_one_sentence(capture: Path, tmp_path: Path) -> None:
    for length, status in ((240, 0), (252, 0), (300, 1)):
        done = capture_file("pack", capture, "-o", tmp_path / ("n" * length))
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_link_is_followed_and_stays(capture: Path, tmp_path: Path) -> None:
    link, target = tmp_path / "link.cap", tmp_path / "target.cap"
    link.symlink_to(target)
    assert capture_file("pack", capture, "-o", link).returncode == 0
    assert link.is_symlink()
    assert capture_file("verify", target).returncode == 0
    assert capture_file("pack", capture, "-o", link).returncode == 1
    assert capture_file("pack", capture, "-o", link, "--force").returncode == 0
    assert link.is_symlink()


def test_what_comes_without_an_end_is_refused_before_it_fills_a_disk(tmp_path: Path) -> None:
    for arguments in (
        ("recover", "/dev/zero", "-o", tmp_path / "a"),
        ("merge", "/dev/zero", "-o", tmp_path / "a"),
        ("convert", "/dev/zero", tmp_path / "a.cap"),
    ):
        done = capture_file(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_a_closed_standard_output_is_no_place_for_a_capture(capture: Path) -> None:
    command = f"{BIN / 'capture-file'} pack {capture} -o - >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "-: standard output is closed\n")


def test_cut_by_nothing_is_a_usage_error(capture: Path, tmp_path: Path) -> None:
    done = capture_file("cut", capture, "-o", tmp_path / "out.cap")
    assert done.returncode == 2
    assert "nothing to cut by" in done.stderr


def test_merge(tmp_path: Path) -> None:
    one = write_capture(tmp_path / "1.cap", [Meta(created_ns=5, clock_ns=0, program="a"), *unary(1)])
    writer = CaptureWriter(tmp_path / "2.cap", file_id=b"other id")
    for record in (Meta(created_ns=0, clock_ns=0, program="b"), *unary(1, b"first")):
        writer.append(record)
    out = tmp_path / "out.cap"
    done = capture_file("merge", one, writer.close(), "-o", out)
    assert done.stderr == f"note: they are of 2 programs: a, b\n{out}: 8 events of 2 calls\n"
    assert capture_file("verify", out).returncode == 0


# --- pack, convert ----------------------------------------------------------------------------------------------------


def test_every_reader_opens_a_packed_capture(capture: Path, tmp_path: Path) -> None:
    packed = tmp_path / "p.cap"
    done = capture_file("pack", capture, "-o", packed)
    assert re.fullmatch(rf"{packed}: [\d.]+ KiB, \d+% of the [\d.]+ KiB that it was\n", done.stderr)
    for command in (["frames", "--json"], ["stats", "--json"]):
        results = [capture_file(command[0], path, *command[1:]) for path in (capture, packed)]
        assert results[0].stdout.replace(str(capture), "") == results[1].stdout.replace(str(packed), "")
    assert capture_file("diff", capture, packed).returncode == 0
    assert json.loads(capture_file("info", packed, "--json").stdout)["condition"] == "clean"


@pytest.mark.parametrize(("name", "form"), [("a.jsonl", None), ("a.binarylog", None), ("a.x", "prototype")])
def test_convert_there_and_back(tmp_path: Path, name: str, form: str | None) -> None:
    other, back, again = tmp_path / name, tmp_path / "back.cap", tmp_path / f"again-{name}"
    to = ("--to", form) if form else ()
    assert capture_file("convert", KINDS, other, *to).returncode == 0
    assert capture_file("convert", other, back).returncode == 0
    assert capture_file("verify", back).returncode == 0
    assert capture_file("convert", back, again, *to).returncode == 0
    assert again.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("source", "target", "status", "sentence"),
    [
        (KINDS, "a.txt", 2, "which form is"),
        (KINDS, "a.cap", 2, "is a capture already"),
        (
            GOLDEN / "kinds.json",
            "a.cap",
            1,
            "is neither a capture nor JSON lines of events nor the prototype's JSON lines",
        ),
        (Path("missing"), "a.cap", 1, "missing: cannot be opened: no such file or directory"),
        (GOLDEN / "unreadable-preamble.cap", "a.jsonl", 1, "capture-file recover"),
        (GOLDEN / "torn-in-a-record.cap", "a.jsonl", 1, "cannot convert it: the capture is not whole at offset"),
    ],
)
def test_what_cannot_be_converted(tmp_path: Path, source: Path, target: str, status: int, sentence: str) -> None:
    done = capture_file("convert", source, tmp_path / target)
    assert done.returncode == status
    assert sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_convert_between_two_other_forms_goes_by_a_capture(tmp_path: Path) -> None:
    lines = tmp_path / "a.jsonl"
    capture_file("convert", KINDS, lines)
    done = capture_file("convert", lines, tmp_path / "a.binarylog")
    assert done.returncode == 2
    assert "convert it to a capture first" in " ".join(done.stderr.split())


# --- diff, stats ------------------------------------------------------------------------------------------------------


def changed(tmp_path: Path, change: dict[int, Record | None]) -> Path:
    """The sessions, some of their records others or left out."""
    records = [change.get(number, record) for number, record in enumerate(sessions(), 1)]
    return write_capture(tmp_path / "b.cap", [record for record in records if record is not None])


def test_diff_of_the_same_is_identical(capture: Path, tmp_path: Path) -> None:
    done = capture_file("diff", capture, changed(tmp_path, {}))
    assert (done.returncode, done.stdout) == (0, f"✓ {tmp_path / 'b.cap'}: 13 events of 3 calls identical\n")


OTHER_ANSWER = Message(call=3, direction=1, index=0, time_ns=2_000_000_002, payload=b"\x08\x02")
OTHER_METADATA = Call(call=1, time_ns=10, method=SESSION, kind="bidi", metadata=(("a", b"b"),))


@pytest.mark.parametrize(
    ("change", "event", "verdict", "direction", "kind"),
    [
        ({11: OTHER_ANSWER}, 11, "different", "response", "message"),
        ({7: None}, 7, "missing", "request", "message"),
        ({13: None}, 13, "missing", "request", "half_close"),
        ({15: Cancel(call=2, time_ns=4_000_000_000)}, 5, "extra", "request", "cancel"),
        ({14: Status(call=1, time_ns=3_000_000_001, code=5)}, 14, "different", "response", "status"),
        ({9: None, 10: None, 11: None, 12: None}, 9, "missing", "request", "open"),
        ({3: OTHER_METADATA}, 3, "different", "request", "headers"),
    ],
    ids=["response", "request", "half-close", "cancel for status", "status", "call", "metadata"],
)  # fmt: skip
def test_diff_finds_the_first_divergence(
    capture: Path, tmp_path: Path, change: dict[int, Record | None], event: int, verdict: str, direction: str, kind: str
) -> None:
    other = changed(tmp_path, change)
    done = capture_file("diff", capture, other, "--json")
    body = json.loads(done.stdout)
    assert done.returncode == 1
    assert (body["expected"], body["file"], body["passed"]) == (str(capture), str(other), False)
    first = body["first_divergence"]
    assert (first["event"], first["verdict"], first["direction"], first["kind"]) == (event, verdict, direction, kind)
    assert capture_file("diff", capture, other).stdout.startswith(f"✗ {other}: ")


def test_diff_names_the_field_of_a_request(capture: Path, tmp_path: Path) -> None:
    other = changed(
        tmp_path,
        {4: Message(call=1, direction=0, index=0, time_ns=20, payload=open_request("0ne").SerializeToString())},
    )
    done = capture_file("diff", capture, other)
    assert "event 4, request message 0" in done.stdout
    assert "open.route_session_id" in done.stdout
    assert "A bytes" in done.stdout


@pytest.mark.parametrize("bad", ["damaged-body", "unreadable-preamble", "refused-version"])
def test_diff_cannot_tell_of_what_is_not_whole(bad: str) -> None:
    done = capture_file("diff", KINDS, GOLDEN / f"{bad}.cap")
    assert done.returncode == 125
    assert "Traceback" not in done.stderr + done.stdout


def test_diff_cannot_tell_where_it_cannot_say(capture: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        for more in ((), ("--json",)):
            command = [BIN / "capture-file", "diff", capture, capture, *more]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            assert (done.returncode, done.stderr.count("\n")) == (125, 1)
        command = [BIN / "capture-file", "diff", capture, "missing"]
        assert subprocess.run(command, stderr=full, check=False).returncode == 125


def test_diff_says_where_it_says_nothing(tmp_path: Path) -> None:
    path = GOLDEN / "gaps-and-notes.cap"
    done = capture_file("diff", path, KINDS)
    assert done.returncode == 0
    assert "2 gaps where events were lost: this says nothing of those" in done.stdout


def test_stats(capture: Path) -> None:
    done = capture_file("stats", capture, "--json")
    body = json.loads(done.stdout)
    assert body["calls"] == {SESSION: 2, CANCEL: 1}
    assert [(flow["method"], flow["direction"], flow["size"]["count"]) for flow in body["flows"]] == [
        (SESSION, "request", 4), (CANCEL, "request", 1), (CANCEL, "response", 1),
    ]  # fmt: skip
    assert body["slowest"] == [{"call": 3, "request": 10, "response": 11, "took_ns": 1, "method": CANCEL}]
    for_people = capture_file("stats", capture)
    assert for_people.returncode == 0
    assert "slowest answers" in for_people.stdout
    assert not re.search(r" \n", for_people.stdout)


def test_words_for_people_are_safe_for_a_terminal(tmp_path: Path) -> None:
    evil = "/x.[bold]Y\x1b]0;owned\x07\u202e/[/]\x00"
    records = [ONE_OF_EACH[0], *unary(1, method=evil), Gap(time_ns=9, why=evil)]
    path = write_capture(tmp_path / "a\x1b.cap", records)
    for command in (
        ("stats",),
        ("verify",),
        ("frames", "--hex"),
        ("diff", path),
        ("cut", "--call", "9", "-o", tmp_path / "b"),
    ):
        done = capture_file(command[0], path, *command[1:])
        assert not any(char in done.stdout + done.stderr for char in "\x1b\x07\u202e\x00"), command


@pytest.mark.parametrize("columns", ["0", "1", "20", "80", "500", "many"])
def test_any_width_shows_something(capture: Path, columns: str) -> None:
    for command in ("info", "stats", "verify", "frames"):
        environment = {**os.environ, "COLUMNS": columns, "TERM": "dumb"}
        done = subprocess.run(
            [BIN / "capture-file", command, capture], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, bool(done.stdout.strip()), done.stderr) == (0, True, ""), command


def test_completion_lists_the_commands(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "_CAPTURE_FILE_COMPLETE": "bash_complete",
        "COMP_WORDS": "capture-file ",
        "COMP_CWORD": "1",
    }
    done = subprocess.run([BIN / "capture-file"], env=environment, capture_output=True, text=True, check=True)
    names = {line.partition(",")[2] for line in done.stdout.splitlines()}
    assert names >= {
        "info",
        "frames",
        "stats",
        "verify",
        "recover",
        "cut",
        "merge",
        "pack",
        "unpack",
        "convert",
        "diff",
    }
