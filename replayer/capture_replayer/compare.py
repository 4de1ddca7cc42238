"""Recorded against replayed: which events of a call are identical, different, missing or extra. Pure.

While a call goes as recorded its events are compared as they come and forgotten. After a difference they are gathered
and aligned, so that one message more or less is told as that, and not as a difference of all that follow.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from capture_recorder.capfile.records import RESPONSE, Headers, Message, Metadata, Redacted, Status

_OK: Final = 0
VERDICTS: Final = ("identical", "equivalent", "ignored", "different", "missing", "extra")
ALIGNED: Final = 256
"""After a difference so many events of both sides are gathered and aligned; by then they are mostly in step again."""
CELLS: Final = 1_000_000
"""The work that an alignment may cost, the product of both lengths; beyond it events are paired by position."""


# --- what a target answers --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeadersCame:
    """The target's initial metadata."""

    metadata: Metadata


@dataclass(frozen=True, slots=True)
class MessageCame:
    """A message of the target, its exact bytes."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class StatusCame:
    """The target ended the call."""

    code: int
    message: str
    metadata: Metadata


Answer = HeadersCame | MessageCame | StatusCame
Expected = Headers | Message | Status


class Judge(Protocol):
    """Knows what else may count as the same, of events that are not identical."""

    def verdict(self, method: str, direction: int, expected: Expected, actual: Answer) -> str:
        """`equivalent`, `ignored` or `different`, of two events of one kind."""

    def accepts(self, verdict: str) -> bool:
        """Whether an event with this verdict is as it should be."""

    def ignored(self, method: str, direction: int, expected: Expected, actual: Answer) -> None:
        """Told once of each two events that are counted with this verdict."""

    def likeness(self, method: str, direction: int, payload: bytes) -> Hashable:
        """Equal for two payloads of which the verdict is not `different`."""


# --- two events -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two events differ first: a message's `offset` in bytes, or the part of a status or of headers."""

    part: str  # "payload", "code", "message", or "metadata[KEY]"
    offset: int | None
    expected: str | None = None
    actual: str | None = None


def difference(expected: Expected, actual: Answer) -> Difference | None:
    """None if the two are identical. Events of two kinds are never compared."""
    match expected, actual:
        case Message(), MessageCame():
            if expected.payload == actual.payload:
                return None
            return Difference("payload", first_difference(expected.payload, actual.payload))
        case Status(), StatusCame():
            if expected.code != actual.code:
                return Difference("code", None, str(expected.code), str(actual.code))
            if expected.code != _OK and expected.message != actual.message:  # of an OK no gRPC client shows one
                offset = first_difference(expected.message.encode(), actual.message.encode())
                return Difference("message", offset, expected.message, actual.message)
            return metadata_difference(expected.metadata, actual.metadata)
        case Headers(), HeadersCame():
            return metadata_difference(expected.metadata, actual.metadata)
    raise TypeError(f"{type(expected).__name__} is not compared with {type(actual).__name__}")


