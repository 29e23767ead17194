# make demo | make test | make docs: each sets up what it needs on a machine with Python 3.11+ and a C++ compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check -q
NATIVE := CMakeLists.txt $(shell find native bindings -type f)

.PHONY: FORCE demo test docs setup check bench learning gallery long dist stub native-test clean

demo: $(VENV)/product
	$(BIN)/python examples/click_model/demo.py

test: check build/azurite/installed
	$(BIN)/python -m pytest -m "not long" -n 2 --dist worksteal

# torch first and by its exact version: a package that asks for any torch would bring the CUDA build.
$(VENV)/packages: constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt torch
	$(PIP) install -c constraints.txt scikit-build-core nanobind cmake ninja setuptools
	touch $@

# The editable install lists the modules that it serves, so a moved or new one means installing again.
$(VENV)/modules: $(VENV)/packages FORCE
	@find src -name '*.py' | sort | cmp -s - $@ || find src -name '*.py' | sort > $@

$(VENV)/product: $(VENV)/packages $(VENV)/modules $(NATIVE)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install -c constraints.txt --no-build-isolation -e .
	touch $@

# What tests, checks, docs and benchmarks need beside the product.
$(VENV)/tools: $(VENV)/packages
	$(BIN)/python -c "import tomllib; extras = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; \
	  print(*(package for name in ('cloud', 'spark', 'web', 'dev', 'docs') for package in extras[name]), sep='\n')" > $@.txt
	$(PIP) install -c constraints.txt -r $@.txt
	touch $@

# A server of Azure's protocol, for tests of object stores.
build/azurite/installed:
	mkdir -p $(@D)
	@if command -v npm > /dev/null; then \
	  npm install --prefix $(@D) --no-audit --no-fund --loglevel=error azurite@3.37.0 && touch $@; \
	else echo "*** npm is missing: the tests of Azure will NOT run ***" >&2; fi

setup: $(VENV)/product $(VENV)/tools

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Generate the reference pages from the code, then build the site; any warning is an error.
docs: setup
	$(BIN)/python docs/generate_reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet  # the variable silences a notice of the theme

# Peers are installed beside the environment, not into it: some would change what Samovar is tested with.
build/peers/installed: benchmarks/peers.txt $(VENV)/packages
	rm -rf $(@D)
	$(PIP) install --target $(@D) --no-deps -r benchmarks/peers.txt
	touch $@

# All benchmarks and one table; `make bench ONLY="growth hash"` runs only these and keeps the rows of the others.
bench: setup build/peers/installed
	PYTHONPATH=build/peers $(BIN)/python -m benchmarks $(ONLY) --results build/bench \
	  --readme benchmarks/README.md --figures docs/growth
	$(BIN)/python -m docs.pictures.speed  # the bar chart of the README

# Peers and data of `make learning` and `make gallery`. Of scikit-multiflow only the data is used, so its wheel may be for an old Python.
build/learning/installed: benchmarks/learning/peers.txt benchmarks/learning/data.txt $(VENV)/packages
	rm -rf $(@D)
	$(PIP) install --target $(@D) --no-deps -r benchmarks/learning/peers.txt
	$(PIP) install --target $(@D) --no-deps --only-binary=:all: --implementation cp --python-version 3.6 \
	  --platform manylinux1_x86_64 -r benchmarks/learning/data.txt
	touch $@

# How good what is learned is, beside peers: half an hour on two quiet cores. Outcomes in build/bench/learning are kept;
# `make learning ONLY="elec adult"` runs only these.
learning: setup build/learning/installed
	PYTHONPATH=build/learning $(BIN)/python -m benchmarks.learning $(ONLY) --page docs/how_good.md
	$(BIN)/python -m docs.pictures.learning

# Real data of examples/gallery beside scikit-learn, and the table of its page. `make gallery ONLY="adult sales"` runs only
# these and shows their rows.
gallery: setup build/learning/installed
	PYTHONPATH=build/learning $(BIN)/python -m examples.gallery.run $(or $(ONLY),--page examples/gallery/README.md)

# Trackers of the examples; beside the environment too, because they bring a hundred other packages.
build/trackers/installed: examples/trackers/requirements.txt $(VENV)/packages
	rm -rf $(@D)
	$(PIP) install --target $(@D) -c constraints.txt -r examples/trackers/requirements.txt
	touch $@

long: setup build/azurite/installed build/trackers/installed build/learning/installed
	$(BIN)/python -m pytest -m long

# An sdist, and a wheel built from it; `make long` installs the wheel elsewhere and tests it there.
dist: setup
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m build --no-isolation

# Types of the C++ core for mypy; a test compares them with the core.
stub: setup
	$(BIN)/python -m nanobind.stubgen -q -m samovar._native -o src/samovar/_native.pyi

# The C++ tests, once per sanitizer.
native-test: setup
	for kind in address,undefined thread ""; do \
	  $(BIN)/cmake -S . -B build/test-$$kind -G Ninja -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja" \
	    -DSAMOVAR_PYTHON=OFF -DSAMOVAR_TESTS=ON -DSAMOVAR_SANITIZE=$$kind && \
	  $(BIN)/cmake --build build/test-$$kind && \
	  $(BIN)/ctest --test-dir build/test-$$kind --output-on-failure || exit 1; \
	done

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
