"""A server that does something else gets exactly the verdict that says so, and within the time limit."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from capture_recorder.capfile import framing
from capture_recorder.capfile.records import Call, HalfClose, Message, Record, Status
from helpers.captures import read_all, write_capture
from helpers.processes import BIN, helper_server, replay, running


def replayed(capture: Path, mode: str, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Replay against a fresh server in this mode: exit status, the capture's JSON, and the report."""
    with running(helper_server("opaque_server", None, mode)) as server:
        done = replay(capture, "--target", server.address, "--json", "-", *arguments)
    assert done.stderr.count("Traceback") == 0, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_server_that_answers_as_recorded_passes(opaque_capture: Path) -> None:
    status, result, report = replayed(opaque_capture, "")
    assert status == 0, report
    assert result["passed"] is True
    (capture,) = result["captures"]
    assert capture.pop("seconds") > 0
    assert capture == {
        "file": str(opaque_capture),
        "condition": "clean",
        "passed": True,
        "calls": 5,
        "counts": {"identical": 14, "equivalent": 0, "ignored": 0, "different": 0, "missing": 0, "extra": 0},
        "first_divergence": None,
    }
    assert f"✓ {opaque_capture}: 14 events of 5 calls identical" in report.replace("\n", "")


CASES = {
    "flip": ({"identical": 13, "different": 1}, "different", "message", 1),
    "less": ({"identical": 13, "missing": 1}, "missing", "message", 1),
    "more": ({"identical": 14, "extra": 1}, "extra", "message", None),
    "last": ({"identical": 14, "extra": 1}, "extra", "message", None),
    "status": ({"identical": 13, "different": 1}, "different", "status", None),
    "message": ({"identical": 13, "different": 1}, "different", "status", None),
    "trailers": ({"identical": 13, "different": 1}, "different", "status", None),
    "stall": ({"identical": 11, "missing": 3}, "missing", "message", 1),
    "open": ({"identical": 13, "missing": 1}, "missing", "status", None),
}


@pytest.mark.parametrize("mode", CASES)
def test_exactly_the_verdict_that_says_so(mode: str, opaque_capture: Path) -> None:
    counts, verdict, kind, index = CASES[mode]
    status, result, report = replayed(opaque_capture, mode, "--timeout", "1")
    assert status == 1
    (capture,) = result["captures"]
    assert {name: n for name, n in capture["counts"].items() if n} == counts, report
    first = capture["first_divergence"]
    assert (first["verdict"], first["kind"], first["index"]) == (verdict, kind, index)
    assert (first["call"], first["method"]) == {
        "message": (2, "/test.Service/Unary"),
    }.get(mode, (1, "/test.Service/Bidi"))
    assert first["direction"] == "response"
    assert isinstance(first["event"], int)
    assert verdict in report


def test_where_a_flipped_bit_is(opaque_capture: Path) -> None:
    _, result, report = replayed(opaque_capture, "flip")
    first = result["captures"][0]["first_divergence"]
    assert first["offset"] == 5
    assert (first["expected"], first["actual"]) == ("64", "65")  # the last letter of "second"
    assert "at byte" in report


def test_a_server_that_dies_in_the_middle_is_a_divergence(opaque_capture: Path) -> None:
    with running(helper_server("opaque_server", None, "die")) as server:
        done = replay(opaque_capture, "--target", server.address, "--timeout", "2")
    assert done.returncode == 1
    assert "nothing: the call ended with status UNAVAILABLE" in done.stdout


@pytest.mark.parametrize("target", ["127.0.0.1:1", "no-such-host.invalid:50051"])
def test_a_server_that_is_not_there(target: str, opaque_capture: Path) -> None:
    done = replay(opaque_capture, "--target", target, "--timeout", "5")
    assert done.returncode == 125
    assert f"cannot connect to {target}" in done.stdout
    assert "Traceback" not in done.stderr


