"""SQUID: real underwater pairs from four sites with depth (Berman et al., IEEE TPAMI 2020).

    <root>/<site>/stereoParams0.5.mat                                    calibration of the undistorted images
    <root>/<site>/image_set_01/LFT_3875resizedUndistort.tif              left, 2737 x 1827, 16 bits
    <root>/<site>/image_set_01/RGT_3008resizedUndistort.tif              right; the numbers of the two differ
    <root>/<site>/image_set_01/distanceFromCamera.mat                    distance of each pixel, metres
    <root>/<site>/image_set_01/xyzPoints.mat                             scene point of each pixel, metres

with the sites Katzaa (15 pairs), Michmoret (21), Nachsholim (13) and Satil (8): 57 pairs. See
`linstereo.data.datasets.squid_files` for the sources and the content of the files.

The published images are undistorted but not rectified, so they are rectified here with the calibration of their site,
and the ground truth goes the same way: it becomes the depth along the optical axis of the rectified left camera. It
comes from the scene points where they are there, else from the distances along the lines of sight.

Copies differ. Some sets, mostly of Nachsholim, have no images but those inside xyzPoints.mat, which are read then; the
sites are also spelt Nachsolim and Mikhmoret. A set that lacks files, or whose ground truth is damaged, is left out and
told in `left_out`, and does not keep the others from being read; nor does one whose files turn out to be damaged or not
to fit each other only when an evaluation reads them.
"""

import functools
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linstereo.data.datasets.layout import (
    check_root,
    choose_split,
    file_names,
    folder_names,
    require_file,
    require_some,
)
from linstereo.data.datasets.reading import check_size, read_views
from linstereo.data.datasets.squid_files import (
    DISTANCES,
    IMAGES,
    POINTS,
    read_squid_calibration,
    read_squid_distance,
    read_squid_images,
    read_squid_points,
)
from linstereo.data.formats.images import to_rgb8
from linstereo.data.formats.mat import mat_names
from linstereo.data.sample import ListedDataset, PairFiles, StereoSample
from linstereo.errors import InputError
from linstereo.geometry.depth import depth_to_disparity
from linstereo.geometry.rectification import Rectification, points_at_distance
from linstereo.geometry.stereo_rig import StereoRig

NAME = "squid"
SITES = ("Katzaa", "Michmoret", "Nachsholim", "Satil")
_SPELLINGS = {"nachsolim": "Nachsholim", "mikhmoret": "Michmoret", **{site.lower(): site for site in SITES}}
"""The sites as their folders are called in copies of the dataset, in lower case."""
_PARTS = {"all": SITES, **{site.lower(): (site,) for site in SITES}}
SPLITS = (*_PARTS, *(f"{part}-distance" for part in _PARTS))
"""All four sites or one of them; with `-distance`, depth comes from distanceFromCamera.mat alone."""
_PREFIXES = {"left": "LFT_", "right": "RGT_"}
_IMAGE_ENDING = "resizedUndistort.tif"
_DISTANCES = "distanceFromCamera.mat"
_POINTS = "xyzPoints.mat"
_LARGEST_REPROJECTION_ERROR = 3.0
"""Scene points that project farther than this from their pixels, px (median), belong to another camera or frame."""


