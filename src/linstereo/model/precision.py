"""What stays in single precision when the network computes in half precision.

Convolutions and matrix products may run in bfloat16 or float16, under autocast or with weights of that type.
Disparities, positions and sums over many positions may not: bfloat16 has eight bits for a disparity, and float16 ends
at 65504.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""What the network can compute in, by name."""


def at_least_float32(x: Tensor) -> Tensor:
    """`x` in float32 if it is in half precision; itself otherwise."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def without_autocast(device_type: str) -> AbstractContextManager[object]:
    """Compute in the precision of the operands, whatever is set around."""
    if torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()


def without_autocast_cache(device_type: str) -> AbstractContextManager[object]:
    """Let autocast keep no rounded weights.

    Needed around a part without gradients inside of one with them: up to PyTorch 2.10, weights that were rounded under
    `no_grad` are used again after it and then get no gradient (pytorch/pytorch#112583).
    """
    if torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, torch.get_autocast_dtype(device_type), cache_enabled=False)
    return nullcontext()
