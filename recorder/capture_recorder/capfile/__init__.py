"""The `.cap` file: framing, records, decoder, writer, reader, schema. Specified in recorder/FORMAT.md.

Free of grpc: a capture can be read where no gRPC is installed.
"""

from .catalog import CallRow, Catalog
from .decoder import Damage
from .errors import (
    CannotOpen,
    CaptureError,
    CaptureWriteError,
    NotACapture,
    RecordError,
    UnsupportedCapture,
)
from .reader import CaptureReader, Entry, Unknown, open_capture
from .writer import CaptureWriter

__all__ = [
    "CallRow",
    "CannotOpen",
    "CaptureError",
    "CaptureReader",
    "CaptureWriteError",
    "CaptureWriter",
    "Catalog",
    "Damage",
    "Entry",
    "NotACapture",
    "RecordError",
    "Unknown",
    "UnsupportedCapture",
    "open_capture",
]
