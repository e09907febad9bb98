"""Meshes from any folder: .obj, .glb, .gltf, .stl, .ply and .off files."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.synthesis.mesh_tools import Floats, box_mapped, cross, smoothed
from linstereo.synthesis.scene import Mesh

SUFFIXES = (".obj", ".glb", ".gltf", ".stl", ".ply", ".off")
SHAPENET_FILE = "model_normalized.obj"
"""What ShapeNetCore calls every mesh."""
MAX_FACES = 10_000
"""A mesh with more faces is made coarser when it is read."""
MAX_PARTS = 5
"""A mesh of more materials has its smallest parts joined into one."""
MAX_BYTES = 200_000_000
"""A larger file is refused."""


class MeshFolder:
    """All meshes below a folder, read when first needed; the last ones stay in memory.

    What a method returns depends on the files and its arguments alone, never on what was read before.

    Args:
        folder: searched as `find_meshes` does.
        keep: how many meshes stay in memory.
    """

    def __init__(self, folder: str | Path, *, keep: int = 1024) -> None:
        self.files = find_meshes(folder)
        self._keep = keep
        self._meshes: OrderedDict[Path, tuple[Mesh, ...]] = OrderedDict()
        self.parts(0)  # a folder of something else is told at once, not when a scene first asks for a mesh

    def __len__(self) -> int:
        return len(self.files)

    def parts(self, index: int) -> tuple[Mesh, ...]:
        """Mesh number `index` as `read_parts` gives it."""
        path = self.files[index]
        if path in self._meshes:
            self._meshes.move_to_end(path)
            return self._meshes[path]
        parts = read_parts(path)
        self._meshes[path] = parts
        if len(self._meshes) > self._keep:
            self._meshes.popitem(last=False)
        return parts

    def random(self, rng: np.random.Generator) -> tuple[Mesh, ...]:
        """A random mesh of the folder as `read_parts` gives it."""
        return self.parts(int(rng.integers(len(self.files))))


def find_meshes(folder: str | Path, *, suffixes: Sequence[str] = SUFFIXES) -> tuple[Path, ...]:
    """The mesh files anywhere below a folder, sorted; an `InputError` if there is none.

    Any nesting will do, ShapeNet's (synset/model/models/model_normalized.obj) included: where a folder holds
    model_normalized.obj, other meshes beside it (its solid or surface variants) are left out.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"the mesh folder {root} does not exist; name a folder with meshes")
    found = sorted(p for p in root.rglob("*") if p.suffix.lower() in suffixes and p.is_file())
    shapenet = {p.parent for p in found if p.name == SHAPENET_FILE}
    files = tuple(p for p in found if p.parent not in shapenet or p.name == SHAPENET_FILE)
    if not files:
        raise InputError(f"the mesh folder {root} holds no mesh ({', '.join(suffixes)})")
    return files


class Triangles(NamedTuple):
    """A mesh file as it is."""

    vertices: Floats  # [V, 3]
    faces: NDArray[np.int64]  # [F, 3], at least one
    pieces: list[Any]
    """What trimesh read, one piece for each material or object, whose vertices and faces follow each other above."""


def read_triangles(path: str | Path) -> Triangles:
    """All triangles of a mesh file.

    There is at least one, all numbers are finite, and not all in one point; anything else is an `InputError`.
    """
    path = Path(path)
    with mesh_reader(path, most_bytes=MAX_BYTES, remedy="remove it from the folder or replace it") as load:
        pieces = [piece for piece in load(force="scene").dump() if len(getattr(piece, "faces", ()))]
    if not pieces:
        raise InputError(f"the mesh {path} holds no triangle; remove it from the folder or replace it")
    before = np.cumsum([0, *[len(piece.vertices) for piece in pieces]])
    vertices = np.concatenate([np.asarray(piece.vertices, np.float64) for piece in pieces])
    faces = [np.asarray(piece.faces, np.int64) for piece in pieces]
    counts = np.diff(before)
    in_range = all(f.min() >= 0 and f.max() < count for f, count in zip(faces, counts, strict=True))
    if not in_range or not np.isfinite(vertices).all():
        raise InputError(f"the mesh {path} holds vertices or faces that are no numbers or lie out of range")
    joined = np.concatenate([f + first for f, first in zip(faces, before[:-1], strict=True)])
    if np.ptp(vertices[joined], axis=(0, 1)).max() <= 0:
        raise InputError(f"the mesh {path} has no extent: all its vertices are one point")
    return Triangles(vertices, joined, pieces)


