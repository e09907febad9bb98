"""The rooms are kept apart: the contracts hold, they notice violations, and docs/architecture.md says the same."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("importlinter")

ROOT = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
PROGRAM = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache', '--no-logo'])"
VIOLATIONS = {  # module -> what it must not import
    "linstereo.model.pala": "linstereo.training.loss",
    "linstereo.checkpoints.hub": "linstereo.predictor",
    "linstereo.geometry.depth": "torch",
    "linstereo.data.formats.pfm": "linstereo.data.datasets.kitti",
    "linstereo.synthesis.noise": "linstereo.model.layers",
    "linstereo.evaluation.metrics": "linstereo.synthesis.engine",
    "linstereo.training.loss": "linstereo.evaluation.runner",
    "linstereo.predictor": "linstereo.data.datasets.catalogue",
    "linstereo.model.layers": "cv2",
    "linstereo.files": "numpy",
    "linstereo.visualize": "linstereo.cli.pairs",
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources and their contracts in a folder of their own."""
    shutil.copytree(
        ROOT / "src",
        tmp_path / "src",
        ignore=lambda folder, names: [n for n in names if "." in n[1:] and not n.endswith(".py")],
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder / "src"), "COLUMNS": "200"}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_no_room_imports_what_it_may_not() -> None:
    done = check(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_violations_are_noticed(copy: Path) -> None:
    for module, forbidden in VIOLATIONS.items():
        file = (copy / "src").joinpath(*module.split(".")).with_suffix(".py")
        file.write_text(f"{file.read_text('utf-8')}\n\ndef lazily():\n    import {forbidden}\n", "utf-8")
    done = check(copy)
    assert done.returncode == 1
    missed = [
        f"{module} -> {name}" for module, name in VIOLATIONS.items() if f"{module} -> {name} (l." not in done.stdout
    ]
    assert not missed, done.stdout


def test_a_room_without_a_place_is_noticed(copy: Path) -> None:
    (copy / "src/linstereo/attic.py").write_text('"""Things."""\n', "utf-8")
    done = check(copy)
    assert done.returncode == 1
    assert "attic" in done.stdout


def test_the_page_says_what_the_contracts_say() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    table = page[page.index("| room |") : page.index("The foundations serve")]
    rows = re.findall(r"^\| `([\w/]+?)/?` \|.*\|([^|]*)\|$", table, re.MULTILINE)
    said = {room: set(re.findall(r"`([\w/]+)`", allowed)) for room, allowed in rows}
    imported_by = {
        name: {room for room, allowed in said.items() if name in allowed}
        for name in set(said) | set().union(*said.values())
    }
    protected = {
        contract["protected_modules"][0]: contract for contract in CONTRACTS if contract["type"] == "protected"
    }
    assert {room_of(module) for module in protected} == set(said)
    for module, contract in protected.items():
        importers = {room for importer in contract["allowed_importers"] for room in rooms_of(importer)}
        assert importers - {"cli", "__main__", room_of(module)} == imported_by[room_of(module)], module


def room_of(module: str) -> str:
    name = module.removeprefix("linstereo.").replace(".", "/")
    return "data/datasets" if name in ("data/sample", "data/augmentation") else name


def rooms_of(module: str) -> set[str]:
    data = {"data/formats", "data/datasets", "data/sequences"}
    return data if module == "linstereo.data" else {room_of(module)}
