"""Half precision: every family of presets predicts and learns in it, and what must not be rounded is not."""

import copy
import dataclasses
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import linstereo
from linstereo import StereoPredictor
from linstereo.data.formats.images import read_image
from linstereo.geometry.sparse_matches import match_sparse
from linstereo.model import pala
from linstereo.model.backbone import DepthAnything3, build_da3
from linstereo.model.cost_volume import build_volume
from linstereo.model.linstereo import LinStereo
from linstereo.model.pala import PALA, linear_attention, rotary_table, rotate
from linstereo.model.precision import at_least_float32, without_autocast, without_autocast_cache
from linstereo.model.presets import build, preset
from linstereo.model.upsample import convex_upsample
from linstereo.training.loss import sequence_loss
from linstereo.training.matching_loss import matching_loss
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs

FAMILIES = ["small", "components-none", "components-hscv-dpi", "compact"]
HALVES = [torch.bfloat16, torch.float16]


@lru_cache(maxsize=3)
def frozen(variant: str, dtype: torch.dtype) -> DepthAnything3:
    """A backbone of the full size; building one takes longer than running it on a tiny pair."""
    torch.manual_seed(0)
    return build_da3(variant).to(dtype)


@pytest.fixture(scope="module", autouse=True)
def _free_memory() -> Iterator[None]:
    yield
    frozen.cache_clear()


def network(name: str, dtype: torch.dtype = torch.float32) -> LinStereo:
    config = preset(name)
    backbone = None if config.backbone == "compact" else frozen(config.backbone, dtype)
    torch.manual_seed(1)
    return build(config, backbone=backbone).to(dtype)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_predicts_in_half_precision(name: str, dtype: torch.dtype) -> None:
    left, right, _ = synthetic_pairs(1, height=32, width=64)
    left, right = ((255 * image).round() / 255 for image in (left, right))
    arrays = [(255 * image[0]).round().to(torch.uint8).permute(1, 2, 0).numpy() for image in (left, right)]
    matches = [match_sparse(*arrays)]  # for those with DPI, the same in all precisions
    full, pure = network(name).eval(), network(name, dtype).eval()
    with torch.no_grad():
        expected = full(left, right, iters=2, matches=matches)
        with torch.autocast("cpu", dtype):
            found = {"autocast": full(left, right, iters=2, matches=matches)}
        found["half weights"] = pure(left, right, iters=2, matches=matches)
        found["half images"] = pure(left.to(dtype), right.to(dtype), iters=2, matches=matches)
    for way, disparity in found.items():
        assert disparity.dtype == torch.float32, way
        assert disparity.isfinite().all(), way
        assert (disparity - expected).abs().median() < 0.02 * (1 + expected.abs().max()), way


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_learns_with_half_precision_weights(name: str, dtype: torch.dtype) -> None:
    """With autocast off, nothing is cast but by the network itself; `training/test_precision.py` has autocast on."""
    left, right, target = synthetic_pairs(1, height=32, width=64)
    model = network(name, dtype)
    before = {n: p.detach().clone() for n, p in model.trained_parameters().items()}
    optimizer = torch.optim.SGD(model.trained_parameters().values(), lr=0.1)
    predictions = model(left, right, iters=2, all_iterations=True)
    loss = sequence_loss(predictions, target, target > 0, left).total
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.trained_parameters().values())
    optimizer.step()
    assert any(not torch.equal(p, before[n]) for n, p in model.trained_parameters().items())


