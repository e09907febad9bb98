"""Checkpoints of the whole network: what is in them, and what is refused."""

import dataclasses
import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs

from linstereo.checkpoints.da3_weights import official_key
from linstereo.errors import InputError
from linstereo.model.backbone import build_da3
from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import build, preset


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(5)
    model = build(TINY, backbone=TinyBackbone())
    with torch.no_grad():
        for parameter in model.trained_parameters().values():
            parameter.add_(0.01 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture
def checkpoint(trained, tmp_path):
    return trained.save_pretrained(tmp_path)


def test_what_is_saved_comes_back_bit_for_bit(trained, checkpoint):
    again = LinStereo.from_pretrained(checkpoint, backbone=TinyBackbone())
    assert again.config == trained.config
    assert not again.training
    left, right, _ = synthetic_pairs(1)
    with torch.no_grad():
        assert torch.equal(again(left, right, iters=3), trained(left, right, iters=3))


def test_a_folder_stands_for_the_checkpoint_in_it(checkpoint):
    assert LinStereo.from_pretrained(checkpoint.parent, backbone=TinyBackbone()).config == TINY


def test_the_file_holds_the_trained_part_and_the_settings_only(trained, checkpoint):
    assert set(load_file(checkpoint)) == set(trained.trained_parameters())
    with safe_open(checkpoint, framework="pt") as file:
        assert json.loads(file.metadata()["config"]) == dataclasses.asdict(TINY)
    assert [p.name for p in checkpoint.parent.iterdir()] == ["linstereo.safetensors"]


def test_the_official_backbone_is_loaded_beside_the_trained_part(tmp_path):
    torch.manual_seed(0)
    model = build(preset("small"))
    official = {"model." + official_key(k): v for k, v in build_da3("vits").state_dict().items()}
    save_file(official, tmp_path / "model.safetensors")
    again = LinStereo.from_pretrained(model.save_pretrained(tmp_path), backbone_weights=tmp_path)
    for name, parameter in again.state_dict().items():
        if name.startswith("backbone."):
            source = official["model." + official_key(name.removeprefix("backbone."))]
            assert torch.equal(parameter, source)
        else:
            assert torch.equal(parameter, model.state_dict()[name])


def rewrite(checkpoint, change_tensors=lambda t: t, **metadata):
    with safe_open(checkpoint, framework="pt") as file:
        header = file.metadata() | metadata
    save_file(change_tensors(load_file(checkpoint)), checkpoint, metadata=header)


def test_a_checkpoint_from_before_the_inlier_share_follows_the_papers_rule(checkpoint):
    settings = dataclasses.asdict(TINY)
    del settings["prior_inlier_share"]
    rewrite(checkpoint, config=json.dumps(settings))
    assert LinStereo.from_pretrained(checkpoint, backbone=TinyBackbone()).config.prior_inlier_share == 0


def drop(tensors):
    tensors.pop("residual_head.out.weight")
    return tensors


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda c: c.write_bytes(c.read_bytes()[:-100]), "cut short"),
        (lambda c: c.write_bytes(b""), "cut short"),
        (lambda c: torch.save({}, c), "pickled"),
        (lambda c: c.unlink(), "holds no linstereo.safetensors"),
        (lambda c: rewrite(c, drop), "lacks residual_head.out.weight"),
        (
            lambda c: rewrite(c, lambda t: t | {"residual_head.out.bias": torch.zeros(2)}),
            r"residual_head.out.bias .*\(2,\)",
        ),
        (lambda c: rewrite(c, lambda t: t | {"extra": torch.zeros(2)}), "do not belong to this model: extra"),
        (lambda c: rewrite(c, lambda t: t | {"residual_head.out.bias": torch.tensor([torch.nan])}), "NaN"),
        (lambda c: rewrite(c, format="other/1"), "not a LinStereo checkpoint"),
        (lambda c: rewrite(c, config="{"), "settings that cannot be used"),
        (lambda c: rewrite(c, config='{"hidden": "wide"}'), "settings that cannot be used"),
        (lambda c: rewrite(c, config='{"backbone": "vitz"}'), "'vitz'; use vitb or vits"),
        (lambda c: rewrite(c, config='{"depth": 3}'), "settings that cannot be used"),
    ],
)
def test_a_bad_checkpoint_is_refused_in_one_sentence(checkpoint, change, complaint):
    change(checkpoint)
    with pytest.raises(InputError, match=complaint) as caught:
        LinStereo.from_pretrained(checkpoint.parent, backbone=TinyBackbone())
    assert str(checkpoint.parent) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_failed_save_leaves_the_old_checkpoint(trained, checkpoint, monkeypatch):
    before = checkpoint.read_bytes()

    def fail(weights, path, metadata):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("linstereo.checkpoints.checkpoint.save_file", fail)
    with pytest.raises(InputError, match="disk full"):
        trained.save_pretrained(checkpoint.parent)
    assert checkpoint.read_bytes() == before
    assert len(list(checkpoint.parent.iterdir())) == 1
