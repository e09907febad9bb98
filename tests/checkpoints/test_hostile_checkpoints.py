"""Settings and headers of checkpoints are judged before anything is built from them: no gigabytes, no waiting."""

import dataclasses
import json
import subprocess
import sys
import typing
from pathlib import Path

import pytest
import torch
from tests.checkpoints import hostile_checkpoints
from tests.waiting import PATIENCE

from linstereo import InputError, LinStereo
from linstereo.checkpoints.checkpoint import bundled_weights, read_config
from linstereo.model.presets import CHOICES, PRESETS, RANGES, LinStereoConfig

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited in Linux's own way")
NAMES = [
    *hostile_checkpoints.SETTINGS,
    "nested settings", "nested value", "overflowing number", "number of 10000 digits", "settings are a list",
    "settings are null", "settings are empty", "no settings", "no metadata", "metadata as list", "metadata as numbers",
    "nested header", "header of 2**63 bytes", "header of 90 MB", "header of 4 MB", "shape as text", "shape negative",
    "shape enormous", "offsets enormous", "entry is a list", "empty", "eight zeros", "a terabyte", "pipe", "folder",
    "device",
]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    command = [sys.executable, hostile_checkpoints.__file__, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == set(NAMES)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_forged_checkpoint_is_one_sentence_and_costs_little(results, name):
    result = results[name]
    assert result["refused"], result["message"]
    assert result["path"] in result["message"]
    assert "\n" not in result["message"]
    assert len(result["message"]) < 500
    assert result["grown"] < 150e6


def test_the_message_names_the_setting_its_value_and_the_range(results):
    assert "heads is 0; use a whole number from 1 to 64" in results["no heads"]["message"]
    assert "mlp_ratio is nan; use a number from 0.125 to 16" in results["mlp_ratio nan"]["message"]
    assert "position_encoding is 'false'; use true or false" in results["boolean as text"]["message"]
    assert "not a regular file" in results["pipe"]["message"]


def test_every_number_has_a_range_and_every_name_its_choices():
    hints = typing.get_type_hints(LinStereoConfig)
    assert {name for name, kind in hints.items() if kind in (int, float)} == set(RANGES)
    assert {name for name, kind in hints.items() if kind not in (int, float, bool)} == set(CHOICES)


@pytest.mark.parametrize("name", RANGES)
def test_a_preset_lies_far_inside_the_ranges(name):
    low, high = RANGES[name]
    for config in PRESETS.values():
        assert low <= getattr(config, name) <= high / 2 or name == "scales"


def test_settings_can_be_checked_without_a_checkpoint():
    with pytest.raises(InputError, match="heads is 0; use a whole number from 1 to 64"):
        LinStereoConfig(heads=0)
    with pytest.raises(InputError, match="hidden is 50; with 4 heads use a multiple of 16"):
        LinStereoConfig(hidden=50)
    with pytest.raises(InputError, match=r"together ask for some 1e\+09 weights"):
        LinStereoConfig(hidden=1024, blocks=32, mlp_ratio=16)
    assert LinStereoConfig(mlp_ratio=2) == LinStereoConfig()


def test_a_checkpoint_from_before_a_setting_existed_has_its_default(tmp_path):
    header, data = hostile_checkpoints.header_of(bundled_weights())
    settings = json.loads(header["__metadata__"]["config"])
    defaults = {field.name: field.default for field in dataclasses.fields(LinStereoConfig)}
    later = [name for name, value in settings.items() if value == defaults[name]]
    assert len(later) > 5
    for name in later:
        del settings[name]
    old = tmp_path / "old.safetensors"
    metadata = {"format": "linstereo/1", "config": json.dumps(settings)}
    old.write_bytes(hostile_checkpoints.content(header | {"__metadata__": metadata}, data=data))
    config, file = read_config(old)
    assert (config, file) == (read_config(bundled_weights())[0], old)
    weights = LinStereo.from_pretrained(old).state_dict()
    bundled = LinStereo.from_pretrained("compact").state_dict()
    assert all(torch.equal(weights[key], value) for key, value in bundled.items())
