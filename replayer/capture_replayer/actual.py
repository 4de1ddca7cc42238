"""What a replay saw, as a capture of its own: the recorded requests, and the answers that came instead.

With the recorded times it is the capture that takes the recording's place (`--update`); with those of the replay it is
a record of the replay (`--save-actual`).
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from capture_recorder.capfile import CaptureWriter
from capture_recorder.capfile.output import PartFile
from capture_recorder.capfile.records import (
    REQUEST,
    RESPONSE,
    Call,
    Cancel,
    HalfClose,
    Headers,
    Message,
    Meta,
    Record,
    Schema,
    Status,
)

from .compare import Answer, HeadersCame, MessageCame, StatusCame

Doing = Call | Message | HalfClose | Cancel


class ActualCapture:
    """An `engine.Observer` that writes. `recorded_times`: an answer gets the time of the request before it."""

    def __init__(
        self,
        path: Path,
        meta: Meta | None,
        schemas: list[Schema],
        origin: str,
        *,
        recorded_times: bool = False,
        force: bool = False,
    ) -> None:
        """`origin` is the name of the recording. Raises CaptureError where the file cannot be made."""
        self._writer = CaptureWriter(PartFile(path, replace=force, own=True))
        self.recorded_times = recorded_times
        self._start = time.monotonic_ns()
        self._now_ns = 0
        self._indexes: dict[int, Counter[int]] = {}  # of the open calls, the messages of each direction
        by = "capture-replay --update" if recorded_times else "capture-replay --save-actual"
        base = meta or Meta(created_ns=0, clock_ns=0)
        if not recorded_times:
            base = Meta(created_ns=time.time_ns(), clock_ns=self._start, side="client", program="capture-replay")
        self._append(replace(base, derived={"from": [origin], "by": by}))
        for schema in schemas:
            self._append(schema)

    def did(self, event: Doing) -> None:
        """See `engine.Observer`."""
        if not isinstance(event, Call) and event.call not in self._indexes:
            return  # the target has ended the call
        self._now_ns = event.time_ns if self.recorded_times else self._elapsed()
        if isinstance(event, Call):
            self._indexes[event.call] = Counter()
        if isinstance(event, Message):
            event = replace(event, index=self._index(event.call, REQUEST))
        self._append(replace(event, time_ns=self._now_ns))
        if isinstance(event, Cancel):
            self._indexes.pop(event.call, None)

    def came(self, call: int, answer: Answer) -> None:
        """See `engine.Observer`."""
        if call not in self._indexes:
            return
        if not self.recorded_times:
            self._now_ns = self._elapsed()
        match answer:
            case HeadersCame(metadata=metadata):
                if metadata:  # the recorder, too, writes those that a server sent by itself; a client sees empty ones
                    self._append(Headers(call=call, time_ns=self._now_ns, metadata=metadata))
            case MessageCame(payload=payload):
                index = self._index(call, RESPONSE)
                self._append(Message(call=call, direction=RESPONSE, index=index, time_ns=self._now_ns, payload=payload))
            case StatusCame(code=code, message=message, metadata=metadata):
                self._append(Status(call=call, time_ns=self._now_ns, code=code, message=message, metadata=metadata))
                del self._indexes[call]

    def close(self) -> None:
        """The replay is over: the file gets its name."""
        self._writer.close()

    def discard(self) -> None:
        """It is not wanted: nothing is left of it."""
        self._writer.discard()

    def _index(self, call: int, direction: int) -> int:
        index = self._indexes[call][direction]
        self._indexes[call][direction] += 1
        return index

    def _elapsed(self) -> int:
        return time.monotonic_ns() - self._start

    def _append(self, record: Record) -> None:
        self._writer.append(record)


class Several:
    """Captures of one replay, written at once; an `engine.Observer`. What is not kept is discarded."""

    def __init__(self, captures: list[ActualCapture]) -> None:
        self._captures = captures

    def did(self, event: Doing) -> None:
        """See `engine.Observer`."""
        for capture in self._captures:
            capture.did(event)

    def came(self, call: int, answer: Answer) -> None:
        """See `engine.Observer`."""
        for capture in self._captures:
            capture.came(call, answer)

    def keep(self, *, whole: bool) -> bool:
        """Close them: they get their names. Of a replay that is not `whole` none is made that would take the
        recording's place; the answer is whether one was made. Raises CaptureError."""
        updated = False
        for capture in self._captures:
            if capture.recorded_times and not whole:
                capture.discard()
            else:
                capture.close()
                updated = updated or capture.recorded_times
        self._captures = []
        return updated

    def discard(self) -> None:
        """Leave nothing of those that were not kept."""
        for capture in self._captures:
            capture.discard()
        self._captures = []
