"""A small service with a schema, made without generated code: `odd.v1.Odd`, whose answers have something of each kind
that a comparison has to take apart."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "odd.v1.Odd"
F = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"string": F.TYPE_STRING, "int64": F.TYPE_INT64, "uint64": F.TYPE_UINT64, "bytes": F.TYPE_BYTES}


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="odd/v1/odd.proto", package="odd.v1", syntax="proto3")
    code = file.enum_type.add(name="Code")
    for number, name in enumerate(["CODE_UNSPECIFIED", "CODE_DEADLINE_EXCEEDED", "CODE_REFUSED"]):
        code.value.add(name=name, number=number)
    _message(file, "Order", {"words": "string", "number": "int64", "deadline_unix_nanos": "int64", "extra": "string"})
    _message(file, "Item", {"id": "string", "count": "int64"})
    answer = _message(
        file, "Answer", {"echo": "string", "number": "int64", "id": "string", "created_at": "int64", "price": "uint64"}
    )
    entry = answer.nested_type.add(name="LabelsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(["key", "value"], 1):
        entry.field.add(name=name, number=number, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    repeated = F.LABEL_REPEATED
    answer.field.add(
        name="labels", number=6, type=F.TYPE_MESSAGE, label=repeated, type_name=".odd.v1.Answer.LabelsEntry"
    )
    answer.field.add(name="items", number=7, type=F.TYPE_MESSAGE, label=repeated, type_name=".odd.v1.Item")
    answer.field.add(name="code", number=8, type=F.TYPE_ENUM, label=F.LABEL_OPTIONAL, type_name=".odd.v1.Code")
    service = file.service.add(name="Odd")
    for name, streams in (("Ask", False), ("Talk", True)):
        service.method.add(
            name=name,
            input_type=".odd.v1.Order",
            output_type=".odd.v1.Answer",
            client_streaming=streams,
            server_streaming=streams,
        )
    return file


def _message(
    file: descriptor_pb2.FileDescriptorProto, name: str, fields: dict[str, str]
) -> descriptor_pb2.DescriptorProto:
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields.items(), 1):
        message.field.add(name=field, number=number, type=_SCALARS[kind], label=F.LABEL_OPTIONAL)
    return message


def _classes() -> tuple[Any, Any]:
    pool = descriptor_pool.Default()
    try:
        pool.FindFileByName("odd/v1/odd.proto")
    except KeyError:
        pool.Add(_file())  # type: ignore[no-untyped-call]
    return tuple(
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"odd.v1.{name}")) for name in ("Order", "Answer")
    )  # type: ignore[return-value]


Order, Answer = _classes()
