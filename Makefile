# The two commands of a newcomer: `make demo` and `make test`. Every target sets .venv up by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test check mutants bench docs clean
.DELETE_ON_ERROR:

demo: $(VENV)/.ready
	$(BIN)/counterplay demo --out demo

test: export PYTHONDONTWRITEBYTECODE = # many tests start processes, which would compile all again
test: $(VENV)/.ready
	$(BIN)/python -m pytest --quiet --numprocesses auto --dist worksteal

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

mutants: $(VENV)/.ready
	$(BIN)/python -m tests.mutants $(if $(SINCE),--since $(SINCE))

bench: $(VENV)/.ready
	$(BIN)/python -m benchmarks.run

docs: $(VENV)/.docs
	$(BIN)/python docs/make_reference.py
	$(BIN)/python docs/make_report.py
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build

clean:
	rm -rf $(VENV) demo docs/_build docs/_extra

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else f"counterplay needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}; name another one with make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) hatchling editables
	$(INSTALL) --no-build-isolation --editable '.[dev]'
	touch $@

$(VENV)/.docs: $(VENV)/.ready
	$(INSTALL) --no-build-isolation --editable '.[dev,docs]'
	touch $@
