"""One call's course as records: what was seen becomes an event once, and nothing comes after the end."""

from __future__ import annotations

import pytest

from capture_recorder.capfile.records import Cancel, HalfClose, Headers, Message, Status
from capture_recorder.tap import Opening, Tap


def opened() -> Tap:
    tap = Tap()
    tap.open(0, 7, Opening("/s/M", "bidi"))
    return tap


def test_messages_are_counted_in_their_direction() -> None:
    tap = opened()
    assert tap.request(1, b"a") == [Message(call=7, direction=0, index=0, time_ns=1, payload=b"a")]
    assert tap.response(2, b"b") == [Message(call=7, direction=1, index=0, time_ns=2, payload=b"b")]
    assert tap.request(3, b"c") == [Message(call=7, direction=0, index=1, time_ns=3, payload=b"c")]


def test_the_half_close_happens_once() -> None:
    tap = opened()
    assert tap.half_close(1) == [HalfClose(call=7, time_ns=1)]
    assert tap.half_close(2) == []


def test_headers_come_before_messages_or_not_at_all() -> None:
    tap = opened()
    assert tap.headers(1, ()) == [Headers(call=7, time_ns=1)]
    tap.response(2, b"")
    assert tap.headers(3, ()) == []


@pytest.mark.parametrize("end", [lambda tap: tap.cancel(5, "client"), lambda tap: tap.status(5, 0, "", ())])
def test_nothing_comes_after_the_end(end) -> None:  # type: ignore[no-untyped-def]
    tap = opened()
    assert len(end(tap)) == 1
    for late in (
        tap.request(6, b""),
        tap.response(6, b""),
        tap.half_close(6),
        tap.headers(6, ()),
        tap.cancel(6, "client"),
        tap.status(6, 0, "", ()),
    ):
        assert late == []


def test_the_two_ends() -> None:
    assert opened().cancel(1, "deadline") == [Cancel(call=7, time_ns=1, why="deadline")]
    assert opened().status(1, 5, "no", (("k", b"v"),)) == [
        Status(call=7, time_ns=1, code=5, message="no", metadata=(("k", b"v"),))
    ]
