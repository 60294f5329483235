# Everything runs in .venv, made here from pyproject.toml: a fresh machine needs only Python ≥ 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin
APT := apt-get -qq -o Acquire::http::Timeout=30 -o Acquire::Retries=1
DEMO := .venv/.demo
READY := .venv/.ready
MINIMUM := .venv-minimum
ADELIE := .venv-adelie
SURVIVAL := .venv-survival
# Many tests start processes: they find the modules compiled, even where the environment asks Python to keep nothing.
PYTEST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2
KERNELS := Prescott Nehalem Sandybridge Haswell Zen SkylakeX
NUMERIC := $(addprefix tests/,baselines data datasets estimators evaluation experiments glm leastsquares model moments optimality sequencing shared_costs theory \
	runtime/test_early_exit.py test_inputs.py test_properties.py test_regressions.py)

.PHONY: demo test test-all test-kernels test-minimum test-spark test-gpu browser lint types docs bench peers survival-references fuzz clean

# Under LC_ALL=C, Python below 3.13 cannot read the name of a folder that is not ASCII, and an editable install is such a name.
ifeq ($(LC_ALL),C)
export LC_ALL := C.UTF-8
endif

# A copy of the sources; a tree that is tested is installed already, editable.
demo: $(if $(wildcard $(READY)),$(READY),$(DEMO))
	mkdir -p budgetline-demo
	cd budgetline-demo && ../$(BIN)/budgetline demo && ../$(BIN)/budgetline fit heart.csv -t disease -g heart.yaml && \
		../$(BIN)/budgetline report heart.budgetline heart.csv -t disease --unit dollars
	@echo "the report: budgetline-demo/report.html"
	@echo "before the commands above, run: source $(BIN)/activate && cd budgetline-demo"

test: lint types browser $(READY)
	$(PYTEST) -n 3 -m "not slow" # a fifth of the time is waiting for processes and browsers

# What is long and rarely breaks: experiments from start to end, more random problems, runs under a real clock.
test-all: test
	$(PYTEST) -m slow

# Numbers must not depend on the processor: OpenBLAS has other kernels for each.
test-kernels: $(READY)
	for kernel in $(KERNELS); do \
		echo "== $$kernel: $$(OPENBLAS_CORETYPE=$$kernel $(BIN)/python tools/blas_kernel.py)"; \
		OPENBLAS_CORETYPE=$$kernel $(PYTEST) -m "not slow" $(NUMERIC) || exit 1; \
	done

# The report is tested in Chromium, installed here where that can be done; without it those tests are skipped.
browser:
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || \
		{ command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ] && $(APT) update && \
		DEBIAN_FRONTEND=noninteractive $(APT) install -y chromium fonts-dejavu > /dev/null; } || \
		echo "Chromium is not here and cannot be installed: the tests of the report in a browser are skipped"

# The oldest versions that pyproject.toml declares have wheels for the oldest Python it declares.
test-minimum: $(MINIMUM)/.ready
	OPENBLAS_NUM_THREADS=1 $(MINIMUM)/bin/python -m pytest -n 2

# Spark is large and needs Java: its one test is not part of "test".
test-spark: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pyspark>=3.5'
	$(BIN)/python -m pytest tests/test_spark.py -rs

# Arrays of PyTorch and CuPy on a GPU. Both must be installed; DEVICE_PYTHON may be another environment that has them.
DEVICE_PYTHON ?= $(BIN)/python
test-gpu:
	$(DEVICE_PYTHON) tools/find_gpu.py
	SCIPY_ARRAY_API=1 PYTHONPATH=src $(DEVICE_PYTHON) -m pytest tests/devices -rs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# The site, in site/; a link that leads nowhere is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: $(READY)
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/glm.py
	$(BIN)/python benchmarks/sets.py
	$(BIN)/python benchmarks/group_lasso.py
	$(BIN)/python benchmarks/sources.py
	$(BIN)/python benchmarks/runtime.py
	$(BIN)/python benchmarks/service.py
	$(BIN)/python benchmarks/missing_values.py
	$(BIN)/python benchmarks/staged.py

# What benchmarks/compare_peers.py and experiments/quality*.py compare with. adelie needs NumPy below 2, we 2 or newer: it has its own environment.
peers: $(READY) $(ADELIE)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[peers]'

# Coefficients that tests compare with, by libraries that stay out of our environment: scikit-survival is under the GPL.
survival-references: $(SURVIVAL)/.ready
	$(SURVIVAL)/bin/python benchmarks/survival_references.py

# Random trials against slow truths, for as long as you like; what fails is kept in tests/regressions.
MINUTES ?= 60
SEED ?= 0
fuzz: $(READY)
	$(BIN)/python -m fuzz --minutes $(MINUTES) --seed $(SEED) --jobs 2 --write docs/results/fuzz.md

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("budgetline needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv

$(DEMO): pyproject.toml $(shell find src -type f -not -name '*.pyc') | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[all]'
	touch $@

$(READY): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

$(MINIMUM)/.ready: pyproject.toml tools/minimum_versions.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "make test-minimum PYTHON=python3.11")'
	$(PYTHON) -m venv --clear $(MINIMUM)
	$(PYTHON) tools/minimum_versions.py > $(MINIMUM)/constraints.txt
	$(MINIMUM)/bin/python -m pip install --quiet --disable-pip-version-check -c $(MINIMUM)/constraints.txt -e '.[test]'
	touch $@

# The last NumPy below 2 has wheels for Python up to 3.12.
$(ADELIE)/.ready: benchmarks/peers/adelie.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] > (3, 12) and "make peers PYTHON=python3.12")'
	$(PYTHON) -m venv --clear $(ADELIE)
	$(ADELIE)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

$(SURVIVAL)/.ready: benchmarks/survival_references.txt
	$(PYTHON) -m venv --clear $(SURVIVAL)
	$(SURVIVAL)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

clean:
	rm -rf .venv .venv-minimum .venv-adelie .venv-survival site .mypy_cache .ruff_cache .pytest_cache .hypothesis
