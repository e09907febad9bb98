"""Each dataset reads back a small sample in its official layout, bit by bit, in a fixed order."""

import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.data import layouts
from tests.data.checks import assert_dataset, assert_disparity_warps, assert_same, chosen
from tests.data.writers import write_rgb, write_values

from linstereo.data.datasets.catalogue import dataset_names, open_dataset
from linstereo.data.formats.calibration_files import read_calibration, write_calibration
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.engine import EngineSettings, StereoEngine
from linstereo.synthesis.writer import WriterSettings, write_dataset


def test_names() -> None:
    assert set(dataset_names()) == {
        "sceneflow",
        "kitti2012",
        "kitti2015",
        "middlebury",
        "middlebury2001",
        "middlebury2003",
        "middlebury2005",
        "middlebury2006",
        "eth3d",
        "booster",
        "tartanair-uw",
        "squid",
        "tank",
        "seastereo",
        "folder",
    }


@pytest.mark.parametrize("merged", [False, True])
def test_sceneflow(tmp_path: Path, merged: bool) -> None:
    known = layouts.make_sceneflow(tmp_path, merged=merged)
    things, monkaa, driving = "FlyingThings3D/{}/TRAIN", "Monkaa/{}", "Driving/{}"
    for split, image_pass in (
        (None, "finalpass"),
        ("train", "finalpass"),
        ("train-cleanpass", "cleanpass"),
        ("train-finalpass", "finalpass"),
    ):
        dataset = open_dataset("sceneflow", tmp_path, split)
        expected = chosen(known, *(part.format(image_pass) for part in (things, monkaa, driving)))
        assert len(dataset) == len(expected) == 12
        for index in range(len(dataset)):
            assert_same(dataset[index], expected[dataset.sample_name(index)])
    assert len(open_dataset("sceneflow", tmp_path, "train-bothpasses")) == 24
    assert_dataset(open_dataset("sceneflow", tmp_path, "test"), chosen(known, "FlyingThings3D/finalpass/TEST"))
    assert_dataset(
        open_dataset("sceneflow", tmp_path, "test-cleanpass"), chosen(known, "FlyingThings3D/cleanpass/TEST")
    )
    assert_dataset(
        open_dataset("sceneflow", tmp_path, "flyingthings3d"), chosen(known, "FlyingThings3D/finalpass/TRAIN")
    )
    assert_dataset(open_dataset("sceneflow", tmp_path, "monkaa"), chosen(known, "Monkaa/finalpass"))
    assert_dataset(open_dataset("sceneflow", tmp_path, "driving-cleanpass"), chosen(known, "Driving/cleanpass"))


def test_sceneflow_folder_names_in_any_case(tmp_path: Path) -> None:
    known = layouts.make_sceneflow(tmp_path)
    (tmp_path / "Monkaa").rename(tmp_path / "monkaa")
    assert_dataset(open_dataset("sceneflow", tmp_path, "monkaa"), chosen(known, "Monkaa/finalpass"))


def test_kitti2015(tmp_path: Path) -> None:
    known = layouts.make_kitti2015(tmp_path)
    assert_dataset(open_dataset("kitti2015", tmp_path), chosen(known, "training"), tolerance=0)
    assert_dataset(open_dataset("kitti2015", tmp_path, "training"), chosen(known, "training"))
    assert_dataset(open_dataset("kitti2015", tmp_path, "test"), chosen(known, "testing"))


def test_kitti_without_occlusion_and_calibration(tmp_path: Path) -> None:
    known = layouts.make_kitti2015(tmp_path)
    for folder in ("disp_noc_0", "calib_cam_to_cam"):
        (tmp_path / "training" / folder).rename(tmp_path / folder)
    expected = {name: replace(pair, occluded=None, calibration=None) for name, pair in known.items()}
    assert_dataset(open_dataset("kitti2015", tmp_path), chosen(expected, "training"))


def test_kitti_partial_takes_whatever_ground_truth_a_frame_has(tmp_path: Path) -> None:
    """Frame 0 is whole, frame 1 has only the points both cameras see, frame 2 all points without labels, 3 nothing."""
    known = chosen(layouts.make_kitti2015(tmp_path, frames=4), "training")
    names = sorted(known)
    for folder, frame in (("disp_occ_0", 1), ("disp_noc_0", 2), ("disp_occ_0", 3), ("disp_noc_0", 3)):
        (tmp_path / "training" / folder / f"{frame:06d}_10.png").unlink()
    seen = known[names[1]]
    assert seen.valid is not None
    assert seen.occluded is not None
    assert seen.disparity is not None
    visible = seen.valid & ~seen.occluded
    assert 0 < visible.sum() < seen.valid.sum()
    expected = {
        names[0]: known[names[0]],
        names[1]: replace(
            seen, disparity=np.where(visible, seen.disparity, np.float32(0)), valid=visible, occluded=None
        ),
        names[2]: replace(known[names[2]], occluded=None),
    }
    assert_dataset(open_dataset("kitti2015", tmp_path, "train-partial"), expected)


def test_kitti2012(tmp_path: Path) -> None:
    known = layouts.make_kitti2012(tmp_path)
    assert_dataset(open_dataset("kitti2012", tmp_path), chosen(known, "training"))
    assert_dataset(open_dataset("kitti2012", tmp_path, "testing"), chosen(known, "testing"))
    grey = {
        name: replace(
            pair,
            left=np.repeat(pair.left[..., 1:2], 3, axis=2),
            right=np.repeat(pair.right[..., 1:2], 3, axis=2),
        )
        for name, pair in known.items()
    }
    assert_dataset(open_dataset("kitti2012", tmp_path, "train-grey"), chosen(grey, "training"))
    assert_dataset(open_dataset("kitti2012", tmp_path, "test-grey"), chosen(grey, "testing"))


def test_middlebury(tmp_path: Path) -> None:
    known = layouts.make_middlebury(tmp_path, sizes="HQ")
    assert_dataset(open_dataset("middlebury", tmp_path), chosen(known, "trainingH"))
    assert_dataset(open_dataset("middlebury", tmp_path, "Q"), chosen(known, "trainingQ"))
    assert_dataset(open_dataset("middlebury", tmp_path, "trainingQ"), chosen(known, "trainingQ"))
    assert_dataset(open_dataset("middlebury", tmp_path, "test"), chosen(known, "testH"))
    assert_dataset(open_dataset("middlebury", tmp_path, "testQ"), chosen(known, "testQ"))


@pytest.mark.parametrize("year", [2001, 2003, 2005, 2006])
def test_middlebury_classic(tmp_path: Path, year: int) -> None:
    known = layouts.make_middlebury_classic(tmp_path, year=year)
    assert_dataset(open_dataset(f"middlebury{year}", tmp_path), known)


@pytest.mark.parametrize(("year", "split", "scale"), [(2003, "half", 2), (2005, "half", 2), (2006, "full", 1)])
def test_middlebury_classic_sizes(tmp_path: Path, year: int, split: str, scale: int) -> None:
    known = layouts.make_middlebury_classic(tmp_path, year=year, scale=scale)
    assert_dataset(open_dataset(f"middlebury{year}", tmp_path, split), known)


def test_middlebury_classic_takes_only_the_scenes_of_its_year(tmp_path: Path) -> None:
    """One folder with the scenes of two years, whose disparities have different factors."""
    old = layouts.make_middlebury_classic(tmp_path, year=2001)
    new = layouts.make_middlebury_classic(tmp_path, year=2003)
    assert_dataset(open_dataset("middlebury2001", tmp_path), old)
    assert_dataset(open_dataset("middlebury2003", tmp_path), new)


def test_middlebury_2005_leaves_out_scenes_without_truth(tmp_path: Path) -> None:
    known = layouts.make_middlebury_classic(tmp_path, year=2005)
    for name in ("view1", "view5"):
        write_rgb(tmp_path / "Dwarves" / f"{name}.png", known["Art"].left)
    assert_dataset(open_dataset("middlebury2005", tmp_path), known)


def test_eth3d(tmp_path: Path) -> None:
    known = layouts.make_eth3d(tmp_path)
    assert_dataset(open_dataset("eth3d", tmp_path), chosen(known, "two_view_training"))
    assert_dataset(open_dataset("eth3d", tmp_path, "test"), chosen(known, "two_view_testing"))


def test_booster(tmp_path: Path) -> None:
    known = layouts.make_booster(tmp_path)
    assert_dataset(open_dataset("booster", tmp_path), known)
    assert_dataset(open_dataset("booster", tmp_path, "Q"), known)
    averaged = {
        name: replace(pair, left=pair.left - np.uint8(2), right=pair.right - np.uint8(2))
        for name, pair in known.items()
    }
    assert_dataset(open_dataset("booster", tmp_path, "trainQ-averaged"), averaged)
    full = open_dataset("booster", tmp_path, "F")[0]
    quarter = known[full.name]
    assert full.left.shape == (480, 640, 3)
    np.testing.assert_array_equal(full.disparity[::4, ::4], 4 * quarter.disparity)
    assert full.calibration == layouts.BOOSTER_CALIBRATION
    half = open_dataset("booster", tmp_path, "H")[0]
    np.testing.assert_array_equal(half.disparity[::2, ::2], 2 * quarter.disparity)
    assert not half.disparity[1::2].any()


def test_tartanair(tmp_path: Path) -> None:
    known = layouts.make_tartanair(tmp_path)
    assert_dataset(open_dataset("tartanair-uw", tmp_path), known, tolerance=1e-6)
    assert_dataset(open_dataset("tartanair-uw", tmp_path, "easy"), chosen(known, "ocean/Easy"), tolerance=1e-6)
    assert_dataset(open_dataset("tartanair-uw", tmp_path, "hard"), chosen(known, "ocean/Hard"), tolerance=1e-6)


def test_tartanair_packed_depth(tmp_path: Path) -> None:
    """The same depth as PNG files whose four channels are the bytes of a float, as newer copies have it."""
    known = layouts.make_tartanair(tmp_path)
    for path in tmp_path.glob("ocean/*/*/depth_left/*.npy"):
        depth = np.load(path)
        write_values(path.with_suffix(".png"), depth.astype("<f4")[..., None].view(np.uint8))
        path.unlink()
    assert_dataset(open_dataset("tartanair-uw", tmp_path), known, tolerance=1e-6)


@pytest.mark.parametrize(
    ("disparity", "depth", "calibration"),
    [
        (".pfm", None, "calib.json"),
        (".png", None, None),
        (".npy", ".pfm", "calib.txt"),
        (None, ".npy", "calib.json"),
        (None, None, "calib.txt"),
        (None, None, None),
    ],
)
def test_folder(tmp_path: Path, disparity: str | None, depth: str | None, calibration: str | None) -> None:
    with_truth = disparity is not None or depth is not None
    known = layouts.make_folder(
        tmp_path, disparity=disparity, depth=depth, calibration=calibration, occlusion=with_truth
    )
    assert_dataset(open_dataset("folder", tmp_path), known, tolerance=1e-6)


def test_folder_of_other_image_formats(tmp_path: Path) -> None:
    known = layouts.make_folder(tmp_path)
    for side, suffix in (("left", ".bmp"), ("right", ".tiff")):
        for stem, pair in known.items():
            (tmp_path / side / f"{stem}.png").unlink()
            write_rgb(tmp_path / side / f"{stem}{suffix}", getattr(pair, side))
    (tmp_path / "left" / "notes.txt").write_text("not an image")
    (tmp_path / "left" / ".hidden.png").write_text("not an image")
    assert_dataset(open_dataset("folder", tmp_path), known)


def test_calibration_is_written_and_read_back(tmp_path: Path) -> None:
    calibration = StereoCalibration(focal=720.1, baseline=0.1 / 3, cx=1 / 7, cy=-3.5, doffs=0.3, aspect=1.02)
    write_calibration(tmp_path / "calib.json", calibration)
    assert read_calibration(tmp_path / "calib.json") == calibration


def test_folder_with_a_calibration_for_each_pair(tmp_path: Path) -> None:
    known = layouts.make_folder(tmp_path, disparity=None, depth=".npy")
    (tmp_path / "calib").mkdir()
    for number, (name, sample) in enumerate(known.items(), start=1):
        own = replace(sample.calibration, baseline=0.1 * number)
        write_calibration(tmp_path / "calib" / f"{name}.json", own)
        factor = own.baseline / sample.calibration.baseline
        known[name] = replace(sample, calibration=own, disparity=(sample.disparity * factor).astype(np.float32))
    assert_dataset(open_dataset("folder", tmp_path), known, tolerance=1e-4)
    (tmp_path / "calib.json").unlink()
    assert_dataset(open_dataset("folder", tmp_path), known, tolerance=1e-4)
    (tmp_path / "calib" / f"{next(iter(known))}.json").unlink()
    with pytest.raises(InputError, match=r"the calibration \(\.json, \.txt\) of '0000' not found in .*calib"):
        open_dataset("folder", tmp_path)


def test_folder_split(tmp_path: Path) -> None:
    known = layouts.make_folder(tmp_path)
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / "mine.txt").write_text("0002\n\n0000\r\n")
    dataset = open_dataset("folder", tmp_path, "mine")
    assert [dataset.sample_name(index) for index in range(len(dataset))] == ["0002", "0000"]
    assert_same(dataset[0], known["0002"])


