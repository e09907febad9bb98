"""A processor of the test's choice."""

import pytest
import torch

from linstereo.model import fast_paths, processor

RULES = (processor.is_amd_with_avx512, processor.is_zen5, fast_paths._products_by_onednn)


@pytest.fixture(name="processor")
def pretended_processor(monkeypatch):
    """Sets what PyTorch says of the processor: `processor(cpu_name="AMD EPYC", avx512_f=True)`."""

    def forget():
        for rule in RULES:
            rule.cache_clear()

    def pretend(**capabilities):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
        forget()

    yield pretend
    monkeypatch.undo()
    forget()