def first_difference(a: bytes, b: bytes) -> int:
    """The offset of the first byte in which `a` and `b` differ; their shorter length if one begins the other."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # bisection: comparing slices costs far less than looking at each byte
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def metadata_difference(expected: Metadata, actual: Metadata) -> Difference | None:
    """Keys in order, and the values of each key in order. gRPC promises no order between values of two keys, and its
    asyncio client shows none, so `a b a` and `a a b` are the same."""
    wanted, got = _by_key(expected), _by_key(actual)
    for key in [*wanted, *(key for key in got if key not in wanted)]:
        if not _same(wanted.get(key, []), got.get(key, [])):
            return Difference(f"metadata[{key}]", None, _values(wanted.get(key)), _values(got.get(key)))
    if list(wanted) != list(got):
        return Difference("metadata", None, " ".join(wanted), " ".join(got))
    return None


def _by_key(metadata: Metadata) -> dict[str, list[bytes | Redacted]]:
    grouped: dict[str, list[bytes | Redacted]] = {}
    for key, value in metadata:
        grouped.setdefault(key, []).append(value)
    return grouped


def _same(expected: list[bytes | Redacted], actual: list[bytes | Redacted]) -> bool:
    """Of a redacted value only its length is known, and only that is held against what came."""
    return len(expected) == len(actual) and all(
        len(b) == a.length if isinstance(a, Redacted) and isinstance(b, bytes) else a == b
        for a, b in zip(expected, actual, strict=True)
    )


def _values(values: list[bytes | Redacted] | None) -> str | None:
    if values is None:
        return None
    texts = [
        f"<redacted, {v.length} bytes>" if isinstance(v, Redacted) else v.decode("ascii", "backslashreplace")
        for v in values
    ]
    return ", ".join(texts)


Pair = tuple[int | None, int | None]
"""Indexes of two events that stand for one another; None on one side where the other has no counterpart."""


# --- a call -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """A response event of the capture: its number, and the number of the request event that came last before it."""

    seq: int
    event: Expected
    cause: int


@dataclass(frozen=True, slots=True)
class Finding:
    """An event that is not identical. `wanted` is None for an extra one; `seq` then is the number of the event that it
    came before, or, at the end of a call, the last one of the call (`after`). `cause` is the request that led to it."""

    verdict: str
    seq: int
    cause: int
    wanted: Wanted | None = None
    came: Answer | None = None
    difference: Difference | None = None
    after: bool = False


class Comparison:
    """One direction of one call, while it is replayed. `counts` and `findings` are complete after `finish`; findings
    are those that the judge does not accept."""

    def __init__(
        self, method: str = "", judge: Judge | None = None, *, direction: int = RESPONSE, keep: int = 100
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.findings: list[Finding] = []
        self.wanted_count = 0  # response events that were asked for so far, headers not counted
        self.came_count = 0  # likewise of the target
        self.headers_came: HeadersCame | None = None
        self.status_came: StatusCame | None = None
        self.last_cause = 0  # the request event that was carried out last
        self._method = method
        self._direction = direction
        self._judge = judge
        self._keep = keep  # findings that are kept; all are counted
        self._headers_wanted: Wanted | None = None
        self._wanted: deque[Wanted] = deque()
        self._came: deque[Answer] = deque()
        self._out_of_step = False
        self._last_seq = 0

    @property
    def backlog(self) -> int:
        """Answers that came and are not compared yet."""
        return len(self._came)

    @property
    def owed(self) -> int:
        """Answers that were asked for and have not come; below 0 if more came."""
        return self.wanted_count - self.came_count

    @property
    def diverged(self) -> bool:
        """Whether something was not as it should be, so far."""
        return self._out_of_step or bool(self.findings)

    def did(self, seq: int) -> None:
        """A request event of this call was carried out."""
        self.last_cause = self._last_seq = seq

    def want(self, seq: int, event: Expected) -> None:
        """The capture's next response event of this call."""
        wanted = Wanted(seq, event, self.last_cause)
        self._last_seq = seq
        if isinstance(event, Headers):
            self._headers_wanted = wanted
            return
        self.wanted_count += 1
        self._wanted.append(wanted)
        self._settle()

    def came(self, answer: Answer) -> None:
        """The target's next answer of this call."""
        if isinstance(answer, HeadersCame):
            self.headers_came = answer
            return
        self.came_count += 1
        if isinstance(answer, StatusCame):
            self.status_came = answer
        self._came.append(answer)
        self._settle()

    def _settle(self) -> None:
        while self._wanted and self._came:
            if self._out_of_step:
                if not self._enough_to_align():
                    return
                self._get_in_step()
                continue
            wanted, came = self._wanted[0], self._came[0]
            verdict = self._verdict(wanted.event, came)
            if verdict == "different":
                self._out_of_step = True
                continue
            self._wanted.popleft()
            self._came.popleft()
            if verdict == "identical":
                self.counts["identical"] += 1
            else:
                found = difference(wanted.event, came)
                self._count(Finding(verdict, wanted.seq, wanted.cause, wanted, came, found))

    def _verdict(self, expected: Expected, actual: Answer) -> str:
        """Events of two kinds are `different`."""
        if isinstance(expected, Message) != isinstance(actual, MessageCame):
            return "different"
        if difference(expected, actual) is None:
            return "identical"
        if self._judge is None:
            return "different"
        return self._judge.verdict(self._method, self._direction, expected, actual)

    def _enough_to_align(self) -> bool:
        return len(self._wanted) >= ALIGNED and len(self._came) >= ALIGNED

    def _get_in_step(self) -> None:
        """Align what was gathered, judge it up to the last pair that is identical, and go on from there."""
        wanted, came = list(islice(self._wanted, ALIGNED)), list(islice(self._came, ALIGNED))
        pairs = align([w.event for w in wanted], came, self._likeness)
        same = [
            k
            for k, (i, j) in enumerate(pairs)
            if i is not None and j is not None and self._verdict(wanted[i].event, came[j]) != "different"
        ]
        judged = pairs[: same[-1] + 1] if same else pairs[: ALIGNED // 2]
        self._judge_pairs(judged, wanted, came)
        for i, j in judged:
            if i is not None:
                self._wanted.popleft()
            if j is not None:
                self._came.popleft()
        self._out_of_step = False

    def finish(self, *, extras: bool = True) -> None:
        """Nothing more is asked for, and nothing more comes. Without `extras`, what came after the last event that was
        wanted counts for nothing."""
        self._finish_headers(extras)
        self._align(extras)

    def _finish_headers(self, extras: bool) -> None:
        wanted, came = self._headers_wanted, self.headers_came
        if wanted is None:
            if extras and came is not None and came.metadata:
                self._count(self._found(None, came, None))
        else:
            self._count(self._found(wanted, came, wanted))

    def _align(self, extras: bool) -> None:
        wanted, came = list(self._wanted), list(self._came)
        self._wanted.clear()
        self._came.clear()
        pairs = align([w.event for w in wanted], came, self._likeness)
        while not extras and pairs and pairs[-1][0] is None:
            pairs.pop()
        self._judge_pairs(pairs, wanted, came)

    def _judge_pairs(self, pairs: list[Pair], wanted: list[Wanted], came: list[Answer]) -> None:
        findings: list[Finding | None] = []
        before: Wanted | None = None  # backwards, so that an extra event knows what it came before
        for i, j in reversed(pairs):
            before = before if i is None else wanted[i]
            findings.append(self._found(None if i is None else wanted[i], None if j is None else came[j], before))
        for finding in reversed(findings):
            self._count(finding)

    def _found(self, wanted: Wanted | None, answer: Answer | None, before: Wanted | None) -> Finding | None:
        if wanted is None:
            if before is None:
                return Finding("extra", self._last_seq, self.last_cause, came=answer, after=True)
            return Finding("extra", before.seq, before.cause, came=answer)
        if answer is None:
            return Finding("missing", wanted.seq, wanted.cause, wanted)
        found = difference(wanted.event, answer)
        if found is None:
            return None
        return Finding(self._verdict(wanted.event, answer), wanted.seq, wanted.cause, wanted, answer, found)

    def _likeness(self, payload: bytes) -> Hashable:
        return payload if self._judge is None else self._judge.likeness(self._method, self._direction, payload)

    def _count(self, finding: Finding | None) -> None:
        verdict = "identical" if finding is None else finding.verdict
        self.counts[verdict] += 1
        if finding is None:
            return
        if self._judge is not None and verdict == "ignored" and finding.wanted is not None and finding.came is not None:
            self._judge.ignored(self._method, self._direction, finding.wanted.event, finding.came)
        accepted = self._judge is not None and self._judge.accepts(verdict)
        if not accepted and len(self.findings) < self._keep:
            self.findings.append(finding)


# --- alignment --------------------------------------------------------------------------------------------------------


def align(
    wanted: Sequence[Expected], came: Sequence[Answer], likeness: Callable[[bytes], Hashable] = lambda payload: payload
) -> list[Pair]:
    """Pair two sequences of events with as few events as possible that are different, missing or extra.

    Only a status pairs with a status, and it is the last of its side. Messages are the same if their likenesses are.
    """
    n, m = len(wanted), len(came)
    ends_wanted = n > 0 and isinstance(wanted[-1], Status)
    ends_came = m > 0 and isinstance(came[-1], StatusCame)
    messages = n - ends_wanted, m - ends_came
    pairs = _align_payloads(
        [likeness(event.payload) for event in wanted[: messages[0]] if isinstance(event, Message)],
        [likeness(answer.payload) for answer in came[: messages[1]] if isinstance(answer, MessageCame)],
    )
    if ends_wanted and ends_came:
        pairs.append((n - 1, m - 1))
    elif ends_wanted:
        pairs.append((n - 1, None))
    elif ends_came:
        pairs.append((None, m - 1))
    return pairs


def _align_payloads(wanted: list[Hashable], came: list[Hashable]) -> list[Pair]:
    n, m = len(wanted), len(came)
    start = 0
    while start < min(n, m) and wanted[start] == came[start]:
        start += 1
    end = 0
    while end < min(n, m) - start and wanted[n - 1 - end] == came[m - 1 - end]:
        end += 1
    pairs: list[Pair] = [(i, i) for i in range(start)]
    pairs += _edit(wanted, came, range(start, n - end), range(start, m - end))
    pairs += [(n - k, m - k) for k in range(end, 0, -1)]
    return pairs


def _edit(wanted: list[Hashable], came: list[Hashable], rows: range, columns: range) -> list[Pair]:
    """The shortest edit script (Wagner and Fischer 1974); by position where that would be too much work."""
    if len(rows) * len(columns) > CELLS:
        both = min(len(rows), len(columns))
        return [
            *zip(rows[:both], columns[:both], strict=True),
            *((i, None) for i in rows[both:]),
            *((None, j) for j in columns[both:]),
        ]
    numbers: dict[Hashable, int] = {}
    a = [numbers.setdefault(wanted[i], len(numbers)) for i in rows]
    b = [numbers.setdefault(came[j], len(numbers)) for j in columns]
    # cost[i][j]: of what is left from a[i] and b[j] on, so that the script can be read off forwards
    cost = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a), -1, -1):
        for j in range(len(b), -1, -1):
            if i == len(a) or j == len(b):
                cost[i][j] = len(a) - i + len(b) - j
            else:
                cost[i][j] = min(cost[i + 1][j + 1] + (a[i] != b[j]), cost[i + 1][j] + 1, cost[i][j + 1] + 1)
    pairs: list[Pair] = []
    i = j = 0
    while i < len(a) or j < len(b):
        if i < len(a) and j < len(b) and cost[i][j] == cost[i + 1][j + 1] + (a[i] != b[j]):
            pairs.append((rows[i], columns[j]))
            i, j = i + 1, j + 1
        elif i < len(a) and (j == len(b) or cost[i][j] == cost[i + 1][j] + 1):
            pairs.append((rows[i], None))
            i += 1
        else:
            pairs.append((None, columns[j]))
            j += 1
    return pairs
