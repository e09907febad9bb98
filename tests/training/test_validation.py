"""Measuring on a fixed list of pairs: which they are, how they are cut, and that shares add up to the whole."""

import numpy as np
import pytest
from tests.data import layouts
from tests.data.scenes import render_pair
from tests.training.tiny import tiny_recipe, write_folder

from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.training.recipe import Stage
from linstereo.training.validation import ValidationPairs, centre_crop, means, spread


def one_px_off(sample: StereoSample) -> np.ndarray:
    return sample.disparity + np.float32(1.5)


@pytest.fixture
def stage(tmp_path) -> Stage:
    folder = write_folder(tmp_path / "pairs", count=5)
    source = [f"folder={folder}"]
    return tiny_recipe(folder, validation=source, validation_count=4, validation_crop=[32, 64]).stages[0]


def test_pairs_are_evenly_spread():
    assert spread(10, 5) == [1, 3, 5, 7, 9]
    assert spread(3, 5) == [0, 1, 2]
    assert spread(100, 1) == [50]


def test_the_middle_is_cut_out_with_all_its_labels():
    pair = render_pair()
    cut = centre_crop(pair, (40, 400))
    for name in ("left", "right", "disparity", "valid", "occluded"):
        assert np.array_equal(getattr(cut, name), getattr(pair, name)[40:80])
    assert centre_crop(pair, (0, 0)) is pair


def test_every_pair_is_measured_as_it_is_cut(stage):
    pairs = ValidationPairs(stage, seed=0)
    assert len(pairs) == 4
    for _ in range(2):  # the second time from memory
        measured = list(pairs.measure(one_px_off))
        assert [one.place for one in measured] == [0, 1, 2, 3]
        assert [one.sample.name for one in measured] == ["000", "001", "003", "004"]
        for one in measured:
            assert one.sample.left.shape == (32, 64, 3)
            assert one.figures == {"EPE": pytest.approx(1.5), "bad1": 100, "bad3": 0}


def test_occluded_pixels_are_measured_apart(tmp_path):
    layouts.make_folder(tmp_path, pairs=1)
    (measured,) = ValidationPairs(tiny_recipe(tmp_path, validation=[f"folder={tmp_path}"]).stages[0], seed=0).measure(
        lambda sample: np.where(sample.occluded, sample.disparity + 4, sample.disparity).astype(np.float32)
    )
    assert measured.figures["occ/EPE"] == pytest.approx(4)
    assert measured.figures["occ/bad3"] == 100
    assert 0 < measured.figures["EPE"] < 4


def test_processes_share_the_pairs(stage):
    shares = [[one.place for one in ValidationPairs(stage, seed=0, rank=rank, processes=3).measure(one_px_off)]
              for rank in range(3)]  # fmt: skip
    assert shares == [[0, 3], [1], [2]]


def test_a_pair_without_ground_truth_is_named(tmp_path):
    layouts.make_folder(tmp_path, pairs=1, disparity=None, occlusion=False)
    pairs = ValidationPairs(tiny_recipe(tmp_path, validation=[f"folder={tmp_path}"]).stages[0], seed=0)
    with pytest.raises(InputError, match="0000 has no ground truth, so nothing can be measured on it; leave it out"):
        list(pairs.measure(one_px_off))


def test_means_come_from_the_sums_of_all_processes():
    assert means(np.array([6.0, 30.0, 3.0, 3.0])) == {"EPE": 2.0, "bad1": 10.0, "bad3": 1.0}
    assert means(np.zeros(4)) == {}
