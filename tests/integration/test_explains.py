"""A replay that explains itself: servers that are wrong in one way each, and the verdict and cause that are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from helpers.captures import messages
from helpers.odd import OddClient, odd_command
from helpers.odd_proto import Order
from helpers.processes import capture_file, replay, running


def replayed(capture: Path, mode: str, *arguments: str | Path) -> tuple[int, dict[str, Any], str]:
    """Exit status, the capture's JSON, and the report in one line."""
    done = replay(capture, "--spawn", odd_command(mode), "--timeout", "1", "--json", "-", *arguments)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)["captures"][0], " ".join(done.stderr.split())


ALL = 13  # response events of the capture
# mode: exit status, counts, first divergence (kind, verdict, field), words of the report
CASES: dict[str, tuple[int, dict[str, int], tuple[str, str, str | None] | None, str]] = {
    "": (0, {"identical": ALL}, None, "13 events of 5 calls identical"),
    "permute": (0, {"identical": ALL}, None, "identical"),
    "map": (
        1, {"identical": 5, "equivalent": 8}, ("message", "equivalent", "echo"),
        "--accept equivalent lets it pass",
    ),
    "varint": (1, {"identical": 5, "equivalent": 8}, ("message", "equivalent", "price"), "in another encoding"),
    "timestamp": (
        1, {"identical": 5, "different": 8}, ("message", "different", "created_at"),
        ("the clock: only times differ; replay it with --spawn 'COMMAND {address}' --clock recorded, "
         "or leave them out with --ignore created_at"),
    ),
    "drop last": (
        1, {"identical": ALL - 1, "missing": 1}, ("message", "missing", None),
        "waited 1 s for it, since event 12 went out; meanwhile came nothing, of any call",
    ),
    "ok": (
        1, {"identical": ALL - 1, "different": 1, "extra": 1}, ("message", "extra", None), "the call ended status OK",
    ),
    "hang": (
        1, {"identical": ALL - 4, "missing": 4}, ("message", "missing", None),
        "waited 1 s for it, since event 8 went out",
    ),
    "die": (
        1, {"identical": 2, "different": 5, "missing": 6}, ("message", "missing", None),
        "the server was killed by SIGKILL; the last that it printed: │ listening on",
    ),
    "flood": (
        1, {}, ("message", "different", "echo"),
        "flood: call 1 got more than 10,000 answers that nobody asked for",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mode", CASES)
def test_the_right_verdict_and_the_right_cause(mode: str, odd_capture: Path) -> None:
    status, counts, first, words = CASES[mode]
    got, capture, report = replayed(odd_capture, mode)
    assert got == status, report
    assert not counts or {verdict: n for verdict, n in capture["counts"].items() if n} == counts
    found = capture["first_divergence"]
    assert (found and (found["kind"], found["verdict"], found["field"])) == first
    assert words in report
    if mode == "die":
        assert "about to die: the disk of the moon is full" in report


@pytest.mark.parametrize("mode", ["map", "varint"])
def test_another_encoding_passes_where_it_is_accepted(mode: str, odd_capture: Path) -> None:
    status, capture, report = replayed(odd_capture, mode, "--accept", "equivalent")
    assert status == 0
    assert capture["passed"] is True
    assert "13 events of 5 calls passed: 5 identical, 8 equivalent" in report


def test_what_varies_is_learned_and_a_regression_in_a_third_field_still_fails(
    odd_capture: Path, tmp_path: Path
) -> None:
    learned = replay(odd_capture, "--spawn", odd_command("random"), "--learn", "5", "--call", "1")
    assert learned.returncode == 0, learned.stderr
    lines = learned.stdout.splitlines()
    assert [line for line in lines if line.startswith(("field", "metadata", "status"))] == [
        'field = "id"',
        'field = "created_at"',
    ]
    assert "varied in 20 answers, for example" in learned.stdout
    rules = tmp_path / "learned.toml"
    rules.write_text(learned.stdout)
    again, capture, _ = replayed(odd_capture, "random", "--rules", rules, "--call", "1")
    assert again == 0
    assert capture["counts"]["ignored"] == 5
    regressed, capture, report = replayed(odd_capture, "regress", "--rules", rules, "--call", "1")
    assert regressed == 1
    assert capture["first_divergence"]["field"] == "price"
    assert (capture["counts"]["different"], capture["counts"]["ignored"]) == (1, 4)
    assert "price 900 901" in report
    assert "id ignored (not set)" in report


def test_a_field_that_is_stable_in_one_element_is_not_left_out_in_all(odd_capture: Path) -> None:
    for mode, pattern in (("some items", "items[1].id"), ("all items", "items[*].id")):
        learned = replay(odd_capture, "--spawn", odd_command(mode), "--learn", "2", "--call", "1")
        assert [line for line in learned.stdout.splitlines() if "field" in line] == [f'field = "{pattern}"']


def test_what_no_rule_can_leave_out_is_told(odd_capture: Path) -> None:
    nothing = replay(odd_capture, "--spawn", odd_command(), "--learn", "2")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "nothing varied" in nothing.stderr
    hung = replay(odd_capture, "--spawn", odd_command("hang"), "--learn", "2", "--timeout", "0.5")
    assert hung.returncode == 125
    assert "did not answer to everything" in hung.stderr


def test_a_rule_that_never_matched_is_told(odd_capture: Path, tmp_path: Path) -> None:
    rules = tmp_path / "r.toml"
    rules.write_text("[[ignore]]\nfield = 'items.count'\n")
    done = replay(odd_capture, "--spawn", odd_command("timestamp"), "--ignore", "created_at", "--rules", rules)
    assert done.returncode == 0
    assert "never matched: field items.count" in done.stdout
    assert "r.toml, rule 1" in done.stdout
    assert "never matched: field created_at" not in done.stdout


def test_rules_beside_a_capture_are_used_and_named(odd_capture: Path, tmp_path: Path) -> None:
    capture = tmp_path / "a.cap"
    capture.write_bytes(odd_capture.read_bytes())
    (tmp_path / "a.rules.toml").write_text("[[ignore]]\nfield = 'created_at'\n")
    done = replay(capture, "--spawn", odd_command("timestamp"))
    assert done.returncode == 0
    assert "rules: " in done.stdout
    assert replay(capture, "--spawn", odd_command("timestamp"), "--no-rules").returncode == 1
    (tmp_path / "a.rules.toml").write_text("[[ignore]]\nfeild = 'created_at'\n")
    assert replay(capture, "--spawn", odd_command("timestamp")).returncode == 125


def test_two_servers_are_held_against_one_another(odd_capture: Path, tmp_path: Path) -> None:
    same = replay(odd_capture, "--baseline", odd_command("wrong price"), "--candidate", odd_command("wrong price"))
    assert same.returncode == 0, same.stdout
    kept = tmp_path / "baseline.cap"
    done = replay(
        odd_capture, "--baseline", odd_command(), "--candidate", odd_command("wrong price"), "--save-actual", kept
    )
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    assert "not as the baseline answered" in text
    assert "baseline bytes" in text
    assert "field price" in text
    assert messages(kept, 1, 1) == messages(odd_capture, 1, 1)
    dead = replay(odd_capture, "--baseline", odd_command("die"), "--candidate", odd_command(), "--timeout", "1")
    assert dead.returncode == 125
    assert "the baseline did not answer to everything" in " ".join(dead.stdout.split())


def test_what_was_seen_is_kept_as_a_capture(odd_capture: Path, tmp_path: Path) -> None:
    kept, accepted = tmp_path / "actual.cap", tmp_path / "new.cap"
    status, _, _ = replayed(odd_capture, "wrong price", "--save-actual", kept)
    assert status == 1
    assert capture_file("verify", kept).returncode == 0
    diff = capture_file("diff", odd_capture, kept)
    assert diff.returncode == 1
    assert "price" in diff.stdout
    assert capture_file("diff", odd_capture, kept, "--ignore", "price").returncode == 0
    status, _, report = replayed(odd_capture, "wrong price", "--update", accepted)
    assert status == 0
    assert "updated 1 capture: 8 events changed" in report
    assert capture_file("verify", accepted).returncode == 0
    assert replayed(accepted, "wrong price")[0] == 0
    assert replayed(accepted, "")[0] == 1
    refused = replay(odd_capture, "--spawn", odd_command(), "--update", accepted)
    assert refused.returncode == 125
    assert "is there already" in refused.stdout or "exists" in refused.stdout
    assert replay(odd_capture, "--spawn", odd_command(), "--update", accepted, "--force").returncode == 0
    assert replayed(accepted, "")[0] == 0
    assert not list(tmp_path.glob("*.part*"))


def test_a_replay_that_stalled_takes_no_recordings_place(odd_capture: Path, tmp_path: Path) -> None:
    status, _, report = replayed(odd_capture, "drop last", "--update", tmp_path / "new.cap")
    assert status == 1
    assert not (tmp_path / "new.cap").exists()
    assert "updated" not in report


def test_checksums_say_what_kind_of_difference_it_is(tmp_path: Path) -> None:
    from capture_recorder.capfile.records import Call, Message
    from capture_recorder.lens import read
    from capture_replayer.hints import checksum_note
    from capture_server.build import chunk, tensor

    def reading(data: bytes, checksum: int | None = None) -> Any:
        request = chunk("s", "w", 1, [tensor("t", data, checksum=checksum)])
        return read("/shard_runtime.v1.ShardRuntime/Session", request)

    assert "checksum was updated with them" in checksum_note(reading(b"one"), reading(b"two"))
    assert "corrupt in the replay" in checksum_note(reading(b"one"), reading(b"two", checksum=1))
    assert "corrupt in the recording" in checksum_note(reading(b"one", checksum=1), reading(b"two"))
    assert checksum_note(reading(b"one"), reading(b"one")) == ""
    assert {Call, Message}


def test_a_client_of_the_odd_service_sees_what_the_capture_holds(odd_capture: Path) -> None:
    """The capture is of a real server: another of its kind gives the same bytes to a client of its own."""
    words = odd_command().replace("{address}", "127.0.0.1:0").split()
    with (
        running([word.strip("'") for word in words if word != "''"]) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        answers = OddClient(channel).talk([Order(words="first", number=1)])
    assert answers[0].SerializeToString(deterministic=True) == messages(odd_capture, 1, 1)[0]
