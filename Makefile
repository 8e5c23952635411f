# `make demo` and `make test` do all the set-up on a fresh machine with Python 3.11+.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
CORE := $(VENV)/.core
READY := $(VENV)/.ready

.PHONY: demo test check lint unit docs wheel figures bench bench-accuracy bench-logs bench-robust bench-verdict bench-scale lab lab-score clean

# What the demo and `llmprism serve` need: a minute on a usual line.
$(CORE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[serve]'
	@touch $@

# Everything that is needed to change the program: tests, linters, Spark, a browser's driver, the documentation.
$(READY): $(CORE)
	$(PIP) -e '.[dev]'
	@touch $@

demo: $(CORE)
	$(BIN)/llmprism demo

test: lint unit

# Before every commit: linters, types, layers and the unit tests of what differs from the branch main; two minutes.
check: lint
	$(BIN)/python scripts/changed_tests.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(READY)
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder

docs: $(READY)
	$(BIN)/mkdocs build --strict

# Fails where docs/accuracy.md is older than what it measures: before a release, `make bench-accuracy`.
figures: $(READY)
	$(BIN)/python scripts/figures.py

wheel: $(READY)
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

bench: $(READY)
	$(BIN)/python benchmarks/captures.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/ingest.py
	$(BIN)/python benchmarks/packets.py

bench-accuracy: $(READY)
	$(BIN)/python benchmarks/accuracy_dataset.py --out docs/accuracy-dataset.md
	$(BIN)/python benchmarks/accuracy.py --out docs/accuracy.md
	$(BIN)/python benchmarks/accuracy_logs.py --out docs/accuracy-logs.md

# Random scenarios, each failure made small.
bench-robust: $(READY)
	$(BIN)/python benchmarks/robust.py

bench-scale: $(READY)
	$(BIN)/python benchmarks/scale.py

bench-logs: $(READY)
	$(BIN)/python benchmarks/logs_planted.py
	$(BIN)/python benchmarks/logs_real.py
	$(BIN)/python benchmarks/logs_signatures.py
	$(BIN)/python benchmarks/logs_reports.py
	$(BIN)/python benchmarks/logs_templates.py
	$(BIN)/python benchmarks/logs_speed.py

bench-verdict: $(READY)
	$(BIN)/python benchmarks/verdict.py --split all --noisy
	$(BIN)/python benchmarks/verdict_scale.py

# make lab SCENARIO=gloo-ddp4-delay [LAB_FLAGS=--gpu] [LAB_OUT=folder]: one labelled capture of real training (root)
SCENARIO ?= gloo-short
LAB_OUT ?= out/lab/$(notdir $(basename $(SCENARIO)))

lab: $(CORE)
	@$(BIN)/python -c 'import pyarrow' 2>/dev/null || $(PIP) -e '.[lab]'
	@$(or $(LAB_PYTHON),$(BIN)/python) -c 'import torch' 2>/dev/null || $(PIP) -e '.[frameworks]'
	$(BIN)/python -m lab run $(SCENARIO) $(LAB_OUT) $(LAB_FLAGS)

lab-score: $(CORE)
	$(BIN)/llmprism diagnose $(LAB_OUT)/flows.parquet --topology $(LAB_OUT)/topology.json --json $(LAB_OUT)/report.json \
	  --until $$($(BIN)/python -m lab until $(LAB_OUT))
	$(BIN)/llmprism score $(LAB_OUT)/report.json $(LAB_OUT)/truth.json.gz

clean:
	rm -rf $(VENV) build dist out site .mypy_cache .ruff_cache .pytest_cache .hypothesis
