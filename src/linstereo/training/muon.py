"""Muon: gradient descent whose steps have the same length in all directions of a weight matrix.

The momentum of the gradient is replaced by the nearest matrix with orthonormal rows or columns, roughly, so that
directions with small gradients are learned as fast as those with large ones (Jordan et al. 2024). Steps are scaled to
be about as long as AdamW's (Liu et al. 2025), so both take the same learning rate.

`torch.optim.Muon` does the same for matrices only and always in bfloat16, which is slow on CPUs without it; most
weights here are those of convolutions.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
STEP_SIZE = 0.2
"""Root mean square of a step for learning rate 1, about that of AdamW."""
LEAST_SIDE = 16
"""Smaller matrices have too few directions to be worth it."""
_POLYNOMIAL = (3.4445, -4.7750, 2.0315)  # of x, x^3 and x^5; applied five times it takes most of (0, 1] close to 1
_ROUNDS = 5
_TINY = 1e-7


def as_matrix(weight: Tensor) -> Tensor:
    """Weights of a layer as outputs by inputs; a convolution's inputs are channels times positions."""
    return weight.reshape(len(weight), -1)


def suits(weight: Tensor) -> bool:
    """Whether a parameter is a matrix worth this; biases, norms and depth-wise kernels are not."""
    return weight.dim() >= 2 and min(as_matrix(weight).shape) >= LEAST_SIDE


def orthogonalised(matrix: Tensor) -> Tensor:
    """A matrix with the same singular vectors and all singular values near 1."""
    a, b, c = _POLYNOMIAL
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
    x: Tensor = wide / wide.norm().clamp(min=_TINY)
    for _ in range(_ROUNDS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x if wide is matrix else x.mT


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum and decoupled weight decay.

    Args:
        parameters: those that `suits`.
        lr: learning rate, as for AdamW.
        weight_decay: as for AdamW.
    """

    def __init__(self, parameters: Iterable[Tensor], *, lr: float, weight_decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """One step along the gradients of the parameters that have one."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            rate, decay = group["lr"], group["weight_decay"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                momentum = state["momentum"].lerp_(parameter.grad, 1 - MOMENTUM)
                ahead = as_matrix(parameter.grad.lerp(momentum, MOMENTUM))
                direction = orthogonalised(ahead.float())
                length = STEP_SIZE * math.sqrt(max(direction.shape))
                parameter.mul_(1 - rate * decay).sub_(direction.view_as(parameter), alpha=rate * length)
        return loss
