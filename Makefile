# make lab      set everything up and open the lab (FOLDER=… serves another folder than notebooks/)
# make test     set everything up and run all tests
.DEFAULT_GOAL := help
.PHONY: help install lab test check quick docs bench test-gpu golden clean

help:
	@sed -n 's/^# make /make /p' Makefile

# make install  the environment alone: .venv/bin/ownlab
install:
	@scripts/setup lab

# The folder that the lab serves.
FOLDER ?= notebooks

lab: install
	@mkdir -p "$(FOLDER)"
	@.venv/bin/ownlab up "$(FOLDER)"

# make check    ruff, mypy, tsc, ESLint, the tests of the TypeScript and the architecture, without the other tests
check:
	@scripts/setup test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	PATH="$$PATH:$(CURDIR)/.venv/bin" npm --prefix labextension run --silent check
	PATH="$$PATH:$(CURDIR)/.venv/bin" npm --prefix labextension test --silent
	.venv/bin/pytest -q tests/test_architecture.py

SPHINX = .venv/bin/sphinx-build -q -W -n --keep-going -E -b html

# make docs     build the documentation site into build/docs; fails on warnings and on broken internal links
# English comes last: its check of links covers the other languages, too.
docs:
	@scripts/setup docs
	@rm -rf build/docs
	$(SPHINX) -D language=zh_CN -d build/docs-cache/zh_CN docs build/docs/zh_CN
	$(SPHINX) -d build/docs-cache/en docs build/docs
	@echo "build/docs/index.html"

# make quick    make check, and the tests that start no processes (under two minutes)
quick: check
	.venv/bin/pytest -q -n 2 -m "not not_quick" tests

# How often a test that failed is run again. It is listed with its traceback even if it then passes: such a test is a bug.
RERUNS ?= 0
AGAIN = $(if $(filter-out 0,$(RERUNS)),--reruns $(RERUNS) --rerun-show-tracebacks -rR)

test: check docs
	.venv/bin/pytest -q -n 4 --dist loadfile $(AGAIN) tests tests_colab tests_survival
	.venv/bin/pytest -q -n 2 --dist loadfile $(AGAIN) tests_browser

# make bench    measure against peers, and write benchmarks/RESULTS.md
bench:
	@scripts/setup test
	.venv/bin/python -m benchmarks.run

# make test-gpu tests that need a real GPU, in the python3 that has torch
test-gpu:
	sh tests_gpu/run.sh

# make golden   rewrite generated files: schemas, rule pages, golden outputs (look at the diff before you commit it)
golden:
	@scripts/setup test
	OWNLAB_GOLDEN=write .venv/bin/pytest -q tests -k "golden or generated"

clean:
	find docs/locale -name "*.mo" -delete
	rm -rf .venv .venv-* bin build dist labextension/lib src/ownlab/lab/labextensions labextension/node_modules .mypy_cache .pytest_cache .ruff_cache
