"""When and how the network computes the same thing faster on a CPU.

A layer that has a faster way for predictions asks `fast` and keeps its plain way beside it: the plain one is
differentiable, runs on every device and in every precision, and is what an exporter or a compiler sees. Both give the
same result up to rounding; `plain_paths` turns the fast ones off, which is how the tests compare them.
"""

import contextlib
import contextvars
import functools
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.processor import is_amd_with_avx512
from linstereo.model.winograd import pays, winograd_conv

CHUNK = 1 << 17
"""Values of a map that are taken at a time where it is faster to stay in the cache."""
BAND = 1 << 14
"""Positions of a map whose mean and variance are taken at a time: of more, fewer digits would be right."""
_PLAIN = contextvars.ContextVar("plain", default=False)


def fast(x: Tensor) -> bool:
    """Whether a fast path may be taken for `x`: float32 on the CPU, without gradient, autocast or tracing."""
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not torch._C._get_tracing_state()
        and not _PLAIN.get()
    )


@contextlib.contextmanager
def plain_paths() -> Iterator[None]:
    """Take no fast path inside of the context."""
    token = _PLAIN.set(True)
    try:
        yield
    finally:
        _PLAIN.reset(token)


def channels_last(x: Tensor) -> Tensor:
    """`x` [B, C, h, w] in channels-last memory where that is faster; itself elsewhere."""
    return x.contiguous(memory_format=torch.channels_last) if fast(x) else x


def chunks(rows: Tensor) -> list[slice]:
    """Parts of [N, C] that fit into the cache."""
    step = max(CHUNK // rows.shape[1], 1)
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear`, [..., in] -> [..., out]; the fast way stays in the cache between the bias and the product."""
    if not fast(x) or bias is None:
        return F.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    out = rows.new_empty(len(rows), len(weight))
    for part in chunks(out):
        if _suits_onednn(rows[part]):
            out[part] = product(rows[part], weight, bias)
        else:
            torch.addmm(bias, rows[part], weight.t(), out=out[part])
    return out.view(*x.shape[:-1], -1)


def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear` of rows [N, in] for fast paths: a weight [out, in] and a bias [out] give [N, out]."""
    if _suits_onednn(rows):
        found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "none")
        return found
    out = rows @ weight.t()
    return out if bias is None else out.add_(bias)


def add_product_(total: Tensor, rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> None:
    """Add `product` to a total [N, out], which is overwritten."""
    if _suits_onednn(rows):
        total.copy_(torch.ops.mkldnn._linear_pointwise.binary(rows, total, weight, bias, "add"))
        return
    total.addmm_(rows, weight.t())
    if bias is not None:
        total.add_(bias)


def _suits_onednn(rows: Tensor) -> bool:
    """Whether oneDNN is to multiply rows [N, in]: whole chunks only, since it keeps a megabyte for each shape it saw.

    There are a few of these, one for each width of maps, but every size of images has its own rests.
    """
    count = len(rows)
    # Of so many rows only few numbers are CHUNK divided by a width; of fewer, all are.
    whole = count <= CHUNK <= count**2 and CHUNK // (CHUNK // count) == count
    return whole and _products_by_onednn()


@functools.cache
def _products_by_onednn() -> bool:
    """Whether oneDNN's matrix products are faster here and PyTorch offers them, tried once."""
    if not is_amd_with_avx512():
        return False
    x, weight = torch.linspace(-3, 3, 32 * 16).view(32, 16), torch.linspace(-1, 1, 8 * 16).view(8, 16)
    bias, total = torch.linspace(0, 1, 8), torch.linspace(-2, 2, 32 * 8).view(32, 8)
    with torch.no_grad():
        try:
            plain = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "none")
            added = torch.ops.mkldnn._linear_pointwise.binary(x, total, weight, bias, "add")
        except (AttributeError, RuntimeError, TypeError):
            return False
        expected = F.linear(x, weight, bias)
        return torch.allclose(plain, expected, rtol=1e-4) and torch.allclose(added, expected + total, rtol=1e-4)


def linear_gelu(layer: nn.Linear, x: Tensor) -> Tensor:
    """GELU of a linear layer, [..., in] -> [..., out]; in one operation where oneDNN offers it."""
    if fast(x) and _fuses_gelu():
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, layer.weight, layer.bias, "gelu", [], "none")
        return out
    return F.gelu(layer(x))


