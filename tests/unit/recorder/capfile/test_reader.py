"""The reader: by scan, by index, from a pipe; and one clear sentence for every file that it does not open."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from capture_recorder.capfile import CaptureError, CaptureReader, Catalog, Entry, framing, open_capture
from capture_recorder.capfile import reader as reader_module
from capture_recorder.capfile.framing import Preamble, Trailer
from capture_recorder.capfile.index import INTERVAL_RECORDS
from capture_recorder.capfile.records import Checkpoint, Footer, Message, Meta, Record
from helpers.captures import FILE_ID, ONE_OF_EACH, events, read_all, write_capture


def long_capture(path: Path, count: int = 3 * INTERVAL_RECORDS) -> Path:
    meta: list[Record] = [Meta(created_ns=0, clock_ns=0)]
    return write_capture(
        path, meta + [Message(call=1, direction=0, index=i, time_ns=i, payload=b"%d" % i) for i in range(count)]
    )


def test_a_clean_capture_comes_back(tmp_path: Path) -> None:
    condition, items = read_all(write_capture(tmp_path / "a.cap"))
    assert condition == "clean"
    assert all(isinstance(item, Entry) for item in items)
    records = [item.record for item in items if isinstance(item, Entry)]
    assert records[: len(ONE_OF_EACH)] == list(ONE_OF_EACH)
    assert [type(record) for record in records[len(ONE_OF_EACH) :]] == [Checkpoint, Footer]


def test_records_larger_than_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "WINDOW", 64)
    messages: list[Record] = [
        Message(call=1, direction=1, index=i, time_ns=i, payload=os.urandom(size))
        for i, size in enumerate((0, 1, 63, 64, 65, 1000, 5, 20_000))
    ]
    assert events(write_capture(tmp_path / "a.cap", messages))[: len(messages)] == messages


@pytest.mark.parametrize("seq", [1, 2, 33, 1024, 1025, 1026, 2000, 3072, 3076])
def test_by_index_to_one_record(tmp_path: Path, seq: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = long_capture(tmp_path / "a.cap")
    by_scan = {item.seq: item for item in read_all(path)[1] if isinstance(item, Entry)}
    read: list[int] = []
    real = os.pread

    def counting(fd: int, size: int, offset: int) -> bytes:
        data = real(fd, size, offset)
        read.append(len(data))
        return data

    with open_capture(path) as reader:
        monkeypatch.setattr(os, "pread", counting)
        assert Catalog(reader).read(seq) == by_scan[seq]
    assert sum(read) < path.stat().st_size / 4


def test_an_index_that_lies_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    from capture_recorder.capfile import CaptureWriter

    writer = CaptureWriter(path, file_id=FILE_ID)
    for record in ONE_OF_EACH:
        writer.append(record)
    lie = writer.offset
    writer.append(Checkpoint(previous=0, records=((1, 40), (5, lie)), calls=()))
    footer_offset = writer.offset
    writer._index._checkpoints.append(lie)
    writer.append(writer._index.footer({}))
    trailer = framing.pack_trailer(Trailer(footer_offset, writer.seq, FILE_ID))
    writer._out.put((trailer,), len(trailer))
    writer.abandon()
    with open_capture(writer.part) as reader:
        assert Catalog(reader).footer is not None
        entry = Catalog(reader).read(5)
        assert entry is not None
        assert entry.record == ONE_OF_EACH[4]


def test_a_record_that_is_not_there(tmp_path: Path) -> None:
    with open_capture(write_capture(tmp_path / "a.cap")) as reader:
        assert Catalog(reader).read(1000) is None


def test_a_torn_file_has_no_footer_and_is_read_by_scan(tmp_path: Path) -> None:
    with open_capture(write_capture(tmp_path / "a.cap", close=False)) as reader:
        assert Catalog(reader).footer is None
        entry = Catalog(reader).read(5)
        assert entry is not None
        assert entry.record == ONE_OF_EACH[4]
        assert reader.condition == "torn"


def test_a_pipe_reads_as_the_file_does(tmp_path: Path) -> None:
    path = long_capture(tmp_path / "a.cap", 500)
    expected = read_all(path)
    receive, send = os.pipe()

    def feed() -> None:
        with os.fdopen(send, "wb") as pipe:
            pipe.write(path.read_bytes())

    feeder = threading.Thread(target=feed)
    feeder.start()
    with os.fdopen(receive, "rb") as pipe, CaptureReader("-", stdin=pipe) as reader:
        items = list(reader.scan())
        assert (reader.condition, items) == expected
    feeder.join()


def test_a_file_is_followed_by_its_size_of_now(tmp_path: Path) -> None:
    from capture_recorder.capfile import CaptureWriter

    writer = CaptureWriter(tmp_path / "a.cap", file_id=FILE_ID)
    writer.append(ONE_OF_EACH[0])
    with open_capture(writer.part) as reader:
        assert len(list(reader.scan())) == 1
        writer.append(ONE_OF_EACH[1])
        assert len(list(reader.scan())) == 2
    writer.abandon()


FUTURE = framing.pack_preamble(Preamble(2, 0, 0, FILE_ID))
FEATURE = framing.pack_preamble(Preamble(1, 0, 1 << 3 | 1 << 7, FILE_ID))
NEWER = ", which this reader does not know (it reads version 1); use a newer capture-replay"
PHOTO = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(1000)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "{}: not a capture: the file is empty (offset 0)"),
        (PHOTO, "{}: not a capture: it does not begin with the capture magic (offset 0)"),
        (framing.MAGIC, "{}: not a capture: its preamble is cut after 8 of 32 bytes (offset 0)"),
        (framing.MAGIC + bytes(24), "{}: not a capture: the checksum of its preamble is wrong (offset 0)"),
        (
            FUTURE,
            "{}: a capture of format version 2" + NEWER,
        ),
        (
            FEATURE,
            "{}: a capture of format version 1 with feature 3, 7" + NEWER,
        ),
    ],
)
def test_one_sentence_for_each_file_that_is_not_opened(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "x.cap"
    path.write_bytes(data)
    with pytest.raises(CaptureError) as caught:
        open_capture(path)
    assert str(caught.value) == sentence.format(path)


@pytest.mark.parametrize(
    ("name", "why"), [("none.cap", "no such file or directory"), (".", "is a folder, not a capture")]
)
def test_one_sentence_for_what_the_system_refuses(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(CaptureError, match=f"cannot be opened: {why}"):
        open_capture(tmp_path / name)


def test_a_newer_minor_version_is_read(tmp_path: Path) -> None:
    path = write_capture(tmp_path / "a.cap")
    data = path.read_bytes()
    path.write_bytes(framing.pack_preamble(Preamble(1, 9, 0, FILE_ID)) + data[framing.PREAMBLE_SIZE :])
    assert read_all(path)[0] == "clean"


def test_what_follows_the_trailer_is_damage(tmp_path: Path) -> None:
    path = write_capture(tmp_path / "a.cap")
    data = path.read_bytes()
    for more in (b"\x00", bytes(100), data[-framing.TRAILER_SIZE :], data):
        path.write_bytes(data + more)
        assert read_all(path)[0] == "damaged"


@pytest.mark.parametrize("name", ["a\0b.cap", "a\ud800.cap"])
def test_a_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(CaptureError, match="no file can have this name"):
        open_capture(name)
