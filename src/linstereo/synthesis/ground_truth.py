"""Exact disparity and occlusion of a rendered pair."""

from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.raycast import Faces, Float64s, RayCaster, cameras_of
from linstereo.synthesis.render import View, depth_edges
from linstereo.synthesis.scene import IdealStereoRig

_IN_FRONT = 1e-6  # a surface hides a point if it is nearer by more than this part of its depth
_SAME = 1e-4  # relative difference of inverse depths up to which two points count as one
_NEARER = 0.01  # relative difference of inverse depths from which on one point clearly hides another
_SURROUNDINGS = np.ones((9, 9), np.uint8)  # px around a point in which the other view must be smooth


def disparity_of(depth: Float64s, calibration: StereoCalibration) -> Float64s:
    """Disparity in px, float64 [H, W], from depth in metres; larger than 0 unless `doffs` makes it less."""
    return calibration.focal * calibration.baseline / depth - calibration.doffs


def occlusion(
    view: View, other_view: View, side: Literal["left", "right"], rig: IdealStereoRig, caster: RayCaster
) -> NDArray[np.bool_]:
    """Pixels of one view whose surface point the other camera does not see, bool [H, W].

    A point is not seen if it lies outside of the other image (whose border is half a pixel outside of the outermost
    pixel centres), or if something lies before it, which a ray from the other camera tells. Transparent surfaces hide
    what is behind them.

    No ray is needed where the other view has no edge nearby and, interpolated between its two nearest pixels, shows
    the very same point or clearly something nearer. What this overlooks are things and gaps thinner than a pixel that
    the other view does not show either: a few pixels in a million.

    Args:
        view: what the camera of `side` sees.
        other_view: what the other one sees.
        side: whose points are asked for.
        rig: the cameras.
        caster: the scene.
    """
    height, width = view.depth.shape
    cameras = cameras_of(rig)
    own, other = cameras if side == "left" else cameras[::-1]
    x, y = own.rays(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))  # [W], [H]
    inverse = 1 / view.depth
    other_x = x + (own.x - other.x) * inverse  # the same point as a ray (x, y, 1) of the other camera
    other_column = other_x * other.focal + other.cx
    hidden = (other_column < -0.5) | (other_column > width - 0.5)
    surely_seen, surely_hidden = _without_rays(inverse, 1 / other_view.depth, other_column)
    hidden |= surely_hidden
    asked = np.flatnonzero(~(hidden | surely_seen))
    x, y, depth = other_x.ravel()[asked], y[asked // width], view.depth.ravel()[asked]
    face = view.face.ravel()[asked]
    seen = caster.seen_faces(other, x, y)
    differs = np.flatnonzero((seen != face) & (seen >= 0))  # elsewhere the other camera sees the very same face
    x, y, seen = x[differs], y[differs], seen[differs]
    nearer = Faces(caster, other, caster.used(seen)).depth(seen, x, y) < depth[differs] * (1 - _IN_FRONT)
    hidden.ravel()[asked[differs[nearer]]] = True
    return np.asarray(hidden, np.bool_)


def _without_rays(
    inverse: Float64s, other_inverse: Float64s, other_column: Float64s
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Pixels whose point the other camera surely sees, and those it surely does not; all arrays are [H, W].

    The inverse depth of a plane is linear in the column, so that it can be interpolated.
    """
    height, width = inverse.shape
    first = np.clip(other_column.astype(np.int32), 0, width - 2)
    pixel = first + (np.arange(height, dtype=np.int32) * width)[:, None]
    edgy = cv2.dilate(depth_edges(other_inverse).astype(np.uint8), _SURROUNDINGS)
    smooth = edgy.take(pixel) == 0
    other_single = other_inverse.astype(np.float32)
    shown = other_single.take(pixel)
    shown += (other_single.take(pixel + 1) - shown) * (other_column - first).astype(np.float32)
    shown /= inverse.astype(np.float32)
    seen = smooth & (np.abs(shown - 1) < _SAME)
    hidden = smooth & (shown > 1 + _NEARER)
    return seen, hidden
