# Needs Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PROGRAM := $(VENV)/.program
TOOLS := pytest pytest-asyncio pytest-timeout pytest-xdist hypothesis mypy psutil ruff import-linter codespell pytest-cov
# An S3 server for the tests of large blobs.
TOOLS += 'moto[s3]' flask flask-cors
# What the tests of the adapters take beside the frameworks themselves.
FRAMEWORK_TOOLS := langgraph langgraph-checkpoint-sqlite langgraph-checkpoint-conformance
# Brings axe, which looks for what keeps people out of our pages; not the browser that it asks for.
PAGE_TOOLS := axe-playwright-python

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: run test check bench torture interop docs clean setup format coverage wheel sbom audit
.DEFAULT_GOAL := run

run: $(PROGRAM)  ## start the program
	@$(BIN)/sessiontree $(ARGS)

test: setup system-tools  ## run the tests
	$(BIN)/pytest -n 3 --dist loadgroup $(ARGS)

check: setup  ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/pytest -q tests/unit/test_documentation.py

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup  ## measure beside pi and omp; ARGS="--quick" for a short run
	$(BIN)/python -m benchmarks $(ARGS)

interop: setup  ## exchange sessions with the living pi and omp
	$(BIN)/python -m benchmarks.peers
	$(BIN)/pytest -m interop tests/interop $(ARGS)

torture: setup  ## attack it; TORTURE_SECONDS bounds the time; RECORD=1 adds the run to the record
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
		{ echo "Installing the fuzzer"; $(BIN)/python -m pip install --quiet --constraint constraints.txt atheris; }
	@rm -f .bench/torture.json
	@status=0; $(BIN)/pytest -m "torture or interop" tests/torture \
		$(if $(RECORD),tests/interop/test_living_writers.py) $(ARGS) || status=$$?; \
	$(if $(RECORD),$(BIN)/python -m tests.torture.record || status=$$?;) exit $$status

docs: setup site-tools  ## check the documents, build them as a site in build/site
	$(BIN)/pytest -q tests/unit/test_documentation.py
	@rm -rf build/pages && mkdir -p build/pages
	@cp -R README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs examples build/pages
	@NO_COLOR=1 $(BIN)/zensical build --clean --strict
	@$(BIN)/python scripts/check_site.py build/site
	@echo "The site is in build/site. To search it: python3 -m http.server -d build/site"

coverage: setup system-tools  ## the tests with coverage; the floor is in pyproject.toml
	$(BIN)/pytest -n 3 --dist loadgroup --cov --cov-report term:skip-covered $(ARGS)

wheel: setup  ## build the wheel twice, compare, keep it in dist
	@sh scripts/wheel.sh

sbom: setup release-tools  ## write what a release consists of to dist (CycloneDX)
	@mkdir -p dist
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file dist/sessiontree.cdx.json $(BIN)/python

audit: setup release-tools  ## look for known vulnerabilities of the dependencies
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict

clean:
	rm -rf $(VENV) .venv-* .peers .bench .mypy_cache .ruff_cache .pytest_cache .coverage* .hypothesis .import_linter_cache .cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup: $(STAMP)

INPUTS := pyproject.toml constraints.txt src/sessiontree/_version.py

define venv
@$(PYTHON) -c 'import sys; sys.exit("Sessiontree needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
@test -x $(BIN)/python || { echo "Making $(VENV) (once, some seconds)"; $(PYTHON) -m venv $(VENV); }
endef

$(PROGRAM): $(INPUTS)
	$(venv)
	@$(BIN)/python scripts/install.py "Installing Sessiontree (once)" \
		--constraint constraints.txt --editable '.[all]'
	@touch $(PROGRAM)

$(STAMP): $(INPUTS)
	$(venv)
	@$(BIN)/python scripts/install.py "Installing what the tests need (once)" \
		--constraint constraints.txt --editable '.[all,s3,frameworks]' $(TOOLS) $(FRAMEWORK_TOOLS)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps $(PAGE_TOOLS)
	@touch $(STAMP) $(PROGRAM)

.PHONY: release-tools
release-tools:
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt pip-audit cyclonedx-bom

.PHONY: site-tools
site-tools:
	@test -x $(BIN)/zensical || { echo "Installing the site builder"; \
		$(BIN)/python -m pip install --quiet --constraint constraints.txt zensical mkdocstrings-python; }

.PHONY: system-tools
system-tools:
	@sh scripts/system_tools.sh
