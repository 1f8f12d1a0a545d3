# Everything starts from Python 3.11 or later, make and gcc; `make demo` and `make test` create .venv themselves.

.DELETE_ON_ERROR:
.PHONY: demo test test-slow browser doc lint clean wheels gpu

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet --no-input install --no-compile --editable
# What pip would do on one core alone, and the package itself: where Python is told to write no bytecode, each of the hundreds of processes
# that tests start would compile it anew. A few packages have templates that are no Python.
COMPILE := $(BIN)/python -m compileall -q -j 0 $(VENV)/lib feinsum_fuse transforms database >/dev/null 2>&1 || true
PYTHON ?=

demo: $(VENV)/installed
	@$(BIN)/feinsum-fuse run --calibrate $(addprefix examples/three_matmuls/,workload.yaml mapping_unfused.yaml mapping_fused.yaml)

test: lint browser
	$(BIN)/python -m pytest -n auto --dist worksteal

# One area after another, or AREA=mapper, AREA="model attack/test_calls.py"; doc/testing.rst says how long each takes.
AREAS := $(sort $(patsubst tests/%/,%,$(dir $(wildcard tests/*/test_*.py)))) $(sort $(notdir $(wildcard tests/test_*.py)))
AREA ?= $(AREAS)

test-slow: lint browser
	@echo "seed $${FEINSUM_FUSE_SEED:-20261}, commit $$(git rev-parse HEAD 2>/dev/null || echo unknown)"
	@failed=; for area in $(AREA); do \
	    begin=$$(date +%s); \
	    FEINSUM_FUSE_SLOW=1 $(BIN)/python -m pytest -q -n auto --dist worksteal "tests/$$area" || failed="$$failed $$area"; \
	    echo "== $$area: $$(( ($$(date +%s) - begin + 30) / 60 )) minutes"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

# Chromium for the tests of pages: Debian's package, installed where that can be done. Without it these tests are skipped, and say so.
browser:
	@for name in chromium chromium-browser google-chrome $$FEINSUM_FUSE_BROWSER; do \
	    if command -v "$$name" >/dev/null; then exit 0; fi; \
	done; \
	if [ "$$(id -u 2>/dev/null)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing chromium for the tests of pages"; \
	    if timeout 300 sh -c 'apt-get update && apt-get install -y chromium' >/dev/null 2>&1 </dev/null; then exit 0; fi; \
	fi; \
	echo "no browser: the tests of pages in one are skipped. Install chromium (Debian: apt-get install chromium)," >&2; \
	echo "or name one: FEINSUM_FUSE_BROWSER=/path/to/chromium make test" >&2

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	MYPY_NUM_WORKERS=auto $(BIN)/mypy

doc: $(VENV)/installed-doc
	$(BIN)/sphinx-build -W --keep-going -q -b html doc doc/_build/html
	@echo "doc/_build/html/index.html"

# The kit for a machine with a GPU, in build/gpu-kit: copy that folder there, and run python3 gpu.py in it. WHEELS_PYTHON=3.12: its Python.
wheels: $(VENV)/installed
	$(BIN)/python -m kit.make $(if $(WHEELS_PYTHON),--python $(WHEELS_PYTHON)) $(KIT_OPTIONS)

gpu:
	@test -d build/gpu-kit || $(MAKE) wheels
	python3 build/gpu-kit/gpu.py $(GPU_OPTIONS)

clean:
	rm -rf $(VENV) build dist *.egg-info doc/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The first interpreter that is new enough; PYTHON=... overrides.
$(VENV)/created:
	@for python in $(PYTHON) python3.11 python3 python3.12 python3.13; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "feinsum_fuse needs Python 3.11 or later, and python3 is $$(python3 --version 2>&1)." >&2; \
	    echo "Install one, or name one: make PYTHON=/path/to/python3.11" >&2; \
	    exit 1; \
	fi; \
	echo "creating $(VENV) with $$($$found --version)"; \
	rm -rf $(VENV); $$found -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/created setup.cfg pyproject.toml
	@echo "installing into $(VENV)"
	@$(INSTALL) .
	@$(COMPILE)
	@touch $@

$(VENV)/installed-test: $(VENV)/created setup.cfg pyproject.toml
	@echo "installing into $(VENV), with what the tests need"
	@$(INSTALL) '.[test]'
	@$(COMPILE)
	@touch $@ $(VENV)/installed

$(VENV)/installed-doc: $(VENV)/created setup.cfg pyproject.toml
	@echo "installing into $(VENV), with what the documentation needs"
	@$(INSTALL) '.[doc]'
	@$(COMPILE)
	@touch $@ $(VENV)/installed
