import hashlib
import json
import shutil

import pytest
from tests.synthesis.seastereo.fake_blender import CUBE

from linstereo.data.datasets.seastereo import open_seastereo
from linstereo.errors import InputError
from linstereo.synthesis.seastereo import render as module
from linstereo.synthesis.seastereo.blender_process import BlenderProcess, find_blender
from linstereo.synthesis.seastereo.description import write_description
from linstereo.synthesis.seastereo.plan import all_configurations
from linstereo.synthesis.seastereo.render import Job, LocalFarm, RenderSettings, chosen_frames, render_plan
from linstereo.synthesis.seastereo.scene import build_scene
from linstereo.synthesis.seastereo.verify import verify
from linstereo.synthesis.shards import Shard

SETTINGS = RenderSettings(height=36, width=48)
TWO = [c for c in all_configurations(0) if c.name in ("t1_f24_b120_II_shallow_1", "t4_f35_b120_I_deep_2")]


@pytest.fixture(autouse=True)
def scenes_are_made_once(monkeypatch, tmp_path_factory):
    """Scenes of bundled things are built and described once for all tests, which takes longer than all the rest."""

    def build(configuration, library):
        if library.files():
            return build_scene(configuration, library)
        if configuration not in _SCENES:
            _SCENES[configuration] = build_scene(configuration, library)
        return _SCENES[configuration]

    def describe(folder, scene):
        if _SCENES.get(scene.configuration) is not scene:
            write_description(folder, scene)
            return
        if scene.configuration not in _DESCRIPTIONS:
            _DESCRIPTIONS[scene.configuration] = tmp_path_factory.mktemp("description")
            write_description(_DESCRIPTIONS[scene.configuration], scene)
        shutil.copytree(_DESCRIPTIONS[scene.configuration], folder, dirs_exist_ok=True)

    monkeypatch.setattr(module, "build_scene", build)
    monkeypatch.setattr(module, "write_description", describe)


_SCENES, _DESCRIPTIONS = {}, {}


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


class Stop(Exception):
    """What ends a run in the middle."""


def test_four_workers_and_ten_interruptions_make_no_difference(tmp_path, fake_blender):
    """Stopped ten times after a frame each, in between with Blenders that die as well, and at last left alone."""
    run(tmp_path / "whole", fake_blender, workers=1, frames=21)
    stopped, there = 0, []

    def on_frame(done, total):
        told.append(done)
        if len(told) == 2:
            raise Stop

    for number in range(10):
        told: list[int] = []
        if number % 3 == 1:
            (fake_blender.parent / "die_on").write_text("0 8 21")
        with pytest.raises(Stop):
            run(tmp_path / "many", fake_blender, workers=4, frames=21, on_frame=on_frame)
        stopped += 1
        there.append(told[1])
    assert stopped == 10
    assert there == sorted(set(there))  # every run went on where the last one had stopped
    (fake_blender.parent / "die_on").unlink(missing_ok=True)
    run(tmp_path / "many", fake_blender, workers=4, frames=21)
    assert digests(tmp_path / "whole") == digests(tmp_path / "many")
    assert verify(tmp_path / "many").present == 42


def test_meshes_that_blender_refuses_are_named_and_skipped(tmp_path, fake_blender):
    """They can be read, but not by Blender; every process that meets one comes to the same scene."""
    meshes = tmp_path / "objects"
    meshes.mkdir()
    for name in ("one", "two", "three"):
        (meshes / f"{name}.obj").write_text(CUBE)
    (fake_blender.parent / "refuse").write_text("two.obj")
    settings = RenderSettings(height=36, width=48, objects=str(meshes))
    reports = [
        run(tmp_path / name, fake_blender, settings=settings, configurations=TWO[:1], frames=6, workers=workers)
        for name, workers in (("one", 1), ("two", 2))
    ]
    for report in reports:
        assert report.written == 6
        assert list(report.broken) == [str(meshes / "two.obj")]
        assert "two.obj cannot be used by Blender (RuntimeError: no idea" in report.broken[str(meshes / "two.obj")]
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    scene = json.loads((tmp_path / "one" / TWO[0].name / "scene.json").read_text())
    assert sum(thing["role"] == "object" for thing in scene["things"]) >= 3
    (fake_blender.parent / "refuse").write_text("one.obj two.obj three.obj")
    with pytest.raises(InputError, match="none of the 3 meshes"):
        run(tmp_path / "none", fake_blender, settings=settings, configurations=TWO[:1], frames=1)


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


def test_an_old_blender_is_told(tmp_path):
    blender = tmp_path / "blender"
    blender.write_text('#!/bin/sh\necho \'{"ready": "3.6.5"}\'\ncat\n')
    blender.chmod(0o755)
    with pytest.raises(InputError, match=r"is Blender 3\.6\.5; 4\.2 or newer"):
        BlenderProcess(blender)
