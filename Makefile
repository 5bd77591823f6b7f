# Needs make and Python >= 3.11. Every target sets up what it needs in .venv the first time, and is quick after that.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Two processes, each with whole files, in the order of tests/conftest.py.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
# The longest first: make verify runs two at a time.
CAMPAIGNS := adversarial_episodes adversarial_account adversarial_advisor adversarial adversarial_structure adversarial_mixing \
	adversarial_kills adversarial_money adversarial_coupling adversarial_live adversarial_plots
SHARE := 1
LOWEST := $(VENV)-lowest/bin
LOWEST_TESTS := gym cli files mdp golden own_code studies_more studies_files
BENCHMARKS := exact evi oracle pessimistic runs studies startup scaling history episodes bandits bandit_conditions certificates proposals anchors martingale unknown_baseline live replicas service service_page

.DEFAULT_GOAL := help
.PHONY: help demo demo-live demo-service docs test verify soak fuzz-service release versions pythons audit mutants lint format coverage campaign $(CAMPAIGNS) bench peers hooks clean

help: ## Say what there is to make
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

demo: $(VENV)/.installed ## The paper's inventory experiment, whole: 100 realisations of UCRL2 and of CUCRL2 at three values of α
	@$(BIN)/surefooted reproduce inventory --out demo/inventory
	@echo; echo "Done. Open demo/inventory/report.html, or look at demo/inventory/figures/overview.png."

demo-live: $(VENV)/.installed ## A year of a shop with an advisor, rehearsed: late and lost outcomes, overrides, kill -9, and an exact verdict
	@rm -rf demo/live && mkdir -p demo/live
	@$(BIN)/surefooted live rehearse examples/shop.toml --allowance 300 --store demo/live/shop.db --report demo/live/shop.html
	@echo; $(BIN)/surefooted live status --store demo/live/shop.db
	@echo; echo "Done. Open demo/live/shop.html; docs/going-live.md shows how to do this with your own problem."

demo-service: $(VENV)/.service ## The advisor as a service: 50 simulated shops, a year in a minute, to look at in a browser
	@$(BIN)/python examples/fleet.py --folder demo/service

test: $(VENV)/.developing ## Run the tests (3 minutes)
	@echo "Running the tests"
	@$(PYTEST) -m "not slow"

verify: $(VENV)/.developing ## Run all else that can break: slow tests, kill -9, Dask and Ray, a tenth of the campaign, lowest versions (20 minutes)
	@for extra in dask ray postgres icu-sepsis stockpyl; do test -e $(VENV)/.$$extra && continue; \
		{ $(PIP) --editable ".[$$extra]" && touch $(VENV)/.$$extra; } || echo "Skipped: $$extra cannot be installed here"; done
	@sh tests/postgresql.sh
	@sh tests/install_browser.sh
	@test -e $(VENV)/.browser || { $(PIP) --group browser && touch $(VENV)/.browser; } || echo "Skipped: playwright cannot be installed here"
	@echo "Building the documentation"
	@$(MAKE) --no-print-directory docs
	@echo "Running the slow tests"
	@$(PYTEST) -m slow
	@echo "Running a tenth of the campaign, and beside it a part of the tests with other versions"
	@$(MAKE) --no-print-directory -j 2 SHARE=10 versions $(CAMPAIGNS)
	@$(MAKE) --no-print-directory audit
	@git diff --quiet HEAD 2>/dev/null && git rev-parse HEAD > $(VENV)/.verified || true

MINUTES := 60
STORES := sqlite postgresql

soak: $(VENV)/.developing ## Kill the service and its database at random under load, for an hour on each (MINUTES=60 STORES="sqlite postgresql")
	@test -e $(VENV)/.postgres || { $(PIP) --editable ".[postgres]" && touch $(VENV)/.postgres; }
	@sh tests/postgresql.sh
	@for store in $(STORES); do $(BIN)/python tests/soak.py $(MINUTES) $$store || exit 1; done

fuzz-service: $(VENV)/.developing ## Send the service what nobody would write, for an hour (MINUTES=60)
	@$(BIN)/python tests/fuzz_service.py $(MINUTES)

