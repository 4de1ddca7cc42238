"""What each tab says of a frame: the same for the screen and for `--print`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from capture_recorder.text import counted, human_size
from capture_replayer.explain import Divergence
from capture_replayer.report import stall_text

from .model.checks import check_lines
from .model.detail import metadata_lines
from .model.difference import difference_lines
from .model.document import Document
from .model.frame import Frame
from .model.listing import what
from .model.paint import Line, clean
from .model.tree import Tree

_LIKE: Final = 200  # messages among which one of the same kind is looked for
TABS: Final = ("decoded", "hex", "checksums", "metadata", "difference")
SHORT: Final = ("Decoded", "Hex", "Checks", "Metadata", "Diff")
TITLES: Final = ("Decoded", "Hex", "Checksums", "Metadata & status", "Difference")


@dataclass(frozen=True, slots=True)
class Other:
    """What a message is set beside: bytes, and what the screen calls them."""

    name: str
    payload: bytes


def notice(document: Document, frame: Frame, tree: Tree | None) -> list[Line]:
    """What stands above the tree of a message; or, of an event that is none, all that there is to say of it."""
    message = frame.message
    if message is None:
        said: Line = [(f"{frame.kind.replace('_', '-')}  ", "strong")]
        for text, role in what(frame, None):
            said += [(clean(text, 400), role), ("  ", "text")]
        return [said, *metadata_lines(document, frame)]
    name = document.schemas.type_of(frame.method, message.direction)
    lines: list[Line] = [
        [
            (clean(name or "no schema: the wire format", 200), "type" if name else "warn"),
            (f"  {human_size(frame.size)}", "dim"),
        ]
    ]
    if name is None:
        lines += [
            [(f"! the capture's schema: {clean(problem, 200)}", "warn")] for problem in document.schemas.problems[:2]
        ]
    if tree is not None and tree.error is not None:
        lines.append([(tree.error, "error")])
    if not message.payload:
        lines.append([("(empty: every field has its default)", "dim")])
    return lines


def tree_of(document: Document, frame: Frame) -> Tree | None:
    """A message as a tree."""
    message = frame.message
    if message is None:
        return None
    return Tree(message.payload, document.schemas.descriptor(frame.method, message.direction))


def checks(document: Document, frame: Frame, columns: int) -> list[Line]:
    """The tab of checksums."""
    if frame.message is None:
        return [[("Only messages carry checksums of their own.", "dim")]]
    decoded, reading = document.read(frame)
    if decoded.error is not None:
        return [[(f"✗ {clean(decoded.error, 400)}", "error")]]
    return list(check_lines(reading, columns))


def difference(document: Document, frame: Frame, other: Other | None, columns: int) -> list[Line]:
    """The tab of differences: against `other`, by default the message of its kind before it."""
    message = frame.message
    if message is None:
        return [[("Only messages are set beside one another here.", "dim")]]
    name = f"recorded, event {frame.seq}"
    if other is not None:
        before, after, names = message.payload, other.payload, (name, other.name)
    else:
        previous = _like(document, frame)
        if previous is None or previous.message is None:
            return [[("There is no message of this kind before it in its call.", "dim")]]
        before, after = previous.message.payload, message.payload
        names = (f"event {previous.seq}, of the same kind before it", name)
    return list(difference_lines(document.schemas, frame.method, message.direction, before, after, names, columns))


def _like(document: Document, frame: Frame) -> Frame | None:
    """The message before it with the same first word of its summary, which is its kind; or else the one before it."""
    assert frame.message is not None
    kind, nearest = _kind(document, frame), None
    for key, _ in zip(document.messages_before(frame, frame.message.direction), range(_LIKE), strict=False):
        earlier = document.frame(key)
        if earlier is not None and _kind(document, earlier) == kind:
            return earlier
        nearest = nearest or earlier
    return nearest


def _kind(document: Document, frame: Frame) -> str:
    known = document.known(frame)
    return "" if known is None else known[1].summary.partition(" ")[0]


def heading(document: Document) -> Line:
    """The capture's identity and condition, in a line."""
    table, condition = document.table, document.condition
    role = {"clean": "good", "torn": "error", "damaged": "error"}.get(condition, "warn")
    sign = {"clean": "✓ ", "torn": "✗ ", "damaged": "✗ "}.get(condition, "… ")
    line: Line = [(clean(document.name, 60), "strong"), ("  ", "text"), (f"{sign}{condition} file", role)]  # type: ignore[list-item]
    if document.scanned and any(info.gap for info in table.by_call.values()):
        line.append(("  ! gaps", "warn"))
    if document.scanned:
        calls = counted(len(table.by_call), "call")
        line.append((f"  {calls}, {counted(len(table), 'frame')}, {human_size(table.size)}", "dim"))
        if document.errors:
            line.append((f"  ✗ {counted(document.errors.total(), 'error')}", "error"))
    elif document.reader.size:
        line.append((f"  {min(100, 100 * document.bytes_seen // document.reader.size)} % read", "dim"))
    if document.meta is not None:
        line.append(
            (f"  {clean(document.meta.side, 20)}'s side, {clean(document.meta.program, 60)}".rstrip(", "), "dim")
        )
    return line


def missed(divergence: Divergence) -> list[Line]:
    """What a replay says of a recorded event that nothing came for, or something that cannot be set beside it."""
    instead = f"nothing: the call ended with {divergence.ended}" if divergence.ended else "nothing"
    lines: list[Line] = [
        [(f"≠ {divergence.verdict}", "error")],
        [("− recorded  ", "error"), (clean(divergence.expected or "nothing", 400), "text")],
        [("+ replayed  ", "good"), (clean(divergence.actual or instead, 400), "text")],
        [],
    ]
    if divergence.cause:
        lines.append(
            [("  led to by  ", "dim"), (f"event {divergence.cause}: {clean(divergence.cause_text, 200)}", "text")]
        )
    if divergence.stall is not None:
        lines.append([("  stalled    ", "dim"), (stall_text(divergence.stall), "warn")])
    if divergence.hint:
        lines.append([("  looks like ", "dim"), (clean(divergence.hint, 400), "warn")])
    return lines
