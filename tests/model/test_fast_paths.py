"""Every fast path against its plain twin, and when it must not be taken."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from linstereo.model import cost_volume, fast_paths, pala
from linstereo.model.backbone.compact import CompactBackbone
from linstereo.model.cost_volume import FeatureProjection, OnTheFlyVolume, StoredVolume
from linstereo.model.fast_paths import (
    InstanceNorm,
    add_product_,
    conv_of_parts,
    fast,
    half_size,
    linear,
    linear_gelu,
    plain_paths,
    product,
    single_channel_conv,
    tanh_,
    tanh_of_map_,
)
from linstereo.model.layers import DepthwiseConv
from linstereo.model.pala import PALABlock, complex_table, rotary_table, rotate
from linstereo.model.updater import ConvGRUUnit, MotionEncoder, PALAUnit, ResidualHead
from linstereo.model.upsample import ConvexUpsampler, ImageGuide

pytestmark = pytest.mark.usefixtures("seed")


@pytest.fixture(params=["MKL", "oneDNN"], autouse=True)
def products(request, processor):
    """All of them with either way of multiplying matrices."""
    processor(cpu_name="AMD", avx512_f=request.param == "oneDNN")
    return request.param


@pytest.fixture
def seed():
    torch.manual_seed(0)


def maps(channels, height=9, width=14, batch=1):
    return torch.randn(batch, channels, height, width).contiguous(memory_format=torch.channels_last)


def both_ways(call):
    """The results of the fast and the plain way; fails if no fast way was taken."""
    taken = []

    def counting(x):
        answer = fast(x)
        taken.append(answer)
        return answer

    users = [m for m in _modules_that_ask() if hasattr(m, "fast")]
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        for module in users:
            patch.setattr(module, "fast", counting)
        quick = call()
    assert any(taken), "nothing asked whether it may be fast"
    with plain_paths(), torch.no_grad():
        return quick, call()


def _modules_that_ask():
    from linstereo.model import cost_volume, layers, updater, upsample

    return [fast_paths, pala, updater, upsample, cost_volume, layers]


def assert_same(quick, plain, tolerance=2e-5):
    torch.testing.assert_close(quick, plain, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("band", [70 * 9, fast_paths.BAND])  # bands of 9 rows, the last one of 4; a single band
@pytest.mark.parametrize("affine", [False, True])
def test_instance_norm(affine, band, monkeypatch):
    monkeypatch.setattr(fast_paths, "BAND", band)
    norm = InstanceNorm(5, affine=affine)
    if affine:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    x = 3 + 2 * maps(5, 40, 70, batch=2)
    quick, plain = both_ways(lambda: norm(x.clone()))
    assert_same(quick, plain)
    exact = F.instance_norm(x.double(), weight=_double(norm.weight), bias=_double(norm.bias))
    assert_same(quick.double(), exact)
    assert quick.is_contiguous(memory_format=torch.channels_last)


def _double(parameter):
    return None if parameter is None else parameter.detach().double()


def test_instance_norm_keeps_its_digits_on_large_maps():
    """A naive sum over half a million positions would be off by a thousandth."""
    x = 3 + 2 * maps(2, 720, 720)
    with torch.no_grad():
        got = InstanceNorm(2)(x.clone())
    assert (got.double() - F.instance_norm(x.double())).abs().max() < 1e-5


def test_linear_and_gelu():
    layer = nn.Linear(12, 20)
    x = 3 * torch.randn(2, 5, 7, 12)
    assert_same(*both_ways(lambda: linear_gelu(layer, x)))


def test_linear_and_gelu_without_the_fused_operation(monkeypatch):
    monkeypatch.setattr(fast_paths, "_fuses_gelu", lambda: False)
    layer = nn.Linear(12, 20)
    x = torch.randn(5, 12)
    with torch.no_grad():
        assert torch.equal(linear_gelu(layer, x), F.gelu(layer(x)))


@pytest.mark.parametrize("bias", [None, torch.linspace(-1, 1, 24)])
def test_products(bias):
    part = slice(5, 5 + fast_paths.CHUNK // 16)  # a whole chunk
    count = part.stop + 3
    rows, weight, total = torch.randn(count, 16), torch.randn(24, 16), torch.randn(count, 24)
    with torch.no_grad():
        expected = F.linear(rows, weight, bias)
        torch.testing.assert_close(product(rows[part], weight, bias), expected[part], rtol=1e-4, atol=1e-5)
        sums = total.clone()
        add_product_(sums[part], rows[part], weight, bias)
        torch.testing.assert_close(sums[part], (expected + total)[part], rtol=1e-4, atol=1e-5)
        assert torch.equal(sums[:5], total[:5])
        assert torch.equal(sums[part.stop :], total[part.stop :])


def test_onednn_multiplies_whole_chunks_only(products):
    whole = [fast_paths.CHUNK // width for width in (16, 48, 64, 128)]
    assert [fast_paths._suits_onednn(torch.empty(n, 1)) for n in whole] == [products == "oneDNN"] * 4
    assert not any(fast_paths._suits_onednn(torch.empty(n, 1)) for n in (1, 37, 300, 1025, 2000, whole[0] + 1))


def test_products_are_onednns_where_these_are_faster(processor, monkeypatch):
    processor(cpu_name="AMD", avx512_f=True)
    assert fast_paths._products_by_onednn()
    processor(cpu_name="Intel", avx512_f=True)
    assert not fast_paths._products_by_onednn()
    monkeypatch.setattr(fast_paths.F, "linear", lambda *_: torch.zeros(()))
    processor(cpu_name="AMD", avx512_f=True)
    assert not fast_paths._products_by_onednn()  # not if they are wrong


def test_linear_in_chunks(monkeypatch):
    monkeypatch.setattr(fast_paths, "CHUNK", 20 * 8)
    weight, bias, x = torch.randn(20, 12), torch.randn(20), torch.randn(2, 5, 7, 12)
    assert_same(*both_ways(lambda: linear(x, weight, bias)))
    assert_same(*both_ways(lambda: linear(x.transpose(1, 2), weight, bias)))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("channels", "kernel"), [((8,), 3), ((8, 5), 3), ((6, 4, 3), 1)])
def test_convolution_of_maps_that_are_not_joined(channels, kernel, bias, relu):
    conv = nn.Conv2d(sum(channels), 10, kernel, bias=bias)
    parts = [maps(c, batch=2) for c in channels]
    kept = [x.clone() for x in parts]
    quick, plain = both_ways(lambda: conv_of_parts(parts, conv.weight, conv.bias, relu=relu))
    assert_same(quick, plain)
    assert quick.is_contiguous(memory_format=torch.channels_last)
    assert all(torch.equal(a, b) for a, b in zip(parts, kept, strict=True))


def test_convolution_of_parts_without_the_fused_operations(monkeypatch):
    monkeypatch.setattr(fast_paths, "_adds_convolutions", lambda: False)
    conv, parts = nn.Conv2d(5, 4, 3, padding=1), [maps(3), maps(2)]
    with torch.no_grad():
        quick = conv_of_parts(parts, conv.weight, conv.bias, relu=True)
        assert torch.equal(quick, conv(torch.cat(parts, dim=1)).relu())


def test_depthwise_convolution_and_its_input():
    conv, x = DepthwiseConv(6), torch.randn(1, 9, 14, 6)
    assert_same(*both_ways(lambda: conv.plus_input(x)))


@pytest.mark.parametrize("plus", [False, True])
def test_instance_norm_and_relu(plus, monkeypatch):
    monkeypatch.setattr(fast_paths, "CHUNK", 3 * 14 * 5)
    norm, x, other = InstanceNorm(5, affine=True), maps(5, batch=2), maps(5, batch=2) if plus else None
    assert_same(*both_ways(lambda: norm.then_relu(x.clone(), plus=other)))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (9, 14)])
def test_convolution_to_one_channel(bias, size):
    conv = nn.Conv2d(6, 1, 3, padding=1, bias=bias)
    x = maps(6, *size, batch=2)
    assert_same(*both_ways(lambda: single_channel_conv(conv, x)))


def test_tanh(monkeypatch):
    monkeypatch.setattr(fast_paths, "CHUNK", 100)
    x = torch.cat([10 * maps(6, 12, 10), torch.full((1, 6, 1, 10), 1e30), torch.full((1, 6, 1, 10), -torch.inf)], dim=2)
    x = x.contiguous(memory_format=torch.channels_last)
    for function in (tanh_, tanh_of_map_):
        quick, plain = both_ways(lambda function=function: function(x.clone()))
        torch.testing.assert_close(quick, plain, rtol=0, atol=5e-7)
        assert quick.abs().max() == 1
    other = x.contiguous()
    assert torch.equal(both_ways(lambda: tanh_of_map_(other.clone()))[0], other.tanh())


def test_half_size():
    x = torch.rand(2, 3, 8, 14)
    assert_same(*both_ways(lambda: half_size(x)), tolerance=1e-6)


@pytest.mark.parametrize("heads", [1, 4])
def test_complex_rotation(heads):
    x = torch.randn(2, 15, heads, 8)
    table = rotary_table(3, 5, 8)
    assert_same(rotate(x, complex_table(table, heads)), rotate(x, table), tolerance=1e-6)


@pytest.mark.parametrize("variant", [{}, {"local_encoding": False}, {"context_gate": False}, {"symmetric_rope": True}])
@pytest.mark.parametrize(("dim", "heads"), [(48, 4), (128, 4), (32, 1)])
def test_block(dim, heads, variant, monkeypatch):
    """Narrow and wide heads, in several chunks of which the last is not full."""
    monkeypatch.setattr(fast_paths, "CHUNK", 40 * dim)
    block = PALABlock(dim, heads, **variant)
    x = torch.randn(1, 9, 14, dim)
    kept = x.clone()
    table = rotary_table(9, 14, dim // heads)
    with torch.no_grad():
        quick = block(x, complex_table(table, heads))
        with plain_paths():
            plain = block(x, table)
            assert_same(block(x, complex_table(table, heads)), plain)  # a plain block understands the other table
    assert_same(quick, plain)
    assert torch.equal(x, kept)


def test_chunks_are_used(monkeypatch):
    """The block of the test above does run in chunks."""
    seen = []
    monkeypatch.setattr(fast_paths, "CHUNK", 40 * 48)
    monkeypatch.setattr(pala, "_rotate_in_place", lambda x, table: seen.append(len(x)) or x)
    with torch.no_grad():
        PALABlock(48, 4)(torch.randn(1, 9, 14, 48), complex_table(rotary_table(9, 14, 12), 4))
    assert seen == [40, 40, 40, 6] * 2


@pytest.mark.parametrize("dim", [48, 128])
def test_unit_with_finer_and_coarser_neighbours(dim):
    unit = PALAUnit(dim, dim + 24 + 16, blocks=[PALABlock(dim, 4)])
    hidden = torch.tanh(maps(dim, 8, 12))
    inputs = [maps(dim, 8, 12), maps(24, 8, 12), maps(16, 4, 6)]
    kept = hidden.clone()
    table = rotary_table(8, 12, dim // 4)
    with torch.no_grad():
        quick = unit(hidden, inputs, complex_table(table, 4))
        with plain_paths():
            assert_same(quick, unit(hidden, inputs, table))
    assert torch.equal(hidden, kept)


def test_units_interpolate_coarser_inputs():
    hidden, fine, coarse = maps(8, 8, 12), maps(8, 8, 12), maps(4, 4, 6)
    enlarged = F.interpolate(coarse, scale_factor=2, mode="bilinear", align_corners=False)
    table = rotary_table(8, 12, 4)
    for unit in (PALAUnit(8, 12, blocks=[PALABlock(8, 2)]), ConvGRUUnit(8, 12)):
        torch.testing.assert_close(unit(hidden, [fine, coarse], table), unit(hidden, [fine, enlarged], table))


@pytest.mark.parametrize("width", [1, 2, 13, 16])
@pytest.mark.parametrize(("levels", "radius"), [(4, 4), (1, 2)])
def test_lookup_of_a_stored_volume(width, levels, radius):
    """Matches far outside, at the edges, on and off the integers."""
    left, right = torch.randn(2, 2, 8, 5, width)
    disparity = 1.6 * width * torch.rand(2, 1, 5, width) - 0.3 * width
    disparity[:, :, 0] = disparity[:, :, 0].round()
    disparity[:, :, 1, 0], disparity[:, :, 2, 0] = 1e30, -torch.inf

    def lookup():
        volume = StoredVolume(left, right, levels=levels, radius=radius)
        return volume.lookup(disparity), *volume.pyramid, volume.correlations()

    for quick, plain in zip(*both_ways(lookup), strict=True):
        assert_same(quick, plain)


def test_a_lookup_of_what_is_not_a_number_gives_no_number():
    volume_inputs = torch.randn(2, 1, 8, 5, 6)
    disparity = torch.ones(1, 1, 5, 6)
    disparity[0, 0, 2, 3] = torch.nan
    with torch.no_grad():
        samples = StoredVolume(*volume_inputs, levels=4, radius=4).lookup(disparity)
    assert torch.equal(samples.isnan().any(dim=1), disparity[:, 0].isnan())


def test_motion_encoder():
    encoder = MotionEncoder(36, 16)
    disparity, correlation = 9 * torch.rand(2, 1, 9, 14), maps(36, batch=2)
    assert_same(*both_ways(lambda: encoder(disparity, correlation)))


def test_residual_head():
    head = ResidualHead(16)
    hidden = maps(16, batch=2)
    assert_same(*both_ways(lambda: head(hidden)))


@pytest.mark.parametrize("chunk", [144 * 50, 1 << 17])
def test_upsampler_with_guide(chunk, monkeypatch):
    monkeypatch.setattr(fast_paths, "CHUNK", chunk)
    upsampler = ConvexUpsampler(16, guide=8)
    image, disparity, hidden = torch.rand(1, 3, 36, 56), 9 * torch.rand(1, 1, 9, 14), maps(16)
    assert isinstance(upsampler.guide, ImageGuide)
    assert_same(*both_ways(lambda: upsampler(disparity, hidden, upsampler.guide(image))))


@pytest.mark.parametrize("width", [1, 2, 13, 16])
@pytest.mark.parametrize("radius", [1, 4])
def test_correlations_on_the_fly(width, radius, monkeypatch):
    """Matches far outside on either side, and several chunks of which the last is not full."""
    monkeypatch.setattr(cost_volume, "CHUNK", 7 * 5 * (2 * radius + 2))
    volume = OnTheFlyVolume(maps(5, 3, width, batch=2), maps(5, 3, width, batch=2), levels=4, radius=radius)
    disparity = 3 * width * torch.rand(2, 1, 3, width) - width
    disparity[0, 0, 0], disparity[1, 0, -1] = 1e30, -1e30
    assert_same(*both_ways(lambda: volume.lookup(disparity)))


def test_backbone_and_projection():
    backbone, project = CompactBackbone(), FeatureProjection(48, 64)
    images = torch.rand(2, 3, 64, 96)
    quick, plain = both_ways(lambda: backbone(images).pyramid)
    for a, b in zip(quick, plain, strict=True):
        assert_same(a, b, tolerance=1e-4)
        assert a.is_contiguous(memory_format=torch.channels_last)
    assert_same(*both_ways(lambda: project(plain[0])), tolerance=1e-4)


def test_fast_only_for_predictions_in_float32_on_the_cpu():
    x = torch.ones(2, 2)
    assert not fast(x)  # a gradient may be wanted
    with torch.no_grad():
        assert fast(x)
        assert not fast(x.double())
        assert not fast(x.to("meta"))
        with torch.autocast("cpu", torch.bfloat16):
            assert not fast(x)
        with plain_paths():
            assert not fast(x)
        assert fast(x)


def test_exporters_see_the_plain_way():
    class Asking(nn.Module):
        def forward(self, x):
            return x * 2 if fast(x) else x * 3

    x = torch.ones(3)
    with torch.no_grad():
        assert torch.equal(Asking()(x), 2 * x)
        assert torch.equal(torch.jit.trace(Asking(), x, check_trace=False)(x), 3 * x)
        assert torch.equal(torch.export.export(Asking(), (x,)).module()(x), 3 * x)
