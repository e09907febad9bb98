"""The help of every command, which must come at once: without the network, and without the libraries it needs."""

import subprocess
import sys

import pytest

from linstereo.cli import COMMANDS, build_parser
from linstereo.evaluation.submission import FORMATS
from tests.hostile.cases import subcommands

HEAVY = ("torch", "cv2", "numpy", "safetensors", "huggingface_hub", "trimesh")
NESTED = [" ".join(path) for path, _ in subcommands() if len(path) > 1]
CALLS = ("--help", "--version", *(f"{command} --help" for command in (*COMMANDS, *NESTED)))
PROGRAM = """
import sys
from linstereo.cli import main
try:
    main(sys.argv[2:])
except SystemExit as end:
    assert not end.code, end.code
print("loaded:", *(name for name in sys.argv[1].split(",") if name in sys.modules))
"""


@pytest.mark.parametrize("call", CALLS)
def test_help_loads_no_large_library(call):
    command = [sys.executable, "-c", PROGRAM, ",".join(HEAVY), *call.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shown, _, loaded = done.stdout.rpartition("loaded:")
    assert done.returncode == 0, done.stderr
    assert loaded.split() == []
    assert shown.strip()
    assert "%%" not in shown  # descriptions, unlike the help of options, are shown as they are written


def test_unnamed_subcommands_are_not_imported():
    program = "import sys; from linstereo.cli import build_parser; build_parser(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", program, "info", "paper"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "linstereo.cli.info" in loaded
    assert not {f"linstereo.cli.{name}" for name in COMMANDS if name != "info"} & set(loaded)


def test_every_subcommand_has_a_line_and_a_way_to_run(capsys):
    with pytest.raises(SystemExit):
        build_parser().parse_args(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert all(f"{name} {line}" in shown for name, line in COMMANDS.items())
    for path, parser in subcommands():
        assert callable(parser.get_default("run")), path


def test_help_of_submit_names_all_its_formats():
    parser = next(parser for path, parser in subcommands() if path == ("submit",))
    action = next(action for action in parser._actions if "--benchmark" in action.option_strings)
    assert all(name in action.help.replace(" or ", ", ").split(", ") for name in FORMATS)
