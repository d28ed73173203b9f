# Enginery: one screen of targets. CI calls `make test`; every target brings what it needs by itself.
#
#   NAME=demo         which local cluster (demo; the tests have one of their own)
#   CLUSTER=kind      instead of a cluster in namespaces of this machine (needs Docker and kind), or
#   CLUSTER=existing  the cluster of KUBECONFIG, with a model store and images of your own (see existing.py)

NAME ?= demo
PYTHON := .venv/bin/python
CLUSTER_PY := $(PYTHON) -m enginery_cluster
export CLUSTER

.PHONY: help setup demo test check cluster-up cluster-down images generate bench
.DEFAULT_GOAL := help

help: setup  ## This text (and, like every target, the tools that are missing)
	@echo "make TARGET [NAME=$(NAME)]"
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | expand -t 16 | sed 's/^/  /'

setup:  ## Debian packages, Python environment and Go, each only when missing
	@local_cluster/bootstrap.sh

demo: setup  ## Cluster, images, chart, a tenant and a model that answers a request
	@echo "== demo, part 1 of 3: cluster"
	@$(CLUSTER_PY) up --name $(NAME)
	@echo "== demo, part 2 of 3: images"
	@$(CLUSTER_PY) images --name $(NAME)
	@echo "== demo, part 3 of 3: from a model file to an answer"
	@$(PYTHON) examples/demo.py

test: setup  ## Every test, on a cluster of its own (KEEP=1 leaves it running; ARGS="-k word" selects)
	@echo "== test, part 1 of 3: cluster"
	@$(CLUSTER_PY) up --name test
	@echo "== test, part 2 of 3: images"
	@$(CLUSTER_PY) images --name test
	@echo "== test, part 3 of 3: tests"
	@$(if $(KEEP),,trap 'exit 130' INT TERM HUP; trap '$(CLUSTER_PY) down --name test 2>&1 | grep -v "is gone" >&2' EXIT;) $(PYTHON) -m pytest $(or $(ARGS),tests/unit tests)

check: setup  ## Style, types, layers and generated files; what a change must pass before it is committed
	@echo "== check, part 1 of 5: ruff check" && .venv/bin/ruff check .
	@echo "== check, part 2 of 5: ruff format" && .venv/bin/ruff format --check .
	@echo "== check, part 3 of 5: mypy" && .venv/bin/mypy
	@echo "== check, part 4 of 5: import-linter" && .venv/bin/lint-imports
	@echo "== check, part 5 of 5: generated files" && $(PYTHON) -m enginery_operator.crd --check

cluster-up: setup  ## Start the local cluster, or find that it runs
	@$(CLUSTER_PY) up --name $(NAME)

cluster-down: setup  ## End the local cluster and remove everything of it (NAME=all: every cluster of this checkout)
	@$(CLUSTER_PY) down $(if $(filter all,$(NAME)),--all,--name $(NAME))

images: setup  ## Build the images and load what changed into the running cluster (CONVERTERS="tensorflow pytorch" adds)
	@$(CLUSTER_PY) images --name $(NAME) $(if $(CONVERTERS),--converters $(CONVERTERS))

generate: setup  ## Write the CRDs from the API types, for crds/ and the chart
	@$(PYTHON) -m enginery_operator.crd

bench: setup  ## Measure the operator and the runtime; prints tables, as docs/benchmarks/ keeps
	@$(PYTHON) benchmarks/run.py
