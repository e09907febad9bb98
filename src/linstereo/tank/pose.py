"""Where the target is: the pose that agrees with all tags at once.

A pose maps a point X of the target to `rotation @ X + translation` in the frame of the left camera (x right, y down, z
ahead; metres). It is found in two steps. First a consensus: single tags and pairs of tags each propose a pose (IPPE and
SQPnP of OpenCV), and the one that most detections agree with wins; what does not agree is no tag of this target.
Then the sum of the squared corner errors over all agreeing tags is minimised, each tag weighed by how well its
edges were found, with Huber's loss for corners that are worse than the others.

Besides the six numbers of the pose, one more is adjusted: how far all edges seem to be outside of where they are, in
px. Blur and over-exposure move the edges of black squares on white, all alike; this must not pass for a change of
distance. It is held near 0 by `EDGE_SHIFT`.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.tank.detection import Detection
from linstereo.tank.layout import TagLayout

EDGE_SHIFT = 0.2
"""px, the standard deviation of the common shift of all edges that blur and exposure cause."""
FINEST = 0.04
"""px, added to the scatter of every tag's corners: no lens is calibrated better than this."""
_HUBER = 2.0  # standard deviations from which on a corner counts less
_AGREES = 0.12  # of a side, and
_AGREES_PX = 2.0  # px: error up to which a tag may agree with a proposed pose
_FITS_PX = 1.5  # px: error up to which a tag agrees with the final pose, or
_FITS = 5.0  # times the median of the others, whichever is larger
_PROPOSALS = 150

Floats = NDArray[np.float64]


class Rejected(InputError):
    """A picture from which no sound ground truth can be made; the message says why, in one sentence."""


@dataclass(frozen=True, eq=False)
class Pose:
    """The target in the frame of the left camera.

    Args:
        rotation: [3, 3].
        translation: [3] metres.
    """

    rotation: Floats
    translation: Floats

    def apply(self, points: Floats) -> Floats:
        """Points [..., 3] of the target in the frame of the camera."""
        return np.asarray(points @ self.rotation.T + self.translation)


@dataclass(frozen=True, eq=False)
class PoseFit:
    """A pose and how well it is known.

    Args:
        pose: the pose.
        tags: numbers of the tags that agree with it.
        detections: those tags in the image, in the same order.
        odd: detections that do not: of tags that are not on the target, or elsewhere than the pose has them.
        rms: root mean square of the corners' distances from where the pose has them, px, the common shift left out.
        edge_shift: px by which edges seem to be outside of where they are, and
        edge_deviation: its standard deviation if nothing but the corners told about it.
        covariance: [6, 6] of a small turn (radians about the camera's axes) and of the translation (metres).
        rivalry: by how much worse, in units of chi square, the best other pose fits; infinite without any.
    """

    pose: Pose
    tags: tuple[int, ...]
    detections: tuple[Detection, ...]
    odd: tuple[Detection, ...]
    rms: float
    edge_shift: float
    edge_deviation: float
    covariance: Floats
    rivalry: float


def camera_matrix(calibration: StereoCalibration) -> Floats:
    """[3, 3] of the left camera, px."""
    return np.array(
        [[calibration.focal, 0, calibration.cx], [0, calibration.focal_y, calibration.cy], [0, 0, 1]], np.float64
    )


def project(points: Floats, calibration: StereoCalibration) -> Floats:
    """Image points [..., 2] px (column, row) of points [..., 3] in the frame of the left camera; NaN behind it."""
    ahead = np.where(points[..., 2] > 1e-6, points[..., 2], np.nan)
    column = calibration.cx + calibration.focal * points[..., 0] / ahead
    row = calibration.cy + calibration.focal_y * points[..., 1] / ahead
    return np.stack([column, row], axis=-1)


def solve_pose(detections: Sequence[Detection], layout: TagLayout, calibration: StereoCalibration) -> PoseFit:
    """The pose that most detections agree with.

    Raises:
        Rejected: fewer than two tags agree on a pose.
    """
    known = [detection for detection in detections if detection.tag in layout.ids]
    start, chosen = consensus(known, layout, calibration)
    if start is None or len(chosen) < 2:
        raise Rejected(f"no two of the {len(known)} tags found agree on where the target is; check the tag layout")
    for _ in range(4):
        problem = PoseProblem([known[index] for index in chosen], layout, calibration)
        start, _ = problem.minimise(start)
        agreeing = _agreeing(start, known, layout, calibration)
        if len(agreeing) < 2 or agreeing == chosen:
            break
        chosen = agreeing
    used = [known[index] for index in chosen]
    return _finished(start, used, [found for found in detections if found not in used], layout, calibration)


