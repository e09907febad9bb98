"""Whole sessions: what is written, what is left out, going on after a stop, and the parts as a benchmark reads them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.tank.pictures import CALIBRATION, TARGET, random_view, straight_view

from linstereo.cli import main
from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.formats.calibration_files import write_calibration
from linstereo.data.formats.images import read_image, write_image
from linstereo.data.formats.png import read_png_values
from linstereo.errors import InputError
from linstereo.evaluation.protocol import get_protocol, score_sample
from linstereo.evaluation.runner import open_benchmark
from linstereo.evaluation.scores import ImageScore
from linstereo.tank import session as session_module
from linstereo.tank.session import SessionSettings, summary, write_session
from linstereo.tank.target import write_target


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Three pairs: a good one, one without any tag, and another good one; and the target."""
    root = tmp_path_factory.mktemp("session")
    good, other = straight_view(), random_view(1)
    blank = np.full_like(good.left, 90)
    for folder in ("left", "right"):
        (root / "pairs" / folder).mkdir(parents=True)
    for name, left, right in (("a", good.left, good.right), ("b", blank, blank), ("c", other.left, blank)):
        write_image(root / "pairs" / "left" / f"{name}.png", left)
        write_image(root / "pairs" / "right" / f"{name}.png", right)
    write_calibration(root / "pairs" / "calib.json", CALIBRATION)
    write_target(root / "target", TARGET)
    return root


def settings(source, **changes):
    files = {"layout": str(source / "target/tags.json"), "mesh": str(source / "target/target.obj")}
    return SessionSettings(**(files | changes))


@pytest.fixture(scope="module")
def made(source):
    out = source / "root" / "one"
    return out, write_session(source / "pairs", out, settings(source))


def test_accepted_pairs_are_written_and_the_others_listed(source, made):
    out, reports = made
    assert [report.name for report in reports] == ["a", "b", "c"]
    assert [report.reason is None for report in reports] == [True, False, True]
    assert "no tag is seen" in reports[1].reason
    for folder in ("left", "right", "depth", "disparity", "mask", "parts", "overlay"):
        assert sorted(path.stem for path in (out / folder).iterdir()) == ["a", "c"]
    assert (out / "left/a.png").read_bytes() == (source / "pairs/left/a.png").read_bytes()
    text = (out / "report.md").read_text()
    assert "2 of 3 pairs have ground truth" in text
    assert f"* b: {reports[1].reason}" in text
    told = json.loads((out / "report.json").read_text())
    assert told["accepted"] == 2
    assert told["pairs"][1] == {"name": "b", "quality": None, "reason": reports[1].reason}
    assert "rejected: b: no tag is seen" in summary(reports)
    record = json.loads((out / "quality/a.json").read_text())
    assert np.abs(np.array(record["pose"]["translation"]) - straight_view().pose.translation).max() < 1e-3


def test_the_session_is_read_as_the_benchmark_tank(made):
    out, _ = made
    dataset = open_dataset("tank", out.parent)
    assert [dataset.sample_name(index) for index in range(len(dataset))] == ["one/a", "one/c"]
    sample, view = dataset[0], straight_view()
    rigid = (read_png_values(out / "parts/a.png") == 1) & (view.part == 1)
    assert np.median(np.abs(sample.depth - view.depth)[rigid]) < 1e-3
    mask = read_png_values(out / "mask/a.png")
    assert set(np.unique(mask)) <= {0, 128, 255}
    np.testing.assert_array_equal(sample.valid, mask > 0)
    np.testing.assert_allclose(
        sample.disparity[sample.valid], CALIBRATION.focal * CALIBRATION.baseline / sample.depth[sample.valid], rtol=1e-5
    )
    assert read_image(out / "overlay/a.jpg").shape == sample.left.shape


def test_parts_are_scored_apart(made):
    out, _ = made
    whole, frame, rope = (open_dataset("tank", out.parent, split)[0] for split in (None, "frame", "rope"))
    assert (frame.valid | rope.valid).sum() == whole.valid.sum() == frame.valid.sum() + rope.valid.sum()
    parts = read_png_values(out / "parts/a.png")
    np.testing.assert_array_equal(rope.valid, parts == 2)
    prediction = np.where(parts == 2, whole.disparity / np.float32(1.1), whole.disparity)
    protocol = get_protocol("tank")
    scores = [score_sample(protocol, sample, prediction).regions["all"] for sample in (whole, frame, rope)]
    assert scores[1].value("AbsRel") == pytest.approx(0, abs=1e-6)
    assert scores[2].value("AbsRel") == pytest.approx(0.1, abs=1e-4)
    assert 0 < scores[0].value("AbsRel") < 0.05


def test_parts_are_regions_of_the_benchmark(made, tmp_path):
    out, _ = made
    benchmark = open_benchmark("tank", out.parent)
    assert benchmark.protocol.regions == ("all", "frame", "rope")
    sample = benchmark.dataset[0]
    prediction = np.where(sample.parts == 2, sample.disparity / np.float32(1.1), sample.disparity)
    score = score_sample(benchmark.protocol, sample, prediction)
    assert score.regions["frame"].value("AbsRel") == pytest.approx(0, abs=1e-6)
    assert score.regions["rope"].value("AbsRel") == pytest.approx(0.1, abs=1e-4)
    assert score.regions["frame"].pixels + score.regions["rope"].pixels == score.regions["all"].pixels
    assert ImageScore.from_json(score.to_json()) == score
    assert "rope AbsRel" in " ".join(benchmark_report(out.parent, tmp_path))


