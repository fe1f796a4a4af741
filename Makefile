# Everything runs in .venv, which each target makes by itself on a fresh machine.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/pip --quiet --disable-pip-version-check
CONSTRAINTS := constraints.txt

# `make search SEARCH="--dataset beer --aspect palate --data-dir DIR"` runs another search.
SEARCH ?= --dataset beer --aspect palate --sample --trials 4 --epochs 12
# Test processes, one thread each: more threads than cores slow each other down. The whole suite also waits for Ray
# and servers, so it gets one process more.
JOBS ?= 2
PYTEST ?= -n $(JOBS) --dist loadfile

# No program started from here calls home.
export MLFLOW_DISABLE_TELEMETRY := true
export DO_NOT_TRACK := true
export RAY_USAGE_STATS_ENABLED := 0

.PHONY: help setup search test quick faults mutate lint clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with the pinned packages

# torch first and alone: a failing or wrong build of the largest package shows at once. The bytecode
# of the packages is compiled by all cores, where pip uses one; a file that is no Python 3 stays without, as with pip.
$(STAMP): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "error: $(PYTHON) is $$($(PYTHON) --version 2>&1), but Python 3.11 or newer is needed" >&2; \
	    echo "hint: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	    echo "error: $(PYTHON) cannot make virtual environments, because its module ensurepip is missing" >&2; \
	    echo "hint: on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	@echo "installing into $(VENV): 2 to 7 minutes, 3.7 GB on disk (more where torch comes with CUDA)" >&2
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-compile "$$(grep '^torch==' $(CONSTRAINTS))" -c $(CONSTRAINTS)
	@$(PIP) install -e '.[dev]' --no-compile -c $(CONSTRAINTS)
	@$(BIN)/python -W ignore -m compileall -qq -j 0 $(VENV)/lib 2>/dev/null || true
	@touch $@

# What the sample search ends with; another search prints a command of its own.
EXAMPLE := a: pours dark brown with a thick tan head . s: rich , fresh aroma of roasted malt and coffee . \
m: the body is smooth and creamy , with soft carbonation . overall a fine beer for a cold evening .

search: $(STAMP)  ## run a small search on the sample corpus: prepare, search, train, register, explain
	$(BIN)/python -m pipeline.search $(SEARCH)
ifeq ($(origin SEARCH),file)
	@echo
	@$(BIN)/python -m pipeline.explain --sample --model models:/infocal-beer-palate@challenger --text "$(EXAMPLE)"
	@echo "before the printed commands, run: source $(VENV)/bin/activate" >&2
endif

test quick: export OMP_NUM_THREADS := 1
test quick: export MKL_NUM_THREADS := 1
# bytecode is kept, also where this is set: what pytest and jaxtyping rewrite takes each process ten seconds
test quick: export PYTHONDONTWRITEBYTECODE :=
test: JOBS := 3
test: $(STAMP)  ## run the whole suite
	$(BIN)/python -m pytest $(PYTEST)

# Left out is what starts a process, opens a database or trains a model: see tests/quick.py.
QUICK := tests/unit tests/equations tests/contracts --ignore tests/unit/benchmarks
quick: $(STAMP)  ## run what an edit needs: unit, equations, contracts
	$(BIN)/python -m pytest --quick -m "not slow and not real_data" $(PYTEST) $(QUICK)

# `make faults FAULTS=` injects all of them, in about an hour.
FAULTS ?= --short
faults: $(STAMP)  ## kill, fill, lock and damage: a few faults, each survived
	$(BIN)/python -m benchmarks.faults $(FAULTS)

# It works on a copy, `mutants/`, and resumes where it was stopped.
mutate: $(STAMP)  ## change the losses, metrics and criterion, and name each change that no test notices
	@$(PIP) install -e '.[mutate]' -c $(CONSTRAINTS)
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m mutmut run --max-children $(JOBS)
	$(BIN)/python -m mutmut results

lint: $(STAMP)  ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

clean:  ## remove caches and build files; .venv and runs/ stay
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache mutants
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +
