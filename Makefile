# Everything runs in .venv, which is made from the lock file by `make setup` and remade when the lock changes.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp

RUNS   ?= 100000
SOAK   ?= 1000
.PHONY: help setup demo test check lint proto lock bench screenshots soak clean
help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(STAMP)
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "capture-replay needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@echo "setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## record a real Session, replay it against a fresh server, say the verdict
	@$(BIN)/python demo/run.py

test: setup ## the test suite, on all cores
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: setup ## ruff, mypy --strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test ## what CI runs

proto: setup ## regenerate proto/capture_proto from proto/shard_runtime
	$(BIN)/python proto/generate.py

bench: setup ## benchmarks, as ratios measured in pairs
	$(BIN)/python benchmarks/files.py
	$(BIN)/python benchmarks/recording.py
	$(BIN)/python benchmarks/replaying.py
	$(BIN)/python benchmarks/clock.py
	$(BIN)/python benchmarks/viewing.py

screenshots: setup ## make the pictures of the README anew, from the golden captures
	$(BIN)/python docs/screenshots.py

soak: setup ## long campaigns: a million hostile files, a coverage-guided fuzzer (RUNS=100000 of each target)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-soak.lock
	SOAK=$(SOAK) $(BIN)/python -m pytest --timeout 0 tests/unit/recorder/test_hostile.py
	for target in raw framed block form; do $(BIN)/python tests/fuzz/fuzz.py $$target $(RUNS) .soak/$$target || exit 1; done

lock: ## resolve the dependencies anew (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock" -o requirements.lock

clean:
	rm -rf $(VENV) .soak dist build demo/*.cap demo/*.part .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
