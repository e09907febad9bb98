"""A tiny Depth Anything 3, its weights as an official file would hold them, and the official code itself."""

import importlib.metadata
import os
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from linstereo.checkpoints.da3_weights import official_key
from linstereo.model.backbone.da3 import DA3Config, DepthAnything3

TINY = DA3Config(name="a tiny one", dim=32, heads=2, stage_channels=(8, 12, 16, 20), fusion_channels=16)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def randomise(module: nn.Module, *, seed: int) -> None:
    """Give every parameter, norms, tokens and layer scales included, a value no other network would have."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith(("cls_token", "camera_token", "pos_embed")):
                parameter.copy_(0.5 * noise)
            elif parameter.ndim == 1:
                parameter.copy_(parameter + 0.2 * noise)
            else:
                parameter.copy_(noise / parameter[0].numel() ** 0.5)


@pytest.fixture(scope="session")
def randomise_parameters() -> Callable[..., None]:
    return randomise


@pytest.fixture
def tiny() -> DepthAnything3:
    """A fresh tiny backbone with every parameter randomised."""
    backbone = DepthAnything3(TINY)
    randomise(backbone, seed=1)
    return backbone


@pytest.fixture
def other_tiny() -> DepthAnything3:
    """Another one with the same sizes and other weights."""
    backbone = DepthAnything3(TINY)
    randomise(backbone, seed=2)
    return backbone


@pytest.fixture
def official_weights(tiny: DepthAnything3) -> dict[str, Tensor]:
    """The weights of `tiny` under official names, with ray and camera parts beside them."""
    weights = {f"model.{official_key(key)}": tensor.clone() for key, tensor in tiny.state_dict().items()}
    for unused in (
        "cam_enc.trunk.0.norm1.weight",
        "cam_dec.fc_t.bias",
        "head.scratch.refinenet3_aux.resConfUnit1.conv1.weight",
        "head.scratch.output_conv1_aux.0.0.weight",
        "head.scratch.output_conv2_aux.3.5.bias",
    ):
        weights[f"model.{unused}"] = torch.zeros(3)
    return weights


def _import_oracle() -> tuple[ModuleType, ModuleType]:
    os.environ.setdefault("DA3_LOG_LEVEL", "ERROR")  # it prints to stdout otherwise
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it calls deprecated functions of omegaconf and torch
            import depth_anything_3.cfg as cfg
            import depth_anything_3.registry as registry
    except ImportError as error:
        message = (
            f"the official Depth Anything 3 code is not importable ({error}); install it with "
            "pip install --no-deps depth-anything-3==0.1.1"
        )
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return cfg, registry


@pytest.fixture(scope="session")
def import_oracle() -> Callable[[], tuple[ModuleType, ModuleType]]:
    """Import the official code; where it is missing, skip, but fail on continuous integration."""
    return _import_oracle


@pytest.fixture(scope="session")
def build_official() -> Callable[[str], Any]:
    """Build an official network by its registry name, in eval mode."""

    def build(name: str) -> Any:
        cfg, registry = _import_oracle()
        assert importlib.metadata.version("depth-anything-3") == "0.1.1"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it imports more while it builds
            return cfg.create_object(cfg.load_config(registry.MODEL_REGISTRY[name])).eval()

    return build
