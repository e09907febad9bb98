"""`linstereo evaluate` on real pairs: SGBM's figures are what they must be only if sign, scale and mask are right."""

import json
from pathlib import Path

import numpy as np
import pytest

from linstereo.cli import main
from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.sample import StereoDataset
from linstereo.evaluation.baselines import sgbm_disparity
from linstereo.evaluation.metrics import score_disparity
from linstereo.evaluation.protocol import get_protocol
from tests.data.writers import write_rgb


def link(target: Path, source: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source)


def kitti2015(real: Path, root: Path) -> None:
    """Of one frame only the ground truth without occlusions is there, of another only that with them."""
    training = real / "kitti2015" / "training"
    for frame, truth in {"000002": "disp_occ_0", "000010": "disp_noc_0", "000046": "disp_occ_0"}.items():
        for folder in ("image_2", "image_3"):
            link(root / "training" / folder / f"{frame}_10.png", training / folder / f"{frame}_10.png")
        link(root / "training" / "disp_occ_0" / f"{frame}_10.png", training / truth / f"{frame}_10.png")


def middlebury_q(real: Path, root: Path) -> None:
    link(root, real / "middlebury_v3")


def middlebury2006(real: Path, root: Path) -> None:
    for scene in ("Aloe", "Baby1", "Cloth1"):
        link(root / scene, real / "middlebury_2005_2006_third" / scene)


def middlebury2005(real: Path, root: Path) -> None:
    link(root / "Reindeer", real / "middlebury_2005_2006_third" / "Reindeer")


def middlebury2003(real: Path, root: Path) -> None:
    link(root / "cones", real / "middlebury_2001_2003" / "cones")


def middlebury2001(real: Path, root: Path) -> None:
    for scene in ("tsukuba", "venus"):
        link(root / scene, real / "middlebury_2001_2003" / scene)


def sceneflow(real: Path, root: Path) -> None:
    demo, base = real / "sceneflow" / "dmb_demo_0", root / "FlyingThings3D"
    for side in ("left", "right"):
        link(base / "frames_finalpass/TEST/A/0000" / side / "0006.png", demo / "images" / side / "0.png")
    link(base / "disparity/TEST/A/0000/left/0006.pfm", demo / "disparity" / "left" / "0.pfm")


# Build the layout; range of the EPE (px); the same for a wrong mask, which only counts where much is unknown.
# SGBM with these settings on more scenes of the same kind: Middlebury v3 Q 3.93 px (15 scenes, most of them harder than
# these two), KITTI 2015 2.10 px (17), Middlebury 2005 and 2006 2.41 px (26), SceneFlow 4.78 px (5).
REAL = {
    "middlebury-q": (middlebury_q, (1.0, 1.5), 1.3),
    "kitti2015": (kitti2015, (1.8, 2.7), 6.0),
    "middlebury2006": (middlebury2006, (0.6, 0.9), 1.3),
    "middlebury2005": (middlebury2005, (1.2, 1.8), 1.1),
    "middlebury2003": (middlebury2003, (0.9, 1.4), 1.4),
    "middlebury2001": (middlebury2001, (0.25, 0.45), 2.0),
    "sceneflow": (sceneflow, (1.6, 2.5), None),
}


def wrong_readings(dataset: StereoDataset) -> dict[str, float]:
    """Mean EPE of SGBM for the right reading of the ground truth and for wrong ones, by score_disparity."""
    found: dict[str, list[float]] = {}
    for index in range(len(dataset)):
        sample = dataset[index]
        prediction = sgbm_disparity(sample.left, sample.right)
        swapped = sgbm_disparity(sample.right, sample.left)
        everywhere = np.ones_like(sample.valid)
        for reading, (guess, truth, valid) in {
            "right": (prediction, sample.disparity, sample.valid),
            "wrong sign": (swapped, sample.disparity, sample.valid),
            "halved": (prediction, sample.disparity / 2, sample.valid),
            "doubled": (prediction, sample.disparity * 2, sample.valid),
            "upside down": (prediction, sample.disparity[::-1], sample.valid[::-1]),
            "no mask": (prediction, sample.disparity, everywhere),
        }.items():
            epe = score_disparity(guess, truth, valid=valid, metrics=["EPE"])["all"].value("EPE")
            found.setdefault(reading, []).append(epe)
    return {reading: float(np.mean(values)) for reading, values in found.items()}


