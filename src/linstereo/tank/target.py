"""A target that a laboratory can build: plates with tags, rails, taut ropes, as a mesh with its tag layout.

Seen from the front, x points right, y down and z away from the viewer; metres. The origin is the middle of the opening.
Two upright plates stand left and right of the opening, their faces at z = 0. Behind them two rails run across, above
and below, and carry the ropes, which are upright but for the last one, which crosses the opening. A third plate lies
across above the opening and farther back, on two arms: tags at two depths fix the tilt of the target far better than
tags in one plane do, most of all when it is seen straight from the front.
"""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from linstereo.errors import InputError
from linstereo.files import write_file
from linstereo.runs import output_folder
from linstereo.tank.family import CELLS, CODES
from linstereo.tank.layout import Floats, TagLayout, write_layout
from linstereo.tank.mesh import FRAME, ROPE, Integers, TargetMesh, target_mesh

ROPE_SIDES = 24
MAX_ROPES = 100
_SMALLEST, _LARGEST = 0.0001, 5.0  # metres, of the measures of a target


@dataclass(frozen=True)
class TargetDesign:
    """The measures of a target, metres.

    Args:
        tag_size: side of a tag's black square.
        tags: tags on each of the three plates, 2 to 10.
        opening: width between the upright plates.
        stagger: how far behind the upright plates the third one is; 0 leaves it out.
        ropes: number of ropes, the last of which runs across from corner to corner.
        rope_diameter: of the ropes.
        thickness: of the plates.
        rail: side of the square rails and arms.
    """

    tag_size: float = 0.04
    tags: int = 5
    opening: float = 0.30
    stagger: float = 0.12
    ropes: int = 5
    rope_diameter: float = 0.003
    thickness: float = 0.005
    rail: float = 0.015

    def __post_init__(self) -> None:
        for name in ("stagger", "opening", "rope_diameter", "thickness", "rail"):
            value = getattr(self, name)
            if not (_SMALLEST <= value <= _LARGEST or (name == "stagger" and value == 0)):
                raise InputError(f"the target's {name} is {value:g} m; it must be from {_SMALLEST} to {_LARGEST} m")
        if not 0 <= self.ropes <= MAX_ROPES:
            raise InputError(f"{self.ropes} ropes are asked for; it must be 0 to {MAX_ROPES}")
        plates = 3 if self.stagger > 0 else 2
        if not 2 <= self.tags <= len(CODES) // plates:
            raise InputError(
                f"{self.tags} tags on each plate are asked for; it must be 2 to {len(CODES) // plates}, since there "
                f"are {len(CODES)} tags and {plates} plates"
            )
        if not 0.01 <= self.tag_size <= 0.5:
            raise InputError(f"the tags are {self.tag_size:g} m wide; they must be 0.01 to 0.5 m")
        if self.rope_diameter >= self.rail:
            raise InputError(
                f"ropes of {self.rope_diameter:g} m do not fit rails of {self.rail:g} m; make them thinner"
            )

    @property
    def margin(self) -> float:
        """Metres of white around a tag: one and a half of its cells."""
        return 1.5 * self.tag_size / CELLS

    @property
    def pitch(self) -> float:
        """Metres from tag to tag; 1.8 cells of white are between two."""
        return self.tag_size * (1 + 1.8 / CELLS)

    @property
    def plate_width(self) -> float:
        """Metres, the short side of a plate."""
        return self.tag_size + 2 * self.margin

    @property
    def plate_length(self) -> float:
        """Metres, the long side of a plate."""
        return (self.tags - 1) * self.pitch + self.tag_size + 2 * self.margin

    @property
    def plates(self) -> tuple[str, ...]:
        """Names of the plates, in the order of their tags."""
        return ("left", "right", "back") if self.stagger > 0 else ("left", "right")

    @property
    def plate_centres(self) -> Floats:
        """[plates, 3] middles of the plates' faces."""
        aside = (self.opening + self.plate_width) / 2
        above = -(self.plate_length + self.plate_width) / 2
        centres = [(-aside, 0.0, 0.0), (aside, 0.0, 0.0), (0.0, above, self.stagger)]
        return np.array(centres[: len(self.plates)])


@dataclass(frozen=True, eq=False)
class Target:
    """A target: its measures, surface and tags."""

    design: TargetDesign
    mesh: TargetMesh
    names: tuple[str, ...]
    """Of each body of the mesh."""
    layout: TagLayout


def make_target(design: TargetDesign | None = None) -> Target:
    """The surface and the tag layout of a design."""
    design = design or TargetDesign()
    pieces = [*_plates(design), *_rails(design), *_ropes(design)]
    starts = np.cumsum([0, *(len(vertices) for _, vertices, _ in pieces)])
    vertices = np.concatenate([vertices for _, vertices, _ in pieces])
    faces = np.concatenate([faces + start for (_, _, faces), start in zip(pieces, starts, strict=False)])
    counts = [len(faces) for _, _, faces in pieces]
    part = np.repeat([ROPE if name.startswith("rope") else FRAME for name, _, _ in pieces], counts)
    mesh = target_mesh(vertices, faces, part.astype(np.uint8))
    names = tuple(name for name, _, _ in pieces)
    own = np.repeat(np.arange(len(pieces)), counts)
    return Target(design, dataclasses.replace(mesh, body=own), names, _tags(design))