def benchmark_report(root, folder):
    arguments = ["evaluate", "--benchmark", f"tank={root}", "--method", "sgbm", "--out", str(folder), "--no-pictures"]
    assert main(arguments) == 0
    return (folder / "report.md").read_text().splitlines()


def test_parts_of_a_split_and_missing_parts(made, tmp_path):
    out, _ = made
    root = tmp_path / "root"
    shutil.copytree(out.parent, root)
    (root / "splits").mkdir()
    (root / "splits/near.txt").write_text("one/c\n")
    for split in ("near", "near-rope", "near-frame"):
        dataset = open_dataset("tank", root, split)
        assert [dataset.sample_name(index) for index in range(len(dataset))] == ["one/c"]
    with pytest.raises(InputError, match="there is no split 'far'"):
        open_dataset("tank", root, "far-rope")
    (root / "one/parts/c.png").unlink()
    with pytest.raises(InputError, match=r"parts/c\.png with the parts of one/c is missing"):
        open_dataset("tank", root, "rope")


def test_a_stopped_run_goes_on_and_ends_in_the_same_files(source, made, tmp_path, monkeypatch):
    out, _ = made
    work, worked = session_module._work, []

    def stop_at_third(folder, pair, *rest):
        if pair.name == "c" and not worked.count("stopped"):
            worked.append("stopped")
            raise KeyboardInterrupt
        worked.append(pair.name)
        return work(folder, pair, *rest)

    monkeypatch.setattr(session_module, "_work", stop_at_third)
    again = tmp_path / "one"
    with pytest.raises(KeyboardInterrupt):
        write_session(source / "pairs", again, settings(source))
    told = []
    write_session(source / "pairs", again, settings(source), on_pair=lambda done, total: told.append((done, total)))
    assert worked == ["a", "b", "stopped", "c"]
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    for path in sorted(out.rglob("*")):
        if path.is_file():
            assert (again / path.relative_to(out)).read_bytes() == path.read_bytes(), path


def test_a_changed_picture_is_worked_on_again(source, tmp_path):
    pairs = tmp_path / "pairs"
    shutil.copytree(source / "pairs", pairs)
    for side in ("left", "right"):
        for name in "bc":
            (pairs / side / f"{name}.png").unlink()
    out = tmp_path / "out"
    assert write_session(pairs, out, settings(source))[0].reason is None
    shutil.copy(source / "pairs/left/b.png", pairs / "left/a.png")
    with pytest.raises(InputError, match="none of the 1 pairs gave ground truth: a: no tag is seen"):
        write_session(pairs, out, settings(source))
    assert not list(out.glob("left/*"))
    assert not list(out.glob("depth/*"))


def test_other_settings_and_full_folders_are_refused(source, made, tmp_path):
    out, _ = made
    with pytest.raises(InputError, match=r"\(the content of mesh has changed\); use the same settings, or"):
        write_session(source / "pairs", out, settings(source, mesh=str(source / "target/target.stl")))
    (tmp_path / "full").mkdir()
    (tmp_path / "full/holiday.jpg").write_bytes(b"x")
    with pytest.raises(InputError, match=r"is not empty and holds no settings\.json"):
        write_session(source / "pairs", tmp_path / "full", settings(source))
    with pytest.raises(InputError, match="is the folder of the pictures themselves"):
        write_session(source / "pairs", source / "pairs", settings(source))


def test_nothing_is_written_with_a_mesh_in_the_wrong_unit(source, tmp_path):
    with pytest.raises(InputError, match="off the surface of the mesh"):
        write_session(source / "pairs", tmp_path / "out", settings(source, unit="mm"))
    assert not (tmp_path / "out").exists()


def test_calibrations(source, tmp_path):
    pairs = tmp_path / "pairs"
    shutil.copytree(source / "pairs", pairs)
    (pairs / "calib.json").unlink()
    with pytest.raises(InputError, match="has no calibration; add"):
        write_session(pairs, tmp_path / "out", settings(source))
    (pairs / "calib").mkdir()
    for name in "abc":
        write_calibration(pairs / "calib" / f"{name}.json", CALIBRATION)
    write_session(pairs, tmp_path / "one", settings(source))
    assert sorted(path.name for path in (tmp_path / "one/calib").iterdir()) == ["a.json", "c.json"]
    shutil.rmtree(pairs / "calib")
    given = settings(source, calibration=str(source / "pairs/calib.json"))
    assert write_session(pairs, tmp_path / "two", given)[0].reason is None


def test_the_example_of_the_documentation(tmp_path):
    example = Path(__file__).resolve().parents[2] / "examples" / "tank"
    files = {"layout": str(example / "target/tags.json"), "mesh": str(example / "target/target.stl")}
    reports = write_session(example, tmp_path / "out", SessionSettings(**files))
    assert [report.reason for report in reports] == [None, None]
    assert all(report.quality["depth_error"] < 1e-3 for report in reports)
    assert all(abs(report.quality["disparity_difference"]) < 0.3 for report in reports)
