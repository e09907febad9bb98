"""Cached features: the same numbers as computed ones, computed once."""

import pytest
import torch
from tests.model.tiny import TinyBackbone
from tests.training.tiny import final_weights, run_training, tiny_recipe, write_folder

from linstereo.errors import InputError
from linstereo.training.feature_cache import CachedBackbone, FeatureCache
from linstereo.training.metrics_log import read_metrics


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data") / "pairs", count=4)


def figures(run):
    entries = read_metrics(run / "metrics.jsonl")
    return [[value for name, value in entry.items() if name not in ("seconds_per_step",)] for entry in entries]


@pytest.mark.parametrize("objective", ["sequence", "matching"])
def test_a_run_with_the_cache_is_the_run_without_it(folder, tmp_path, objective):
    recipe = tiny_recipe(folder, objective=objective, steps=5, batch=4, variants=2)
    run_training(recipe, tmp_path / "plain")
    backbones = [TinyBackbone(), TinyBackbone()]
    for i, backbone in enumerate(backbones):
        run_training(recipe, tmp_path / f"cached{i}", cache=tmp_path / "cache", backbone=backbone)
    # 4 pairs in 2 variants, each computed on its own, then never again
    assert [shape[0] for shape, _ in backbones[0].calls] == [2] * 8
    assert backbones[1].calls == []
    for one, two in zip(figures(tmp_path / "plain"), figures(tmp_path / "cached0"), strict=True):
        assert one[:3] == two[:3]
        assert one[3:] == pytest.approx(two[3:], rel=2e-4)
    assert figures(tmp_path / "cached0") == figures(tmp_path / "cached1")
    weights = final_weights(tmp_path / "cached1")
    assert all(torch.equal(weights[name], tensor) for name, tensor in final_weights(tmp_path / "cached0").items())


def test_features_and_depth_come_back_in_order(tmp_path):
    backbone = TinyBackbone(depth=torch.rand(1, 1, 4, 6) + 0.5)
    images = torch.rand(6, 3, 32, 64)
    expected = backbone(images, depth_images=3)
    cached = CachedBackbone(FeatureCache(tmp_path, backbone), ["aa0", "bb1", "cc2"])
    for _ in range(2):
        found = cached(images, depth_images=3)
        for one, two in zip(expected.pyramid, found.pyramid, strict=True):
            torch.testing.assert_close(one, two)
        assert torch.equal(expected.depth, found.depth)
    assert len(backbone.calls) == 1 + 3  # each pair once
    assert cached(images).depth is None
    assert (cached.channels, cached.has_depth) == (backbone.channels, True)


def test_other_weights_never_meet_old_features(tmp_path):
    backbone = TinyBackbone()
    images = torch.rand(2, 3, 32, 64)
    before = CachedBackbone(FeatureCache(tmp_path, backbone), ["aa0"])(images).pyramid[0]
    backbone.filters0.mul_(2)
    after = CachedBackbone(FeatureCache(tmp_path, backbone), ["aa0"])(images).pyramid[0]
    torch.testing.assert_close(after, 2 * before)


def test_it_must_pay(folder, tmp_path):
    with pytest.raises(InputError, match="variants"):
        run_training(tiny_recipe(folder), tmp_path, cache=tmp_path / "cache")


def test_a_trained_backbone_is_not_cached(folder, tmp_path):
    class Trained(TinyBackbone):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

    with pytest.raises(InputError, match="only be cached where the backbone is frozen"):
        run_training(tiny_recipe(folder, steps=1), tmp_path / "run", cache=tmp_path / "cache", backbone=Trained())
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_used(folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write into the folder .*file/cache"):
        run_training(tiny_recipe(folder, variants=1), tmp_path / "run", cache=tmp_path / "file" / "cache")