def write_target(folder: str | os.PathLike[str], target: Target) -> list[Path]:
    """Write target.obj (named parts), target.stl (metres) and tags.json into a folder, made if it is not there."""
    text, surface = _exported(target)
    with output_folder(folder) as root:
        paths = [root / "target.obj", root / "target.stl", root / "tags.json"]
        write_file(paths[0], text)
        write_file(paths[1], surface)
        write_layout(paths[2], target.layout)
    return paths


def _tags(design: TargetDesign) -> TagLayout:
    half = design.tag_size / 2
    square = np.array([(-half, -half, 0.0), (half, -half, 0.0), (half, half, 0.0), (-half, half, 0.0)])
    steps = (np.arange(design.tags) - (design.tags - 1) / 2) * design.pitch
    corners = []
    for name, centre in zip(design.plates, design.plate_centres, strict=True):
        direction = np.array([1.0, 0, 0] if name == "back" else [0, 1.0, 0])
        corners += [square + centre + step * direction for step in steps]
    return TagLayout(tuple(range(len(corners))), np.stack(corners))


_Piece = tuple[str, Floats, Integers]


def _plates(design: TargetDesign) -> list[_Piece]:
    long, short, thick = design.plate_length, design.plate_width, design.thickness
    pieces = []
    for name, centre in zip(design.plates, design.plate_centres, strict=True):
        size = (long, short, thick) if name == "back" else (short, long, thick)
        pieces.append((f"plate_{name}", *_box(centre + np.array([0, 0, thick / 2]), size)))
    return pieces


def _rails(design: TargetDesign) -> list[_Piece]:
    side, width = design.rail, design.opening + 2 * design.plate_width
    height = design.plate_length / 2 - side / 2
    depth = design.thickness + side / 2
    pieces = [
        (f"rail_{name}", *_box(np.array([0, sign * height, depth]), (width, side, side)))
        for name, sign in (("upper", -1), ("lower", 1))
    ]
    if "back" in design.plates:
        start, end = design.thickness + side, design.stagger + design.thickness
        for name, sign in (("left", -1), ("right", 1)):
            centre = np.array([sign * design.opening / 4, -height, (start + end) / 2])
            if end > start:
                pieces.append((f"arm_{name}", *_box(centre, (side, side, end - start))))
    return pieces


def _ropes(design: TargetDesign) -> list[_Piece]:
    end = design.plate_length / 2 - design.rail
    depth = design.thickness + design.rail / 2
    upright = max(design.ropes - 1, 0)
    places = (np.arange(upright) - (upright - 1) / 2) * design.opening / max(upright, 1)
    lines = [((x, -end), (x, end)) for x in places]
    if design.ropes:
        aside = 0.47 * design.opening
        lines.append(((-aside, -end), (aside, end)))
    pieces = []
    for number, (top, bottom) in enumerate(lines):
        ends = np.array([(*top, depth), (*bottom, depth)])
        pieces.append((f"rope_{number}", *_rod(ends[0], ends[1], design.rope_diameter / 2)))
    return pieces


def _box(centre: Floats, size: tuple[float, float, float]) -> tuple[Floats, Integers]:
    signs = np.array([(x, y, z) for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)], np.float64)
    sides = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
    faces = [(quad[0], quad[k], quad[k + 1]) for quad in sides for k in (1, 2)]
    return centre + signs * np.array(size) / 2, np.array(faces, np.int64)


def _rod(start: Floats, end: Floats, radius: float) -> tuple[Floats, Integers]:
    """A closed round rod; its corners lie as far outside of the circle as its sides lie inside."""
    along = (end - start) / np.linalg.norm(end - start)
    first = np.cross(along, (0.0, 0.0, 1.0))
    first /= np.linalg.norm(first)
    second = np.cross(along, first)
    angle = 2 * np.pi * np.arange(ROPE_SIDES) / ROPE_SIDES
    reach = radius * 2 / (1 + np.cos(np.pi / ROPE_SIDES))
    ring = reach * (np.cos(angle)[:, None] * first + np.sin(angle)[:, None] * second)
    vertices = np.concatenate([start + ring, end + ring, [start, end]])
    here = np.arange(ROPE_SIDES)
    then = (here + 1) % ROPE_SIDES
    low, high = np.full(ROPE_SIDES, 2 * ROPE_SIDES), np.full(ROPE_SIDES, 2 * ROPE_SIDES + 1)
    faces = np.concatenate(
        [
            np.stack([here, then, here + ROPE_SIDES], axis=1),
            np.stack([then, then + ROPE_SIDES, here + ROPE_SIDES], axis=1),
            np.stack([low, then, here], axis=1),
            np.stack([high, here + ROPE_SIDES, then + ROPE_SIDES], axis=1),
        ]
    )
    return vertices, faces


def _exported(target: Target) -> tuple[str, bytes]:
    """The text of target.obj, in which each body is an object with its name, and the content of target.stl."""
    import trimesh

    whole = trimesh.Trimesh(target.mesh.vertices, target.mesh.faces, process=False)
    bodies = whole.submesh([target.mesh.body == body for body in range(len(target.names))], repair=False)
    scene = trimesh.Scene(dict(zip(target.names, bodies, strict=True)))
    header = "metres; x right, y down, z away from the viewer"
    text = scene.export(file_type="obj", header=header, digits=12, include_normals=False)
    return text, whole.export(file_type="stl")
