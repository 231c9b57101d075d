# Two commands are enough for a fresh checkout: `make demo` and `make test`.
# Each needs only make and a Python of at least 3.11, and builds .venv itself.

.DEFAULT_GOAL := help
.PHONY: help demo test bench format clean

VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/installed
BENCH_INSTALLED := $(VENV)/installed-bench
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Settings of the caller's shell that would install elsewhere, install something else, or import
# from elsewhere. Those that say where packages come from (index, certificates, proxies) stay.
unexport PIP_USER PIP_TARGET PIP_PREFIX PIP_ROOT PIP_PYTHON PIP_CONSTRAINT PIP_BUILD_CONSTRAINT
unexport PIP_REQUIREMENT PIP_REQUIRE_HASHES PIP_NO_DEPS PIP_DRY_RUN PIP_EDITABLE
unexport PIP_NO_BUILD_ISOLATION PIP_IGNORE_INSTALLED PYTHONPATH PYTHONHOME PYTHONSTARTUP

help:
	@echo "make demo    the main job on simulated data, with a picture in demo/"
	@echo "make test    lint, format check, types, tests"
	@echo "make bench   the benchmarks, with their numbers in bench/out/"
	@echo "make format  rewrite the code in the project's format"
	@echo "make clean   remove caches and outputs (.venv stays)"

# The caller's PYTHON if given, else the first on PATH that is new enough and
# can make an environment. The import matters: Debian's python3 may come without ensurepip.
define FIND_PYTHON
for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14 python; do \
	if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
		>/dev/null 2>&1; then found="$$candidate"; break; fi; \
done; \
if [ -z "$$found" ]; then \
	echo "unshift needs Python 3.11 or newer, with venv and pip; none was found on PATH." >&2; \
	echo "Install one, or name it: make PYTHON=/path/to/python3.12 test" >&2; exit 1; \
fi
endef

# An environment that still runs is brought up to date in place; one whose Python has gone is made
# anew. The stamp is written last, so that an interrupted installation is taken up again.
$(INSTALLED): pyproject.toml constraints.txt
	@if ! $(PY) -m pip --version >/dev/null 2>&1; then \
		found=; $(FIND_PYTHON); \
		echo "making $(VENV) with $$found"; "$$found" -m venv --clear $(VENV); \
	fi
	@echo "installing into $(VENV), as constraints.txt says"
	@$(PIP_INSTALL) hatchling
	@$(PIP_INSTALL) --no-build-isolation --editable '.[dev]'
	@touch $@

$(BENCH_INSTALLED): $(INSTALLED)
	@$(PIP_INSTALL) --no-build-isolation --editable '.[bench]'
	@touch $@

demo: $(INSTALLED)
	$(VENV)/bin/unshift demo --out demo

# One thread of linear algebra per worker: two workers with a pool each would fight for the cores.
test: export OMP_NUM_THREADS := 1
test: export OPENBLAS_NUM_THREADS := 1
test: export MKL_NUM_THREADS := 1
test: $(INSTALLED)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy --strict src
	$(PY) -m pytest -n 2

bench: $(BENCH_INSTALLED)
	$(PY) -m bench --out bench/out

format: $(INSTALLED)
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

clean:
	rm -rf demo bench/out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
