"""What memory is left, from made-up /proc and /sys/fs/cgroup, and under a real limit."""

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from linstereo.errors import InputError
from linstereo.memory_limits import available_memory, is_out_of_memory, memory_errors_told

GIB = 1 << 30


def system(root, *, meminfo="", cgroup="", files=()):
    for path, content in (("proc/meminfo", meminfo), ("proc/self/cgroup", cgroup), *files):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    return root


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr("linstereo.memory_limits._kept_by_allocator", lambda: 0)


MEMINFO = "MemTotal: 16777216 kB\nMemFree: 1000 kB\nMemAvailable: 8388608 kB\nSwapFree: 1048576 kB\n"


def test_the_systems_memory_and_swap(tmp_path):
    assert available_memory(system(tmp_path, meminfo=MEMINFO)) == 9 * GIB


def test_nothing_is_known_elsewhere(tmp_path):
    assert available_memory(tmp_path) is None


def test_what_the_allocator_keeps_is_counted_where_the_rest_is_not_enough(tmp_path, monkeypatch):
    monkeypatch.setattr("linstereo.memory_limits._kept_by_allocator", lambda: GIB)
    root = system(tmp_path, meminfo=MEMINFO)
    assert available_memory(root) == 10 * GIB
    assert available_memory(root, enough=9 * GIB) == 9 * GIB
    assert available_memory(root, enough=9 * GIB + 1) == 10 * GIB


@pytest.mark.parametrize("inside", [True, False])
def test_a_cgroup_of_version_2(tmp_path, inside):
    """The group of the process has no limit, the one above it does; in a container only the topmost is visible."""
    folder = "sys/fs/cgroup/outer" if inside else "sys/fs/cgroup"
    files = [
        (f"{folder}/memory.max", f"{4 * GIB}\n"),
        (f"{folder}/memory.current", f"{3 * GIB}\n"),
        (f"{folder}/memory.stat", f"anon 5\ninactive_file {GIB}\nactive_file 7\n"),
    ]
    if inside:
        files += [("sys/fs/cgroup/outer/own/memory.max", "max\n"), ("sys/fs/cgroup/outer/own/memory.current", "5\n")]
    assert available_memory(system(tmp_path, meminfo=MEMINFO, cgroup="0::/outer/own\n", files=files)) == 2 * GIB


def test_a_cgroup_of_version_1(tmp_path):
    files = [
        ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", f"{4 * GIB}\n"),
        ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", f"{3 * GIB}\n"),
        ("sys/fs/cgroup/memory/a/memory.stat", f"cache 1\ntotal_inactive_file {GIB // 2}\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/memory/memory.usage_in_bytes", f"{3 * GIB}\n"),
    ]
    text = "5:cpu,cpuacct:/\n4:memory:/a\n0::/\n"
    assert available_memory(system(tmp_path, meminfo=MEMINFO, cgroup=text, files=files)) == GIB + GIB // 2


def test_more_used_than_allowed_is_nothing(tmp_path):
    files = [("sys/fs/cgroup/memory.max", "5"), ("sys/fs/cgroup/memory.current", "9")]
    assert available_memory(system(tmp_path, meminfo=MEMINFO, cgroup="0::/\n", files=files)) == 0


def test_errors_that_mean_too_little_memory():
    with pytest.raises(MemoryError) as numpy_error:
        np.empty(1 << 60, np.uint8)
    with pytest.raises(RuntimeError) as torch_error:
        torch.empty(1 << 60, dtype=torch.uint8)
    with pytest.raises(cv2.error) as opencv_error:
        cv2.resize(np.zeros((2, 2), np.float64), (2**31 - 1, 2**29))
    assert is_out_of_memory(numpy_error.value)
    assert is_out_of_memory(torch_error.value)
    assert is_out_of_memory(opencv_error.value)
    assert is_out_of_memory(RuntimeError("could not create a primitive"))
    assert not is_out_of_memory(RuntimeError("shapes differ"))
    told = pytest.raises(InputError, match="the pair does not fit into the memory that is there; buy more")
    with told, memory_errors_told("the pair", "buy more"):
        raise MemoryError
    with pytest.raises(RuntimeError, match="shapes"), memory_errors_told("the pair", "buy more"):
        raise RuntimeError("shapes differ")


LIMITED = """
import resource, sys
import numpy as np
import torch
from linstereo.loading import load
torch.set_num_threads(1)
predictor = load(device="cpu")
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + int(sys.argv[1]) * 2**20, resource.RLIM_INFINITY))
"""


def run_limited(code, megabytes):
    command = [sys.executable, "-c", LIMITED + code, str(megabytes)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


needs_linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits are read from /proc")


@needs_linux
def test_a_4k_pair_under_a_limit_is_refused_before_it_starts():
    done = run_limited(
        """
from linstereo.errors import InputError
image = np.zeros((2160, 3840, 3), np.uint8)
predictor.model.prepare = lambda *args, **kwargs: sys.exit("started")
try:
    predictor.predict(image, image)
except InputError as error:
    print(error)
""",
        1300,
    )
    assert done.stderr == ""
    assert "a pair of 3840 x 2160 px needs about " in done.stdout
    assert " GB of memory, but 1." in done.stdout
    assert "give smaller images" in done.stdout  # at no scale is there enough for making the results


@needs_linux
def test_strips_fit_into_the_memory_that_the_whole_does_not_fit_into():
    done = run_limited(
        """
image = np.random.default_rng(0).integers(0, 256, (1080, 1920, 3), dtype=np.uint8)
assert predictor.plan(1080, 1920).strips is not None
print(predictor.predict(image, image, iters=1).disparity.shape)
""",
        1000,
    )
    assert done.stderr == ""
    assert done.stdout == "(1080, 1920)\n"


@needs_linux
def test_what_is_said_to_fit_does_fit():
    """The scale that the refusal names is run under the very same limit, twice; and its volume is not stored."""
    done = run_limited(
        """
import re
from linstereo.errors import InputError
image = np.random.default_rng(0).integers(0, 256, (1080, 1920, 3), dtype=np.uint8)
try:
    predictor.plan(1080, 1920, scale=1.0)
except InputError as error:
    scale = float(re.search(r"--scale ([\\d.]+)", str(error))[1])
for _ in range(2):
    result = predictor.predict(image, image, iters=1, scale=scale)
print(scale, predictor.plan(1080, 1920, scale=scale).volume, result.disparity.shape)
""",
        700,
    )
    assert done.stderr == ""
    scale, volume, height, width = done.stdout.split()
    assert 0.3 <= float(scale) < 1
    assert (volume, height, width) == ("on_the_fly", "(1080,", "1920)")


@needs_linux
def test_running_out_of_memory_on_the_way_is_one_sentence():
    done = run_limited(
        """
from linstereo import predictor as module
from linstereo.errors import InputError
module.available_memory = lambda **_: None  # as if nothing were known
image = np.zeros((1080, 1920, 3), np.uint8)
try:
    predictor.predict(image, image)
except InputError as error:
    print(error)
""",
        300,
    )
    assert done.stderr == ""
    assert "a pair of 1920 x 1080 px, run at 1920 x 1080 px, does not fit into the memory that is there" in done.stdout
