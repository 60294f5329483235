# Everything runs in .venv, made here from pyproject.toml: a fresh machine needs only Python ≥ 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin
APT := apt-get -qq -o Acquire::http::Timeout=30 -o Acquire::Retries=1
DEMO := .venv/.demo
READY := .venv/.ready
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2
KERNELS := Prescott Nehalem Sandybridge Haswell Zen SkylakeX
NUMERIC := $(addprefix tests/,optimality theory datasets $(addsuffix .py,$(addprefix test_,accuracy baselines classifier \
	compare cross_validation curves early_exit exact glm glm_digits group_lasso inputs metrics moments moments_life ndcg \
	properties reductions regressions sequencing shared_costs shared_costs_everywhere sources streamed_curves streamed_glm)))

.PHONY: demo test test-all test-kernels test-minimum test-spark browser lint types docs bench fuzz clean

demo: $(DEMO)
	$(BIN)/budgetline demo

test: lint types browser $(READY)
	$(PYTEST) -m "not slow"

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

# Spark is large and needs Java: its one test is not part of "test".
test-spark: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pyspark>=3.5'
	$(BIN)/python -m pytest tests/test_spark.py -rs

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
	$(BIN)/python benchmarks/group_lasso.py
	$(BIN)/python benchmarks/sources.py
	$(BIN)/python benchmarks/runtime.py
	$(BIN)/python benchmarks/service.py

# Random trials against slow truths, for as long as you like; what fails is kept in tests/regressions.
MINUTES ?= 60
SEED ?= 0
fuzz: $(READY)
	$(BIN)/python -m fuzz --minutes $(MINUTES) --seed $(SEED) --jobs 2 --write docs/results/fuzz.md

$(DEMO): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("budgetline needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cli]'
	touch $@

$(READY): $(DEMO)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

clean:
	rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache .hypothesis
