# Each target is one script; `make help` lists them. Needs only Python 3.11 or newer and git, and root where the
# distribution's packages are missing.
.DEFAULT_GOAL := help
.PHONY: help demo down test due clock record lint golden units sanity bench docs pictures release clean
toolchain := @scripts/toolchain &&
started := $(shell date +%s)
export PATH := $(CURDIR)/.venv/bin:$(PATH)

help: ## This list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: ## Deploy a SLURM cluster with simulated GPUs in containers, and run a user's job on it; OIDC=1 adds jobs by token; KUBERNETES=1, OPENSTACK=1: a Kubernetes cluster, an OpenStack cloud instead
	$(toolchain) OIDC=$(OIDC) KUBERNETES=$(KUBERNETES) OPENSTACK=$(OPENSTACK) scripts/demo

down: ## Remove what the demo made
	@scripts/down

test: ## All tests; NAME=slurm or NAME=slurm/test_06_jobs.py: some (RELEASE=trixie: on one release); NAME=red, owed or stale: those; BUDGET=75: what CI runs, in so many minutes
	$(toolchain) STARTED=$(started) scripts/test $(if $(BUDGET),--budget $(BUDGET)) $(or $(NAME),$(SCENARIO)) $(RELEASE)

due: ## Which tests are red, owed, due by your change, and stale, and what they take; FILE="path ...": for a change of these files
	$(toolchain) scripts/due $(FILE)

clock: ## Run what is red, owed and stale beside your work, until it is stopped; BUDGET=60: for so many minutes
	@scripts/clock $(BUDGET)

record: ## Write what this machine knows into tests/passed.json, once for a delivery
	$(toolchain) scripts/test --record

lint: ## Linters, type check and unit tests: what needs no other host
	$(toolchain) scripts/lint

golden: ## Write golden configuration: what each inventory puts on its hosts. Look at git diff tests/golden
	$(toolchain) python tests/golden/render.py

units: ## Unit tests; ARGS="-k name" for some
	$(toolchain) pytest $(ARGS)

sanity: ## ansible-test sanity on the working ansible-core (VERSION=2.16 or 2.21 for another)
	$(toolchain) scripts/step "ansible-core $(or $(VERSION),2.19) sanity" tests/compat/run $(or $(VERSION),2.19) sanity

bench: ## Measure deployment, re-run, policy, configuration assembly and gpu_facts
	$(toolchain) scripts/bench

docs: ## Write docs/reference from the modules', filters' and roles' own documentation
	$(toolchain) scripts/reference

pictures: ## Draw the pictures in docs/pictures whose sources have changed; scripts/pictures demo records make demo again
	$(toolchain) scripts/pictures

release: ## Prepare a release: checks, changelog, version, tarball; VERSION=0.1.0. Tags and uploads nothing
	$(toolchain) scripts/release $(VERSION)

clean: ## Remove the toolchain, logs, and images that no container uses (make down removes the demo)
	rm -rf .venv .collections .build .cache/logs .cache/pytest
	-docker images --quiet --filter 'reference=deephdc.accelerators/*' | sort -u | xargs -r -n 1 docker image rm
