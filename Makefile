# Every target does its own set-up: a fresh machine needs Python 3.11 or later, pip and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SMALL  := $(VENV)/.small
STAMP  := $(VENV)/.installed
TORCH  := $(VENV)/.torch
BASE   ?= f789a9c1

.PHONY: demo tour test lint parts bench audit moves mutants fuzz faults anywhere docs fixture dist image clean

# What sfumato itself needs. Modules are compiled when they are first loaded: most never are.
$(SMALL): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --no-compile -e .
	touch $@

# And all extras and tools, into the same folder: it completes a small one.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[dev]'
	touch $(SMALL) $@

# And torch, for the long tests alone: the build without CUDA, from a usual index or from its own.
$(TORCH): $(STAMP)
	$(PIP) torch==2.13.0+cpu 2>/dev/null \
	  || $(PIP) --extra-index-url https://download.pytorch.org/whl/cpu -e '.[rnn]'
	touch $@

demo: $(SMALL)   ## a synthetic city from records to the table, and where to look
	$(BIN)/sfumato demo --out out/demo --again

tour: $(SMALL)   ## the demo, and then an hour streamed, questions asked, an attack
	$(BIN)/sfumato demo --tour --out out/tour --again

lint: $(STAMP)   ## ruff, mypy (strict) and the import rules
	$(BIN)/ruff check src tests benchmarks tools
	$(BIN)/ruff format --check src tests benchmarks tools
	$(BIN)/mypy
	$(BIN)/lint-imports

parts: $(STAMP)  ## PostgreSQL, Chromium and Java for the tests that drive them, where we may
	@bash tools/ensure_parts.sh $(VENV)

test: lint parts ## everything CI runs
	$(BIN)/pytest -n 2 --dist loadgroup -m 'not slow'

bench: $(STAMP)  ## speed against the named baselines; writes docs/benchmarks
	$(BIN)/python -m benchmarks

audit: $(TORCH) parts moves ## the whole privacy audit, the fault tests, planted faults; writes docs/audit.md
	$(BIN)/pytest -n 2 --dist loadgroup -m 'slow or torch'
	$(BIN)/python tests/mutants/run.py --write

moves: $(STAMP)  ## commits since BASE that only move code publish the same bytes; writes out/moves.md
	$(BIN)/python tools/moves.py $(BASE) --write

fixture: $(STAMP) ## what tests read as a draft of format 1, made anew where a format changes
	$(BIN)/python -m tools.fixture

mutants: $(TORCH) ## plants faults one at a time; privacy tests must notice each; writes docs/audit.md
	$(BIN)/python tests/mutants/run.py --write

fuzz: $(STAMP)   ## 10,000 spoiled command lines and calls, 20,000 damaged files, 10,000 readings of noisy numbers: never a traceback; writes docs/fuzz.md
	$(BIN)/python tests/fuzz/run.py

faults: $(STAMP) parts ## kills, crashes, full disks, clocks, races: the same bytes, paid once; writes docs/faults.md
	$(BIN)/python tests/faults/run.py

anywhere: $(STAMP) ## numeric tests and releases on every linear algebra this processor can run
	$(BIN)/python tests/anywhere/run.py

docs: $(STAMP)   ## the documentation site, in out/site, and the JSON schema of the manifest
	$(BIN)/python -c 'from sfumato.published.manifest import json_schema; print(json_schema(), end="")' \
	  > docs/schema/manifest.schema.json
	$(BIN)/python -m tools.docs_site

dist: $(STAMP)   ## wheel and source archive in dist/, built twice to the same bytes, checked
	$(BIN)/python tools/dist.py dist

image:           ## a Docker image that runs as nobody on a read-only file system
	docker build --tag sfumato .

clean:
	rm -rf $(VENV) out dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
