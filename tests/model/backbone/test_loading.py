"""Official weights: found by path or hub name, and loaded strictly or not at all."""

import re
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import huggingface_hub
import huggingface_hub.constants
import pytest
import torch
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)
from safetensors.torch import save_file
from torch import Tensor

from linstereo.checkpoints.da3_weights import load_da3_weights, official_key, resolve_checkpoint
from linstereo.errors import InputError
from linstereo.model.backbone import DepthAnything3, build_da3
from linstereo.model.backbone.da3 import VIT_B, VIT_S

Weights = dict[str, Tensor]
PROJECTION = "model.head.projects.1.weight"
CLASS_TOKEN = "model.backbone.pretrained.cls_token"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def same_weights(first: DepthAnything3, second: DepthAnything3) -> bool:
    states = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in states)


def refusal(action: Callable[[], object]) -> str:
    """The one sentence an action is refused with."""
    with pytest.raises(InputError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert ". " not in message
    return message


@pytest.mark.parametrize("prefix", ["model.", ""])
@pytest.mark.parametrize("with_unused", [True, False])
def test_official_weights_are_loaded(
    tiny: DepthAnything3,
    other_tiny: DepthAnything3,
    official_weights: Weights,
    file: Path,
    prefix: str,
    with_unused: bool,
) -> None:
    needed = {official_key(key) for key in tiny.state_dict()}
    weights = {key.removeprefix("model."): tensor for key, tensor in official_weights.items()}
    save_file({prefix + key: weights[key] for key in weights if with_unused or key in needed}, file)
    assert not same_weights(tiny, other_tiny)
    load_da3_weights(other_tiny, file)
    assert same_weights(tiny, other_tiny)
    assert not any(parameter.requires_grad for parameter in other_tiny.parameters())


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_take_the_precision_of_the_backbone(
    tiny: DepthAnything3,
    other_tiny: DepthAnything3,
    official_weights: Weights,
    file: Path,
    stored: torch.dtype,
) -> None:
    save_file({key: tensor.to(stored) for key, tensor in official_weights.items()}, file)
    load_da3_weights(other_tiny, file)
    for ours, theirs in zip(other_tiny.parameters(), tiny.parameters(), strict=True):
        assert ours.dtype == torch.float32
        assert torch.equal(ours, theirs.to(stored).float())


def with_nan(tensor: Tensor, value: float) -> Tensor:
    spoiled = tensor.clone()
    spoiled.view(-1)[-1] = value
    return spoiled


SPOILERS: dict[str, tuple[Callable[[Weights], object], str]] = {
    "missing": (lambda w: w.pop(PROJECTION), "lacks head.projects.1.weight of the 269 weights needed"),
    "many missing": (
        lambda w: [w.pop(key) for key in list(w) if "blocks.3." in key],
        "blocks.3.norm1.weight, .* and 11 more of the 269",
    ),
    "misshapen": (
        lambda w: w.update({PROJECTION: w[PROJECTION][:-1].clone()}),
        r"head.projects.1.weight in shape \(11, 64, 1, 1\) instead of \(12, 64, 1, 1\)",
    ),
    "flattened": (
        lambda w: w.update({PROJECTION: w[PROJECTION].flatten()}),
        r"head.projects.1.weight in shape \(768,\) instead of \(12, 64, 1, 1\)",
    ),
    "scalar token": (
        lambda w: w.update({CLASS_TOKEN: torch.tensor(1.0)}),
        r"backbone.pretrained.cls_token in shape \(\) instead of \(1, 1, 32\)",
    ),
    "unexpected": (
        lambda w: w.update({"model.head.extra.weight": torch.zeros(1)}),
        "do not belong to this model: head.extra.weight",
    ),
    "thirteenth block": (
        lambda w: w.update({"model.backbone.pretrained.blocks.12.ls1.gamma": torch.zeros(32)}),
        "do not belong to this model: backbone.pretrained.blocks.12.ls1.gamma",
    ),
    "a name that only looks like an unused part": (
        lambda w: w.update({"model.head.scratch.refinenet5_aux.out_conv.bias": torch.zeros(1)}),
        "do not belong to this model: head.scratch.refinenet5_aux.out_conv.bias",
    ),
    "mixed prefixes": (
        lambda w: w.update({"head.norm.bias": w.pop("model.head.norm.bias")}),
        "lacks .*backbone.pretrained.cls_token",
    ),
    "integers": (
        lambda w: w.update({PROJECTION: w[PROJECTION].to(torch.int32)}),
        "head.projects.1.weight as int32",
    ),
    "8-bit floats": (
        lambda w: w.update({PROJECTION: w[PROJECTION].to(torch.float8_e4m3fn)}),
        "head.projects.1.weight as float8_e4m3fn",
    ),
    "NaN": (
        lambda w: w.update({PROJECTION: with_nan(w[PROJECTION], float("nan"))}),
        "NaN or infinite values in head.projects.1.weight",
    ),
    "infinity": (
        lambda w: w.update({CLASS_TOKEN: with_nan(w[CLASS_TOKEN], float("-inf"))}),
        "NaN or infinite values in backbone.pretrained.cls_token",
    ),
    "another model altogether": (
        lambda w: (w.clear(), w.update({"fc.weight": torch.zeros(2)})),
        "lacks .* of the 269 weights needed",
    ),
    "nothing": (lambda w: w.clear(), "lacks .* of the 269 weights needed"),
}


@pytest.mark.parametrize("spoiler", SPOILERS)
def test_weights_that_do_not_fit_are_refused_and_change_nothing(
    other_tiny: DepthAnything3, official_weights: Weights, file: Path, spoiler: str
) -> None:
    spoil, words = SPOILERS[spoiler]
    spoil(official_weights)
    save_file(official_weights, file)
    before = {key: tensor.clone() for key, tensor in other_tiny.state_dict().items()}
    message = refusal(lambda: load_da3_weights(other_tiny, file))
    assert str(file) in message
    assert re.search(words, message), message
    assert all(torch.equal(before[key], tensor) for key, tensor in other_tiny.state_dict().items())


def test_a_truncated_file_and_a_pickle_are_refused(
    other_tiny: DepthAnything3, official_weights: Weights, file: Path
) -> None:
    save_file(official_weights, file)
    file.write_bytes(file.read_bytes()[:-100])
    assert "cut short" in refusal(lambda: load_da3_weights(other_tiny, file))
    pickled = file.with_suffix(".pth")
    torch.save(official_weights, pickled)
    message = refusal(lambda: load_da3_weights(other_tiny, pickled))
    assert "pickled checkpoint" in message
    assert str(pickled) in message


def test_the_weights_of_another_variant_are_called_by_their_name(file: Path) -> None:
    small = build_da3("vits")
    save_file({f"model.{official_key(key)}": tensor for key, tensor in small.state_dict().items()}, file)
    with torch.device("meta"):
        base = DepthAnything3(VIT_B)
    message = refusal(lambda: load_da3_weights(base, file))
    assert str(file) in message
    assert "holds the weights of DA3-SMALL (ViT-S)" in message
    assert "built on DA3-BASE (ViT-B)" in message
    load_da3_weights(small, file)


def test_the_weights_of_a_large_variant_are_called_by_their_name(file: Path) -> None:
    save_file({CLASS_TOKEN: torch.zeros(1, 1, 1024)}, file)
    with torch.device("meta"):
        small = DepthAnything3(VIT_S)
    assert "DA3-LARGE (ViT-L)" in refusal(lambda: load_da3_weights(small, file))


def test_a_path_is_itself_and_a_folder_stands_for_the_file_in_it(file: Path) -> None:
    file.touch()
    assert resolve_checkpoint(file) == file
    assert resolve_checkpoint(str(file)) == file
    assert resolve_checkpoint(file.parent) == file


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    message = refusal(lambda: resolve_checkpoint(tmp_path))
    assert str(tmp_path) in message
    assert "holds no model.safetensors" in message


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Mock:
    download = Mock()
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub, "get_session", Mock())  # which answers whatever it is asked
    return download


