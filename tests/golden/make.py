"""Made the golden captures of `v1/`, once. It refuses to touch one that is there: they are what version 1 *is*.

    python tests/golden/make.py        adds those that are missing, with the expected events as JSON

A new record type, feature or condition gets a new file here. What an old file holds never changes; a reader that reads
it differently is wrong. `recorded.cap` is of a real server; the others are made here.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import msgpack  # noqa: E402

from capture_recorder.capfile import CaptureWriter, framing  # noqa: E402
from capture_recorder.capfile.index import INTERVAL_RECORDS  # noqa: E402
from capture_recorder.capfile.pack import pack  # noqa: E402
from capture_recorder.capfile.records import (  # noqa: E402
    Call,
    Cancel,
    Gap,
    HalfClose,
    Headers,
    Message,
    Meta,
    Note,
    Record,
    Redacted,
    Schema,
    Status,
)
from helpers.captures import Memory, opened_bytes, readable  # noqa: E402
from helpers.second_reader import KEYS, Second  # noqa: E402

FOLDER = Path(__file__).resolve().parent / "v1"
FILE_ID = b"golden01"
META = Meta(
    created_ns=1_796_000_000_123_456_789,
    clock_ns=987_654_321,
    program="golden",
    pid=4711,
    versions={"library": "capture-replay 0.1.0", "python": "3.11.7", "grpcio": "1.85.3", "protobuf": "7.36.2"},
    policy={"redact": ["authorization"]},
    redacts=("authorization",),
)


def schema() -> Schema:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="golden.proto", package="golden", syntax="proto3")
    ping = file.message_type.add(name="Ping")
    ping.field.add(name="text", number=1, type=9, label=1, json_name="text")
    service = file.service.add(name="Echo")
    for name, asks, answers in (
        ("Say", False, False),
        ("List", False, True),
        ("Sum", True, False),
        ("Chat", True, True),
    ):
        service.method.add(
            name=name, input_type=".golden.Ping", output_type=".golden.Ping",
            client_streaming=asks, server_streaming=answers,
        )  # fmt: skip
    return Schema(services=("golden.Echo",), files=descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())


def ping(text: str) -> bytes:
    return b"\x0a" + bytes([len(text)]) + text.encode()


def call(number: int, name: str, kind: str, t: int, **more: object) -> Call:
    fields = {"peer": "ipv4:127.0.0.1:50000", "authority": "localhost", **more}
    return Call(call=number, time_ns=t, method=f"/golden.Echo/{name}", kind=kind, **fields)  # type: ignore[arg-type]


def message(number: int, direction: int, index: int, t: int, payload: bytes) -> Message:
    return Message(call=number, direction=direction, index=index, time_ns=t, payload=payload)


def kinds() -> list[Record]:
    """A call of each kind of RPC, as they end well."""
    return [
        META,
        schema(),
        call(1, "Say", "unary", 10, metadata=(("k", b"v"), ("k", b"w"), ("x-bin", b"\x00\xff"))),
        message(1, 0, 0, 20, ping("one")),
        message(1, 1, 0, 30, ping("one")),
        Status(call=1, time_ns=40, code=0),
        call(2, "List", "server_streaming", 50, time_left_ns=5_000_000_000),
        message(2, 0, 0, 60, ping("two")),
        Headers(call=2, time_ns=70, metadata=(("first", b"1"),)),
        message(2, 1, 0, 80, ping("two")),
        message(2, 1, 1, 90, b""),
        Status(call=2, time_ns=100, code=0, metadata=(("last", b"1"),)),
        call(3, "Sum", "client_streaming", 110),
        message(3, 0, 0, 120, ping("a")),
        message(3, 0, 1, 130, ping("b")),
        HalfClose(call=3, time_ns=140),
        message(3, 1, 0, 150, ping("ab")),
        Status(call=3, time_ns=160, code=0),
        call(4, "Chat", "bidi", 170),
        message(4, 0, 0, 180, ping("hello")),
        message(4, 1, 0, 190, ping("hello")),
        message(4, 0, 1, 200, b"\x12\x00\x0a\x01x"),
        message(4, 1, 1, 210, b"\x0a\x01x"),
        HalfClose(call=4, time_ns=220),
        Status(call=4, time_ns=230, code=0),
    ]


def ends() -> list[Record]:
    """Calls that end badly, or do not end."""
    return [
        META,
        call(1, "Say", "unary", 10, metadata=(("authorization", Redacted(7, b"12345678")),)),
        message(1, 0, 0, 20, ping("x")),
        Status(call=1, time_ns=30, code=9, message="not now, ü", metadata=(("grpc-status-details-bin", b"\x08\x09"),)),
        call(2, "Chat", "bidi", 40),
        message(2, 0, 0, 50, ping("x")),
        Cancel(call=2, time_ns=60),
        call(3, "Chat", "bidi", 70),
        Cancel(call=3, time_ns=80, why="deadline"),
        call(4, "Missing", "unknown", 90, compression="gzip"),
        Status(call=4, time_ns=100, code=12, message="Method not found!"),
        call(5, "Chat", "bidi", 110),
        message(5, 1, 0, 120, ping("unasked")),
    ]


def write(
    records: Sequence[Record],
    *,
    file_id: bytes = FILE_ID,
    close: bool = True,
    then: Callable[[CaptureWriter], None] | None = None,
) -> bytes:
    output = Memory()
    writer = CaptureWriter(output, file_id=file_id)  # type: ignore[arg-type]
    for record in records:
        writer.append(record)
    if then:
        then(writer)
    if close:
        writer.close()
    return bytes(output.data)


def packed(data: bytes) -> bytes:
    output = Memory()
    with opened_bytes(data) as reader:
        pack(reader, output)  # type: ignore[arg-type]
    return bytes(output.data)


def offsets(data: bytes) -> list[int]:
    return [at for at in range(len(data)) if data.startswith(framing.SYNC, at)]


def changed(data: bytes, at: int, bit: int = 0) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def unknown(writer: CaptureWriter) -> None:
    writer.append_raw(200, 0, b"a skippable record of a later version")
    writer.append_raw(128, 0x80, b"\x81\xa4text\xa9with flag")
    writer.append(Note(text="a later key", about=3, extra={"colour": "red", "nested": {"a": [1, None, True, b"\x00"]}}))


def critical(writer: CaptureWriter) -> None:
    writer.append_raw(100, 0, b"\x81\xa1x\x01")


def files() -> dict[str, bytes]:
    """Every golden file by its name."""
    whole, long = write(kinds()), [META, call(1, "Chat", "bidi", 1)]
    long += [message(1, i % 2, i // 2, 2 + i, b"%d" % i) for i in range(INTERVAL_RECORDS + 100)]
    starts = offsets(whole)
    remarks = [
        Gap(time_ns=240, why="disk full", events=3, size=100),
        Gap(time_ns=250, why="message too large", call=4, events=1, size=5000),
        Note(text="look at this", about=20),
        Note(text="and in general: \x1b[31mred\x1b[0m"),
    ]
    swapped = bytearray(whole)
    a, b, c = starts[5], starts[6], starts[7]
    swapped[a:c] = whole[b:c] + whole[a:b]
    zeroed = bytearray(whole)
    zeroed[starts[8] + 4 : starts[10] + 4] = bytes(starts[10] - starts[8])
    return {
        "kinds": whole,
        "ends": write(ends()),
        "gaps-and-notes": write([*kinds(), *remarks]),
        "derived": write([Meta(created_ns=1, clock_ns=2, side="client", derived={"from": ["00" * 8], "by": "cut"})]),
        "unknown-skippable": write(kinds(), then=unknown),
        "unknown-critical": write(kinds(), then=critical),
        "empty": write([META]),
        "long": write(long),
        "packed": packed(write(kinds())),
        "packed-long": packed(write(long)),
        "torn-between-records": write(kinds(), close=False),
        "torn-in-a-record": write(kinds(), close=False)[:-7],
        "torn-in-the-trailer": whole[:-20],
        "torn-packed": packed(write(long))[:-300],
        "zeros-at-the-end": write(kinds(), close=False) + bytes(4096),
        "damaged-body": changed(whole, starts[9] + 30),
        "damaged-head": changed(whole, starts[9] + 8),
        "damaged-trailer": changed(whole, len(whole) - 12),
        "damaged-footer": changed(whole, starts[-1] + 40),
        "damaged-packed": changed(packed(whole), 300),
        "record-missing": whole[: starts[9]] + whole[starts[10] :],
        "record-twice": whole[: starts[10]] + whole[starts[9] :],
        "records-swapped": bytes(swapped),
        "records-zeroed": bytes(zeroed),
        "something-inserted": whole[: starts[9]] + b"\xff" * 100 + whole[starts[9] :],
        "something-after-the-trailer": whole + b"more",
        "unreadable-preamble": changed(whole, 20),
        "refused-version": framing.pack_preamble(framing.Preamble(2, 0, 0, FILE_ID)) + whole[32:],
        "refused-feature": framing.pack_preamble(framing.Preamble(1, 0, 1 << 31, FILE_ID)) + whole[32:],
        "later-minor-version": framing.pack_preamble(framing.Preamble(1, 7, 0, FILE_ID)) + whole[32:],
        "capture-in-a-broken-message": changed(
            write(
                [
                    META,
                    call(1, "Chat", "bidi", 1),
                    message(1, 0, 0, 2, b"x" + write(ends(), file_id=b"another1")),
                    message(1, 0, 1, 3, b"y"),
                ]
            ),
            offsets(write([META, call(1, "Chat", "bidi", 1)]))[-2],
        ),
    }


def expected(data: bytes) -> dict[str, object]:
    """What is in a file, as the second reader, which is written from FORMAT.md alone, finds it: each record's body in
    hex, and of a known one its keys, where bytes are `{"hex": …}`."""
    found = Second(data)
    records = [
        {"seq": seq, "type": kind, "flags": flags, "body": body.hex()}
        | ({"fields": readable(msgpack.unpackb(body))} if kind in KEYS and not flags else {})
        for seq, kind, flags, body in found.records
    ]
    return {"condition": found.condition, "damage": found.damaged, "records": records}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, data in files().items():
        path = FOLDER / f"{name}.cap"
        if path.exists():
            continue
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            file.write(data)
    for path in sorted(FOLDER.glob("*.cap")):
        if path.with_suffix(".json").exists():
            continue
        lines = json.dumps(expected(path.read_bytes())).replace('{"seq"', '\n {"seq"')
        path.with_suffix(".json").write_text(lines + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
