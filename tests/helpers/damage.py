"""Damage to a file's bytes, of every kind that disks, transfers and people do."""

from __future__ import annotations

import random

from capture_recorder.capfile import framing

OPERATIONS = (
    "flip",
    "zero",
    "ones",
    "delete",
    "insert",
    "duplicate",
    "swap",
    "repeat record",
    "swap records",
    "drop record",
)


def mangle(data: bytearray, rng: random.Random, operation: str | None = None) -> None:
    """Do one of them, somewhere after the preamble."""
    if len(data) <= framing.PREAMBLE_SIZE + 1:
        return
    at, size = rng.randrange(framing.PREAMBLE_SIZE, len(data)), rng.randint(1, 200)
    match operation or rng.choice(OPERATIONS):
        case "flip":
            data[at] ^= 1 << rng.randrange(8)
        case "zero":
            data[at : at + size] = bytes(len(data[at : at + size]))
        case "ones":
            data[at : at + size] = b"\xff" * len(data[at : at + size])
        case "delete":
            del data[at : at + size]
        case "insert":
            data[at:at] = rng.randbytes(size)
        case "duplicate":
            data[at:at] = data[at : at + size]
        case "swap":
            piece = data[at : at + size]
            del data[at : at + size]
            to = rng.randrange(framing.PREAMBLE_SIZE, len(data) + 1)
            data[to:to] = piece
        case operation:
            _records(data, rng, operation)


def _records(data: bytearray, rng: random.Random, operation: str) -> None:
    """As "swap" and so on, but of whole records, whose checksums stay right."""
    starts = [at for at in range(len(data)) if data.startswith(framing.SYNC, at)]
    if len(starts) < 3:
        return
    i, j = sorted(rng.sample(range(len(starts) - 1), 2))
    one, other = data[starts[i] : starts[i + 1]], data[starts[j] : starts[j + 1]]
    if operation == "repeat record":
        data[starts[j + 1] : starts[j + 1]] = one
    elif operation == "drop record":
        del data[starts[i] : starts[i + 1]]
    else:
        data[starts[j] : starts[j + 1]] = one
        data[starts[i] : starts[i + 1]] = other
