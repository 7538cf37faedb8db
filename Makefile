# Shortcuts. Each target first sets up what it needs (config/setup.sh); finished steps are skipped.
SHELL := /bin/bash
.DEFAULT_GOAL := help
python := .venv/bin/python
ARGS ?=
# Parallel test processes, each with its own Spark session.
WORKERS ?= $(shell config/setup.sh workers)
pytest = $(python) -m pytest $(if $(filter-out 1,$(WORKERS)),-n $(WORKERS))
quick = not slow and not jvm
# feature: origin
quick += and not template
# end of feature: origin

.PHONY: help setup java packages demo test quick test-all lint types format bench faults guides mutants lock down clean purge

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

setup: ## Create .venv, find Java, download the jars (PYTHON=... chooses a Python, YES=1 installs Java)
	@config/setup.sh everything

packages:
	@config/setup.sh packages

java: ## Install Java 17 or 21 if there is none (Debian, Ubuntu)
	@config/setup.sh java

demo: setup ## Run the whole pipeline, start to end
	@$(python) -m lakehouse demo $(ARGS)

test: setup ## Run the tests (ARGS="-k name" for some of them, WORKERS=1 in one process)
	@$(pytest) $(ARGS)

quick: packages ## Run the tests that start no JVM, in less than a minute
	@$(pytest) -m "$(quick)" $(ARGS)

test-all: setup ## Run all tests, the long forms too (tests/README.md)
	@$(pytest) -m "" $(ARGS)

lint: packages ## Check style, format and the order of the floors
	@$(python) -m ruff check . && $(python) -m ruff format --check . && $(python) -m config.floors
	@$(python) -m sqlfmt --check --quiet models config/dbt/macros

types: packages ## Check types
	@$(python) -m mypy

format: packages ## Format, and fix what can be fixed automatically
	@$(python) -m ruff check --fix --quiet . ; $(python) -m ruff format .
	@$(python) -m sqlfmt --quiet models config/dbt/macros

bench: setup ## Measure rates and costs on this machine
	@$(python) -m benchmarks $(ARGS)

faults: setup ## Run the fault tests in their long form
	@$(pytest) -m faults $(ARGS)

guides: setup ## Run every guide to its end, including the long ones
	@$(pytest) -m guides $(ARGS)

mutants: packages ## Change the code in many places, and check that a test fails for each
	@$(pytest) -m mutants tests/test_mutants.py $(ARGS)

# feature: origin
.PHONY: test-template
test-template: setup ## Bake projects from the template, and run all tests of each
	@$(pytest) -m template $(ARGS)

# end of feature: origin
lock: packages ## Write requirements.lock from pyproject.toml (ARGS=--upgrade for newer versions)
	@UV_CUSTOM_COMPILE_COMMAND="make lock" .venv/bin/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --extra dev pyproject.toml --output-file requirements.lock $(ARGS)

down: ## Stop the background processes
	@config/setup.sh down

clean: down ## Stop, and remove all data and tool caches
	@config/setup.sh clean

purge: clean ## Clean, and remove .venv and the jars only this checkout uses
	@config/setup.sh purge
