# A fresh machine needs Python 3.11 or newer, make and a package index; every target
# below does its own set-up, once, in $(VENV).

PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
VENV ?= .venv
WORKERS ?= 2

BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet

# What the targets do needs no network beyond the package index.
export HF_HUB_OFFLINE := 1
export HF_HUB_DISABLE_TELEMETRY := 1

# Tests that compare floating-point results of torch, and the arithmetic of another processor:
# no vector units beyond SSE, so other kernels, other orders of the same sums.
NUMERICAL := tests/models tests/scoring tests/search tests/signals
NOT_NUMERICAL := '*/test_served_*' '*_resume.py' '*_input.py' '*large_spaces*'
OTHER_ARITHMETIC := ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE ONEDNN_MAX_CPU_ISA=SSE41 \
	OMP_NUM_THREADS=1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo pretrained test test-all numerical check lint types imports sizes prose format docs setup release clean

help:  ## Show this list.
	@sed -n 's/^\([a-z-]*\):.*  ## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(READY)  ## Run the main job on the standard library's own prose; the report lies in demo/.
	$(BIN)/canary demo --out demo/ --force

pretrained: $(READY)  ## Fetch a real pretrained model (93 MB, once), and prove that it knows a number.
	$(BIN)/python recipes/pretrained/fetch.py
	$(BIN)/canary extract recipes/pretrained/work/model --top 3 --start-token '<|endoftext|>' \
		"The speed of light in a vacuum is exactly {digit:9}"

test: $(READY)  ## Run the tests.
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-all: $(READY)  ## Run all tests: those that take minutes, fuzzing, and a Ray cluster's.
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --slow --fuzz $(PYTEST_ARGS)
	if $(BIN)/python -c 'import ray' 2>/dev/null; then \
		$(BIN)/python -m pytest -n 0 tests/workers --cluster --slow $(PYTEST_ARGS); fi

numerical: $(READY)  ## Run the numerical tests with the arithmetic of another processor.
	$(OTHER_ARITHMETIC) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal \
		$(NOT_NUMERICAL:%=--ignore-glob=%) $(PYTEST_ARGS) $(NUMERICAL)

check: lint types imports sizes prose docs  ## Check format, lint, types, imports, sizes, prose, and the docs.

lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check

types: $(READY)
	$(BIN)/mypy --strict

imports: $(READY)
	$(BIN)/lint-imports --no-logo

sizes: $(READY)
	$(BIN)/python tests/support/budgets.py

prose: $(READY)
	$(BIN)/python tests/support/prose.py

format: $(READY)  ## Format the code and mend what ruff can mend.
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

docs: $(READY)  ## Build the docs strictly, into site/.
	$(BIN)/zensical build --config-file .zensical.toml --strict --clean

setup: $(READY)  ## Only set up the virtual environment.
	@echo "Ready. Make canary a command of this shell: . $(BIN)/activate"

release: $(READY)  ## Build the packages, check them, and list what the wheel holds.
	rm -rf dist
	@$(PIP) install --constraint constraints.txt build twine
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m zipfile --list dist/*.whl

clean:  ## Remove what the other targets wrote, except the environment and the fetched model.
	rm -rf demo site build dist .venv-ci .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	find canary tests recipes -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes first and alone, so that its build is chosen by the pin and by nothing else.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: canary needs Python 3.11 or newer; say where with: make PYTHON=/path/to/python" >&2; \
		exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version); this takes a few minutes."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --constraint constraints.txt --upgrade pip
	@$(PIP) install $(PIP_OPTIONS) --constraint constraints.txt torch
	@$(PIP) install $(PIP_OPTIONS) --constraint constraints.txt --build-constraint constraints.txt \
		--editable '.[train,adapters,endpoint]' --group dev
	@touch $@
