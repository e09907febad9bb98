"""Convolutions written in the way that runs fastest on channels-last maps."""

from torch import Tensor, nn

from linstereo.model.fast_paths import fast, linear


class DepthwiseConv(nn.Conv2d):
    """A depth-wise 3x3 convolution on channels-last maps: [B, h, w, C] -> [B, h, w, C]."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] -> [B, h, w, C]; the permutations are views."""
        return super().forward(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)

    def plus_input(self, x: Tensor) -> Tensor:
        """The convolution added to its input, as `forward`; the fast way has 1 more in the middle of the kernels."""
        if not fast(x):
            return self.forward(x).add_(x)
        weight = self.weight.clone()
        weight[:, :, 1, 1] += 1
        out: Tensor = self._conv_forward(x.permute(0, 3, 1, 2), weight, self.bias)
        return out.permute(0, 2, 3, 1)


class PointwiseConv(nn.Conv2d):
    """A 1x1 convolution, [B, C, h, w] -> [B, D, h, w], computed as a matrix product over the positions.

    Its weights are those of `nn.Conv2d`; the product is several times faster in the backward pass on a CPU.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, h, w] -> [B, D, h, w] in channels-last memory; the permutations are views."""
        return linear(x.permute(0, 2, 3, 1), self.weight.flatten(1), self.bias).permute(0, 3, 1, 2)
