"""Meshes from any folder: .obj, .glb, .gltf, .stl, .ply and .off files."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.synthesis.mesh_tools import Floats, box_mapped, smoothed
from linstereo.synthesis.scene import Mesh

SUFFIXES = (".obj", ".glb", ".gltf", ".stl", ".ply", ".off")
SHAPENET_FILE = "model_normalized.obj"
"""What ShapeNetCore calls every mesh."""
MAX_FACES = 10_000
"""A mesh with more faces is made coarser when it is read."""
MAX_BYTES = 200_000_000
"""A larger file is refused."""


class MeshFolder:
    """All meshes below a folder, read when first needed; the last few stay in memory.

    What a method returns depends on the files and its arguments alone, never on what was read before.

    Args:
        folder: searched as `find_meshes` does.
        keep: how many meshes stay in memory.
    """

    def __init__(self, folder: str | Path, *, keep: int = 256) -> None:
        self.files = find_meshes(folder)
        self._keep = keep
        self._meshes: OrderedDict[Path, Mesh] = OrderedDict()
        self.mesh(0)  # a folder of something else is told at once, not when a scene first asks for a mesh

    def __len__(self) -> int:
        return len(self.files)

    def mesh(self, index: int) -> Mesh:
        """Mesh number `index` as `read_mesh` gives it."""
        path = self.files[index]
        if path in self._meshes:
            self._meshes.move_to_end(path)
            return self._meshes[path]
        mesh = read_mesh(path)
        self._meshes[path] = mesh
        if len(self._meshes) > self._keep:
            self._meshes.popitem(last=False)
        return mesh

    def random(self, rng: np.random.Generator) -> Mesh:
        """A random mesh of the folder as `read_mesh` gives it."""
        return self.mesh(int(rng.integers(len(self.files))))


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


def read_triangles(path: str | Path) -> tuple[Floats, NDArray[np.int64], Any]:
    """Vertices [V, 3] and triangles [F, 3] of a mesh file as they are in it, all parts joined, and what trimesh read.

    At least one triangle, all numbers finite, and not all in one point; anything else is an `InputError`.
    """
    path = Path(path)
    with mesh_reader(path, most_bytes=MAX_BYTES, remedy="remove it from the folder or replace it") as load:
        loaded = load(force="mesh")
    vertices = np.asarray(loaded.vertices, np.float64)
    faces = np.asarray(loaded.faces, np.int64)
    if len(faces) == 0 or len(vertices) == 0:
        raise InputError(f"the mesh {path} holds no triangle; remove it from the folder or replace it")
    if not np.isfinite(vertices).all() or faces.min() < 0 or faces.max() >= len(vertices):
        raise InputError(f"the mesh {path} holds vertices or faces that are no numbers or lie out of range")
    if np.ptp(vertices[faces], axis=(0, 1)).max() <= 0:
        raise InputError(f"the mesh {path} has no extent: all its vertices are one point")
    return vertices, faces, loaded


def read_mesh(path: str | Path) -> Mesh:
    """One mesh file, all its parts joined, centred, its longest side 1 and its upper side up (towards -y).

    Files are taken to have y up, as .obj and .glb files do (z up for .stl, .ply and .off files). Texture coordinates
    are the file's own; without any, the mesh is mapped from the sides of its box with one repeat per unit. A mesh of
    more than `MAX_FACES` faces is made coarser by merging the vertices in each cell of a grid fine enough to keep
    about that many; then it is mapped from its box.
    """
    path = Path(path)
    vertices, faces, loaded = read_triangles(path)
    low, high = vertices[faces].min(axis=(0, 1)), vertices[faces].max(axis=(0, 1))
    extent = float((high - low).max())
    vertices = (vertices - (low + high) / 2) / extent
    turn = (0, 2, 1) if path.suffix.lower() in (".stl", ".ply", ".off") else (0, 1, 2)
    signs = np.array([1.0, -1.0, 1.0]) if turn == (0, 2, 1) else np.array([1.0, -1.0, -1.0])
    vertices = vertices[:, turn] * signs
    uv = _texture_coordinates(loaded, len(vertices))
    if len(faces) > MAX_FACES:
        vertices, faces = _coarser(vertices, faces)
        uv = None
    faces = _proper(vertices, faces)
    if len(faces) == 0:
        raise InputError(f"the mesh {path} holds only degenerate triangles; remove it from the folder or replace it")
    index = faces.astype(np.int32)
    if uv is None:
        return box_mapped(vertices, index)
    return Mesh(vertices, index, uv, smoothed(vertices, index))


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


def _coarser(vertices: Floats, faces: Any) -> tuple[Floats, Any]:
    cells = 256
    while True:
        key = np.floor((vertices + 0.5) * cells).astype(np.int64)
        _, group = np.unique(key @ np.array([1, 1 << 20, 1 << 40]), return_inverse=True)
        count = np.bincount(group)
        merged = np.stack([np.bincount(group, vertices[:, k]) / count for k in range(3)], axis=1)
        kept = group[faces]
        kept = kept[(kept[:, 0] != kept[:, 1]) & (kept[:, 1] != kept[:, 2]) & (kept[:, 2] != kept[:, 0])]
        kept = kept[np.unique(np.sort(kept, axis=1), axis=0, return_index=True)[1]] if len(kept) else kept
        if len(kept) <= MAX_FACES:
            return merged, kept
        cells = int(cells * 0.75)


def _proper(vertices: Floats, faces: Any) -> Any:
    corner = vertices[faces]
    area = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
    return faces[area > 1e-12]
