"""The CAD model of a target: triangles in metres, which of them are rope, and which hang together."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.synthesis.mesh_files import mesh_reader
from linstereo.tank.layout import UNITS

SUFFIXES = (".stl", ".obj", ".ply", ".glb")
FRAME, ROPE = 1, 2
"""Labels of the parts; 0 is what does not belong to the target."""
MAX_BYTES = 1_000_000_000
_ROPE_NAME = re.compile(r"rope|cord|cable|string|wire", re.IGNORECASE)
_ROPE_WIDTH = 0.012  # metres; a body is taken for a rope if it is no wider than this,
_SLENDER = 15.0  # and at least this many times as long as wide

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TargetMesh:
    """The surface of a target.

    Args:
        vertices: [V, 3] metres in the frame of the target.
        faces: [F, 3] indices of vertices.
        part: uint8 [F], FRAME or ROPE.
        body: [F] number of the connected body that a face belongs to, from 0.
    """

    vertices: Floats
    faces: Integers
    part: NDArray[np.uint8]
    body: Integers


def target_mesh(vertices: Floats, faces: Integers, part: NDArray[np.uint8] | None = None) -> TargetMesh:
    """A mesh with its bodies; where `part` is None, long thin bodies are ropes and all others frame."""
    body = connected_bodies(vertices, faces)
    if part is None:
        part = np.where(_slender(vertices, faces, body)[body], ROPE, FRAME).astype(np.uint8)
    return TargetMesh(vertices, faces, part, body)


def read_target_mesh(
    path: str | os.PathLike[str], *, unit: str = "m", ropes: str | os.PathLike[str] | None = None
) -> TargetMesh:
    """Read a CAD model from a .stl, .obj, .ply or .glb file.

    Its ropes are, in this order: all of the second file `ropes`, if there is one; the objects of an .obj or .glb file
    whose names say so (rope, cord, cable, string or wire); the bodies that are at most 12 mm wide and at least 15 times
    as long. All else is frame.

    Args:
        path: the model; with `ropes`, its frame alone.
        unit: of the numbers in the files, "m" or "mm"; CAD programs mostly write .stl files in millimetres.
        ropes: a second file with the ropes, in the same coordinates.
    """
    if unit not in UNITS:
        raise InputError(f"the unit of the mesh is {unit!r}; choose one of {', '.join(UNITS)}")
    pieces = _read(Path(path))
    labels = [bool(_ROPE_NAME.search(name)) for name, _, _ in pieces]
    if ropes is not None:
        labels = [False] * len(pieces)
        strands = _read(Path(ropes))
        pieces, labels = pieces + strands, labels + [True] * len(strands)
    starts = np.cumsum([0, *(len(vertices) for _, vertices, _ in pieces)])
    vertices = np.concatenate([vertices for _, vertices, _ in pieces]) * UNITS[unit]
    faces = np.concatenate([faces + start for (_, _, faces), start in zip(pieces, starts, strict=False)])
    known = [np.full(len(faces), ROPE if label else FRAME) for (_, _, faces), label in zip(pieces, labels, strict=True)]
    return target_mesh(vertices, faces, np.concatenate(known).astype(np.uint8) if any(labels) else None)


def connected_bodies(vertices: Floats, faces: Integers) -> Integers:
    """[F] number, from 0, of the body of each face; faces hang together if they share a corner's position."""
    _, weld = np.unique(np.round(vertices, 7), axis=0, return_inverse=True)
    corner = weld.reshape(-1)[faces]  # [F, 3]
    label = np.arange(int(corner.max()) + 1)
    while True:
        lowest = label[corner].min(axis=1)
        joined = label.copy()
        np.minimum.at(joined, corner, lowest[:, None])
        joined = joined[joined]
        if np.array_equal(joined, label):
            break
        label = joined
    return np.asarray(np.unique(label[corner[:, 0]], return_inverse=True)[1].reshape(-1), np.int64)


def _slender(vertices: Floats, faces: Integers, body: Integers) -> NDArray[np.bool_]:
    """Which bodies are long and thin, bool [bodies]."""
    found = np.zeros(int(body.max()) + 1, np.bool_)
    for number in range(len(found)):
        points = vertices[np.unique(faces[body == number])]
        centred = points - points.mean(axis=0)
        axes = np.linalg.svd(centred, full_matrices=False)[2]
        length, width = np.ptp(centred @ axes.T, axis=0)[:2]
        found[number] = width <= _ROPE_WIDTH and length >= _SLENDER * width
    return found


def _read(path: Path) -> list[tuple[str, Floats, Integers]]:
    """Name, vertices [V, 3] and faces [F, 3] of the objects in a file, in the order of their names."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"the mesh {path} has the suffix {path.suffix!r}; give one of {', '.join(SUFFIXES)}")
    pieces = []
    for name, vertices, faces in sorted(_loaded(path), key=lambda piece: piece[0]):
        if not len(faces):
            continue
        if not np.isfinite(vertices).all() or faces.min() < 0 or faces.max() >= len(vertices):
            raise InputError(
                f"the mesh {path} holds vertices or faces that are no numbers or out of range; export it again"
            )
        pieces.append((name, vertices, faces))
    if not pieces:
        raise InputError(f"the mesh {path} holds no triangle; export the model as a surface of triangles")
    return pieces


def _loaded(path: Path) -> list[tuple[str, Floats, Integers]]:
    options = {"split_objects": True} if path.suffix.lower() == ".obj" else {}
    with mesh_reader(path, most_bytes=MAX_BYTES, remedy="export it again") as load:
        scene = load(force="scene", **options)
        placed = [(str(node), *scene.graph[node]) for node in scene.graph.nodes_geometry]
        meshes = [
            (name if path.suffix.lower() == ".glb" else str(key), scene.geometry[key], np.asarray(matrix, np.float64))
            for name, matrix, key in placed
            if hasattr(scene.geometry[key], "faces")
        ]
        return [
            (
                name,
                np.asarray(mesh.vertices, np.float64) @ matrix[:3, :3].T + matrix[:3, 3],
                np.asarray(mesh.faces, np.int64),
            )
            for name, mesh, matrix in meshes
        ]
