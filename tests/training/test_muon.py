"""Muon against singular values in float64 and PyTorch's own Muon, which takes matrices only."""

import pytest
import torch
from torch import nn

from linstereo.training.muon import Muon, orthogonalised, suits


@pytest.mark.parametrize("shape", [(16, 16), (24, 75), (200, 32)])
def test_singular_vectors_stay_and_singular_values_become_about_one(shape):
    torch.manual_seed(0)
    matrix = torch.randn(shape, dtype=torch.float64)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    turned = u.mT @ orthogonalised(matrix) @ v.mT
    values = turned.diagonal()
    assert values.min() > 0.6
    assert values.max() < 1.3
    torch.testing.assert_close(turned, torch.diag(values), rtol=0, atol=1e-9)


def test_the_same_steps_as_those_of_pytorch():
    torch.manual_seed(0)
    start, target = torch.randn(2, 40, 24)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    optimizers = [
        Muon([ours], lr=0.03, weight_decay=0.1),
        torch.optim.Muon([theirs], lr=0.03, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
    ]
    for _ in range(6):
        for weight, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            ((weight - target) ** 2).sum().backward()
            optimizer.step()
    moved = (ours - start).norm()
    assert moved > 0.1
    assert (ours - theirs).norm() < 0.02 * moved  # theirs is in bfloat16


def test_a_convolution_is_a_matrix_of_outputs_by_inputs():
    torch.manual_seed(0)
    kernel = nn.Parameter(torch.randn(32, 8, 3, 3).to(memory_format=torch.channels_last))
    matrix = nn.Parameter(kernel.detach().reshape(32, 72).clone())
    gradient = torch.randn(32, 8, 3, 3)
    kernel.grad, matrix.grad = gradient, gradient.reshape(32, 72)
    Muon([kernel, matrix], lr=0.1, weight_decay=0.0).step()
    torch.testing.assert_close(kernel.reshape(32, 72), matrix)


def test_what_is_no_matrix_is_left_to_others():
    assert suits(torch.zeros(16, 2, 3, 3))
    assert not suits(torch.zeros(48, 1, 3, 3))  # depth-wise
    assert not suits(torch.zeros(1, 48, 3, 3))
    assert not suits(torch.zeros(300))
