# Two commands on a fresh clone: `make demo` and `make test`. Each builds `.venv` first if it is not there.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# Two processes of one thread: nearly every test is too small to gain from a second thread.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

.PHONY: help setup locked demo test check audit format bench browser clean

help:            ## this list
	@grep -E '^[a-z]+: .*##|^[a-z]+: +##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

setup: $(READY)  ## build .venv with the pinned dependencies

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

locked:          ## build .venv from requirements.lock: the same files by their SHA-256 (Linux x86_64, Python 3.11)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(READY)

demo: $(READY)   ## fit models on the built-in data: a table, three lists, a report
	$(BIN)/shortlist demo --out demo

test: $(READY) $(if $(CI),browser)  ## the tests and the examples in the docstrings
	$(PYTEST)

browser:         ## Chromium from Debian's packages, for the tests of pages; they are skipped where there is none
	command -v chromium || (apt-get -qq update && apt-get -qq install --yes --no-install-recommends chromium) \
		|| echo 'no Chromium could be installed: the tests of pages will be skipped'

check: $(READY)  ## lint, strict types, tests, doctests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(PYTEST)

audit:           ## known vulnerabilities of the locked packages; needs a package index that answers
	test -x $(VENV)-audit/bin/pip-audit || ($(PYTHON) -m venv $(VENV)-audit \
		&& $(VENV)-audit/bin/python -m pip install --quiet pip-audit)
	$(VENV)-audit/bin/pip-audit --require-hashes --disable-pip --requirement requirements.lock

format: $(READY) ## let ruff lay the code out
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(READY)  ## measure speed and memory; long
	for script in benchmarks/[a-z]*.py; do $(BIN)/python $$script || exit 1; done

clean:           ## remove what the other targets made
	rm -rf $(VENV) $(VENV)-audit demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
