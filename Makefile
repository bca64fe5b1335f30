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
# What `make run` starts with.
CONFIG ?= conf/autoscaler.yaml
ARGS ?=
# What make test leaves out, but for one test of each kind, marked as guard; each has a target of its own.
LONG_SUITES := yarn or kerberos or rescue or cluster or long or hour or agreement or kafka or objects or docker or systemd or soak or upgrade or hostile
# Handed to the harness of make test-hostile.
HOSTILE_ARGS ?=
# Handed to make decisions, such as 'slo / step', or --write after a change that decides otherwise on purpose.
DECISIONS_ARGS ?=
# Handed to make soak, such as --seconds 3600, --engine spark or --set autoscaler.dry-run=true.
SOAK_ARGS ?=
# Which Debian package make deb builds: spark or inline.
DEB ?= spark
# Handed to what builds a release, such as --no-deb; to what checks where packages come from, such as --offline.
RELEASE_ARGS ?=
SUPPLY_ARGS ?=
# A release of Debian whose Python make test-python takes.
SUITE ?=
# Handed to what writes the lock files, such as --upgrade.
LOCK_ARGS ?=
# Handed to pytest, such as PYTEST_ARGS="-x -k transport".
PYTEST_ARGS ?=
# Where it is set, every process of every test would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
# Processes that make test and make test-fast run tests in; 0: in one process, in order.
TEST_WORKERS ?= 4
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
	@DEMO_SECONDS=$(DEMO_SECONDS) POLICY=$(POLICY) PYTHONPATH=tools:tests/support $(BIN)/python -m demo

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
test: jdk $(VENV)/.setup-test ## Run all tests but the long suites below, and one of each of these; real Flink clusters included.
	@.ci/check-tools skips
	@if .ci/check-tools kerberos >/dev/null 2>&1; then $(MAKE) --no-print-directory $(VENV)/.setup-kerberos; fi
	$(BIN)/python -m pytest $(IN_PARALLEL) -m "guard or not ($(LONG_SUITES))" $(PYTEST_ARGS)

.PHONY: test-fast
test-fast: jdk $(VENV)/.setup-test ## Run the tests that need no Flink cluster.
	@.ci/check-tools skips
	$(BIN)/python -m pytest $(IN_PARALLEL) -m "not (e2e or $(LONG_SUITES))" $(PYTEST_ARGS)

# The extra's two packages are built from source: gcc, python3-dev and libkrb5-dev.
$(VENV)/.setup-kerberos: $(VENV)/.setup-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable '.[kerberos]'
	@touch $@

.PHONY: test-kerberos
test-kerberos: $(VENV)/.setup-kerberos ## Run the tests with a real KDC (check-tools skips names the Debian packages).
	$(BIN)/python -m pytest -m kerberos $(PYTEST_ARGS)

.PHONY: test-kafka
test-kafka: jdk $(VENV)/.setup-test ## Run the tests with a real Kafka broker and a Flink that reads it (about 10 min; needs Maven the first time).
	$(BIN)/python -m pytest -m kafka $(PYTEST_ARGS)

.PHONY: test-objects
test-objects: jdk $(VENV)/.setup-test ## Run the tests of a history on a real object store (needs Maven the first time; about 10 min).
	$(BIN)/python -m pytest -s -m objects $(PYTEST_ARGS)

.PHONY: test-rescue
test-rescue: jdk $(VENV)/.setup-test ## Run the tests of rescales that go wrong, on real Flink (about 20 min).
	$(BIN)/python -m pytest -s -m rescue $(PYTEST_ARGS)

.PHONY: test-model
test-model: $(VENV)/.setup-test ## Run the model of rescales against a lossy cluster for 100,000 steps (MODEL_STEPS).
	MODEL_STEPS=$${MODEL_STEPS:-100000} $(BIN)/python -m pytest -s tests/unit/properties/test_rescale_machine.py $(PYTEST_ARGS)

.PHONY: test-yarn
test-yarn: jdk $(VENV)/.setup-test ## Run the tests on a real YARN, with Flink and Spark on it, and a real HDFS (downloads Hadoop once).
	$(BIN)/python -m pytest -m yarn $(PYTEST_ARGS)

.PHONY: test-cluster
test-cluster: jdk $(VENV)/.setup-test ## Run passes, profiles and backtests on real Spark clusters and Spark Connect, and kill parts (about 20 min).
	$(BIN)/python -m pytest -m cluster $(PYTEST_ARGS)

.PHONY: test-hour
test-hour: jdk $(VENV)/.setup-test ## Do what a new user does in the first hour, on real Flink, in a quarter of it; diary and log in build/hour.
	$(BIN)/python -m pytest -s -m hour $(PYTEST_ARGS)

.PHONY: test-agreement
test-agreement: jdk $(VENV)/.setup-test ## Scale two jobs on real Flink for half an hour, and compare with the simulator; table in build/agreement.
	$(BIN)/python -m pytest -s -m agreement $(PYTEST_ARGS)

.PHONY: test-long
test-long: jdk $(VENV)/.setup-test ## Run what make test leaves out to stay short: more combinations on real Flink (about 30 min).
	$(BIN)/python -m pytest -m long $(PYTEST_ARGS)

