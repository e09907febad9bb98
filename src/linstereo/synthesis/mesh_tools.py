"""What all meshes share: surfaces over grids of points, normals, moving, joining, texture scale."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from linstereo.synthesis.scene import Mesh

Floats = NDArray[np.float64]
Faces = NDArray[np.int32]


def surfaces(points: Floats, uv: Floats, *, wrap: bool = False, smooth: bool = True) -> Mesh:
    """One mesh of K surfaces, each stretched over a grid of points.

    Looking along the outside-to-inside direction, rows run down and columns run right: faces turn such that
    (d/d column) x (d/d row) points inwards.

    Args:
        points: [K, R, C, 3] metres, R and C at least 2. A first or last row of equal points is a pole.
        uv: [K, R, C, 2], or anything that broadcasts to it.
        wrap: the last column lies on the first one; normals are smooth across this seam.
        smooth: whether the mesh gets vertex normals.
    """
    count, rows, columns, _ = points.shape
    vertices = points.reshape(-1, 3)  # [K * R * C, 3]
    faces = _grid_faces(rows, columns)
    if count > 1:
        shift = (np.arange(count, dtype=np.int32) * (rows * columns))[:, None, None]
        faces = (faces[None] + shift).reshape(-1, 3)  # [K * 2 (R - 1) (C - 1), 3]
    normal = face_normals(vertices, faces)
    area = np.einsum("ij,ij->i", normal, normal)
    keep = area > 1e-20 * max(float(area.max()), 1e-300)
    if not keep.all():
        faces, normal = faces[keep], normal[keep]
    normals = None
    if smooth:
        weld = np.arange(count * rows * columns).reshape(count, rows, columns)
        if wrap:
            weld[:, :, -1] = weld[:, :, 0]
        for row in (0, -1):
            pole = (points[:, row] == points[:, row, :1]).all(axis=(1, 2))
            weld[pole, row] = weld[pole, row, :1]
        normals = _vertex_normals(weld.reshape(-1), faces, normal)
    texture = np.broadcast_to(uv, (count, rows, columns, 2)).reshape(-1, 2)
    return Mesh(vertices, faces, texture.astype(np.float32), normals)


def surface(points: Floats, uv: Floats, *, wrap: bool = False, smooth: bool = True) -> Mesh:
    """One surface over a grid of points [R, C, 3] with texture coordinates [R, C, 2]; see `surfaces`."""
    return surfaces(points[None], uv[None], wrap=wrap, smooth=smooth)


def fan(contour: Floats, uv: Floats) -> Mesh:
    """The flat, flat-shaded face of a polygon that is star-shaped about the mean of its corners.

    Args:
        contour: [N, 3] metres, N at least 3; seen from outside it turns clockwise (with y down).
        uv: [N, 2].
    """
    count = len(contour)
    vertices = np.vstack([contour, contour.mean(axis=0)])
    index = np.arange(count, dtype=np.int32)
    faces = np.stack([np.full(count, count, np.int32), index, (index + 1) % count], axis=1)
    return Mesh(vertices, faces, np.vstack([uv, uv.mean(axis=0)]).astype(np.float32))


def smoothed(vertices: Floats, faces: Faces) -> NDArray[np.float32]:
    """Area-weighted vertex normals, float32 [V, 3], of any mesh; a vertex without a face gets (0, -1, 0)."""
    return _vertex_normals(np.arange(len(vertices)), faces, face_normals(vertices, faces))


def face_normals(vertices: Floats, faces: Faces) -> Floats:
    """Normals [F, 3] of faces, as long as twice their area."""
    corner = vertices[faces]  # [F, 3, 3]
    return cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])


def cross(a: Floats, b: Floats) -> Floats:
    """Cross products of vectors [..., 3]; several times as fast as numpy's own for small arrays."""
    out = np.empty(np.broadcast_shapes(a.shape, b.shape))
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        out[..., k] = a[..., i] * b[..., j] - a[..., j] * b[..., i]
    return out


def moved(
    mesh: Mesh, *, rotation: Floats | None = None, translation: Sequence[float] | Floats = (0, 0, 0), scale: float = 1.0
) -> Mesh:
    """The mesh scaled (> 0), then rotated by a [3, 3] matrix, then moved by metres. Texture coordinates stay."""
    vertices = mesh.vertices * scale if scale != 1.0 else mesh.vertices
    normals = mesh.normals
    if rotation is not None:
        vertices = vertices @ rotation.T
        normals = None if normals is None else (normals @ rotation.T.astype(np.float32))
    return Mesh(vertices + np.asarray(translation, np.float64), mesh.faces, mesh.uv, normals)


