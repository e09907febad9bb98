"""What is said about the machine."""

import os
import platform

import pytest
import torch

from linstereo.efficiency.machine import LoadMeter, describe_machine


def write_stat(root, busy_seconds, idle_seconds):
    """All processors together, in the system's ticks; the work is user time but for a second of each other kind."""
    tick = os.sysconf("SC_CLK_TCK")
    ticks = [(busy_seconds - 5) * tick, tick, tick, idle_seconds * tick, 0, tick, tick, tick, 0, 0]
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/stat").write_text(f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2 3 4\n")


def test_share_of_others_is_what_is_neither_idle_nor_ours(tmp_path, monkeypatch):
    own = iter([(1.0, 0.0, 0.0, 0.0, 0.0), (8.0, 1.0, 2.0, 0.0, 0.0)])  # ten seconds, children included
    monkeypatch.setattr(os, "times", lambda: next(own))
    write_stat(tmp_path, busy_seconds=100, idle_seconds=100)
    meter = LoadMeter(tmp_path)
    write_stat(tmp_path, busy_seconds=140, idle_seconds=160)
    assert meter.load().others_percent == pytest.approx(30.0)  # 100 s in all, 40 busy, 10 ours


def test_share_is_never_negative(tmp_path, monkeypatch):
    own = iter([(0.0,) * 5, (50.0, 0.0, 0.0, 0.0, 0.0)])
    monkeypatch.setattr(os, "times", lambda: next(own))
    write_stat(tmp_path, busy_seconds=100, idle_seconds=100)
    meter = LoadMeter(tmp_path)
    write_stat(tmp_path, busy_seconds=140, idle_seconds=160)
    assert meter.load().others_percent == 0.0


@pytest.mark.parametrize("content", [None, "", "intr 1 2 3\n", "cpu a b c d e\n", "cpu 1 2\n"])
def test_elsewhere_the_share_is_unknown(tmp_path, content):
    if content is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/stat").write_text(content)
    assert LoadMeter(tmp_path).load().others_percent is None


def test_a_system_without_load_average(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "getloadavg", raising=False)
    assert LoadMeter(tmp_path).load().load_average is None


def test_description_names_the_processor_but_not_the_machine(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nmodel name\t: Quick CPU 9000\n")
    described = describe_machine(torch.device("cpu"), tmp_path)
    assert described["processor"] == "Quick CPU 9000"
    assert described["threads"] == torch.get_num_threads()
    assert platform.node() not in described.values()
