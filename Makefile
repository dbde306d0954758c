# demo, up, test and lint in an environment of their own (.venv), made from uv.lock at the first call and again
# when pyproject.toml or uv.lock change. Needs Python 3.11 or later; uv is used where it is there or can be had.

PYTHON ?= python3
VENV   := .venv
STAMP  := $(VENV)/.complete
RUN    := $(VENV)/bin/python

FILE   ?=
FORMAT ?= auto
UNIT   ?=

MINUTES ?=
SEED    ?=
WITHOUT ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help:
	@echo 'make demo                                    import a history, wait until it is published, show the result'
	@echo '   [FILE=history.csv] [FORMAT=auto|strong|hevy|fitnotes|fitbod] [UNIT=kg|lb]'
	@echo 'make up                                     the same stack, in the foreground until Ctrl-C'
	@echo 'make test                                   all tests, on servers of their own'
	@echo 'make faults [MINUTES=5] [SEED=7]             a storm of faults over the whole stack, then what is true'
	@echo 'make bench                                  the measurements that have a bar, as one table'
	@echo 'make lint                                   format, lint, types, layers of imports, SQL'
	@echo 'make clean                                  remove the environment and the caches'

.PHONY: demo
demo: $(STAMP)
	@$(RUN) -m ops.cli demo $(if $(FILE),--file "$(FILE)") --format "$(FORMAT)" $(if $(UNIT),--unit "$(UNIT)")

.PHONY: up
up: $(STAMP)
	@$(RUN) -m ops.cli up

# In the order of the folders: by their number of tests, a module of one long test would come last, alone.
.PHONY: test
test: $(STAMP)
	$(RUN) -m pytest -n 2 --dist loadscope --no-loadscope-reorder

# Kinds of faults named in WITHOUT, separated by commas, are left out; with ONLY no others are played.
.PHONY: faults
faults: $(STAMP)
	@PYTHONPATH=tests $(RUN) -m faults --minutes "$(or $(MINUTES),5)" $(if $(SEED),--seed "$(SEED)") --only "$(ONLY)" \
		--without "$(WITHOUT)"

.PHONY: bench
bench: $(STAMP)
	@$(RUN) -m bench

.PHONY: lint
lint: $(STAMP)
	$(RUN) -m ruff format --check
	$(RUN) -m ruff check
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports --no-cache --no-logo
	$(RUN) -m sql.lint

.PHONY: clean
clean:
	rm -rf $(VENV) .bootstrap .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info

# uv from the PATH, else from a small environment of its own; without either, plain pip, which takes the newest
# versions that pyproject.toml allows instead of the locked ones.
$(STAMP): pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "make: Python 3.11 or later is needed; name one with PYTHON=/path/to/python3" >&2; exit 1; }
	@if command -v uv >/dev/null; then uv=uv; \
	elif ! $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
	  echo "make: $(PYTHON) has no ensurepip; install python3-venv (Debian, Ubuntu) or uv" >&2; exit 1; \
	elif $(MAKE) --no-print-directory .bootstrap/bin/uv; then uv=.bootstrap/bin/uv; \
	else uv=; fi; \
	if [ -n "$$uv" ]; then \
	  echo "installing from uv.lock into $(VENV) ..."; \
	  env -u VIRTUAL_ENV UV_PROJECT_ENVIRONMENT=$(VENV) \
	    "$$uv" sync --quiet --locked --all-extras --python "$(PYTHON)"; \
	else \
	  echo "no uv to be had: installing with pip into $(VENV), without the lock ..."; \
	  $(PYTHON) -m venv $(VENV) && $(RUN) -m pip install --quiet -e '.[embedded,dev]'; \
	fi
	@touch $(STAMP)

.bootstrap/bin/uv:
	@echo "fetching uv into .bootstrap ..."
	@$(PYTHON) -m venv .bootstrap && .bootstrap/bin/python -m pip install --quiet uv
