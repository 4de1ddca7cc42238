"""verify(recover(x)) is clean, whatever happened to x; nothing whole is lost, nothing lost is hidden."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from capture_recorder.capfile import CaptureError, CaptureWriter, Damage, Entry
from capture_recorder.capfile.index import INTERVAL_RECORDS
from capture_recorder.capfile.pack import pack
from capture_recorder.capfile.records import Checkpoint, Footer, Gap, Message, Meta, Note, Record, Status
from capture_recorder.capfile.recover import Recovery, recover
from capture_recorder.capfile.verify import verify
from helpers.captures import FILE_ID, ONE_OF_EACH, Memory, opened_bytes, write_capture
from helpers.damage import OPERATIONS, mangle

EVENTS = (0, 3, 4, 5, 6, 7, 8, 9)  # types whose loss makes a hole; 0: it is not known what was lost


def recovered(data: bytes) -> tuple[bytes, Recovery]:
    output = Memory()
    with opened_bytes(data, salvage=True) as reader:
        result = recover(reader, output)
    assert output.finished
    assert output.closed
    return bytes(output.data), result


def records(data: bytes, *, salvage: bool = False) -> list[Record]:
    """The good records, index records not counted."""
    with opened_bytes(data, salvage=salvage) as reader:
        found = [item.record for item in reader.scan() if isinstance(item, Entry)]
    return [record for record in found if not isinstance(record, (Checkpoint, Footer))]


def holds(data: bytes) -> bytes:
    """Recover, and hold the result against everything that is said of it; the recovered bytes."""
    clean, result = recovered(data)
    with opened_bytes(clean) as reader:
        found = verify(reader)
    assert found.clean, [*found.damage, *found.index]
    assert recovered(clean)[0] == clean
    before = records(data, salvage=True)
    after = records(clean)
    if not before or not isinstance(before[0], Meta):
        assert isinstance(after.pop(0), Meta)  # one that says nothing, in the place of the one that is lost
    whole = [r for r in after if not isinstance(r, Gap) or "before its recovery" not in r.why]
    assert [_plain(r) for r in whole] == [_plain(r) for r in before]
    if result.condition == "damaged" and any(damage.first and damage.type in EVENTS for damage in result.lost):
        assert len(after) > len(before)  # a gap says that there was more
    return clean


def _plain(record: Record) -> Record:
    return Note(text=record.text) if isinstance(record, Note) else record  # what it is about may be lost


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder: Path = tmp_path_factory.mktemp("recover")
    whole = write_capture(folder / "a.cap").read_bytes()
    packed = Memory()
    with opened_bytes(whole) as reader:
        pack(reader, packed)
    return {
        "whole": whole,
        "packed": bytes(packed.data),
        "torn": write_capture(folder / "t.cap", close=False).read_bytes(),
    }


def test_a_clean_capture_is_copied_as_it_is(forms: dict[str, bytes]) -> None:
    for form in ("whole", "packed"):
        clean, result = recovered(forms[form])
        assert clean == forms[form]
        assert (result.condition, result.records, result.lost) == ("clean", len(ONE_OF_EACH), [])


def test_a_torn_capture_loses_nothing_and_gets_no_gap(forms: dict[str, bytes]) -> None:
    clean, result = recovered(forms["torn"])
    assert (result.condition, result.records, result.lost) == ("torn", len(ONE_OF_EACH), [])
    assert records(clean) == list(ONE_OF_EACH)
    assert clean[16:24] != FILE_ID


@pytest.mark.parametrize("form", ["whole", "packed", "torn"])
def test_every_truncation(forms: dict[str, bytes], form: str) -> None:
    data = forms[form]
    for size in range(32, len(data)):
        holds(data[:size])
    for size in range(32):
        with pytest.raises(CaptureError):
            recovered(data[:size])


@pytest.mark.parametrize("form", ["whole", "packed", "torn"])
def test_a_flipped_bit_of_each_byte(forms: dict[str, bytes], form: str) -> None:
    data = forms[form]
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at * 5 % 8
        holds(bytes(flipped))


@pytest.mark.parametrize("form", ["whole", "torn"])
def test_a_flipped_bit_anywhere_costs_one_record_at_most(forms: dict[str, bytes], form: str) -> None:
    """In the preamble too: its id is found by the trailer, or by the records that check under it."""
    data = forms[form]
    everything = records(data)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        left = records(bytes(flipped), salvage=True)
        assert len(left) >= len(everything) - 1, bit
        assert all(record in everything for record in left), bit


def test_a_flipped_bit_of_a_preamble_is_named_and_what_can_be_done(forms: dict[str, bytes]) -> None:
    flipped = bytearray(forms["whole"])
    flipped[20] ^= 1
    with pytest.raises(CaptureError, match=r"checksum of its preamble is wrong \(offset 0\).*capture-file recover"):
        records(bytes(flipped))


@pytest.mark.parametrize("form", ["whole", "packed"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_random_damage(forms: dict[str, bytes], form: str, operation: str) -> None:
    rng = random.Random(f"{form} {operation}")
    for _ in range(40):
        data = bytearray(forms[form])
        for _ in range(rng.randint(1, 3)):
            mangle(data, rng, operation)
        holds(bytes(data))


@pytest.mark.parametrize("seed", range(4))
def test_random_damage_of_a_long_capture(tmp_path: Path, seed: int) -> None:
    """Longer than an interval of the index, so that checkpoints are among what is lost."""
    rng = random.Random(seed)
    messages = [
        Message(call=1, direction=0, index=i, time_ns=i, payload=b"%d" % i) for i in range(2 * INTERVAL_RECORDS)
    ]
    whole = write_capture(tmp_path / "a.cap", [*ONE_OF_EACH[:3], *messages]).read_bytes()
    for _ in range(5):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 20)):
            mangle(data, rng)
        holds(bytes(data))


def write(path: Path, *extra: tuple[int, int, bytes], records: Sequence[Record] = ONE_OF_EACH) -> bytes:
    writer = CaptureWriter(path, file_id=FILE_ID)
    for record in records:
        writer.append(record)
    for kind, flags, body in extra:
        writer.append_raw(kind, flags, body)
    return writer.close().read_bytes()


def test_what_is_not_known_is_kept_as_it_stands(tmp_path: Path) -> None:
    unknown = [(200, 0, b"anything"), (100, 0, b"\x81\xa1x\x01"), (128, 0x40, b"\x80")]
    data = bytearray(write(tmp_path / "a.cap", *unknown))
    data[200] ^= 1
    clean, _ = recovered(bytes(data))
    with opened_bytes(clean) as reader:
        kept = [(raw.type, raw.flags, bytes(raw.body)) for raw, _ in reader.raw() if not isinstance(raw, Damage)]
    assert [body for body in kept if body in unknown] == unknown


def test_a_note_goes_on_being_about_what_it_was_about(tmp_path: Path) -> None:
    data = bytearray(write(tmp_path / "a.cap"))
    with opened_bytes(bytes(data)) as reader:
        at = next(item.offset for item in reader.scan() if isinstance(item, Entry) and item.seq == 4)
    data[at + 30] ^= 1  # headers: lost, and a gap in their place
    clean, _ = recovered(bytes(data))
    with opened_bytes(clean) as reader:
        entries = list(reader.entries())
    note = next(entry.record for entry in entries if isinstance(entry.record, Note))
    assert entries[(note.about or 0) - 1].record == ONE_OF_EACH[4]


@pytest.mark.parametrize("lost", [1, 2, 12], ids=["meta", "schema", "note"])
def test_the_loss_of_what_is_no_event_makes_no_gap(tmp_path: Path, lost: int) -> None:
    data = bytearray(write(tmp_path / "a.cap"))
    at = records_at(bytes(data))[lost - 1]
    data[at + 30] ^= 1
    clean, result = recovered(bytes(data))
    assert [(d.first, d.last) for d in result.lost] == [(lost, lost)]
    assert [r for r in records(clean) if isinstance(r, Gap)] == [ONE_OF_EACH[10]]


@pytest.mark.parametrize(("others", "call"), [(False, 1), (True, None)])
def test_a_gap_is_of_the_call_that_alone_was_open(tmp_path: Path, others: bool, call: int | None) -> None:
    other = [replace(ONE_OF_EACH[2], call=2)] if others else []
    data = bytearray(write(tmp_path / "a.cap", records=[*ONE_OF_EACH[:3], *other, *ONE_OF_EACH[3:8]]))
    data[records_at(bytes(data))[-6] + 30] ^= 1  # the last message
    clean, _ = recovered(bytes(data))
    assert [(r.call, r.events) for r in records(clean) if isinstance(r, Gap)] == [(call, 1)]


def records_at(data: bytes) -> list[int]:
    return [at for at in range(len(data)) if data.startswith(b"\xc4REC", at)]


def test_a_second_meta_record_does_not_make_it_into_a_clean_capture(tmp_path: Path) -> None:
    data = write(tmp_path / "a.cap", records=[*ONE_OF_EACH, ONE_OF_EACH[0]])
    with opened_bytes(data) as reader:
        assert not verify(reader).clean
    clean, result = recovered(data)
    assert [damage.why for damage in result.lost] == ["a second `meta` record"]
    with opened_bytes(clean) as reader:
        assert verify(reader).clean


def test_a_failed_write_leaves_nothing(forms: dict[str, bytes]) -> None:
    class Full(Memory):
        def put(self, parts: Sequence[bytes], total: int) -> None:
            if self.offset + total > 200:
                from capture_recorder.capfile import CaptureWriteError

                raise CaptureWriteError("out", "cannot be written: no space left on device")
            super().put(parts, total)

    for form in ("whole", "torn"):
        output = Full()
        with opened_bytes(forms[form]) as reader, pytest.raises(CaptureError, match="no space"):
            recover(reader, output)
        assert output.discarded
        assert not output.finished


# --- verify -----------------------------------------------------------------------------------------------------------


def faults(data: bytes) -> list[str]:
    with opened_bytes(data) as reader:
        return [str(fault) for fault in verify(reader).index]


def test_an_index_that_lies_is_told_and_mended(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.cap", file_id=FILE_ID, indexes=False)
    for record in ONE_OF_EACH:
        writer.append(record)
    writer.append(Checkpoint(previous=7, records=((1, 32), (5, 40)), calls=((1, 3, 32),)))
    data = writer.close().read_bytes()
    told = faults(data)
    assert any("the checkpoint before is said to be at 7, and is at 0" in fault for fault in told)
    assert any("its index says [5, 40] where no such record stands" in fault for fault in told)
    assert any("its index of calls says [1, 3, 32]" in fault for fault in told)
    assert any("its index has 1 calls, and 2 were begun" in fault for fault in told)
    holds(data)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"calls": 3}, "it says calls 3, and there are 2"),
        ({"requests": 0}, "it says requests 0, and there are 1"),
        ({"size": 99}, "it says size 99, and there are 5"),
        ({"checkpoints": (1, 2, 3)}, "it names 3 checkpoints"),
        ({"openings": ()}, "the checkpoints that it says list calls are not the ones that do"),
        ({"schemas": (5,)}, "the places of schemas that it names are not those of the file"),
    ],
)
def test_a_footer_that_lies_is_told(tmp_path: Path, change: dict[str, object], why: str) -> None:
    class Liar(CaptureWriter):
        def close(self, extra: object = None) -> Path:
            real = self._index.footer
            self._index.footer = lambda extra: replace(real(extra), **change)  # type: ignore[method-assign]
            return super().close()

    writer = Liar(tmp_path / "a.cap", file_id=FILE_ID)
    for record in ONE_OF_EACH:
        writer.append(record)
    data = writer.close().read_bytes()
    assert any(why in fault for fault in faults(data))
    holds(data)


def test_time_that_goes_back_is_a_remark(tmp_path: Path) -> None:
    data = write(tmp_path / "a.cap", records=[ONE_OF_EACH[0], ONE_OF_EACH[2], Status(call=1, time_ns=0, code=0)])
    with opened_bytes(data) as reader:
        found = verify(reader)
    assert found.clean
    assert [remark.why for remark in found.remarks] == ["its time is 1 ns before that of an earlier record"]


def test_verify_counts_what_is_lost(forms: dict[str, bytes]) -> None:
    data = bytearray(forms["whole"])
    data[300] ^= 1
    with opened_bytes(bytes(data)) as reader:
        found = verify(reader)
    assert (found.condition, found.clean, found.lost, found.faults) == ("damaged", False, 1, 1)


# --- what the fuzzer found, each as its kind --------------------------------------------------------------------------


def test_something_before_the_first_record(forms: dict[str, bytes]) -> None:
    """The gap for it comes after `meta`, with which a capture begins."""
    for form, data in forms.items():
        for size in (1, 50, 300):
            assert holds(data[:32] + bytes(size) + data[32:]), form


@pytest.mark.parametrize("kind", [10, 11, 12])
def test_an_index_record_with_a_flag_is_not_valid(tmp_path: Path, kind: int) -> None:
    """It would be taken for what it is called, or be copied as what it is not."""
    data = write(tmp_path / "a.cap", (kind, 1, b"\x80"), (128, 0, b"\x81\xa4text\xa1x"))
    with opened_bytes(data) as reader:
        damage = [item for item in reader.scan() if isinstance(item, Damage)]
        assert reader.condition == "damaged"
    assert [(d.first, d.last) for d in damage] == [(len(ONE_OF_EACH) + 1, len(ONE_OF_EACH) + 1)]
    holds(data)


def test_a_call_that_is_opened_twice_is_indexed_twice(tmp_path: Path) -> None:
    """No recorder writes that; the index is right all the same."""
    data = write(tmp_path / "a.cap", records=[*ONE_OF_EACH, ONE_OF_EACH[2]])
    assert faults(data) == []
    holds(data[:300] + b"x" + data[301:])
