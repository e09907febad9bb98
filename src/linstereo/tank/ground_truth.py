"""The ground truth of one stereo pair: the target's pose from its tags, its depth from its CAD model."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import depth_to_disparity
from linstereo.tank.detection import Detection, detect_tags
from linstereo.tank.diagnosis import (
    better_explanation,
    focal_error,
    size_error,
    why_no_agreement,
    why_so_bad,
    why_too_few,
    wrong_focal,
    wrong_size,
)
from linstereo.tank.layout import TagLayout
from linstereo.tank.mesh import FRAME, ROPE, TargetMesh
from linstereo.tank.missing_tags import find_missing
from linstereo.tank.pose import Pose, PoseFit, Rejected, solve_pose
from linstereo.tank.zbuffer import Rendering, render_depth
from linstereo.visualize import colourise

_RIVAL = 12.0  # chi square by which the next best pose must be worse
_SAMPLED = 4000  # pixels at which the error of the depth is estimated

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Thresholds:
    """What a picture must reach for its ground truth to be written.

    Args:
        tags: least number of tags that agree on the pose.
        reprojection: largest root mean square error of their corners, px.
        depth_error: largest estimated error of the depth, m: the median over the visible frame of one standard
            deviation.
        disparity_error: largest difference, px, between the disparity that the pose gives the tags' corners and the one
            seen in the two images; the median over all corners.
    """

    tags: int = 2
    reprojection: float = 1.0
    depth_error: float = 0.002
    disparity_error: float = 1.0

    def __post_init__(self) -> None:
        if self.tags < 2:
            raise InputError(f"at least {self.tags} tags are asked for; a pose needs 2 or more")
        for name in ("reprojection", "depth_error", "disparity_error"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InputError(f"the threshold {name} is {value}; it must be a number greater than 0")


@dataclass(frozen=True)
class Quality:
    """How good the ground truth of a picture is.

    Args:
        tags: numbers of the tags that agree on the pose.
        odd_tags: numbers of what looked like tags but does not belong to the target, or sits elsewhere.
        reprojection: root mean square error of the corners, px.
        edge_shift: px by which the edges of all tags seem to lie outside of where they are; blur makes some tenths.
        depth_error: estimated error of the depth, m, one standard deviation: the median over the visible frame.
        depth_error_95: the same at the 95th percentile.
        disparity_difference: px by which the disparity of the tags' corners seen in the two images exceeds that of the
            ground truth, median; None if the right image shows fewer than two tags.
        row_difference: px by which corners are lower in the right image, median; the error of the rectification.
        distance: m from the camera to the nearest visible point of the target, along the optical axis.
        pixels: number of pixels with ground truth.
        rope_pixels: how many of them are rope.
    """

    tags: tuple[int, ...]
    odd_tags: tuple[int, ...]
    reprojection: float
    edge_shift: float
    depth_error: float
    depth_error_95: float
    disparity_difference: float | None
    row_difference: float | None
    distance: float
    pixels: int
    rope_pixels: int

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`, figures rounded to what they mean."""
        return {
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in dataclasses.asdict(self).items()
        }


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """What is known about a pair; H x W px of the left image.

    Args:
        pose: of the target in the frame of the left camera.
        depth: float32 [H, W] metres along the optical axis, 0 where the target is not seen.
        disparity: float32 [H, W] px, positive, 0 where the target is not seen.
        valid: bool [H, W], True where both are known.
        thin: bool [H, W], True where the target is narrower than a pixel and passes beside the pixel's centre.
        part: uint8 [H, W], 1 on the frame, 2 on ropes, 0 elsewhere.
        quality: figures about it.
        detections: the tags in the left image that agree on the pose.
    """

    pose: Pose
    depth: NDArray[np.float32]
    disparity: NDArray[np.float32]
    valid: NDArray[np.bool_]
    thin: NDArray[np.bool_]
    part: NDArray[np.uint8]
    quality: Quality
    detections: tuple[Detection, ...]