@pytest.mark.parametrize("volume", ["stored", "on_the_fly"])
@pytest.mark.parametrize("update", ["pala", "convgru"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_norms_in_float32_as_under_autocast_on_cuda(dtype: torch.dtype, update: str, volume: str) -> None:
    """Autocast on CUDA gives the results of LayerNorm in float32, on the CPU in half precision."""
    left, right, target = synthetic_pairs(1)
    model = build(dataclasses.replace(TINY, update=update), backbone=TinyBackbone())
    for module in model.modules():
        if isinstance(module, nn.LayerNorm | nn.InstanceNorm2d):
            module.register_forward_hook(lambda module, inputs, out: out.float())
    with torch.autocast("cpu", dtype):
        predictions = model(left, right, iters=2, all_iterations=True, volume=volume)
        loss = sequence_loss(predictions, target, target > 0, left).total
    loss.backward()
    assert all(prediction.dtype == torch.float32 and prediction.isfinite().all() for prediction in predictions)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.trained_parameters().values())


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_disparities_and_tables_stay_in_float32(dtype: torch.dtype) -> None:
    left, right, _ = synthetic_pairs(1, height=64, width=96)
    model = network("compact", dtype).eval()
    with torch.no_grad():
        evidence = model.prepare(left, right)
        state = next(model.iterate(evidence, 1))
    assert evidence.disparity.dtype == state.disparity.dtype == torch.float32
    assert {table.dtype for table in evidence.tables} == {torch.float32}
    assert {hidden.dtype for hidden in state.hidden} == {dtype}
    rounded = evidence.disparity.to(dtype).float()
    assert not torch.equal(evidence.disparity, rounded)  # the start is more precise than the features are


@pytest.mark.parametrize("kind", ["stored", "on_the_fly"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_lookup_positions_are_not_rounded(dtype: torch.dtype, kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(2, 1, 16, 2, 700, generator=generator).to(dtype)
    disparity = torch.full((1, 1, 2, 700), 300.3)  # bfloat16 knows 300 and 302 there, float16 300.25
    got = build_volume(left, right, levels=3, radius=2, kind=kind).lookup(disparity)
    expected = build_volume(left.double(), right.double(), levels=3, radius=2, kind=kind).lookup(disparity.double())
    assert got.dtype == torch.float32
    error = (got - expected).abs().max()
    shifted = build_volume(left.double(), right.double(), levels=3, radius=2, kind=kind).lookup(
        disparity.to(dtype).double()
    )
    assert error < 0.05
    assert (shifted - expected).abs().max() > 2 * error


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_lookup_far_outside_of_the_image_is_zero_even_from_half_precision(dtype: torch.dtype) -> None:
    left, right = torch.ones(2, 1, 8, 2, 16).to(dtype)
    volume = build_volume(left, right, levels=2, radius=2)
    far = torch.full((1, 1, 2, 16), torch.finfo(dtype).max, dtype=dtype)
    assert torch.equal(volume.lookup(far), torch.zeros(1, 10, 2, 16))


def turned_by_complex_numbers(x: Tensor, height: int, width: int, base: float = 10000.0) -> Tensor:
    """RoPE as a product of complex numbers in float64; the twin of `rotate`. x: [B, N, heads, head_dim]."""
    pairs = x.shape[-1] // 4
    frequency = base ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    angle = torch.cat([row.reshape(-1, 1) * frequency, column.reshape(-1, 1) * frequency], dim=-1)  # [N, 2 pairs]
    numbers = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(numbers * torch.polar(torch.ones_like(angle), angle)[:, None]).flatten(-2)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-6)], ids=str)
def test_rotation_by_real_numbers_is_that_by_complex_ones(dtype: torch.dtype, tolerance: float) -> None:
    x = torch.randn(2, 9 * 130, 3, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    table = rotary_table(9, 130, 12, dtype=dtype)
    assert table.shape == (2, 9 * 130, 1, 12)
    assert not table.is_complex()
    expected = turned_by_complex_numbers(x, 9, 130)
    assert (rotate(x, table) - expected).abs().max() <= tolerance * expected.abs().max()


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("rope", [False, True])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_attention_over_many_positions_neither_overflows_nor_loses_digits(
    dtype: torch.dtype, rope: bool, autocast: bool
) -> None:
    height, width = 80, 160  # of a crop of 320 x 640 px, at 1/4
    generator = torch.Generator().manual_seed(0)
    query, key, value = (10 + torch.rand(3, 1, height * width, 1, 8, generator=generator)).to(dtype)
    assert (key.float() * value.float()).sum(dim=1).max() > torch.finfo(torch.float16).max
    table = rotary_table(height, width, 8) if rope else None
    with torch.autocast("cpu", dtype, enabled=autocast):
        got = linear_attention(query, key, value, table)
    precise = rotary_table(height, width, 8, dtype=torch.float64) if rope else None
    expected = linear_attention(query.double(), key.double(), value.double(), precise)
    assert got.dtype == torch.float32
    assert (got - expected).abs().max() < 1e-4 * expected.abs().max()


def test_no_sum_over_positions_grows_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should sums be in float16 after all, as an exported network may have them, they still do not overflow."""
    monkeypatch.setattr(pala, "at_least_float32", lambda x: x)
    query, key, value = torch.full((3, 1, 200_000, 1, 4), 8.0, dtype=torch.float16)
    assert linear_attention(query, key, value, None).isfinite().all()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("local", [False, True])
def test_attention_in_half_precision_keeps_the_type_of_its_features(dtype: torch.dtype, local: bool) -> None:
    attention = PALA(16, 2, local_encoding=local).to(dtype)
    x = torch.rand(1, 4, 6, 16, dtype=dtype)
    assert attention(x, rotary_table(4, 6, 8)).dtype == dtype


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_upsampling_from_half_precision_scores_keeps_a_constant_disparity(dtype: torch.dtype) -> None:
    scores = torch.randn(1, 9 * 16, 4, 6, generator=torch.Generator().manual_seed(0)).to(dtype)
    full = convex_upsample(torch.full((1, 1, 4, 6), 50.1), scores, factor=4)
    assert (full - 200.4).abs().max() < 1e-4


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_the_matching_loss_is_in_float32(dtype: torch.dtype) -> None:
    left, right, disparity = synthetic_pairs(1, height=32, width=64)
    model = network("compact")
    with torch.autocast("cpu", dtype):
        volumes = model.cost_volumes(model.backbone(torch.cat([left, right])).pyramid)
        total = matching_loss(volumes, disparity, disparity > 0)["total"]
    total.backward()
    assert total.dtype == torch.float32
    with torch.no_grad():
        volumes = model.cost_volumes(model.backbone(torch.cat([left, right])).pyramid)
        expected = matching_loss(volumes, disparity, disparity > 0)["total"]
    assert total.item() == pytest.approx(expected.item(), rel=0.02)


def test_only_half_precision_is_raised() -> None:
    for given, wanted in [(torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float64,) * 2]:
        assert at_least_float32(torch.zeros(1, dtype=given)).dtype == wanted
    x = torch.zeros(1)
    assert at_least_float32(x) is x


def test_autocast_and_its_cache_can_be_left_for_a_while() -> None:
    x = torch.ones(2, 2)
    with torch.autocast("cpu", torch.float16):
        with without_autocast("cpu"):
            assert (x @ x).dtype == torch.float32
        with without_autocast_cache("cpu"):
            assert (x @ x).dtype == torch.float16
            assert not torch.is_autocast_cache_enabled()
        assert torch.is_autocast_cache_enabled()
        assert (x @ x).dtype == torch.float16
    with without_autocast("cpu"), without_autocast_cache("cpu"):
        assert (x @ x).dtype == torch.float32


def test_the_bundled_model_in_bfloat16_is_as_good_as_in_float32_on_a_real_pair(stereo_data: Path) -> None:
    """Rounded under autocast, or with rounded weights; more pairs in docs/model_card.md."""
    exact = linstereo.load(device="cpu")
    predictors = {
        "exact": exact,
        "autocast": StereoPredictor(exact.model, device="cpu", precision="bfloat16"),
        "rounded weights": StereoPredictor(copy.deepcopy(exact.model).to(torch.bfloat16), device="cpu"),
    }
    folder = stereo_data / "middlebury_2001_2003" / "tsukuba"
    left, right, truth = (read_image(folder / f"{name}.png")[64:224] for name in ("im2", "im6", "disp2"))
    truth = truth[..., 0] / 16
    errors = {}
    for name, predictor in predictors.items():
        found = predictor.predict(left, right, scale=1.0, iters=2).disparity
        errors[name] = np.abs(found - truth)[truth > 0].mean()
    assert errors["exact"] < 0.5
    assert len(set(errors.values())) == len(errors)  # both were really rounded
    assert errors["autocast"] == pytest.approx(errors["exact"], rel=0.01)
    assert errors["rounded weights"] == pytest.approx(errors["exact"], rel=0.01)
