"""The protocols: complete, told in words, and applied to samples as they say."""

import dataclasses

import numpy as np
import pytest

from linstereo.data.datasets.catalogue import dataset_names, open_dataset
from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.evaluation.metrics import DEPTH_METRICS, DISPARITY_METRICS, DepthRange, bad_threshold
from linstereo.evaluation.protocol import (
    describe,
    describe_metric,
    get_protocol,
    protocol_names,
    score_sample,
)
from linstereo.evaluation.scores import PART_REGIONS, REGIONS, aggregate
from linstereo.geometry.calibration import StereoCalibration

CALIBRATION = StereoCalibration(focal=320.0, baseline=0.25, cx=320.0, cy=240.0)
SIZE = (4, 6)


def sample(*, disparity: float = 8.0, **changes: object) -> StereoSample:
    fields = {
        "name": "scene/0001",
        "left": np.zeros((*SIZE, 3), np.uint8),
        "right": np.zeros((*SIZE, 3), np.uint8),
        "disparity": np.full(SIZE, disparity, np.float32),
        "valid": np.ones(SIZE, bool),
        "calibration": CALIBRATION,
    }
    return StereoSample(**(fields | changes))


def test_every_dataset_has_a_protocol_and_every_protocol_is_consistent():
    protocols = [get_protocol(name) for name in protocol_names()]
    assert {protocol.dataset for protocol in protocols} == set(dataset_names())
    assert set(protocol_names()) >= set(dataset_names())
    for protocol in protocols:
        known = DEPTH_METRICS if protocol.domain == "depth" else DISPARITY_METRICS
        assert set(protocol.metrics) <= set(known), protocol.name
        assert set(protocol.pixel_averaged) <= set(protocol.metrics), protocol.name
        assert set(protocol.regions) <= {*REGIONS, *PART_REGIONS}
        assert protocol.regions[0] == "all"
        assert (protocol.depth_range is not None) == (protocol.domain == "depth"), protocol.name
        assert protocol.max_disparity is None or protocol.domain == "disparity"
    assert len({protocol.title for protocol in protocols}) == len(protocols)


def test_the_rules_of_the_paper():
    assert get_protocol("sceneflow").max_disparity == 192
    assert get_protocol("tartanair-uw").depth_range == DepthRange(0.1, 50.0)
    assert get_protocol("tank").depth_range == DepthRange(0.1, 2.0)
    assert get_protocol("middlebury").split == "trainingH"
    assert get_protocol("middlebury").regions == ("all", "nonocc", "occ")
    kitti = get_protocol("kitti2015")
    assert [kitti.average_of(metric) for metric in kitti.metrics] == ["image", "pixel", "pixel"]
    assert {get_protocol("eth3d").average_of(metric) for metric in ("EPE", "bad1")} == {"image"}


@pytest.mark.parametrize("name", protocol_names())
def test_description_says_everything(name):
    protocol = get_protocol(name)
    text = describe(protocol)
    assert protocol.title in text
    assert protocol.truth in text
    assert protocol.resolution in text
    assert protocol.split is None or f"split {protocol.split}" in text
    for metric in protocol.metrics:
        assert f"{metric}, {describe_metric(metric)}" in text
        threshold = bad_threshold(metric)
        assert threshold is None or f"more than {threshold:g} px" in text
    averages = {protocol.average_of(metric) for metric in protocol.metrics}
    assert ("mean over images" in text) == ("image" in averages)
    assert ("pixels of all images" in text) == ("pixel" in averages)
    if protocol.depth_range is not None:
        assert f"between {protocol.depth_range.minimum:g} and {protocol.depth_range.maximum:g} m" in text
        assert "both ends excluded" in text
        assert "clamped" in text
    if protocol.max_disparity is not None:
        assert f"below {protocol.max_disparity:g} px" in text
    assert "nothing is resized" in text
    assert "NaN" in text
    for region in protocol.regions:
        assert f"{region}, " in text


@pytest.mark.parametrize("name", protocol_names())
def test_the_dataset_knows_the_split(name, tmp_path):
    protocol = get_protocol(name)
    with pytest.raises(InputError) as told:  # nothing is there, but dataset and split are known
        open_dataset(protocol.dataset, tmp_path, protocol.split)
    assert str(tmp_path) in str(told.value)


def test_unknown_benchmark_lists_the_known_ones():
    with pytest.raises(InputError, match=r"no benchmark 'kitti'; choose among sceneflow, .*kitti2015.*folder"):
        get_protocol("kitti")


def test_disparity_sample_is_scored_by_the_rules():
    prediction = np.full(SIZE, 11.5, np.float32)
    score = score_sample(get_protocol("kitti2015"), sample(), prediction)
    assert score.name == "scene/0001"
    assert set(score.regions) == {"all"}
    values = score.regions["all"].values()
    assert set(values) == set(DISPARITY_METRICS)
    assert (values["EPE"], values["bad3"], values["D1"]) == (3.5, 100.0, 100.0)


def test_disparity_limit_is_applied():
    far = sample(disparity=192.0)
    prediction = np.zeros(SIZE, np.float32)
    assert score_sample(get_protocol("sceneflow"), far, prediction).regions["all"].pixels == 0
    assert score_sample(get_protocol("kitti2015"), far, prediction).regions["all"].pixels == 24


def test_occlusion_labels_make_three_regions():
    occluded = np.zeros(SIZE, bool)
    occluded[:, 0] = True
    score = score_sample(get_protocol("middlebury"), sample(occluded=occluded), np.full(SIZE, 8.0, np.float32))
    assert {region: part.pixels for region, part in score.regions.items()} == {
        "all": 24,
        "nonocc": 20,
        "occ": 4,
    }


def test_depth_sample_is_scored_by_the_rules():
    depth = np.full(SIZE, 10.0, np.float32)
    depth[0, 0] = 60.0  # out of range
    protocol = get_protocol("tartanair-uw")
    score = score_sample(protocol, sample(depth=depth), np.full(SIZE, 4.0, np.float32))  # 20 m
    result = aggregate([score], regions=protocol.regions)["all"]
    assert result.pixels == 23
    assert result.mean("RMSE", "image") == 10.0
    assert result.mean("AbsRel", protocol.average_of("AbsRel")) == 1.0
    tank = score_sample(get_protocol("tank"), sample(depth=np.full(SIZE, 1.0, np.float32)), depth * 0)
    assert tank.regions["all"].value("RMSE") == 1.0  # no disparity: the far end, 2 m


def test_depth_follows_from_disparity_where_only_that_is_known():
    score = score_sample(get_protocol("folder-depth"), sample(disparity=8.0), np.full(SIZE, 8.0, np.float32))
    assert score.regions["all"].value("RMSE") == 0.0
    assert score.regions["all"].value("A1") == 1.0


def test_sample_without_truth_or_calibration_is_refused():
    prediction = np.full(SIZE, 8.0, np.float32)
    blind = dataclasses.replace(sample(), disparity=None, valid=None)
    with pytest.raises(InputError, match=r"scene/0001 has no ground truth, which KITTI 2015 needs"):
        score_sample(get_protocol("kitti2015"), blind, prediction)
    with pytest.raises(InputError, match="scene/0001 has no calibration"):
        score_sample(get_protocol("squid"), sample(calibration=None), prediction)


def test_prediction_of_another_size_is_refused():
    with pytest.raises(InputError, match=r"scene/0001 has the shape \(2, 3\)"):
        score_sample(get_protocol("eth3d"), sample(), np.ones((2, 3), np.float32))
