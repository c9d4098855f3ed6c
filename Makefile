# `make help` lists the targets. Each sets up what it needs; the second time that takes under a second.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export PYTHON TORCH
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Each kernel, server and worker of the tests would compile rfnb anew where the environment says that bytecode is not kept.
export PYTHONDONTWRITEBYTECODE :=

PYTEST_ARGS :=
say = @printf '\n\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help setup setup-python setup-node setup-chromium lab test lint typecheck test-python test-widgets test-notebooks test-browser site bench gpu g2p format gallery build try-wheel try-readme try-binder versions clean

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

lab: ## set up and open JupyterLab on the course (ARGS="--no-browser --port 9999" goes to JupyterLab)
	@.ci/setup lab
	@python widgets/bundle.py || echo "Going on with the front-end bundle as it is: views may be old, or only static."
	@exec python -m rfnb lab -- $(ARGS)

test: setup-python test-widgets lint typecheck test-python test-notebooks test-browser ## set up and run every test: Python, TypeScript, notebooks, real browser

setup: setup-python setup-node setup-chromium ## only set up what `make test` needs

# Apart, so that `make -j2 test` begins with what needs no Python, while pip installs.
setup-python setup-node setup-chromium:
	@.ci/setup $(subst python,dev,$(subst setup-,,$@))

lint: setup-python ## ruff: rules and format
	$(call say,ruff)
	@ruff check .
	@ruff format --check .

typecheck: setup-python ## mypy on rfnb/
	$(call say,mypy)
	@mypy

test-python: setup ## pytest without notebooks and browser
	$(call say,pytest: Python)
	@OMP_NUM_THREADS=1 pytest -n auto --maxprocesses 4 -m "not browser and not notebook" --ignore=tests/browser $(PYTEST_ARGS)

# Without Node.js this says so and goes on; in CI that is a failure.
test-widgets: setup-node ## TypeScript: format, types and tests
	$(call say,prettier, tsc and vitest: TypeScript)
	@if [ -d widgets/node_modules ]; then cd widgets && npm run --silent format:check && npm run --silent typecheck && npm run --silent test; \
	elif [ "$${CI:-}" = true ]; then echo "TypeScript tests need Node.js >= 20, and CI may not skip them"; exit 1; \
	else echo "SKIPPED: TypeScript tests need Node.js >= 20"; fi

# Files are not split: the notebook of a file is run once, and what takes it from the cache comes later. Other files are not even imported.
test-notebooks: setup-python ## execute the notebooks, offline
	$(call say,pytest: notebooks)
	@OMP_NUM_THREADS=1 pytest -n 2 --dist loadfile --no-loadscope-reorder -m notebook -o testpaths="$$(grep -rl mark.notebook tests --include='*.py' | sort | tr '\n' ' ')" $(PYTEST_ARGS)

# Two at a time, each with a JupyterLab of its own: most of a test is waiting.
test-browser: setup ## JupyterLab in Chromium
	$(call say,pytest: real browser)
	@OMP_NUM_THREADS=1 pytest -n 2 --dist loadfile --no-loadscope-reorder -m browser -o testpaths=tests/browser $(PYTEST_ARGS)

site: ## pages of the course, the guides and the reference in site/ (ARGS="-o FOLDER"; notebooks that have not changed are not run again)
	@.ci/setup site
	@python -m rfnb.site $(ARGS)

bench: ## cost of each op as a ratio to raw torch
	@.ci/setup dev
	@pytest bench $(PYTEST_ARGS)

# Nothing is set up: torch for CUDA has to be there, in the environment that is active.
gpu: ## on a machine with CUDA: all tests that need a GPU, how often the host waits, times, memory (ARGS="--out gpu --seconds 560")
	@python bench/gpu.py $(ARGS)

g2p: ## train the pronunciation model (resumes; ARGS="--help" shows the options)
	@.ci/setup lab
	@python -m rfnb.models.train_g2p $(ARGS)

format: ## format Python and TypeScript, fix what ruff can fix
	@.ci/setup dev
	@.ci/setup node
	@ruff check --fix . || true
	@ruff format .
	@[ ! -d widgets/node_modules ] || (cd widgets && npm run --silent format)

gallery: ## pictures of every view, size and theme, to look at (ARGS=FOLDER, else ./gallery)
	@.ci/setup dev
	@PYTHONPATH=tests python tests/viz/gallery.py $(ARGS)

build: setup ## build the front-end bundle, then the wheel and the source distribution
	@python widgets/bundle.py --force
	@python -m hatchling build

try-wheel: setup ## a wheel from an sdist without Node.js, in an environment of its own: import, rfnb, the course
	@pytest tests/installed/test_wheel.py $(PYTEST_ARGS)

try-readme: ## the README to the letter, in a clone where `make lab` sets everything up (downloads)
	@.ci/setup dev
	@RFNB_FRESH=1 RFNB_TEST_SLOWNESS=10 pytest tests/installed/test_readme.py $(PYTEST_ARGS)

try-binder: setup ## the steps of Binder in an empty environment (downloads)
	@RFNB_FRESH=1 pytest tests/installed/test_binder.py $(PYTEST_ARGS)

versions: setup ## the oldest and the newest versions of what rfnb needs, with each Python that is found (downloads; ARGS="newest@3.12")
	@.ci/versions $(ARGS)

clean: ## remove what the build and the tests left (not .venv)
	rm -rf dist site gallery test-shots .pytest_cache .mypy_cache .ruff_cache .benchmarks widgets/node_modules
