"""Two readers of one text: whatever a file is, they find the same records in it, and call it the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from capture_recorder.capfile import CaptureError, Damage
from capture_recorder.capfile.decoder import RawRecord
from capture_recorder.capfile.pack import pack
from helpers.captures import Memory, opened_bytes, write_capture
from helpers.damage import mangle
from helpers.second_reader import Second

Found = tuple[str, list[tuple[int, int, int, bytes]]]


def first(data: bytes) -> Found:
    records: list[tuple[int, int, int, bytes]] = []
    try:
        with opened_bytes(data) as reader:
            for item in reader.raw():
                if not isinstance(item, Damage):
                    raw: RawRecord = item[0]
                    records.append((raw.seq, raw.type, raw.flags, bytes(raw.body)))
            return reader.condition, records
    except CaptureError:
        return "unreadable", []


def second(data: bytes) -> Found:
    reader = Second(data)
    condition = "unreadable" if reader.condition == "refused" else reader.condition
    return condition, reader.records


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder: Path = tmp_path_factory.mktemp("second")
    whole = write_capture(folder / "a.cap").read_bytes()
    packed = Memory()
    with opened_bytes(whole) as reader:
        pack(reader, packed)
    return {"whole": whole, "packed": bytes(packed.data)}


@pytest.mark.parametrize("form", ["whole", "packed"])
def test_they_agree_on_a_whole_file(forms: dict[str, bytes], form: str) -> None:
    assert first(forms[form]) == second(forms[form])
    assert first(forms[form])[0] == "clean"


@pytest.mark.parametrize("form", ["whole", "packed"])
def test_they_agree_on_every_truncation(forms: dict[str, bytes], form: str) -> None:
    data = forms[form]
    for size in range(len(data)):
        assert first(data[:size]) == second(data[:size]), size


@pytest.mark.parametrize("form", ["whole", "packed"])
def test_they_agree_on_a_flipped_bit_of_each_byte(forms: dict[str, bytes], form: str) -> None:
    data = forms[form]
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        assert first(bytes(flipped)) == second(bytes(flipped)), at


@pytest.mark.parametrize("form", ["whole", "packed"])
@pytest.mark.parametrize("seed", range(5))
def test_they_agree_on_random_damage(forms: dict[str, bytes], form: str, seed: int) -> None:
    rng = random.Random(f"{form}{seed}")
    for _ in range(60):
        data = bytearray(forms[form])
        for _ in range(rng.randint(1, 4)):
            mangle(data, rng)
        assert first(bytes(data)) == second(bytes(data)), data.hex()
