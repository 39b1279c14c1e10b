# Two commands do everything: `make demo` shows the product, `make test` checks it.
# Each needs only Python 3.12 or newer and make.

VENV := .venv
PY := $(VENV)/bin/python
PORT ?= 8000
ARGS ?=

# Settings of the developer's own must not reach the checks, and an empty value wins over .env; nor may
# each of the hundreds of processes that they start have to compile the whole checkout.
CLEAN_ENV := env -u PYTHONDONTWRITEBYTECODE ALLOWED_HOSTS= CORS_ALLOWED_ORIGINS= CSRF_TRUSTED_ORIGINS= \
	DATABASE_DIRECT_URL= DATABASE_URL= DEBUG= DEFAULT_FROM_EMAIL= DEMO= EMAIL_URL= HTTPS= LOG_LEVEL= \
	REDIS_URL= SECRET_KEY= TRUSTED_PROXY=
PRODUCTION_ENV := $(CLEAN_ENV) DATABASE_URL=postgresql://coppice@localhost/coppice \
	REDIS_URL=redis://localhost DEBUG=false ALLOWED_HOSTS=console.example.org \
	SECRET_KEY=only-for-the-check-$$(head -c 48 /dev/urandom | base64 | tr -d '\n')
SOURCES = $(wildcard config jobs ranges worker templates examples)
RELOAD = $(VENV)/bin/watchfiles --sigint-timeout 40

.DEFAULT_GOAL := help
.PHONY: help demo web worker watch migrate test lint types checks unit database system-database \
	integration screenshots format pins wheel packages clean

help: ## Show this list
	@echo "Usage: make TARGET [ARGS=...] [PORT=8000]"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

# --- Try it -----------------------------------------------------------------------------------

demo: $(VENV)/.demo ## Everything at once, with real data; ARGS=--once ends when all is done
	@$(PY) manage.py demo $(ARGS)

web: migrate ## The console and the API on PORT; starts anew when a file changes
	$(RELOAD) '$(PY) -m daphne -b 127.0.0.1 -p $(PORT) config.asgi:application' $(SOURCES)

worker: migrate ## A worker; starts anew when a file changes
	$(RELOAD) --filter python '$(PY) manage.py runworker $(ARGS)' $(SOURCES)

watch: $(VENV)/.demo ## The state of the queues, live
	@$(PY) manage.py jobs stats --watch $(ARGS)

migrate: $(VENV)/.demo ## Bring the database up to date
	@$(PY) manage.py migrate --verbosity 0

# --- Check it ---------------------------------------------------------------------------------

# What needs one core each runs side by side; what comes after uses them all by itself.
test: ## Format, lint, types, rules, wheel, all tests
	@$(MAKE) --no-print-directory --output-sync=target -j 2 lint types checks unit
	@$(MAKE) --no-print-directory integration
	@$(MAKE) --no-print-directory system-database
	@echo "All checks passed."

lint: $(VENV)/.dev ## Format and lint, without changing anything
	@$(VENV)/bin/ruff format --check --quiet
	@$(VENV)/bin/ruff check --quiet

types: $(VENV)/.dev ## Types, with mypy
	@$(CLEAN_ENV) $(VENV)/bin/mypy

checks: $(VENV)/.dev ## Import rules, missing migrations, production settings
	@$(CLEAN_ENV) $(VENV)/bin/lint-imports
	@$(CLEAN_ENV) $(PY) manage.py makemigrations --check --dry-run
	@$(PRODUCTION_ENV) $(PY) manage.py check --deploy --fail-level WARNING

unit: $(VENV)/.dev ## Tests of pure code, without Django
	@$(CLEAN_ENV) $(PY) -m pytest tests/unit -p no:django -W ignore::pytest.PytestConfigWarning $(ARGS)

# Most of these tests wait for real processes, so more files run at a time than there are cores. The
# longest come first (tests/conftest.py), not those with the most tests.
integration: $(VENV)/.dev packages ## All other tests, on the embedded servers
	@$(CLEAN_ENV) $(PY) -m pytest tests --ignore=tests/unit -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

database: $(VENV)/.dev ## The database tests only
	@$(CLEAN_ENV) $(PY) -m pytest tests/database $(ARGS)

# The tests of statements and plans: what another version of PostgreSQL could do otherwise.
STATEMENTS = $(addprefix tests/database/,test_claim.py test_complete.py test_edges.py test_enqueue.py \
	test_lifecycle.py test_listing.py test_listing_plans.py test_plans.py test_rescue.py test_retention.py \
	test_schedules_tick.py test_stats.py)

system-database: $(VENV)/.dev ## Tests of statements again, on the system's PostgreSQL if there is one
	@if ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then \
		echo "Once more, on the system's PostgreSQL"; \
		COPPICE_TEST_SYSTEM_POSTGRES=1 $(CLEAN_ENV) $(PY) -m pytest $(STATEMENTS) -n 4 --dist loadfile $(ARGS); \
	else echo "No PostgreSQL below /usr/lib/postgresql: the second run is left out."; fi

screenshots: $(VENV)/.dev packages ## Pictures of every page of the console; ARGS="--only 'job-*'" for a few
	@$(CLEAN_ENV) $(PY) -m tests.console.pictures $(ARGS)

format: $(VENV)/.dev ## Format the code and mend what ruff can
	$(VENV)/bin/ruff check --fix --quiet || true
	$(VENV)/bin/ruff format

wheel: $(VENV)/.dev ## Build the wheel into dist/
	$(PY) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

pins: $(VENV)/.dev ## Pin the newest releases into requirements/*.txt
	$(PY) requirements/pin.py

clean: ## Remove the virtual environment, the embedded servers' data and what tools left
	rm -rf $(VENV) .data build dist staticfiles .mypy_cache .pytest_cache .ruff_cache .hypothesis

# --- What the above needs ---------------------------------------------------------------------

# Made once; when requirements change, pip installs the difference.
$(VENV)/bin/python:
	@python=$$(sh .ci/find-python) && echo "Making $(VENV) with $$python" && \
		"$$python" -m venv --clear $(VENV)

$(VENV)/.demo: $(VENV)/bin/python requirements/base.txt requirements/demo.txt
	@echo "Installing what the demo needs"
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements/demo.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.demo requirements/dev.txt
	@echo "Installing what the checks need"
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	@touch $@

# Tests that need one of these and do not find it are skipped, with the reason.
packages:
	@sh .ci/install-packages chromium nginx pgbouncer
