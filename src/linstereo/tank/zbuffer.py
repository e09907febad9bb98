"""What a pinhole camera sees of a mesh, at the centres of its pixels, and which surface it is.

With the corners a, b, c of a face in the frame of the camera and the ray (x, y, 1) through a pixel, the three functions
(b x c, c x a, a x b) . ray / (a . (b x c)) are the barycentric coordinates over the depth: linear in x and y. The ray
meets the face ahead of the camera exactly where all three are not negative, and their sum is the inverse depth. This
holds for either side of the face and for faces that reach behind the camera, so nothing needs clipping, and the depth
is exact, not interpolated. Along a row of pixels the three conditions are bounds on the column: a face covers one
interval of each row, and the pixel centres inside are its own.

A structure narrower than a pixel falls between the centres here and there, and would come out as a dotted line. So a
second rule applies: where a body, seen alone, crosses the middle row or the middle column of pixels in an interval that
holds no pixel centre, the pixel in which the middle of that interval lies takes the body's depth there, unless
something nearer is at the pixel's centre. Every thin body thus leaves an unbroken line of pixels (each touching the
next at a side or a corner), all of them pixels that the body does pass through; they are marked as `thin`. What is at
least a pixel wide covers a centre in every row or every column it crosses by the first rule already.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration

NEAREST = 1e-3
"""Metres; what is nearer to the camera than this is not seen."""
_SLACK = 1e-9  # px by which a face is widened, so that no centre on the seam of two faces falls between them
_CHUNK = 4_000_000  # pixels that are worked on at once

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rendering:
    """What the camera sees; H x W px.

    Args:
        depth: float64 [H, W] metres along the optical axis, 0 where nothing is seen.
        face: int64 [H, W] index of the face, -1 where nothing is seen.
        thin: bool [H, W] True where something narrower than a pixel passes beside the pixel's centre.
    """

    depth: Floats
    face: Integers
    thin: NDArray[np.bool_]


def render_depth(
    vertices: Floats,
    faces: Integers,
    calibration: StereoCalibration,
    *,
    height: int,
    width: int,
    bodies: Integers | None = None,
) -> Rendering:
    """Render a mesh that is given in the frame of the camera.

    Args:
        vertices: [V, 3] metres: x right, y down, z ahead.
        faces: [F, 3] indices of vertices; both sides of a face are seen, and the mesh may be open.
        calibration: focal lengths and principal point in px; the centre of the upper left pixel is (0, 0).
        height: rows of the image.
        width: columns of the image.
        bodies: [F] which body a face belongs to, for the rule about thin ones; None takes the mesh as one body, and
            then something thin before a wide surface of the same mesh has that surface beside it.
    """
    if height < 1 or width < 1:
        raise InputError(f"the image to render is {width} x {height} px; both must be at least 1")
    corners = vertices[faces]  # [F, 3, 3]
    functions, kept = _ray_functions(corners, calibration)
    bounds = _bounds(corners[kept], calibration)  # [K, 4]
    body = np.zeros(len(faces), np.int64) if bodies is None else bodies
    buffer = _Buffer(height, width)
    for turned in (False, True):
        lines = _intervals(functions, bounds, height=height, width=width, turned=turned)
        if not turned:
            buffer.fill(lines, functions, kept)
        buffer.fill_thin(_thin(lines, body[kept]), functions, kept, turned=turned)
    return buffer.rendering()


@dataclass(frozen=True, eq=False)
class _Lines:
    """Intervals in which faces cross middle rows of pixels, or middle columns: [N] each."""

    face: Integers  # of the kept ones
    line: Integers  # row, or column
    first: Floats  # column, or row, px
    last: Floats


class _Buffer:
    """The nearest surface at each pixel so far."""

    def __init__(self, height: int, width: int) -> None:
        self.shape = height, width
        self.depth = np.full(height * width, np.inf)
        self.face = np.full(height * width, -1, np.int64)
        self.thin = np.zeros(height * width, np.bool_)

    def fill(self, lines: _Lines, functions: Floats, kept: Integers) -> None:
        """Enter all pixel centres inside the intervals of rows."""
        first, last = np.ceil(lines.first - _SLACK), np.floor(lines.last + _SLACK)
        counts = np.maximum(last - first + 1, 0).astype(np.int64)
        for some in _chunks(counts):
            count = counts[some]
            which = np.repeat(np.arange(len(count)), count)
            place = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
            column = first[some][which] + place
            row = lines.line[some][which]
            face = lines.face[some][which]
            self._enter(row * self.shape[1] + column.astype(np.int64), _depth(functions, face, column, row), kept[face])

    def fill_thin(self, lines: _Lines, functions: Floats, kept: Integers, *, turned: bool) -> None:
        """Enter the pixels in which the middles of intervals lie; `first` and `last` are those middles."""
        middle, line = lines.first, lines.line
        nearest = np.floor(middle + 0.5).astype(np.int64)
        column, row = (line, nearest) if turned else (nearest, line)
        exact_column, exact_row = (line, middle) if turned else (middle, line)
        inside = (column >= 0) & (column < self.shape[1]) & (row >= 0) & (row < self.shape[0])
        depth = _depth(functions, lines.face, exact_column, exact_row)
        pixel = (row * self.shape[1] + column)[inside]
        improved = self._enter(pixel, depth[inside], kept[lines.face[inside]])
        self.thin[improved] = True

    def rendering(self) -> Rendering:
        seen = np.isfinite(self.depth)
        depth = np.where(seen, self.depth, 0.0)
        return Rendering(depth.reshape(self.shape), self.face.reshape(self.shape), self.thin.reshape(self.shape))

    def _enter(self, pixel: Integers, depth: Floats, face: Integers) -> Integers:
        """Keep the nearest; returns the pixels that changed."""
        before = self.depth[pixel]
        np.minimum.at(self.depth, pixel, depth)
        won = (depth == self.depth[pixel]) & (depth < before)
        self.face[pixel[won]] = face[won]
        return np.asarray(pixel[won])


def _ray_functions(corners: Floats, calibration: StereoCalibration) -> tuple[Floats, Integers]:
    """Coefficients [K, 3, 3] of the three functions of (column, row, 1) of faces that are not edge-on, and which."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    by_ray = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=1)  # [F, 3, 3]
    volume = np.einsum("fi,fi->f", a, by_ray[:, 0])
    size = np.linalg.norm(corners, axis=2).max(axis=1)
    ahead = corners[:, :, 2].max(axis=1) > NEAREST
    kept = np.flatnonzero((np.abs(volume) > 1e-18 * size**3) & ahead)
    by_ray = by_ray[kept] / volume[kept, None, None]
    x, y, one = np.moveaxis(by_ray, -1, 0)
    x, y = x / calibration.focal, y / calibration.focal_y
    return np.stack([x, y, one - x * calibration.cx - y * calibration.cy], axis=-1), kept


