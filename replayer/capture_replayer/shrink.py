"""The smallest part of a capture that still fails in the same way: whole calls are left out, then request events, then
fields. Each trial is a replay against a fresh server. What was tried is kept in a journal, so that it goes on where it
was stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from capture_recorder.capfile import CaptureWriter, Catalog, Entry
from capture_recorder.capfile.output import PartFile
from capture_recorder.capfile.records import REQUEST, Message, Meta

from .ddmin import ddmin
from .explain import Divergence
from .parts import Cut, Part, assemble, fields_of, parts, with_openings, without
from .place import Place
from .replay import CannotTell, Prepared, prepared
from .result import Result
from .rules import Rules, beside
from .runner import Settings, one

JOURNAL: Final = ".shrink"
"""`small.cap.shrink` has the trials for `small.cap`, until that is made."""

Signature = tuple[str, ...]


def signature(divergence: Divergence) -> Signature:
    """What makes two divergences one of a kind: the verdict, what it is of, where in it; of codes, both values."""
    field = re.sub(r"\[[^]]*\]", "[*]", divergence.field or "")
    codes = divergence.kind == "status" and divergence.field == "code"
    values = (divergence.expected or "", divergence.actual or "") if codes else ()
    return (divergence.verdict, divergence.kind, divergence.direction, divergence.method, field, *values)


@dataclass(frozen=True, slots=True)
class Size:
    """How much a capture holds: calls, request events (openings among them), bytes of requests."""

    calls: int
    requests: int
    request_bytes: int

    def __str__(self) -> str:
        calls = f"{self.calls:,} call{'' if self.calls == 1 else 's'}"
        return f"{calls}, {self.requests:,} request event{'' if self.requests == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What came of it. `known` are trials whose outcome the journal had."""

    before: Size
    after: Size
    trials: int
    known: int
    divergence: Divergence


class Progress:
    """Told how it goes; this one keeps it to itself."""

    def phase(self, what: str, size: Size) -> None:
        """Another kind of part is tried."""

    def tried(self, trials: int, size: Size) -> None:
        """A trial came to its end; the smallest that failed so far."""


async def shrink(
    file: str,
    place: Place,
    out: Path,
    settings: Settings,
    *,
    server: str = "",
    fields: bool = True,
    force: bool = False,
    progress: Progress | None = None,
) -> Shrunk:
    """Shrink a capture into `out`. `server` tells what the trials are against: a journal of another is of no use.
    Raises CannotTell where it does not fail, or not in a way that comes again; and CaptureError."""
    with prepared(file, settings.calls, allow_torn=settings.allow_torn) as capture:
        PartFile(out, replace=force, own=True).discard()  # better refused now than after a thousand trials
        with tempfile.TemporaryDirectory(prefix="capture-replay-") as folder:
            work = _Shrinker(capture, place, settings, Path(folder), out, progress or Progress(), server)
            shrunk = await work.run(fields=fields)
        output = PartFile(out, replace=force, own=True)
        try:
            work.write(CaptureWriter(output), work.kept, work.payloads)
        finally:
            output.discard()
        work.journal.unlink(missing_ok=True)
        return shrunk


