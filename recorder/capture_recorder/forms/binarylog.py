"""gRPC's binary log, gRFC A16: `grpc.binarylog.v1.GrpcLogEntry`, each after its length in 4 bytes, big-endian, as
grpc-go's sink writes them. https://github.com/grpc/proposal/blob/master/A16-binary-logging.md

A log tells neither kinds of calls nor the half-close of a single request. Kinds are told from what was seen of a call,
so a log is read twice.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from google.protobuf.message import DecodeError

from ..capfile import CaptureReader, CaptureWriter
from ..capfile.errors import ForeignForm
from ..capfile.output import Output
from ..capfile.reader import Entry
from ..capfile.records import (
    EVENT_TYPES,
    REQUEST,
    RESPONSE,
    Call,
    Cancel,
    Event,
    Gap,
    HalfClose,
    Headers,
    Message,
    Meta,
    Metadata,
    Redacted,
    Schema,
    Status,
)
from ..capfile.rewrite import whole
from .log_entry import entry_class

_LENGTH: Final = struct.Struct(">I")
_SERVER: Final = 2  # logger
CLIENT_HEADER, SERVER_HEADER, CLIENT_MESSAGE, SERVER_MESSAGE, HALF_CLOSE, TRAILER, CANCEL = range(1, 8)
_TIMESTAMP: Final = 0x0A  # the tag of an entry's first field
_LONG: Final = 4096  # bytes of an entry that may be the first, which has a call's metadata, and is not all there
_LONGEST: Final = 1 << 28
_UNKNOWN: Final = 2  # gRPC's status code
_DETAILS: Final = "grpc-status-details-bin"
_ADDRESSES: Final = {1: "ipv4", 2: "ipv6", 3: "unix"}


def looks_like(head: bytes) -> bool:
    """See `Form`."""
    if len(head) < 4:
        return False
    (length,) = _LENGTH.unpack_from(head)
    if length > len(head) - 4:  # as far as it can be seen: an entry begins with its time
        return len(head) >= _LONG and length <= _LONGEST and head[4] == _TIMESTAMP
    if length == 0:
        return False
    try:
        entry = entry_class().FromString(head[4 : 4 + length])
    except DecodeError:
        return False
    return bool(CLIENT_HEADER <= entry.type <= CANCEL)


# --- into a capture ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Seen:
    """What a log has of a call."""

    requests: int = 0
    responses: int = 0
    half_closed: bool = False

    @property
    def kind(self) -> str:
        """A single request without a half-close is of a call that has none in a log. Else `bidi`: its wire is that of
        all kinds."""
        if self.requests == 1 and not self.half_closed:
            return "unary" if self.responses <= 1 else "server_streaming"
        return "client_streaming" if self.half_closed and self.responses == 1 else "bidi"


def load(stream: BinaryIO, name: str, output: Output) -> list[str]:
    """See the package."""
    try:
        start = stream.tell()
        seen, first_ns = _survey(stream, name)
        stream.seek(start)
        writer = CaptureWriter(output)
    except BaseException:
        output.discard()
        raise
    try:
        writer.append(Meta(created_ns=first_ns, clock_ns=0, derived={"from": [], "by": "convert of a gRPC binary log"}))
        loader = _Loader(writer, seen, first_ns)
        for _, entry in _entries(stream, name):
            loader.take(entry)
        writer.close()
    except BaseException:
        writer.discard()
        raise
    said = [
        "it has no kinds of calls: they are told from what was seen of each",
        "it has no schema: messages are bytes",
        "it does not tell when the recorder began: time 0 is its first entry's",
    ]
    if any(call.kind in ("unary", "server_streaming") for call in seen.values()):
        said.append("a log has no half-close of calls with a single request, which is at its place all the same")
    if any(call.half_closed for call in seen.values()):
        said.append(
            "grpc-go logs the half-close of a bidirectional call after its last response: it is where it was logged"
        )
    return said + loader.said


def _survey(stream: BinaryIO, name: str) -> tuple[dict[int, _Seen], int]:
    seen: dict[int, _Seen] = {}
    first_ns: int | None = None
    for _, entry in _entries(stream, name):
        call = seen.setdefault(entry.call_id, _Seen())
        call.requests += entry.type == CLIENT_MESSAGE
        call.responses += entry.type == SERVER_MESSAGE
        call.half_closed |= entry.type == HALF_CLOSE
        time_ns = _time_ns(entry)
        first_ns = time_ns if first_ns is None else min(first_ns, time_ns)
    return seen, max(0, first_ns or 0)


def _entries(stream: BinaryIO, name: str) -> Iterator[tuple[int, Any]]:
    """Each entry with its offset. No more is read for a length than there is."""
    offset = 0
    while head := stream.read(4):
        length = _LENGTH.unpack(head)[0] if len(head) == 4 else 0
        data = stream.read(length)
        where = f"offset {offset}"
        if len(head) < 4 or len(data) < length:
            raise ForeignForm(
                name, where, f"the log ends in an entry of {length:,} bytes; cut it there to convert the rest"
            )
        try:
            entry = entry_class().FromString(data)
        except DecodeError as error:
            raise ForeignForm(name, where, "this is no GrpcLogEntry") from error
        yield offset, entry
        offset += 4 + length


def _time_ns(entry: Any) -> int:
    return int(entry.timestamp.seconds) * 10**9 + int(entry.timestamp.nanos)


class _Loader:
    """Writes the events that entries stand for."""

    def __init__(self, writer: CaptureWriter, seen: dict[int, _Seen], first_ns: int) -> None:
        self._writer, self._seen, self._first_ns = writer, seen, first_ns
        self._calls: dict[int, int] = {}  # our number, by the log's
        self._open: dict[int, list[int]] = {}  # by ours: how many messages each direction has had
        self._last_ns = 0
        self._strays = self._truncated = 0

    @property
    def said(self) -> list[str]:
        """What could not be kept."""
        strays = [f"{self._strays:,} entries are of no call that is open: left out"] if self._strays else []
        cut = [f"{self._truncated:,} payloads are truncated in it: gaps stand for them"] if self._truncated else []
        return strays + cut

    def take(self, entry: Any) -> None:
        """One entry."""
        self._last_ns = max(self._last_ns, _time_ns(entry) - self._first_ns)
        if entry.type == CLIENT_HEADER and entry.call_id not in self._calls:
            self._calls[entry.call_id] = len(self._calls) + 1
            self._open[self._calls[entry.call_id]] = [0, 0]
            self._writer.append(self._opening(entry))
            return
        call = self._calls.get(entry.call_id, 0)
        if call not in self._open:
            self._strays += 1
            return
        event = self._event(entry, call)
        if event is None:
            self._strays += 1
            return
        self._writer.append(event)
        if isinstance(event, (Status, Cancel)):
            del self._open[call]

    def _opening(self, entry: Any) -> Call:
        header = entry.client_header
        return Call(
            call=self._calls[entry.call_id],
            time_ns=self._last_ns,
            method=header.method_name,
            kind=self._seen[entry.call_id].kind,
            peer=_peer(entry.peer),
            authority=header.authority,
            metadata=_metadata(header.metadata),
            time_left_ns=_nanoseconds(header.timeout) if header.HasField("timeout") else None,
        )

    def _event(self, entry: Any, call: int) -> Event | Gap | None:
        time_ns = self._last_ns
        match entry.type:
            case 2:  # SERVER_HEADER
                return Headers(call=call, time_ns=time_ns, metadata=_metadata(entry.server_header.metadata))
            case 3 | 4:  # CLIENT_MESSAGE, SERVER_MESSAGE
                return self._message(entry, call)
            case 5:  # CLIENT_HALF_CLOSE
                return HalfClose(call=call, time_ns=time_ns)
            case 6:  # SERVER_TRAILER
                trailer = entry.trailer
                metadata = _metadata(trailer.metadata)
                if trailer.status_details:
                    metadata = (*metadata, (_DETAILS, trailer.status_details))
                return Status(
                    call=call,
                    time_ns=time_ns,
                    code=trailer.status_code,
                    message=trailer.status_message,
                    metadata=metadata,
                )
            case 7:  # CANCEL
                return Cancel(call=call, time_ns=time_ns)
        return None

    def _message(self, entry: Any, call: int) -> Message | Gap:
        if entry.payload_truncated or entry.message.length > len(entry.message.data):
            self._truncated += 1
            size = max(0, entry.message.length - len(entry.message.data))
            return Gap(time_ns=self._last_ns, why="truncated in the binary log", call=call, events=1, size=size)
        direction = REQUEST if entry.type == CLIENT_MESSAGE else RESPONSE
        index = self._open[call][direction]
        self._open[call][direction] += 1
        return Message(call=call, direction=direction, index=index, time_ns=self._last_ns, payload=entry.message.data)


def _nanoseconds(duration: Any) -> int:
    return max(0, int(duration.seconds) * 10**9 + int(duration.nanos))


def _metadata(metadata: Any) -> Metadata:
    return tuple((entry.key, entry.value) for entry in metadata.entry)


def _peer(address: Any) -> str:
    scheme = _ADDRESSES.get(address.type)
    if scheme is None:
        return str(address.address)
    if scheme == "unix":
        return f"unix:{address.address}"
    host = f"[{address.address}]" if scheme == "ipv6" else address.address
    return f"{scheme}:{host}:{address.ip_port}"


# --- out of a capture -------------------------------------------------------------------------------------------------


def save(reader: CaptureReader, output: Output) -> list[str]:
    """See the package."""
    saver = _Saver(output)
    try:
        for _, decoded in whole(reader, "convert it"):
            saver.take(decoded.record if isinstance(decoded, Entry) else None)
        output.finish()
        output.abandon()
    except BaseException:
        output.discard()
        raise
    return saver.said


class _Saver:
    """Writes the entries that events stand for."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._created_ns = 0
        self._sequence: dict[int, int] = {}  # the last one, by call
        self._lost: dict[str, int] = {}  # how many of what

    @property
    def said(self) -> list[str]:
        """What a log cannot hold."""
        always = ["kinds of calls, and what the capture tells of its recorder"]
        if not self._output.offset:
            always.append("that it is a log: there is no event, and the file is empty")
        return always + [f"{count:,} {what}" for what, count in self._lost.items()]

    def take(self, record: object) -> None:
        """One record; None is one of a later version."""
        if isinstance(record, Meta):
            self._created_ns = record.created_ns
        elif isinstance(record, EVENT_TYPES):
            self._put(record)
        elif record is None:
            self._lose("records of later versions")
        elif isinstance(record, Schema):
            self._lose("schemas")
        elif isinstance(record, Gap):
            self._lose("gaps: the log looks whole where the capture is not")

    def _lose(self, what: str) -> None:
        self._lost[what] = self._lost.get(what, 0) + 1

    def _put(self, event: Event) -> None:
        sequence = self._sequence.get(event.call, 0) + 1
        self._sequence[event.call] = sequence
        entry = entry_class()(call_id=event.call, sequence_id_within_call=sequence, logger=_SERVER)
        entry.timestamp.seconds, entry.timestamp.nanos = divmod(self._created_ns + event.time_ns, 10**9)
        self._fill(entry, event)
        if isinstance(event, (Status, Cancel)):
            del self._sequence[event.call]
        data = entry.SerializeToString()
        self._output.put((_LENGTH.pack(len(data)), data), 4 + len(data))

    def _fill(self, entry: Any, event: Event) -> None:
        match event:
            case Call():
                entry.type = CLIENT_HEADER
                header = entry.client_header
                header.method_name, header.authority = event.method, event.authority
                self._fill_metadata(header.metadata, event.metadata)
                if event.time_left_ns is not None:
                    header.timeout.seconds, header.timeout.nanos = divmod(event.time_left_ns, 10**9)
                if event.compression is not None:
                    self._lose("names of a compression")
                _fill_peer(entry.peer, event.peer)
            case Headers():
                entry.type = SERVER_HEADER
                self._fill_metadata(entry.server_header.metadata, event.metadata)
            case Message():
                entry.type = SERVER_MESSAGE if event.direction == RESPONSE else CLIENT_MESSAGE
                entry.message.length, entry.message.data = len(event.payload), event.payload
            case HalfClose():
                entry.type = HALF_CLOSE
            case Status():
                entry.type = TRAILER
                trailer = entry.trailer
                trailer.status_code, trailer.status_message = self._code(event.code), event.message
                details = [value for key, value in event.metadata if key == _DETAILS and isinstance(value, bytes)]
                if details:
                    trailer.status_details = details[-1]
                others = tuple(pair for pair in event.metadata if pair[0] != _DETAILS)
                self._fill_metadata(trailer.metadata, others)
            case Cancel():
                entry.type = CANCEL
                if event.why != "client":
                    self._lose("reasons of a cancel that is not the client's")

    def _code(self, code: int) -> int:
        if code < 1 << 32:
            return code
        self._lose("status codes of more than 32 bits")
        return _UNKNOWN

    def _fill_metadata(self, target: Any, metadata: Metadata) -> None:
        target.SetInParent()
        for key, value in metadata:
            if isinstance(value, Redacted):
                self._lose("redacted values of metadata")
            else:
                target.entry.add(key=key, value=value)


def _fill_peer(address: Any, peer: str) -> None:
    scheme, _, rest = peer.partition(":")
    kind = next((number for number, name in _ADDRESSES.items() if name == scheme), 0)
    host, _, port = rest.rpartition(":")
    if kind in (1, 2) and port.isdecimal() and int(port) < 1 << 16:
        address.type, address.address, address.ip_port = kind, host.strip("[]"), int(port)
    elif kind == 3:
        address.type, address.address = kind, rest
    elif peer:
        address.address = peer
