import contextlib
import hashlib
import json

import pytest

from linstereo.data.datasets.seastereo import open_seastereo
from linstereo.errors import InputError
from linstereo.synthesis.seastereo import render as module
from linstereo.synthesis.seastereo.blender_process import BlenderProcess, find_blender
from linstereo.synthesis.seastereo.plan import all_configurations
from linstereo.synthesis.seastereo.render import Job, LocalFarm, RenderSettings, chosen_frames, render_plan
from linstereo.synthesis.seastereo.verify import verify
from linstereo.synthesis.shards import Shard

SETTINGS = RenderSettings(height=36, width=48)
TWO = [c for c in all_configurations(0) if c.name in ("t1_f24_b120_II_shallow_1", "t4_f35_b120_I_deep_2")]


def run(out, program, *, settings=SETTINGS, configurations=TWO, frames=3, workers=2, shard=None, **more):
    return render_plan(
        out,
        settings,
        configurations,
        frames=frames,
        runner=LocalFarm(workers),
        job=lambda root: Job(root=root, settings=settings, blender=str(program)),
        shard=shard,
        **more,
    )


def digests(root):
    """Checksums of all files of a dataset that hold no times."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.parent.name != "info"
    }


def test_frames_are_spread_over_the_trajectory():
    assert chosen_frames(40) == tuple(range(40))
    assert chosen_frames(1) == (0,)
    assert chosen_frames(3) == (0, 20, 39)
    assert len(set(chosen_frames(17))) == 17


def test_a_rendered_data_set_is_read_and_verified(tmp_path, fake_blender):
    told = []
    report = run(tmp_path / "out", fake_blender, on_frame=lambda done, total: told.append((done, total)))
    assert report.written == 6
    assert report.died == 0
    assert told == [(k, 6) for k in range(7)]
    findings = verify(tmp_path / "out")
    assert (findings.expected, findings.present, findings.checked, findings.problems) == (6, 6, 6, [])
    data = open_seastereo(tmp_path / "out")
    assert len(data) == 6
    sample = data[0]
    assert sample.calibration.baseline == 0.12
    assert sample.valid.any()
    assert sample.occluded.any()
    assert sample.left.shape == (36, 48, 3)
    lines = [line for name in ("train", "val", "test") for line in _lines(tmp_path / "out" / "splits" / f"{name}.txt")]
    assert len(lines) == len(set(lines)) == 6
    info = json.loads((tmp_path / "out" / TWO[0].name / "info" / "000020.json").read_text())
    assert (info["water"], info["depth"], info["baseline"]) == ("II", "shallow", 0.12)
    assert info["floor_depth"] == TWO[0].floor_depth


def _lines(path):
    return path.read_text().splitlines()


def test_a_second_run_has_nothing_to_do_and_more_frames_are_added(tmp_path, fake_blender):
    run(tmp_path / "out", fake_blender)
    before = digests(tmp_path / "out")
    assert run(tmp_path / "out", fake_blender).written == 0
    assert digests(tmp_path / "out") == before
    assert run(tmp_path / "out", fake_blender, frames=2, configurations=TWO[:1]).written == 0
    assert run(tmp_path / "out", fake_blender, frames=5, configurations=TWO[:1]).written == 2
    assert verify(tmp_path / "out").expected == 8


def test_workers_and_interruptions_make_no_difference(tmp_path, fake_blender):
    run(tmp_path / "one", fake_blender, workers=1)

    class Stop(Exception):
        pass

    stopped = 0
    for _ in range(4):
        told: list[int] = []

        def on_frame(done, total, told=told):
            told.append(done)
            if len(told) == 2:
                raise Stop

        with contextlib.suppress(Stop):
            run(tmp_path / "many", fake_blender, workers=2, on_frame=on_frame)
            break
        stopped += 1
    assert stopped > 1
    run(tmp_path / "many", fake_blender, workers=2)
    assert digests(tmp_path / "one") == digests(tmp_path / "many")


def test_shards_add_up_to_the_whole(tmp_path, fake_blender):
    run(tmp_path / "whole", fake_blender)
    written = [run(tmp_path / "shards", fake_blender, shard=Shard(k, 3)).written for k in (1, 2, 3)]
    assert written == [2, 2, 2]
    assert digests(tmp_path / "shards") == digests(tmp_path / "whole")


def test_a_blender_that_dies_loses_nothing(tmp_path, fake_blender):
    (fake_blender.parent / "die_on").write_text("20 0 39 39")
    report = run(tmp_path / "out", fake_blender)
    assert report.written == 6
    assert report.died == 4
    assert verify(tmp_path / "out").problems == []
    log = (fake_blender.parent / "log").read_text().splitlines()
    assert len(log) == len(set(log)) == 6  # none was rendered twice


def test_a_blender_that_is_killed_while_it_starts_loses_nothing(tmp_path, fake_blender):
    (fake_blender.parent / "die_at_start").touch()
    report = run(tmp_path / "out", fake_blender, workers=1, configurations=TWO[:1], frames=1)
    assert (report.written, report.died) == (1, 1)


def test_a_frame_on_which_blender_always_dies_is_named(tmp_path, fake_blender):
    (fake_blender.parent / "die_on").write_text("20 " * 9)
    with pytest.raises(InputError, match=r"died 3 times on frame 20 of t.*something terrible"):
        run(tmp_path / "out", fake_blender, workers=1, configurations=TWO[:1])
    (fake_blender.parent / "die_on").unlink()
    assert run(tmp_path / "out", fake_blender, workers=1, configurations=TWO[:1]).written == 2


def test_what_blender_reports_is_told(tmp_path, fake_blender):
    (fake_blender.parent / "fail").touch()
    with pytest.raises(InputError, match="out of luck"):
        run(tmp_path / "out", fake_blender)


def test_other_settings_are_refused(tmp_path, fake_blender):
    run(tmp_path / "out", fake_blender, frames=1)
    with pytest.raises(InputError, match="width"):
        run(tmp_path / "out", fake_blender, settings=RenderSettings(height=36, width=64))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(InputError, match="not empty"):
        run(tmp_path / "other", fake_blender)


def test_a_full_disk_is_told(tmp_path, fake_blender, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.files, "write_frame", full)
    with pytest.raises(InputError, match="is full"):
        run(tmp_path / "out", fake_blender, frames=1)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"height": 8}, "size 8 x"),
        ({"samples": 0}, "samples is 0"),
        ({"mode": "dry"}, "no water mode"),
    ],
)
def test_settings_out_of_range_are_told(change, told):
    with pytest.raises(InputError, match=told):
        RenderSettings(**change)


def test_no_blender_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINSTEREO_BLENDER", "no-such-program")
    with pytest.raises(InputError, match="no program 'no-such-program'"):
        find_blender()
    monkeypatch.delenv("LINSTEREO_BLENDER")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("linstereo.synthesis.seastereo.blender_process.__file__", str(tmp_path / "a/b/c/d/e.py"))
    with pytest.raises(InputError, match="make blender"):
        find_blender()


def test_a_python_without_bpy_is_told(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'bpy'\" >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(InputError, match="make blender"):
        BlenderProcess(python)
    python.write_text("#!/bin/sh\necho 'ImportError: libX.so.6: cannot open shared object file' >&2\nexit 1\n")
    with pytest.raises(InputError, match="install that library"):
        BlenderProcess(python)
