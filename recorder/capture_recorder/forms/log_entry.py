"""The message of gRPC's binary log, built from a table: no generated code, and no name taken in anybody's pool."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

# https://github.com/grpc/grpc-proto/blob/master/grpc/binlog/v1/binarylog.proto, its messages as name: number type
_MESSAGES: Final = {
    "GrpcLogEntry": "timestamp:1:Timestamp call_id:2:uint64 sequence_id_within_call:3:uint64 type:4:uint32 "
    "logger:5:uint32 client_header:6:ClientHeader server_header:7:ServerHeader message:8:Message trailer:9:Trailer "
    "payload_truncated:10:bool peer:11:Address",
    "ClientHeader": "metadata:1:Metadata method_name:2:string authority:3:string timeout:4:Duration",
    "ServerHeader": "metadata:1:Metadata",
    "Trailer": "metadata:1:Metadata status_code:2:uint32 status_message:3:string status_details:4:bytes",
    "Message": "length:1:uint32 data:2:bytes",
    "Metadata": "entry:1:*MetadataEntry",
    "MetadataEntry": "key:1:string value:2:bytes",
    "Address": "type:1:uint32 address:2:string ip_port:3:uint32",
}
_SCALARS: Final = {"uint64": 4, "uint32": 13, "string": 9, "bytes": 12, "bool": 8}
_WELL_KNOWN: Final = {"Timestamp": timestamp_pb2, "Duration": duration_pb2}


@cache
def entry_class() -> Any:
    """The message class of a log entry, in a pool of its own. Enums are numbers here, which is the same on the wire."""
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="binarylog.proto", package="grpc.binarylog.v1", syntax="proto3")
    for module in _WELL_KNOWN.values():
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        file.dependency.append(module.DESCRIPTOR.name)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields.split():
            label, number, kind = field.split(":")
            added = message.field.add(name=label, number=int(number), label=3 if kind.startswith("*") else 1)
            kind = kind.lstrip("*")
            added.type = _SCALARS.get(kind, 11)  # type: ignore[assignment]
            if added.type == 11:
                package = "google.protobuf" if kind in _WELL_KNOWN else "grpc.binarylog.v1"
                added.type_name = f".{package}.{kind}"
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("grpc.binarylog.v1.GrpcLogEntry"))