@functools.cache
def _fuses_gelu() -> bool:
    """Whether PyTorch has the operation that its own compiler fuses a linear layer and GELU into, tried once."""
    layer = nn.Linear(16, 16)
    x = torch.linspace(-3, 3, 32 * 16).view(32, 16)
    with torch.no_grad():
        try:
            fused = torch.ops.mkldnn._linear_pointwise(x, layer.weight, layer.bias, "gelu", [], "none")
        except (AttributeError, RuntimeError, TypeError):
            return False
        return torch.allclose(fused, F.gelu(layer(x)), rtol=1e-4, atol=1e-5)


def conv_of_parts(parts: Sequence[Tensor], weight: Tensor, bias: Tensor | None, *, relu: bool = False) -> Tensor:
    """A convolution of maps [B, *, h, w] joined along their channels, padded to keep its size: [B, C, h, w].

    The fast way adds up the convolutions of the parts, so that nothing is joined, and ends with ReLU in the same pass;
    wide 3x3 convolutions are Winograd's.

    Args:
        parts: the maps, in channels-last memory if it is to be fast.
        weight: [C, channels of all parts, k, k], k odd.
        bias: [C].
        relu: whether ReLU follows.
    """
    side = weight.shape[-1] // 2
    if fast(parts[0]) and pays(weight, height=parts[0].shape[2], width=parts[0].shape[3]):
        return winograd_conv(parts, weight, bias, relu=relu)
    if not (fast(parts[0]) and _adds_convolutions()):
        joined = parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=1)
        plain = F.conv2d(joined, weight, bias, padding=side)
        return plain.relu_() if relu else plain
    geometry = ([side, side], [1, 1], [1, 1], 1)
    first, *others = torch.split(weight, [x.shape[1] for x in parts], dim=1)
    after = "relu" if relu and not others else "none"
    out: Tensor = torch.ops.mkldnn._convolution_pointwise(
        parts[0], first.contiguous(), bias, *geometry, after, [], None
    )
    for i, (x, part) in enumerate(zip(parts[1:], others, strict=True), start=2):
        last = "relu" if relu and i == len(parts) else None
        torch.ops.mkldnn._convolution_pointwise_.binary(
            out, x, part.contiguous(), None, *geometry, "add", 1.0, last, [], None
        )
    return out


@functools.cache
def _adds_convolutions() -> bool:
    """Whether PyTorch has the operations that its own compiler fuses convolution, sum and ReLU into, tried once."""
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(1, 16, 5, 5, generator=generator), torch.randn(16, 16, 3, 3, generator=generator)
    x = x.contiguous(memory_format=torch.channels_last)
    after: tuple[str, list[float], None] = ("relu", [], None)
    with torch.no_grad():
        try:
            out = torch.ops.mkldnn._convolution_pointwise(x, weight, None, [1, 1], [1, 1], [1, 1], 1, *after)
            expected = F.conv2d(x, weight, padding=1).relu()
            same = torch.allclose(out, expected, rtol=1e-4, atol=1e-4)
            torch.ops.mkldnn._convolution_pointwise_.binary(
                out, x, weight, None, [1, 1], [1, 1], [1, 1], 1, "add", 1.0, *after
            )
        except (AttributeError, RuntimeError, TypeError):
            return False
        return same and torch.allclose(out, 2 * expected, rtol=1e-4, atol=1e-4)