def test_folder_in_a_mirror(tmp_path: Path) -> None:
    """The right camera as the left one, of rendered pairs, whose right disparity is exact."""
    settings = EngineSettings(height=96, width=160, underwater=0, noisy=0, margins=0, kind="posters")
    write_dataset(tmp_path, WriterSettings(engine=settings, seed=5), count=2)
    engine = StereoEngine(settings)
    dataset = open_dataset("folder", tmp_path, "mirrored")
    assert [dataset.sample_name(index) for index in range(len(dataset))] == ["000000", "000001"]
    for index in range(2):
        pair, mirrored = engine.render(seed=5, index=index), dataset[index]
        np.testing.assert_array_equal(mirrored.left, pair.right[:, ::-1])
        np.testing.assert_array_equal(mirrored.right, pair.left[:, ::-1])
        np.testing.assert_array_equal(mirrored.disparity, pair.right_disparity[:, ::-1])
        np.testing.assert_array_equal(mirrored.occluded, pair.right_occluded[:, ::-1])
        assert mirrored.valid.all()
        assert mirrored.calibration is None
        assert_disparity_warps(mirrored)
        assert all(getattr(mirrored, field).flags.c_contiguous for field in ("left", "right", "disparity", "occluded"))


def test_folder_in_a_mirror_needs_the_disparity_of_the_right_images(tmp_path: Path) -> None:
    known = layouts.make_folder(tmp_path)
    with pytest.raises(InputError, match=r"mirrored pairs need the disparity of the right images, .*disparity_right"):
        open_dataset("folder", tmp_path, "mirrored")
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / "mirrored.txt").write_text("0001\n")
    assert_dataset(open_dataset("folder", tmp_path, "mirrored"), {"0001": known["0001"]}, tolerance=1e-6)


def test_folder_depth_in_millimetres(tmp_path: Path) -> None:
    known = layouts.make_folder(tmp_path, disparity=None, depth=".npy", pairs=1)
    stored = np.round(1000 * known["0000"].depth).astype(np.uint16)
    (tmp_path / "depth" / "0000.npy").unlink()
    write_values(tmp_path / "depth" / "0000.png", stored)
    np.testing.assert_allclose(open_dataset("folder", tmp_path)[0].depth, stored / 1000, rtol=1e-6)


@pytest.mark.parametrize(("name", "split"), [("tank", "test"), ("seastereo", "val")])
def test_collections(tmp_path: Path, name: str, split: str) -> None:
    known = {"tank": layouts.make_tank, "seastereo": layouts.make_seastereo}[name](tmp_path)
    assert_dataset(open_dataset(name, tmp_path), known, tolerance=1e-6)
    first = {key: pair for key, pair in known.items() if key.endswith("/0000")}
    assert_dataset(open_dataset(name, tmp_path, split), first, tolerance=1e-6)


def test_order_does_not_depend_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layouts.make_sceneflow(tmp_path)

    def names() -> list[str]:
        dataset = open_dataset("sceneflow", tmp_path)
        return [dataset.sample_name(index) for index in range(len(dataset))]

    before = names()
    scandir = os.scandir

    class Reversed:
        def __init__(self, path: str) -> None:
            with scandir(path) as entries:
                self.entries = sorted(entries, key=lambda entry: entry.name, reverse=True)

        def __enter__(self) -> "Reversed":
            return self

        def __exit__(self, *_: object) -> None: ...

        def __iter__(self):
            return iter(self.entries)

    monkeypatch.setattr(os, "scandir", Reversed)
    assert names() == before


def test_listing_opens_no_file_and_lists_each_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layouts.make_sceneflow(tmp_path)
    for path in tmp_path.rglob("*.p*"):
        path.write_bytes(b"")
    listed: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (listed.append(str(path)), scandir(path))[1])
    assert len(open_dataset("sceneflow", tmp_path)) == 12
    leaves = [path for path in listed if path.endswith(("left", "right"))]
    assert len(leaves) == len(set(leaves)) == 18


def test_datasets_can_be_sent_to_another_process(tmp_path: Path) -> None:
    layouts.make_booster(tmp_path)
    dataset = open_dataset("booster", tmp_path)
    copy = pickle.loads(pickle.dumps(dataset))  # noqa: S301
    assert_same(copy[1], dataset[1])
