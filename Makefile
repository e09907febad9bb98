# make demo   disparity, depth, point clouds and pictures of the bundled pairs, into out/
# make test   all tests
# make lint   ruff, mypy, and what may import what (import-linter)
# make docs   the documentation with the API reference, into site/
# Each target sets up its own environment in .venv; another Python: make PYTHON=python3.12 demo

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test lint docs clean
.DELETE_ON_ERROR:

demo: $(VENV)/core.stamp
	$(RUN) -m linstereo predict 'examples/*/left/*.png' 'examples/*/right/*.png' --out out

test: $(VENV)/dev.stamp
	$(RUN) -m pytest --numprocesses auto

lint: $(VENV)/dev.stamp
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache --no-logo

docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

clean:
	rm -rf $(VENV) out site

$(VENV)/created.stamp:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

$(VENV)/core.stamp: $(VENV)/created.stamp pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

$(VENV)/docs.stamp: $(VENV)/core.stamp
	$(PIP) --editable '.[docs]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/core.stamp tests/oracle.txt
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps --requirement tests/oracle.txt
	touch $@
