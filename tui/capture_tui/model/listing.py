"""A frame as a row: number, time, call, direction, size, and what it says. Also a row of a call and of the ladder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from capture_recorder.capfile.records import (
    REQUEST,
    Call,
    Cancel,
    Gap,
    HalfClose,
    Headers,
    Message,
    Metadata,
    Redacted,
    Status,
)
from capture_recorder.capfile.schema import Decoded
from capture_recorder.lens import Reading
from capture_recorder.status import status_name
from capture_recorder.text import ascii_bytes, counted, human_duration, human_size

from .frame import Frame
from .paint import Line, Piece, Role, call_role, clean, cut, fit, width
from .table import CallInfo

_ARROWS: Final[tuple[Piece, ...]] = (("→", "request"), ("←", "response"))
_SHOWN: Final = 512  # characters of a string that a row could ever have room for
_BAD_SHOWN: Final = 2  # failed checks on a row
_SHORT: Final = {"half_close": "half-close"}
_BYTES: Final = 24
MARKS: Final = {
    "bookmark": "◆",
    "divergence": "≠",
    "passed": "=",
    "next": "►",
    "break": "●",
    "damage": "▒",
    "gap": "!",
    "error": "✗",
    "": " ",
}
NARROW: Final = 64  # columns of a row below which numbers and times are short
WAIT_NS: Final = 1_000_000  # from this time on a wait is worth a bar
_BARS: Final = "▏▎▍▌▋▊▉█"


def frame_line(
    frame: Frame,
    known: tuple[Decoded, Reading] | None,
    columns: int,
    *,
    time: str,
    mark: str = "",
    with_call: bool = True,
) -> Line:
    """The row. `time` is what stands in its column; `known` is None where the message is not decoded (yet)."""
    line: Line = [(MARKS[mark], "error" if mark in ("divergence", "damage", "error", "gap") else "mark")]
    if frame.record is None:
        return cut([*line, *_broken(frame)], columns)
    wide = columns >= NARROW
    line.append((f"{frame.seq:>{6 if wide else 5}} ", "dim"))
    line.append((f"{time:>{11 if wide else 8}} ", "dim"))
    if with_call and columns > 50:
        line.append((f"{f'#{frame.call}' if frame.call else '':>4} ", call_role(frame.call)))
    if isinstance(frame.record, Gap):
        line.append((f"! gap: {counted(frame.record.events, 'event')} lost: {clean(frame.record.why, _SHOWN)}", "warn"))
        return cut(line, columns)
    line += [_ARROWS[frame.direction or 0], (" ", "text")]
    if frame.message is not None:
        line.append((f"{human_size(frame.size):>10} ", "text"))
    else:
        line.append((f"{_SHORT.get(frame.kind, frame.kind):<11}", "strong"))
    for text, role in what(frame, known, columns):
        if width(line) >= columns:
            break
        line.append((f"{clean(text, max(1, columns))} ", role))
    return cut(line, columns)


def _broken(frame: Frame) -> Line:
    if frame.unknown is not None:
        text = f"record {frame.seq} is of type {frame.unknown.type}, which this version does not know"
        return [(f" ? {text}", "warn")]
    words = "; ".join(str(damage) for damage in frame.damage)
    return [(f" ✗ damage at {clean(words, _SHOWN)}", "error")]


def what(frame: Frame, known: tuple[Decoded, Reading] | None, room: int | None = None) -> Iterator[Piece]:
    """What there is to say of an event, the most important first. Not yet safe for a screen."""
    match frame.record:
        case Message(payload=payload):
            yield from _message(known, payload)
        case Call(method=method, kind=kind, metadata=metadata):
            yield method if room is None or room > 70 else method.rpartition("/")[2], "text"
            yield kind, "type"
            yield _metadata(metadata), "dim"
        case Headers(metadata=metadata):
            yield _metadata(metadata), "dim"
        case Status(code=code, message=message, metadata=metadata):
            yield f"{'✓' if code == 0 else '✗'} {status_name(code)}", "good" if code == 0 else "error"
            yield message, "text"
            yield _metadata(metadata), "dim"
        case Cancel(why=why):
            yield f"✗ by the {why}", "warn"
        case HalfClose():
            yield "the client has nothing more to send", "dim"
        case _:
            pass


def _message(known: tuple[Decoded, Reading] | None, payload: bytes) -> Iterator[Piece]:
    if known is None:
        yield "… large; select it to decode it", "dim"
        return
    decoded, reading = known
    bad = [check for check in reading.checks if check.verdict != "ok"]
    if decoded.error is not None:
        yield f"✗ {decoded.error}", "error"
    if reading.error is not None:
        yield f"✗ {reading.error}", "error"
    for check in bad[:_BAD_SHOWN]:
        yield f"✗ {clean(check.tensor, 20)}: {check.why}", "error"
    if len(bad) > _BAD_SHOWN:
        yield f"✗ and {len(bad) - _BAD_SHOWN:,} more", "error"
    if reading.checks and not bad:
        yield "✓" if len(reading.checks) == 1 else f"✓{len(reading.checks)}", "good"
    if reading.summary:
        yield reading.summary, "text"
    elif payload and (decoded.type_name is None or decoded.error is not None):
        yield payload[:_BYTES].hex(" ") + (" …" if len(payload) > _BYTES else ""), "bytes"
    elif not payload:
        yield "(empty)", "dim"


def _metadata(metadata: Metadata) -> str:
    return " ".join(
        f"{key}={'<redacted>' if isinstance(value, Redacted) else ascii_bytes(value)}" for key, value in metadata[:8]
    )


# --- a call -----------------------------------------------------------------------------------------------------------


def call_line(
    info: CallInfo, columns: int, *, mark: str = "", known: bool = True, label: str = "", errors: int = 0
) -> Line:
    """The row of a call: number, mark, method and what it is about (`label`), how many errors are in it, how it ended,
    and where there is room events and duration."""
    sign, role = call_end(info)
    mark = mark or ("damage" if info.hole else "")
    shown = MARKS[mark] if mark else sign
    line: Line = [(f"{shown} ", "error" if mark in ("divergence", "damage", "gap") else role)]
    line.append((f"#{info.call:<3} ", call_role(info.call)))
    right = ""
    if columns > 30 and known:
        right = f" {info.events:>6,}"
        if columns > 40:
            right += f" {human_duration(info.duration_ns):>8}"
    name = clean(info.method.rpartition("/")[2], columns)
    if label:
        name = f"{name} {clean(label, columns)}" if columns > 30 else clean(label, columns)
    if columns >= 48:
        right = f" {clean(info.kind.partition('_')[0], 6):<6}{right}"
    if columns >= 60:
        end = status_name(info.code) if info.code is not None else (f"by the {info.why}" if info.why else "open")
        right = f"{right} {fit(clean(end, 18), 18 if columns >= 70 else 10)}"
    wrong = f" ✗{errors}" if errors else ""
    line.append((fit(name, max(1, columns - width(line) - len(wrong) - len(right))), "text"))
    line += [(wrong, "error"), (right, "dim")]
    return cut(line, columns)


def call_end(info: CallInfo) -> Piece:
    """A sign for how it ended."""
    if info.gap:
        return "!", "warn"
    if info.code is not None:
        return ("✓", "good") if info.code == 0 else ("✗", "error")
    return ("✗", "warn") if info.why is not None else ("…", "dim")


# --- the ladder -------------------------------------------------------------------------------------------------------


def ladder_line(
    frame: Frame, known: tuple[Decoded, Reading] | None, columns: int, *, time: str, wait_ns: int, mark: str = ""
) -> Line:
    """Client on the left, server on the right, between them what crossed. `wait_ns`: since the frame before it; it is
    drawn where the waiting was, as a bar that grows tenfold a step."""
    if frame.event is None:
        return frame_line(frame, known, columns, time=time, mark=mark)
    line: Line = [(MARKS[mark], "error" if mark in ("divergence", "error") else "mark"), (f"{time:>11} ", "dim")]
    line.append((wait_bar(wait_ns), "warn"))
    tag = f" #{frame.call}"
    inner = max(8, columns - width(line) - 4 - len(f"{tag:<6}"))
    words = f"{frame.seq} "
    if frame.message is None:
        words += f"{_SHORT.get(frame.kind, frame.kind)} "
    words += " ".join(clean(text, inner) for text, _ in what(frame, known, inner))
    is_request = frame.direction == REQUEST
    arrow: Role = "request" if is_request else "response"
    label = clean(words.strip(), max(1, inner - 4))
    label = fit(label, min(len(label) + 2, inner - 4)) if width([(label, "text")]) > inner - 4 else label
    rest = max(0, inner - 3 - width([(label, "text")]))
    is_bad = known is not None and any(role == "error" for _, role in what(frame, known))
    line += [(f"{tag:<6}", call_role(frame.call)), ("│", "dim")]
    text_role: Role = "error" if is_bad else "text"
    if is_request:
        line += [("─ ", arrow), (label, text_role), (" " + "─" * max(0, rest - 1) + "▶", arrow)]
    else:
        line += [("◀" + "─" * max(0, rest - 1) + " ", arrow), (label, text_role), (" ─", arrow)]
    line.append(("│", "dim"))
    return cut(line, columns)


def wait_bar(wait_ns: int) -> str:
    """Six columns for a wait: nothing below a millisecond, a column more for each tenfold."""
    size = 0
    while wait_ns >= WAIT_NS and size < 5:
        size, wait_ns = size + 1, wait_ns // 10
    return f"{'▇' * size:<6}"


def time_text(ns: int | None, columns: int = 120) -> str:
    """Seconds since the start, to the microsecond, as far as eleven columns hold; of a narrow row, eight."""
    if ns is not None and columns < NARROW:
        return f"{ns / 1e9:.4f}"[:8].rstrip(".") if ns < 10**16 else f"{ns / 1e9:.1e}"
    return "" if ns is None else f"{ns / 1e9:.6f}"[:11].rstrip(".") if ns < 10**13 else f"{ns // 10**9}"[:11]


def delta_text(ns: int | None) -> str:
    """Time since the frame before."""
    return "" if ns is None else f"+{human_duration(max(0, ns))}" if ns >= 0 else f"-{human_duration(-ns)}"