def make_ground_truth(
    left: NDArray[np.uint8],
    right: NDArray[np.uint8] | None,
    calibration: StereoCalibration,
    layout: TagLayout,
    mesh: TargetMesh,
    thresholds: Thresholds | None = None,
) -> GroundTruth:
    """Find the target in the left image and render its depth.

    Args:
        left: uint8 [H, W, 3] RGB, rectified.
        right: the same; only checked against the result. None leaves the check out.
        calibration: of the rectified pair, as seen through the water.
        layout: tags of the target, on the surface of the mesh (`linstereo.tank.mesh_check`).
        mesh: the target.
        thresholds: what the result must reach.

    Raises:
        Rejected: there is no sound ground truth for this pair; the message says why.
    """
    limits = thresholds or Thresholds()
    fit = locate_target(left, calibration, layout, limits)
    difference, rows = (None, None) if right is None else _stereo_check(fit, right, calibration, layout)
    if difference is not None and abs(difference) > limits.disparity_error:
        raise Rejected(_stereo_reason(fit, difference, calibration, layout))
    height, width = left.shape[:2]
    vertices = fit.pose.apply(mesh.vertices)
    seen = render_depth(vertices, mesh.faces, calibration, height=height, width=width, bodies=mesh.body)
    disparity = depth_to_disparity(seen.depth, calibration)
    valid = (seen.depth > 0) & (disparity > 0)
    if not valid.any():
        raise Rejected("the mesh is not in view at the pose of the tags; check that mesh and layout belong together")
    part = np.where(valid, mesh.part[np.maximum(seen.face, 0)], 0).astype(np.uint8)
    error = depth_deviation(seen, fit.pose, mesh, calibration, fit.covariance)
    if error[0] > limits.depth_error:
        raise Rejected(
            f"the depth is uncertain by {1e3 * error[0]:.1f} mm, more than {1e3 * limits.depth_error:.1f} mm; have "
            "more tags in view, nearer or sharper"
        )
    quality = Quality(
        tags=tuple(sorted(fit.tags)),
        odd_tags=tuple(sorted(found.tag for found in fit.odd)),
        reprojection=fit.rms,
        edge_shift=fit.edge_shift,
        depth_error=error[0],
        depth_error_95=error[1],
        disparity_difference=difference,
        row_difference=rows,
        distance=float(seen.depth[valid].min()),
        pixels=int(np.count_nonzero(valid)),
        rope_pixels=int(np.count_nonzero(part == ROPE)),
    )
    depth = np.where(valid, seen.depth, 0).astype(np.float32)
    return GroundTruth(fit.pose, depth, disparity * valid, valid, seen.thin & valid, part, quality, fit.detections)


def locate_target(
    left: NDArray[np.uint8], calibration: StereoCalibration, layout: TagLayout, thresholds: Thresholds
) -> PoseFit:
    """The pose of the target in the left image uint8 [H, W, 3], or `Rejected` with the reason."""
    detections = detect_tags(left)
    known = {found.tag for found in detections if found.tag in layout.ids}
    if len(known) < 2:
        raise Rejected(why_too_few(left, detections, layout))
    try:
        fit = solve_pose(detections, layout, calibration)
    except Rejected as error:
        raise Rejected(why_no_agreement(detections, layout, calibration)) from error
    if 2 * len(fit.tags) < len(known) or fit.rms > thresholds.reprojection:
        raise Rejected(why_so_bad(detections, fit, layout, calibration, limit=thresholds.reprojection))
    more = find_missing(left, fit, layout, calibration)
    if more:
        fit = solve_pose([*detections, *more], layout, calibration)
    factor = size_error(fit)
    if factor is not None:
        raise Rejected(wrong_size(factor))
    explanation = better_explanation(detections, fit, layout, calibration)
    if explanation is not None:
        raise Rejected(explanation)
    focal = focal_error(fit, layout, calibration)
    if focal is not None:
        raise Rejected(wrong_focal(focal, calibration))
    if len(fit.tags) < thresholds.tags:
        raise Rejected(f"only {len(fit.tags)} tags agree on the pose, fewer than {thresholds.tags}; have more in view")
    if fit.rivalry < _RIVAL:
        raise Rejected(
            "two different poses fit the tags almost equally well; have more tags in view, nearer or sharper"
        )
    return fit