def consensus(
    known: Sequence[Detection], layout: TagLayout, calibration: StereoCalibration
) -> tuple[Pose | None, list[int]]:
    """The best of many proposed poses, and the indices of the detections that agree with it, one for each tag."""
    matrix = camera_matrix(calibration)
    singles = [(index,) for index in range(len(known))]
    pairs = [(a, b) for a, b in itertools.combinations(range(len(known)), 2) if known[a].tag != known[b].tag]
    if len(pairs) > _PROPOSALS:
        order = np.random.default_rng(0).permutation(len(pairs))[:_PROPOSALS]
        pairs = [pairs[index] for index in order]
    best: tuple[float, Pose | None, list[int]] = (np.inf, None, [])
    for chosen in (*pairs, *singles):
        points = np.concatenate([layout.corners[layout.index_of(known[index].tag)] for index in chosen])
        image = np.concatenate([known[index].corners for index in chosen])
        for pose in _proposed(points, image, matrix, single=len(chosen) == 1):
            error = _errors(pose, known, layout, calibration)
            limit = np.array([max(_AGREES_PX, _AGREES * found.side) for found in known])
            cost = float(np.minimum(error / limit, 1).sum())
            if cost < best[0]:
                best = cost, pose, _one_each(error, error < limit, known)
    return best[1], best[2]


def _proposed(points: Floats, image: Floats, matrix: Floats, *, single: bool) -> list[Pose]:
    method = cv2.SOLVEPNP_IPPE if single else cv2.SOLVEPNP_SQPNP
    try:
        _, turns, moves, _ = cv2.solvePnPGeneric(points, image, matrix, None, flags=method)
    except cv2.error:  # corners in one line, or no solution
        return []
    poses = [Pose(_rotation(turn), np.ravel(move)) for turn, move in zip(turns, moves, strict=True)]
    return [pose for pose in poses if np.isfinite(pose.rotation).all() and np.isfinite(pose.translation).all()]


def _errors(pose: Pose, known: Sequence[Detection], layout: TagLayout, calibration: StereoCalibration) -> Floats:
    """[N] root mean square distance in px of each detection's corners from where the pose has them."""
    rows = [layout.index_of(found.tag) for found in known]
    seen = project(pose.apply(layout.corners[rows]), calibration)  # [N, 4, 2]
    offset = seen - np.stack([found.corners for found in known])
    error = np.sqrt((offset**2).sum(axis=2).mean(axis=1))
    return np.where(np.isnan(error), np.inf, error)


def _agreeing(pose: Pose, known: Sequence[Detection], layout: TagLayout, calibration: StereoCalibration) -> list[int]:
    error = _errors(pose, known, layout, calibration)
    near = error[error < 3 * _FITS_PX]
    limit = max(_FITS_PX, _FITS * float(np.median(near))) if near.size else _FITS_PX
    return _one_each(error, error < limit, known)


def _one_each(error: Floats, agrees: NDArray[np.bool_], known: Sequence[Detection]) -> list[int]:
    """Indices of the detections that agree; of several of one tag the best, sorted."""
    best: dict[int, int] = {}
    for index in np.argsort(error):
        if agrees[index]:
            best.setdefault(known[index].tag, int(index))
    return sorted(best.values())


class PoseProblem:
    """Corner errors of chosen tags and how they change with the pose and the common shift of the edges."""

    def __init__(
        self, used: Sequence[Detection], layout: TagLayout, calibration: StereoCalibration, *, prior: float = EDGE_SHIFT
    ) -> None:
        self.points = layout.corners[[layout.index_of(found.tag) for found in used]]  # [T, 4, 3]
        self.image = np.stack([found.corners for found in used])  # [T, 4, 2]
        self.deviation = np.array([np.hypot(found.deviation, FINEST) for found in used])  # [T]
        self.calibration = calibration
        self.prior = prior

    def minimise(self, pose: Pose) -> tuple[Pose, float]:
        """The best pose near the given one, and the shift of the edges in px (Levenberg and Marquardt)."""
        shift, damping = 0.0, 1e-3
        cost = self.cost(pose, shift)
        for _ in range(50):
            matrix, gradient = self._normal_equations(pose, shift)
            step = np.linalg.lstsq(matrix + damping * np.diag(np.diag(matrix)), -gradient, rcond=None)[0]
            turned = Pose(_rotation(step[:3]) @ pose.rotation, pose.translation + step[3:6])
            new_cost = self.cost(turned, shift + step[6])
            if new_cost < cost:
                done = cost - new_cost < 1e-10 * (1 + cost)
                pose, shift, cost, damping = turned, shift + float(step[6]), new_cost, damping / 10
                if done:
                    break
            else:
                damping *= 10
                if damping > 1e8:
                    break
        return pose, shift

    def residuals(self, pose: Pose, shift: float) -> tuple[Floats, Floats]:
        """Errors [T, 4, 2] in px, and the directions [T, 4, 2] in which a shift of 1 px moves the corners."""
        seen = project(pose.apply(self.points), self.calibration)
        outwards = seen - seen.mean(axis=1, keepdims=True)
        outwards *= np.sqrt(2) / np.linalg.norm(outwards, axis=2, keepdims=True)
        return seen + shift * outwards - self.image, outwards

    def cost(self, pose: Pose, shift: float) -> float:
        """Huber's loss of all corners, in units of chi square."""
        error, _ = self.residuals(pose, shift)
        size = np.linalg.norm(error, axis=2) / self.deviation[:, None]  # [T, 4]
        loss = np.where(size < _HUBER, size**2, 2 * _HUBER * size - _HUBER**2).sum() + (shift / self.prior) ** 2
        return float(loss) if np.isfinite(loss) else np.inf

    def covariance(self, pose: Pose, shift: float) -> Floats:
        """[7, 7] of turn, translation and shift, scaled to the errors that are there."""
        matrix, _ = self._normal_equations(pose, shift)
        return np.asarray(np.linalg.pinv(matrix) * self.scale(pose, shift), np.float64)

    def scale(self, pose: Pose, shift: float) -> float:
        """By how much the squared errors exceed what the tags' deviations let expect; at least 1."""
        return max(self.cost(pose, shift) / max(2 * self.image[..., 0].size - 7, 1), 1.0)

    def _normal_equations(self, pose: Pose, shift: float) -> tuple[Floats, Floats]:
        error, outwards = self.residuals(pose, shift)
        turned = self.points @ pose.rotation.T  # [T, 4, 3]
        x, y, z = np.moveaxis(turned + pose.translation, -1, 0)
        zero = np.zeros_like(x)
        focal, focal_y = self.calibration.focal, self.calibration.focal_y
        by_point = np.stack(
            [
                np.stack([focal / z, zero, -focal * x / z**2], axis=-1),
                np.stack([zero, focal_y / z, -focal_y * y / z**2], axis=-1),
            ],
            axis=-2,
        )  # [T, 4, 2, 3]
        by_turn = -by_point @ _skew(turned)  # a turn w moves the turned point p by w x p
        rows = np.concatenate([by_turn, by_point, outwards[..., None]], axis=-1)  # [T, 4, 2, 7]
        size = np.linalg.norm(error, axis=2) / self.deviation[:, None]
        weight = np.minimum(1, _HUBER / np.maximum(size, 1e-12)) / self.deviation[:, None] ** 2  # [T, 4]
        matrix = np.einsum("tcki,tc,tckj->ij", rows, weight, rows)
        gradient = np.einsum("tcki,tc,tck->i", rows, weight, error)
        matrix[6, 6] += self.prior**-2
        gradient[6] += shift * self.prior**-2
        return matrix, gradient


