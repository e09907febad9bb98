"""Winograd's convolution against PyTorch's own, and where it is taken."""

import pytest
import torch
import torch.nn.functional as F

from linstereo.model import winograd
from linstereo.model.fast_paths import conv_of_parts, plain_paths
from linstereo.model.updater import ConvGRUUnit
from linstereo.model.winograd import LEAST_CHANNELS, pays, winograd_conv


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def maps(channels, height, width, batch=1):
    return torch.randn(batch, channels, height, width).contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("tiles", [1, 5, 1000])
@pytest.mark.parametrize("size", [(6, 6), (8, 12), (9, 14), (23, 31)])
@pytest.mark.parametrize(("channels", "bias", "relu"), [((5,), True, False), ((3, 4, 2), False, True)])
def test_it_is_the_convolution(channels, size, bias, relu, tiles, monkeypatch):
    monkeypatch.setattr(winograd, "TILES", tiles)
    parts = [maps(c, *size, batch=2) for c in channels]
    weight, shift = torch.randn(7, sum(channels), 3, 3), torch.randn(7) if bias else None
    before = [part.clone() for part in parts]
    out = winograd_conv(parts, weight, shift, relu=relu)
    exact = F.conv2d(
        torch.cat(parts, dim=1).double(), weight.double(), None if shift is None else shift.double(), padding=1
    )
    torch.testing.assert_close(out.double(), exact.relu() if relu else exact, rtol=1e-4, atol=1e-4)
    assert out.is_contiguous(memory_format=torch.channels_last)
    for part, unchanged in zip(parts, before, strict=True):
        assert torch.equal(part, unchanged)


def test_maps_in_the_other_order_are_taken_too():
    x, weight = torch.randn(1, 4, 9, 10), torch.randn(3, 4, 3, 3)
    torch.testing.assert_close(winograd_conv([x], weight, None), F.conv2d(x, weight, padding=1), rtol=1e-4, atol=1e-4)


def test_processors_on_which_onednn_keeps_up_do_without(processor):
    wide = torch.empty(128, 128, 3, 3)
    for name, vectors, taken in (
        ("AMD EPYC", True, False),
        ("AMD EPYC", False, True),
        ("Intel(R) Xeon(R)", True, True),
    ):
        processor(cpu_name=name, avx512_vp2intersect=vectors)
        assert pays(wide, height=120, width=160) == taken
    processor()
    assert pays(wide, height=120, width=160)


def test_wide_convolutions_on_large_maps_are_taken(processor):
    processor(cpu_name="a processor with AVX2", avx2=True)
    wide, narrow = torch.empty(LEAST_CHANNELS, 128, 3, 3), torch.empty(LEAST_CHANNELS - 1, 128, 3, 3)
    assert pays(wide, height=120, width=160)
    assert not pays(narrow, height=120, width=160)
    assert not pays(narrow.transpose(0, 1), height=120, width=160)
    assert not pays(wide, height=15, width=20)
    assert not pays(wide, height=5, width=160_000)
    assert not pays(torch.empty(128, 128, 1, 1), height=120, width=160)


@pytest.mark.parametrize("relu", [False, True])
def test_convolution_of_parts(relu, monkeypatch):
    calls = []
    monkeypatch.setattr("linstereo.model.fast_paths.pays", lambda *_, **__: calls.append(1) or True)
    parts = [maps(16, 20, 24), maps(8, 20, 24)]
    weight, bias = torch.randn(12, 24, 3, 3), torch.randn(12)
    with torch.no_grad():
        quick = conv_of_parts(parts, weight, bias, relu=relu)
        with plain_paths():
            plain = conv_of_parts(parts, weight, bias, relu=relu)
    assert calls == [1]
    torch.testing.assert_close(quick, plain, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_the_baseline_has_it_as_well(monkeypatch):
    unit = ConvGRUUnit(12, 20)
    hidden, inputs = maps(12, 16, 20).tanh(), [maps(8, 16, 20), maps(12, 8, 10)]
    with plain_paths():
        plain = unit(hidden, inputs, torch.empty(0))
    torch.testing.assert_close(unit(hidden, inputs, torch.empty(0)), plain, rtol=1e-4, atol=1e-4)
    calls = []
    monkeypatch.setattr("linstereo.model.fast_paths.pays", lambda *_, **__: calls.append(1) or True)
    torch.testing.assert_close(unit(hidden, inputs, torch.empty(0)), plain, rtol=1e-4, atol=1e-4)
    assert calls == [1, 1]