def depth_deviation(
    seen: Rendering, pose: Pose, mesh: TargetMesh, calibration: StereoCalibration, covariance: Floats
) -> tuple[float, float]:
    """Median and 95th percentile over the visible frame of the standard deviation of the depth, metres.

    A small motion of the surface changes the depth at a fixed pixel by its part along the surface's normal, over the
    part of the ray along that normal. The motion is that of `PoseFit.covariance`.
    """
    face = seen.face.ravel()
    wanted = np.flatnonzero((face >= 0) & ~seen.thin.ravel())
    rigid = wanted[mesh.part[face[wanted]] == FRAME]
    wanted = rigid if rigid.size else np.flatnonzero(face >= 0)
    wanted = wanted[:: max(1, len(wanted) // _SAMPLED)]
    row, column = np.divmod(wanted, seen.face.shape[1])
    x, y = (column - calibration.cx) / calibration.focal, (row - calibration.cy) / calibration.focal_y
    ray = np.stack([x, y, np.ones(len(wanted))], axis=1)  # [N, 3]
    corners = pose.apply(mesh.vertices[mesh.faces[face[wanted]]])  # [N, 3, 3]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    turned = ray * seen.depth.ravel()[wanted][:, None] - pose.translation
    towards = (normal * ray).sum(axis=1, keepdims=True)
    towards = np.where(np.abs(towards) < 1e-3, 1e-3, towards)
    rows = np.concatenate([np.cross(turned, normal), normal], axis=1) / towards  # [N, 6]
    deviation = np.sqrt(np.maximum(np.einsum("ni,ij,nj->n", rows, covariance, rows), 0))
    return float(np.median(deviation)), float(np.percentile(deviation, 95))


def overlay(left: NDArray[np.uint8], truth: GroundTruth) -> NDArray[np.uint8]:
    """A picture uint8 [H, W, 3] to check by eye: depth in colour over half of the image, outlines and tags drawn in."""
    picture = left.copy()
    colours = colourise(truth.depth, valid=truth.valid, reverse=True)
    mixed = (0.55 * left + 0.45 * colours).astype(np.uint8)
    checks = (np.indices(truth.valid.shape) // 24).sum(axis=0) % 2 == 0  # bare and coloured squares in turn
    shown = truth.valid & (checks | (truth.part == ROPE))
    picture[shown] = mixed[shown]
    around = cv2.dilate(truth.valid.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    picture[around & ~truth.valid] = (255, 255, 0)
    for found in truth.detections:
        quad = np.round(found.corners * 16).astype(np.int32)
        cv2.polylines(picture, [quad.reshape(-1, 1, 2)], True, (0, 255, 0), 1, cv2.LINE_AA, shift=4)
        at = tuple(int(value) for value in found.corners.mean(axis=0))
        cv2.putText(picture, str(found.tag), at, cv2.FONT_HERSHEY_SIMPLEX, 0.4, (255, 0, 255), 1, cv2.LINE_AA)
    return picture


def _stereo_check(
    fit: PoseFit, right: NDArray[np.uint8], calibration: StereoCalibration, layout: TagLayout
) -> tuple[float, float] | tuple[None, None]:
    """Median differences, px: of the corners' disparity seen and expected, and of their rows in right and left."""
    seen, expected, rows = _corner_disparities(fit, detect_tags(right), calibration, layout)
    if len(seen) < 8:
        return None, None
    return float(np.median(seen - expected)), float(np.median(rows))


def _corner_disparities(
    fit: PoseFit, others: Sequence[Detection], calibration: StereoCalibration, layout: TagLayout
) -> tuple[Floats, Floats, Floats]:
    """Disparities of the corners of tags in both images as seen and as expected, and differences of rows, px: [N]."""
    seen, expected, rows = [], [], []
    for own in fit.detections:
        same = [other for other in others if other.tag == own.tag]
        if not same:
            continue
        match = min(same, key=lambda other: abs(float((other.corners - own.corners)[:, 1].mean())))
        depth = fit.pose.apply(layout.corners[layout.index_of(own.tag)])[:, 2]
        seen.append(own.corners[:, 0] - match.corners[:, 0])
        expected.append(calibration.focal * calibration.baseline / depth - calibration.doffs)
        rows.append(match.corners[:, 1] - own.corners[:, 1])
    if not seen:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    return np.concatenate(seen), np.concatenate(expected), np.concatenate(rows)


def _stereo_reason(fit: PoseFit, difference: float, calibration: StereoCalibration, layout: TagLayout) -> str:
    depth = float(np.median(fit.pose.apply(layout.corners[[layout.index_of(tag) for tag in fit.tags]])[..., 2]))
    expected = calibration.focal * calibration.baseline / depth
    seen = expected + difference
    if seen <= 0:
        return (
            f"the disparity of the tags is {seen:.1f} px instead of {expected:.1f} px; left and right image are "
            "swapped, or the pair is not rectified"
        )
    return (
        f"the two images have the tags at {depth * expected / seen:.3f} m, the layout has them at {depth:.3f} m "
        f"(disparities differ by {difference:+.1f} px); check the sizes in the layout and their unit, the baseline, "
        "and that the calibration was made under water"
    )