class _Shrinker:
    """One shrinking: `kept` and `payloads` are the smallest that failed so far."""

    def __init__(
        self,
        capture: Prepared,
        place: Place,
        settings: Settings,
        folder: Path,
        out: Path,
        progress: Progress,
        server: str,
    ) -> None:
        self.journal = out.with_name(out.name + JOURNAL)
        self.payloads: dict[int, bytes] = {}
        self._capture = capture
        self._place = place
        self._server = server
        rules = settings.rules | (beside(capture.file) if settings.beside else Rules())
        options = replace(settings.options, stop_early=True)
        self._settings = replace(
            settings, calls=(), rules=rules, beside=False, saved_to=None, updated_to=None, options=options
        )
        self._folder = folder
        self._progress = progress
        wanted = set(capture.calls)
        entries = capture.reader.entries()
        self._all = [part for part in parts(entries) if not wanted or part.call in wanted]
        self.kept = self._all
        self._wanted: Signature = ()
        self._trials = self._known = 0
        self._outcomes: dict[str, bool] = {}
        self._journalled: set[str] = set()  # those of an earlier run

    async def run(self, *, fields: bool) -> Shrunk:
        """Do all of it."""
        before = self._size(self.kept, {})
        self._trials += 1
        first = await one(self._capture.file, self._place, replace(self._settings, calls=tuple(self._capture.calls)))
        if first.error is not None:
            raise CannotTell(first.error)
        if first.passed:
            raise CannotTell(f"{self._capture.file}: it passes: there is nothing to be shrunk")
        divergence = first.divergences[0]
        self._wanted = signature(divergence)
        self._take_up(divergence)
        await self._try([part for part in self.kept if part.events[0] <= divergence.event], {})
        self._progress.phase("calls", self._size(self.kept, self.payloads))
        calls = list(dict.fromkeys(part.call for part in self.kept))
        await ddmin(calls, lambda some: self._try([p for p in self.kept if p.call in set(some)], self.payloads))
        self._progress.phase("request events", self._size(self.kept, self.payloads))
        events = [part for part in self.kept if not part.opens]
        everything = self.kept
        await ddmin(events, lambda some: self._try(_kept(everything, some), self.payloads))
        if fields and self._capture.survey.schema_records:
            self._progress.phase("fields", self._size(self.kept, self.payloads))
            await self._fields()
        last = await self._replay(self.kept, self.payloads)
        if last.passed or signature(last.divergences[0]) != self._wanted:
            raise CannotTell(
                f"{self._capture.file}: what is left does not fail each time; is the failure one of chance? "
                "(--attempts, a race; or a server that is not the same each time)"
            )
        after = self._size(self.kept, self.payloads)
        return Shrunk(before, after, self._trials, self._known, last.divergences[0])

    def write(self, writer: CaptureWriter, kept: Iterable[Part], payloads: dict[int, bytes]) -> None:
        """A capture of these parts, to its end."""
        survey = self._capture.survey
        meta = survey.meta or Meta(created_ns=0, clock_ns=0)
        name = Path(self._capture.file).name
        writer.append(replace(meta, derived={"from": [name], "by": "capture-replay shrink"}))
        for schema in survey.schema_records:
            writer.append(schema)
        for record in assemble(self._capture.reader.entries(), kept, payloads):
            writer.append(record)
        writer.close()

    async def _try(self, kept: Collection[Part], payloads: dict[int, bytes]) -> bool:
        """Whether these parts fail in the same way; if they do, they are the smallest so far."""
        kept = with_openings(kept, self._all)
        key = _key(kept, payloads)
        if key in self._outcomes:
            self._known += key in self._journalled
            fails = self._outcomes[key]
        else:
            fails = bool(kept) and await self._fails(kept, payloads)
            self._outcomes[key] = fails
            self._note({"parts": key, "fails": fails})
        if fails:
            self.kept, self.payloads = list(kept), payloads
        self._progress.tried(self._trials, self._size(self.kept, self.payloads))
        return fails

    async def _fails(self, kept: Collection[Part], payloads: dict[int, bytes]) -> bool:
        result = await self._replay(kept, payloads)
        return not result.passed and signature(result.divergences[0]) == self._wanted

    async def _replay(self, kept: Collection[Part], payloads: dict[int, bytes]) -> Result:
        """A trial. Raises CannotTell where there is no verdict: that is no answer to the question."""
        self._trials += 1
        path = self._folder / f"{self._trials}.cap"
        self.write(CaptureWriter(path), kept, payloads)
        try:
            result = await one(str(path), self._place, self._settings)
        finally:
            path.unlink()
        if result.error is not None:
            raise CannotTell(result.error)
        return result

    async def _fields(self) -> None:
        """Leave fields out of each request that is left, the outer ones first."""
        requests = {event: payload for event, payload in self._requests(self.kept).items() if payload}
        for event, payload in requests.items():
            gone: list[tuple[Cut, ...]] = []
            waiting = fields_of(payload)
            while waiting:
                place = waiting.pop(0)
                smaller = without(payload, [*gone, place])
                if await self._try(self.kept, {**self.payloads, event: smaller}):
                    gone.append(place)
                else:
                    waiting += fields_of(payload, place)

    def _requests(self, kept: Iterable[Part]) -> dict[int, bytes]:
        """The payloads of the requests of these parts, by event."""
        wanted = {event for part in kept for event in part.events}
        catalog = Catalog(self._capture.reader)
        found: dict[int, bytes] = {}
        for event in sorted(wanted):
            entry = catalog.read(event)
            record = entry.record if isinstance(entry, Entry) else None
            if isinstance(record, Message) and record.direction == REQUEST:
                found[event] = record.payload
        return found

    def _size(self, kept: Collection[Part], payloads: dict[int, bytes]) -> Size:
        return Size(len({part.call for part in kept}), len(kept), sum(map(len, payloads.values())))

    # --- the journal --------------------------------------------------------------------------------------------------

    def _take_up(self, divergence: Divergence) -> None:
        """Go on where the same shrinking was stopped; begin a journal otherwise."""
        file_id = self._capture.reader.preamble.file_id.hex()
        head = {"capture": file_id, "server": self._server, "failure": list(signature(divergence))}
        lines = _lines(self.journal)
        if lines and lines[0] == head:
            self._outcomes = {line["parts"]: line["fails"] for line in lines[1:] if {"parts", "fails"} <= line.keys()}
            self._journalled = set(self._outcomes)
        else:
            self.journal.write_text(json.dumps(head) + "\n", encoding="utf-8")

    def _note(self, line: dict[str, object]) -> None:
        with self.journal.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(line) + "\n")


def _lines(journal: Path) -> list[dict[str, Any]]:
    """The lines of a journal, up to one that is cut."""
    lines: list[dict[str, Any]] = []
    with contextlib.suppress(OSError, ValueError):
        for line in journal.read_text(encoding="utf-8").splitlines():
            lines.append(dict(json.loads(line)))  # noqa: PERF401 - those before one that is cut are kept
    return lines


def _kept(everything: Iterable[Part], some: Collection[Part]) -> list[Part]:
    """Those of everything that are in `some`, or openings."""
    wanted = set(some)
    return [part for part in everything if part in wanted or part.opens]


def _key(kept: Iterable[Part], payloads: dict[int, bytes]) -> str:
    digest = hashlib.sha256(repr([part.events[0] for part in kept]).encode())
    for event, payload in sorted(payloads.items()):
        digest.update(repr((event, payload)).encode())
    return digest.hexdigest()[:32]
