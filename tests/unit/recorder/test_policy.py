"""Credentials are never kept, and can still be told apart."""

from __future__ import annotations

import pytest

from capture_recorder import Policy
from capture_recorder.capfile.records import Redacted
from capture_recorder.policy import Redactor


@pytest.mark.parametrize(
    "name",
    [
        "authorization",
        "proxy-authorization",
        "cookie",
        "x-api-key",
        "x-goog-iam-authorization-token",
        "client-secret",
        "my-secret-bin",
        "db-password",
        "refresh-token-bin",
    ],
)
def test_credentials_are_redacted_by_default(name: str) -> None:
    secret = b"Bearer hunter2" if name.endswith("-bin") else "Bearer hunter2"
    (pair,) = Redactor(Policy(), b"k" * 32).metadata(((name, secret),))
    assert pair[0] == name
    assert isinstance(pair[1], Redacted)
    assert pair[1].length == 14
    assert b"hunter2" not in pair[1].digest


def test_equal_values_stay_recognisable_within_one_recorder_only() -> None:
    one, other = Redactor(Policy(), b"k" * 32), Redactor(Policy(), b"l" * 32)
    pairs = (("authorization", "a"), ("authorization", "a"), ("authorization", "b"))
    first, same, different = (value for _, value in one.metadata(pairs))
    assert first == same != different
    assert other.metadata(pairs)[0][1] != first


def test_what_is_no_credential_is_kept_in_order_with_duplicates() -> None:
    pairs = (("b", "1"), ("a", "2"), ("b", "3"), ("x-bin", b"\x00\xff"))
    kept = Redactor(Policy(), b"k").metadata(pairs)
    assert kept == (("b", b"1"), ("a", b"2"), ("b", b"3"), ("x-bin", b"\x00\xff"))


def test_redaction_can_be_asked_away() -> None:
    assert Redactor(Policy(redact=()), b"k").metadata((("authorization", "x"),)) == (("authorization", b"x"),)