versions: $(VENV)/.developing ## Run a quick part of the tests with the lowest versions that pyproject.toml allows (2 minutes)
	@echo "Running a part of the tests with the lowest versions that are allowed (in $(VENV)-lowest)"
	@test -x $(LOWEST)/python || $(PYTHON) -m venv $(VENV)-lowest
	@$(BIN)/python tests/lowest.py > $(VENV)-lowest/constraints.txt
	@if $(LOWEST)/python -m pip install --quiet --disable-pip-version-check --editable . pytest pytest-xdist hypothesis \
		--constraint $(VENV)-lowest/constraints.txt; then \
		$(LOWEST)/python -m pytest -n 2 --dist loadfile -q -W default -m "not slow" $(LOWEST_TESTS:%=tests/test_%.py); \
		else echo "Skipped: the lowest versions cannot be installed here"; fi
	@echo "Newer than what is installed in $(VENV):"
	@$(BIN)/python -m pip list --outdated --disable-pip-version-check 2>/dev/null || echo "Skipped: no package index can be reached"

audit: $(VENV)/.developing ## Look up the installed packages in a database of vulnerabilities, if one can be reached
	@test -x $(VENV)-audit/bin/python || $(PYTHON) -m venv $(VENV)-audit
	@$(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit || echo "pip-audit cannot be installed here"
	@$(BIN)/python tests/audit.py $(VENV)-audit/bin/pip-audit

pythons: $(VENV)/.developing ## Install the wheel and the source archive with every Python that is here, and use them with few rights (5 minutes for each)
	@$(BIN)/python tools/try_out.py --golden

mutants: $(VENV)/.developing ## Make 683 mistakes in copies of the package: the tests must notice each (2 hours; docs/mutants.md)
	@$(BIN)/python tests/mutants.py

docs: $(VENV)/.developing ## Build the documentation as a site in build/site, and check every link
	@test -e $(VENV)/.docs || { $(PIP) --group docs && touch $(VENV)/.docs; }
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Open build/site/index.html"

release: $(VENV)/.developing ## Refuse if anything is stale; else build the distributions and try them out
	@$(BIN)/python tools/release.py

lint: $(VENV)/.developing ## Check style and types
	@echo "Checking style (ruff) and types (mypy)"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/.developing ## Reformat the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

coverage: $(VENV)/.developing ## Run the tests and report which lines they reach, compiled kernels included
	@rm -rf .numba-coverage
	@NUMBA_JIT_COVERAGE=1 NUMBA_CACHE_DIR=.numba-coverage $(PYTEST) -q --cov=surefooted --cov-report=term-missing:skip-covered
	@rm -rf .numba-coverage

campaign: $(CAMPAIGNS) ## Check every certificate against the exact margin on 11 500 adversarial problems, and kill 1000 processes (an hour)

adversarial adversarial_episodes adversarial_account: PROBLEMS := 2000
adversarial_structure adversarial_money adversarial_live adversarial_mixing adversarial_kills: PROBLEMS := 1000
adversarial_advisor adversarial_plots adversarial_coupling: PROBLEMS := 500
$(CAMPAIGNS): $(VENV)/.developing
	@$(BIN)/python tests/$@.py $$(($(PROBLEMS) / $(SHARE))) 1

bench: $(VENV)/.developing ## Run the benchmarks, each of which prints a table
	@for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python benchmarks/$$script.py || exit 1; done

peers: ## Run the benchmarks that compare with other packages, in an environment of their own (.venv-peers)
	@test -x $(VENV)-peers/bin/python || $(PYTHON) -m venv $(VENV)-peers
	@$(VENV)-peers/bin/python -m pip install --quiet --disable-pip-version-check --editable . --requirement benchmarks/peers.txt
	@for script in exact evi runs bandit_conditions; do echo "== $$script"; $(VENV)-peers/bin/python benchmarks/$$script.py || exit 1; done

hooks: $(VENV)/.developing ## Check every commit before it is made (local git hooks)
	@$(BIN)/pre-commit install

clean: ## Remove the environment and everything generated
	rm -rf $(VENV) $(VENV)-peers $(VENV)-lowest $(VENV)-audit .mutants demo dist build .coverage .numba-coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "surefooted needs Python 3.11 or newer; none was found. Say which: make PYTHON=..."; exit 1; }
	@echo "Setting up: a virtual environment in $(VENV), with surefooted and what it needs (about a minute, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade "pip>=25.1"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.developing: $(VENV)/.installed
	@echo "Setting up: the tools for tests and checks (once)"
	@$(PIP) --group dev --editable ".[service]"
	@touch $@

$(VENV)/.service: $(VENV)/.installed
	@$(PIP) --editable ".[service]"
	@touch $@
