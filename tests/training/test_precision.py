"""Training steps in half precision under autocast, as `linstereo train` takes them on a GPU."""

import dataclasses
import random

import pytest
import torch
from tests.model.test_precision import FAMILIES, network
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs

from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import build
from linstereo.processes import Worker
from linstereo.training.batches import Batch
from linstereo.training.feature_cache import CachedBackbone, FeatureCache, image_key
from linstereo.training.recipe import Stage
from linstereo.training.stage_run import StageRun, _pick_precision


def tiny_batch(height: int = 32, width: int = 64) -> Batch:
    left, right, disparity = synthetic_pairs(1, height=height, width=width)
    left, right = ((image * 255).round().to(torch.uint8) for image in (left, right))
    return Batch(
        left=left,
        right=right,
        disparity=disparity,
        valid=disparity > 0,
        occluded=torch.zeros_like(disparity, dtype=torch.bool),
        names=("pair",),
        keys=(image_key(left.numpy(), right.numpy()),),
        matches=None,
        skipped=(),
    )


def stage_run(model: LinStereo, stage: Stage) -> StageRun:
    """A stage that, in float16, has already found a loss scale without overflow."""
    run = StageRun(model, stage, trainable=frozenset(model.trained_parameters()), worker=Worker())
    run.scaler = torch.amp.GradScaler("cpu", init_scale=16.0, enabled=run.scaler.is_enabled())
    return run


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_learns_under_autocast(name: str, precision: str) -> None:
    model = network(name)
    before = {n: p.detach().clone() for n, p in model.trained_parameters().items()}
    run = stage_run(model, Stage(precision=precision, iterations=2, crop=(32, 64), matching_weight=0.1))
    result = run.step([tiny_batch()], rate=1e-3, seed=0)
    assert all(torch.tensor(value).isfinite() for value in result.figures.values()), result.figures
    after = model.trained_parameters()
    assert all(p.isfinite().all() for p in after.values())
    assert all(p.grad is not None for p in after.values())
    assert any(not torch.equal(p, before[n]) for n, p in after.items())


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_the_matching_objective_in_half_precision(precision: str) -> None:
    model = network("compact")
    run = stage_run(model, Stage(precision=precision, objective="matching", crop=(32, 64)))
    figures = run.step([tiny_batch()], rate=1e-3, seed=0).figures
    assert all(torch.tensor(value).isfinite() for value in figures.values()), figures


def test_the_loss_scale_falls_until_no_gradient_overflows() -> None:
    model = build(TINY, backbone=TinyBackbone())
    run = stage_run(model, Stage(precision="float16", iterations=2, crop=(32, 64)))
    run.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, backoff_factor=2.0**-12)
    norms = [run.step([tiny_batch()], rate=1e-3, seed=0).figures["gradient_norm"] for _ in range(6)]
    assert not torch.tensor(norms[0]).isfinite()
    assert torch.tensor(norms[-1]).isfinite()
    assert all(p.isfinite().all() for p in model.trained_parameters().values())


def test_iterations_without_a_gradient_leave_no_rounded_weights_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(TINY, backbone=TinyBackbone())
    monkeypatch.setattr(random.Random, "randint", lambda self, low, high: high)  # as many as there may be
    cached = []
    model.updater.register_forward_pre_hook(lambda *_: cached.append(torch.is_autocast_cache_enabled()))
    run = stage_run(model, Stage(precision="bfloat16", iterations=2, warm_iterations=2, crop=(32, 64)))
    run.step([tiny_batch()], rate=1e-3, seed=0)
    assert cached == [False, False, True, True]
    used = {n: p for n, p in model.trained_parameters().items() if not n.startswith("hidden_projection.")}
    assert all(p.grad is not None for p in used.values())


def test_auto_takes_bfloat16_only_where_the_gpu_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(precision="auto")
    assert _pick_precision(stage, torch.device("cpu")) == torch.float32
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert _pick_precision(stage, torch.device("cuda")) == torch.float16  # a GPU that only emulates it
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    assert _pick_precision(stage, torch.device("cuda")) == torch.bfloat16


def test_features_of_one_precision_are_not_served_in_another(tmp_path) -> None:
    model = build(dataclasses.replace(TINY, backbone="compact"))
    assert isinstance(model.backbone, torch.nn.Module)
    cache = FeatureCache(tmp_path, model.backbone.requires_grad_(False))
    batch = tiny_batch().to(torch.device("cpu"))
    pair = torch.cat([batch.left, batch.right])

    def features(half: bool) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            return CachedBackbone(cache, batch.keys)(pair).pyramid[0]

    rounded, exact = features(True), features(False)
    with torch.no_grad():  # as the cache
        assert torch.equal(exact, model.backbone(pair).pyramid[0])
    assert rounded.dtype == torch.bfloat16
    assert torch.equal(features(True), rounded)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 2
