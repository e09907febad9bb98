"""Whatever is missing or of the wrong size, the error says what was looked for and where."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.data import layouts
from tests.data.writers import write_calib_json, write_npy, write_pfm, write_rgb, write_values

from linstereo.data.datasets.catalogue import dataset_names, open_dataset
from linstereo.errors import InputError

MAKERS: dict[str, Callable[[Path], object]] = {
    "sceneflow": lambda root: layouts.make_sceneflow(root, per_scene=1),
    "kitti2012": layouts.make_kitti2012,
    "kitti2015": layouts.make_kitti2015,
    "middlebury": lambda root: layouts.make_middlebury(root, sizes="H"),
    "middlebury2001": lambda root: layouts.make_middlebury_classic(root, year=2001),
    "middlebury2003": lambda root: layouts.make_middlebury_classic(root, year=2003),
    "middlebury2005": lambda root: layouts.make_middlebury_classic(root, year=2005),
    "middlebury2006": lambda root: layouts.make_middlebury_classic(root, year=2006),
    "eth3d": layouts.make_eth3d,
    "booster": layouts.make_booster,
    "tartanair-uw": layouts.make_tartanair,
    "squid": layouts.make_squid,
    "tank": layouts.make_tank,
    "seastereo": layouts.make_seastereo,
    "folder": layouts.make_folder,
}
"""Writes a small sample of each dataset."""

FILES = {
    "sceneflow": ("Monkaa/frames_finalpass/eating_x2/right/0006.png", "Monkaa/disparity/eating_x2/left/0006.pfm"),
    "kitti2012": ("training/colored_1/000001_10.png", "training/disp_occ/000001_10.png"),
    "kitti2015": ("training/image_3/000001_10.png", "training/disp_occ_0/000001_10.png"),
    "middlebury": ("trainingH/Motorcycle/im1.png", "trainingH/Motorcycle/disp0GT.pfm"),
    "middlebury2001": ("barn1/im6.ppm", "barn1/disp2.pgm"),
    "middlebury2003": ("cones/im6.png", "cones/disp2.png"),
    "middlebury2005": ("Art/view5.png", "Art/disp1.png"),
    "middlebury2006": ("Aloe/view5.png", "Aloe/disp1.png"),
    "eth3d": ("two_view_training/delivery_area_1l/im1.png", "two_view_training_gt/delivery_area_1l/disp0GT.pfm"),
    "booster": ("train/balanced/Washer/camera_02/im1.png", "train/balanced/Washer/disp_00.npy"),
    "tartanair-uw": (
        "ocean/Hard/P001/image_right/000001_right.png",
        "ocean/Hard/P001/depth_left/000001_left_depth.npy",
    ),
    "squid": ("Katzaa/image_set_01/RGT_3001resizedUndistort.tif", "Katzaa/image_set_01/distanceFromCamera.mat"),
    "tank": ("session1/right/0001.png", "session1/depth/0001.npy"),
    "seastereo": (
        "path1_zed_jerlov1C_10m/right/0001.png",
        "path1_zed_jerlov1C_10m/disparity/0001.pfm",
    ),
    "folder": ("right/0001.png", "disparity/0001.pfm"),
}
"""Of each dataset, one right image and one file of ground truth."""


def message(name: str, root: Path, split: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        open_dataset(name, root, split)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_all_datasets_are_covered() -> None:
    assert set(MAKERS) == set(FILES) == set(dataset_names())


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "squid"])  # which leaves such a pair out
@pytest.mark.parametrize("which", [0, 1], ids=["right image", "ground truth"])
def test_a_missing_file_is_named(tmp_path: Path, name: str, which: int) -> None:
    MAKERS[name](tmp_path)
    open_dataset(name, tmp_path)
    missing = tmp_path / FILES[name][which]
    missing.unlink()
    text = message(name, tmp_path)
    assert name in text
    assert str(missing.parent) in text
    assert missing.stem.split("_")[0].removesuffix("resizedUndistort") in text


@pytest.mark.parametrize("name", list(MAKERS))
def test_a_folder_that_is_not_there(tmp_path: Path, name: str) -> None:
    text = message(name, tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in text
    assert "does not exist" in text


@pytest.mark.parametrize("name", list(MAKERS))
def test_an_empty_folder(tmp_path: Path, name: str) -> None:
    text = message(name, tmp_path)
    assert name in text
    assert str(tmp_path) in text


@pytest.mark.parametrize("name", list(MAKERS))
def test_the_folder_above(tmp_path: Path, name: str) -> None:
    root = tmp_path / "unpacked"
    root.mkdir()
    MAKERS[name](root)
    assert f"did you mean {root}?" in message(name, tmp_path)


@pytest.mark.parametrize("name", list(MAKERS))
def test_the_folder_below(tmp_path: Path, name: str) -> None:
    MAKERS[name](tmp_path)
    folder = tmp_path / Path(FILES[name][0]).parts[0]
    assert f"did you mean {tmp_path}?" in message(name, folder)


@pytest.mark.parametrize("name", list(MAKERS))
def test_a_split_that_does_not_exist(tmp_path: Path, name: str) -> None:
    MAKERS[name](tmp_path)
    text = message(name, tmp_path, "holdout")
    assert "holdout" in text
    assert "choose one of" in text


def test_a_dataset_that_does_not_exist(tmp_path: Path) -> None:
    assert "kitti2015" in message("kitti2016", tmp_path)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "squid"])
@pytest.mark.parametrize("which", [0, 1], ids=["right image", "ground truth"])
def test_a_wrong_size_names_both_files(tmp_path: Path, name: str, which: int) -> None:
    MAKERS[name](tmp_path)
    path = tmp_path / FILES[name][which]
    small = np.ones((60, 80), dtype=np.float32)
    if path.suffix == ".pfm":
        write_pfm(path, small)
    elif path.suffix == ".npy":
        write_npy(path, small)
    elif which == 0:
        write_rgb(path, np.zeros((60, 80, 3), dtype=np.uint8))
    else:
        kind = np.uint16 if name.startswith("kitti") else np.uint8
        write_values(path, small.astype(kind))
    dataset = open_dataset(name, tmp_path)
    texts = []
    for index in range(len(dataset)):
        try:
            dataset[index]
        except InputError as error:
            texts.append(str(error))
    assert texts
    assert str(path) in texts[0]
    assert "80 x 60 px" in texts[0]
    left = next(pair.left for pair in dataset.files if path in (pair.right, pair.disparity, pair.depth))
    assert str(left) in texts[0]


def test_a_folder_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layouts.make_folder(tmp_path)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    text = message("folder", tmp_path)
    assert str(tmp_path / "left") in text
    assert "Permission denied" in text


def test_only_the_right_view(tmp_path: Path) -> None:
    layouts.make_folder(tmp_path)
    (tmp_path / "left" / "0002.png").unlink()
    text = message("folder", tmp_path)
    assert "left image of '0002'" in text
    assert str(tmp_path / "left") in text


def test_several_missing_files_are_counted(tmp_path: Path) -> None:
    layouts.make_kitti2015(tmp_path, frames=4)
    for path in (tmp_path / "training" / "disp_occ_0").iterdir():
        path.unlink()
    assert "'000000' and 3 more" in message("kitti2015", tmp_path)


def test_sceneflow_with_one_part_only(tmp_path: Path) -> None:
    layouts.make_sceneflow(tmp_path)
    shutil.rmtree(tmp_path / "Driving")
    text = message("sceneflow", tmp_path)
    assert str(tmp_path / "Driving") in text
    assert "flyingthings3d" in text
    assert len(open_dataset("sceneflow", tmp_path, "flyingthings3d"))


def test_middlebury_size_that_was_not_downloaded(tmp_path: Path) -> None:
    layouts.make_middlebury(tmp_path, sizes="Q")
    assert "'trainingF'" in message("middlebury", tmp_path, "F")


def test_middlebury_classic_of_another_size(tmp_path: Path) -> None:
    """Half-size images opened as third-size ones would have every disparity wrong by a factor of 1.5."""
    view = np.zeros((555, 650, 3), dtype=np.uint8)
    for name in ("view1", "view5", "disp1"):
        write_rgb(tmp_path / "Aloe" / f"{name}.png", view)
    dataset = open_dataset("middlebury2006", tmp_path)
    with pytest.raises(InputError, match=r"650 px wide.*choose the split 'half'"):
        dataset[0]
    assert open_dataset("middlebury2006", tmp_path, "half")[0].disparity is not None


def test_collection_without_calibration_or_truth(tmp_path: Path) -> None:
    layouts.make_tank(tmp_path)
    (tmp_path / "session0" / "calib.json").unlink()
    assert "calib.json" in message("tank", tmp_path)
    write_calib_json(tmp_path / "session0" / "calib.json", layouts.FOLDER_CALIBRATION)
    shutil.rmtree(tmp_path / "session1" / "depth")
    assert str(tmp_path / "session1" / "depth") in message("tank", tmp_path)


def test_folder_with_depth_but_no_calibration(tmp_path: Path) -> None:
    layouts.make_folder(tmp_path, disparity=None, depth=".npy", calibration=None)
    assert "calib.json or calib.txt" in message("folder", tmp_path)


def test_split_file_with_an_unknown_pair(tmp_path: Path) -> None:
    layouts.make_folder(tmp_path)
    (tmp_path / "splits").mkdir()
    path = tmp_path / "splits" / "mine.txt"
    path.write_text("0000\n0009\n")
    text = message("folder", tmp_path, "mine")
    assert f"{path}, line 2" in text
    assert "'0009'" in text
    path.write_text("\n\n")
    assert str(path) in message("folder", tmp_path, "mine")
    path.write_bytes(b"\xff\xfe\x00")
    assert str(path) in message("folder", tmp_path, "mine")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"focal": 1, "baseline": 1, "cx": 1}',
        '{"focal": 1, "baseline": 1, "cx": 1, "cy": 1, "skew": 0}',
        '{"focal": "1", "baseline": 1, "cx": 1, "cy": 1}',
        '{"focal": true, "baseline": 1, "cx": 1, "cy": 1}',
        '{"focal": NaN, "baseline": 1, "cx": 1, "cy": 1}',
        '{"focal": -1, "baseline": 1, "cx": 1, "cy": 1}',
        '{"focal": ' + "9" * 400 + ', "baseline": 1, "cx": 1, "cy": 1}',
        '{"focal": ' + "9" * 5000 + ', "baseline": 1, "cx": 1, "cy": 1}',
        "[" * 100000,
    ],
)
def test_damaged_calibration_json(tmp_path: Path, content: str) -> None:
    layouts.make_folder(tmp_path, pairs=1)
    (tmp_path / "calib.json").write_text(content)
    with pytest.raises(InputError, match=r"calib\.json"):
        open_dataset("folder", tmp_path)[0]


@pytest.mark.parametrize(
    "content",
    [
        b"<opencv_storage>",
        b"<opencv_storage></opencv_storage>",
        b"<a><proj_matL><data>1 2 x</data></proj_matL></a>",
        b"<a>" + b" " * (1 << 21) + b"</a>",
        b"<a><proj_matL><data>"
        + b"0 " * 12
        + b"</data></proj_matL><proj_matR><data>"
        + b"0 " * 12
        + b"</data></proj_matR><baselineLR>80</baselineLR></a>",
    ],
)
def test_damaged_booster_calibration(tmp_path: Path, content: bytes) -> None:
    layouts.make_booster(tmp_path, scenes=1, images=1)
    (tmp_path / "train" / "balanced" / "Bathroom" / "calib_00-02.xml").write_bytes(content)
    with pytest.raises(InputError, match=r"calib_00-02\.xml"):
        open_dataset("booster", tmp_path)[0]
