# Two commands matter: `make demo` and `make test`. Both set up what they need in .venv, from the hashed locks.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
UV_VERSION := 0.13.8
# Compiled once here: where the environment is read-only, every start would compile everything again.
INSTALL := $(UV) pip install --quiet --compile-bytecode --python $(BIN)/python
COMPILE := $(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links pyproject.toml
CODE := kimas bots core knowledge tests config hatch_build.py
# More than there are processors: most tests wait for something.
WORKERS ?= 5
IDLE := nice -n 19
# With a memory of its own of what failed: the others run at the same time.
SERIAL := $(BIN)/pytest -o cache_dir=.cache/pytest-serial -m serial
AGAIN := --last-failed --last-failed-no-failures none --exitfirst --verbose
# As in config/compose.yaml. The server of the tests of Weaviate, outside of the checkout: it is built once.
WEAVIATE_VERSION := 1.38.5
WEAVIATE_PACKAGE := github.com/weaviate/weaviate/cmd/weaviate-server
WEAVIATE := $(HOME)/.cache/kimas-weaviate/weaviate-server

.DEFAULT_GOAL := help
.PHONY: help demo test parallel lint format bench compare quality wheel lock nightly soak settings weaviate clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit("KIMAs needs Python 3.11 or newer; set PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else None'
	@echo "Installing what KIMAs needs into $(VENV): some minutes, once."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

$(VENV)/.runtime: $(UV) pyproject.toml requirements.lock
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

# Most of these packages is never imported, so each compiles itself when it is.
$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	$(filter-out --compile-bytecode,$(INSTALL)) --require-hashes -r requirements-dev.lock
	touch $@

demo: $(VENV)/.runtime  ## ask this repository a question: no key, no server
	@$(BIN)/kimas --config config/demo.yaml ask "How do I check that the configuration works?"
	@echo
	@echo "Next: $(BIN)/kimas --config config/demo.yaml chat     ask your own questions"
	@echo "      $(BIN)/kimas init                               write a configuration for your sources"
	@echo "      docs/telegram.md                                   put it into a Telegram group"
	@echo
	@echo "Now the search by meaning is added. That may be stopped at any time (Ctrl-C): chat goes on with it."
	@$(BIN)/kimas --config config/demo.yaml ingest

# Compiled code is kept: every process that a test starts would compile all of it again.
test: export PYTHONDONTWRITEBYTECODE :=
# Threads of NumPy that wait by spinning would slow the other workers.
test: export OPENBLAS_NUM_THREADS := 1
test: $(VENV)/.dev  ## lint, types and every test
	$(MAKE) --no-print-directory -j 2 lint parallel
	@test -x $(WEAVIATE) || echo "WEAVIATE WAS NOT TESTED: see above how many tests were left out. \`make weaviate\` builds its server."

# What fails beside others gets one more try alone, to tell a slow machine from a fault: its name stays above, for who
# mends it or marks it `serial`. What is marked so judges time and mostly waits: it runs one after the other while the
# rest, with the lowest priority, leaves it the processors whenever it wants them, and gets one more try, too.
parallel: $(VENV)/.dev
	@mkdir -p .cache
	$(SERIAL) $$(grep -rl --include='test_*.py' 'mark.serial' tests) > .cache/serial.log 2>&1 & serial=$$!; \
	trap 'kill $$serial; exit 130' INT TERM; \
	status=0; \
	$(IDLE) $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not serial" || { \
		echo "FAILED BESIDE OTHERS: the tests named above. Tried once more, alone:"; \
		$(BIN)/pytest $(AGAIN) -m "not serial" || status=1; }; \
	wait $$serial || serial=failed; \
	cat .cache/serial.log; \
	if test "$$serial" = failed; then \
		echo "FAILED ONE BY ONE: the tests named above. Tried once more:"; \
		$(SERIAL) $(AGAIN) || status=1; \
	fi; \
	exit $$status

lint: $(VENV)/.dev  ## style, layers and types only
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/lint-imports --no-cache
	$(IDLE) $(BIN)/mypy

format: $(VENV)/.dev  ## write the house style
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: $(VENV)/.dev  ## measure; prints tables
	$(BIN)/python -m tests.lab.benchmarks

compare: $(VENV)/.dev  ## measure KIMAs beside other frameworks, each in its own environment (docs/quality.md)
	$(BIN)/python -m tests.lab.comparison

quality: $(VENV)/.dev  ## measure judgement on public data (docs/quality.md)
	$(BIN)/python -m tests.lab.quality run

nightly: export KIMAS_AUDIENCE_STEPS ?= 10000
nightly: $(VENV)/.dev  ## what a day is too short for: 10,000 steps over who may see what (KIMAS_AUDIENCE_STEPS)
	$(BIN)/pytest tests/security/test_audience_property.py --show-capture=no

soak: $(VENV)/.dev  ## ten minutes of load with faults and kills (SOAK_MINUTES)
	$(BIN)/python -m tests.lab.soak

settings: $(VENV)/.runtime  ## write the schema, the defaults and the tables of docs/configure.md from core/settings
	$(BIN)/python -m core.settings.book

weaviate: $(WEAVIATE)  ## build the server of the tests of Weaviate, once, with Go: 7 minutes on two processors

# In a module of its own: `go install` refuses programs whose module replaces others.
$(WEAVIATE):
	mkdir -p $(@D)/build
	cd $(@D)/build && { test -f go.mod || go mod init build; } && go get $(WEAVIATE_PACKAGE)@v$(WEAVIATE_VERSION)
	cd $(@D)/build && go build -o $@.new $(WEAVIATE_PACKAGE)
	mv $@.new $@

wheel: $(VENV)/.runtime  ## build the wheel into dist/
	$(BIN)/python -m hatchling build --target wheel

lock: $(UV)  ## pin again what pyproject.toml asks for
	$(COMPILE) --extra eval --extra fast --extra postgres --group build --group model -o requirements.lock
	$(COMPILE) --extra eval --extra fast --extra postgres --group build --group model --group dev -o requirements-dev.lock

clean:  ## remove the virtual environment and everything made
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache build dist *.egg-info
