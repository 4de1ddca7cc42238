"""The schema in a capture: whole, linked without the server's code, hostile or not; and from a byte to its field."""

from __future__ import annotations

import struct

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from capture_proto.shard_runtime.v1 import shard_runtime_pb2 as pb
from capture_recorder.capfile import wire
from capture_recorder.capfile.records import Schema
from capture_recorder.capfile.schema import SchemaSet, files_of
from capture_server.build import chunk, tensor

SERVICE = "shard_runtime.v1.ShardRuntime"
SESSION = f"/{SERVICE}/Session"
F = descriptor_pb2.FieldDescriptorProto


def shard() -> SchemaSet:
    found = files_of(SERVICE)
    assert found is not None
    schemas = SchemaSet()
    schemas.add(Schema(services=(SERVICE,), files=found[0]))
    return schemas


def everything() -> tuple[SchemaSet, descriptor_pool.DescriptorPool]:
    """A service whose request has a field of every sort, in two files, one importing the other."""
    imported = descriptor_pb2.FileDescriptorProto(name="part.proto", package="p", syntax="proto3")
    imported.message_type.add(name="Part").field.add(name="text", number=1, type=F.TYPE_STRING, label=1)
    file = descriptor_pb2.FileDescriptorProto(name="all.proto", package="p", syntax="proto3", dependency=["part.proto"])
    file.enum_type.add(name="Colour").value.add(name="RED", number=0)
    file.enum_type[0].value.add(name="BLUE", number=1)
    message = file.message_type.add(name="All")
    for number, name, kind, label in (
        (1, "number", F.TYPE_INT32, 1),
        (2, "zigzag", F.TYPE_SINT64, 1),
        (3, "flag", F.TYPE_BOOL, 1),
        (4, "packed", F.TYPE_UINT32, 3),
        (5, "fixed", F.TYPE_FIXED32, 3),
        (6, "data", F.TYPE_BYTES, 1),
        (7, "words", F.TYPE_STRING, 3),
        (11, "double", F.TYPE_DOUBLE, 1),
        (12, "single", F.TYPE_FLOAT, 1),
        (13, "signed", F.TYPE_SFIXED32, 1),
    ):
        message.field.add(name=name, number=number, type=kind, label=label)
    message.field.add(name="colour", number=8, type=F.TYPE_ENUM, type_name=".p.Colour", label=1)
    message.field.add(name="parts", number=9, type=F.TYPE_MESSAGE, type_name=".p.Part", label=3)
    message.field.add(name="by_name", number=10, type=F.TYPE_MESSAGE, type_name=".p.All.ByNameEntry", label=3)
    entry = message.nested_type.add(name="ByNameEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=F.TYPE_MESSAGE, type_name=".p.Part", label=1)
    file.service.add(name="S").method.add(name="M", input_type=".p.All", output_type=".p.All")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(imported)
    pool.Add(file)
    found = files_of("p.S", pool)
    assert found is not None
    schemas = SchemaSet()
    schemas.add(Schema(services=("p.S",), files=found[0]))
    return schemas, pool


def test_imports_come_before_their_importers_and_once() -> None:
    _, pool = everything()
    found = files_of("p.S", pool)
    assert found is not None
    assert found[1] == ("part.proto", "all.proto")
    again = files_of("p.S", pool, have=("part.proto",))
    assert again is not None
    assert again[1] == ("all.proto",)
    assert files_of("p.Unknown", pool) is None


def test_messages_are_decoded_without_the_generated_code() -> None:
    schemas = shard()
    request = chunk("s", "w", 3, [tensor("t", b"abc")])
    decoded = schemas.decode(SESSION, 0, request.SerializeToString())
    assert decoded.type_name == schemas.type_of(SESSION, 0) == "shard_runtime.v1.SessionRequest"
    assert type(decoded.message) is not pb.SessionRequest
    body = schemas.as_json(decoded)
    assert body is not None
    assert body["chunk"]["envelope"]["idempotency_step"] == "3"
    assert body["chunk"]["bundle"]["tensors"][0]["dtype"] == "DTYPE_U8"


def test_what_does_not_decode_says_so_and_what_has_no_type_has_no_error() -> None:
    assert "not a shard_runtime.v1.SessionRequest" in (shard().decode(SESSION, 0, b"\x0a\xff").error or "")
    unknown = shard().decode("/other.Service/Method", 0, b"\x0a\xff")
    assert (unknown.type_name, unknown.message, unknown.error) == (None, None, None)
    assert shard().type_of("/other.Service/Method", 0) is None


@pytest.mark.parametrize("files", [b"\xff\xff", b"\x0a\x05\x0a\x03abc\x0a\x05\x0a\x03abc", b""])
def test_hostile_descriptors_do_no_more_than_not_decode(files: bytes) -> None:
    schemas = SchemaSet()
    schemas.add(Schema(services=("x.Y",), files=files))
    assert schemas.decode("/x.Y/Z", 0, b"").message is None


def test_descriptors_that_do_not_link_are_told() -> None:
    bad = descriptor_pb2.FileDescriptorSet()
    file = bad.file.add(name="bad.proto", package="x", syntax="proto3", dependency=["not-there.proto"])
    file.message_type.add(name="M").field.add(name="f", number=1, type=F.TYPE_MESSAGE, type_name=".no.Such", label=1)
    file.service.add(name="Y").method.add(name="Z", input_type=".x.M", output_type=".x.M")
    schemas = SchemaSet()
    schemas.add(Schema(services=("x.Y",), files=bad.SerializeToString()))
    assert schemas.decode("/x.Y/Z", 0, b"\x0a\x00").message is None
    assert schemas.locate("/x.Y/Z", 0, b"\x0a\x00", 0) is None
    (problem,) = schemas.problems
    assert problem.startswith("bad.proto does not link: ")


def service(*fields: str) -> descriptor_pb2.FileDescriptorProto:
    """A file whose service takes a message of text fields of these names."""
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="p", syntax="proto3")
    message = file.message_type.add(name="M")
    for number, name in enumerate(fields, 1):
        message.field.add(name=name, number=number, type=F.TYPE_STRING, label=1)
    file.service.add(name="S").method.add(name="M", input_type=".p.M", output_type=".p.M")
    return file


