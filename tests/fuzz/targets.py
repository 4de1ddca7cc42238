"""What hostile bytes are thrown at: each target takes bytes and asserts what must hold of any.

Nothing but our own errors comes out; what a reader finds, recovery keeps; what is recovered verifies clean. `raw` gives
the bytes as a file; the others put right checksums around them, so that what is behind those is reached too.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import msgpack
import zstandard

from capture_recorder import lens
from capture_recorder.capfile import CaptureError, Catalog, Damage, Entry, framing
from capture_recorder.capfile.framing import Preamble, RecordType
from capture_recorder.capfile.pack import pack, unpack
from capture_recorder.capfile.records import Checkpoint, Footer, Message, Schema
from capture_recorder.capfile.recover import recover
from capture_recorder.capfile.schema import SchemaSet
from capture_recorder.capfile.stats import stats
from capture_recorder.capfile.verify import verify
from capture_recorder.forms import FORMS, form_of
from helpers.captures import Memory, opened_bytes

FILE_ID = b"fuzztest"
_SEED = framing.seed_of(FILE_ID)
_INDEX = (Checkpoint, Footer)


def file(data: bytes) -> None:
    """Everything that is done with a file whose bytes are these."""
    try:
        with opened_bytes(data, salvage=True) as reader:
            items = list(reader.scan())
            condition = reader.condition
            assert condition in ("clean", "torn", "damaged")
            told = sum(item.size for item in items if isinstance(item, Damage))
            assert told <= len(data)
            if items and items[0] and condition == "clean":
                assert not any(isinstance(item, Damage) for item in items)
            good = [item for item in items if isinstance(item, Entry)]
            stats(good)
            _look(good)
            catalog = Catalog(reader)
            for entry in good[:3]:
                assert catalog.read(entry.seq) == entry
            while catalog.advance(100):
                pass
            verified = verify(reader)
            assert verified.clean <= (condition == "clean")
            _recover(reader, good, verified.clean, data)
            for rewrite in (pack, unpack):
                _rewritten(reader, rewrite, condition)
            for form in FORMS.values():
                _saved(reader, form.save)
    except CaptureError:
        return


def _look(entries: list[Entry]) -> None:
    schemas = SchemaSet()
    for entry in entries:
        if isinstance(entry.record, Schema):
            schemas.add(entry.record)
    for method in list(schemas.services)[:3]:
        for entry in entries:
            if isinstance(entry.record, Message):
                decoded = schemas.decode(f"/{method}/M", entry.record.direction, entry.record.payload)
                if decoded.message is not None:
                    lens.read(f"/{method}/M", decoded.message)


def _recover(reader: object, good: list[Entry], clean: bool, data: bytes) -> None:
    output = Memory()
    recover(reader, output)  # type: ignore[arg-type]
    recovered = bytes(output.data)
    assert not clean or recovered == data
    with opened_bytes(recovered) as again:
        assert verify(again).clean
        kept = sum(isinstance(item, Entry) and not isinstance(item.record, _INDEX) for item in again.scan())
    assert kept >= sum(not isinstance(entry.record, _INDEX) for entry in good) - _metas(good)


def _metas(good: list[Entry]) -> int:
    """Records that recovery leaves out: a second beginning."""
    return max(0, sum(entry.record.TYPE == RecordType.META for entry in good) - 1) + 1


def _rewritten(reader: object, rewrite: Callable[..., None], condition: str) -> None:
    output = Memory()
    try:
        rewrite(reader, output)
    except CaptureError:
        assert output.discarded
        return
    assert condition == "clean"
    assert output.finished


def _saved(reader: object, save: Callable[..., list[str]]) -> None:
    output = Memory()
    try:
        save(reader, output)
    except CaptureError:
        assert output.discarded


# --- targets ----------------------------------------------------------------------------------------------------------


def raw(data: bytes) -> None:
    """The bytes are the file; or, since none would have a good preamble, what follows one."""
    file(data)
    file(framing.pack_preamble(Preamble(1, 0, data[0] & 1 if data else 0, FILE_ID)) + data[1:])


def framed(data: bytes) -> None:
    """Records with right checksums, whose types, numbers and bodies are the bytes'; then a trailer, or none."""
    output = bytearray(framing.pack_preamble(Preamble(1, 0, 1, FILE_ID)))
    number, footer = 0, 0
    for kind, control, body in _pieces(data):
        number += 1 if control < 0xE0 else (control & 0x1F) - 8
        seq = max(1, min(number, (1 << 64) - 1))
        footer = len(output) if kind == RecordType.FOOTER else footer
        output += b"".join(framing.frame(_SEED, kind or 1, control & 0x80 and control & 1, seq, body, b""))
    if data[-1:] > b"\x40":
        output += framing.pack_trailer(framing.Trailer(footer, max(0, number), FILE_ID))
    file(bytes(output))


def _pieces(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Type, a byte that says what else is odd, and body."""
    at = 0
    while at + 3 <= len(data):
        kind, control, size = data[at : at + 3]
        yield kind % 14 if kind < 0xF0 else kind, control, data[at + 3 : at + 3 + size]
        at += 3 + size


def block(data: bytes) -> None:
    """A block whose content is the bytes, or whose compressed bytes they are."""
    bodies = [
        msgpack.packb({"n": max(1, data[0] % 8), "size": len(data) - 1, "z": zstandard.compress(data[1:])})
        if data
        else b"",
        msgpack.packb({"n": 1, "size": int.from_bytes(data[:4], "little"), "z": data[4:]}),
        data,
    ]
    output = bytearray(framing.pack_preamble(Preamble(1, 0, 1, FILE_ID)))
    for seq, body in enumerate(bodies, 1):
        output += b"".join(framing.frame(_SEED, RecordType.BLOCK, 0, seq * 1000, body, b""))
    file(bytes(output))


def form(data: bytes) -> None:
    """Files of other forms: told or not, loaded or refused with a sentence; what is loaded is a clean capture."""
    form_of(data)
    for each in FORMS.values():
        output = Memory()
        try:
            each.load(io.BytesIO(data), "file", output)
        except CaptureError as error:
            assert "\n" not in str(error).replace(data.decode("latin-1"), "")
            assert output.discarded
            continue
        with opened_bytes(bytes(output.data)) as reader:
            found = verify(reader)
            assert found.condition == "clean"
            assert not found.damage


TARGETS = {target.__name__: target for target in (raw, framed, block, form)}
