"""An independent witness: a relay that keeps the TCP bytes of both directions, and what they say as HTTP/2.

It takes the connection apart with hyperframe and hpack and shares no line with the recorder. gRPC's framing is that of
the protocol's "gRPC over HTTP2": 1 byte compressed flag, 4 bytes length (big-endian), message.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field
from typing import Self

from hpack import Decoder
from hyperframe.frame import ContinuationFrame, DataFrame, Frame, HeadersFrame

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@dataclass
class Stream:
    """One HTTP/2 stream: its path, and its messages in both directions."""

    path: str = ""
    request_bytes: bytearray = field(default_factory=bytearray)
    response_bytes: bytearray = field(default_factory=bytearray)
    compressed: bool = False

    @property
    def requests(self) -> list[bytes]:
        return self._messages(self.request_bytes)

    @property
    def responses(self) -> list[bytes]:
        return self._messages(self.response_bytes)

    def _messages(self, data: bytearray) -> list[bytes]:
        found, at = [], 0
        while at < len(data):
            self.compressed |= data[at] != 0
            size = int.from_bytes(data[at + 1 : at + 5], "big")
            assert at + 5 + size <= len(data), "a message is cut"
            found.append(bytes(data[at + 5 : at + 5 + size]))
            at += 5 + size
        return found


class Witness:
    """A context manager: listens on `address`, relays to `upstream`, and tells the streams in their order."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._connections: list[tuple[bytearray, bytearray]] = []
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(20)
        for end in self._sockets:
            end.close()

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            host, _, port = self._upstream.rpartition(":")
            server = socket.create_connection((host, int(port)))
            self._sockets += [client, server]
            kept = (bytearray(), bytearray())
            self._connections.append(kept)
            self._start(_pump, client, server, kept[0])
            self._start(_pump, server, client, kept[1])

    def streams(self) -> list[Stream]:
        """All streams, in the order in which their HEADERS went over the wire; of connections, as they were made."""
        return [stream for sent, received in self._connections for stream in _streams(bytes(sent), bytes(received))]


def _pump(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            kept += data
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _streams(sent: bytes, received: bytes) -> list[Stream]:
    assert sent.startswith(PREFACE)
    streams: dict[int, Stream] = {}
    for frame, headers in _frames(sent[len(PREFACE) :]):
        if headers is not None and frame.stream_id not in streams:
            streams[frame.stream_id] = Stream(dict(headers)[":path"])
        elif isinstance(frame, DataFrame):
            streams[frame.stream_id].request_bytes += frame.data
    for frame, _ in _frames(received):
        if isinstance(frame, DataFrame):
            streams[frame.stream_id].response_bytes += frame.data
    return list(streams.values())


def _frames(data: bytes) -> list[tuple[Frame, list[tuple[str, str]] | None]]:
    """Each whole frame; with the decoded header list where it ends a header block."""
    decoder = Decoder(max_header_list_size=1 << 24)
    block = bytearray()
    found: list[tuple[Frame, list[tuple[str, str]] | None]] = []
    at = 0
    while at + 9 <= len(data):
        frame, size = Frame.parse_frame_header(memoryview(data[at : at + 9]))
        if at + 9 + size > len(data):
            break  # the connection went down within a frame
        frame.parse_body(memoryview(data[at + 9 : at + 9 + size]))
        at += 9 + size
        headers = None
        if isinstance(frame, (HeadersFrame, ContinuationFrame)):
            block += frame.data
            if "END_HEADERS" in frame.flags:
                headers = [(_text(name), _text(value)) for name, value in decoder.decode(bytes(block), raw=True)]
                block.clear()
        found.append((frame, headers))
    return found


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