@pytest.mark.parametrize("benchmark", REAL)
def test_sgbm_is_as_good_as_it_should_be(benchmark: str, stereo_data: Path, tmp_path: Path) -> None:
    build, (low, high), mask_gap = REAL[benchmark]
    root = tmp_path / "data"
    build(stereo_data, root)
    arguments = ["--benchmark", f"{benchmark}={root}", "--method", "sgbm", "--out", str(tmp_path / "out")]
    assert main(["evaluate", *arguments, "--no-pictures", "--paper"]) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())["benchmarks"][benchmark]
    epe = found["headline"]["all"]["EPE"]["value"]
    assert low < epe < high

    protocol = get_protocol(benchmark)
    errors = wrong_readings(open_dataset(protocol.dataset, root, protocol.split))
    assert epe == pytest.approx(errors["right"], rel=1e-9)
    for reading in ("wrong sign", "halved", "doubled", "upside down"):
        assert errors[reading] > 5 * epe, (reading, errors)
        assert errors[reading] > 2 * high, (reading, errors)
    if mask_gap is not None:
        assert errors["no mask"] > mask_gap * epe, errors


def test_occlusion_masks_split_the_error(stereo_data: Path, tmp_path: Path) -> None:
    """What only the left camera sees cannot be matched: its error is many times larger, so the mask is right."""
    arguments = ["--benchmark", f"middlebury-q={stereo_data / 'middlebury_v3'}", "--method", "sgbm"]
    assert main(["evaluate", *arguments, "--out", str(tmp_path), "--no-pictures"]) == 0
    found = json.loads((tmp_path / "results.json").read_text())["benchmarks"]["middlebury-q"]
    headline = {region: figures["EPE"]["value"] for region, figures in found["headline"].items()}
    assert headline["occ"] > 5 * headline["nonocc"]
    motorcycle = found["images"][0]["regions"]
    assert {region: part["pixels"] for region, part in motorcycle.items()} == {
        "all": 360593,
        "nonocc": 319078,
        "occ": 41515,
    }
    assert 15 < found["headline"]["occ"]["bad2"]["value"] < 60
    assert 3 < found["headline"]["nonocc"]["bad2"]["value"] < 8


def test_tartanair_depth(stereo_data: Path, tmp_path: Path) -> None:
    """A real pair of TartanAir, above water, in the layout of the ocean sequences."""
    real = stereo_data / "tartanair_v1" / "OldTown_Easy_P000_001116"
    folder = tmp_path / "data" / "ocean" / "Easy" / "P000"
    link(folder / "image_left" / "000000_left.png", real / "001116_left.png")
    link(folder / "image_right" / "000000_right.png", real / "001116_right.png")
    (folder / "depth_left").mkdir()
    disparity = np.load(real / "001116_left_disp.npy", allow_pickle=False)
    np.save(folder / "depth_left" / "000000_left_depth.npy", (80 / disparity).astype(np.float32))
    arguments = ["--benchmark", f"tartanair-uw:easy={tmp_path / 'data'}", "--method", "sgbm"]
    assert main(["evaluate", *arguments, "--out", str(tmp_path / "out")]) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())["benchmarks"]["tartanair-uw@easy"]
    figures = {metric: entry["value"] for metric, entry in found["headline"]["all"].items()}
    assert figures["AbsRel"] < 0.2
    assert figures["A1"] > 0.8
    assert found["regions"]["all"]["pixels"] == int((80 / disparity < 50).sum())


def test_development_kit_of_kitti_to_the_last_digit(stereo_data: Path, tmp_path: Path) -> None:
    """The official pair of ground truth and estimate, as a benchmark of one image and a folder of predictions."""
    kit = stereo_data / "kitti_devkit_2015"
    training = tmp_path / "data" / "training"
    link(training / "disp_occ_0" / "000000_10.png", kit / "disp_gt.png")
    link(tmp_path / "predictions" / "000000_10.png", kit / "disp_est.png")
    blank = np.zeros((375, 1242, 3), np.uint8)  # the images are not part of the kit, and not needed
    for folder in ("image_2", "image_3"):
        write_rgb(training / folder / "000000_10.png", blank)
    arguments = ["--benchmark", f"kitti2015={tmp_path / 'data'}", "--method", f"folder:{tmp_path / 'predictions'}"]
    assert main(["evaluate", *arguments, "--out", str(tmp_path / "out")]) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())["benchmarks"]["kitti2015"]
    figures = found["images"][0]["regions"]["all"]
    assert figures["pixels"] == 111_326
    assert figures["bad3"] == 100 * 16_638 / 111_326
    assert figures["D1"] == 100 * 15_166 / 111_326
    assert f"{found['headline']['all']['D1']['value']:.6f}" == "13.623053"
