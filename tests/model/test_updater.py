"""The refinement step: gates and recurrences against plain formulas, coarse-to-fine wiring as in Eq. 4 to 6."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from linstereo.model.pala import PALABlock, rotary_table
from linstereo.model.updater import (
    DISPARITY_SCALE,
    ConvGRUUnit,
    MotionEncoder,
    MultiScaleUpdater,
    PALAUnit,
    ResidualHead,
)


def states(channels=8, sizes=((8, 12), (4, 6), (2, 3)), batch=2):
    torch.manual_seed(0)
    hidden = [torch.tanh(torch.randn(batch, channels, *size)) for size in sizes]
    motion = [torch.randn(batch, channels, *size) for size in sizes]
    tables = [rotary_table(*size, 4) for size in sizes]
    return hidden, motion, tables


class Recorder(nn.Module):
    """A unit that notes what it was given and adds one to its state."""

    def __init__(self, hidden, input_channels):
        super().__init__()
        self.input_channels = input_channels
        self.seen = None

    def forward(self, hidden, inputs, table):
        self.seen = (hidden, list(inputs), table)
        return hidden + 1


def test_scales_update_coarse_to_fine_with_the_neighbours_of_the_paper():
    hidden, motion, tables = states()
    updater = MultiScaleUpdater(Recorder, hidden=[8, 8, 8], motion_channels=[8, 8, 8], heads=2)
    new = updater(hidden, motion, tables)
    h4, h8, h16 = hidden
    expected = [
        [motion[0], h8 + 1],  # Eq. 6: the new h8
        [motion[1], F.avg_pool2d(h4, 2), h16 + 1],  # Eq. 5: old h4, new h16
        [motion[2], F.avg_pool2d(h8, 2)],  # Eq. 4: the old h8
    ]
    for i, unit in enumerate(updater.units):
        state, inputs, table = unit.seen
        assert torch.equal(state, hidden[i])
        assert table is tables[i]
        assert len(inputs) == len(expected[i])
        for a, b in zip(inputs, expected[i], strict=True):
            torch.testing.assert_close(a, b)
        assert unit.input_channels == sum(x.shape[1] for x in inputs)
        assert torch.equal(new[i], hidden[i] + 1)


@pytest.mark.parametrize("scales", [1, 2, 3])
def test_fewer_scales_and_scales_without_motion(scales):
    hidden, motion, tables = states()
    updater = MultiScaleUpdater(Recorder, hidden=[8] * scales, motion_channels=[8] + [0] * (scales - 1), heads=2)
    new = updater(hidden[:scales], [motion[0]] + [None] * (scales - 1), tables[:scales])
    assert len(new) == scales
    assert [u.input_channels for u in updater.units] == [
        sum(x.shape[1] for x in unit.seen[1]) for unit in updater.units
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_positions_are_those_of_every_scale_and_never_in_half_precision(dtype):
    hidden, _, tables = states()
    updater = MultiScaleUpdater(Recorder, hidden=[8, 8, 8], motion_channels=[8, 8, 8], heads=2)
    found = updater.positions([h.to(dtype) for h in hidden])
    for one, other in zip(found, tables, strict=True):
        assert one.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        torch.testing.assert_close(one.float(), other)


def test_pala_unit_updates_through_the_gate_of_eq_8():
    hidden, motion, tables = states()
    unit = PALAUnit(8, 8, blocks=[PALABlock(8, 2), PALABlock(8, 2)])
    x = F.conv2d(torch.cat([hidden[0], motion[0]], 1), unit.project.weight, unit.project.bias)
    out = x.permute(0, 2, 3, 1)
    for block in unit.blocks:
        out = block(out, tables[0])
    out = out.permute(0, 3, 1, 2)
    z = torch.sigmoid(F.conv2d(torch.cat([hidden[0], out], 1), unit.gate.weight, unit.gate.bias, padding=1))
    expected = (1 - z) * hidden[0] + z * torch.tanh(out)
    torch.testing.assert_close(unit(hidden[0], [motion[0]], tables[0]), expected)
    assert unit.gate.kernel_size == (3, 3)


def test_convgru_unit_is_the_plain_recurrence():
    hidden, motion, tables = states()
    unit = ConvGRUUnit(8, 16)
    h, x = hidden[1], torch.cat([motion[1], motion[1]], dim=1)
    wz, wr = unit.gates.weight.chunk(2)
    bz, br = unit.gates.bias.chunk(2)
    both = torch.cat([h, x], dim=1)
    z = torch.sigmoid(F.conv2d(both, wz, bz, padding=1))
    r = torch.sigmoid(F.conv2d(both, wr, br, padding=1))
    q = torch.tanh(F.conv2d(torch.cat([r * h, x], dim=1), unit.candidate.weight, unit.candidate.bias, padding=1))
    torch.testing.assert_close(unit(h, [motion[1], motion[1]], tables[1]), (1 - z) * h + z * q)


@pytest.mark.parametrize("make", [ConvGRUUnit, lambda h, c: PALAUnit(h, c, blocks=[PALABlock(h, 2)])])
def test_hidden_states_stay_in_range_over_many_iterations(make):
    hidden, motion, tables = states()
    updater = MultiScaleUpdater(make, hidden=[8, 8, 8], motion_channels=[8, 8, 8], heads=2)
    with torch.no_grad():
        for _ in range(30):
            hidden = updater(hidden, motion, tables)
    assert all(h.abs().max() <= 1 for h in hidden)


def test_convgru_is_local_and_pala_is_global():
    hidden, motion, _ = states(sizes=((16, 24),), batch=1)
    changed = motion[0].clone()
    changed[..., 0, 0] += 1
    for unit, reach in ((ConvGRUUnit(8, 8), False), (PALAUnit(8, 8, blocks=[PALABlock(8, 2)]), True)):
        unit = unit.double()
        table = rotary_table(16, 24, 4, dtype=torch.float64)
        a, b = (unit(hidden[0].double(), [m.double()], table) for m in (motion[0], changed))
        assert bool((a - b).abs()[..., -1, -1].max() > 0) is reach


def test_motion_features_carry_the_disparity_in_their_last_channel():
    disparity, correlation = torch.rand(2, 1, 6, 7), torch.rand(2, 36, 6, 7)
    features = MotionEncoder(36, 16)(disparity, correlation)
    assert features.shape == (2, 16, 6, 7)
    assert torch.equal(features[:, -1:], DISPARITY_SCALE * disparity)


def test_residual_head_uses_depthwise_convolutions_only_for_space():
    head = ResidualHead(16)
    spatial = [m for m in head.blocks.modules() if isinstance(m, nn.Conv2d)]
    assert len(spatial) == 2
    assert all(m.groups == m.in_channels == 16 for m in spatial)
    residual = head(torch.rand(2, 16, 6, 7))
    assert residual.shape == (2, 1, 6, 7)
    assert 0 < residual.abs().max() < 0.2  # refinement begins near its start


def test_motion_features_are_channels_last_like_the_hidden_states():
    correlation = torch.rand(2, 6, 7, 36).permute(0, 3, 1, 2)  # as a lookup gives it
    features = MotionEncoder(36, 16)(torch.rand(2, 1, 6, 7), correlation)
    assert features.is_contiguous(memory_format=torch.channels_last)
