"""How a pair is run, judged from its size and the memory that is there."""

import contextlib
import dataclasses
import re
from pathlib import Path

import pytest

from linstereo.errors import InputError
from linstereo.model.memory import peak_bytes
from linstereo.model.presets import preset
from linstereo.run_plan import MAX_STRIP, MIN_STRIP, bytes_without_limit, needed_bytes, plan_run, strips_bytes

COMPACT, PAPER = preset("compact"), preset("paper")
GB = 10**9

TABLE = Path(__file__).resolve().parents[1] / "benchmarks" / "memory.md"
MEASURED = re.findall(r"^\| ([\w-]+) \| (\d+) x (\d+) \| (\w+) \| ([\d,]+) \|", TABLE.read_text(), re.MULTILINE)
STRIPS_MEASURED = re.findall(r"^\| (\d+) x (\d+) \| (\d+) \| ([\d,]+) \|", TABLE.read_text(), re.MULTILINE)


def test_estimates_are_above_what_was_measured_but_not_far():
    assert len(MEASURED) >= 20
    for name, height, width, volume, megabytes in MEASURED:
        measured = 1e6 * float(megabytes.replace(",", ""))
        assert 1.02 < peak_bytes(preset(name), int(height), int(width), volume) / measured < 1.8


def test_the_smaller_volume_is_chosen_if_only_that_fits():
    stored = needed_bytes(COMPACT, 1080, 1920, scale=None, volume="stored")
    on_the_fly = needed_bytes(COMPACT, 1080, 1920, scale=None, volume="on_the_fly")
    assert plan_run(COMPACT, 1080, 1920).volume == "stored"
    assert plan_run(COMPACT, 1080, 1920, available=stored).volume == "stored"
    assert plan_run(COMPACT, 1080, 1920, available=stored - 1).volume == "on_the_fly"
    assert plan_run(COMPACT, 1080, 1920, available=on_the_fly).volume == "on_the_fly"
    assert plan_run(COMPACT, 1080, 1920, available=on_the_fly - 1).strips is not None
    with pytest.raises(InputError, match=r"a pair of 1920 x 1080 px needs about 1\.\d GB of memory, but 0\.2 GB are"):
        plan_run(COMPACT, 1080, 1920, available=GB // 4)
    with pytest.raises(InputError, match=r"a pair of 1920 x 1080 px needs about 1\.\d GB of memory, but 1\.\d GB are"):
        plan_run(COMPACT, 1080, 1920, scale=1, available=on_the_fly - 1)


def test_plain_images_are_not_enlarged_as_far_and_large_ones_as_they_are():
    assert COMPACT.plain_pixels < COMPACT.working_pixels
    assert (plan_run(COMPACT, 480, 640).height, plan_run(COMPACT, 480, 640).width) == (672, 896)
    assert plan_run(COMPACT, 480, 640, plain=True) == plan_run(COMPACT, 480, 640, scale=1)
    small = plan_run(COMPACT, 240, 320, plain=True)
    assert (small.height, small.width) == (448, 576)
    assert plan_run(COMPACT, 1080, 1920, plain=True) == plan_run(COMPACT, 1080, 1920)
    alike = dataclasses.replace(COMPACT, plain_pixels=0)
    assert plan_run(alike, 480, 640, plain=True) == plan_run(alike, 480, 640)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("size", [(240, 320), (1080, 1920)])
def test_more_than_the_bytes_without_limit_change_nothing(size, plain):
    config = dataclasses.replace(preset("compact"), plain_pixels=300 * 400)
    settings = {"scale": None, "volume": None, "plain": plain}
    free = plan_run(config, *size, available=None, **settings)
    enough = bytes_without_limit(config, *size, **settings)
    assert plan_run(config, *size, available=enough, **settings) == free
    less = None
    with contextlib.suppress(InputError):
        less = plan_run(config, *size, available=enough - 1, **settings)
    assert less != free


def test_a_volume_that_was_asked_for_is_not_replaced():
    available = needed_bytes(COMPACT, 1080, 1920, scale=None, volume="on_the_fly")
    with pytest.raises(InputError, match="--volume on_the_fly"):
        plan_run(COMPACT, 1080, 1920, volume="stored", available=available)
    assert plan_run(COMPACT, 2160, 3840, volume="stored").volume == "stored"
    assert plan_run(COMPACT, 2160, 3840).volume == "on_the_fly"


def test_only_what_does_not_fit_is_run_in_two_passes():
    assert plan_run(COMPACT, 2160, 3840).strips is None
    plan = plan_run(COMPACT, 2160, 3840, available=2 * GB)
    assert plan.strips is not None
    assert (plan.strips.coarse_height, plan.strips.coarse_width) == (736, 1344)
    for options in ({"scale": 1}, {"volume": "on_the_fly"}):
        with pytest.raises(InputError, match="needs about"):
            plan_run(COMPACT, 2160, 3840, available=2 * GB, **options)
    with pytest.raises(InputError, match="needs about"):
        plan_run(PAPER, 2160, 3840, available=2 * GB)


def test_strips_are_as_tall_as_memory_allows():
    rows = []
    for gigabytes in (2.2, 1.5, 1.48):
        plan = plan_run(COMPACT, 2160, 3840, available=round(gigabytes * GB))
        assert plan.strips is not None
        assert plan.volume == "on_the_fly"
        rows.append(plan.strips.rows)
        assert strips_bytes(COMPACT, 2160, 3840, plan.strips) <= gigabytes * GB
        taller = dataclasses.replace(plan.strips, rows=plan.strips.rows + 32)
        assert rows[-1] == MAX_STRIP or strips_bytes(COMPACT, 2160, 3840, taller) > gigabytes * GB
    assert rows[0] == MAX_STRIP > rows[1] > rows[2] >= MIN_STRIP
    with pytest.raises(InputError, match="needs about"):
        plan_run(COMPACT, 2160, 3840, available=round(1.3 * GB))


def test_strips_are_for_networks_whose_updates_can_be_divided():
    local = dataclasses.replace(COMPACT, update="convgru")
    with pytest.raises(InputError, match="needs about"):
        plan_run(local, 2160, 3840, available=2 * GB)


def test_estimates_of_strips_are_above_what_was_measured_but_not_far():
    assert len(STRIPS_MEASURED) >= 2
    for height, width, rows, megabytes in STRIPS_MEASURED:
        plan = plan_run(COMPACT, int(height), int(width), available=needed_bytes_less(int(height), int(width)))
        strips = dataclasses.replace(plan.strips, rows=int(rows))
        estimated = strips_bytes(COMPACT, int(height), int(width), strips)
        assert 1.02 < estimated / (1e6 * float(megabytes.replace(",", ""))) < 1.8


def needed_bytes_less(height, width):
    """One byte less than the whole takes."""
    return needed_bytes(COMPACT, height, width, scale=None, volume="on_the_fly") - 1


def test_the_scale_that_is_named_fits():
    with pytest.raises(InputError) as error:
        plan_run(PAPER, 2160, 3840, available=4 * GB)
    scale = float(re.search(r"\(--scale ([\d.]+)\)", str(error.value))[1])
    plan = plan_run(PAPER, 2160, 3840, scale=scale, available=4 * GB)
    assert (plan.height, plan.width) == (round(2160 * scale), round(3840 * scale))
    with pytest.raises(InputError, match=r"but 4\.0 GB are available"):
        plan_run(PAPER, 2160, 3840, scale=scale + 0.15, available=4 * GB)  # the scale that is named leaves a margin


def test_images_too_large_at_any_scale():
    with pytest.raises(InputError, match=r"a pair of 11000 x 11000 px needs about \d\d GB of memory.*smaller images"):
        plan_run(COMPACT, 11000, 11000, available=8 * GB)
    with pytest.raises(InputError, match=r"run at 128 x 64 px, needs"):
        plan_run(COMPACT, 32, 64, available=1000)
