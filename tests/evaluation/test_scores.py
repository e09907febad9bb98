"""Averages over images and pixels, joining of partial runs, and the exact round trip through JSON."""

import json
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linstereo.errors import InputError
from linstereo.evaluation.metrics import DepthRange, score_depth, score_disparity
from linstereo.evaluation.scores import (
    REGIONS,
    ImageScore,
    RegionSums,
    aggregate,
    column_key,
    is_percentage,
    merge_scores,
)
from linstereo.geometry.calibration import StereoCalibration

CALIBRATION = StereoCalibration(focal=320.0, baseline=0.25, cx=320.0, cy=240.0)


def random_score(seed: int, *, depth: bool = False) -> ImageScore:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 40, 2))
    truth = rng.uniform(1, 40, shape).astype(np.float32)
    prediction = (truth + rng.normal(0, 2, shape)).astype(np.float32)
    prediction[rng.random(shape) < 0.05] = np.nan
    valid, occluded = rng.random(shape) < 0.7, rng.random(shape) < 0.2
    if depth:
        regions = score_depth(
            prediction, truth, valid=valid, calibration=CALIBRATION, depth_range=DepthRange(0.1, 50.0)
        )
    else:
        regions = score_disparity(prediction, truth, valid=valid, occluded=occluded)
    return ImageScore(name=f"scene/{seed:04d}", regions=regions)


def part(pixels: int, **sums: float) -> RegionSums:
    return RegionSums(pixels=pixels, non_finite=0, sums=sums)


def test_both_means_by_hand():
    scores = [
        ImageScore("a", {"all": part(10, EPE=20.0, bad2=5, RMSE=40.0, A1=10)}),
        ImageScore("b", {"all": part(30, EPE=30.0, bad2=6, RMSE=270.0, A1=15)}),
        ImageScore("c", {"all": part(0, EPE=0.0, bad2=0, RMSE=0.0, A1=0)}),
    ]
    result = aggregate(scores, regions=("all",))["all"]
    assert result.image_mean == {"EPE": 1.5, "bad2": 35.0, "RMSE": 2.5, "A1": 0.75}
    assert result.pixel_mean == {"EPE": 1.25, "bad2": 27.5, "RMSE": math.sqrt(310 / 40), "A1": 0.625}
    assert (result.images, result.images_without_pixels, result.images_without_labels) == (2, 1, 0)
    assert result.pixels == 40
    assert result.mean("EPE", "image") == 1.5
    assert result.mean("EPE", "pixel") == 1.25


def test_region_that_no_image_has_is_none_throughout():
    scores = [ImageScore("a", {"all": part(10, EPE=20.0)})]
    result = aggregate(scores)["occ"]
    assert result.image_mean == {"EPE": None}
    assert result.pixel_mean == {"EPE": None}
    assert (result.images, result.images_without_labels, result.pixels) == (0, 1, 0)


def test_region_that_some_images_have():
    scores = [
        ImageScore("a", {"all": part(10, EPE=20.0), "occ": part(2, EPE=8.0)}),
        ImageScore("b", {"all": part(10, EPE=20.0), "occ": part(0, EPE=0.0)}),
        ImageScore("c", {"all": part(10, EPE=20.0)}),
    ]
    result = aggregate(scores)["occ"]
    assert result.mean("EPE", "image") == 4.0
    assert (result.images, result.images_without_pixels, result.images_without_labels) == (1, 1, 1)


def test_no_image_at_all():
    result = aggregate([])["all"]
    assert (result.images, result.pixels, result.mean("EPE", "image")) == (0, 0, None)


def test_only_images_without_pixels():
    result = aggregate([ImageScore("a", {"all": part(0, EPE=0.0, D1=0)})])["all"]
    assert result.pixel_mean == {"EPE": None, "D1": None}
    assert "NaN" not in json.dumps(result.to_json(), allow_nan=False)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), parts=st.integers(1, 5), shuffle=st.randoms(use_true_random=False))
def test_any_division_over_processes_ends_in_the_same_bits(seed: int, parts: int, shuffle: random.Random):
    scores = [random_score(seed + i) for i in range(12)]
    order = [score.name for score in scores]
    single = json.dumps({k: v.to_json() for k, v in aggregate(scores).items()})

    mixed = scores.copy()
    shuffle.shuffle(mixed)
    divided = [mixed[i::parts] for i in range(parts)]
    stored = [[json.loads(json.dumps(score.to_json())) for score in share] for share in divided]
    restored = [[ImageScore.from_json(record) for record in share] for share in stored]
    merged = merge_scores(restored, order=order)
    assert merged == tuple(scores)
    assert json.dumps({k: v.to_json() for k, v in aggregate(merged).items()}) == single
    # the order in which images come does not matter either
    assert json.dumps({k: v.to_json() for k, v in aggregate(mixed).items()}) == single


