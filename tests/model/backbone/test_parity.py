"""Our Depth Anything 3 against the official one: same file, same input, same numbers."""

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from linstereo.checkpoints.da3_weights import UNUSED_KEYS, load_da3_weights, official_key
from linstereo.model.backbone import positions, vit
from linstereo.model.backbone.da3 import DepthAnything3, NativeOutput, build_da3

SIZES = ((70, 98), (112, 56))  # 5 x 7 and 8 x 4 patches
TOLERANCE = 1e-10
VARIANTS = {"vits": "da3-small", "vitb": "da3-base"}


@dataclass
class Pair:
    """Both networks with the same random weights in float64, and what the official one says."""

    official_keys: set[str]
    ours: DepthAnything3
    inputs: dict[tuple[int, int], Tensor]
    expected: dict[tuple[int, int], NativeOutput]


@pytest.fixture(scope="module", params=VARIANTS)
def pair(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    build_official: Callable[[str], Any],
    randomise_parameters: Callable[..., None],
) -> Pair:
    return make_pair(request.param, tmp_path_factory, build_official, randomise_parameters)


@pytest.fixture(scope="module")
def small_pair(
    tmp_path_factory: pytest.TempPathFactory,
    build_official: Callable[[str], Any],
    randomise_parameters: Callable[..., None],
) -> Pair:
    return make_pair("vits", tmp_path_factory, build_official, randomise_parameters)


def make_pair(
    variant: str,
    tmp_path_factory: pytest.TempPathFactory,
    build_official: Callable[[str], Any],
    randomise_parameters: Callable[..., None],
) -> Pair:
    official = build_official(VARIANTS[variant])
    randomise_parameters(official, seed=7)
    state = official.state_dict()

    file = tmp_path_factory.mktemp(variant) / "model.safetensors"
    save_file({f"model.{key}": tensor.clone() for key, tensor in state.items()}, file)
    ours = build_da3(variant)
    load_da3_weights(ours, file)
    file.unlink()

    official.cam_dec = None  # mixes float32 into float64
    official.double()
    ours.double()
    generator = torch.Generator().manual_seed(11)
    inputs = {size: torch.randn(2, 3, *size, generator=generator, dtype=torch.float64) for size in SIZES}
    expected = {size: run_official(official, images) for size, images in inputs.items()}
    return Pair(official_keys=set(state), ours=ours, inputs=inputs, expected=expected)


def run_official(network: Any, images: Tensor) -> NativeOutput:
    """Each image as a scene of one view; reassembled maps are caught behind the resize layers."""
    maps: list[Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _module, _args, output: maps.append(output))
        for layer in network.head.resize_layers
    ]
    with torch.no_grad():
        output = network(images[:, None])
    for hook in hooks:
        hook.remove()
    return NativeOutput(stages=tuple(maps), depth=output.depth, confidence=output.depth_conf)


def relative_difference(ours: Tensor, theirs: Tensor) -> float:
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype == torch.float64
    return float((ours - theirs).abs().max() / theirs.abs().max())


def feature_difference(ours: NativeOutput, theirs: NativeOutput) -> float:
    return max(relative_difference(a, b) for a, b in zip(ours.stages, theirs.stages, strict=True))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_features_of_all_stages_and_depth_equal_the_official_ones(pair: Pair, size: tuple[int, int]) -> None:
    output = pair.ours.native(pair.inputs[size], depth_images=2)
    expected = pair.expected[size]
    assert len(output.stages) == len(expected.stages) == 4
    for ours, theirs in zip(output.stages, expected.stages, strict=True):
        assert theirs.std() > 0.1  # nothing to compare in a constant map
        assert relative_difference(ours, theirs) < TOLERANCE
    assert relative_difference(output.depth, expected.depth) < TOLERANCE
    assert ((output.depth / expected.depth - 1).abs() < TOLERANCE).all()
    assert relative_difference(output.confidence, expected.confidence) < TOLERANCE


