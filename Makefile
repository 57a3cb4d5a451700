# Everything a new machine needs is made by these targets; nothing is installed by hand.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
EXTRAS := torch,data,ps,keras,kubernetes,auto,dashboard,notebook,brain,brain-postgresql,brain-mysql,examples,dev
BENCHES := algorithm_executor auto brain brain_store checkpoint churn data deepfm freeze idle join journal launch ps quota read_ahead recovery shards sharing simulated
PYTEST := $(BIN)/python -m pytest
# What failed runs once more, alone: on a machine that is starved of CPU a wait may run out. Both runs are shown.
AGAIN  := --last-failed --maxfail 4 --last-failed-no-failures none -rA -n 1
# The suites, each with the folders that its tests are in: importing all the others takes as long as some suites.
# tests/test_suites.py checks that no test is in none of them.
UNIT       := tests --ignore=tests/chaos --ignore=tests/e2e --ignore=tests/kubernetes --ignore=tests/ray -m 'not databases and not e2e and not chaos and not kubernetes and not ray'
DATABASES  := tests/brain tests/cli/commands/brain tests/master/journal -m 'databases and not e2e'
E2E        := tests/agent tests/e2e tests/platforms tests/ps -m 'e2e and not chaos and not kubernetes'
CHAOS      := tests/chaos tests/e2e/torch -m 'chaos and not kubernetes'
KUBERNETES := tests/kubernetes -m kubernetes
RAY        := tests/ray -m ray

# Processes of tests start in half the time when Python may keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup quickstart test test-unit test-databases test-e2e test-chaos test-kubernetes test-ray tensorflow-testbed ray-testbed kubernetes-testbed databases-testbed prometheus-testbed integrations-testbed test-busy fuzz soak lint proto crds manifests bench clean browser-testbed

help:  ## show what can be made
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (first time: a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@$(BIN)/python -m pliant.ps.precompile
	@touch $@

setup: $(STAMP)  ## create .venv with everything the project needs

quickstart: $(STAMP)  ## train twice, once with a worker killed and one joining: the same bits
	@$(BIN)/python examples/quickstart.py

test: lint test-unit test-databases test-e2e test-chaos test-kubernetes test-ray  ## all checks and tests

test-unit: $(STAMP)  ## fast tests, no processes of a job
	$(PYTEST) -n 3 --dist worksteal $(UNIT) || $(PYTEST) $(AGAIN) $(UNIT)

test-databases: $(STAMP)  ## the Brain's store on SQLite, PostgreSQL and MariaDB, and what runs beside it; skipped where they are missing
	$(PYTEST) -n 3 --dist worksteal $(DATABASES) || $(PYTEST) $(AGAIN) $(DATABASES)

test-e2e: $(STAMP)  ## real processes, as a user runs them
	$(PYTEST) -n 3 --dist worksteal $(E2E) || $(PYTEST) $(AGAIN) $(E2E)

test-chaos: $(STAMP)  ## real processes under random faults (PLIANT_CHAOS_SEED repeats a run)
	$(PYTEST) -n 3 $(CHAOS) -rP || $(PYTEST) $(AGAIN) $(CHAOS)

test-kubernetes: $(STAMP)  ## whole jobs on a real Kubernetes of this machine's own; skipped where it is not built
	$(PYTEST) -n 2 --dist loadgroup $(KUBERNETES) || $(PYTEST) $(AGAIN) $(KUBERNETES)

test-busy: $(STAMP)  ## `make test` ten times beside stress-ng --cpu 2 (BUSY="2 4 test-unit": twice, four cores' load, the unit tests)
	@tools/busy/repeat.sh $(BUSY)

test-ray: $(STAMP)  ## whole jobs on a Ray cluster of this machine's own; skipped where Ray is not installed (make ray-testbed)
	tools/ray/pytest.sh -n 4 --dist loadgroup $(RAY) || tools/ray/pytest.sh $(AGAIN) $(RAY)

ray-testbed: $(STAMP)  ## an environment with Ray for test-ray, once (400 MB in the cache folder)
	@tools/ray/build.sh

tensorflow-testbed: $(STAMP)  ## an environment with TensorFlow for the tests of its input, once (1.3 GB in the cache folder)
	@tools/tensorflow/build.sh

integrations-testbed: $(STAMP)  ## an environment with MLflow, W&B, transformers and Lightning for tests of the callbacks, once (700 MB in the cache folder)
	@tools/integrations/build.sh

prometheus-testbed:  ## install Prometheus for the tests of metrics, alerts and the Grafana board, once (Debian, root)
	@tools/prometheus/install.sh

databases-testbed:  ## install PostgreSQL and MariaDB for the tests of the Brain's database, once (Debian, root)
	@tools/databases/install.sh

browser-testbed:  ## install Chromium for the tests of the page, once (Debian, root)
	@tools/dashboard/install.sh

kubernetes-testbed:  ## build the servers for test-kubernetes, once (Debian, root, about nine minutes)
	tools/kubernetes/build.sh

soak: $(STAMP)  ## parameter servers under random faults for ten minutes, each job audited (SOAK="--minutes 60 --seed 7")
	$(BIN)/python -m tests.chaos.soak $(SOAK)

fuzz: $(STAMP)  ## each parser for a minute; an input that breaks one is saved in .fuzz (FUZZ="--seconds 5 npz": less, and one only)
	$(BIN)/python -m tests.fuzz $(FUZZ)

lint: $(STAMP)  ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check src tests bench examples tools
	$(BIN)/ruff format --check src tests bench examples tools
	$(BIN)/mypy
	$(BIN)/lint-imports

proto: $(STAMP)  ## generate the protobuf code from src/pliant/rpc/*.proto
	$(BIN)/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src --grpc_python_out=src src/pliant/rpc/pliant.proto src/pliant/rpc/brain.proto

crds: $(STAMP)  ## generate the custom resource definitions from the models
	$(BIN)/python -m pliant.operator.crds deploy/helm/crds

manifests: crds  ## render deploy/manifests from the chart (fetches helm the first time)
	PYTHON=$(BIN)/python tools/kubernetes/manifests.sh >deploy/manifests/pliant.yaml

bench: $(STAMP)  ## a quick form of every bench: whether it runs, not how fast it is (BENCH="shards data": these alone)
	@failed=; for name in $(or $(BENCH),$(BENCHES)); do \
	  echo "== bench/$$name.py --quick"; \
	  timeout 900 $(BIN)/python bench/$$name.py --quick >/dev/null || failed="$$failed $$name"; \
	done; if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

clean:  ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