def read_parts(path: str | Path) -> tuple[Mesh, ...]:
    """One mesh file, centred, its longest side 1 and its upper side up (towards -y), in parts of one material each.

    Files are taken to have y up, as .obj and .glb files do (z up for .stl, .ply and .off files). Of more than
    `MAX_PARTS` parts the smallest are joined. Texture coordinates are the file's own; a part without any is mapped from
    the sides of its box with one repeat per unit. A mesh of more than `MAX_FACES` faces is made coarser by merging the
    vertices in each cell of a grid fine enough to keep about that many; then it is mapped from its box.
    """
    path = Path(path)
    vertices, faces, pieces = read_triangles(path)
    low, high = vertices[faces].min(axis=(0, 1)), vertices[faces].max(axis=(0, 1))
    extent = float((high - low).max())
    vertices = (vertices - (low + high) / 2) / extent
    turn = (0, 2, 1) if path.suffix.lower() in (".stl", ".ply", ".off") else (0, 1, 2)
    signs = np.array([1.0, -1.0, 1.0]) if turn == (0, 2, 1) else np.array([1.0, -1.0, -1.0])
    vertices = vertices[:, turn] * signs
    piece = np.repeat(np.arange(len(pieces)), [len(p.faces) for p in pieces])  # of every face
    part, single = _parts(np.bincount(piece, weights=_areas(vertices, faces)).astype(np.float64))
    owner = part[piece]
    uv = [_texture_coordinates(p, len(p.vertices)) for p in pieces]
    if len(faces) > MAX_FACES:
        vertices, faces, kept = _coarser(vertices, faces)
        owner, uv = owner[kept], [None] * len(pieces)
    proper = _areas(vertices, faces) > 1e-12
    faces, owner = faces[proper], owner[proper]
    if len(faces) == 0:
        raise InputError(f"the mesh {path} holds only degenerate triangles; remove it from the folder or replace it")
    first = np.cumsum([0, *[len(p.vertices) for p in pieces]])
    parts = []
    for number in np.unique(owner):
        used, inverse = np.unique(faces[owner == number], return_inverse=True)
        corners = vertices[used]
        index: NDArray[np.int32] = inverse.reshape(-1, 3).astype(np.int32)
        only = single.get(int(number))
        texture = None if only is None else uv[only]
        if only is None or texture is None:
            parts.append(box_mapped(corners, index))
        else:
            parts.append(Mesh(corners, index, texture[used - first[only]], smoothed(corners, index)))
    return tuple(parts)


def _parts(areas: Floats) -> tuple[NDArray[np.int64], dict[int, int]]:
    """Which part each piece of a mesh belongs to, from their areas, and the piece of parts that have only one."""
    if len(areas) <= MAX_PARTS:
        return np.arange(len(areas)), {i: i for i in range(len(areas))}
    part = np.full(len(areas), MAX_PARTS - 1)
    largest = np.argsort(-areas, kind="stable")[: MAX_PARTS - 1]
    part[largest] = np.arange(len(largest))
    return part, {i: int(piece) for i, piece in enumerate(largest)}


@contextmanager
def mesh_reader(path: Path, *, most_bytes: int, remedy: str) -> Iterator[Callable[..., Any]]:
    """`trimesh.load` for `path`; whatever goes wrong in the block becomes an `InputError` that ends with the remedy."""
    import trimesh  # which takes longer than most commands that need none of it

    if not path.is_file():
        raise InputError(f"the mesh {path} does not exist; check the path")
    if path.stat().st_size > most_bytes:
        raise InputError(f"the mesh {path} is larger than {most_bytes // 1_000_000} MB; make it coarser first")
    try:
        yield partial(trimesh.load, path, process=False, skip_materials=True)
    # The readers of the many formats fail in as many ways on a broken file.
    except Exception as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise InputError(f"the mesh {path} cannot be read ({reason}); {remedy}") from error


def _texture_coordinates(loaded: Any, count: int) -> Any:
    uv = getattr(loaded.visual, "uv", None)
    if uv is None or np.shape(uv) != (count, 2) or not np.isfinite(uv).all():
        return None
    texture = np.asarray(uv, np.float32)
    return texture if np.ptp(texture, axis=0).min() > 1e-4 else None


def _coarser(vertices: Floats, faces: Any) -> tuple[Floats, Any, Any]:
    """The mesh with at most `MAX_FACES` faces, and which of the given faces those are."""
    cells = 256
    while True:
        key = np.floor((vertices + 0.5) * cells).astype(np.int64)
        _, group = np.unique(key @ np.array([1, 1 << 20, 1 << 40]), return_inverse=True)
        merged = group[faces]
        number = np.flatnonzero(
            (merged[:, 0] != merged[:, 1]) & (merged[:, 1] != merged[:, 2]) & (merged[:, 2] != merged[:, 0])
        )
        if len(number):
            number = number[np.unique(np.sort(merged[number], axis=1), axis=0, return_index=True)[1]]
        if len(number) <= MAX_FACES:
            count = np.bincount(group)
            mean = np.stack([np.bincount(group, vertices[:, k]) / count for k in range(3)], axis=1)
            return mean, merged[number], number
        cells = int(cells * 0.75)


def _areas(vertices: Floats, faces: Any) -> Floats:
    """Twice the area of every triangle."""
    corner = vertices[faces]
    return np.asarray(np.linalg.norm(cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1))
