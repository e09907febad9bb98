"""Every block of the README and the quick start, on a fresh environment with their own installation.

Blocks are taken from the pages as they stand; each line of a bash block is a command of its own. It runs in a folder
that has what the pages suppose: examples/, and small crops of its pairs as left.png and right.png, left/ and right/,
and pairs/; /data is mapped to a folder beside it with a small KITTI 2015. What would take hours is cut short by options
that are put behind the command (`SHORTENED`): fewer steps, pairs or rows, smaller crops, nothing else.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import pytest

from tests.data.layouts import make_kitti2015
from tests.documents import ROOT, blocks, shell_lines

QUICK_TRAINING = "--set steps=1 --set batch=1 --set crop=64x96 --set validation_count=1 --workers 0"
SHORTENED = {
    "linstereo benchmark": "--size 64x96 --only parts methods --rounds 6 --warm-up 0",
    "linstereo synth": "--count 2 --size 96x160 --workers 1",
    "linstereo train": QUICK_TRAINING,
    "linstereo ablate": f"{QUICK_TRAINING} --steps 4 --rows hscv",
}
BLOCKS = [*blocks(ROOT / "README.md"), *blocks(ROOT / "docs" / "quickstart.md")]
COMMANDS = list(dict.fromkeys(line for block in BLOCKS if block.kind == "bash" for line in shell_lines(block.text)))
SCRIPTS = [block.text for block in BLOCKS if block.kind == "python"]
PLAIN_INSTALL = "pip install --constraint constraints.txt ."
MISSING_EXTRA = re.compile(
    r"linstereo: .* needs the package \w+, which is not installed here; "
    r"run: (pip install --constraint constraints\.txt 'linstereo\[\w+\]')\n"
)
NEED_EXTRA = ("linstereo synth", "linstereo ablate")


class Environment:
    """A fresh virtual environment, and a folder to work in."""

    def __init__(self, home: Path) -> None:
        self.work = home / "work"
        self.data = home / "data"
        self._bin = home / "venv" / "bin"
        self.work.mkdir()
        subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)

    def run(self, command: str, *, where: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a line as a shell would in which the environment is active."""
        variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
        variables |= {"PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        variables |= {"PIP_NO_COMPILE": "1", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}  # for less work
        line = ["bash", "-c", command.replace("/data/", f"{self.data}/")]
        return subprocess.run(line, cwd=where or self.work, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    environment = Environment(tmp_path)
    probe = environment.run("pip download --quiet --no-deps --retries 0 --timeout 20 --dest . tqdm", where=tmp_path)
    if probe.returncode:
        pytest.skip(f"no package index can be reached: {probe.stderr.strip().splitlines()[-1]}")
    installed = environment.run(PLAIN_INSTALL, where=ROOT)
    assert installed.returncode == 0, installed.stderr
    work = environment.work
    shutil.copytree(ROOT / "examples", work / "examples")
    for file in (work / "examples" / "reef").glob("*/*.png"):
        crop = cv2.imread(str(file), cv2.IMREAD_UNCHANGED)[:128, :192]  # of all files alike: disparities stay true
        targets = [work / "pairs" / file.parent.name / file.name]
        if file.parent.name in ("left", "right"):
            targets += [work / file.parent.name / file.name, work / f"{file.parent.name}.png"]
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            assert cv2.imwrite(str(target), crop)
    shutil.copy(ROOT / "constraints.txt", work)
    make_kitti2015(environment.data / "kitti2015")
    return environment


def shortened(command: str) -> str:
    return f"{command} {next((more for start, more in SHORTENED.items() if command.startswith(start)), '')}".strip()


def test_the_readme_installs_the_plain_package_and_names_the_extras():
    assert PLAIN_INSTALL in COMMANDS
    assert "pip install --constraint constraints.txt '.[train]'" in COMMANDS
    assert len(SCRIPTS) >= 2
    assert all(any(command.startswith(start) for command in COMMANDS) for start in (*SHORTENED, *NEED_EXTRA))


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make ")])
def test_make_knows_the_targets(command):
    done = subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_block_on_a_fresh_installation(environment):
    """One test, so that there is one installation however many processes run the tests."""
    complaints = {}
    told = None
    for command in [command for command in COMMANDS if command.startswith("linstereo ")]:
        before = set(environment.work.iterdir())
        done = environment.run(shortened(command))
        if command.startswith(NEED_EXTRA):
            sentence = MISSING_EXTRA.fullmatch(done.stderr)
            if done.returncode != 2 or sentence is None or set(environment.work.iterdir()) != before:
                complaints[command] = done.stderr
            told = sentence and sentence[1]
        elif done.returncode:
            complaints[command] = done.stderr
    for i, script in enumerate(SCRIPTS):
        (environment.work / f"script{i}.py").write_text(script)
        done = environment.run(f"python script{i}.py")
        if done.returncode:
            complaints[script] = done.stderr
    assert not complaints

    # What the message says is done: then the command works.
    assert told is not None
    installed = environment.run(told)
    assert installed.returncode == 0, installed.stderr
    synth = next(command for command in COMMANDS if command.startswith("linstereo synth"))
    done = environment.run(shortened(synth.replace("--out pairs", "--out synthetic")))
    assert done.returncode == 0, done.stderr
    assert len(list((environment.work / "synthetic" / "disparity").iterdir())) == 2
