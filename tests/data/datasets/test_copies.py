"""Datasets as they lie on people's disks: other folders, other spellings, stray files, sets that are not whole."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.data import layouts
from tests.data.checks import assert_dataset, chosen
from tests.data.datasets.test_errors import MAKERS
from tests.data.writers import write_mat, write_rgb

from linstereo.cli import main
from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.formats.images import read_image
from linstereo.data.formats.mat import mat_names
from linstereo.errors import InputError


@pytest.mark.parametrize("name", list(MAKERS))
def test_stray_folders_and_files_are_passed_over(tmp_path: Path, name: str) -> None:
    root = tmp_path / "data"
    MAKERS[name](root)
    before = open_dataset(name, root)
    names = [before.sample_name(index) for index in range(len(before))]
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    for folder in folders:
        (folder / ".DS_Store").write_bytes(b"\0")
        (folder / "Thumbs.db").write_bytes(b"\0")
        for file in [path for path in folder.iterdir() if path.is_file()]:
            (folder / f"._{file.name}").write_bytes(b"\0")
        if any(path.is_dir() for path in folder.iterdir()):
            write_rgb(folder / "thumbnails" / "im0_small.jpg", np.zeros((8, 8, 3), np.uint8))
            (folder / "empty").mkdir()
        for inside in ("left", "camera_00", "image_left"):  # what would make a scene of it
            (folder / "__MACOSX" / inside).mkdir(parents=True)
        (folder / "__MACOSX" / "im0.png").write_bytes(b"\0")
    after = open_dataset(name, root)
    assert [after.sample_name(index) for index in range(len(after))] == names


def test_a_stray_folder_is_not_recommended(tmp_path: Path) -> None:
    layouts.make_kitti2015(tmp_path / "__MACOSX")
    with pytest.raises(InputError, match="no folder at all"):
        open_dataset("kitti2015", tmp_path)


def make_flat(root: Path, *, inside: str = "") -> dict:
    """The training scenes of ETH3D with their ground truth beside the images."""
    known = layouts.make_eth3d(root)
    target = root / inside
    for scene in list((root / "two_view_training").iterdir()):
        for file in (root / "two_view_training_gt" / scene.name).iterdir():
            shutil.move(file, scene / file.name)
        if not inside:
            shutil.move(scene, target / scene.name)
    shutil.rmtree(root / "two_view_training_gt")
    if not inside:
        (root / "two_view_training").rmdir()
    return known


@pytest.mark.parametrize("inside", ["", "two_view_training"])
def test_eth3d_with_images_and_ground_truth_side_by_side(tmp_path: Path, inside: str) -> None:
    known = chosen(make_flat(tmp_path, inside=inside), "two_view_training")
    dataset = open_dataset("eth3d", tmp_path)
    assert dataset.name == "eth3d/two_view_training"
    assert_dataset(dataset, known)
    # a test scene in the same folder has no ground truth and is none of them
    shutil.copytree(tmp_path / "two_view_testing" / "lakeside_1l", tmp_path / inside / "lakeside_1l")
    assert_dataset(open_dataset("eth3d", tmp_path), known)
    (tmp_path / inside / "terrains_2s" / "mask0nocc.png").unlink()
    with pytest.raises(InputError, match=r"mask0nocc\.png of the scene terrains_2s not found"):
        open_dataset("eth3d", tmp_path)


def test_eth3d_test_scenes_are_not_looked_for_in_a_flat_folder(tmp_path: Path) -> None:
    make_flat(tmp_path)
    shutil.rmtree(tmp_path / "two_view_testing")
    with pytest.raises(InputError, match="'two_view_testing'"):
        open_dataset("eth3d", tmp_path, "test")


def into_points_file(folder: Path, *, scale: float = 1.0) -> None:
    """Put the images of a set into its xyzPoints.mat, as numbers from 0 to 1, and delete their files."""
    from linstereo.data.formats.mat import read_mat

    images = {}
    for variable, prefix in (("imgLeftUndistorted", "LFT"), ("imgRightUndistorted", "RGT")):
        (path,) = folder.glob(f"{prefix}_*.tif")
        images[variable] = scale * read_image(path).astype(np.float64) / 255
        path.unlink()
    points = read_mat(folder / "xyzPoints.mat", names=("xyzPointsLeft",))["xyzPointsLeft"]
    write_mat(folder / "xyzPoints.mat", xyzPointsLeft=points, **images)


def test_squid_sets_with_scene_points_only(tmp_path: Path) -> None:
    known = layouts.make_squid(tmp_path, sets_per_site=2, points=True)
    for folder in (tmp_path / "Nachsholim").glob("image_set_*"):
        into_points_file(folder)
        (folder / "distanceFromCamera.mat").unlink()
        assert [path.name for path in folder.iterdir()] == ["xyzPoints.mat"]
    dataset = open_dataset("squid", tmp_path)
    assert dataset.left_out == ()
    assert_dataset(dataset, known, tolerance=1e-5)
    by_distance = open_dataset("squid", tmp_path, "all-distance")
    assert [text.split(" (")[0] for text in by_distance.left_out] == [
        "Nachsholim/image_set_01",
        "Nachsholim/image_set_02",
    ]
    assert len(by_distance) == 6


def test_squid_images_that_are_no_colours(tmp_path: Path) -> None:
    layouts.make_squid(tmp_path, points=True)
    into_points_file(tmp_path / "Satil" / "image_set_01", scale=255.0)
    with pytest.raises(InputError, match=r"colours from 0 to 1 in imgLeftUndistorted"):
        open_dataset("squid", tmp_path, "satil")[0]


@pytest.mark.parametrize(
    ("site", "spelt"), [("Nachsholim", "Nachsolim"), ("Michmoret", "Mikhmoret"), ("Katzaa", "katzaa")]
)
def test_squid_sites_in_other_spellings(tmp_path: Path, site: str, spelt: str) -> None:
    known = layouts.make_squid(tmp_path)
    (tmp_path / site).rename(tmp_path / "moved")
    (tmp_path / "moved").rename(tmp_path / spelt)
    assert_dataset(open_dataset("squid", tmp_path), known, tolerance=1e-5)
    assert_dataset(open_dataset("squid", tmp_path, site.lower()), chosen(known, site), tolerance=1e-5)


ODD = {
    "no right image": lambda folder: next(folder.glob("RGT_*")).unlink(),
    "two left images": lambda folder: shutil.copy(next(folder.glob("LFT_*")), folder / "LFT_1resizedUndistort.tif"),
    "no images at all": lambda folder: [path.unlink() for path in folder.glob("*.tif")],
    "no ground truth": lambda folder: [path.unlink() for path in folder.glob("*.mat")],
    "empty ground truth": lambda folder: (folder / "xyzPoints.mat").write_bytes(b""),
    "cut ground truth": lambda folder: (folder / "xyzPoints.mat").write_bytes(
        (folder / "xyzPoints.mat").read_bytes()[:-1000]
    ),
    "another variable": lambda folder: write_mat(folder / "xyzPoints.mat", something=np.zeros((2, 2))),
    "nothing": lambda folder: [path.unlink() for path in folder.iterdir()],
}


@pytest.mark.parametrize("what", ODD)
def test_an_odd_squid_set_does_not_stop_the_others(what: str, tmp_path: Path) -> None:
    known = layouts.make_squid(tmp_path, points=True)
    ODD[what](tmp_path / "Michmoret" / "image_set_01")
    dataset = open_dataset("squid", tmp_path)
    assert_dataset(dataset, {n: p for n, p in known.items() if not n.startswith("Michmoret")}, tolerance=1e-5)
    (told,) = dataset.left_out
    assert told.startswith("Michmoret/image_set_01 (")
    assert str(tmp_path / "Michmoret" / "image_set_01") in told
    with pytest.raises(InputError, match=r"none of the 1 sets in .* can be used, such as Michmoret/image_set_01"):
        open_dataset("squid", tmp_path, "michmoret")


def test_evaluate_names_and_counts_the_odd_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layouts.make_squid(tmp_path / "data", points=True)
    ODD["no right image"](tmp_path / "data" / "Michmoret" / "image_set_01")
    out = tmp_path / "out"
    arguments = ["--benchmark", f"squid={tmp_path / 'data'}", "--method", "sgbm", "--no-pictures", "--out", str(out)]
    assert main(["evaluate", *arguments]) == 0
    found = json.loads((out / "results.json").read_text())["benchmarks"]["squid"]
    assert (found["measured"], found["complete"]) == ("3 of 57 pairs", False)
    assert len(found["left_out"]) == 1
    for text in (capsys.readouterr().out, (out / "report.html").read_text()):
        assert "1 pair on disk left out: Michmoret/image_set_01" in text
        assert "SQUID, 3 of 57 pairs" in text


def test_evaluate_goes_on_without_a_set_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layouts.make_squid(tmp_path / "data", points=True)
    points = tmp_path / "data" / "Katzaa" / "image_set_01" / "xyzPoints.mat"
    write_mat(points, xyzPointsLeft=np.zeros((5, 6, 3)))
    out = tmp_path / "out"
    arguments = ["evaluate", "--benchmark", f"squid={tmp_path / 'data'}", "--method", "sgbm", "--out", str(out)]
    for _ in range(2):  # measured, and from the records
        assert main(arguments) == 0
        found = json.loads((out / "results.json").read_text())["benchmarks"]["squid"]
        assert (found["measured"], found["images_measured"], found["images_in_split"]) == ("3 of 57 pairs", 3, 4)
        assert [image["name"].split("/")[0] for image in found["images"]] == ["Michmoret", "Nachsholim", "Satil"]
        assert found["left_out"][0].startswith(f"Katzaa/image_set_01 ({points} is 6 x 5 px but ")
        printed = capsys.readouterr().out
        assert "1 pair on disk left out: Katzaa/image_set_01" in printed
        assert "Measured on 3 images, " in printed
        html = (out / "report.html").read_text()
        assert html.count('<figure class="image">') == 3
        assert all(f"left image of {site}/image_set_01" in html for site in ("Michmoret", "Nachsholim", "Satil"))
    for path in (tmp_path / "data").glob("*/*/xyzPoints.mat"):
        write_mat(path, xyzPointsLeft=np.zeros((5, 6, 3)))
    assert main(arguments) == 2
    assert "squid: none of the images can be read, such as Katzaa/image_set_01: " in capsys.readouterr().err


def test_names_of_variables(tmp_path: Path) -> None:
    write_mat(tmp_path / "a.mat", one=np.zeros((3, 4)), two="text")
    assert mat_names(tmp_path / "a.mat") == ("one", "two")
    for path, content in ((tmp_path / "b.mat", b""), (tmp_path / "c.mat", b"x" * 500)):
        path.write_bytes(content)
        with pytest.raises(InputError, match=path.name):
            mat_names(path)
    with pytest.raises(InputError, match="is no file"):
        mat_names(tmp_path)
