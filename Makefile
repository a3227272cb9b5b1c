# Every target does its own set-up: a fresh machine needs Python 3.11 or later, pip and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test lint bench audit docs clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP)   ## a synthetic city from records to the table, and where to look
	$(BIN)/sfumato demo --out out/demo

lint: $(STAMP)   ## ruff, mypy (strict) and the import rules
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint       ## everything CI runs
	$(BIN)/pytest -n 2 -m 'not slow'

bench: $(STAMP)  ## speed against the named baselines; writes docs/benchmarks
	$(BIN)/python -m benchmarks

audit: $(STAMP)  ## the whole privacy audit and the fault tests; writes docs/audit
	$(BIN)/pytest -n 2 -m slow

docs: $(STAMP)   ## the JSON schemas and command pages that are generated
	$(BIN)/python -m benchmarks.docs

clean:
	rm -rf $(VENV) out .mypy_cache .pytest_cache .ruff_cache .hypothesis