def single_channel_conv(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """A 3x3 convolution to one channel, padded by 1: [B, C, h, w] -> [B, 1, h, w].

    The fast way takes all nine products at every position, and then adds up those of the neighbours.
    """
    if not fast(x):
        out: Tensor = conv(x)
        return out
    batch, channels, height, width = x.shape
    rows = x.permute(0, 2, 3, 1).reshape(-1, channels)  # [N, C]
    # A plane for each product: sums of planes are several times faster than sums of every ninth value.
    products = (conv.weight[0].flatten(1).t() @ rows.t()).view(9, batch, height, width)
    total = products.new_zeros(batch, height + 2, width + 2)
    for k, plane in enumerate(products):
        row, column = 2 - k // 3, 2 - k % 3
        total[:, row : row + height, column : column + width] += plane
    inner = total[:, 1:-1, 1:-1]
    return (inner.clone() if conv.bias is None else inner + conv.bias).unsqueeze(1)


def tanh_(x: Tensor) -> Tensor:
    """`x.tanh_()` of any shape; the fast way is 2 sigmoid(2 x) - 1, of which PyTorch's CPU code is faster."""
    if not fast(x):
        return x.tanh_()
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


def tanh_of_map_(x: Tensor) -> Tensor:
    """`tanh_` of a map [B, C, h, w] in channels-last memory, some positions at a time."""
    if not (fast(x) and x.is_contiguous(memory_format=torch.channels_last)):
        return x.tanh_()
    rows = x.permute(0, 2, 3, 1).view(-1, x.shape[1])
    for part in chunks(rows):
        tanh_(rows[part])
    return x


def half_size(images: Tensor) -> Tensor:
    """Images [B, C, h, w] of even sides at half the size, by means of 2 x 2 pixels: [B, C, h / 2, w / 2]."""
    if not fast(images):
        return F.avg_pool2d(images, 2)
    lines = images[:, :, ::2] + images[:, :, 1::2]
    return (lines[..., ::2] + lines[..., 1::2]).mul_(0.25)


class InstanceNorm(nn.InstanceNorm2d):
    """Instance normalisation that is fast on channels-last maps, too.

    PyTorch's own copies such maps into the other order and back. The fast way overwrites its input, which must be the
    fresh result of a convolution.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, h, w] -> [B, C, h, w]."""
        if self._is_fast(x):
            return self._normalised(x)
        if x.shape[-2:] == (1, 1):  # its own mean; PyTorch refuses it, since nothing could be learned from it
            return (x - x if self.bias is None else x - x + self.bias[:, None, None]).to(x.dtype)
        return super().forward(x)

    def then_relu(self, x: Tensor, *, plus: Tensor | None = None) -> Tensor:
        """`forward`, ReLU, and then the sum with `plus` if there is one: [B, C, h, w] -> [B, C, h, w]."""
        if self._is_fast(x):
            return self._normalised(x, relu=True, plus=plus)
        out: Tensor = self(x).relu_()
        return out if plus is None else plus + out

    def _is_fast(self, x: Tensor) -> bool:
        return fast(x) and x.is_contiguous(memory_format=torch.channels_last)

    def _normalised(self, x: Tensor, *, relu: bool = False, plus: Tensor | None = None) -> Tensor:
        """The fast way, some rows at a time; overwrites `x`."""
        maps = x.permute(0, 2, 3, 1)  # [B, h, w, C]
        step = max(CHUNK // maps[0, 0].numel(), 1)
        others = maps[:, :, :0] if plus is None else plus.permute(0, 2, 3, 1)
        for image, other, scale, shift in zip(maps, others, *self._scale_and_shift(maps), strict=True):
            for part, more in zip(torch.split(image, step), torch.split(other, step), strict=True):  # [*, w, C]
                torch.addcmul(shift, part, scale, out=part)
                if relu:
                    part.relu_()
                if plus is not None:
                    part.add_(more)
        return x

    def _scale_and_shift(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """What normalises [B, h, w, C]; each [B, 1, C]."""
        # One long sum would lose digits: the moments of bands are joined in double precision.
        height, width = maps.shape[1:3]
        step = max(BAND // width, 1)
        rows = [min(step, height - top) for top in range(0, height, step)]
        shares = torch.tensor(rows, dtype=torch.float64) / height
        moments = []
        for image in maps:
            bands = [_mean_and_variance(band) for band in torch.split(image, step)]
            means, variances = (torch.stack(values).double() for values in zip(*bands, strict=True))  # [bands, C]
            moments.append((shares @ means, shares @ (variances + means.square())))
        mean, square = (torch.stack(values)[:, None] for values in zip(*moments, strict=True))
        scale = (square - mean.square()).clamp_(min=0).add_(self.eps).rsqrt_()
        if self.weight is not None:
            scale = scale * self.weight
        shift = -mean * scale
        if self.bias is not None:
            shift = shift + self.bias
        return scale.float(), shift.float()


def _mean_and_variance(maps: Tensor) -> tuple[Tensor, Tensor]:
    """Of the channels of [h, w, C], each [C]: what PyTorch's batch normalisation does, which suits this memory."""
    mean, variance = torch.batch_norm_update_stats(maps.permute(2, 0, 1)[None], None, None, 0.0)
    return mean, variance
