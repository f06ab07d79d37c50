# The two commands of the README are `make demo` and `make test`; both do all of their own set-up.

VENV := .venv
BIN  := $(VENV)/bin
READY := $(VENV)/.ready

# More workers than the two cores that this is measured on: two of three seconds of a test on Kafka are spent waiting
# for brokers and clocks. Nightly tests load their brokers themselves and wait for their kills; unit tests hardly wait.
test: PYTEST_ARGS ?= -n 4
test-nightly: PYTEST_ARGS ?= -n 3
test-unit test-spark: PYTEST_ARGS ?= -n 2

# Of Apache Kafka; TABLE=docs/brokers.json keeps the results, for the table of docs/brokers.md.
VERSIONS ?= 2.8 3.3 3.6 3.9 3.9+4.0 4.0+3.9 4.0 4.1 4.3 msk-serverless redpanda confluent-cloud event-hubs
TABLE ?=

# Of PySpark, which tests run with instead of the locked one.
SPARK ?= 4.0.0
SPARK_VENV := .spark/$(SPARK)

# Where the environment forbids Python to keep what it has compiled, each of a thousand processes compiles it all
# again: a call of kafkaform takes three times the CPU time, and collecting the unit tests twice.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-kafka test-spark test-nightly golden lint format typecheck check docs bench mutants picture lock clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

demo: $(READY) ## Start a real Kafka, plan and apply topics/, find a manual change, see a refusal, find a hot key
	@$(BIN)/python scripts/demo.py

test: $(READY) ## Run the tests of every change, on real Kafka brokers and Spark
	@$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not nightly"

test-unit: $(READY) ## Run the unit tests of every change: no JVM
	@$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not nightly" tests/unit

test-kafka: $(READY) ## Run the main journeys on brokers of each version, and as services limit them: VERSIONS="3.9 redpanda"
	@KAFKA_VERSIONS="$(VERSIONS)" KAFKAFORM_BROKERS_TABLE="$(TABLE)" $(BIN)/python -m pytest -n 0 tests/versions

test-spark: $(READY) ## Run the tests on Spark with another PySpark than the locked one: SPARK=4.0.0
	@$(BIN)/python -m venv --without-pip $(SPARK_VENV)
	@$(BIN)/python -m pip --disable-pip-version-check --quiet --python $(SPARK_VENV)/bin/python \
	  install --no-deps pyspark==$(SPARK)
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > $$($(SPARK_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/locked.pth
	@$(SPARK_VENV)/bin/python -m pytest $(PYTEST_ARGS) -m "not nightly" tests/spark

test-nightly: $(READY) ## Run the tests that are too heavy for every change, and draw more examples of properties
	@$(BIN)/python -m pytest $(PYTEST_ARGS) --hypothesis-profile night -m "nightly or hypothesis"

golden: $(READY) ## Write the golden files of outputs anew; their diff is to be read
	@$(BIN)/python -m pytest -n 0 -q --snapshot-update $$(grep -rlE --include='test_*.py' 'golden|snapshot' tests/unit)

lint: $(READY) ## Check style and format (ruff), what imports what, names, docstrings and messages, and that generated files are fresh
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_words.py
	@$(BIN)/python scripts/list_messages.py --check
	@$(BIN)/python scripts/generate_schemas.py --check
	@$(BIN)/python scripts/generate_docs.py --check

format: $(READY) ## Format the code and fix what ruff can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

typecheck: $(READY) ## Check types (mypy --strict)
	@$(BIN)/mypy

check: lint typecheck test ## Everything that CI checks

DOCS_VENV := build/docs-venv

docs: $(DOCS_VENV)/.ready ## Build the site of the documentation in build/site; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet
	@$(DOCS_VENV)/bin/zensical build --strict --config-file mkdocs.yml

$(DOCS_VENV)/.ready: requirements-docs.lock
	@python3 -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/pip --disable-pip-version-check --quiet install --require-hashes -r $<
	@touch $@

bench: $(READY) ## Measure plan, apply, status, doctor, drift, import, access, subjects and skew on large clusters
	@$(BIN)/python -m benchmarks.plan
	@$(BIN)/python -m benchmarks.apply
	@$(BIN)/python -m benchmarks.commands
	@$(BIN)/python -m benchmarks.access
	@$(BIN)/python -m benchmarks.subjects
	@$(BIN)/python -m benchmarks.skew

mutants: $(READY) ## Mutate a hundred lines of core modules, list what no test notices
	@$(BIN)/python scripts/mutants.py $(MUTANTS_ARGS)

picture: $(READY) ## Draw the pictures of docs/ anew, from a real run on Kafka and Spark, with a browser
	@$(BIN)/python -m scripts.picture

PIN := --universal --python-version 3.11 --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links \
  --no-header --no-annotate --quiet
# MkDocs with Material, and Zensical, the successor by its authors: either of them builds the site.
DOCS := mkdocs-material zensical

lock: $(READY) ## Pin all dependencies anew, with hashes and without naming a package index
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile pyproject.toml --extra spark --extra local --extra github --extra schema-registry --extra dev $(PIN) \
	  --output-file requirements.lock
	@printf 'hatchling\n' | $(BIN)/uv pip compile pyproject.toml - --extra github --extra msk-iam --extra schema-registry \
	  --constraint requirements.lock $(PIN) --output-file .github/actions/kafkaform/requirements.lock
	@printf '%s\n' $(DOCS) | $(BIN)/uv pip compile - $(PIN) --output-file requirements-docs.lock

clean: ## Remove the virtual environment and caches
	@rm -rf $(VENV) .spark .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist

# Made last, so that an interrupted installation is not taken for a whole one.
$(READY): requirements.lock pyproject.toml scripts/bootstrap.sh
	@sh scripts/bootstrap.sh $(VENV)
	@touch $@
