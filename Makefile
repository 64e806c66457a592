# Needs make and Python 3.11 or newer; everything else goes into .venv.
#   make test     install, check, run all tests
#   make quick    install, run the quick tests, in about a minute
#   make check    format, lint, types, import rules, spelling
#   make format   put the code into shape
#   make docs     write the generated pages: settings, API reference, tiles
#   make demo     three agents learn to hunt treasure, in about a minute
#   make clean    remove caches and build leftovers (.venv and runs stay)

PYTHON ?= python3
TEST_PROCESSES ?= 2
DEMO_ROUNDS ?= 170
DEMO_RUN := runs/demo-$(shell date +%Y%m%d-%H%M%S)

BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: test quick check format docs demo install clean
.DEFAULT_GOAL := test

test: check
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadgroup --durations 20

quick: install
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadgroup -m "not slow"

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: install
	$(BIN)/python tools/docs.py

demo: install
	$(BIN)/rookery train treasurehunt rounds=$(DEMO_ROUNDS) --run $(DEMO_RUN)
	$(BIN)/rookery evaluate $(DEMO_RUN) evaluate.episodes=50
	$(BIN)/rookery replay $(DEMO_RUN)

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