def schema_of(*files: descriptor_pb2.FileDescriptorProto) -> SchemaSet:
    schemas = SchemaSet()
    schemas.add(Schema(services=(), files=descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()))
    return schemas


def test_a_file_twice_is_one_file_and_another_of_its_name_a_problem() -> None:
    assert schema_of(service("a"), service("a")).problems == []
    schemas = schema_of(service("a"), service("b"))
    assert len(schemas.problems) == 1
    assert "duplicate file name" in schemas.problems[0]
    assert schemas.as_json(schemas.decode("/p.S/M", 0, b"\x0a\x01x")) == {"a": "x"}


@pytest.mark.parametrize("name", ["ListFields", "ParseFromString", "DESCRIPTOR", "WhichOneof", "__class__"])
def test_fields_that_are_called_like_methods_raise_nothing(name: str) -> None:
    schemas = schema_of(service(name))
    decoded = schemas.decode("/p.S/M", 0, b"\x0a\x01x")
    assert decoded.type_name in ("p.M", None)
    schemas.as_json(decoded)
    location = schemas.locate("/p.S/M", 0, b"\x0a\x01x", 2)
    assert location is None or location.path == name


def test_a_well_known_type_of_another_shape_has_no_json() -> None:
    name = "google/protobuf/timestamp.proto"
    fake = descriptor_pb2.FileDescriptorProto(name=name, package="google.protobuf", syntax="proto3")
    fake.message_type.add(name="Timestamp").field.add(name="x", number=1, type=F.TYPE_STRING, label=1)
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="p", syntax="proto3", dependency=[name])
    method = file.service.add(name="S").method.add(name="M")
    method.input_type = method.output_type = ".google.protobuf.Timestamp"
    schemas = schema_of(fake, file)
    decoded = schemas.decode("/p.S/M", 0, b"\x0a\x01x")
    assert decoded.error is None
    assert schemas.as_json(decoded) is None


def test_a_message_nested_too_deep_is_an_error_and_no_crash() -> None:
    from google.protobuf import struct_pb2

    file = descriptor_pb2.FileDescriptorProto(
        name="deep.proto", package="d", syntax="proto3", dependency=["google/protobuf/struct.proto"]
    )
    value = ".google.protobuf.Value"
    file.service.add(name="S").method.add(name="M", input_type=value, output_type=value)
    pool = descriptor_pool.DescriptorPool()
    struct = descriptor_pb2.FileDescriptorProto()
    struct_pb2.DESCRIPTOR.CopyToProto(struct)
    pool.Add(struct)
    pool.Add(file)
    found = files_of("d.S", pool)
    assert found is not None
    schemas = SchemaSet()
    schemas.add(Schema(services=("d.S",), files=found[0]))
    payload = b""
    for _ in range(1000):
        payload = _nested(payload)
    decoded = schemas.decode("/d.S/M", 0, payload)
    assert decoded.error is not None or schemas.as_json(decoded) is None
    assert schemas.locate("/d.S/M", 0, payload, len(payload) - 1) is not None


def _nested(payload: bytes) -> bytes:
    """A Value that is a list of one Value."""
    return _field(6, _field(1, payload))


def _field(number: int, payload: bytes) -> bytes:
    size, head = len(payload), bytearray([number << 3 | 2])
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    head.append(size)
    return bytes(head) + payload


