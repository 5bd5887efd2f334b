# Every target does its own set-up in .venv; nothing but Python 3.11+ is needed beforehand.
PYTHON ?= python3
BIN := .venv/bin
DEV_EXTRAS := torch,lite,ros,faiss,pgvector,cluster,hloc,onnx,dev

.PHONY: demo test check lint bench clean

.venv/.core: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e .
	touch $@

.venv/.dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e ".[$(DEV_EXTRAS)]"
	touch .venv/.core $@

demo: .venv/.core
	$(BIN)/displace demo

test: .venv/.dev
	$(BIN)/python -m pytest

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

bench: .venv/.dev
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
