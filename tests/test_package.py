"""The package as it presents itself: its names, and what it says where an optional package is missing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import linstereo
from linstereo import extras
from linstereo.errors import InputError, MissingExtraError

OPTIONAL = {"embreex", "OpenEXR", "tensorboard"}


def test_dir_shows_the_api_and_every_name_is_there():
    assert {name for name in dir(linstereo) if not name.startswith("_")} == set(linstereo.__all__)
    assert "__version__" in dir(linstereo)
    for name in linstereo.__all__:
        assert getattr(linstereo, name).__name__ == name


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "linstereo", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"linstereo {linstereo.__version__}\n", done.stderr


def test_a_missing_extra_is_one_sentence_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "embreex.rtcore_scene", None)
    with pytest.raises(MissingExtraError) as caught:
        extras.require("embreex.rtcore_scene", extra="synth", purpose="rendering")
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, ImportError)
    assert str(caught.value) == (
        "rendering needs the package embreex, which is not installed here; "
        "run: pip install --constraint constraints.txt 'linstereo[synth]'"
    )


def test_optional_packages_are_imported_in_no_other_way():
    for file in Path(linstereo.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {part for name in names for part in name.split(".")} & OPTIONAL, file
