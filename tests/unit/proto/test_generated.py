"""The generated code is that of the schema: generated again, it is the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
GENERATED = Path("capture_proto/shard_runtime/v1")


def test_generating_again_changes_nothing(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "proto" / "generate.py", tmp_path], check=True)
    made = {path.name: path.read_bytes() for path in (tmp_path / GENERATED).iterdir()}
    assert len(made) == 3
    for name, content in made.items():
        assert (ROOT / "proto" / GENERATED / name).read_bytes() == content, name
