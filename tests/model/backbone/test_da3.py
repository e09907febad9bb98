"""The backbone as the stereo network uses it: scales, depth on request, frozen, any precision."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from linstereo.checkpoints.da3_weights import official_key
from linstereo.errors import InputError
from linstereo.model.backbone import Backbone, BackboneFeatures
from linstereo.model.backbone.da3 import VIT_B, VIT_S, DA3Config, DepthAnything3, build_da3

FACTS = Path(__file__).resolve().parents[4] / "shared" / "facts"
MEAN = torch.tensor([0.485, 0.456, 0.406], dtype=torch.float64).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225], dtype=torch.float64).view(3, 1, 1)


def images(batch: int, height: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(height * width)
    return torch.rand(batch, 3, height, width, generator=generator, dtype=torch.float64)


def meta(config: DA3Config) -> DepthAnything3:
    """The network with all its shapes and no memory behind them."""
    with torch.device("meta"):
        return DepthAnything3(config)


@pytest.mark.parametrize(("config", "parameters"), [(VIT_S, 24_991_714), (VIT_B, 98_287_458)])
def test_parameters_and_keys_are_those_of_the_official_networks(config: DA3Config, parameters: int) -> None:
    backbone = meta(config)
    assert sum(parameter.numel() for parameter in backbone.parameters()) == parameters
    assert len(backbone.state_dict()) == 269
    assert set(backbone.state_dict()) == {name for name, _ in backbone.named_parameters()}


@pytest.mark.parametrize(("config", "file"), [(VIT_S, "da3_small_keys.tsv"), (VIT_B, "da3_base_keys.tsv")])
def test_keys_and_shapes_are_those_listed_from_the_official_code(config: DA3Config, file: str) -> None:
    if not (FACTS / file).is_file():
        pytest.skip("the key lists (../shared/facts beside the project) are not here")
    header, *lines = (FACTS / file).read_text().splitlines()
    rows = [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]
    listed = {row["module_key"]: row["shape"] for row in rows if row["needed_by_linstereo"] == "1"}
    ours = {official_key(key): str(tuple(tensor.shape)) for key, tensor in meta(config).state_dict().items()}
    assert ours == listed


@pytest.mark.parametrize(("variant", "channels"), [("vits", (48, 96, 192)), ("vitb", (96, 192, 384))])
def test_variants_have_their_channels(variant: str, channels: tuple[int, int, int]) -> None:
    backbone = meta({"vits": VIT_S, "vitb": VIT_B}[variant])
    assert backbone.channels == channels
    features = backbone(torch.empty(2, 3, 480, 640, device="meta"), depth_images=1)
    assert [level.shape for level in features.pyramid] == [
        (2, channels[0], 120, 160),
        (2, channels[1], 60, 80),
        (2, channels[2], 30, 40),
    ]
    assert features.depth is not None
    assert features.depth.shape == (1, 1, 420, 560)


def test_small_variant_is_built_by_name_and_gives_finite_results() -> None:
    backbone: Backbone = build_da3("vits")
    assert backbone.has_depth
    features = backbone(torch.rand(1, 3, 64, 96), depth_images=1)
    assert isinstance(features, BackboneFeatures)
    assert all(level.isfinite().all() for level in features.pyramid)
    assert features.depth is not None
    assert (features.depth > 0).all()
    assert features.depth.isfinite().all()


def test_unknown_variant_is_refused() -> None:
    with pytest.raises(InputError, match=r"vitl.*vits, vitb"):
        build_da3("vitl")  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(16, 16), (32, 32), (64, 96), (96, 64), (32, 160), (112, 80)], ids=str)
def test_features_land_exactly_on_a_quarter_an_eighth_and_a_sixteenth(
    tiny: DepthAnything3, size: tuple[int, int]
) -> None:
    height, width = size
    features = tiny(images(1, height, width), depth_images=1)
    for level, channels, stride in zip(features.pyramid, tiny.channels, (4, 8, 16), strict=True):
        assert level.shape == (1, channels, height // stride, width // stride)
        assert level.is_contiguous()
    assert features.depth is not None
    assert features.depth.shape == (1, 1, height * 14 // 16, width * 14 // 16)


def triangle_filter(length: int) -> Tensor:
    """`[14/16 length, length]`: rows of weights that fall linearly to 0 at 8/7 pixels from the sample's centre."""
    scale = 16 / 14
    samples = (torch.arange(length * 14 // 16, dtype=torch.float64) + 0.5) * scale
    pixels = torch.arange(length, dtype=torch.float64) + 0.5
    weights = (1 - (samples[:, None] - pixels[None]).abs() / scale).clamp(min=0)
    return weights / weights.sum(dim=1, keepdim=True)


def test_images_are_shrunk_by_an_antialiased_filter_and_normalised(tiny: DepthAnything3) -> None:
    tiny.double()
    batch = images(2, 64, 96)
    shrunk = triangle_filter(64) @ batch @ triangle_filter(96).T  # [2, 3, 56, 84]
    expected = tiny.native((shrunk - tiny.mean) / tiny.std, depth_images=2)
    features = tiny(batch, depth_images=2)
    for ours, theirs in zip(features.pyramid, expected.stages[:3], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)
    torch.testing.assert_close(features.depth, expected.depth, rtol=1e-11, atol=0)


def test_pixel_statistics_are_imagenet_s_and_not_part_of_the_checkpoint(tiny: DepthAnything3) -> None:
    torch.testing.assert_close(tiny.mean.double(), MEAN, rtol=1e-6, atol=0)
    torch.testing.assert_close(tiny.std.double(), STD, rtol=1e-6, atol=0)
    assert not {"mean", "std"} & set(tiny.state_dict())


def test_a_batch_gives_what_its_images_give_alone(tiny: DepthAnything3) -> None:
    tiny.double()
    batch = images(3, 64, 96)
    together = tiny(batch, depth_images=3)
    for index in range(3):
        alone = tiny(batch[index : index + 1], depth_images=1)
        for all_levels, level in zip(together.pyramid, alone.pyramid, strict=True):
            torch.testing.assert_close(all_levels[index : index + 1], level, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(together.depth[index : index + 1], alone.depth, rtol=1e-11, atol=0)
    assert not torch.allclose(together.pyramid[2][0], together.pyramid[2][1], atol=1e-3)


def test_depth_is_given_for_the_first_images_only_and_changes_no_feature(tiny: DepthAnything3) -> None:
    tiny.double()
    batch = images(3, 64, 96)
    everything = tiny(batch, depth_images=3)
    for count in range(4):
        features = tiny(batch, depth_images=count)
        for ours, theirs in zip(features.pyramid, everything.pyramid, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
        if count == 0:
            assert features.depth is None
        else:
            assert features.depth.shape == (count, 1, 56, 84)
            torch.testing.assert_close(features.depth, everything.depth[:count], rtol=1e-11, atol=0)


def count_images(module: nn.Module, seen: list[int]) -> None:
    module.register_forward_pre_hook(lambda _module, args: seen.append(len(args[0])))


@pytest.mark.parametrize("depth_images", [0, 1, 2])
def test_what_serves_depth_alone_runs_only_where_depth_is_wanted(tiny: DepthAnything3, depth_images: int) -> None:
    always: list[int] = []
    for_depth: list[int] = []
    count_images(tiny.vit.blocks[9], always)
    for module in (tiny.vit.blocks[10], tiny.head.projects[3], tiny.head.scratch.layer1_rn):
        count_images(module, for_depth)
    tiny(images(2, 32, 32), depth_images=depth_images)
    assert always == [2]
    assert for_depth == ([depth_images] * 3 if depth_images else [])


def test_it_is_frozen_and_stays_in_eval_mode(tiny: DepthAnything3) -> None:
    model = nn.Sequential(nn.Linear(2, 2), tiny).train()
    assert model.training
    assert model[0].training
    assert not any(module.training for module in tiny.modules())
    assert not any(parameter.requires_grad for parameter in tiny.parameters())


def test_features_carry_no_gradient_but_can_be_learned_from(tiny: DepthAnything3) -> None:
    tiny.double()
    batch = images(1, 32, 32).requires_grad_()
    with torch.inference_mode():
        tiny(batch, depth_images=1)  # leaves tables behind that must not get in the way of training
    features = tiny(batch, depth_images=1)
    assert not any(level.requires_grad for level in (*features.pyramid, features.depth))
    head = nn.Conv2d(tiny.channels[0], 1, 1).double()
    head(features.pyramid[0]).sum().backward()
    assert head.weight.grad is not None
    assert head.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("shape", "dtype", "depth_images", "words"),
    [
        ((1, 3, 60, 64), torch.float32, 0, "multiples of 16, but got 60x64"),
        ((1, 3, 64, 72), torch.float32, 0, "multiples of 16, but got 64x72"),
        ((1, 3, 0, 16), torch.float32, 0, "multiples of 16, but got 0x16"),
        ((1, 4, 64, 64), torch.float32, 0, r"shape \(1, 4, 64, 64\)"),
        ((3, 64, 64), torch.float32, 0, r"shape \(3, 64, 64\)"),
        ((1, 3, 64, 64), torch.uint8, 0, "torch.uint8"),
        ((2, 3, 64, 64), torch.float32, 3, "3 images of a batch of 2"),
        ((2, 3, 64, 64), torch.float32, -1, "-1 images of a batch of 2"),
    ],
)
def test_bad_images_are_refused(
    tiny: DepthAnything3, shape: tuple[int, ...], dtype: torch.dtype, depth_images: int, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        tiny(torch.zeros(shape, dtype=dtype), depth_images=depth_images)


def test_native_input_must_fit_the_patches(tiny: DepthAnything3) -> None:
    with pytest.raises(InputError, match="multiples of 14, but got 64x64"):
        tiny.native(torch.zeros(1, 3, 64, 64))


CHANGES: dict[str, Callable[[DepthAnything3, DepthAnything3], object]] = {
    "loaded": lambda net, other: net.load_state_dict(other.state_dict()),
    "assigned": lambda net, other: net.load_state_dict(copy.deepcopy(other).state_dict(), assign=True),
    "edited": lambda net, other: [a.copy_(b) for a, b in zip(net.parameters(), other.parameters(), strict=True)],
    "swapped": lambda net, other: [
        setattr(a, "data", b.data.clone()) for a, b in zip(net.parameters(), other.parameters(), strict=True)
    ],
}


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_remembered_outlives_the_weights(tiny: DepthAnything3, other_tiny: DepthAnything3, change: str) -> None:
    batch = images(1, 32, 64)
    before = tiny(batch).pyramid[0]
    expected = other_tiny(batch).pyramid[0]
    CHANGES[change](tiny, other_tiny)
    after = tiny(batch).pyramid[0]
    torch.testing.assert_close(after, expected, rtol=0, atol=0)
    assert not torch.allclose(after, before, atol=1e-2)


def test_sizes_and_precisions_do_not_get_mixed_up(tiny: DepthAnything3) -> None:
    fresh = copy.deepcopy(tiny).double()
    wide, tall = images(1, 32, 64), images(1, 64, 32)
    tiny(wide, depth_images=1)
    tiny(tall, depth_images=1)
    tiny.double()
    features, expected = tiny(wide, depth_images=1), fresh(wide, depth_images=1)
    assert features.depth.dtype == torch.float64
    for ours, theirs in zip((*features.pyramid, features.depth), (*expected.pyramid, expected.depth), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_half_precision_stays_close(tiny: DepthAnything3) -> None:
    batch = images(2, 64, 96).float()
    exact = tiny(batch, depth_images=1)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = tiny(batch, depth_images=1)
    rounded = copy.deepcopy(tiny).bfloat16()(batch, depth_images=1)
    assert exact.depth is not None
    assert mixed.depth is not None
    assert rounded.depth is not None
    assert mixed.depth.dtype == mixed.pyramid[0].dtype == torch.float32  # the head is kept out of autocast
    assert rounded.depth.dtype == torch.bfloat16
    for level, reference in zip((*mixed.pyramid, mixed.depth), (*exact.pyramid, exact.depth), strict=True):
        assert 0 < (level - reference).norm() < 0.05 * reference.norm()
    for level, reference in zip((*rounded.pyramid, rounded.depth), (*exact.pyramid, exact.depth), strict=True):
        assert (level - reference).norm() < 0.1 * reference.norm()