def stretched(mesh: Mesh, factors: Sequence[float]) -> Mesh:
    """The mesh stretched by three factors (> 0) along the axes; normals follow, texture coordinates stay."""
    factor = np.asarray(factors, np.float64)
    if mesh.normals is None:
        return Mesh(mesh.vertices * factor, mesh.faces, mesh.uv)
    normals = mesh.normals.astype(np.float64) / factor
    normals /= np.sqrt((normals * normals).sum(axis=1, keepdims=True))
    return Mesh(mesh.vertices * factor, mesh.faces, mesh.uv, normals.astype(np.float32))


def joined(meshes: Sequence[Mesh]) -> Mesh:
    """One mesh of several. It has normals if any has; flat ones keep their look by getting corners of their own."""
    if len(meshes) == 1:
        return meshes[0]
    smooth = any(mesh.normals is not None for mesh in meshes)
    parts = [_split_flat(mesh) if smooth and mesh.normals is None else mesh for mesh in meshes]
    shifts = np.cumsum([0] + [len(part.vertices) for part in parts[:-1]])
    normals = [part.normals for part in parts if part.normals is not None]
    return Mesh(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.faces + np.int32(shift) for part, shift in zip(parts, shifts, strict=True)]),
        np.concatenate([part.uv for part in parts]),
        np.concatenate(normals) if smooth else None,
    )


def with_uv(mesh: Mesh, *, repeats: float, turn: float = 0.0, shift: tuple[float, float] = (0.0, 0.0)) -> Mesh:
    """The mesh with its texture coordinates multiplied by `repeats`, turned by radians and shifted."""
    cosine, sine = np.cos(turn), np.sin(turn)
    matrix = np.array([[cosine, sine], [-sine, cosine]]) * repeats
    uv = mesh.uv.astype(np.float64) @ matrix + np.asarray(shift)
    return Mesh(mesh.vertices, mesh.faces, uv.astype(np.float32), mesh.normals)


def box_mapped(vertices: Floats, faces: Faces) -> Mesh:
    """A flat-shaded mesh with texture coordinates in metres, projected along the axis nearest to each face's normal.

    Every face gets corners of its own, since neighbours may be projected differently.
    """
    corner = vertices[faces]  # [F, 3, 3]
    axis = np.abs(face_normals(vertices, faces)).argmax(axis=1)  # [F]
    across = np.array([[2, 1], [0, 2], [0, 1]])[axis]  # [F, 2]
    uv = np.take_along_axis(corner, across[:, None, :], axis=2)  # [F, 3, 2]
    own = np.arange(3 * len(faces), dtype=np.int32).reshape(-1, 3)
    return Mesh(corner.reshape(-1, 3), own, uv.reshape(-1, 2).astype(np.float32))


def yaw(angle: float) -> Floats:
    """The [3, 3] rotation about the y axis by radians; z turns towards x."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]])


def pitch(angle: float) -> Floats:
    """The [3, 3] rotation about the x axis by radians; y turns towards z."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[1, 0, 0], [0, cosine, -sine], [0, sine, cosine]])


def roll(angle: float) -> Floats:
    """The [3, 3] rotation about the z axis by radians; x turns towards y."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1]])


def random_rotation(rng: np.random.Generator) -> Floats:
    """A [3, 3] rotation, uniformly distributed over all of them."""
    w, x, y, z = (quaternion := rng.standard_normal(4)) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


@lru_cache(maxsize=256)
def _grid_faces(rows: int, columns: int) -> Faces:
    index = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]
    faces = np.stack([np.stack([a, c, b], axis=-1), np.stack([b, c, d], axis=-1)], axis=2).reshape(-1, 3)
    faces.flags.writeable = False
    return faces


def _vertex_normals(weld: NDArray[np.int64], faces: Faces, normal: Floats) -> NDArray[np.float32]:
    welded = weld[faces]  # [F, 3]
    total = np.empty((len(weld), 3))
    for axis in range(3):
        weights = normal[:, axis]
        total[:, axis] = np.bincount(welded.ravel(), np.repeat(weights, 3), minlength=len(weld))
    length = np.sqrt(np.einsum("ij,ij->i", total, total))[:, None]
    tiny = length <= 1e-12 * max(float(length.max(initial=0.0)), 1e-300)
    unit = np.where(tiny, (0.0, -1.0, 0.0), total / np.where(tiny, 1.0, length))
    return unit.astype(np.float32)[weld]


def _split_flat(mesh: Mesh) -> Mesh:
    normals = face_normals(mesh.vertices, mesh.faces)
    normals /= np.maximum(np.sqrt(np.einsum("ij,ij->i", normals, normals)), 1e-300)[:, None]
    own = np.arange(3 * len(mesh.faces), dtype=np.int32).reshape(-1, 3)
    index = mesh.faces.reshape(-1)
    return Mesh(mesh.vertices[index], own, mesh.uv[index], np.repeat(normals, 3, axis=0).astype(np.float32))
