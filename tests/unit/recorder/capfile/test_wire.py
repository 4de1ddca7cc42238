"""The wire format at its edges, where protobuf's own readers differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_recorder.capfile.wire import BYTES, FIXED64, GROUP, VARINT, WireError, fields

REFUSED = {
    "08a1a1a1a1a1a1a1a1a1a1101003": "offset 1: a varint of more than 10 bytes",
    "0880808080808080808080": "offset 1: a varint of more than 10 bytes",
    "08808080": "offset 1: a varint is cut",
    "08ffffffffffffffffff02": "offset 1: a varint of more than 64 bits",
    "f320481461bd523ab266a4ccd3fca28c72b6a2cb861b8109f52a754205766b87": "offset 13: group 526 is closed as 29909551",
    "00": "offset 0: field number 0",
    "0a05616263": "offset 0: 5 bytes are announced, 3 are there",
    "0affffffff0f": "bytes are announced, 0 are there",
    "0d0000": "offset 0: a fixed value is cut",
    "0e": "offset 0: wire type 6",
    "0c": "offset 0: the end of a group that did not begin",
    "0b14": "offset 1: group 1 is closed as 2",
    "0b": "group 1 is not closed",
    "0b" * 5000: "groups are nested too deep",
}


@pytest.mark.parametrize(("data", "why"), REFUSED.items(), ids=[data[:20] for data in REFUSED])
def test_what_is_refused(data: str, why: str) -> None:
    with pytest.raises(WireError) as caught:
        list(fields(bytes.fromhex(data)))
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("", []),
        ("088c80808000", [(1, VARINT, 12)]),
        ("08ffffffffffffffffff01", [(1, VARINT, 2**64 - 1)]),
        ("100508010802", [(2, VARINT, 5), (1, VARINT, 1), (1, VARINT, 2)]),
        ("696d6167652e706e67", [(13, FIXED64, 0x676E702E6567616D)]),
        ("0a02fffe", [(1, BYTES, None)]),
        ("0b08010c", [(1, GROUP, None)]),
    ],
)
def test_what_is_taken(data: str, found: list[tuple[int, int, int | None]]) -> None:
    assert [(f.number, f.wire_type, f.value) for f in fields(bytes.fromhex(data))] == found


@given(st.binary(max_size=300))
def test_nothing_but_wire_errors_and_every_byte_once(data: bytes) -> None:
    at = 0
    try:
        for field in fields(data):
            assert field.tag == at
            assert field.tag < field.start <= field.end <= field.next <= len(data)
            at = field.next
    except WireError as error:
        assert 0 <= error.offset <= len(data)
    else:
        assert at == len(data)