@pytest.mark.parametrize(
    "source", ["absent.safetensors", "weights/absent.safetensors", "weights/absent.pth", "/no/such/place", "DA9"]
)
def test_what_is_neither_a_path_nor_a_hub_name_is_refused(hub: Mock, source: str) -> None:
    message = refusal(lambda: resolve_checkpoint(source))
    assert f"there is no checkpoint {source!r}" in message
    assert "DA3-BASE, DA3-SMALL" in message
    hub.assert_not_called()


@pytest.mark.parametrize("source", ["x" * 300, "~nosuchuser/model", "a\0b"])
def test_what_cannot_be_a_path_is_refused(hub: Mock, source: str) -> None:
    message = refusal(lambda: resolve_checkpoint(source))
    assert "there is no checkpoint" in message
    assert len(message) < 200
    hub.assert_not_called()


def test_a_path_object_is_never_taken_for_a_hub_name(hub: Mock) -> None:
    assert "there is no checkpoint" in refusal(lambda: resolve_checkpoint(Path("depth-anything/DA3-BASE")))
    hub.assert_not_called()


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("depth-anything/DA3-BASE", "depth-anything/DA3-BASE"),
        ("DA3-BASE", "depth-anything/DA3-BASE"),
        ("da3-small", "depth-anything/DA3-SMALL"),
        ("somebody/da3-tuned-v1.1", "somebody/da3-tuned-v1.1"),
    ],
)
def test_hub_names_are_downloaded(hub: Mock, file: Path, name: str, repository: str) -> None:
    hub.return_value = str(file)
    assert resolve_checkpoint(name) == file
    hub.assert_called_once_with(repository, "model.safetensors", local_files_only=False)


