"""Is a bundle well formed: every way in which it is not, and a detail that says where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb
from capture_server import bundle as bundles
from capture_server.build import bundle, tensor

ZSTD = pb.COMPRESSION_ZSTD


def fault(sample: pb.NamedTensor) -> str | None:
    return bundles.fault(bundle(sample))


@given(st.binary(max_size=400), st.integers(1, 9), st.sampled_from([pb.COMPRESSION_NONE, ZSTD]))
def test_what_is_cut_into_parts_is_whole(data: bytes, parts: int, compression: pb.Compression) -> None:
    assert fault(tensor("t", data, parts=parts, compression=compression)) is None


@pytest.mark.parametrize(
    ("first", "second", "total", "why"),
    [
        (0, 60, 110, "gap at offset 50: expected a fragment at 50, got 60"),
        (0, 40, 90, "overlap at offset 40: expected a fragment at 50, got 40"),
        (0, 0, 50, "overlap at offset 0: expected a fragment at 50, got 0"),
        (10, 60, 110, "gap at offset 0: expected a fragment at 0, got 10"),
        (0, 50, 120, "fragments end at offset 100, expected 120"),
        (0, 50, 90, "the fragment at offset 50 goes on to 100 or beyond, expected 90 bytes"),
    ],
)
def test_fragments_that_do_not_tile(first: int, second: int, total: int, why: str) -> None:
    sample = tensor("layer.0", bytes(range(100)), parts=2)
    sample.fragments[0].byte_offset, sample.fragments[1].byte_offset = second, first
    sample.total_bytes = total
    assert fault(sample) == f"tensor 'layer.0': {why}"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_an_empty_fragment_overlaps_nothing_wherever_it_is_sent(order: tuple[int, ...]) -> None:
    sample = tensor("t", b"abcdef", parts=2)
    fragments = [*sample.fragments, pb.Fragment(byte_offset=3)]
    del sample.fragments[:]
    sample.fragments.extend(fragments[i] for i in order)
    assert fault(sample) is None


def test_the_checksum_is_of_the_uncompressed_bytes() -> None:
    sample = tensor("t", b"abc" * 1000, parts=3, compression=ZSTD)
    assert fault(sample) is None
    sample.checksum.value = bytes(4)
    assert "checksum of bytes 0 to 3000: expected 00000000, got" in (fault(sample) or "")


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_a_frame_that_is_cut_or_has_something_after_it(cut: int) -> None:
    sample = tensor("t", bytes(range(256)) * 4, compression=ZSTD)
    whole = sample.fragments[0].payload
    for payload in (whole[:-cut], whole + b"more", b"", b"no frame"):
        sample.fragments[0].payload = payload
        assert fault(sample) == "tensor 't': the fragment at offset 0 is not a zstd frame"


def test_a_bomb_is_measured_by_what_it_says_and_stopped_by_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = tensor("t", bytes(64 << 20), compression=ZSTD)
    assert len(sample.fragments[0].payload) < 10_000
    assert bundles.size(bundle(sample)) == 64 << 20
    sample.total_bytes = 10
    produced = 0
    real = bundles.crc32c

    def counting(data: bytes, crc: int) -> int:
        nonlocal produced
        produced += len(data)
        return real(data, crc)

    monkeypatch.setattr(bundles, "crc32c", counting)
    assert "goes on to" in (fault(sample) or "")
    assert produced < 16 << 20


def test_a_detail_holds_nothing_of_the_payload() -> None:
    sample = tensor("t", b"secret payload", checksum=1)
    assert "secret" not in (fault(sample) or "")


def test_the_first_tensor_that_is_wrong_is_named() -> None:
    good, bad, worse = tensor("good", b"x"), tensor("bad", b"x", checksum=1), tensor("worse", b"x", checksum=2)
    assert (bundles.fault(bundle(good, bad, worse)) or "").startswith("tensor 'bad'")
    assert bundles.fault(bundle()) is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"algorithm": 0}, "checksum algorithm 0, expected CRC32C (1)"),
        ({"value": b"abc"}, "a CRC32C has 4 bytes, not 3"),
        ({"value": b""}, "a CRC32C has 4 bytes, not 0"),
    ],
)
def test_a_checksum_that_is_none(change: dict[str, object], why: str) -> None:
    sample = tensor("t", b"x")
    for name, value in change.items():
        setattr(sample.checksum, name, value)
    assert fault(sample) == f"tensor 't': {why}"
