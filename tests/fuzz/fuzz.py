"""The coverage-guided fuzzer: `fuzz.py TARGET RUNS [CORPUS]`. It stops at the first input for which something does not
hold, and leaves it in a file. Inputs that it found to reach new code are kept in CORPUS, beside those of the suite.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

try:
    import atheris
except ImportError:
    print("there is no coverage-guided fuzzer for this Python and machine; the campaign before it has run")
    sys.exit(0)

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[0]))
sys.path.insert(0, str(HERE))

with atheris.instrument_imports(include=["capture_recorder"]):
    import targets


def main() -> None:
    target, runs = sys.argv[1], sys.argv[2]
    found = sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp()
    Path(found).mkdir(parents=True, exist_ok=True)
    seeds = [str(HERE / "corpus"), str(HERE.parent / "golden" / "v1")]
    options = [f"-atheris_runs={runs}", "-max_len=4096", "-print_final_stats=1", "-rss_limit_mb=2048", "-timeout=20"]
    atheris.Setup([sys.argv[0], *options, found, *seeds], targets.TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
