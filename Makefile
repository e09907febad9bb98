# make demo   disparity, depth, confidence, filtered point clouds and pictures of the bundled pairs, into out/
# make serve   the page where depth can be seen, at http://127.0.0.1:8000
# make test   all tests
# make lint   ruff, mypy, and what may import what (import-linter)
# make blender   Blender's Python module into .venv-blender (1 GB), for `linstereo seastereo render`
# make docs   the documentation with the API reference, into site/
# Each target sets up its own environment in .venv; another Python: make PYTHON=python3.12 demo

PYTHON ?= python3
VENV := .venv
BLENDER_VENV := .venv-blender
# The Python that this Blender was built for
BLENDER_PYTHON ?= python3.11
BLENDER := bpy==4.5.15
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo serve test lint docs blender clean
.DELETE_ON_ERROR:

demo: $(VENV)/core.stamp
	$(RUN) -m linstereo predict 'examples/*/left/*.png' 'examples/*/right/*.png' --out out
	@echo "See it in three dimensions: make serve   (a page at http://127.0.0.1:8000)"

serve: $(VENV)/web.stamp
	$(RUN) -m linstereo serve

test: $(VENV)/dev.stamp
	$(RUN) -m pytest --numprocesses auto --dist worksteal

lint: $(VENV)/dev.stamp
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache --no-logo

docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

blender: $(BLENDER_VENV)/bpy.stamp

clean:
	rm -rf $(VENV) $(BLENDER_VENV) out site

$(VENV)/created.stamp:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

$(VENV)/core.stamp: $(VENV)/created.stamp pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

$(VENV)/web.stamp: $(VENV)/core.stamp
	$(PIP) --editable '.[web]'
	touch $@

$(VENV)/docs.stamp: $(VENV)/core.stamp
	$(PIP) --editable '.[docs]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/core.stamp tests/oracle.txt
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps --requirement tests/oracle.txt
	touch $@

$(BLENDER_VENV)/bpy.stamp: Makefile
	$(BLENDER_PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "$(BLENDER) needs Python 3.11: make BLENDER_PYTHON=python3.11 blender")'
	$(BLENDER_PYTHON) -m venv --clear $(BLENDER_VENV)
	$(BLENDER_VENV)/bin/python -m pip --disable-pip-version-check install --quiet '$(BLENDER)'
	$(BLENDER_VENV)/bin/python -I -c 'import bpy' || { echo 'Blender lacks a library that the line above names; docs/seastereo.md says how to install it' >&2; exit 1; }
	touch $@