def test_merging_is_associative_and_repeats_are_harmless():
    scores = [random_score(i) for i in range(9)]
    order = [score.name for score in scores]
    a, b, c = scores[6:], scores[:3], scores[3:6]
    left = merge_scores([merge_scores([a, b], order=order), c], order=order)
    right = merge_scores([a, merge_scores([b, c], order=order)], order=order)
    assert left == right == tuple(scores)
    assert merge_scores([left, a, b, c], order=order) == left
    assert merge_scores([a, b], order=order) == tuple(b + a)  # a run that is not finished
    assert merge_scores([], order=order) == ()


def test_pixel_mean_is_correctly_rounded():
    scores = [random_score(i, depth=True) for i in range(40)]
    result = aggregate(scores)["all"]
    for metric in ("AbsRel", "SqRel"):
        exact = sum(Fraction(score.regions["all"].sums[metric]) for score in scores)
        assert result.pixel_mean[metric] == float(exact) / result.pixels


def test_merge_refuses_strangers_and_contradictions():
    score = random_score(1)
    other = ImageScore(name=score.name, regions=random_score(2).regions)
    with pytest.raises(InputError, match="scene/0001, which is not in the dataset"):
        merge_scores([[score]], order=["scene/0002"])
    with pytest.raises(InputError, match="two different scores for scene/0001"):
        merge_scores([[score], [other]], order=[score.name])


def test_mixed_metrics_are_refused():
    with pytest.raises(InputError, match="same metrics"):
        aggregate([ImageScore("a", {"all": part(1, EPE=1.0)}), ImageScore("b", {"all": part(1, D1=1)})])


def test_asking_for_what_was_not_measured_is_refused():
    with pytest.raises(InputError, match="RMSE was not measured; measured are EPE, D1"):
        part(1, EPE=1.0, D1=1).value("RMSE")
    with pytest.raises(InputError, match="RMSE was not measured"):
        aggregate([ImageScore("a", {"all": part(1, EPE=1.0)})])["all"].mean("RMSE", "image")


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), depth=st.booleans())
def test_json_round_trip_is_exact(seed: int, depth: bool):
    score = random_score(seed, depth=depth)
    again = ImageScore.from_json(json.loads(json.dumps(score.to_json(), allow_nan=False)))
    assert again == score
    for region, sums in score.regions.items():
        for metric, total in sums.sums.items():
            assert type(again.regions[region].sums[metric]) is type(total)


GOOD = {"name": "a", "regions": {"all": {"pixels": 4, "non_finite": 1, "sums": {"EPE": 2.5, "D1": 3}}}}


def damaged(**changes: object) -> dict[str, object]:
    return {"name": "a", "regions": {"all": GOOD["regions"]["all"] | changes}}


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {},
        {"name": 3, "regions": {}},
        {"name": "a"},
        {"name": "a", "regions": 5},
        {"name": "a", "regions": {"somewhere": GOOD["regions"]["all"]}},
        {"name": "a", "regions": {"all": {"pixels": 4}}},
        damaged(pixels=-1),
        damaged(pixels=4.0),
        damaged(pixels=True),
        damaged(non_finite=5),
        damaged(sums=[]),
        damaged(sums={"EPE": "2.5"}),
        damaged(sums={"EPE": math.nan}),
        damaged(sums={"EPE": math.inf}),
        damaged(sums={"EPE": -1.0}),
        damaged(sums={"EPE": 2}),
        damaged(sums={"D1": 2.0}),
        damaged(sums={"D1": 5}),
        damaged(sums={"Nonsense": 1.0}),
    ],
)
def test_damaged_records_are_refused(record):
    assert ImageScore.from_json(GOOD).regions["all"].pixels == 4
    with pytest.raises(InputError, match="delete"):
        ImageScore.from_json(record)


def test_names_of_columns_and_units():
    assert [column_key(region, "EPE") for region in REGIONS] == ["EPE", "nonocc/EPE", "occ/EPE"]
    assert [metric for metric in ("EPE", "bad0.5", "D1", "A1", "RMSE") if is_percentage(metric)] == [
        "bad0.5",
        "D1",
    ]