def test_every_byte_of_a_message_belongs_to_a_field() -> None:
    schemas = shard()
    request = chunk("s", "work", 3, [tensor("a", b"abc"), tensor("b", bytes(100), parts=2)])
    payload = request.SerializeToString()
    found = {}
    for offset in range(len(payload)):
        location = schemas.locate(SESSION, 0, payload, offset)
        assert location is not None
        assert location.start <= offset < location.end
        found[location.path] = location
    assert found["chunk.envelope.work_id"].value == "'work'"
    assert found["chunk.envelope.phase"].value == "PHASE_PREFILL (1)"
    assert found["chunk.bundle.tensors[0].name"].value == "'a'"
    assert found["chunk.bundle.tensors[1].fragments[1].payload"].value == "00" * 24 + "… (50 bytes)"
    assert found["chunk.bundle.tensors[1].shape[0]"].value == "100"
    assert found["chunk.bundle.tensors[0].checksum.value"].value == "364b3fb7"


def test_fields_of_every_sort_have_a_path_and_a_value() -> None:
    schemas, _ = everything()
    payload = (
        b"\x08" + b"\xff" * 9 + b"\x01"  # number = -1
        b"\x10\x03"  # zigzag = -2
        b"\x18\x01"  # flag
        b"\x22\x03\x01\xac\x02"  # packed = 1, 300
        b"\x2a\x08\x01\x00\x00\x00\x02\x00\x00\x00"  # fixed = 1, 2
        b"\x32\x02\xff\xfe"  # data
        b"\x3a\x01a\x3a\x01b"  # words
        b"\x40\x01"  # colour
        b"\x4a\x03\x0a\x01x"  # parts[0].text
        b"\x52\x0a\x0a\x03key\x12\x03\x0a\x01v"  # by_name["key"].text
        b"\xa2\x06\x02hi"  # 100, which the schema does not have
    )
    paths = {}
    for offset in range(len(payload)):
        location = schemas.locate("/p.S/M", 0, payload, offset)
        assert location is not None
        paths[location.path] = location.value
    assert paths == {
        "number": "-1",
        "zigzag": "-2",
        "flag": "true",
        "packed": "3 bytes, packed",
        "packed[0]": "1",
        "packed[1]": "300",
        "fixed": "8 bytes, packed",
        "fixed[0]": "1",
        "fixed[1]": "2",
        "data": "fffe",
        "words[0]": "'a'",
        "words[1]": "'b'",
        "colour": "BLUE (1)",
        "parts[0]": "3 bytes",
        "parts[0].text": "'x'",
        "by_name['key']": "10 bytes",
        "by_name['key'].key": "'key'",
        "by_name['key'].value": "3 bytes",
        "by_name['key'].value.text": "'v'",
        "#100": "6869",
    }
    assert [field.number for field in wire.fields(payload)] == [1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 100]


@pytest.mark.parametrize(
    ("data", "offset", "path", "value"),
    [
        (b"\x22\x02\x01\x02\x20\x07\x22\x01\x09", 5, "packed[2]", "7"),  # packed, then not, then packed
        (b"\x22\x02\x01\x02\x20\x07\x22\x01\x09", 8, "packed[3]", "9"),
        (b"\x22\x02\x01\x80", 3, "packed", "2 bytes, packed"),
        (b"\x2a\x05\x01\x00\x00\x00\x02", 6, "fixed", "5 bytes, packed"),
        (b"\x59" + struct.pack("<d", 1.5), 3, "double", "1.5"),
        (b"\x65" + struct.pack("<f", 0.25), 3, "single", "0.25"),
        (b"\x6d\xff\xff\xff\xff", 3, "signed", "-1"),
        (b"\x08\xff\xff\xff\xff\x0f", 1, "number", "-1"),  # an int32 takes the low 32 bits
        (b"\x40\x09", 1, "colour", "9"),
        (b"\x48\x0a", 1, "#9", "10"),  # a message that is written as a number is unknown, as it is to protobuf
        (b"\x32\x28" + bytes(40), 9, "data", "00" * 24 + "… (40 bytes)"),
        (b"\x52\x05\x12\x03\x0a\x01v", 6, "by_name[''].value.text", "'v'"),  # a map's key may be left out
        (b"\x3a\x02\xff\xfe", 2, "words[0]", "fffe"),
    ],
)
def test_a_byte_and_its_field(data: bytes, offset: int, path: str, value: str) -> None:
    location = everything()[0].locate("/p.S/M", 0, data, offset)
    assert location is not None
    assert (location.path, location.value) == (path, value)


def test_a_value_is_short_and_safe_for_a_terminal() -> None:
    for text in ("x" * 1000, "\x1b" * 90, "\u202e" * 20, "\u3164"):
        data = _field(7, text.encode())
        location = everything()[0].locate("/p.S/M", 0, data, len(data) - 1)
        assert location is not None
        assert len(location.value) <= 80
        assert location.value.isprintable()
        assert "\u3164" not in location.value


def test_past_the_end_is_the_last_field_and_nonsense_is_none() -> None:
    schemas, _ = everything()
    location = schemas.locate("/p.S/M", 0, b"\x18\x01\x40\x01", 99)
    assert location is not None
    assert location.path == "colour"
    assert schemas.locate("/p.S/M", 0, b"", 0) is None
    assert schemas.locate("/p.S/M", 0, b"\xff\xff", 0) is None
