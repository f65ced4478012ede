# `make demo` and `make test` need nothing but Python, make and git: every target sets up what it needs first.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
LOCAL := $(PY) -m lockstep.local
STAMP := $(VENV)/.installed

SHELL := bash
export PYTHONPATH := plugins:.

.DEFAULT_GOAL := help
.PHONY: help setup demo up down status test lint format lock clean cluster-up cluster-down test-cluster bench-gang

help:  ## what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(STAMP)  ## the Python environment, from requirements.txt pinned by constraints.txt

$(STAMP): requirements.txt constraints.txt
	@$(PYTHON) -c 'import sys; (3, 11) <= sys.version_info < (3, 14) or sys.exit("Lockstep needs Python 3.11 to 3.13, this is " + sys.version.split()[0] + "; name another: make PYTHON=python3.12 …")'
	@echo "Setting up $(VENV) (once; about 3 GB)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check uv==0.13.9
	@set -o pipefail; $(VENV)/bin/uv pip install --python $(PY) -r requirements.txt -c constraints.txt 2>&1 | sed '/^ [-+~] /d'
	@touch $@

demo: setup  ## train, validate and register a model on two workers, on this machine
	@$(LOCAL) train

up: setup  ## start the one-machine stack and leave it running
	@$(LOCAL) up

down:  ## end the one-machine stack, whatever state it is in
	@test ! -x $(PY) || $(LOCAL) down

status: setup  ## what of the stack runs, and where
	@$(LOCAL) status || test $$? -eq 3  # 3: nothing runs, which is an answer too

test: setup  ## all tests that need no cluster
	@$(PY) -m pytest --numprocesses 3 --no-loadscope-reorder $(ARGS)
	@echo "On real Kubernetes: make test-cluster"

cluster-up: setup  ## a real Kubernetes node on this Debian machine, as root (or KUBECONFIG's cluster)
	@$(PY) -m tests.cluster up

test-cluster: setup  ## the suites that need real Kubernetes, on that node and with the images of docker/
	@$(PY) -m tests.cluster test $(ARGS)

cluster-down: setup  ## end that node and leave the machine as it was
	@$(PY) -m tests.cluster down

bench-gang: setup  ## what it costs to watch N pods, beside Airflow's own operators (docs/benchmarks.md)
	@$(PY) -m bench $(ARGS)

lint: setup  ## style, types and the layers of the architecture
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports

format: setup  ## rewrite the code in the project's style
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

lock: setup  ## pin anew all that requirements.txt brings
	@$(VENV)/bin/uv pip compile --universal --python-version 3.11 --no-header --no-annotate requirements.txt -o constraints.txt

clean: down  ## end the stack, remove its state and the environment
	rm -rf .lockstep $(VENV)
