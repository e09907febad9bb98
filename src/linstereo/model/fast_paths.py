"""When and how the network computes the same thing faster on a CPU.

A layer that has a faster way for predictions asks `fast` and keeps its plain way beside it: the plain one is
differentiable, runs on every device and in every precision, and is what an exporter or a compiler sees. Both give the
same result up to rounding; `plain_paths` turns the fast ones off, which is how the tests compare them.
"""

import contextlib
import contextvars
import functools
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHUNK = 1 << 17
"""Values of a map that are taken at a time where it is faster to stay in the cache."""
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


def single_channel_conv(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """A 3x3 convolution to one channel, padded by 1: [B, C, h, w] -> [B, 1, h, w].

    The fast way takes all nine products at every position, and then adds up those of the neighbours.
    """
    if not fast(x):
        out: Tensor = conv(x)
        return out
    height, width = x.shape[-2:]
    products = F.linear(x.permute(0, 2, 3, 1), conv.weight[0].flatten(1).t())  # [B, h, w, 9]
    padded = F.pad(products, (0, 0, 1, 1, 1, 1))
    total = products[..., 4].clone()  # [B, h, w]
    for k in (0, 1, 2, 3, 5, 6, 7, 8):
        total += padded[:, k // 3 : k // 3 + height, k % 3 : k % 3 + width, k]
    return total.add_(0.0 if conv.bias is None else conv.bias).unsqueeze(1)


class InstanceNorm(nn.InstanceNorm2d):
    """Instance normalisation that is fast on channels-last maps, too.

    PyTorch's own copies such maps into the other order and back. The fast way overwrites its input, which must be the
    fresh result of a convolution.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, h, w] -> [B, C, h, w]."""
        if not (fast(x) and x.is_contiguous(memory_format=torch.channels_last)):
            return super().forward(x)
        maps = x.permute(0, 2, 3, 1)  # [B, h, w, C]
        width = maps.shape[2]
        share = maps.new_full((1, width), 1 / width)
        # Means of rows come first, and their mean in double precision: one long sum would lose digits.
        mean = (share @ maps).double().mean(dim=1, keepdim=True)  # [B, 1, 1, C]
        parts = torch.split(maps, max(CHUNK // (width * maps.shape[3]), 1), dim=1)
        squares = torch.cat([share @ part.square() for part in parts], dim=1)
        square = squares.double().mean(dim=1, keepdim=True)
        scale = (square - mean.square()).clamp_(min=0).add_(self.eps).rsqrt_()
        if self.weight is not None:
            scale = scale * self.weight
        shift = -mean * scale
        if self.bias is not None:
            shift = shift + self.bias
        return torch.addcmul(shift.float(), maps, scale.float(), out=maps).permute(0, 3, 1, 2)
