# flink-autoscaler: everything a contributor or a first-time user runs.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
BUILD ?= build
ROOTS := core clients stores realizers pipeline standalone

# The first interpreter that is new enough; `make setup PYTHON=/path/to/python3.12` chooses another.
PYTHON ?= $(shell .ci/check-tools find-python)

# Length of the demo, in seconds.
DEMO_SECONDS ?= 300
# What `make run` starts with.
CONFIG ?= conf/autoscaler.yaml
ARGS ?=
# What make test leaves out; each has a target of its own.
LONG_SUITES := yarn or kerberos or rescue or cluster or long
# Handed to pytest, such as PYTEST_ARGS="-x -k transport".
PYTEST_ARGS ?=
# Where it is set, every process of every test would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
# Processes that make test and make test-fast run tests in; 0: in one process, in order.
TEST_WORKERS ?= 3
IN_PARALLEL = -n $(TEST_WORKERS) --durations=20

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(STAMP) ## Create .venv and install the project with its development tools.

$(STAMP): pyproject.toml
	@.ci/check-tools python "$(PYTHON)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo "setup: creating $(VENV)"; "$(PYTHON)" -m venv --clear $(VENV); }
	@echo "setup: installing into $(VENV); the first time downloads about 600 MB (PySpark is most of it)"
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dev]'
	@touch $@
	@echo "setup: done"

.PHONY: check-tools
check-tools: ## Print what this machine lacks, with the Debian package that has it.
	@.ci/check-tools all "$(PYTHON)"

.PHONY: demo
demo: setup ## Watch a real Flink job being scaled up and down (DEMO_SECONDS=300).
	@.ci/check-tools jdk
	DEMO_SECONDS=$(DEMO_SECONDS) PYTHONPATH=tests/support $(BIN)/python -m demo

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
test: setup ## Run all tests but the long suites below, real Flink clusters included.
	@.ci/check-tools jdk
	$(BIN)/python -m pytest $(IN_PARALLEL) -m "not ($(LONG_SUITES))" $(PYTEST_ARGS)

.PHONY: test-fast
test-fast: setup ## Run the tests that need no Flink cluster.
	@.ci/check-tools jdk
	$(BIN)/python -m pytest $(IN_PARALLEL) -m "not (e2e or $(LONG_SUITES))" $(PYTEST_ARGS)

# Installs the extra, whose two packages are built from source: gcc, python3-dev and libkrb5-dev.
.PHONY: test-kerberos
test-kerberos: setup ## Run the tests with a real KDC (see docs/guide/kerberos.md for the Debian packages).
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[kerberos]'
	$(BIN)/python -m pytest -m kerberos $(PYTEST_ARGS)

.PHONY: test-rescue
test-rescue: setup ## Run the tests of rescales that go wrong, on real Flink (about 20 min).
	@.ci/check-tools jdk
	$(BIN)/python -m pytest -s -m rescue $(PYTEST_ARGS)

.PHONY: test-model
test-model: setup ## Run the model of rescales against a lossy cluster for 100,000 steps (MODEL_STEPS).
	MODEL_STEPS=$${MODEL_STEPS:-100000} $(BIN)/python -m pytest -s tests/unit/properties/test_rescale_machine.py $(PYTEST_ARGS)

.PHONY: test-yarn
test-yarn: setup ## Run the tests on a real YARN, with Flink and Spark on it, and a real HDFS (downloads Hadoop once).
	@.ci/check-tools jdk
	$(BIN)/python -m pytest -m yarn $(PYTEST_ARGS)

.PHONY: test-cluster
test-cluster: setup ## Run passes, profiles and backtests on real Spark clusters and Spark Connect, and kill parts (about 15 min).
	@.ci/check-tools jdk
	$(BIN)/python -m pytest -m cluster $(PYTEST_ARGS)

.PHONY: test-long
test-long: setup ## Run what make test leaves out to stay short: more combinations on real Flink (about 6 min).
	@.ci/check-tools jdk
	$(BIN)/python -m pytest -m long $(PYTEST_ARGS)

.PHONY: test-faults
test-faults: setup ## Kill, stop and cut off real daemons and databases (FAULT_ROUNDS=1: all rounds).
	FAULT_ROUNDS=$${FAULT_ROUNDS:-1} $(BIN)/python -m pytest -s -m faults $(PYTEST_ARGS)

.PHONY: bench
bench: setup ## Run the benchmarks, one after the other (about 40 min).
	@.ci/check-tools jdk
	@.ci/check-tools nginx
	@set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; PYTHONPATH=tests/support:. $(BIN)/python "$$file"; done

# Spark executors import the archive through zipimport, which before Python 3.14 sees a namespace
# package only where the archive has directory entries. A renamed wheel has none, so it is packed here.
.PHONY: pyfiles
pyfiles: setup ## Pack the archive for Spark executors into build/pyfiles.zip.
	rm -rf $(BUILD)/pyfiles $(BUILD)/pyfiles.zip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target $(BUILD)/pyfiles .
	cd $(BUILD)/pyfiles && $(abspath $(BIN))/python -m zipfile -c ../pyfiles.zip flink_autoscaler flink_autoscaler-*.dist-info
	@echo "$(BUILD)/pyfiles.zip"

.PHONY: clean
clean: ## Remove what was built and cached; .venv stays.
	rm -rf $(BUILD) dist .coverage htmlcov .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	find $(ROOTS) tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
