# flink-autoscaler: everything a contributor or a first-time user runs.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
BUILD ?= build
ROOTS := core clients stores realizers pipeline standalone

# The first interpreter that is new enough; `make setup PYTHON=/path/to/python3.12` chooses another.
PYTHON ?= $(shell .ci/check-tools find-python)

# Length of the demo, in seconds (300, with POLICY=slo 720), and the policy that decides in it.
DEMO_SECONDS ?=
POLICY ?=
# What `make run` starts with; ARGS is handed to the suites as well.
CONFIG ?= conf/autoscaler.yaml
ARGS ?=
# A suite that make test leaves out.
NAME ?=
# Handed to what makes the load of make test-under-load.
LOAD ?=
# Which Debian package make deb builds: spark or inline.
DEB ?= spark
# Handed to what builds a release, such as --no-deb; to what checks where packages come from, such as --offline.
RELEASE_ARGS ?=
SUPPLY_ARGS ?=
# Handed to what writes the lock files, such as --upgrade.
LOCK_ARGS ?=
# Handed to pytest, such as PYTEST_ARGS="-x -k transport".
PYTEST_ARGS ?=
# Where it is set, every process of every test would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
# Processes that make test runs tests in; 0: in one process, in order.
TEST_WORKERS ?= 4
STARTS_NOTHING := not (e2e or suite or spark or browser or faults or database or process)
IN_PARALLEL = -n $(TEST_WORKERS) --durations=20

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(VENV)/.setup-dev ## Create .venv and install the project with its development tools.

# One stamp per extra of pyproject.toml: demo, test, dev. A later one brings those before it.
INSTALL = .ci/check-tools python "$(PYTHON)" && .ci/setup $(VENV) "$(PYTHON)"

CONSTRAINTS := requirements/dev.txt

$(VENV)/.setup-demo: pyproject.toml $(CONSTRAINTS)
	@$(INSTALL) demo 2.3

$(VENV)/.setup-test: pyproject.toml $(CONSTRAINTS)
	@$(INSTALL) test 2.3 1.20

$(VENV)/.setup-dev: pyproject.toml $(CONSTRAINTS)
	@$(INSTALL) dev

.PHONY: jdk
jdk:
	@.ci/check-tools jdk

.PHONY: check-tools
check-tools: ## Print what this machine lacks, with the Debian package that has it.
	@.ci/check-tools all "$(PYTHON)"

.PHONY: demo
demo: jdk $(VENV)/.setup-demo ## Watch a real Flink job being scaled up and down (DEMO_SECONDS=300, POLICY=slo).
	@DEMO_SECONDS=$(DEMO_SECONDS) POLICY=$(POLICY) PYTHONPATH=tools:tests $(BIN)/python -m demo

.PHONY: run
run: setup ## Run the daemon: make run CONFIG=conf/autoscaler.yaml ARGS="--dry-run".
	$(BIN)/flink-autoscaler run --config $(CONFIG) $(ARGS)

.PHONY: check
check: setup ## Check format, lint, types and import directions.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit/project/test_architecture.py

.PHONY: test
test: jdk $(VENV)/.setup-test ## Run all tests but the suites, and one of each of these; real Flink clusters included.
	@.ci/check-tools room
	@.ci/check-tools skips
	@if .ci/check-tools kerberos >/dev/null 2>&1; then $(MAKE) --no-print-directory $(VENV)/.setup-kerberos; fi
	$(BIN)/python -m pytest $(IN_PARALLEL) -m "guard or not suite" $(PYTEST_ARGS)

# Two workers: collecting costs each of them the same, and nothing here waits.
.PHONY: test-fast
test-fast: $(VENV)/.setup-test ## Run the unit tests that start nothing: no JVM, database server, browser or process.
	$(BIN)/python -m pytest -n 2 --durations=20 -m "$(STARTS_NOTHING)" $(PYTEST_ARGS) tests/unit tests/features

