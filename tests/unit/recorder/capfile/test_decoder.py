"""Whatever happens to a file's bytes: no altered record comes out, what is whole does, and the damage is told."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture_recorder.capfile import CaptureError, CaptureWriter, Damage, Entry, NotACapture, Unknown, framing, records
from capture_recorder.capfile.decoder import CLEAN, Decoder, RawRecord
from capture_recorder.capfile.records import Message, Meta
from helpers.captures import FILE_ID, ONE_OF_EACH, read_all, write_capture
from helpers.damage import mangle


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_capture(tmp_path_factory.mktemp("whole") / "a.cap").read_bytes()


def decode(data: bytes, piece: int | None = None) -> tuple[list[RawRecord | Damage], str]:
    """The decoder's items, the data given at once or in pieces; and the condition."""
    preamble = framing.parse_preamble(data[: framing.PREAMBLE_SIZE])
    assert not isinstance(preamble, str)
    decoder = Decoder(preamble, RawRecord, len(data) if piece is None else None)
    items: list[RawRecord | Damage] = []
    base, step = framing.PREAMBLE_SIZE, piece or len(data)
    for end in range(base + step, len(data) + step, step):
        final = end >= len(data)
        items += decoder.scan(data[base:end], base, final)
        base = decoder.offset
    return items, decoder.condition


def scan(data: bytes, piece: int | None = None) -> list[RawRecord | Damage]:
    return decode(data, piece)[0]


def good(items: Sequence[object]) -> list[tuple[int, bytes]]:
    return [(item.seq, bytes(item.body)) for item in items if isinstance(item, RawRecord)]


def test_every_truncation_gives_exactly_the_longest_whole_prefix(whole: bytes, tmp_path: Path) -> None:
    everything = scan(whole)
    ends = [item.offset + item.size for item in everything if isinstance(item, RawRecord)]
    records_ = good(everything)
    file = tmp_path / "cut.cap"
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        if size < framing.PREAMBLE_SIZE:
            with pytest.raises(NotACapture):
                read_all(file)
            continue
        condition, items = read_all(file)
        assert condition == "torn", size
        assert good(scan(whole[:size])) == records_[: sum(end <= size for end in ends)], size
        assert any(isinstance(item, Damage) for item in items) == (size not in (32, *ends)), size


def test_every_flipped_bit_costs_one_record_at_most_and_is_told(whole: bytes, tmp_path: Path) -> None:
    records_ = good(scan(whole))
    file = tmp_path / "flipped.cap"
    for bit in range(framing.PREAMBLE_SIZE * 8, len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        left = good(scan(bytes(data)))
        assert all(record in records_ for record in left), bit
        assert len(left) >= len(records_) - 1, bit
        if bit % 8 == bit // 8 % 8:  # the file's condition, for one bit of each byte
            file.write_bytes(data)
            assert read_all(file)[0] == "damaged", bit


def test_every_flipped_bit_of_the_preamble_is_refused(whole: bytes, tmp_path: Path) -> None:
    file = tmp_path / "flipped.cap"
    for bit in range(framing.PREAMBLE_SIZE * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
        with pytest.raises(CaptureError):
            read_all(file)


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_never_alters_a_record(whole: bytes, seed: int) -> None:
    rng = random.Random(seed)
    records_ = good(scan(whole))
    for _ in range(100):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            if len(data) > framing.PREAMBLE_SIZE:
                mangle(data, rng)
        items = scan(bytes(data))
        left = good(items)
        assert all(record in records_ for record in left)
        assert all(a < b for (a, _), (b, _) in pairwise(left))
        assert bytes(data) == whole or decode(bytes(data))[1] != CLEAN
        assert good(scan(bytes(data), piece=rng.randint(1, 50))) == left  # a pipe tells the same


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_hostile_bytes_after_a_good_preamble_end_in_items(data: st.DataObject) -> None:
    preamble = framing.pack_preamble(framing.Preamble(1, 0, 0, FILE_ID))
    seed = framing.seed_of(FILE_ID)
    pieces = data.draw(
        st.lists(
            st.one_of(
                st.binary(max_size=60),
                st.just(framing.SYNC),
                st.builds(
                    lambda kind, flags, seq, length: framing.pack_head(seed, kind, flags, seq, length),
                    st.integers(0, 255),
                    st.integers(0, 255),
                    st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1)),
                    st.one_of(st.integers(0, 80), st.integers(0, 2**32 - 1)),
                ),
            ),
            max_size=12,
        )
    )
    items = scan(preamble + b"".join(pieces))
    assert sum(getattr(item, "size", 0) for item in items) <= sum(map(len, pieces))


