"""Generates proto/capture_proto from proto/shard_runtime: `python proto/generate.py [OUTPUT]`.

The schema is mapped below the package's name, so that the generated modules import one another from where they are
installed. The output is committed, and a test compares it with what comes out here.
"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "shard_runtime" / "v1"
PACKAGE = "capture_proto/shard_runtime/v1"


def generate(output: Path) -> None:
    """Write the messages, their stubs for type checkers, and the gRPC stubs below `output`. Raises SystemExit."""
    files = [f"{PACKAGE}/{path.name}" for path in sorted(SOURCE.glob("*.proto"))]
    status = protoc.main(
        [
            "protoc",
            f"-I{PACKAGE}={SOURCE}",
            f"-I{resources.files('grpc_tools') / '_proto'}",
            *(f"--{kind}_out={output}" for kind in ("python", "pyi", "grpc_python")),
            *files,
        ]
    )
    if status:
        raise SystemExit(status)


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