.PHONY: test-faults
test-faults: $(VENV)/.setup-test ## Kill, stop and cut off real daemons and databases (FAULT_ROUNDS=1: all rounds).
	FAULT_ROUNDS=$${FAULT_ROUNDS:-1} $(BIN)/python -m pytest -s -m faults $(PYTEST_ARGS)

.PHONY: test-hostile
test-hostile: $(VENV)/.setup-test ## Attack a daemon, and tell it 20,000 lies (HOSTILE_ARGS="--lies 500 --seed 3", or --only 'a lie').
	$(BIN)/python -m pytest -m hostile $(PYTEST_ARGS)
	PYTHONPATH=tools:tests/support $(BIN)/python -m hostile_flink $(HOSTILE_ARGS)

.PHONY: decisions
decisions: $(VENV)/.setup-test ## Decide a simulated day of every policy under eleven loads; compare with tests/fixtures/decisions.json (15 min).
	$(BIN)/python tools/decision_digests.py $(DECISIONS_ARGS)

.PHONY: soak
soak: $(VENV)/.setup-test ## Let a week pass for a daemon in 23 minutes, with all that goes wrong, and fail by the name of what grows.
	PYTHONPATH=tools:tests/support $(BIN)/python -m soak $(SOAK_ARGS)

.PHONY: test-docker
test-docker: jdk $(VENV)/.setup-test ## Build the images and run them, in a Docker of its own (root and debootstrap; the first time about 15 min).
	@.ci/check-tools machines
	$(BIN)/python -m pytest -s -m docker tests/machines $(PYTEST_ARGS)

.PHONY: test-systemd
test-systemd: $(VENV)/.setup-test ## Run the unit on a real systemd that is booted for it (root, debootstrap, systemd-container; about 5 min).
	@.ci/check-tools machines
	$(BIN)/python -m pytest -s -m systemd tests/machines $(PYTEST_ARGS)

.PHONY: test-upgrade
test-upgrade: jdk $(VENV)/.setup-test ## Let the last release and this version take turns on one database, on rescales and on a history (about 10 min).
	$(BIN)/python -m pytest -s -m upgrade $(PYTEST_ARGS)

.PHONY: lock
lock: $(VENV)/.setup-test ## Write the lock files of deployments and of this clone in requirements/ (LOCK_ARGS=--upgrade takes what is new).
	PYTHONPATH=tools:tests/support $(BIN)/python -m locks $(LOCK_ARGS)

.PHONY: deb
deb: $(VENV)/.setup-test ## Build a Debian package with unit, configuration and environment into dist (DEB=inline: without Spark).
	PYTHONPATH=tools:tests/support $(BIN)/python -m releasing.deb $(DEB)

.PHONY: release
release: $(VENV)/.setup-test ## Build all that is released into dist, try it in empty environments; checksums and notes.
	PYTHONPATH=tools:tests/support $(BIN)/python -m releasing $(RELEASE_ARGS)

.PHONY: check-supply
check-supply: $(VENV)/.setup-test ## Known vulnerabilities and licences of what is pinned (SUPPLY_ARGS=--offline: licences alone).
	PYTHONPATH=tools:tests/support $(BIN)/python -m supply $(SUPPLY_ARGS)

# PySpark is not the lowest one: it would be built anew.
.PHONY: test-lowest
test-lowest: $(VENV)/.setup-test ## Run the unit tests with the lowest versions that are allowed (PYTHON=python3.13: another Python).
	PYTHONPATH=tools:tests/support $(BIN)/python -m releasing.versions "$(PYTHON)" $(PYTEST_ARGS)

.PHONY: test-python
test-python: $(VENV)/.setup-test ## Run the unit tests on another Python, with the newest versions (PYTHON=python3.13, or SUITE=testing: that of a Debian).
	@[ -z "$(SUITE)" ] || .ci/check-tools machines
	PYTHONPATH=tools:tests/support $(BIN)/python -m $(if $(SUITE),machines.pythons "$(SUITE)",releasing.versions "$(PYTHON)" --newest) $(PYTEST_ARGS)

.PHONY: bench
bench: jdk $(VENV)/.setup-test ## Run the benchmarks, one after the other (about 50 min).
	@.ci/check-tools nginx
	@set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; PYTHONPATH=tools:tests/support:. $(BIN)/python "$$file"; done

.PHONY: docs
docs: setup ## Build the documentation as a site in build/site; a broken link fails.
	PYTHONPATH=tools:tests/support $(BIN)/python -m docs_site $(BUILD)

.PHONY: pictures
pictures: setup pictures-page ## Make the pictures of README and guide, also from a real demo (17 min; needs chromium and chromium-driver).
	@.ci/check-tools jdk
	PYTHONPATH=tools:tests/support $(BIN)/python -m pictures

.PHONY: pictures-page
pictures-page: setup ## Make the pictures of the page in its guide, on a fake cluster (1 min).
	PYTHONPATH=tools:tests/support:. $(BIN)/python -m pictures.page

.PHONY: diagrams
diagrams: setup ## Draw the Mermaid diagrams of docs/ as SVG (needs npm, chromium and chromium-driver).
	PYTHONPATH=tools:tests/support $(BIN)/python -m pictures.diagrams

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