def test_a_capture_inside_a_message_leaks_nothing_when_its_outer_record_breaks(tmp_path: Path) -> None:
    inner = write_capture(tmp_path / "inner.cap").read_bytes()
    writer = CaptureWriter(tmp_path / "outer.cap", file_id=b"OUTERIDS")
    writer.append(Meta(created_ns=1, clock_ns=1))
    writer.append(Message(call=1, direction=0, index=0, time_ns=1, payload=inner))
    writer.append(Message(call=1, direction=0, index=1, time_ns=2, payload=b"last"))
    data = bytearray(writer.close().read_bytes())
    assert [seq for seq, _ in good(scan(bytes(data)))] == [1, 2, 3, 4, 5]
    data[data.index(framing.SYNC, framing.PREAMBLE_SIZE + 1)] ^= 1  # the head of the record that holds the inner file
    assert [seq for seq, _ in good(scan(bytes(data)))] == [1, 3, 4, 5]


def test_heads_that_claim_the_rest_of_the_file_do_not_make_reading_quadratic() -> None:
    seed = framing.seed_of(FILE_ID)
    count, unit = 3000, framing.HEAD_SIZE + 40
    size = framing.PREAMBLE_SIZE + count * unit
    data = bytearray(framing.pack_preamble(framing.Preamble(1, 0, 0, FILE_ID)))
    for i in range(count):
        length = size - len(data) - framing.HEAD_SIZE - framing.TAIL_SIZE - 1
        data += framing.pack_head(seed, 5, 0, i + 1, max(0, length)) + bytes(40)
    checked = 0
    real = framing.body_is_whole

    def counting(seed: int, record: framing.Buffer) -> bool:
        nonlocal checked
        checked += len(record)
        return real(seed, record)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "body_is_whole", counting)
        scan(bytes(data))
    assert checked < 8 * size


def test_zeros_at_the_end_are_one_torn_tail(whole: bytes, tmp_path: Path) -> None:
    torn = write_capture(tmp_path / "torn.cap", close=False)
    before = read_all(torn)[1]
    torn.write_bytes(torn.read_bytes() + bytes(8192))
    condition, items = read_all(torn)
    assert condition == "torn"
    assert items[:-1] == before
    assert isinstance(items[-1], Damage)
    assert items[-1].size == 8192


def test_a_damage_says_where_and_what_is_lost(whole: bytes, tmp_path: Path) -> None:
    items = [item for item in scan(whole) if isinstance(item, RawRecord)]
    data = bytearray(whole)
    data[items[4].offset + 30] ^= 0x40
    file = tmp_path / "a.cap"
    file.write_bytes(data)
    damage = next(item for item in read_all(file)[1] if isinstance(item, Damage))
    assert damage == Damage(items[4].offset, items[4].size, "the checksum of record 5 is wrong", 5, 5, Message.TYPE)
    assert str(damage) == (
        f"offset {items[4].offset}: the checksum of record 5 is wrong; record 5 lost; {items[4].size} bytes passed over"
    )


def test_unknown_records_are_kept_and_told_apart(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.cap", file_id=FILE_ID)
    writer.append(ONE_OF_EACH[0])
    writer.append_raw(100, 0, b"\x81\xa1x\x01")
    writer.append_raw(200, 0, b"not even msgpack")
    writer.append_raw(records.Note.TYPE, 0x80, b"\x81\xa4text\xa0")
    condition, items = read_all(writer.close())
    unknown = [item for item in items if isinstance(item, Unknown)]
    assert condition == "clean"
    assert [(item.type, item.critical) for item in unknown] == [(100, True), (200, False), (128, True)]
    assert unknown[1].body == b"not even msgpack"


def test_a_record_whose_body_breaks_the_specification_is_damage(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.cap", file_id=FILE_ID)
    writer.append(ONE_OF_EACH[0])
    writer.append_raw(records.Status.TYPE, 0, b"\x81\xa1c\x00")
    condition, items = read_all(writer.close())
    damage = next(item for item in items if isinstance(item, Damage))
    assert condition == "damaged"
    assert damage.why == "record 2 is not valid: its key 'c' is not a whole number from 1 up"
    assert [item.seq for item in items if isinstance(item, Entry)] == [1, 3, 4]
