"""Peaks of memory, in a process of their own."""

import dataclasses
import subprocess
import sys

import pytest
import torch

from linstereo.checkpoints.checkpoint import save_checkpoint
from linstereo.efficiency import memory
from linstereo.efficiency.memory import DecoderJob, PartsJob, peak_memory
from linstereo.errors import InputError
from linstereo.model.memory import volume_bytes
from linstereo.model.presets import LinStereoConfig, build

CONFIG = LinStereoConfig(
    backbone="compact", start="correlation", feature_width=16, hidden=16, heads=2, levels=2, radius=2
)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read from /proc")


def decoder_job(height, width, volume="stored"):
    return DecoderJob(
        config=dataclasses.asdict(CONFIG),
        device="cpu",
        precision="float32",
        height=height,
        width=width,
        volume=volume,
        threads=1,
    )


def parts_job(model):
    return PartsJob(
        model=str(model),
        backbone=None,
        device="cpu",
        precision="float32",
        height=96,
        width=128,
        volume="stored",
        iterations=2,
        threads=1,
    )


@linux
def test_stored_volumes_of_a_wide_image_are_in_the_peak():
    """They are large beside all else: 64 x 2048 px."""
    stored, on_the_fly = (peak_memory(decoder_job(64, 2048, kind))["decoder"] for kind in ("stored", "on_the_fly"))
    kept = volume_bytes(CONFIG, 64, 2048)
    assert stored > kept / 2  # the estimate is twice the finest level
    assert on_the_fly < stored


@linux
def test_every_part_has_a_peak(tmp_path):
    torch.manual_seed(0)
    save_checkpoint(build(CONFIG), tmp_path / "tiny.safetensors")
    peaks = peak_memory(parts_job(tmp_path / "tiny.safetensors"))
    assert list(peaks) == ["backbone", "cost volumes", "start", "iterations", "upsampling"]
    assert all(peak >= 0 for peak in peaks.values())
    assert max(peaks.values()) > 0


@linux
def test_what_the_process_finds_wrong_is_told(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.safetensors"):
        peak_memory(parts_job(tmp_path / "nothing.safetensors"))


@linux
def test_a_process_that_is_killed_is_told(monkeypatch):
    killed = subprocess.CompletedProcess([], -9, stdout="", stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: killed)
    with pytest.raises(InputError, match="code -9"):
        peak_memory(decoder_job(64, 96))


def test_elsewhere_nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "clear_refs")
    assert peak_memory(decoder_job(64, 96)) is None
