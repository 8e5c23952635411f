# `make demo` and `make test` do all the set-up on a fresh machine with Python 3.11+.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint unit bench bench-accuracy bench-logs bench-robust bench-scale clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/llmprism demo

test: lint unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(READY)
	$(BIN)/pytest -n 4 --dist loadfile

bench: $(READY)
	$(BIN)/python benchmarks/captures.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/ingest.py
	$(BIN)/python benchmarks/packets.py

bench-accuracy: $(READY)
	$(BIN)/python benchmarks/accuracy.py --out docs/accuracy.md

bench-robust: $(READY)
	$(BIN)/python benchmarks/robust.py

bench-scale: $(READY)
	$(BIN)/python benchmarks/scale.py

bench-logs: $(READY)
	$(BIN)/python benchmarks/logs_planted.py
	$(BIN)/python benchmarks/logs_templates.py
	$(BIN)/python benchmarks/logs_speed.py

clean:
	rm -rf $(VENV) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis
