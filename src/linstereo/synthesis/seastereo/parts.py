"""What the things in a scene are made of: meshes in the frame of the scene, each with a material by name."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linstereo.synthesis.mesh_tools import joined
from linstereo.synthesis.scene import Mesh
from linstereo.synthesis.seastereo.terrain import Floats

Colour = tuple[float, float, float]

MATERIALS = ("sand", "rock", "coral", "weed", "fish", "wood", "paint", "metal", "cloth", "ceramic", "rust")
"""What `blender_worker` can make: each a set of procedural textures around one colour."""


@dataclass(frozen=True)
class Look:
    """A material: one of `MATERIALS`, its linear RGB reflectance, and a number that shifts its patterns."""

    kind: str
    colour: Colour
    variant: float = 0.0


@dataclass(frozen=True, eq=False)
class Part:
    """One mesh of a thing.

    Args:
        vertices: [V, 3] metres, z up.
        faces: [F, 3] indices of vertices, counter-clockwise seen from outside.
        look: its material.
        smooth: whether edges between faces are smoothed away in shading.
    """

    vertices: Floats
    faces: NDArray[np.int32]
    look: Look
    smooth: bool = True


@dataclass(frozen=True, eq=False)
class Box:
    """An axis-aligned bounding box: its lowest and highest corner [3], metres."""

    low: Floats
    high: Floats

    def overlaps(self, other: "Box", *, margin: float = 0.0) -> bool:
        """Whether the two boxes have a point in common once one is grown by `margin` metres on every side."""
        return bool(((self.low - margin) < other.high).all() and ((other.low - margin) < self.high).all())

    def distances(self, points: Floats) -> Floats:
        """Metres [N] from points [N, 3] to the box; 0 inside."""
        outside = np.maximum(np.maximum(self.low - points, points - self.high), 0.0)
        return np.asarray(np.sqrt((outside * outside).sum(axis=1)))

    def moved(self, step: Floats) -> "Box":
        """The box moved by metres [3]."""
        return Box(self.low + step, self.high + step)

    def joined(self, other: "Box") -> "Box":
        """The smallest box around both."""
        return Box(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


def box_of(points: Floats) -> Box:
    """The box of points [N, 3]."""
    return Box(points.min(axis=0), points.max(axis=0))


def upright(mesh: Mesh | Sequence[Mesh], look: Look, *, smooth: bool = True) -> Part:
    """A mesh of `shapes`, `growth` or `furniture` (y down, z ahead) as a part (z up, y ahead)."""
    whole = mesh if isinstance(mesh, Mesh) else joined(list(mesh))
    vertices = np.stack([whole.vertices[:, 0], whole.vertices[:, 2], -whole.vertices[:, 1]], axis=1)
    return Part(vertices, whole.faces, look, smooth)


def transformed(part: Part, matrix: Floats) -> Part:
    """The part moved by a [4, 4] matrix without mirroring."""
    return Part(part.vertices @ matrix[:3, :3].T + matrix[:3, 3], part.faces, part.look, part.smooth)


def placement(*, turn: Floats | None = None, scale: float = 1.0, place: Sequence[float] | Floats = (0, 0, 0)) -> Floats:
    """The [4, 4] matrix that scales, then turns by a [3, 3] rotation, then moves by metres."""
    matrix = np.eye(4)
    matrix[:3, :3] = scale * (np.eye(3) if turn is None else turn)
    matrix[:3, 3] = place
    return matrix


def about_vertical(angle: float) -> Floats:
    """The [3, 3] rotation about z by radians, x towards y."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])


def about_right(angle: float) -> Floats:
    """The [3, 3] rotation about x by radians, y towards z."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, cosine, -sine], [0.0, sine, cosine]])