def _bounds(corners: Floats, calibration: StereoCalibration) -> Floats:
    """[K, 4] first and last column, first and last row of each face, px; infinite if it reaches behind the camera."""
    depth = corners[:, :, 2]
    behind = depth.min(axis=1) <= NEAREST
    safe = np.where(behind[:, None], 1.0, depth)
    column = calibration.cx + calibration.focal * corners[:, :, 0] / safe
    row = calibration.cy + calibration.focal_y * corners[:, :, 1] / safe
    bounds = np.stack([column.min(axis=1), column.max(axis=1), row.min(axis=1), row.max(axis=1)], axis=1)
    bounds[behind] = (-np.inf, np.inf, -np.inf, np.inf)
    return np.asarray(bounds)


def _intervals(functions: Floats, bounds: Floats, *, height: int, width: int, turned: bool) -> _Lines:
    """Where faces cross the middle rows of pixels (or, turned, the middle columns), inside the image."""
    across, along = (1, 0) if turned else (0, 1)
    lines, places = (width, height) if turned else (height, width)
    low, high = (bounds[:, 0], bounds[:, 1]) if turned else (bounds[:, 2], bounds[:, 3])
    other_low, other_high = (bounds[:, 2], bounds[:, 3]) if turned else (bounds[:, 0], bounds[:, 1])
    first = np.ceil(np.clip(low, 0, lines) - _SLACK)
    last = np.floor(np.clip(high, -1, lines - 1) + _SLACK)
    in_view = (other_high >= -0.5) & (other_low <= places - 0.5)
    counts = np.where(in_view, np.maximum(last - first + 1, 0), 0).astype(np.int64)
    face = np.repeat(np.arange(len(counts)), counts)
    line = np.arange(len(face)) - np.repeat(np.cumsum(counts) - counts, counts) + first[face].astype(np.int64)
    begin = np.full(len(face), -0.5)
    end = np.full(len(face), places - 0.5)
    conditions = [functions[:, k] for k in range(3)]
    far_enough = -functions.sum(axis=1)  # not nearer than NEAREST
    far_enough[:, 2] += 1 / NEAREST
    for condition in (*conditions, far_enough):
        slope = condition[face, across]
        level = condition[face, along] * line + condition[face, 2]
        with np.errstate(divide="ignore", invalid="ignore"):
            root = -level / slope
        begin = np.where(slope > 0, np.maximum(begin, root), begin)
        end = np.where(slope < 0, np.minimum(end, root), end)
        end = np.where((slope == 0) & (level < 0), -np.inf, end)
    met = begin <= end + 2 * _SLACK
    return _Lines(face[met], line[met], begin[met], end[met])


