# Needs make and Python 3.11 or newer; everything else goes into .venv.
#   make test     install, check, run the tests
#   make check    format, lint, types, import rules, spelling
#   make format   put the code into shape
#   make demo     a match of scripted agents
#   make clean    remove caches and build leftovers (.venv and runs stay)

PYTHON ?= python3
TEST_PROCESSES ?= 2
DEMO ?= replay treasurehunt --players forager,forager,random

BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: test check format demo install clean
.DEFAULT_GOAL := test

test: check
	$(BIN)/python -m pytest -n $(TEST_PROCESSES)

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: install
	$(BIN)/rookery $(DEMO)

install: $(INSTALLED)

# Repeated only when one of these files changed since.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $(PYTHON) is older than Python 3.11: make PYTHON=python3.11 …" >&2; exit 2; }
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf build dist *.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find rookery tests -type d -name __pycache__ -prune -exec rm -rf {} +
