"""What is made of what PyTorch says of a processor."""

import pytest
import torch

from linstereo.model.processor import is_amd_with_avx512, is_zen5


@pytest.mark.parametrize(
    ("capabilities", "amd", "zen5"),
    [
        ({"cpu_name": "AMD EPYC", "avx512_f": True, "avx512_vp2intersect": True}, True, True),
        ({"cpu_name": "AMD EPYC", "avx512_f": True, "avx512_vp2intersect": False}, True, False),
        ({"cpu_name": "AMD Ryzen 5 3600", "avx512_f": False}, False, False),
        ({"cpu_name": "Intel(R) Xeon(R)", "avx512_f": True, "avx512_vp2intersect": True}, False, False),
        ({}, False, False),
    ],
)
def test_rules(capabilities, amd, zen5, processor):
    processor(**capabilities)
    assert (is_amd_with_avx512(), is_zen5()) == (amd, zen5)


def test_a_pytorch_that_cannot_tell(processor, monkeypatch):
    processor()
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert (is_amd_with_avx512(), is_zen5()) == (False, False)
