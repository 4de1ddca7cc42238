"""The bytes around a record: checksums that are Castagnoli's, fields where FORMAT.md has them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
from crc32c import crc32c

from capture_recorder.capfile import framing
from capture_recorder.capfile.framing import Preamble, Trailer

# RFC 3720 appendix B.4, and the check string of the CRC catalogue: input, CRC-32C
VECTORS = [
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (
        bytes.fromhex(
            "01c000000000000000000000000000001400000000000400000000140000001828000000000000000200000000000000"
        ),
        0xD9963A56,
    ),
    (b"123456789", 0xE3069283),
]


@pytest.mark.parametrize(("data", "crc"), VECTORS)
def test_the_checksum_is_castagnoli_and_not_zlib(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc
    assert zlib.crc32(data) != crc


def test_a_checksum_of_nothing_and_of_itself_is_not_a_constant_once_masked() -> None:
    assert framing.mask(0) != 0
    residues = set()
    for data in (b"a", b"bc", b"def"):
        whole = data + crc32c(data).to_bytes(4, "little")
        assert crc32c(whole) == 0x48674BC7  # unmasked it is one constant, whatever the data
        masked = data + framing.mask(crc32c(data)).to_bytes(4, "little")
        residues.add(crc32c(masked))
    assert len(residues) == 3


def test_preamble_round_trip() -> None:
    preamble = Preamble(1, 3, 0, b"ABCDEFGH")
    assert framing.parse_preamble(framing.pack_preamble(preamble)) == preamble
    assert len(framing.pack_preamble(preamble)) == framing.PREAMBLE_SIZE


def test_trailer_round_trip() -> None:
    trailer = Trailer(1234, 56, b"ABCDEFGH")
    assert framing.parse_trailer(framing.pack_trailer(trailer)) == trailer
    assert len(framing.pack_trailer(trailer)) == framing.TRAILER_SIZE


@pytest.mark.parametrize("bit", range(framing.HEAD_SIZE * 8))
def test_no_bit_of_a_head_is_unprotected(bit: int) -> None:
    seed = framing.seed_of(b"ABCDEFGH")
    head = bytearray(framing.pack_head(seed, 5, 0, 17, 1000))
    assert framing.parse_head(seed, bytes(head)) is not None
    head[bit // 8] ^= 1 << bit % 8
    assert framing.parse_head(seed, bytes(head)) is None


def test_a_head_of_another_file_is_none() -> None:
    head = framing.pack_head(framing.seed_of(b"ABCDEFGH"), 5, 0, 17, 1000)
    assert framing.parse_head(framing.seed_of(b"ABCDEFGI"), head) is None


@pytest.mark.parametrize(("kind", "seq"), [(0, 1), (5, 0)])
def test_type_0_and_number_0_are_never_valid(kind: int, seq: int) -> None:
    seed = framing.seed_of(b"ABCDEFGH")
    assert framing.parse_head(seed, framing.pack_head(seed, kind, 0, seq, 0)) is None


@pytest.mark.parametrize(
    ("mangle", "why"),
    [
        (gzip.compress, "this is gzip"),
        (lambda data: data.replace(b"\r\n", b"\n"), "line ends were changed"),
        (lambda data: data.replace(b"\n", b"\r\n"), "line ends were changed"),
        (lambda data: bytes(byte & 0x7F for byte in data), "lost a bit"),
        (lambda data: data.decode("utf-8", "replace").encode(), "read as text"),
        (lambda data: b"PK\x03\x04" + data, "a zip archive"),
        (lambda data: b"\x89MCAP0\r\n" + data, "an MCAP file"),
    ],
)
def test_what_a_capture_becomes_on_its_way_is_named(mangle: Callable[[bytes], bytes], why: str) -> None:
    preamble = framing.pack_preamble(framing.Preamble(1, 0, 0, b"ABCDEFGH"))
    found = framing.parse_preamble(mangle(preamble))
    assert isinstance(found, str)
    assert found.startswith("it does not begin with the capture magic; ")
    assert why in found
