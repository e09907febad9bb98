import json

import numpy as np
import pytest

from linstereo.data.formats.disparity import read_disparity, write_disparity
from linstereo.errors import InputError
from linstereo.synthesis.seastereo.plan import all_configurations
from linstereo.synthesis.seastereo.render import Job, LocalFarm, RenderSettings, render_plan
from linstereo.synthesis.seastereo.verify import verify

ONE = [c for c in all_configurations(0) if c.name == "t3_f24_b120_IB_shallow_1"]


@pytest.fixture
def data(tmp_path, fake_blender):
    settings = RenderSettings(height=36, width=48)
    render_plan(
        tmp_path / "out",
        settings,
        ONE,
        frames=2,
        runner=LocalFarm(1),
        job=lambda root: Job(root=root, settings=settings, blender=str(fake_blender)),
    )
    assert verify(tmp_path / "out").problems == []
    return tmp_path / "out" / ONE[0].name


def rewrite(path, change):
    """Change a file and its checksum, as a wrong renderer would."""
    import hashlib

    change(path)
    info = path.parent.parent / "info" / f"{path.stem}.json"
    content = json.loads(info.read_text())
    content["sha256"][path.parent.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    info.write_text(json.dumps(content))


def test_missing_frames_are_counted_not_wrong(data):
    (data / "info" / "000039.json").unlink()
    findings = verify(data.parent)
    assert (findings.expected, findings.present, findings.missing, findings.problems) == (2, 1, 1, [])


def test_damage_is_found(data):
    (data / "left" / "000000.png").unlink()
    depth = data / "depth" / "000039.exr"
    depth.write_bytes(depth.read_bytes()[:-1] + b"x")
    problems = verify(data.parent).problems
    assert len(problems) == 2
    assert "000000.png is missing" in problems[0]
    assert "000039.exr is not what was written" in problems[1]


def test_frames_that_nobody_asked_for_are_found(data):
    (data / "info" / "000007.json").write_text("{}")
    assert "not in plan.json" in verify(data.parent).problems[0]


def test_a_wrong_disparity_is_found(data):
    def enlarge(path):
        write_disparity(path, 1.001 * read_disparity(path))

    rewrite(data / "disparity" / "000000.pfm", enlarge)
    problems = verify(data.parent).problems
    assert any("focal length times baseline" in problem for problem in problems)


def test_views_that_disagree_are_found(data):
    def shift(path):
        write_disparity(path, np.roll(read_disparity(path), 5, axis=0))

    rewrite(data / "disparity_right" / "000000.pfm", shift)
    assert any("differ" in problem or "same places" in problem for problem in verify(data.parent).problems)


def test_a_camera_in_a_rock_and_overlapping_objects_are_found(data):
    scene = json.loads((data / "scene.json").read_text())
    huge = {"name": "rock", "role": "object", "low": [-99] * 3, "high": [99] * 3, "velocity": [0, 0, 0]}
    (data / "scene.json").write_text(json.dumps({**scene, "things": [*scene["things"], huge]}))
    problems = verify(data.parent).problems
    assert any("a camera is in the rock" in problem for problem in problems)
    assert any("and rock overlap" in problem for problem in problems)


def test_metadata_that_lack_something_are_found(data):
    path = data / "info" / "000000.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in content.items() if key != "intrinsics"}))
    scene = json.loads((data / "scene.json").read_text())
    (data / "scene.json").write_text(json.dumps({**scene, "things": [{"name": "rock"}]}))
    problems = verify(data.parent).problems
    assert len(problems) == 2
    assert all("lack something" in problem for problem in problems)


def test_another_folder_is_told(tmp_path):
    with pytest.raises(InputError, match=r"holds no settings\.json"):
        verify(tmp_path)