def test_the_official_file_has_our_keys_and_beside_them_only_ray_and_camera_parts(pair: Pair) -> None:
    ours = {official_key(key) for key in pair.ours.state_dict()}
    assert ours <= pair.official_keys
    left_over = pair.official_keys - ours
    assert all(UNUSED_KEYS.fullmatch(key) for key in left_over)
    assert not any(UNUSED_KEYS.fullmatch(key) for key in ours)
    assert (len(pair.official_keys), len(ours), len(left_over)) == (443, 269, 174)


@pytest.fixture
def mutant(small_pair: Pair) -> Iterator[DepthAnything3]:
    """A copy of our network to make a mistake in; tables made with a mistake are forgotten afterwards."""
    positions.rope_tables.cache_clear()
    positions._axis_embedding.cache_clear()
    yield copy.deepcopy(small_pair.ours)
    positions.rope_tables.cache_clear()
    positions._axis_embedding.cache_clear()


def set_eps(backbone: nn.Module, *, names: tuple[str, ...], eps: float) -> None:
    norms = [module for name, module in backbone.named_modules() if name.endswith(names)]
    assert norms
    for norm in norms:
        norm.eps = eps


def swap_camera_tokens(backbone: DepthAnything3) -> None:
    token = backbone.vit.camera_token
    token.copy_(token.flip(1))


MISTAKES: dict[str, Callable[[DepthAnything3, pytest.MonkeyPatch], None]] = {
    "query and key norm eps": lambda net, _: set_eps(net, names=("q_norm", "k_norm"), eps=1e-6),
    "final norm eps": lambda net, _: set_eps(net, names=("vit.norm",), eps=1e-6),
    "head norm eps": lambda net, _: set_eps(net, names=("head.norm",), eps=1e-6),
    "block norm eps": lambda net, _: set_eps(net, names=("norm1", "norm2"), eps=1e-5),
    "source camera token": lambda net, _: swap_camera_tokens(net),
    "tanh GELU": lambda _, patch: patch.setattr(F, "gelu", lambda x, gelu=F.gelu: gelu(x, approximate="tanh")),
    "RoPE base": lambda _, patch: patch.setattr(positions, "ROPE_BASE", 10000.0),
    "true positions in global blocks": lambda _, patch: patch.setattr(
        vit,
        "rope_tables",
        lambda *size, tables=vit.rope_tables: tables(*size)._replace(shared=tables(*size).local),
    ),
    "position grid offset": lambda _, patch: patch.setattr(positions, "GRID_OFFSET", 0.11),
    "head position weight": lambda _, patch: patch.setattr(positions, "UV_WEIGHT", 0.0),
    "head position base": lambda _, patch: patch.setattr(positions, "UV_BASE", 10000.0),
}


def test_without_a_mistake_the_copy_agrees(small_pair: Pair, mutant: DepthAnything3) -> None:
    output = mutant.native(small_pair.inputs[SIZES[0]], depth_images=2)
    assert feature_difference(output, small_pair.expected[SIZES[0]]) < TOLERANCE


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_small_mistake_would_be_seen(
    small_pair: Pair, mutant: DepthAnything3, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    MISTAKES[mistake](mutant, monkeypatch)
    output = mutant.native(small_pair.inputs[SIZES[0]], depth_images=2)
    assert feature_difference(output, small_pair.expected[SIZES[0]]) > 1000 * TOLERANCE


def test_position_embedding_is_resized_like_the_official_one(build_official: Callable[[str], Any]) -> None:
    transformer = build_official("da3-small").backbone.pretrained
    with torch.no_grad():
        embedding = torch.randn(transformer.pos_embed.shape)
        transformer.pos_embed.copy_(embedding)
        for rows, cols in ((37, 37), (37, 36), (1, 2), (30, 40), (68, 120)):
            tokens = torch.empty(1, 1 + rows * cols, embedding.shape[2])
            expected = transformer.interpolate_pos_encoding(tokens, 14 * rows, 14 * cols)
            ours = positions.resize_position_embedding(embedding, rows, cols)
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-6)


def test_a_missing_oracle_fails_on_ci_and_skips_elsewhere(
    import_oracle: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("depth_anything_3", "depth_anything_3.cfg", "depth_anything_3.registry"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not importable"):
        import_oracle()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="not importable"):
        import_oracle()
