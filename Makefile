# Two commands matter: `make run` and `make test`. Both set up everything they need in .venv.
VENV := .venv
DEV := requirements/dev.txt
PY := $(VENV)/bin/python
# Many processes import the same modules: the first one compiles them for all.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: docs run test quick search check lock clean
run: $(VENV)/.ready
	$(VENV)/bin/pointsman serve --demo

# In parallel, one worker per core. A worker that is done takes tests over from another: they differ a lot in length.
WORKERS := -n auto --maxprocesses 8 --dist worksteal

test: $(VENV)/.ready-dev
	$(PY) -m pytest $(WORKERS) $(ARGS)

# What decides, and the units of the rest, with fewer random examples: under a minute on two cores.
quick: $(VENV)/.ready-dev
	$(PY) -m pytest $(WORKERS) -q -m "not integration and not slow and not data" --hypothesis-profile=quick $(ARGS)

# The property tests on new random examples, twenty times as many as usual.
search: $(VENV)/.ready-dev
	$(PY) -m pytest $(WORKERS) -m hypothesis --hypothesis-profile=search $(ARGS)

check: $(VENV)/.ready-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

$(VENV)/.ready: requirements/run.txt pyproject.toml
	sh scripts/setup-venv.sh $(VENV) requirements/run.txt
	@touch $@

$(VENV)/.ready-dev: $(DEV) pyproject.toml
	sh scripts/setup-venv.sh $(VENV) $(DEV)
	@touch $@ $(VENV)/.ready

# The documentation site, in site/. A broken link, also to a heading, is an error. Needs no network once installed.
DOCS_VENV := .venv-docs
docs: $(DOCS_VENV)/.ready
	$(DOCS_VENV)/bin/sphinx-build -q -W --keep-going -b html docs site

$(DOCS_VENV)/.ready: requirements/docs.txt pyproject.toml
	sh scripts/setup-venv.sh $(DOCS_VENV) requirements/docs.txt
	@touch $@

# Locked, hashed requirements: `make lock` after a change of dependencies. Versions that still fit are kept.
UV := $(or $(shell command -v uv),.venv-lock/bin/uv)
COMPILE = $(UV) pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
    --python-version 3.11 pyproject.toml
lock: $(UV)
	$(COMPILE) --extra gateway -o requirements/run.txt
	$(COMPILE) --all-extras --group dev -o requirements/dev.txt
	$(COMPILE) --extra gateway --group docs -o requirements/docs.txt

.venv-lock/bin/uv:
	python3 -m venv .venv-lock
	.venv-lock/bin/pip install -q uv

clean:
	rm -rf $(VENV) .venv-* site .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
