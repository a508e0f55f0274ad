# make report   makes .venv and runs `snakemake --cores 1 report`
# make test     makes .venv and runs every check and test
# make chromium      as root: installs the browser that `make test` tries the pages in, where there is none
# make slurm-test    as root: starts a Slurm of one node here, installed if need be, and runs the pipeline through it
# make versions-test    installs every Triton release that envs/ locks, and looks for the known changes between them
# make envs/triton/3.8.0.txt    locks a release anew, from the .in file beside it
# make bench-sweep    on a device: a search space against triton.autotune
# make bench-repeat   on a device: how far medians move from run to run; ARGUMENTS="--runs 6 --disturb 3"
# make bench-growth   with no device: what 10, 25 and 50 generated kernels cost; ARGUMENTS="--sizes 5 10 --cores 4"
# make picture        draws docs/report.png, the picture in the README, from results/report.html; needs Chromium
# make wheelhouse PYTHON=3.12   collects what a GPU node without a network needs

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: report check test chromium slurm-test versions-test bench-sweep bench-repeat bench-growth picture wheelhouse

# The Python that .venv is made with: CPython 3.11 or newer.
BASE_PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# The node that the wheelhouse is for.
PYTHON := 3.12
MACHINE := x86_64
WHEELHOUSE := wheelhouse
TAGS := manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014 manylinux_2_5 manylinux1
# A node has these already: torch, triton and what torch brings along for itself. Without a network, uv has no use.
ON_THE_NODE := torch|triton|filelock|fsspec|mpmath|networkx|setuptools|sympy|uv
# Of these there is no wheel to download; they are pure Python, so one built here serves anywhere.
WITHOUT_WHEEL := bagit|connection-pool

report check: .venv/run.done
	$(BIN)/snakemake --cores 1 $@

test: .venv/test.done
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/python -m assay status README.md archive/README.md --check --evidence archive
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

chromium: .venv/test.done
	@$(BIN)/python tests/browser.py

slurm-test: .venv/slurm.done
	@$(BIN)/python tests/cluster.py
	$(BIN)/python -m pytest -m slurm tests/test_slurm.py

versions-test: .venv/test.done
	$(BIN)/python -m pytest -m versions tests/test_known_versions.py

# The newest releases that go together, with the sha256 of every file, for any Python and machine that is served.
envs/triton/%.txt: envs/triton/%.in envs/triton/stages.in | .venv/run.done
	$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	  --custom-compile-command "make $@" --output-file $@ $<

# Options of a benchmark; it has --help.
ARGUMENTS :=

bench-sweep: .venv/run.done
	$(BIN)/python -m benchmarks.sweep_against_autotune $(ARGUMENTS)

bench-repeat: .venv/run.done
	$(BIN)/python -m benchmarks.repeatability $(ARGUMENTS)

bench-growth: .venv/run.done
	$(BIN)/python -m benchmarks.growth $(ARGUMENTS)

# Made afresh, so that nothing stays of an earlier lock or of an installation that was broken off.
.venv/run.done: envs/run.txt
	@$(BASE_PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"$(BASE_PYTHON) is Python {v[0]}.{v[1]}, where 3.11 or newer is needed: make ... BASE_PYTHON=python3.12")'
	$(BASE_PYTHON) -m venv --clear .venv
	$(PIP) install --requirement envs/run.txt
	@printf '#!/bin/sh\nexec "%s" -m assay "$$@"\n' "$(CURDIR)/$(BIN)/python" > $(BIN)/assay && chmod +x $(BIN)/assay
	@touch $@

.venv/test.done: envs/test.txt .venv/run.done
	$(PIP) install --requirement envs/test.txt
	@touch $@

.venv/slurm.done: envs/slurm.txt .venv/test.done
	$(PIP) install --requirement envs/slurm.txt
	@touch $@

picture: .venv/run.done
	$(BIN)/python docs/picture.py

# Filled beside and renamed, so that a wheelhouse is complete.
wheelhouse: PART := $(WHEELHOUSE).part
wheelhouse: .venv/run.done
	rm -rf $(WHEELHOUSE) $(PART)
	mkdir $(PART)
	grep -E '^($(WITHOUT_WHEEL))==' envs/run.txt > $(PART)/build.txt
	grep -Ev '^(#|($(ON_THE_NODE)|$(WITHOUT_WHEEL))==)' envs/run.txt > $(PART)/download.txt
	$(PIP) wheel --no-deps --wheel-dir $(PART) --requirement $(PART)/build.txt
	$(PIP) download --no-deps --only-binary=:all: --implementation cp --python-version $(PYTHON) \
	  $(TAGS:%=--platform %_$(MACHINE)) --dest $(PART) --requirement $(PART)/download.txt
	rm $(PART)/build.txt $(PART)/download.txt
	mv $(PART) $(WHEELHOUSE)
	@du -sh $(WHEELHOUSE)
