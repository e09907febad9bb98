"""Small samples of every dataset in its official folder layout, with known answers.

Each `make_<dataset>(root, ...)` writes files as docs/datasets.md describes them and returns what must be read back: a
dictionary from sample name to `StereoSample`.
"""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from tests.data.scenes import HEIGHT, WIDTH, render_pair, with_holes, without_truth
from tests.data.writers import (
    write_calib_json,
    write_calib_txt,
    write_disparity_png,
    write_mat,
    write_npy,
    write_pfm,
    write_rgb,
    write_values,
)

from linstereo.data.sample import StereoSample
from linstereo.geometry.calibration import StereoCalibration


def make_sceneflow(root: Path, *, merged: bool = False, per_scene: int = 2) -> dict[str, StereoSample]:
    """Both passes of all three sets: two FlyingThings3D training scenes and a test scene, two Monkaa, two Driving."""
    scenes = {
        "FlyingThings3D": ["TRAIN/A/0000", "TRAIN/C/0123", "TEST/B/0007"],
        "Monkaa": ["eating_x2", "family_x2"],
        "Driving": ["15mm_focallength/scene_backwards/fast", "35mm_focallength/scene_forwards/slow"],
    }
    known = {}
    for set_index, (set_name, folders) in enumerate(scenes.items()):
        base = root if merged else root / set_name
        for folder_index, folder in enumerate(folders):
            for frame in range(6, 6 + per_scene):
                pair = render_pair(seed=100 * set_index + 10 * folder_index + frame)
                pair = replace(pair, occluded=None)
                write_pfm(base / "disparity" / folder / "left" / f"{frame:04d}.pfm", pair.disparity)
                for image_pass in ("cleanpass", "finalpass"):
                    blurred = pair
                    if image_pass == "finalpass":
                        blurred = replace(pair, left=cv2.blur(pair.left, (2, 2)), right=cv2.blur(pair.right, (2, 2)))
                    frames = base / f"frames_{image_pass}" / folder
                    write_rgb(frames / "left" / f"{frame:04d}.png", blurred.left)
                    write_rgb(frames / "right" / f"{frame:04d}.png", blurred.right)
                    name = f"{set_name}/{image_pass}/{folder}/{frame:04d}"
                    known[name] = replace(blurred, name=name)
    return known


KITTI_CALIBRATION = StereoCalibration(focal=721.5, baseline=0.54, cx=609.5, cy=172.5)


def make_kitti2015(root: Path, *, frames: int = 2, test_frames: int = 1) -> dict[str, StereoSample]:
    """Training frames with sparse ground truth, of which the occluded part is in disp_occ_0 only, and test frames."""
    return _make_kitti(root, ("image_2", "image_3", "disp_occ_0", "disp_noc_0"), frames, test_frames, year=2015)


def make_kitti2012(root: Path, *, frames: int = 2, test_frames: int = 1) -> dict[str, StereoSample]:
    """As for 2015; the grey images are the green channel of the colour ones."""
    return _make_kitti(root, ("colored_0", "colored_1", "disp_occ", "disp_noc"), frames, test_frames, year=2012)


def _make_kitti(
    root: Path, folders: tuple[str, str, str, str], frames: int, test_frames: int, *, year: int
) -> dict[str, StereoSample]:
    known = {}
    for part, count in (("training", frames), ("testing", test_frames)):
        for index in range(count):
            pair = render_pair(seed=index + (50 if part == "testing" else 0))
            pair = with_holes(
                replace(pair, disparity=(np.round(pair.disparity * 256) / 256).astype(np.float32)), seed=index
            )
            frame = f"{index:06d}_10"
            base = root / part
            write_rgb(base / folders[0] / f"{frame}.png", pair.left)
            write_rgb(base / folders[1] / f"{frame}.png", pair.right)
            write_rgb(base / folders[0] / f"{index:06d}_11.png", pair.left)
            write_rgb(base / folders[1] / f"{index:06d}_11.png", pair.right)
            if year == 2012:
                write_values(base / "image_0" / f"{frame}.png", pair.left[..., 1])
                write_values(base / "image_1" / f"{frame}.png", pair.right[..., 1])
            calibration = base / ("calib_cam_to_cam" if year == 2015 else "calib") / f"{index:06d}.txt"
            _write_kitti_calibration(calibration, year=year)
            known[f"{part}/{frame}"] = replace(pair, name=f"{part}/{frame}", calibration=KITTI_CALIBRATION)
            if part == "training":
                write_disparity_png(base / folders[2] / f"{frame}.png", pair.disparity)
                write_disparity_png(base / folders[3] / f"{frame}.png", pair.disparity * ~pair.occluded)
            else:
                known[f"{part}/{frame}"] = without_truth(known[f"{part}/{frame}"])
    return known


