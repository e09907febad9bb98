import collections

import pytest

from linstereo.errors import InputError
from linstereo.synthesis.seastereo.plan import FLOOR_DEPTHS, FRAMES, TURBID, all_configurations, choose

ALL = all_configurations(0)


def test_it_is_the_enumeration_of_the_paper():
    assert len(ALL) == 1008
    assert len(ALL) * FRAMES == 40_320
    assert len({configuration.name for configuration in ALL}) == 1008
    assert [configuration.index for configuration in ALL] == list(range(1008))
    for field, count in (("trajectory", 7), ("focal_mm", 2), ("baseline_mm", 2), ("iteration", 3)):
        assert set(collections.Counter(getattr(c, field) for c in ALL).values()) == {1008 // count}
    settings = collections.Counter((c.water, c.depth) for c in ALL)
    assert len(settings) == 12
    assert set(settings.values()) == {84}
    assert all((water, "deep") not in settings for water in TURBID)


def test_every_iteration_samples_a_depth_of_its_own():
    assert len({c.floor_depth for c in ALL}) > 900
    for configuration in ALL:
        low, high = FLOOR_DEPTHS[configuration.depth]
        assert low <= configuration.floor_depth <= high


def test_a_seed_decides_everything():
    assert all_configurations(0) == ALL
    other = all_configurations(1)
    assert [c.name for c in other] == [c.name for c in ALL]
    assert [c.floor_depth for c in other] != [c.floor_depth for c in ALL]
    assert ALL[3].rng(1).random() == all_configurations(0)[3].rng(1).random()
    assert ALL[3].rng(1).random() != ALL[3].rng(2).random()


def test_filters():
    chosen = choose(ALL, waters=["3C"], trajectories=[2])
    assert len(chosen) == 12
    assert {(c.water, c.trajectory) for c in chosen} == {("3C", 2)}
    assert len(choose(ALL)) == 1008
    assert len(choose(ALL, depths=["deep"], focal_lengths=[24], baselines=[65], iterations=[1, 2])) == 7 * 5 * 2


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"trajectories": [8]}, "trajectory 8"),
        ({"focal_lengths": [50]}, "focal_mm 50"),
        ({"waters": ["4C"]}, "water 4C"),
        ({"waters": ["3C"], "depths": ["deep"]}, "shallow only"),
    ],
)
def test_filters_that_leave_nothing_are_told(wanted, told):
    with pytest.raises(InputError, match=told):
        choose(ALL, **wanted)


def test_a_seed_out_of_range_is_told():
    with pytest.raises(InputError, match="seed is -1"):
        all_configurations(-1)


def test_the_calibration_is_that_of_the_lens():
    camera = ALL[0].calibration(height=480, width=640)
    assert camera.focal == pytest.approx(24 / 36 * 640)
    assert (camera.cx, camera.cy, camera.baseline) == (319.5, 239.5, 0.065)
