"""The codec of records: what goes in comes out, unknown keys too, and nothing else gets in."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_recorder.capfile import RecordError
from capture_recorder.capfile.codec import decode, encode
from capture_recorder.capfile.records import Message, Record, Redacted, Status
from helpers.captures import ONE_OF_EACH


def body(record: Record) -> bytes:
    return b"".join(encode(record))


@pytest.mark.parametrize("record", ONE_OF_EACH, ids=lambda record: type(record).__name__)
def test_round_trip(record: Record) -> None:
    assert decode(record.TYPE, body(record)) == record


@pytest.mark.parametrize("record", ONE_OF_EACH, ids=lambda record: type(record).__name__)
def test_unknown_keys_survive(record: Record) -> None:
    packed = msgpack.packb({"new": [1, {"deep": b"\x00"}], **msgpack.unpackb(body(record))})
    again = decode(record.TYPE, packed)
    assert again is not None
    assert again.extra == {"new": [1, {"deep": b"\x00"}]}
    assert msgpack.unpackb(body(again)) == msgpack.unpackb(packed)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65535, 65536, 1 << 20])
def test_a_payload_is_the_last_part_and_is_not_copied(size: int) -> None:
    payload = bytes(size)
    message = Message(call=1, direction=1, index=300, time_ns=1 << 40, payload=payload)
    prefix, rest = encode(message)
    assert rest is payload
    assert msgpack.unpackb(prefix + rest) == {"c": 1, "d": 1, "n": 300, "t": 1 << 40, "p": payload}


@pytest.mark.parametrize("number", [n + d for bits in (7, 8, 16, 32, 63) for n in (1 << bits,) for d in (-1, 0, 1)])
def test_numbers_are_packed_as_msgpack_packs_them(number: int) -> None:
    message = Message(call=number, direction=0, index=number, time_ns=number, payload=b"x")
    assert body(message) == msgpack.packb({"c": number, "d": 0, "n": number, "t": number, "p": b"x"})


def test_a_payload_stays_last_beside_unknown_keys() -> None:
    message = Message(call=1, direction=1, index=0, time_ns=1, payload=b"xyz", extra={"more": 1})
    assert body(message).endswith(b"\xa1p\xc4\x03xyz")


def test_an_unknown_type_is_none() -> None:
    assert decode(77, b"\x80") is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"c": 0}, "'c' is not a whole number from 1 up"),
        ({"c": True}, "'c' is not a whole number from 1 up"),
        ({"c": "1"}, "'c' is not a whole number from 1 up"),
        ({"t": -1}, "'t' is not a whole number from 0 up"),
        ({"code": None}, "'code' is not a whole number from 0 up"),
        ({"message": b"x"}, "'message' is not text"),
        ({"metadata": {"a": b"b"}}, "'metadata' is not a list of pairs"),
        ({"metadata": [["a"]]}, "'metadata' holds something that is not a pair"),
        ({"metadata": [["a", "b"]]}, "'metadata' is not binary"),
        ({"metadata": [["a", {"len": 1}]]}, "'metadata' is not binary"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(change: dict[str, object], why: str) -> None:
    good = msgpack.unpackb(body(Status(call=1, time_ns=2, code=3)))
    with pytest.raises(RecordError, match=why):
        decode(Status.TYPE, msgpack.packb({**good, **change}))


def test_a_missing_key_is_named() -> None:
    with pytest.raises(RecordError, match="'code' is missing"):
        decode(Status.TYPE, msgpack.packb({"c": 1, "t": 1}))


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"\xc1",
        b"\x90",
        b"\x81\x01\x01",  # a key that is a number
        b"\x81\xc4\x01a\x01",  # a key that is binary
        b"\x80\x80",  # two maps
        b"\xdf\xff\xff\xff\xff",  # a map of four billion entries
        b"\x81\xa1c\xc6\xff\xff\xff\xff",  # binary of four billion bytes
        b"\x81\xa1c" + b"\x91" * 5000 + b"\xc0",  # nested 5,000 deep
        b"\x81\xa1c\xd6\xff\x00\x00\x00\x00",  # msgpack's own timestamp
        b"\x81\xa1c\xa2\xff\xfe",  # text that is not UTF-8
    ],
)
def test_hostile_bodies_are_record_errors(hostile: bytes) -> None:
    with pytest.raises(RecordError):
        decode(Status.TYPE, hostile)


@given(st.sampled_from(sorted({record.TYPE for record in ONE_OF_EACH})), st.binary(max_size=200))
def test_nothing_but_record_errors_comes_out(kind: int, data: bytes) -> None:
    try:
        decode(kind, data)
    except RecordError as error:
        assert str(error)


def test_a_redacted_value_keeps_length_and_hash() -> None:
    record = Status(call=1, time_ns=1, code=0, metadata=(("x-secret", Redacted(12, b"abcdefgh")),))
    assert decode(Status.TYPE, body(record)) == record