def _write_kitti_calibration(path: Path, *, year: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    c = KITTI_CALIBRATION
    rows = []
    for camera, offset in ((0, 0.0), (1, -c.baseline), (2, 0.06), (3, 0.06 - c.baseline)):
        name = f"P_rect_{camera:02d}" if year == 2015 else f"P{camera}"
        rows.append(f"{name}: {c.focal} 0 {c.cx} {offset * c.focal} 0 {c.focal} {c.cy} 0 0 0 1 0")
    path.write_text("\n".join(rows) + "\n")


MIDDLEBURY_CALIBRATION = StereoCalibration(focal=250.0, baseline=0.19, cx=79.0, cy=60.0, doffs=8.0)


def make_middlebury(root: Path, *, sizes: str = "Q", scenes: int = 2, test_scenes: int = 1) -> dict[str, StereoSample]:
    """Training scenes with holes in the ground truth and occlusion masks, and test scenes, of the given sizes."""
    known = {}
    names = {"training": ("Adirondack", "Motorcycle", "Vintage")[:scenes], "test": ("Australia",)[:test_scenes]}
    for size in sizes:
        for part, scene_names in names.items():
            for index, scene in enumerate(scene_names):
                pair = with_holes(render_pair(seed=index), seed=index, fraction=0.05)
                name = f"{part}{size}/{scene}"
                pair = replace(pair, name=name, calibration=MIDDLEBURY_CALIBRATION)
                _write_middlebury_views(root / name, pair)
                if part == "training":
                    _write_middlebury_truth(root / name, pair)
                known[name] = pair if part == "training" else without_truth(pair)
    return known


ETH3D_CALIBRATION = StereoCalibration(focal=540.0, baseline=0.06, cx=79.5, cy=59.5)


def make_eth3d(root: Path, *, scenes: int = 2, test_scenes: int = 1) -> dict[str, StereoSample]:
    """Grey training scenes with many holes in the ground truth, and test scenes."""
    known = {}
    for part, names in (
        ("training", ("delivery_area_1l", "terrains_2s")[:scenes]),
        ("testing", ("lakeside_1l",)[:test_scenes]),
    ):
        for index, scene in enumerate(names):
            pair = with_holes(render_pair(seed=20 + index), seed=index, fraction=0.4)
            name = f"two_view_{part}/{scene}"
            grey = [np.repeat(view[..., 1:2], 3, axis=2) for view in (pair.left, pair.right)]
            pair = replace(pair, name=name, left=grey[0], right=grey[1], calibration=ETH3D_CALIBRATION)
            _write_middlebury_views(root / name, pair)
            if part == "training":
                _write_middlebury_truth(root / "two_view_training_gt" / scene, pair)
            known[name] = pair if part == "training" else without_truth(pair)
    return known


def _write_middlebury_views(folder: Path, pair: StereoSample) -> None:
    write_rgb(folder / "im0.png", pair.left)
    write_rgb(folder / "im1.png", pair.right)
    write_calib_txt(folder / "calib.txt", pair.calibration)


def _write_middlebury_truth(folder: Path, pair: StereoSample) -> None:
    write_pfm(folder / "disp0GT.pfm", np.where(pair.valid, pair.disparity, np.inf))
    mask = np.where(pair.occluded, 128, 255) * pair.valid
    write_values(folder / "mask0nocc.png", mask.astype(np.uint8))


def make_middlebury_classic(root: Path, *, year: int, scale: int | None = None) -> dict[str, StereoSample]:
    """Scenes of one of the older sets; `scale` is the value of one pixel of disparity (None: of the default split)."""
    files = ("view1", "view5", "disp1") if year >= 2005 else ("im2", "im6", "disp2")
    suffixes = (".png", ".png") if year >= 2003 else (".ppm", ".pgm")
    scale = scale or {2001: 8, 2003: 4, 2005: 3, 2006: 3}[year]
    scenes = {
        2001: ("barn1", "map", "tsukuba", "venus"),
        2003: ("cones", "teddy"),
        2005: ("Art", "Dolls"),
        2006: ("Aloe", "Wood1"),
    }[year]
    known = {}
    for index, scene in enumerate(scenes):
        stems, factor = files, scale
        if scene == "map":
            stems = ("im0", "im1", "disp0")
        elif scene == "tsukuba":
            stems, factor = ("scene1.row3.col3", "scene1.row3.col4", "truedisp.row3.col3"), 16
        pair = render_pair(seed=30 + index, largest=14.0, step=1 / factor)
        pair = replace(with_holes(pair, seed=index, fraction=0.05), name=scene, occluded=None)
        write_rgb(root / scene / f"{stems[0]}{suffixes[0]}", pair.left)
        write_rgb(root / scene / f"{stems[1]}{suffixes[0]}", pair.right)
        write_values(root / scene / f"{stems[2]}{suffixes[1]}", np.round(pair.disparity * factor).astype(np.uint8))
        known[scene] = pair
    return known


BOOSTER_CALIBRATION = StereoCalibration(focal=1000.0, baseline=0.08, cx=320.0, cy=239.0, doffs=3.0)


def make_booster(root: Path, *, scenes: int = 2, images: int = 2) -> dict[str, StereoSample]:
    """Full-size files of 640 x 480; the answers are those at quarter resolution, 160 x 120."""
    known = {}
    for index, scene in enumerate(("Bathroom", "Washer")[:scenes]):
        small = with_holes(render_pair(seed=40 + index), seed=index)
        folder = root / "train" / "balanced" / scene
        # each block of 4 x 4 pixels has the small image's colour and a known disparity in its first row, and is
        # 4 levels darker in every second row, so that its mean is 2 less
        disparity = np.repeat(np.repeat(4 * small.disparity, 4, axis=0), 4, axis=1)
        for row in (1, 2, 3):
            disparity[row::4] = 0
        write_npy(folder / "disp_00.npy", disparity)
        visible = np.where(small.occluded, 0, 255).astype(np.uint8)
        write_values(folder / "mask_00.png", np.repeat(np.repeat(visible, 4, axis=0), 4, axis=1))
        write_values(folder / "mask_cat.png", np.zeros(disparity.shape, dtype=np.uint8))
        _write_booster_calibration(folder / "calib_00-02.xml")
        for number in range(images):
            views = [
                np.clip(view.astype(int) + 10 * number, 5, 250).astype(np.uint8) for view in (small.left, small.right)
            ]
            for camera, view in zip(("camera_00", "camera_02"), views, strict=True):
                large = np.repeat(np.repeat(view, 4, axis=0), 4, axis=1)  # [4 H, 4 W, 3]
                large[1::2] -= 4
                write_rgb(folder / camera / f"im{number}.png", large)
            name = f"{scene}/im{number}"
            known[name] = replace(
                small,
                name=name,
                left=views[0],
                right=views[1],
                calibration=BOOSTER_CALIBRATION.scaled(0.25, 0.25),
            )
    return known


def _write_booster_calibration(path: Path) -> None:
    c = BOOSTER_CALIBRATION
    matrices = "".join(
        f'<{name} type_id="opencv-matrix"><rows>3</rows><cols>4</cols><dt>d</dt><data>\n'
        f"{c.focal} 0. {cx} 0. 0. {c.focal} {c.cy}\n 0. 0. 0. 1. 0.</data></{name}>\n"
        for name, cx in (("proj_matL", c.cx), ("proj_matR", c.cx + c.doffs))
    )
    path.write_text(
        f'<?xml version="1.0"?>\n<opencv_storage>\n{matrices}'
        f"<baselineLR>{c.baseline * 1000}</baselineLR>\n</opencv_storage>\n"
    )


TARTANAIR_FOCAL_TIMES_BASELINE = 80.0


def make_tartanair(
    root: Path, *, environment: str = "ocean", per_sequence: int = 2, sequences: int = 2
) -> dict[str, StereoSample]:
    """`sequences` of each level with depth in metres, part of it infinitely far; depth of a pixel is 80 / disparity."""
    calibration = StereoCalibration(focal=320.0, baseline=0.25, cx=320.0, cy=240.0)
    known = {}
    for level_index, level in enumerate(("Easy", "Hard")):
        for sequence in range(sequences):
            for frame in range(per_sequence):
                pair = render_pair(seed=60 + 20 * level_index + 5 * sequence + frame)
                depth = (TARTANAIR_FOCAL_TIMES_BASELINE / pair.disparity).astype(np.float32)
                depth[:3] = np.inf
                valid = np.isfinite(depth)
                folder = root / environment / level / f"P{sequence:03d}"
                write_rgb(folder / "image_left" / f"{frame:06d}_left.png", pair.left)
                write_rgb(folder / "image_right" / f"{frame:06d}_right.png", pair.right)
                write_npy(folder / "depth_left" / f"{frame:06d}_left_depth.npy", depth)
                name = f"{environment}/{level}/P{sequence:03d}/{frame:06d}"
                known[name] = replace(
                    pair,
                    name=name,
                    disparity=np.where(valid, pair.disparity, 0).astype(np.float32),
                    valid=valid,
                    occluded=None,
                    depth=np.where(valid, depth, 0).astype(np.float32),
                    calibration=calibration,
                )
    return known


FOLDER_CALIBRATION = StereoCalibration(focal=200.0, baseline=0.1, cx=79.5, cy=59.5)


def make_folder(
    root: Path,
    *,
    pairs: int = 3,
    disparity: str | None = ".pfm",
    depth: str | None = None,
    occlusion: bool = True,
    calibration: str | None = "calib.json",
    prefix: str = "",
    seed: int = 80,
) -> dict[str, StereoSample]:
    """The user's own pairs; `disparity` and `depth` are the suffixes of the ground truth, or None for none of it."""
    known = {}
    for index in range(pairs):
        pair = with_holes(render_pair(seed=seed + index), seed=index)
        pair = replace(pair, disparity=(np.round(pair.disparity * 256) / 256).astype(np.float32))
        stem = f"{index:04d}"
        write_rgb(root / "left" / f"{stem}.png", pair.left)
        write_rgb(root / "right" / f"{stem}.png", pair.right)
        metres = np.zeros_like(pair.disparity)
        product = FOLDER_CALIBRATION.focal * FOLDER_CALIBRATION.baseline
        np.divide(product, pair.disparity, out=metres, where=pair.valid)
        if disparity is not None:
            writers = {".pfm": write_pfm, ".png": write_disparity_png, ".npy": write_npy}
            writers[disparity](root / "disparity" / f"{stem}{disparity}", pair.disparity)
        if depth is not None:
            {".pfm": write_pfm, ".npy": write_npy}[depth](root / "depth" / f"{stem}{depth}", metres)
        if occlusion:
            write_values(root / "occlusion" / f"{stem}.png", np.where(pair.occluded, 255, 0).astype(np.uint8))
        pair = replace(
            pair,
            name=f"{prefix}{stem}",
            depth=None if depth is None else metres,
            occluded=pair.occluded if occlusion else None,
            calibration=None if calibration is None else FOLDER_CALIBRATION,
        )
        known[pair.name] = pair if disparity is not None or depth is not None else without_truth(pair)
    if calibration is not None:
        writer = write_calib_json if calibration.endswith(".json") else write_calib_txt
        writer(root / calibration, FOLDER_CALIBRATION)
    return known


def make_tank(root: Path, *, sessions: int = 2, pairs: int = 2) -> dict[str, StereoSample]:
    """Sessions with depth and a calibration, and a split `test` that names the first pair of each."""
    return _make_collection(
        root, [f"session{index}" for index in range(sessions)], pairs, split="test", disparity=None, depth=".npy"
    )


def make_seastereo(root: Path, *, configurations: int = 2, pairs: int = 2) -> dict[str, StereoSample]:
    """Configurations with disparity and a calibration, and a split `val` that names the first pair of each."""
    names = [f"path{index}_zed_jerlov1C_10m" for index in range(configurations)]
    return _make_collection(root, names, pairs, split="val", disparity=".pfm", depth=None)


def _make_collection(
    root: Path, names: list[str], pairs: int, *, split: str, disparity: str | None, depth: str | None
) -> dict[str, StereoSample]:
    known = {}
    for index, name in enumerate(names):
        known |= make_folder(
            root / name,
            pairs=pairs,
            disparity=disparity,
            depth=depth,
            occlusion=False,
            prefix=f"{name}/",
            seed=90 + 10 * index,
        )
    (root / "splits").mkdir()
    (root / "splits" / f"{split}.txt").write_text("".join(f"{name}/0000\n" for name in names))
    return known


SQUID_FOCAL, SQUID_BASELINE = 220.0, 0.2


def make_squid(
    root: Path, *, sets_per_site: int = 1, degrees: float = 0.0, points: bool = False
) -> dict[str, StereoSample]:
    """All four sites with distances along the lines of sight, and with scene points if `points`.

    The right camera is turned by `degrees` about the vertical axis; the answers are those of the pair before that, so
    only for 0 degrees are they what must be read back.
    """
    matrix = np.array([[SQUID_FOCAL, 0, (WIDTH - 1) / 2], [0, SQUID_FOCAL, (HEIGHT - 1) / 2], [0, 0, 1.0]])
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    known = {}
    for site_index, site in enumerate(("Katzaa", "Michmoret", "Nachsholim", "Satil")):
        write_squid_calibration(
            root / site / "stereoParams0.5.mat", matrix, turn, turn @ np.array([-SQUID_BASELINE, 0, 0])
        )
        for index in range(sets_per_site):
            pair = with_holes(render_pair(seed=200 + 10 * site_index + index), seed=index)
            depth = np.zeros_like(pair.disparity)
            np.divide(SQUID_FOCAL * SQUID_BASELINE, pair.disparity, out=depth, where=pair.valid)
            folder = root / site / f"image_set_{index + 1:02d}"
            turned = cv2.warpPerspective(pair.right, matrix @ turn @ np.linalg.inv(matrix), (WIDTH, HEIGHT))
            write_rgb(folder / f"LFT_{4001 + index}resizedUndistort.tif", pair.left.astype(np.uint16) * 257)
            write_rgb(folder / f"RGT_{3001 + index}resizedUndistort.tif", turned.astype(np.uint16) * 257)
            y, x = np.mgrid[:HEIGHT, :WIDTH]
            rays = np.stack(
                [(x - matrix[0, 2]) / SQUID_FOCAL, (y - matrix[1, 2]) / SQUID_FOCAL, np.ones_like(x)], axis=-1
            )
            scene = np.where(pair.valid[..., None], rays * depth[..., None], np.nan)
            write_mat(folder / "distanceFromCamera.mat", dist_map_l=np.linalg.norm(scene, axis=-1))
            if points:
                write_mat(folder / "xyzPoints.mat", xyzPointsLeft=scene)
            name = f"{site}/{folder.name}"
            known[name] = replace(
                pair,
                name=name,
                occluded=None,
                depth=depth,
                calibration=StereoCalibration(SQUID_FOCAL, SQUID_BASELINE, matrix[0, 2], matrix[1, 2]),
            )
    return known


def write_squid_calibration(path: Path, matrix: np.ndarray, rotation: np.ndarray, translation: np.ndarray) -> None:
    """MATLAB's way: matrices transposed, pixels counted from 1, millimetres."""
    counted = matrix.copy()
    counted[:2, 2] += 1
    camera = {"IntrinsicMatrix": counted.T, "ImageSize": np.array([[HEIGHT, WIDTH]]), "WorldUnits": "millimeters"}
    write_mat(
        path,
        stereoParams={
            "CameraParameters1": camera,
            "CameraParameters2": camera,
            "RotationOfCamera2": rotation.T,
            "TranslationOfCamera2": 1000 * translation[None],
        },
    )
