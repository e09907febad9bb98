"""What kind of processor this is, as far as the faster of two ways depends on it.

Rules go by what the processor is, not by a measurement: a machine shall give the same digits every time.
"""

import functools

import torch


@functools.cache
def is_amd_with_avx512() -> bool:
    """Whether this is AMD's Zen 4 or later, for which PyTorch's matrix products (MKL) use half of the vector width.

    oneDNN uses the whole.
    """
    return _is_amd_with("avx512_f")


@functools.cache
def is_zen5() -> bool:
    """Whether this is AMD's Zen 5, which multiplies so fast that memory cannot keep up with Winograd's transforms.

    oneDNN's convolutions are as fast or faster there.
    """
    return _is_amd_with("avx512_vp2intersect")


def _is_amd_with(instructions: str) -> bool:
    try:
        known = torch.cpu.get_capabilities()
    except (AttributeError, RuntimeError):  # older PyTorch, or a processor that it cannot describe
        return False
    return str(known.get("cpu_name", "")).startswith("AMD") and bool(known.get(instructions))
