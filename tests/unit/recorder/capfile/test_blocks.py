"""Blocks: what a stranger's may be made to cost, and what is said of one that does not hold what it says."""

from __future__ import annotations

import msgpack
import pytest
import zstandard

from capture_recorder.capfile import Damage, blocks, framing
from capture_recorder.capfile.errors import RecordError
from capture_recorder.capfile.framing import Preamble, RecordType
from helpers.captures import FILE_ID, opened_bytes

MEMBERS = [(5, 0, b"\x80"), (200, 3, b""), (1, 0, b"x" * 300)]


def body(content: bytes, *, n: object = 1, size: object = None, z: bytes | None = None) -> bytes:
    compressed = zstandard.ZstdCompressor().compress(content) if z is None else z
    return bytes(msgpack.packb({"n": n, "size": len(content) if size is None else size, "z": compressed}))


def member(kind: int = 5, data: bytes = b"\x80", length: int | None = None) -> bytes:
    return bytes([kind, 0]) + (len(data) if length is None else length).to_bytes(4, "little") + data


def test_what_is_packed_expands_to_the_same() -> None:
    expanded = blocks.expand(blocks.pack(MEMBERS, 3))
    assert [(kind, flags, bytes(data)) for kind, flags, data in expanded] == MEMBERS


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xc1", "not msgpack"),
        (b"\x01", "not a map"),
        (body(member(), n="1"), "'n' is missing or of another type"),
        (body(member(), n=True), "'n' is missing or of another type"),
        (body(member(), n=0), "out of range"),
        (body(member(), size=0), "out of range"),
        (body(member(), size=blocks.MAX_EXPANDED + 1), "out of range"),
        (body(member(), n=2), "says that it holds 2 records, and holds 1"),
        (body(member(), size=8), "do not agree"),
        (body(member(), z=b"not zstd"), "cannot be decompressed"),
        (body(member(), z=zstandard.ZstdCompressor().compress(member())[:-2]), "cannot be decompressed"),
        (body(member(), z=zstandard.ZstdCompressor().compress(member()) + b"more"), "cannot be decompressed"),
        (body(member()[:4]), "ends in the head of a record"),
        (body(member(length=100)), "holds a record that no block can hold"),
        *((body(member(kind)), "holds a record that no block can hold") for kind in (0, 10, 11, 12)),
        (body(member(), z=zstandard.ZstdCompressor(write_content_size=False).compress(member())), "do not agree"),
    ],
)
def test_a_block_that_does_not_hold_what_it_says_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        blocks.expand(data)


def test_a_bomb_is_refused_before_it_goes_off(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 30))
    assert len(bomb) < 100_000
    monkeypatch.setattr(zstandard, "ZstdDecompressor", lambda: pytest.fail("it was decompressed"))
    for size in (1 << 30, blocks.MAX_EXPANDED, 10):
        with pytest.raises(RecordError):
            blocks.expand(body(b"", size=size, z=bomb))


def capture(features: int, flags: int, *bodies: bytes) -> bytes:
    seed = framing.seed_of(FILE_ID)
    data = framing.pack_preamble(Preamble(1, 0, features, FILE_ID))
    for seq, block in enumerate(bodies, 1):
        data += b"".join(framing.frame(seed, RecordType.BLOCK, flags, seq, block, b""))
    return data


@pytest.mark.parametrize(("features", "flags"), [(0, 0), (1, 1)])
def test_a_block_where_none_can_be_is_damage(features: int, flags: int) -> None:
    with opened_bytes(capture(features, flags, blocks.pack(MEMBERS, 3))) as reader:
        (item,) = reader.scan()
        assert isinstance(item, Damage)
        assert "a block in a capture that has none" in item.why
        assert reader.condition == "damaged"


def test_a_bad_record_in_a_block_costs_itself() -> None:
    good = (5, 0, msgpack.packb({"c": 1, "d": 0, "n": 0, "t": 0, "p": b"x"}))
    data = capture(1, 0, blocks.pack([good, (5, 0, b"\x80"), good], 3))
    with opened_bytes(data) as reader:
        items = list(reader.scan())
    assert [getattr(item, "seq", None) for item in items] == [1, None, 3]
    assert isinstance(items[1], Damage)
    assert (items[1].first, items[1].last) == (2, 2)
