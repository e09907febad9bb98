"""Both cost volumes against a plain loop over Eq. 1, and against each other."""

import math

import pytest
import torch

from linstereo.model.cost_volume import (
    HierarchicalCostVolumes,
    OnTheFlyVolume,
    PooledCostVolume,
    StoredVolume,
    build_volume,
)

KINDS = ["stored", "on_the_fly"]


def features(batch=2, channels=5, height=3, width=13, seed=0):
    generator = torch.Generator().manual_seed(seed)
    left, right = torch.randn(2, batch, channels, height, width, dtype=torch.float64, generator=generator)
    # from outside the image on the left to outside on the right, on and off the integers
    disparity = 1.6 * width * torch.rand(batch, 1, height, width, dtype=torch.float64, generator=generator)
    disparity = disparity - 0.3 * width
    disparity[:, :, 0] = disparity[:, :, 0].round()
    return left, right, disparity


def plain_lookup(left, right, disparity, *, levels, radius):
    """Eq. 1 pixel by pixel; a level's column m is the mean of 2**l columns, those beyond the edge counting as zero."""
    batch, channels, height, width = left.shape
    samples = torch.zeros(batch, levels * (2 * radius + 1), height, width, dtype=torch.float64)
    for b in range(batch):
        for i in range(height):
            for j in range(width):
                row = [
                    sum(float(left[b, c, i, j] * right[b, c, i, k]) for c in range(channels)) / math.sqrt(channels)
                    for k in range(width)
                ]
                channel = 0
                for level in range(levels):
                    size = 2**level
                    pooled = []
                    for start in range(0, width, size):
                        pooled.append(sum(row[start : start + size]) / size)
                    for offset in range(-radius, radius + 1):
                        match = j - (float(disparity[b, 0, i, j]) + offset * size)
                        position = (match + 0.5) / size - 0.5
                        below = math.floor(position)
                        value = 0.0
                        for m, weight in ((below, 1 - (position - below)), (below + 1, position - below)):
                            if 0 <= m < len(pooled):
                                value += weight * pooled[m]
                        samples[b, channel, i, j] = value
                        channel += 1
    return samples


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 2, 13, 16])
def test_lookup_equals_the_plain_loop(kind, width):
    left, right, disparity = features(width=width)
    volume = build_volume(left, right, levels=4, radius=4, kind=kind)
    expected = plain_lookup(left, right, disparity, levels=4, radius=4)
    torch.testing.assert_close(volume.lookup(disparity), expected, rtol=1e-12, atol=1e-12)


def test_a_perfect_match_is_found_at_its_disparity():
    generator = torch.Generator().manual_seed(1)
    right = torch.randn(1, 64, 4, 32, generator=generator)
    left = right.roll(5, dims=-1)  # left column j shows what right column j - 5 shows
    samples = StoredVolume(left, right, levels=1, radius=4).lookup(torch.full((1, 1, 4, 32), 3.0))
    best = samples[..., 12:].argmax(dim=1) - 4  # offset from the assumed 3 px
    assert torch.all(best == 2)


def test_both_volumes_agree_in_value_and_in_every_gradient(monkeypatch):
    monkeypatch.setattr("linstereo.model.cost_volume._TapCorrelation.CHUNK", 64)  # several chunks per lookup
    results = []
    for kind in KINDS:
        left, right, disparity = (x.requires_grad_() for x in features(seed=4))
        samples = build_volume(left, right, levels=4, radius=3, kind=kind).lookup(disparity)
        weights = torch.randn(samples.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
        grads = torch.autograd.grad((samples * weights).sum(), (left, right, disparity))
        results.append((samples, *grads))
    for stored, on_the_fly in zip(*results, strict=True):
        assert stored.abs().max() > 0
        torch.testing.assert_close(stored, on_the_fly, rtol=1e-12, atol=1e-12)


def test_gradients_are_those_of_finite_differences():
    left, right, disparity = features(batch=1, channels=2, height=1, width=6, seed=2)
    disparity = disparity.floor() + 0.37  # away from the kinks of linear interpolation
    for x in (left, right, disparity):
        x.requires_grad_()

    def lookup(left, right, disparity):
        return OnTheFlyVolume(left, right, levels=2, radius=1).lookup(disparity)

    assert torch.autograd.gradcheck(lookup, (left, right, disparity))


def kept_values(volume):
    if isinstance(volume, StoredVolume):
        return sum(level.numel() for level in volume.pyramid)
    return volume.left.numel() + sum(level.numel() for level in volume.right_pyramid)


@pytest.mark.parametrize(("kind", "growth"), [("stored", 8), ("on_the_fly", 4)])
def test_memory_grows_linearly_with_pixels_only_on_the_fly(kind, growth):
    def kept(height, width):
        left, right = torch.zeros(2, 1, 8, height, width)
        return kept_values(build_volume(left, right, levels=4, radius=4, kind=kind))

    assert kept(32, 64) == growth * kept(16, 32)


def test_a_runaway_disparity_gives_zeros_not_an_error():
    left, right, disparity = features()
    for kind in KINDS:
        samples = build_volume(left, right, levels=4, radius=4, kind=kind).lookup(disparity + 1e30)
        assert torch.all(samples == 0)


@pytest.mark.parametrize("kind", KINDS)
def test_hscv_gives_one_volume_per_scale_at_its_own_resolution(kind):
    hscv = HierarchicalCostVolumes((6, 8, 10), width=16, levels=4, radius=4)
    pyramid = [torch.randn(4, c, 16 // s, 32 // s) for c, s in ((6, 1), (8, 2), (10, 4))]
    volumes = hscv(pyramid, kind=kind)
    shapes = [v.lookup(torch.ones(2, 1, 16 // s, 32 // s)).shape for v, s in zip(volumes, (1, 2, 4), strict=True)]
    assert shapes == [(2, 36, 16, 32), (2, 36, 8, 16), (2, 36, 4, 8)]


def test_hscv_correlates_projected_left_with_projected_right():
    torch.manual_seed(0)
    hscv = HierarchicalCostVolumes((6,), width=16, levels=1, radius=0).double()
    feature = torch.randn(2, 6, 4, 9, dtype=torch.float64)
    samples = hscv([feature])[0].lookup(torch.full((1, 1, 4, 9), 2.0, dtype=torch.float64))
    left, right = hscv.project[0](feature)
    expected = (left[:, :, 2:] * right[:, :, :-2]).sum(dim=0) / math.sqrt(16)
    torch.testing.assert_close(samples[0, 0, :, 2:], expected)


def test_pooled_hscv_sums_all_scales_into_one_volume():
    torch.manual_seed(0)
    pooled = PooledCostVolume((6, 8, 10), width=16, levels=4, radius=4)
    pyramid = [torch.randn(2, c, 16 // s, 32 // s) for c, s in ((6, 1), (8, 2), (10, 4))]
    disparity = torch.full((1, 1, 16, 32), 3.0)
    (volume,) = pooled(pyramid)
    before = volume.lookup(disparity)
    for i in range(3):  # every scale matters
        changed = list(pyramid)
        changed[i] = torch.randn_like(changed[i])
        assert not torch.allclose(pooled(changed)[0].lookup(disparity), before)