# The extra's two packages are built from source: gcc, python3-dev and libkrb5-dev.
$(VENV)/.setup-kerberos: $(VENV)/.setup-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable '.[kerberos]'
	@touch $@

.PHONY: test-under-load
test-under-load: jdk $(VENV)/.setup-test ## Run make test beside four busy loops and a writer of the disk (LOAD=--one-core: on one core).
	$(BIN)/python tools/under_load.py $(LOAD) $(MAKE) --no-print-directory test

.PHONY: suite
suite: $(VENV)/.setup-test ## Run a suite that make test leaves out: make suite NAME=yarn ARGS="..."; without NAME, list them.
	@if [ "$(NAME)" = services ]; then $(MAKE) --no-print-directory $(VENV)/.setup-kerberos; fi
	@$(BIN)/python tools/suites.py $(NAME) $(ARGS)

.PHONY: lock
lock: $(VENV)/.setup-test ## Write the lock files of deployments and of this clone in requirements/ (LOCK_ARGS=--upgrade takes what is new).
	PYTHONPATH=tools:tests $(BIN)/python -m locks $(LOCK_ARGS)

.PHONY: deb
deb: $(VENV)/.setup-test ## Build a Debian package with unit, configuration and environment into dist (DEB=inline: without Spark).
	PYTHONPATH=tools:tests $(BIN)/python -m releasing.deb $(DEB)

.PHONY: release
release: $(VENV)/.setup-test ## Build all that is released into dist, try it in empty environments; checksums and notes.
	PYTHONPATH=tools:tests $(BIN)/python -m releasing $(RELEASE_ARGS)

.PHONY: check-supply
check-supply: $(VENV)/.setup-test ## Known vulnerabilities and licences of what is pinned (SUPPLY_ARGS=--offline: licences alone).
	PYTHONPATH=tools:tests $(BIN)/python -m supply $(SUPPLY_ARGS)

.PHONY: bench
bench: jdk $(VENV)/.setup-test ## Run the benchmarks, one after the other (about 50 min).
	@.ci/check-tools nginx
	@set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; PYTHONPATH=tools:tests:. $(BIN)/python "$$file"; done

.PHONY: docs
docs: setup ## Build the documentation as a site in build/site; a broken link fails.
	PYTHONPATH=tools:tests $(BIN)/python -m docs_site $(BUILD)

.PHONY: pictures
pictures: setup pictures-page ## Make the pictures of README and guide, also from a real demo (17 min; needs chromium and chromium-driver).
	@.ci/check-tools jdk
	PYTHONPATH=tools:tests $(BIN)/python -m pictures

.PHONY: pictures-page
pictures-page: setup ## Make the pictures of the page in its guide, on a fake cluster (1 min).
	PYTHONPATH=tools:tests:. $(BIN)/python -m pictures.page

.PHONY: diagrams
diagrams: setup ## Draw the Mermaid diagrams of docs/ as SVG (needs npm, chromium and chromium-driver).
	PYTHONPATH=tools:tests $(BIN)/python -m pictures.diagrams

# Spark executors import the archive through zipimport, which before Python 3.14 sees a namespace
# package only where the archive has directory entries. A renamed wheel has none, so it is packed here.
.PHONY: pyfiles
pyfiles: $(VENV)/.setup-demo ## Pack the archive for Spark executors into build/pyfiles.zip.
	rm -rf $(BUILD)/pyfiles $(BUILD)/pyfiles.zip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target $(BUILD)/pyfiles .
	cd $(BUILD)/pyfiles && $(abspath $(BIN))/python -m zipfile -c ../pyfiles.zip flink_autoscaler flink_autoscaler-*.dist-info
	@echo "$(BUILD)/pyfiles.zip"

.PHONY: clean
clean: ## Remove what was built and cached; .venv stays.
	rm -rf $(BUILD) dist .coverage htmlcov .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	find $(ROOTS) tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
