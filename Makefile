# Every target does its own set-up in .venv; nothing but Python 3.11+ is needed beforehand.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
# Compiled files are kept even where the environment says not to: both processes and all that they start read them.
TEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
REACHED := 98
DEV_EXTRAS := torch,lite,ros,faiss,pgvector,cluster,hloc,onnx,web,dev

.PHONY: demo test fuzz mutants relapses coverage check lint docs bench clean

.venv/.core: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e .
	touch $@

.venv/.dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e ".[$(DEV_EXTRAS)]"
	touch .venv/.core $@

.venv/.docs: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e ".[docs]"
	touch .venv/.core $@

demo: .venv/.core
	$(BIN)/displace demo

# Tests of a file run in one process; the last line says how long they took.
test: .venv/.dev
	$(TEST)

# Damaged files of every kind behind right checksums: about 22,000 cases; CI has a tenth of them.
fuzz: .venv/.dev
	FUZZ_CASES=2000 FUZZ_SEED=1 $(TEST) tests/test_fuzz.py

# Single changes to the core, and whether a test notices; docs/testing.md.
COUNT ?= 300
mutants: .venv/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/mutants.py --count $(COUNT)

# Faults that were mended, put back one by one: a test must fail for each; docs/testing.md.
relapses: .venv/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/relapses.py

# Fails below the share of lines that the tests reach today.
coverage: .venv/.dev
	$(TEST) --cov=displace --cov-report=term:skip-covered --cov-fail-under=$(REACHED)

docs: .venv/.docs
	$(BIN)/sphinx-build -q -W --keep-going -c docs -d build/doctrees . build/docs
	@echo "build/docs/index.html"

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

bench: .venv/.dev
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