def _finished(
    start: Pose, used: Sequence[Detection], odd: Sequence[Detection], layout: TagLayout, calibration: StereoCalibration
) -> PoseFit:
    problem = PoseProblem(used, layout, calibration)
    pose, shift = problem.minimise(start)
    freely = PoseProblem(used, layout, calibration, prior=1e3)
    free_pose, free_shift = freely.minimise(pose)
    covariance = problem.covariance(pose, shift)
    error, _ = problem.residuals(pose, shift)
    return PoseFit(
        pose=pose,
        tags=tuple(found.tag for found in used),
        detections=tuple(used),
        odd=tuple(odd),
        rms=float(np.sqrt((error**2).sum(axis=2).mean())),
        edge_shift=free_shift,
        edge_deviation=float(np.sqrt(freely.covariance(free_pose, free_shift)[6, 6])),
        covariance=covariance[:6, :6],
        rivalry=_rivalry(problem, pose, shift),
    )


def _rivalry(problem: PoseProblem, pose: Pose, shift: float) -> float:
    """How much worse, in chi square, the target fits if it is tilted the other way: tags in one plane may look alike.

    The start of the other pose has the mean normal of the tags mirrored at the line of sight.
    """
    points = problem.points.reshape(-1, 3)
    centre = points.mean(axis=0)
    normal = pose.rotation @ np.linalg.svd(points - centre)[2][2]
    sight = pose.apply(centre[None])[0]
    sight /= np.linalg.norm(sight)
    mirrored = 2 * (normal @ sight) * sight - normal
    if abs(normal @ mirrored) > 1 - 1e-6:  # seen straight from the front: there is no other side to tilt to
        return np.inf
    axis = np.cross(normal, mirrored)
    angle = np.arctan2(np.linalg.norm(axis), normal @ mirrored)
    rotation = _rotation(axis / np.linalg.norm(axis) * angle) @ pose.rotation
    start = Pose(rotation, pose.apply(centre[None])[0] - rotation @ centre)
    other, other_shift = problem.minimise(start)
    between = float(np.arccos(np.clip((np.trace(other.rotation @ pose.rotation.T) - 1) / 2, -1, 1)))
    if between < np.radians(0.5):  # it came back to the same pose
        return np.inf
    return (problem.cost(other, other_shift) - problem.cost(pose, shift)) / problem.scale(pose, shift)


def _skew(vectors: Floats) -> Floats:
    """Matrices [..., 3, 3] with `_skew(v) @ u` equal to the cross product of v and u."""
    x, y, z = np.moveaxis(vectors, -1, 0)
    zero = np.zeros_like(x)
    return np.stack(
        [np.stack([zero, -z, y], axis=-1), np.stack([z, zero, -x], axis=-1), np.stack([-y, x, zero], axis=-1)], axis=-2
    )


def _rotation(turn: npt.ArrayLike) -> Floats:
    """The rotation [3, 3] about the axis `turn` [3] by its length in radians."""
    return np.asarray(cv2.Rodrigues(np.asarray(turn, np.float64))[0], np.float64)
