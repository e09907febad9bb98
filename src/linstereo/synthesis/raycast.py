"""Which surface a ray meets, and exactly where.

Embree says which triangle comes first; it computes in single precision, so the point itself is worked out again here
in double precision from the triangle's corners.

Seen from a camera at the origin, with corners a, b, c and a ray (x, y, 1), the three barycentric coordinates of the hit
are proportional to (b x c, c x a, a x b) . ray: linear in x and y. So is their sum, and depth = a . (b x c) / sum.
Every quantity given at the corners is therefore a quotient of two linear functions of the pixel, whose coefficients are
worked out once for each face and each camera.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from linstereo import extras
from linstereo.errors import InputError
from linstereo.synthesis.scene import IdealStereoRig, SceneObject

# Imported here and not on first use, so that a missing package is told before anything is written.
_RENDERING = "rendering synthetic pairs"
TriangleMesh = extras.require("embreex.mesh_construction", extra="synth", purpose=_RENDERING).TriangleMesh
EmbreeScene = extras.require("embreex.rtcore_scene", extra="synth", purpose=_RENDERING).EmbreeScene

Float32s = NDArray[np.float32]
Float64s = NDArray[np.float64]
Ids = NDArray[np.int32]
Precision = TypeVar("Precision", np.float32, np.float64)
_BESIDE = 5e-7  # far less than a thousandth of a pixel, and more than the rounding of single precision


class Camera(NamedTuple):
    """A pinhole camera that looks along z; pixel centres have integer coordinates."""

    x: float
    """Metres to the right of the left camera."""
    focal: float
    focal_y: float
    cx: float
    cy: float
    """The last four in px."""

    def rays(self, columns: Float64s, rows: Float64s) -> tuple[Float64s, Float64s]:
        """Directions (x, y, 1) through points of the image, so that a length along the ray is a depth."""
        return (columns - self.cx) / self.focal, (rows - self.cy) / self.focal_y


def cameras_of(rig: IdealStereoRig) -> tuple[Camera, Camera]:
    """The left and the right camera of a rig."""
    c = rig.calibration
    left = Camera(0.0, c.focal, c.focal_y, c.cx, c.cy)
    return left, left._replace(x=c.baseline, cx=c.cx + c.doffs)


class RayCaster:
    """All triangles of a scene, ready for rays. Tables have the faces last, so that work on them is fast.

    Attributes:
        corners: [3 axes, 3 corners, F] metres.
        uv: [2, 3 corners, F] texture coordinates.
        normals: [3 axes, 3 corners, F] unit normals, all on one side of the face.
        object_of_face: [F] index of the object that a face belongs to.
    """

    def __init__(self, objects: Sequence[SceneObject]) -> None:
        if not objects:
            raise InputError("the scene has no objects; give it at least a backdrop")
        meshes = [item.mesh for item in objects]
        starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
        vertices = np.concatenate([mesh.vertices for mesh in meshes]).astype(np.float64, copy=False)  # [V, 3]
        faces = np.concatenate([mesh.faces + start for mesh, start in zip(meshes, starts, strict=False)])  # [F, 3]
        if not np.isfinite(vertices).all():
            raise InputError("the scene has a vertex that is not finite; check the meshes it is made of")
        face_counts = [len(mesh.faces) for mesh in meshes]
        self.object_of_face = np.repeat(np.arange(len(meshes), dtype=np.int32), face_counts)  # [F]
        by_corner = np.ascontiguousarray(faces.T)  # [3 corners, F]
        self.corners = _at_corners(vertices, by_corner)
        self.uv = _at_corners(np.concatenate([mesh.uv for mesh in meshes]), by_corner)
        self.normals = self._corner_normals(objects, by_corner)
        # Embree's robust mode is a quarter slower; without it one ray in millions slips through between two faces,
        # for which there is `faces_beside`
        self._embree = EmbreeScene(robust=False)
        # Embree's wrapper reads element by element; plain lists are what it reads fastest
        rows = np.fromiter(faces.tolist(), dtype=object, count=len(faces))
        self._mesh = TriangleMesh(self._embree, vertices.astype(np.float32), rows)

    def _corner_normals(self, objects: Sequence[SceneObject], by_corner: NDArray[np.int64]) -> Float64s:
        smooth = [item.mesh.normals for item in objects]
        normals = _at_corners(
            np.concatenate(
                [np.zeros((len(o.mesh.vertices), 3)) if n is None else n for o, n in zip(objects, smooth, strict=True)]
            ),
            by_corner,
        )  # [3, 3, F]
        flat = np.flatnonzero(np.array([n is None for n in smooth])[self.object_of_face])
        if flat.size:
            a, b, c = (self.corners[:, corner, flat] for corner in range(3))  # [3, flat] each
            plane = cross_products(b - a, c - a)
            plane /= np.sqrt(np.maximum((plane * plane).sum(axis=0), 1e-300))
            normals[:, :, flat] = plane[:, None]
        return normals

    def first_faces(self, origins: Float32s, directions: Float32s) -> Ids:
        """The face that each ray meets first, -1 where it meets none.

        `origins` and `directions` are float32 [N, 3]; directions need not have length 1.
        """
        return np.asarray(self._embree.run(origins, directions, query="INTERSECT"), np.int32)

    def seen_faces(self, camera: Camera, x: Float64s, y: Float64s, *, beyond: Float64s | None = None) -> Ids:
        """The face that a camera sees in each direction (x, y, 1), counting only what lies beyond a depth, if given.

        `x`, `y` and `beyond` are [N]; returns [N], -1 where there is no face.
        """
        directions = np.empty((len(x), 3), np.float32)
        directions[:, 0], directions[:, 1], directions[:, 2] = x, y, 1.0
        origins = np.broadcast_to(np.array([camera.x, 0.0, 0.0], np.float32), directions.shape)
        if beyond is not None:
            origins = origins + directions * beyond.astype(np.float32)[:, None]
        return self.first_faces(origins, directions)

    def faces_beside(self, camera: Camera, x: Float64s, y: Float64s) -> Ids:
        """The nearest of the faces that rays a hair's breadth beside (x, y, 1) meet, [N], -1 where there is none.

        This finds the right face where the ray itself has slipped through between two faces, past Embree's arithmetic.
        """
        if not len(x):
            return np.empty(0, np.int32)
        right, down = np.array([[-1], [-1], [1], [1]]) * _BESIDE, np.array([[-1], [1], [-1], [1]]) * _BESIDE
        face = self.seen_faces(camera, (x + right).ravel(), (y + down).ravel())  # [4 * N]
        met = np.flatnonzero(face >= 0)
        depth = np.full(len(face), np.inf)
        depth[met] = Faces(self, camera, self.used(face[met])).depth(face[met], np.tile(x, 4)[met], np.tile(y, 4)[met])
        nearest = depth.reshape(4, -1).argmin(axis=0)  # [N]
        return np.asarray(face.reshape(4, -1)[nearest, np.arange(len(x))], np.int32)

    def used(self, face: Ids) -> NDArray[np.bool_]:
        """Which faces occur in `face`, bool [F]."""
        used = np.zeros(len(self.object_of_face), np.bool_)
        used[face] = True
        return used

    def blocked(self, origins: Float32s, directions: Float32s) -> NDArray[np.bool_]:
        """Whether anything lies in the way of each ray, bool [N]; rays are float32 [N, 3]."""
        hit = self._embree.run(origins, directions, query="OCCLUDED")
        return np.asarray(hit != -1, np.bool_)


class Surface(NamedTuple):
    """What N rays of one camera meet; vectors are stored as [3, N]."""

    face: Ids
    """[N] index of the face."""
    x: Float64s
    """[N] with `y`: the ray is (x, y, 1)."""
    y: Float64s
    depth: Float64s
    """[N] metres along z."""
    u: Float32s
    """[N] with `v`: texture coordinates, but for a whole number."""
    v: Float32s
    footprint: Float32s
    """[N] size of a pixel in texture coordinates, see `Faces.surface`."""
    normal: Float32s
    """[3, N] unit vectors, on the side of the camera."""
    point: Float32s
    """[3, N] metres in the frame of the left camera."""


class Faces:
    """The faces of a scene as one camera sees them: coefficients of the linear functions of the ray.

    Args:
        caster: the scene.
        camera: whose rays are looked at.
        used: bool [F], the faces that matter.
    """

    def __init__(self, caster: RayCaster, camera: Camera, used: NDArray[np.bool_]) -> None:
        self.camera = camera
        chosen = np.flatnonzero(used)  # [U]
        self._row = np.zeros(len(used), np.int32)  # of a face in the tables below
        self._row[chosen] = np.arange(len(chosen))
        corners = caster.corners.take(chosen, axis=2)  # [3 axes, 3 corners, U]
        corners[0] -= camera.x
        self._nearest, self._farthest = corners[2].min(axis=0), corners[2].max(axis=0)
        a, b, c = (corners[:, corner] for corner in range(3))  # [3 axes, U] each
        weights = np.stack([cross_products(b, c), cross_products(c, a), cross_products(a, b)])  # [3 corners, 3 ray, U]
        volume = (a * weights[0]).sum(axis=0)  # [U]
        volume[volume == 0] = np.inf  # faces without area or seen exactly edge-on
        weights /= volume  # barycentric coordinates over depth
        self._inverse_depth = weights.sum(axis=0)  # [3 ray, U]
        self._slope = self._inverse_depth.astype(np.float32)
        uv = caster.uv.take(chosen, axis=2)  # [2, 3 corners, U]
        uv -= np.floor(uv[:, :1])  # textures repeat; small numbers keep single precision precise
        self._u, self._v = (_weighted(weights, values) for values in uv)  # [3 ray, U]
        normals = caster.normals.take(chosen, axis=2)  # [3 axes, 3 corners, U]
        plane = cross_products(b - a, c - a)  # [3, U]
        behind = ((plane * normals.sum(axis=1)).sum(axis=0) > 0) == (volume > 0)  # [U], as plane . a is the volume
        normals *= np.where(behind, -1.0, 1.0)
        self._normal = [_weighted(weights, values) for values in normals]  # [3 ray, U] for each axis

    def depth(self, face: Ids, x: Float64s, y: Float64s) -> Float64s:
        """Depth in metres, float64 [N], at which the rays (x, y, 1) meet the given faces.

        A ray that, in double precision, passes a face by a hair gets a depth within that of the face.
        """
        row = self._row.take(face)
        inverse = _linear(self._inverse_depth, row, x, y)
        return self._bounded_depth(row, inverse)

    def surface(self, face: Ids, x: Float64s, y: Float64s) -> Surface:
        """Everything about the points where the rays (x, y, 1) meet the given faces.

        The footprint is the larger of the image axes' changes of texture coordinates over one pixel, but no more than
        twice the smaller one: a slanted surface is then neither blurred away nor full of aliases.
        """
        row = self._row.take(face)
        depth = self._bounded_depth(row, _linear(self._inverse_depth, row, x, y))
        ray_x, ray_y, scale = x.astype(np.float32), y.astype(np.float32), depth.astype(np.float32)
        u = _linear(self._u, row, ray_x, ray_y)
        v = _linear(self._v, row, ray_x, ray_y)
        u *= scale
        v *= scale
        steps = []
        for axis, focal in ((0, self.camera.focal), (1, self.camera.focal_y)):
            slope = self._slope[axis].take(row)
            step = (self._u[axis].take(row) - u * slope) ** 2
            step += (self._v[axis].take(row) - v * slope) ** 2
            step *= np.float32(focal**-2)
            steps.append(step)
        footprint = scale * np.sqrt(np.minimum(np.maximum(*steps), 4 * np.minimum(*steps)))
        normal = np.empty((3, len(row)), np.float32)
        for axis, coefficients in enumerate(self._normal):
            normal[axis] = _linear(coefficients, row, ray_x, ray_y)
        normal /= np.sqrt(np.maximum(np.square(normal).sum(axis=0), 1e-30))
        point = np.stack([ray_x * scale + np.float32(self.camera.x), ray_y * scale, scale])
        return Surface(face, x, y, depth, u, v, footprint, normal, point)

    def _bounded_depth(self, row: Ids, inverse: Float64s) -> Float64s:
        with np.errstate(divide="ignore"):
            return np.clip(1 / inverse, self._nearest.take(row), self._farthest.take(row))


def _linear(
    coefficients: NDArray[Precision], row: Ids, x: NDArray[Precision], y: NDArray[Precision]
) -> NDArray[Precision]:
    """Value of the linear functions in rows of a [3, U] table at (x, y, 1)."""
    value: NDArray[Precision] = coefficients[0].take(row)
    value *= x
    value += coefficients[1].take(row) * y
    value += coefficients[2].take(row)
    return value


def _weighted(weights: Float64s, values: Float64s) -> Float32s:
    """Sum over the corners of weights [3 corners, 3 ray, U] times values [3 corners, U]."""
    total = weights[0] * values[0]
    total += weights[1] * values[1]
    total += weights[2] * values[2]
    return np.asarray(total, np.float32)


def _at_corners(values: NDArray[np.floating], by_corner: NDArray[np.int64]) -> Float64s:
    """Values [V, K] of the vertices at the corners of the faces, [K, 3 corners, F]."""
    return np.ascontiguousarray(values.T, dtype=np.float64).take(by_corner, axis=1)


def cross_products(a: Float64s, b: Float64s) -> Float64s:
    """Cross products of [3, N] vectors; much faster than `numpy.cross`."""
    return np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])
