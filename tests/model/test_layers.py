"""The fast forms of convolutions, against PyTorch's own."""

import pytest
import torch
import torch.nn.functional as F

from linstereo.model.layers import DepthwiseConv, PointwiseConv


def gradients(output, inputs):
    weight = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape)
    return torch.autograd.grad((output * weight).sum(), inputs)


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_pointwise_equals_conv2d(memory):
    layer = PointwiseConv(5, 7).double()
    x = torch.randn(2, 5, 4, 6, dtype=torch.float64).contiguous(memory_format=memory).requires_grad_()
    fast, slow = layer(x), F.conv2d(x, layer.weight, layer.bias)
    torch.testing.assert_close(fast, slow)
    parts = (x, layer.weight, layer.bias)
    for a, b in zip(gradients(fast, parts), gradients(slow, parts), strict=True):
        torch.testing.assert_close(a, b)


def test_depthwise_equals_conv2d():
    layer = DepthwiseConv(5).double()
    x = torch.randn(2, 4, 6, 5, dtype=torch.float64, requires_grad=True)
    fast = layer(x)
    slow = F.conv2d(x.permute(0, 3, 1, 2), layer.weight, layer.bias, padding=1, groups=5).permute(0, 2, 3, 1)
    torch.testing.assert_close(fast, slow)
    for a, b in zip(gradients(fast, (x, layer.weight)), gradients(slow, (x, layer.weight)), strict=True):
        torch.testing.assert_close(a, b)
