"""A message as leaves: the same leaves exactly where protobuf sees the same message. Held against protobuf itself."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from capture_recorder.capfile import fields as fields_module
from capture_recorder.capfile.fields import Undecodable, changed, flatten
from capture_recorder.capfile.paths import text

F = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "double": F.TYPE_DOUBLE, "float": F.TYPE_FLOAT, "int64": F.TYPE_INT64, "uint64": F.TYPE_UINT64,
    "int32": F.TYPE_INT32, "fixed64": F.TYPE_FIXED64, "fixed32": F.TYPE_FIXED32, "bool": F.TYPE_BOOL,
    "string": F.TYPE_STRING, "bytes": F.TYPE_BYTES, "uint32": F.TYPE_UINT32, "sfixed32": F.TYPE_SFIXED32,
    "sfixed64": F.TYPE_SFIXED64, "sint32": F.TYPE_SINT32, "sint64": F.TYPE_SINT64, "enum": F.TYPE_ENUM,
}  # fmt: skip


def _file(syntax: str) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=f"{syntax}.proto", package=syntax, syntax=syntax)
    color = file.enum_type.add(name="Color")
    for number, name in enumerate(["RED", "GREEN"]):
        color.value.add(name=name, number=number)
    rich = file.message_type.add(name="Rich")

    def add(name: str, kind: int, label: int = F.LABEL_OPTIONAL, **more: Any) -> Any:
        type_name = {F.TYPE_ENUM: f".{syntax}.Color"}.get(kind, more.pop("type_name", None))
        return rich.field.add(
            name=name, number=len(rich.field) + 1, type=kind, label=label, type_name=type_name, **more
        )

    for name, kind in SCALARS.items():
        add(name, kind)
    for name, kind in SCALARS.items():
        add(f"many_{name}", kind, F.LABEL_REPEATED)
    rich.oneof_decl.add(name="choice")
    add("a_number", F.TYPE_INT32, oneof_index=0)
    add("a_text", F.TYPE_STRING, oneof_index=0)
    add("a_rich", F.TYPE_MESSAGE, oneof_index=0, type_name=f".{syntax}.Rich")
    for place, name in enumerate(("int32", "string", "double"), 1):
        more = {"proto3_optional": True, "oneof_index": place} if syntax == "proto3" else {}
        add(f"maybe_{name}", SCALARS[name], **more)
        if more:
            rich.oneof_decl.add(name=f"_maybe_{name}")
    add("inner", F.TYPE_MESSAGE, type_name=f".{syntax}.Rich")
    add("inners", F.TYPE_MESSAGE, F.LABEL_REPEATED, type_name=f".{syntax}.Rich")
    for name, key, value in (
        ("labels", "string", "string"),
        ("by_number", "int32", "inner"),
        ("by_bool", "bool", "enum"),
    ):
        camel = "".join(part.capitalize() for part in name.split("_"))
        entry = rich.nested_type.add(name=f"{camel}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=SCALARS[key], label=F.LABEL_OPTIONAL)
        kind = F.TYPE_MESSAGE if value == "inner" else SCALARS[value]
        type_name = {F.TYPE_MESSAGE: f".{syntax}.Rich", F.TYPE_ENUM: f".{syntax}.Color"}.get(kind)
        entry.field.add(name="value", number=2, type=kind, label=F.LABEL_OPTIONAL, type_name=type_name)
        add(name, F.TYPE_MESSAGE, F.LABEL_REPEATED, type_name=f".{syntax}.Rich.{camel}Entry")
    return file


POOL = descriptor_pool.DescriptorPool()
for _syntax in ("proto2", "proto3"):
    POOL.Add(_file(_syntax))  # type: ignore[no-untyped-call]
RICH: dict[str, Any] = {
    syntax: message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"{syntax}.Rich"))
    for syntax in ("proto2", "proto3")
}


def leaves(payload: bytes, syntax: str = "proto3") -> dict[str, Any]:
    found = flatten(RICH[syntax].DESCRIPTOR, payload)
    return {text(path): leaf.value for path, leaf in found.items()}


def number_of(name: str, syntax: str = "proto3") -> int:
    number: int = RICH[syntax].DESCRIPTOR.fields_by_name[name].number
    return number


def varint(value: int, pad: int = 0) -> bytes:
    out = bytearray()
    while value > 0x7F or pad > len(out):
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def tag(name: str, wire_type: int, pad: int = 0) -> bytes:
    return varint(number_of(name) << 3 | wire_type, pad)


def length_delimited(name: str, content: bytes) -> bytes:
    return tag(name, 2) + varint(len(content)) + content


# --- pieces of a payload, as a hostile or only an old encoder may write them ------------------------------------------

NUMBERS = st.sampled_from([0, 1, 2, 127, 128, 300, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
WORDS = st.sampled_from(["", "a", "b", "é", "a.b", "['x']"])
BITS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])


def _pieces(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """One field, somehow written."""
    pads = st.integers(0, 3)
    by_varint = [
        n for n, k in SCALARS.items() if n in ("int64", "uint64", "int32", "bool", "uint32", "sint32", "sint64")
    ]
    names = [*by_varint, *(f"many_{name}" for name in by_varint), "maybe_int32", "a_number", "enum", "many_enum"]

    def one(name: str, value: int, pad: int, tag_pad: int) -> bytes:
        return tag(name, 0, tag_pad) + varint(value, pad)

    def packed(name: str, values: list[int]) -> bytes:
        return length_delimited(name, b"".join(map(varint, values)))

    def entry(name: str, key: bytes, value: bytes, flags: int) -> bytes:
        parts = [key] * (flags & 1) + [value] * (flags >> 1 & 1)
        return length_delimited(name, b"".join(reversed(parts) if flags & 4 else parts))

    text_pieces = st.builds(
        lambda name, word: length_delimited(name, word.encode()),
        st.sampled_from(["string", "bytes", "many_string", "many_bytes", "maybe_string", "a_text"]), WORDS,
    )  # fmt: skip
    double, single = (
        st.sampled_from(names) for names in (["double", "many_double", "maybe_double"], ["float", "many_float"])
    )
    fixed = st.sampled_from(["fixed64", "sfixed64", "many_fixed64"])
    flags = st.integers(0, 7)

    def key_text(word: str) -> bytes:
        return b"\x0a" + varint(len(word.encode())) + word.encode()

    def value(content: bytes) -> bytes:
        return b"\x12" + varint(len(content)) + content

    return st.one_of(
        st.builds(one, st.sampled_from(names), NUMBERS, pads, pads),
        st.builds(packed, st.sampled_from([f"many_{name}" for name in by_varint]), st.lists(NUMBERS, max_size=3)),
        st.builds(lambda name, x: tag(name, 1) + struct.pack("<d", x), double, BITS),
        st.builds(lambda name, x: tag(name, 5) + struct.pack("<f", x), single, BITS),
        st.builds(lambda name, x: tag(name, 1) + struct.pack("<Q", x), fixed, NUMBERS),
        text_pieces,
        st.builds(length_delimited, st.sampled_from(["inner", "inners", "a_rich"]), inner),
        st.builds(lambda k, v, f: entry("labels", key_text(k), value(v.encode()), f), WORDS, WORDS, flags),
        st.builds(lambda k, v, f: entry("by_number", b"\x08" + varint(k), value(v), f), NUMBERS, inner, flags),
        st.builds(
            lambda k, v, f: entry("by_bool", b"\x08" + varint(k), b"\x10" + varint(v), f), NUMBERS, NUMBERS, flags
        ),
    )


PAYLOADS = st.recursive(st.just(b""), lambda inner: st.lists(_pieces(inner), max_size=5).map(b"".join), max_leaves=6)


def parsed(payload: bytes, syntax: str) -> Any:
    return RICH[syntax].FromString(payload)


def canonical(payload: bytes, syntax: str) -> bytes:
    """As protobuf writes what it read; of one payload that it wrote itself this is the whole message."""
    data: bytes = parsed(payload, syntax).SerializeToString(deterministic=True)
    return data


@pytest.mark.parametrize("syntax", ["proto3", "proto2"])
@given(payload=PAYLOADS)
@settings(max_examples=300, deadline=None)
def test_what_protobuf_writes_again_has_the_same_leaves(payload: bytes, syntax: str) -> None:
    assert leaves(payload, syntax) == leaves(canonical(payload, syntax), syntax)


@pytest.mark.parametrize("syntax", ["proto3", "proto2"])
@given(a=PAYLOADS, b=PAYLOADS)
@settings(max_examples=300, deadline=None)
def test_two_payloads_have_the_same_leaves_exactly_if_they_are_the_same_message(
    a: bytes, b: bytes, syntax: str
) -> None:
    assert (leaves(a, syntax) == leaves(b, syntax)) == (canonical(a, syntax) == canonical(b, syntax))


@given(pieces=st.lists(_pieces(st.just(b"")), max_size=6), data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_message_in_two_pieces_is_merged_as_protobuf_merges(pieces: list[bytes], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(pieces)))
    whole = length_delimited("inner", b"".join(pieces))
    parts = length_delimited("inner", b"".join(pieces[:cut])) + length_delimited("inner", b"".join(pieces[cut:]))
    assert leaves(parts) == leaves(whole)


@given(payload=st.binary(max_size=200))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_a_message_or_undecodable(payload: bytes) -> None:
    try:
        leaves(payload)
    except Undecodable as error:
        assert "offset" in str(error) or "more than" in str(error)


def message(**values: Any) -> bytes:
    data: bytes = RICH["proto3"](**values).SerializeToString(deterministic=True)
    return data


@pytest.mark.parametrize(
    ("a", "b", "paths"),
    [
        (message(string="a"), message(string="b"), ["string"]),
        (message(), message(inner={}), ["inner"]),
        (message(inner={}), message(inner={"int32": 1}), ["inner", "inner.int32"]),
        (message(many_int32=[1, 2, 3]), message(many_int32=[1, 5, 3]), ["many_int32[1]"]),
        (message(many_int32=[1]), message(many_int32=[1, 0]), ["many_int32[1]"]),
        (message(labels={"a.b": "x"}), message(labels={"a.b": "y"}), ["labels['a.b']"]),
        (message(by_number={7: {"string": "x"}}), message(by_number={7: {}}), ["by_number[7].string", "by_number[7]"]),
        (message(by_bool={True: 1}), message(by_bool={}), ["by_bool[true]"]),
        (message(a_number=0), message(), ["a_number"]),
        (message(maybe_int32=0), message(), ["maybe_int32"]),
        (message(a_text="x"), message(a_number=1), ["a_text", "a_number"]),
        (message(enum=1), message(enum=5), ["enum"]),
        (b"\xf8\x3f\x01", b"\xf8\x3f\x02", ["#1023[0]"]),
        (length_delimited("inner", b"\xf8\x3f\x01"), length_delimited("inner", b""), ["inner.#1023[0]", "inner"]),
    ],
)  # fmt: skip
def test_where_two_messages_differ(a: bytes, b: bytes, paths: list[str]) -> None:
    descriptor = RICH["proto3"].DESCRIPTOR
    assert [text(path) for path in changed(flatten(descriptor, a), flatten(descriptor, b))] == paths


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"enum": 1}, "GREEN"),
        ({"enum": 9}, "9"),
        ({"bool": True}, "true"),
        ({"string": "a\x1b[1m"}, "'a\\x1b[1m'"),
        ({"bytes": b"\x00" * 40}, "00" * 24 + "… (40 bytes)"),
        ({"double": 1.5}, "1.5"),
        ({"sint32": -3}, "-3"),
        ({"inner": {}}, "(set, and empty)"),
    ],
)
def test_a_value_in_few_characters(values: dict[str, Any], told: str) -> None:
    (leaf,) = flatten(RICH["proto3"].DESCRIPTOR, message(**values)).values()
    assert leaf.text() == told


def test_a_leaf_knows_where_it_stands() -> None:
    payload = message(string="abc", int32=300)
    found = {
        text(path): payload[leaf.start : leaf.end] for path, leaf in flatten(RICH["proto3"].DESCRIPTOR, payload).items()
    }
    assert found == {"int32": payload[:3], "string": b"J\x03abc"}


def test_a_number_that_a_closed_enum_does_not_have_is_unknown() -> None:
    payload = varint(number_of("enum", "proto2") << 3) + b"\x05"
    assert leaves(payload, "proto2") == {f"#{number_of('enum', 'proto2')}[0]": 5}


def _nested(depth: int) -> bytes:
    payload = b""
    for _ in range(depth):
        payload = length_delimited("inner", payload)
    return payload


HOSTILE: dict[str, Callable[[], bytes]] = {
    "nested deep": lambda: _nested(10_000),
    "groups nested deep": lambda: b"\xfb\x3f" * 50_000,
    "a million unknown fields": lambda: b"\xf8\x3f\x01" * 1_000_000,
    "a million packed numbers": lambda: length_delimited("many_int32", b"\x01" * 1_000_000),
    "a million empty elements": lambda: length_delimited("inners", b"") * 500_000,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_payload_is_refused_before_it_costs_much(what: str) -> None:
    with pytest.raises(Undecodable):
        leaves(HOSTILE[what]())
    assert fields_module.MAX_LEAVES <= 200_000