def _thin(lines: _Lines, body: Integers) -> _Lines:
    """Middles of the stretches, of all faces of a body together, that hold no pixel centre; one for each face there."""
    if not len(lines.face):
        return lines
    order = np.lexsort((lines.first, lines.line, body[lines.face]))
    face, line, first, last = lines.face[order], lines.line[order], lines.first[order], lines.last[order]
    group_starts = np.r_[True, (np.diff(line) != 0) | (np.diff(body[face]) != 0)]
    group = np.cumsum(group_starts) - 1
    reach = _running_maximum(last, group)
    stretch_starts = group_starts | np.r_[True, first[1:] > reach[:-1] + 1e-6]
    stretch = np.cumsum(stretch_starts) - 1
    begin = first[stretch_starts]
    end = np.full(len(begin), -np.inf)
    np.maximum.at(end, stretch, last)
    narrow = np.floor(end + _SLACK) < np.ceil(begin - _SLACK)
    middle = ((begin + end) / 2)[stretch]
    chosen = narrow[stretch] & (first <= middle + _SLACK) & (last >= middle - _SLACK)
    return _Lines(face[chosen], line[chosen], middle[chosen], middle[chosen])


def _running_maximum(values: Floats, group: Integers) -> Floats:
    """Maximum of each value and those before it in the same group; groups are numbered in order."""
    step = float(values.max() - values.min()) + 1.0
    return np.asarray(np.maximum.accumulate(values + group * step) - group * step)


def _depth(functions: Floats, face: Integers, column: Floats | Integers, row: Floats | Integers) -> Floats:
    across, down, level = functions.sum(axis=1)[face].T
    with np.errstate(divide="ignore"):
        depth = 1 / (across * column + down * row + level)
    return np.where(depth > 0, depth, np.inf)


def _chunks(counts: Integers) -> list[slice]:
    """Slices of neighbouring entries with about `_CHUNK` pixels each."""
    total = np.cumsum(counts)
    cuts = np.searchsorted(total, np.arange(_CHUNK, (total[-1] if len(total) else 0) + _CHUNK, _CHUNK)) + 1
    edges = [0, *np.minimum(cuts, len(counts)).tolist()]
    return [slice(a, b) for a, b in itertools.pairwise(edges) if b > a]
