"""Finding frames: by text, by bytes, by the value of a field; the frame where a value changed; errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from capture_recorder.capfile.paths import text as path_text
from capture_recorder.capfile.records import Message

from .document import Document, is_error
from .frame import Frame, Key
from .listing import what
from .rows import Rows

_LOOKS: Final = 64  # frames between two looks at whether to go on
Predicate = Callable[[Frame], bool]
GoesOn = Callable[[float], bool]
"""Told the part that is done, from 0 to 1; whether to go on."""


class BadSearch(ValueError):
    """What cannot be searched for; the text says why."""


def searcher(text: str, document: Document) -> Predicate:
    """`hex: de ad` (or `0xdead`) finds bytes, `field=value` a field whose path ends so, anything else text: in the
    payload, and in what the row says. Small letters match capitals too. Raises BadSearch."""
    wanted = text.strip()
    if not wanted:
        raise BadSearch("write what to search for")
    for prefix in ("hex:", "0x"):
        if wanted.lower().startswith(prefix):
            try:
                raw = bytes.fromhex(wanted[len(prefix) :])
            except ValueError:
                raise BadSearch(f"{wanted!r} is not hexadecimal; write pairs of digits, such as hex: de ad") from None
            return lambda frame: frame.message is not None and raw in frame.message.payload
    path, sign, value = wanted.partition("=")
    if (
        sign
        and path.strip()
        and path.strip().replace(".", "").replace("_", "").replace("[", "").replace("]", "").isalnum()
    ):
        return _Field(document, path.strip(), value.strip().strip("\"'"), _Text(document, wanted))
    return _Text(document, wanted)


class _Text:
    def __init__(self, document: Document, wanted: str) -> None:
        self._document, self._any_case = document, wanted == wanted.lower()
        self._text, self._raw = wanted, wanted.encode()

    def __call__(self, frame: Frame) -> bool:
        if frame.message is not None:
            payload = frame.message.payload
            if self._raw in (payload.lower() if self._any_case else payload):
                return True
        known = self._document.known(frame)
        said = " ".join(text for text, _ in what(frame, known))
        return self._text in (said.lower() if self._any_case else said)


class _Field:
    """A field by the end of its path; or the words as a row has them: `session=a` is what a lens says of a message."""

    def __init__(self, document: Document, path: str, value: str, said: Predicate) -> None:
        self._document, self._path, self._value, self._said = document, path, value, said

    def __call__(self, frame: Frame) -> bool:
        if self._said(frame):
            return True
        message = frame.message
        leaves = None if message is None else self._leaves(frame, message)
        for path, leaf in (leaves or {}).items():
            name = path_text(path)
            if name == self._path or name.endswith(f".{self._path}"):
                raw = leaf.value if isinstance(leaf.value, str) else leaf.text()
                if self._value in (raw, leaf.enum) or (isinstance(leaf.value, int) and str(leaf.value) == self._value):
                    return True
        return False

    def _leaves(self, frame: Frame, message: Message):  # type: ignore[no-untyped-def]
        return self._document.schemas.flatten(frame.method, message.direction, message.payload)


def find(
    document: Document, rows: Rows, start: Key, wanted: Predicate, *, back: bool = False, goes_on: GoesOn
) -> Key | None:
    """The next frame (`back`: the one before) that is wanted, from `start` on without it; past the end it goes on from
    the other one. None if there is none, or if it was stopped."""
    size = rows.size
    if not size:
        return None
    if not back:
        done = 0
        for keys in (_keys(rows, rows.slot(start), size), _keys(rows, 0, min(size, rows.slot(start) + 1))):
            for frame in document.items(keys):
                done += 1
                if done % _LOOKS == 0 and not goes_on(min(1.0, done / size)):
                    return None
                if wanted(frame) and (frame.key > start or done > 1) and frame.key != start:
                    return frame.key
        return start if (own := document.frame(start)) is not None and wanted(own) else None
    at, done = rows.slot(start), 0
    for low, high in ((0, at), (at, size)):
        end = high
        while end > low:
            begin = max(low, end - _LOOKS)
            keys = [key for key in rows.window(begin, end - begin) if key != start]
            found = [frame.key for frame in document.items(keys) if wanted(frame)]
            if found:
                return found[-1]
            done += end - begin
            end = begin
            if not goes_on(min(1.0, done / size)):
                return None
    return start if (own := document.frame(start)) is not None and wanted(own) else None


def select(document: Document, rows: Rows, wanted: Predicate, goes_on: GoesOn, found: Callable[[Key], None]) -> bool:
    """All that are wanted, told one by one. Whether it came to the end."""
    size = max(1, rows.size)
    for done, frame in enumerate(document.items(_keys(rows, 0, rows.size)), 1):
        if wanted(frame):
            found(frame.key)
        if done % _LOOKS == 0 and not goes_on(min(1.0, done / size)):
            return False
    return True


def _keys(rows: Rows, start: int, end: int) -> Iterable[Key]:
    last: Key = -1
    at = start
    while at < end:
        keys = rows.window(at, min(1_024, end - at))
        for key in keys:
            if key > last:
                yield key
                last = key
        at += 1_024


def failing(document: Document) -> Predicate:
    """What is an error, see `is_error`."""
    return lambda frame: is_error(frame, document.known(frame, large=True) or document.read(frame))


@dataclass(frozen=True, slots=True)
class Change:
    """The frame where a field got the value that it had at a later one; `before` is its value until then, None where
    this is the first frame that has it."""

    key: Key
    path: str
    before: str | None
    value: str


def watch_back(document: Document, frame: Frame, path: str, goes_on: GoesOn = lambda _: True) -> Change | None:
    """The last frame before this one, in its call and direction, at which the field changed."""
    message = frame.message
    if message is None:
        return None
    later: tuple[Key, str] | None = None
    for done, key in enumerate(document.messages_before(frame, message.direction)):
        if done % _LOOKS == 0 and not goes_on(0.0):
            return None
        other = document.frame(key)
        value = None if other is None else value_at(document, other, path)
        if other is None or value is None:
            continue
        if later is not None and value != later[1]:
            return Change(later[0], path, value, later[1])
        later = (other.key, value)
    return None if later is None else Change(later[0], path, None, later[1])


def value_at(document: Document, frame: Frame, path: str) -> str | None:
    """A field of a message in some words; None where it has none."""
    message = frame.message
    if message is None:
        return None
    leaves = document.schemas.flatten(frame.method, message.direction, message.payload)
    found = {path_text(known): leaf.text() for known, leaf in (leaves or {}).items()}
    if path in found:
        return found[path]
    inside = [f"{name}={text}" for name, text in found.items() if name.startswith((f"{path}.", f"{path}["))]
    return " ".join(inside) or None
