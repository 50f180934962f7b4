# `make demo` and `make test` need git and make; tools/bootstrap brings the rest.
SHELL := /bin/sh
.DEFAULT_GOAL := help
# One thing after the other: two tests at once on one machine would measure each other.
.NOTPARALLEL:
# Same text, same sorting, same encoding wherever this runs.
export LC_ALL := C.UTF-8

PY := .venv/bin/python
VENV_INPUTS := pyproject.toml tools/bootstrap
WORKERS ?= 2
# Labs at a time.
LABS ?= 2

# Stamps inside .venv, so that they go when it goes.
RUNTIME := .venv/.runtime
DEV := .venv/.dev

$(RUNTIME): $(VENV_INPUTS) requirements.lock requirements-build.lock
	@tools/bootstrap venv
	@touch $@

# The development lock holds the runtime lock, so it serves both.
$(DEV): $(VENV_INPUTS) requirements-dev.lock
	@tools/bootstrap dev
	@touch $(RUNTIME) $@

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(DEV) ## .venv with everything for development

.PHONY: demo
demo: ## drive a simulated node, break and heal it (DRY=1: only say what that installs)
	@tools/demo

.PHONY: demo-recorded
demo-recorded: $(RUNTIME) ## judge the recorded nodes in examples/, without a node
	@tools/demo-recorded

# Every suite, the quick ones first.
SUITES := lint types contract docs-check test-unit test-exhaustive test-doubles test-processes test-wheel test-big \
	test-lab molecule test-pythons

.PHONY: test
test: ## everything that CI runs, with the seconds of every suite
	@tools/suites $(SUITES)

.PHONY: test-unit
test-unit: $(DEV) ## the quick tests
	$(PY) -m pytest tests --ignore tests/lab -m 'not cli and not ssh and not slow and not exhaustive' -n $(WORKERS)

.PHONY: test-exhaustive
test-exhaustive: $(DEV) ## every probe of a node spoilt in every way: no gate stays open
	$(PY) -m pytest tests -m exhaustive -n $(WORKERS)

.PHONY: test-doubles
test-doubles: $(DEV) ## what answers in a simulated node, without a node
	@tools/bootstrap lab
	$(PY) -m pytest tests/lab -m 'not lab' -n $(WORKERS)

.PHONY: test-cli
test-cli: $(DEV) ## the commands as an operator starts them
	$(PY) -m pytest tests -m cli -n $(WORKERS)

.PHONY: test-ssh
test-ssh: $(DEV) ## the tests that reach a node, over a real sshd
	@tools/bootstrap ssh
	$(PY) -m pytest tests/transport -m ssh

.PHONY: test-processes
test-processes: $(DEV) ## test-cli and test-ssh side by side
	@tools/bootstrap ssh
	$(PY) -m pytest tests -m 'cli or ssh' -n $(WORKERS) --dist loadgroup

.PHONY: lab-up
lab-up: $(RUNTIME) ## one simulated node (NODES=2, KIND=dgx-os); says what it installs
	@tools/bootstrap lab
	$(PY) -m lab up --nodes $(or $(NODES),1) --kind $(or $(KIND),stock)

.PHONY: lab-down
lab-down: $(RUNTIME) ## remove the simulated nodes
	$(PY) -m lab down

.PHONY: lab-clean
lab-clean: lab-down ## also remove the lab's images, packages and keys
	$(PY) -m lab clean

.PHONY: molecule
molecule: $(DEV) ## every role on a simulated node (SCENARIO=node_base for one)
	@tools/bootstrap lab
	@tools/molecule $(SCENARIO)

.PHONY: test-nodes
test-nodes: test-lab molecule ## everything that drives simulated nodes

.PHONY: test-lab
test-lab: $(DEV) ## simulated nodes driven, broken, killed and healed; prints seconds per test
	@tools/bootstrap lab
	@$(PY) -m lab down --names 'test-*'
	@$(PY) -m lab.host save .cache/host-before.json
	@said=0; \
	$(PY) -m pytest tests/lab -m lab -n $(LABS) --dist loadfile --durations=0 --durations-min=5 || said=$$?; \
	$(PY) -m lab.host compare .cache/host-before.json && exit $$said

.PHONY: test-wheel
test-wheel: $(DEV) ## build the wheel, install it elsewhere and use it there
	$(PY) -m pytest tests/packaging -m slow

.PHONY: test-big
test-big: $(DEV) ## every parser within its time and memory on texts of 10 MB
	$(PY) -m pytest tests/parsers/test_big.py -m slow -n $(WORKERS)

.PHONY: test-pythons
test-pythons: $(DEV) ## the collector on Python 3.9 to 3.13, the controller on 3.11 to 3.13
	@tools/bootstrap roots || true
	@$(PY) tools/test-pythons

.PHONY: lint
lint: $(DEV) ## ruff: mistakes and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

.PHONY: types
types: $(DEV) ## mypy, strict
	$(PY) -m mypy

.PHONY: contract
contract: $(DEV) ## import-linter: which package may import which
	.venv/bin/lint-imports

.PHONY: docs
docs: $(DEV) ## write the generated documents
	.venv/bin/fabric-tools docs render

.PHONY: docs-check
docs-check: $(DEV) ## are the generated documents up to date
	.venv/bin/fabric-tools docs render --check

.PHONY: wheel
wheel: $(DEV) ## sdist and wheel in dist/
	rm -rf dist
	$(PY) -m build --no-isolation

.PHONY: bench
bench: $(DEV) ## measure; prints numbers, judges nothing
	@for script in benchmarks/*.py; do echo "\$$ $$script"; $(PY) "$$script" || exit; done

.PHONY: lock
lock: ## write the lock files anew (UPGRADE=1: newest of everything)
	@test -x $(PY) || tools/bootstrap venv # no stamp: this may be what mends a lock
	tools/lock

.PHONY: fresh-root
fresh-root: ## prove `make demo` and `make test` on an empty Debian 12 (needs root)
	@tools/bootstrap roots
	tools/fresh-root

.PHONY: clean
clean: ## remove everything that make made
	rm -rf .venv .cache dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
