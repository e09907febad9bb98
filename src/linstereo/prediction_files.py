"""The files of a prediction: maps with their units, pictures of them, masks and a point cloud.

| file | content |
|---|---|
| `_disparity_px.pfm`, `.npy`, `.exr` | float32, pixels of the left image |
| `_disparity_px256.png` | 16 bits, 256 for each pixel of disparity |
| `_depth_m.pfm`, `.npy`, `.exr` | float32, metres along the optical axis, infinite where there is none |
| `_depth_mm.png` | 16 bits, millimetres, 0 where there is none or beyond 65.535 m |
| `_confidence.pfm`, `.npy`, `.exr` | float32, from 0 to 1 |
| `_confidence.png` | 16 bits, 65535 times the confidence |
| `_edges.png`, `_occluded.png` | 8 bits, 255 where points would fly, or the right camera does not see the pixel |
| `_cloud.ply` | points in metres with colours and confidence |
| `_disparity_colour.png`, `_depth_colour.png`, `_confidence_colour.png` | pictures with colour bars |
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from linstereo.data.formats.confidence_maps import write_confidence
from linstereo.data.formats.depth_maps import write_depth
from linstereo.data.formats.disparity import write_disparity
from linstereo.data.formats.images import write_image
from linstereo.errors import InputError
from linstereo.geometry.point_cloud import PointCloud, usable_depth, write_ply
from linstereo.visualize import confidence_picture, depth_picture, disparity_picture, mask_picture

if TYPE_CHECKING:
    from linstereo.prediction import Prediction

FORMATS = ("png", "pfm", "npy", "exr")
"""Of maps; png first: the only one that can refuse a value, before anything is written."""
OUTPUTS = ("disparity", "depth", "confidence", "masks", "cloud", "pictures")
"""What can be written."""


def write_prediction(
    stem: Path,
    prediction: "Prediction",
    *,
    outputs: Collection[str],
    formats: Sequence[str],
    cloud: PointCloud | None,
    max_depth: float | None = None,
) -> list[Path]:
    """Write what is asked for and known; gives the files.

    Args:
        stem: how the paths of all files begin.
        prediction: for the pair.
        outputs: some of `OUTPUTS`.
        formats: of maps, some of `FORMATS`.
        cloud: its points, if they are asked for and there is a calibration.
        max_depth: of the colours in the picture of the depth, metres; None stands for `usable_depth`.
    """
    for name, given, known in (("output", outputs, OUTPUTS), ("format", formats, FORMATS)):
        if wrong := sorted(set(given) - set(known)):
            raise InputError(f"there is no {name} {wrong[0]!r}; use some of {', '.join(known)}")
    files: list[Path] = []

    def file(ending: str) -> Path:
        files.append(stem.with_name(f"{stem.name}_{ending}"))
        return files[-1]

    ordered = [suffix for suffix in FORMATS if suffix in formats]
    depth = None if prediction.calibration is None else prediction.depth
    if "disparity" in outputs:
        for suffix in ordered:
            write_disparity(file(f"disparity_{'px256' if suffix == 'png' else 'px'}.{suffix}"), prediction.disparity)
    if "depth" in outputs and depth is not None:
        for suffix in ordered:
            write_depth(file(f"depth_{'mm' if suffix == 'png' else 'm'}.{suffix}"), depth)
    if "confidence" in outputs and prediction.confidence is not None:
        for suffix in ordered:
            write_confidence(file(f"confidence.{suffix}"), prediction.confidence)
    if "masks" in outputs:
        write_image(file("edges.png"), mask_picture(prediction.edges))
        occluded = prediction.occluded
        if occluded is not None:
            write_image(file("occluded.png"), mask_picture(occluded))
    if "pictures" in outputs:
        write_image(file("disparity_colour.png"), disparity_picture(prediction.disparity))
        if depth is not None and prediction.calibration is not None:
            limit = usable_depth(prediction.calibration) if max_depth is None else max_depth
            write_image(file("depth_colour.png"), depth_picture(depth, max_depth=limit))
        if prediction.confidence is not None:
            write_image(file("confidence_colour.png"), confidence_picture(prediction.confidence))
    if "cloud" in outputs and cloud is not None:
        write_ply(file("cloud.ply"), cloud)
    return files
