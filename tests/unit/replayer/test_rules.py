"""Rules, and the judge that goes by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capture_recorder.capfile import schema
from capture_recorder.capfile.records import Headers, Message, Schema, Status
from capture_replayer.compare import Comparison, HeadersCame, MessageCame, StatusCame
from capture_replayer.explain import explain
from capture_replayer.judge import RulesJudge
from capture_replayer.rules import BadRules, Rule, Rules, as_toml, beside, given, load, rule
from helpers.odd_proto import SERVICE, Answer

TALK = f"/{SERVICE}/Talk"


def schemas() -> schema.SchemaSet:
    found = schema.files_of(SERVICE)
    assert found is not None
    made = schema.SchemaSet()
    made.add(Schema(services=(SERVICE,), files=found[0]))
    return made


SCHEMAS = schemas()


def judge(*rules: Rule, accept_equivalent: bool = False) -> RulesJudge:
    return RulesJudge(Rules(rules, accept_equivalent), lambda: SCHEMAS)


def answer(**values: Any) -> bytes:
    data: bytes = Answer(**values).SerializeToString(deterministic=True)
    return data


def verdict(expected: bytes, actual: bytes, *rules: Rule) -> str:
    message = Message(call=1, direction=1, index=0, time_ns=0, payload=expected)
    return judge(*rules).verdict(TALK, 1, message, MessageCame(actual))


A = answer(echo="a", number=1, labels={"x": "1", "y": "2"})
REORDERED = answer(number=1, labels={"y": "2"}) + answer(echo="a", labels={"x": "1"})


def test_another_encoding_of_the_same_message_is_equivalent() -> None:
    assert verdict(A, REORDERED) == "equivalent"
    assert verdict(A, A + b"\x10\x81\x00") == "equivalent", "a scalar again, with a varint that is too long"
    assert verdict(A, A + b"\xf8\x3f\x01") == "different", "an unknown field counts"
    assert verdict(A, b"\xff") == "different", "what is no message is no equal one"


def test_only_what_a_rule_excludes_is_ignored() -> None:
    other = answer(echo="a", number=2, id="new", labels={"x": "1", "y": "2"})
    assert verdict(A, other) == "different"
    assert verdict(A, other, rule("field", "number")) == "different"
    assert verdict(A, other, rule("field", "number"), rule("field", "id")) == "ignored"
    assert verdict(A, other, rule("field", "**")) == "ignored"
    assert verdict(A, other, rule("field", "**", "/odd.v1.Odd/A*")) == "different", "it is for another method"
    assert (
        verdict(A, answer(echo="a", number=1, labels={"x": "3", "y": "2"}), rule("field", "labels['x']")) == "ignored"
    )


def test_headers_and_statuses() -> None:
    headers = Headers(call=1, time_ns=0, metadata=(("date", b"1"), ("x", b"y")))
    came = HeadersCame((("date", b"2"), ("x", b"y"), ("date-more", b"")))
    assert judge().verdict(TALK, 1, headers, came) == "different"
    assert judge(rule("metadata", "date")).verdict(TALK, 1, headers, came) == "different"
    assert judge(rule("metadata", "date*")).verdict(TALK, 1, headers, came) == "ignored"
    status = Status(call=1, time_ns=0, code=5, message="at 12:00", metadata=(("date", b"1"),))
    words, code = StatusCame(5, "at 12:01", (("date", b"1"),)), StatusCame(6, "at 12:00", (("date", b"1"),))
    assert judge().verdict(TALK, 1, status, words) == "different"
    assert judge(rule("status", "message")).verdict(TALK, 1, status, words) == "ignored"
    assert judge(rule("status", "message"), rule("metadata", "*")).verdict(TALK, 1, status, code) == "different"
    both = StatusCame(5, "at 12:01", (("date", b"2"),))
    assert judge(rule("status", "message")).verdict(TALK, 1, status, both) == "different"
    assert judge(rule("status", "message"), rule("metadata", "date")).verdict(TALK, 1, status, both) == "ignored"


def test_a_rule_counts_the_events_that_it_made_pass() -> None:
    number, never = rule("field", "number"), rule("field", "price")
    made = judge(number, never)
    comparison = Comparison(TALK, made)
    for index in range(5):
        payload = answer(echo=str(index), number=index)
        comparison.want(index, Message(call=1, direction=1, index=index, time_ns=0, payload=payload))
        comparison.came(MessageCame(payload if index == 3 else answer(echo=str(index), number=index + 10)))
    comparison.finish()
    assert comparison.counts == {"ignored": 4, "identical": 1}
    assert comparison.findings == []
    assert made.used == {number: 4}


def test_a_message_that_is_missing_is_told_as_that_among_others_that_vary() -> None:
    made = judge(rule("field", "id"))
    comparison = Comparison(TALK, made)
    for index in range(6):
        payload = answer(echo=str(index), id=f"recorded {index}")
        comparison.want(index, Message(call=1, direction=1, index=index, time_ns=0, payload=payload))
    for index in (0, 1, 3, 4, 5):
        comparison.came(MessageCame(answer(echo=str(index), id=f"replayed {index}")))
    comparison.finish()
    assert comparison.counts == {"ignored": 5, "missing": 1}
    assert [finding.seq for finding in comparison.findings] == [2]


def test_a_divergence_names_the_field_that_counts() -> None:
    made = judge(rule("field", "echo"))
    comparison = Comparison(TALK, made)
    expected, actual = answer(echo="aaaa", number=1, price=300), answer(echo="bb", number=1, price=301)
    comparison.want(1, Message(call=1, direction=1, index=0, time_ns=0, payload=expected))
    comparison.came(MessageCame(actual))
    comparison.finish()
    from capture_recorder.capfile.records import Call

    call = Call(call=1, time_ns=0, method=TALK, kind="bidi")
    divergence = explain(call, comparison.findings[0], made)
    assert (divergence.field, divergence.expected, divergence.actual) == ("price", "300", "301")
    assert divergence.offset == expected.index(b"\x28\xac\x02")
    assert [(change.path, change.ignored) for change in divergence.fields] == [("echo", True), ("price", False)]


RULES = """
accept = "equivalent"