def test_weights_are_loaded_through_the_hub(
    hub: Mock, tiny: DepthAnything3, other_tiny: DepthAnything3, official_weights: Weights, file: Path
) -> None:
    save_file(official_weights, file)
    hub.return_value = str(file)
    load_da3_weights(other_tiny, "DA3-BASE")
    assert same_weights(tiny, other_tiny)


def test_what_is_on_disk_goes_before_the_hub(hub: Mock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "DA3-BASE").mkdir()
    (tmp_path / "DA3-BASE" / "model.safetensors").touch()
    monkeypatch.chdir(tmp_path)
    assert resolve_checkpoint("DA3-BASE") == Path("DA3-BASE/model.safetensors")
    hub.assert_not_called()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RepositoryNotFoundError("401\nsecond line", response=Mock()), "no public model"),
        (GatedRepoError("403", response=Mock()), "no public model"),
        (EntryNotFoundError("404"), "has no file model.safetensors"),
        (LocalEntryNotFoundError("offline"), "cannot be reached"),
        (HfHubHTTPError("500\nserver error", response=Mock()), "failed (HfHubHTTPError)"),
        (OSError(28, "No space left on device"), "failed (OSError)"),
        (RuntimeError("transfer broke off"), "failed (RuntimeError)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_hub_errors_become_one_sentence_with_a_remedy(hub: Mock, error: Exception, words: str) -> None:
    hub.side_effect = error
    message = refusal(lambda: resolve_checkpoint("DA3-BASE"))
    assert words in message
    assert "'depth-anything/DA3-BASE'" in message
    assert "path" in message


def test_without_a_network_the_real_hub_client_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert "cannot be reached" in refusal(lambda: resolve_checkpoint("DA3-BASE"))


def test_cached_weights_serve_where_the_hub_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub, "get_session", Mock(side_effect=ConnectionError("refused")))
    commit = "0" * 40
    repository = tmp_path / "models--depth-anything--DA3-BASE"
    cached = repository / "snapshots" / commit / "model.safetensors"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"weights")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    assert resolve_checkpoint("DA3-BASE") == cached


def test_a_name_the_hub_client_rejects_is_understood() -> None:
    assert "no public model 'a..b/c'" in refusal(lambda: resolve_checkpoint("a..b/c"))
