"""The user's own meshes: foreground objects from one folder, scenery from another.

Files are taken to have y up, as .obj and .glb files do. Blender reads them once more, with their materials; here only
their extent matters. A file that cannot be used is skipped, remembered with the reason, and the next one taken.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from linstereo.errors import InputError
from linstereo.synthesis.mesh_files import SHAPENET_FILE, find_meshes, read_triangles
from linstereo.synthesis.seastereo.terrain import Floats

SUFFIXES = (".obj", ".glb", ".gltf")
KINDS = ("rock", "coral", "seaweed", "fish", "wreck")
"""Subfolders of a folder of scenery, each with meshes of that kind."""
UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
"""From the axes of a file (y up) to those of the scene (z up)."""


@dataclass(frozen=True, eq=False)
class Asset:
    """A mesh file that can be used.

    Args:
        path: absolute.
        corners: [N, 3] its used vertices in the axes of the scene, centred, with the longest side 1.
        matrix: [4, 4] from the coordinates of the file to these.
    """

    path: Path
    corners: Floats
    matrix: Floats

    @property
    def name(self) -> str:
        """Name of the file without its suffix; in ShapeNetCore's layout, that of the model's folder."""
        return self.path.parent.parent.name if self.path.name == SHAPENET_FILE else self.path.stem


@dataclass(eq=False)
class MeshPool:
    """The meshes below a folder.

    Args:
        folder: searched recursively for files with one of `SUFFIXES`; ShapeNetCore's layout is understood.
    """

    folder: str | os.PathLike[str]
    broken: dict[Path, str] = field(default_factory=dict)
    """Why a file cannot be used, by its path; grows as files are drawn."""

    def __post_init__(self) -> None:
        self.files = find_meshes(Path(self.folder), suffixes=SUFFIXES)
        self._read: dict[Path, Asset] = {}

    def draw(self, rng: np.random.Generator) -> Asset:
        """A random mesh; if it is broken, the next one that is not. Depends on the files and `rng` alone."""
        start = int(rng.integers(len(self.files)))
        for step in range(len(self.files)):
            path = self.files[(start + step) % len(self.files)]
            if path in self.broken:
                continue
            try:
                return self._asset(path)
            except InputError as error:
                self.broken[path] = str(error)
        first = next(iter(self.broken.values()))
        raise InputError(f"none of the {len(self.files)} meshes in {self.folder} can be used: {first}")

    def _asset(self, path: Path) -> Asset:
        if path not in self._read:
            if len(self._read) >= 64:
                self._read.clear()
            vertices, faces, _ = read_triangles(path)
            used = vertices[np.unique(faces)]
            low, high = used.min(axis=0), used.max(axis=0)
            matrix = np.eye(4)
            matrix[:3, :3] = UP / float((high - low).max())
            matrix[:3, 3] = -matrix[:3, :3] @ ((low + high) / 2)
            corners = used @ matrix[:3, :3].T + matrix[:3, 3]
            self._read[path] = Asset(path.absolute(), corners, matrix)
        return self._read[path]


@dataclass(eq=False)
class AssetLibrary:
    """All meshes of the user that scenes are made of.

    Args:
        objects: folder of foreground objects; None takes the bundled ones.
        scenery: folder with any of the subfolders `KINDS`; None takes the bundled scenery.
        only: whether the user's scenery replaces the bundled one of the same kind instead of adding to it.
    """

    objects: str | None = None
    scenery: str | None = None
    only: bool = False

    def __post_init__(self) -> None:
        self.foreground = None if self.objects is None else MeshPool(self.objects)
        self.background: dict[str, MeshPool] = {}
        if self.scenery is not None:
            root = Path(self.scenery)
            if not root.is_dir():
                raise InputError(f"the folder of scenery {root} does not exist; name a folder with meshes")
            self.background = {kind: MeshPool(root / kind) for kind in KINDS if (root / kind).is_dir()}
            if not self.background:
                raise InputError(f"{root} has none of the folders {', '.join(KINDS)}; sort the meshes into those")

    def draw(self, kind: str, rng: np.random.Generator) -> Asset | None:
        """A mesh of the user for a piece of scenery; None to take a bundled one."""
        pool = self.background.get(kind)
        if pool is None or (not self.only and rng.random() < 0.5):
            return None
        return pool.draw(rng)

    @property
    def broken(self) -> dict[Path, str]:
        """Why files cannot be used, of all pools, by path; grows as files are drawn."""
        return {path: reason for pool in self._pools for path, reason in pool.broken.items()}

    def refuse(self, path: Path, reason: str) -> None:
        """Draw a file, given by its absolute path, never again."""
        for pool in self._pools:
            pool.broken.update({file: reason for file in pool.files if file.absolute() == path})

    def files(self) -> dict[str, Path]:
        """All mesh files by their paths in the user's folders, for the digest that a resumed run compares."""
        return {path.relative_to(pool.folder).as_posix(): path for pool in self._pools for path in pool.files}

    @property
    def _pools(self) -> list[MeshPool]:
        return [*([] if self.foreground is None else [self.foreground]), *self.background.values()]