[[ignore]]
field = "items[*].id"
method = "/odd.v1.Odd/Talk"
why = "random"

[[ignore]]
metadata = "x-*"

[[ignore]]
status = "message"
"""


def test_a_file_of_rules(tmp_path: Path) -> None:
    (tmp_path / "a.rules.toml").write_text(RULES)
    rules = beside(tmp_path / "a.cap")
    assert rules == load(tmp_path / "a.rules.toml")
    assert rules.accept_equivalent
    assert [(each.what, each.pattern, each.method) for each in rules.ignore] == [
        ("field", "items[*].id", "/odd.v1.Odd/Talk"),
        ("metadata", "x-*", "*"),
        ("status", "message", "*"),
    ]
    assert beside(tmp_path / "b.cap") == Rules()


BAD = {
    "ignore = 3": "a list of tables",
    "[ignore]\nfield = 'a'": "a list of tables",
    "accept = 'all'": 'accept is "identical" or "equivalent"',
    "[[ignore]]\nfeild = 'a'": "'feild' is not known",
    "ignored = []": "'ignored' is not known",
    "[[ignore]]\nfield = 'a'\nmetadata = 'b'": "a rule is about one of",
    "[[ignore]]\nmethod = '*'": "a rule is about one of",
    "[[ignore]]\nfield = 3": "the values of a rule are text",
    "[[ignore]]\nfield = 'a..b'": "is no path of a field",
    "[[ignore]]\nstatus = 'code'": 'only the "message"',
    "[[ignore]]\nmetadata = ''": "ignores nothing",
    "[[ignore]": "not TOML",
    "x = " + "[" * 5000: "not TOML",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_a_file_that_is_wrong_is_told_by_its_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.rules.toml"
    path.write_text(text)
    with pytest.raises(BadRules) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert BAD[text] in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"#" * (2 << 20))
    for name, told in (
        ("binary", "not TOML"),
        ("large", "bytes of rules"),
        ("nowhere", "no such file"),
        (".", "directory"),
    ):
        with pytest.raises(BadRules, match=told):
            load(tmp_path / name)


def test_rules_as_a_file_are_read_back(tmp_path: Path) -> None:
    rules = [rule("field", "labels['a\"\\\\b\\x1b']", "/m"), rule("metadata", "x"), rule("status", "message")]
    (tmp_path / "a.toml").write_text(as_toml(rules, ["one", "two", "three"]))
    assert [(r.what, r.pattern, r.method) for r in load(tmp_path / "a.toml").ignore] == [
        (r.what, r.pattern, r.method) for r in rules
    ]


def test_rules_of_a_command_line() -> None:
    rules = given(["a.b"], ["X-Id"], "equivalent", [])
    assert [str(each) for each in rules.ignore] == ["field a.b", "metadata x-id"]
    assert rules.accept_equivalent
    with pytest.raises(BadRules, match="--ignore"):
        given([""], [], "identical", [])
