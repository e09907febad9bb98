"""The small backbone that is trained with the network."""

import pytest
import torch

from linstereo.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from linstereo.errors import InputError
from linstereo.model.backbone import CompactBackbone
from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import LinStereoConfig, build, preset


def test_pyramid_has_the_strides_and_channels_it_announces():
    backbone = CompactBackbone()
    features = backbone(torch.rand(2, 3, 64, 96))
    assert features.depth is None
    for feature, channels, stride in zip(features.pyramid, backbone.channels, (4, 8, 16), strict=True):
        assert feature.shape == (2, channels, 64 // stride, 96 // stride)


@pytest.mark.parametrize("level", ["context", "fine"])
def test_a_further_level_changes_nothing_before_training(level):
    backbone, plain = with_and_without(level)
    image = torch.rand(1, 3, 64, 96)
    for a, b in zip(backbone(image).pyramid, plain(image).pyramid, strict=True):
        assert torch.equal(a, b)


def test_a_trained_level_at_32_reaches_every_scale():
    backbone, plain = with_and_without("context")
    torch.nn.init.normal_(backbone.context.out.weight)
    image = torch.rand(1, 3, 64, 96)
    for a, b in zip(backbone(image).pyramid, plain(image).pyramid, strict=True):
        assert (a - b).abs().mean() > 0.01


def test_further_convolutions_at_4_change_that_scale_alone():
    backbone, plain = with_and_without("fine")
    torch.nn.init.normal_(backbone.fine.out.weight)
    image = torch.rand(1, 3, 64, 96)
    changes = [(a - b).abs().mean() for a, b in zip(backbone(image).pyramid, plain(image).pyramid, strict=True)]
    assert changes[0] > 0.01
    assert changes[1:] == [0, 0]


def with_and_without(level):
    """A random backbone with a further level, and the same one without."""
    torch.manual_seed(2)
    backbone = CompactBackbone(**{level: 16}).eval()
    plain = CompactBackbone().eval()
    plain.load_state_dict({k: v for k, v in backbone.state_dict().items() if not k.startswith(f"{level}.")})
    return backbone, plain


def test_the_smallest_images_have_a_single_cell_at_32():
    torch.manual_seed(3)
    backbone = CompactBackbone(context=8)
    torch.nn.init.normal_(backbone.context.out.weight)
    image = torch.rand(1, 3, 32, 32)
    trainable = backbone(image)
    assert trainable.pyramid[2].requires_grad
    with torch.inference_mode():
        fast = backbone(image)
    for a, b in zip(trainable.pyramid, fast.pyramid, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("level", ["context", "fine"])
def test_only_the_compact_backbone_has_further_levels(level):
    with pytest.raises(InputError, match=f"{level} is 8; use 0 with the backbone 'vitb'"):
        LinStereoConfig(**{level: 8})


def test_exposure_and_contrast_hardly_change_the_features():
    torch.manual_seed(0)
    backbone = CompactBackbone()
    image = torch.rand(1, 3, 128, 192)
    bright = backbone(0.5 * image + 0.3)
    for a, b in zip(backbone(image).pyramid, bright.pyramid, strict=True):
        inner = (..., slice(2, -2), slice(2, -2))  # zero padding does change the border
        assert (a[inner] - b[inner]).abs().mean() < 0.15 * a[inner].abs().mean()


def test_asked_for_depth_it_says_it_has_none():
    with pytest.raises(ValueError, match="no monocular depth"):
        CompactBackbone()(torch.rand(1, 3, 32, 32), depth_images=1)
    with pytest.raises(InputError, match="no monocular depth"):
        build(preset("paper"), backbone=CompactBackbone())


def test_compact_network_is_small_and_wholly_trained():
    model = build(preset("compact"))
    assert 1e6 < sum(p.numel() for p in model.parameters()) < 3e6
    assert len(model.trained_parameters()) == len(list(model.parameters()))
    outputs = model(torch.rand(1, 3, 64, 96), torch.rand(1, 3, 64, 96), 2, all_iterations=True)
    sum(o.sum() for o in outputs).backward()
    without = [name for name, p in model.named_parameters() if p.grad is None]
    assert without == []


def test_checkpoint_carries_the_backbone(tmp_path):
    torch.manual_seed(1)
    model = build(preset("compact")).eval()
    model.save_pretrained(tmp_path)
    again = LinStereo.from_pretrained(tmp_path)
    left, right = torch.rand(2, 1, 3, 64, 96)
    with torch.inference_mode():
        assert torch.equal(model(left, right, 2), again(left, right, 2))
        assert torch.allclose(again(left, right, 2), again(left, right, 2, volume="on_the_fly"), atol=2e-3)


def test_half_precision_halves_the_file_and_computes_in_single(tmp_path):
    torch.manual_seed(1)
    model = build(preset("compact")).eval()
    whole = save_checkpoint(model, tmp_path / "whole.safetensors").stat().st_size
    half = save_checkpoint(model, tmp_path / "half.safetensors", dtype=torch.float16).stat().st_size
    assert half < 0.55 * whole
    again = load_checkpoint(tmp_path / "half.safetensors")
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert b.dtype == torch.float32
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)