def open_squid(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open SQUID; `split` is one of `SPLITS`, None means `all`."""
    split = choose_split(split, dataset=NAME, splits={name: name for name in SPLITS}, default="all")
    part, _, distance_only = split.partition("-")
    sites = _PARTS[part]
    folders = _site_folders(Path(root))
    root = check_root(root, dataset=NAME, expected=[folders.get(site, site) for site in sites])
    missing = [site for site in sites if site not in folders]
    if missing:
        there = ", ".join(site.lower() for site in sites if site not in missing)
        raise InputError(f"{NAME}: the folder {root / missing[0]} is missing; add it, or choose a split of: {there}")
    files: list[PairFiles] = []
    left_out: list[str] = []
    for site in sites:
        base = root / folders[site]
        calibration = require_file(base / "stereoParams0.5.mat", dataset=NAME, holding="the calibration of the site")
        for image_set in folder_names(base):
            if image_set.startswith("image_set_"):
                name = f"{site}/{image_set}"
                try:
                    files.append(_list_set(base / image_set, name, calibration, use_points=not distance_only))
                except InputError as error:
                    left_out.append(f"{name} ({error})")
    if left_out and not files:
        raise InputError(f"{NAME}: none of the {len(left_out)} sets in {root} can be used, such as {left_out[0]}")
    require_some(files, dataset=NAME, looked_for=f"image_set_*/LFT_*{_IMAGE_ENDING}", where=root)
    return ListedDataset(f"{NAME}/{split}", files, read_squid_pair, left_out=left_out, tolerant=True)


def read_squid_pair(files: PairFiles) -> StereoSample:
    """Read and rectify one listed pair; `depth` is the file of scene points or of distances."""
    assert files.depth is not None
    assert files.calibration is not None
    left, right = _read_images(files)
    rig, rectification = _rectification(files.calibration)
    if left.shape[:2] != (rig.height, rig.width):
        raise InputError(
            f"{files.left} is {left.shape[1]} x {left.shape[0]} px but {files.calibration} is for images of "
            f"{rig.width} x {rig.height} px; they must be of one size"
        )
    if files.depth.name == _POINTS:
        points = read_squid_points(files.depth)
        check_size(left, files.left, points, files.depth)
        _check_points(points, rig, files)
    else:
        distance = read_squid_distance(files.depth)
        check_size(left, files.left, distance, files.depth)
        points = points_at_distance(distance, rig.left_matrix)
    depth = rectification.left_depth(points)
    disparity = depth_to_disparity(depth, rectification.calibration)
    return StereoSample(
        name=files.name,
        left=rectification.left(left),
        right=rectification.right(right),
        disparity=disparity,
        valid=(depth > 0) & (disparity > 0),
        depth=depth,
        calibration=rectification.calibration,
    )


@functools.lru_cache(maxsize=len(SITES))
def _rectification(calibration: Path) -> tuple[StereoRig, Rectification]:
    """The rig of one site and its rectification, whose tables are worth keeping from pair to pair."""
    rig = read_squid_calibration(calibration)
    return rig, Rectification(rig)


def _site_folders(root: Path) -> dict[str, str]:
    """The name of each site's folder as it is spelt in `root`."""
    names = folder_names(root) if root.is_dir() else []
    return {_SPELLINGS[name.lower()]: name for name in names if name.lower() in _SPELLINGS}


def _list_set(folder: Path, name: str, calibration: Path, *, use_points: bool) -> PairFiles:
    """The files of one set; `InputError` if it cannot be used."""
    found = file_names(folder)
    truth, variable = (_POINTS, POINTS["left"]) if use_points and _POINTS in found else (_DISTANCES, DISTANCES["left"])
    if truth not in found:
        looked_for = f"{_POINTS} or {_DISTANCES}" if use_points else _DISTANCES
        raise InputError(f"the ground truth not found in {folder}, looked for {looked_for}")
    if variable not in mat_names(folder / truth):
        raise InputError(f"{folder / truth} has no variable {variable}")
    views = {side: _find_image(folder, found, prefix=prefix) for side, prefix in _PREFIXES.items()}
    if not any(views.values()) and _POINTS in found and set(IMAGES.values()) <= set(mat_names(folder / _POINTS)):
        views = dict.fromkeys(views, folder / _POINTS)
    for side, path in views.items():
        if path is None:
            raise InputError(f"the {side} image {_PREFIXES[side]}*{_IMAGE_ENDING} not found in {folder}")
    left, right = views["left"], views["right"]
    assert left is not None
    assert right is not None
    return PairFiles(name=name, left=left, right=right, depth=folder / truth, calibration=calibration)


def _find_image(folder: Path, found: set[str], *, prefix: str) -> Path | None:
    """The image of one camera; None if it is not there, `InputError` if there are several."""
    names = sorted(name for name in found if name.startswith(prefix) and name.endswith(_IMAGE_ENDING))
    if len(names) > 1:
        raise InputError(f"{len(names)} images {prefix}*{_IMAGE_ENDING} in {folder}, where one is expected")
    return folder / names[0] if names else None


def _read_images(files: PairFiles) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Left and right image, uint8 [H, W, 3], of one size, from their own files or from those of the scene points."""
    if files.left.name != _POINTS:
        return read_views(files)
    left, right = (to_rgb8(image, name=f"an image in {files.left}") for image in read_squid_images(files.left))
    check_size(left, files.left, right, files.right)
    return left, right


def _check_points(points: NDArray[np.float32], rig: StereoRig, files: PairFiles) -> None:
    """Fail if the scene points do not lie on the lines of sight of their pixels."""
    y, x = np.mgrid[: points.shape[0] : 8, : points.shape[1] : 8]
    chosen = points[::8, ::8].astype(np.float64)  # [h, w, 3]
    known = np.isfinite(chosen[..., 2])
    if not known.any():
        return
    projected = chosen[known] @ rig.left_matrix.T  # [n, 3]
    offset = projected[:, :2] / projected[:, 2:] - np.stack([x[known], y[known]], axis=1)
    error = float(np.median(np.linalg.norm(offset, axis=1)))
    if error > _LARGEST_REPROJECTION_ERROR:
        raise InputError(
            f"the points of {files.depth} lie {error:.1f} px (median) beside their pixels under the calibration "
            f"{files.calibration}; choose a split with -distance to use {_DISTANCES} instead"
        )
