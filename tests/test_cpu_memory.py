"""Large blocks are reused instead of being fetched anew."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from linstereo.cpu_memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
    assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def work():  # several maps of about 40 MB alive at once, as in a refinement iteration
    x = torch.ones(10 << 20)
    for _ in range(4):
        y = x + 1
        x = torch.cat([x, y])[: 10 << 20] * y
for _ in range(4):
    work()
before = faults()
for _ in range(4):
    work()
print(faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of the GNU C library")
def test_freed_memory_is_kept_only_when_asked_for():
    faults = {}
    for mode in ("keep", "default"):
        done = subprocess.run([sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, check=True)
        faults[mode] = int(done.stdout)
    assert faults["keep"] < faults["default"] / 4  # a few blocks do not fit into the gaps, by where the heap lies
