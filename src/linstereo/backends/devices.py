"""The device that PyTorch runs a network on."""

import torch

from linstereo.errors import InputError


def pick_device(device: str | torch.device | None) -> torch.device:
    """The device of that name, checked to be usable; for None CUDA if there is one, else the CPU."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"the device {device!r} cannot be used here; use cpu, or leave the choice out") from error
    return chosen