def test_something_else_listens_there(opaque_capture: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        done = replay(opaque_capture, "--target", target, "--timeout", "1")
    assert done.returncode == 125
    assert "no gRPC connection came about" in done.stdout.replace("\n", " ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--target"],
        ["--target", "x:1", "--call", "0"],
        ["--target", "x:1", "--timeout", "-1"],
        ["--target", "x:1", "--timeout", "nan"],
        ["--target", "x:1", "--timeout", "soon"],
        ["--target", "x:1", "--metadata", "no-sign"],
        ["--target", "x:1", "--cert", "/dev/null"],
        ["--target", "x:1", "--nonsense"],
    ],
)
def test_wrong_usage(arguments: list[str], opaque_capture: Path) -> None:
    done = replay(opaque_capture, *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


FUTURE = framing.pack_preamble(framing.Preamble(2, 0, 0, b"12345678"))
FEATURE = framing.pack_preamble(framing.Preamble(1, 0, 2, b"12345678"))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(5000), "not a capture: it does not begin with the capture magic"),
        (b"", "not a capture: the file is empty"),
        (FUTURE, "a capture of format version 2"),
        (FEATURE, "a capture of format version 1 with feature 1"),
        (None, "cannot be opened: no such file or directory"),
    ],
)
def test_one_sentence_for_what_is_no_capture(data: bytes | None, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "x.cap"
    if data is not None:
        path.write_bytes(data)
    done = replay(path, "--target", "127.0.0.1:1")
    assert done.returncode == 125
    assert sentence in done.stdout.replace("\n", " ")
    assert str(path) in done.stdout.replace("\n", "")
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("part", [0.3, 0.6, 0.99])
def test_a_file_cut_in_the_middle(part: float, opaque_capture: Path, tmp_path: Path) -> None:
    data = opaque_capture.read_bytes()
    path = tmp_path / "cut.cap"
    path.write_bytes(data[: int(len(data) * part)])
    done = replay(path, "--target", "127.0.0.1:1", "--json", "-")
    assert done.returncode == 125
    assert "the capture is torn" in done.stderr.replace("\n", " ")
    (capture,) = json.loads(done.stdout)["captures"]
    assert (capture["condition"], capture["passed"]) == ("torn", False)


def test_what_is_whole_of_a_torn_capture_can_be_replayed(opaque_capture: Path, tmp_path: Path) -> None:
    data = opaque_capture.read_bytes()
    path = tmp_path / "cut.cap"
    path.write_bytes(data[: len(data) // 2])
    with running(helper_server("opaque_server")) as server:
        done = replay(path, "--target", server.address, "--allow-torn")
    assert done.returncode == 0
    assert "the capture is torn" in done.stdout


def test_a_damaged_capture_is_not_replayed(opaque_capture: Path, tmp_path: Path) -> None:
    data = bytearray(opaque_capture.read_bytes())
    data[len(data) // 2] ^= 1
    path = tmp_path / "damaged.cap"
    path.write_bytes(data)
    done = replay(path, "--target", "127.0.0.1:1", "--allow-torn")
    assert done.returncode == 125
    assert "the capture is damaged: offset" in done.stdout.replace("\n", " ")


def test_a_capture_with_a_gap_is_not_replayed_as_if_it_were_whole(tmp_path: Path) -> None:
    path = write_capture(tmp_path / "gap.cap")
    done = replay(path, "--target", "127.0.0.1:1")
    assert done.returncode == 125
    assert "2 events lost before record" in done.stdout.replace("\n", " ")


START = Call(call=1, time_ns=0, method="/s/M", kind="bidi")
MESSAGE = Message(call=1, direction=0, index=0, time_ns=0, payload=b"")
FINISHED = HalfClose(call=1, time_ns=0)
END = Status(call=1, time_ns=0, code=0)


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([MESSAGE], "event 1 is of call 1, before it was opened"),
        ([START, END, MESSAGE], "event 3 is of call 1, after its end"),
        ([START, END, END], "event 3 is of call 1, after its end"),
        ([START, START], "event 2 opens call 1 a second time"),
        ([replace(START, kind="unary"), MESSAGE, MESSAGE], "event 3 is a request of call 1, whose requests had ended"),
        ([START, FINISHED, MESSAGE], "event 3 is a request of call 1, whose requests had ended"),
        ([replace(START, method="no slash")], "the method of call 1 is none that HTTP/2 can carry"),
        ([replace(START, method="/a\r\nb")], "the method of call 1 is none that HTTP/2 can carry"),
        ([replace(START, metadata=(("Upper", b""),))], "the metadata of call 1 is none that gRPC can send"),
        ([replace(START, metadata=(("a\x1b", b""),))], "the metadata of call 1 is none that gRPC can send"),
        ([replace(START, metadata=(("a", b"\r\nb: c"),))], "the metadata of call 1 is none that gRPC can send"),
        ([], "there is nothing in it to be replayed"),
    ],
)
def test_a_capture_that_no_recorder_writes(records: list[Record], sentence: str, tmp_path: Path) -> None:
    done = replay(write_capture(tmp_path / "odd.cap", records), "--target", "127.0.0.1:1")
    assert done.returncode == 125
    assert sentence in done.stdout
    assert done.stdout.count("\n") == 1
    assert done.stdout.strip().isprintable()
    assert "Traceback" not in done.stderr


def test_odd_but_possible_values_do_no_harm(tmp_path: Path) -> None:
    """The largest time, a kind that nobody knows, a name that the server does not have."""
    call = replace(START, method="/~!/\x7e", kind="new", time_left_ns=2**63, time_ns=2**63)
    path = write_capture(tmp_path / "odd.cap", [call, replace(END, code=12, message="Method not found!")])
    with running(helper_server("opaque_server")) as server:
        done = replay(path, "--target", server.address)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_pipe_is_not_taken_for_an_empty_capture(opaque_capture: Path) -> None:
    command = f"cat {opaque_capture} | {BIN}/capture-replay /dev/stdin --target 127.0.0.1:1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert "save the capture to a file" in done.stdout


def test_chosen_calls_only(opaque_capture: Path) -> None:
    with running(helper_server("opaque_server", None, "flip")) as server:
        done = replay(opaque_capture, "--target", server.address, "--call", "2", "--call", "4", "--json", "-")
        none = replay(opaque_capture, "--target", server.address, "--call", "77")
    assert done.returncode == 0
    assert json.loads(done.stdout)["captures"][0]["calls"] == 2
    assert none.returncode == 125
    assert "there is no call 77 in it" in none.stdout.replace("\n", " ")


def test_several_captures_and_the_result_in_a_file(opaque_capture: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.cap"
    bad.write_bytes(b"nothing")
    result = tmp_path / "result.json"
    with running(helper_server("opaque_server")) as server:
        done = replay(opaque_capture, bad, "--target", server.address, "--json", result)
        worse = replay(opaque_capture, bad, "--target", server.address, "--json", tmp_path / "no" / "result.json")
    assert done.returncode == 125
    report = json.loads(result.read_text())
    assert report["passed"] is False
    assert [capture["passed"] for capture in report["captures"]] == [True, False]
    assert worse.returncode == 2
    assert "Traceback" not in worse.stderr


def test_metadata_is_sent_as_recorded_or_as_asked(opaque_capture: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.cap"
    with running(helper_server("opaque_server", again)) as server:
        for more in ([], ["--metadata", "tenant=b", "--metadata", "x-bin=AP8="]):
            done = replay(opaque_capture, "--target", server.address, "--call", "1", *more)
            assert done.returncode == 0
    sent = [
        dict(item.record.metadata)
        for item in read_all(again)[1]
        if getattr(getattr(item, "record", None), "NAME", "") == "open"
    ]
    assert [metadata["tenant"] for metadata in sent] == [b"a", b"b"]
    assert [metadata.get("x-bin") for metadata in sent] == [None, b"\x00\xff"]


def test_grpc_is_not_told_of_a_proxy(opaque_capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("grpc_proxy", "http://127.0.0.1:1")
    assert grpc is not None
    with running(helper_server("opaque_server")) as server:
        assert replay(opaque_capture, "--target", server.address).returncode == 0
