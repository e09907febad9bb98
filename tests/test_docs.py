"""The documentation holds: links lead somewhere, code compiles and runs, commands parse, the site builds."""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import linstereo
from linstereo.cli import build_parser
from linstereo.errors import InputError
from tests.data.layouts import make_kitti2015
from tests.documents import (
    PAGES,
    ROOT,
    anchors,
    blocks,
    inline_code,
    links,
    linstereo_commands,
    name_of,
    shell_lines,
)

OF_OTHER_TOOLS = {"--constraint", "--no-deps", "--logdir", "--iscale", "--oscale", "--help", "--version", "--write"}
NO_API_PAGE = {"cli", "weights"}  # thin faces, and files
RUNNABLE = [
    pytest.param(block.text, id=f"{name_of(page)}-{i}")
    for page in PAGES
    for i, block in enumerate(blocks(page))
    if block.kind == "python" and block.marked
]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{link} leads out of the project"
        assert not anchor or anchor in anchors(target), f"{link}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_blocks_compile(page):
    for block in blocks(page):
        if block.kind == "python":
            assert ast.parse(block.text, name_of(page)).body, "an empty block"


@pytest.mark.parametrize("script", RUNNABLE)
def test_marked_python_blocks_run(script, tmp_path):
    """Where the examples are, and a small KITTI 2015 in data/kitti2015."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    make_kitti2015(tmp_path / "data" / "kitti2015")
    variables = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_some_blocks_are_marked():
    assert len(RUNNABLE) >= 3


@pytest.mark.parametrize("page", [page for page in PAGES if linstereo_commands(page)], ids=name_of)
def test_commands_parse(page, capsys):
    for words in linstereo_commands(page):
        assert "..." not in words, f"write out {words}"
        try:
            build_parser().parse_args(words)
        except (SystemExit, InputError) as error:
            pytest.fail(f"linstereo {' '.join(words)}: {error} {capsys.readouterr().err}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_in_the_text_exist(page):
    known = OF_OTHER_TOOLS | options_of(build_parser())
    for code in inline_code(page):
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", code):
            assert option in known, f"`{code}`: no command has the option {option}"


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """All long options of a parser and of its subcommands."""
    found: set[str] = set()
    for action in parser._actions:
        found.update(option for option in action.option_strings if option.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):
            for subparser in set(action.choices.values()):
                found |= options_of(subparser)
    return found


def test_shell_lines_joins_cuts_and_fills_in():
    text = 'A="x y"\nA="$A z"\nrun $A \\\n    more   # why\n# all of it\n--set a=#1\n'
    assert shell_lines(text) == ["run x y z      more", "--set a=#1"]


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    variables = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    pages = sorted(site.rglob("*.html"))
    assert {site / "index.html", site / "benchmarks" / "tank.html", site / "CHANGELOG.html"} <= set(pages)
    assert 'id="linstereo.predictor.StereoPredictor.predict"' in (site / "api" / "predictor.html").read_text("utf-8")
    for page in pages:
        text = page.read_text("utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="(?:https?:)?//[^"]*"', text)
        loaded += re.findall(r'<link[^>]* rel="(?:stylesheet|preload|preconnect|icon)"[^>]* href="(?:https?:)?//', text)
        assert not loaded, page.name
        assert 'class="mermaid"' not in text, f"{page.name}: the diagrams' code would be fetched from elsewhere"


def test_the_api_reference_has_every_package_and_every_public_name():
    packages = {path.parent.name for path in (ROOT / "src" / "linstereo").glob("*/__init__.py")}
    described = {path.stem for path in (ROOT / "docs" / "api").glob("*.md")}
    assert packages - NO_API_PAGE <= described
    index = (ROOT / "docs" / "api" / "index.md").read_text("utf-8")
    assert set(re.findall(r"\[`linstereo\.(\w+)`\]", index)) == set(linstereo.__all__)


def test_the_citation_agrees_with_the_readme_and_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    paper = citation["preferred-citation"]
    assert str(citation["version"]) == linstereo.__version__
    (bibtex,) = [block.text for block in blocks(Path(ROOT / "README.md")) if block.kind == "bibtex"]
    authors = " and ".join(f"{author['family-names']}, {author['given-names']}" for author in paper["authors"])
    assert f"author    = {{{authors}}}" in bibtex
    assert paper["title"] in bibtex.replace("{LinStereo}", "LinStereo")
    assert f"year      = {{{paper['year']}}}" in bibtex
