"""Whether the tags of a layout are on the surface of the CAD model, and what is wrong if they are not.

A pose found from the tags alone says nothing about the model: a model in millimetres, with two axes exchanged, or
seen from behind gives a picture as sharp as the right one. So before anything is rendered, every tag must lie on the
model and face away from it.
"""

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.tank.layout import TagLayout
from linstereo.tank.mesh import TargetMesh

TOLERANCE = 0.003
"""Metres by which a tag may be off the surface, such as by the thickness of a print."""
_DEPTH = 0.03  # metres before and behind a tag that are searched for more of the model
_UNITS = {1e3: "in millimetres", 1e2: "in centimetres", 1 / 0.0254: "in inches", 1e-3: "a thousand times too small"}
_SHARE = 0.9  # of the tags must fit

Floats = NDArray[np.float64]


def check_tags_on_mesh(layout: TagLayout, mesh: TargetMesh) -> None:
    """Fail with an explanation if the tags are not on the mesh, or face into it."""
    surface = _Surface(mesh)
    points = np.concatenate([layout.centres[:, None], layout.corners], axis=1)  # [T, 5, 3]
    distance = np.array([[surface.distance(point, reach=10 * TOLERANCE) for point in tag] for tag in points])  # [T, 5]
    off = [tag for tag, worst in zip(layout.ids, distance.max(axis=1), strict=True) if worst > TOLERANCE]
    if off:
        worst = float(distance.max())
        how_far = f"up to {1e3 * worst:.1f} mm" if np.isfinite(worst) else "more than 30 mm"
        raise InputError(
            f"{len(off)} of the {len(layout.ids)} tags of the layout (such as tag {off[0]}) are {how_far} off the "
            f"surface of the mesh; {_remedy(layout, surface)}"
        )
    buried = [
        tag
        for tag, centre, front in zip(layout.ids, layout.centres, layout.fronts, strict=True)
        if surface.faces_into(centre, front)
    ]
    if len(buried) > len(layout.ids) / 2:
        raise InputError(
            f"{len(buried)} of the {len(layout.ids)} tags of the layout (such as tag {buried[0]}) face into the mesh; "
            "the layout is mirrored: list the corners clockwise as seen from the front, and check that no axis "
            "points the wrong way"
        )


def _remedy(layout: TagLayout, surface: "_Surface") -> str:
    """What would put the tags onto the mesh, as the rest of a sentence."""
    for factor, words in _UNITS.items():
        if surface.holds(layout.centres * factor, tolerance=TOLERANCE * factor):
            advice = {
                1e3: "say so with --mesh-unit mm",
                1e-3: "if it is in metres, leave --mesh-unit mm out",
            }.get(factor, "export it in metres")
            return f"the mesh is {words}: {advice}"
    for axes, signs, words in _axis_changes():
        for factor in (1.0, 1e3):
            if surface.holds(layout.centres[:, axes] * signs * factor, tolerance=TOLERANCE * factor):
                unit = "" if factor == 1 else " and the mesh taken as millimetres (--mesh-unit mm)"
                return f"they would be on it with {words}{unit}: give both in the same coordinates"
    return "check that both are in the same coordinates and in the same unit"


def _axis_changes() -> Iterator[tuple[list[int], Floats, str]]:
    """All ways to exchange and turn round axes, those that change the least first, and what to call them."""
    changes = []
    for axes in itertools.permutations(range(3)):
        for signs in itertools.product((1, -1), repeat=3):
            if axes != (0, 1, 2) or signs != (1, 1, 1):
                flips = signs.count(-1)
                moved = sum(axis != place for place, axis in enumerate(axes))
                changes.append((moved + flips, axes, signs))
    for _, axes, signs in sorted(changes):
        exchanged = [name for name, axis, own in zip("xyz", axes, range(3), strict=True) if axis != own]
        turned = [name for name, sign in zip("xyz", signs, strict=True) if sign < 0]
        words = []
        if exchanged:
            words.append(
                f"the axes {' and '.join(exchanged) if len(exchanged) == 2 else ', '.join(exchanged)} exchanged"
            )
        if turned:
            words.append(f"{' and '.join(turned)} pointing the other way")
        yield list(axes), np.array(signs, np.float64), " and ".join(words)


class _Surface:
    """Distances from points to a mesh."""

    def __init__(self, mesh: TargetMesh) -> None:
        from trimesh.triangles import closest_point

        self._closest = closest_point
        self.corners = mesh.vertices[mesh.faces]  # [F, 3, 3]
        self.low, self.high = self.corners.min(axis=1), self.corners.max(axis=1)  # [F, 3]

    def distance(self, point: Floats, *, reach: float) -> float:
        """Metres from a point [3] to the surface; infinite beyond `reach`."""
        near = self.corners[((point >= self.low - reach) & (point <= self.high + reach)).all(axis=1)]
        if not len(near):
            return float("inf")
        found = float(np.linalg.norm(self._closest(near, np.broadcast_to(point, (len(near), 3))) - point, axis=1).min())
        return found if found <= reach else float("inf")

    def holds(self, points: Floats, *, tolerance: float) -> bool:
        """Whether nearly all of the points [N, 3] are on the surface."""
        missed = 0
        for point in points:
            missed += self.distance(point, reach=tolerance) > tolerance
            if missed > (1 - _SHARE) * len(points):
                return False
        return True

    def faces_into(self, point: Floats, front: Floats) -> bool:
        """Whether there is more of the mesh right before a point of its surface, and nothing right behind it."""
        hits = _crossings(point, front, self.corners)
        hits = hits[np.abs(hits) < _DEPTH]
        before, behind = (hits > 5e-4).any(), (hits < -5e-4).any()
        return bool(before and not behind)


def _crossings(point: Floats, direction: Floats, corners: Floats) -> Floats:
    """Where the line `point + s * direction` crosses triangles [N, 3, 3]: all s."""
    first, second = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    across = np.cross(direction, second)
    volume = (first * across).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        away = point - corners[:, 0]
        u = (away * across).sum(axis=1) / volume
        other = np.cross(away, first)
        v = (other @ direction) / volume
        s = (second * other).sum(axis=1) / volume
        met = (u >= 0) & (v >= 0) & (u + v <= 1) & (np.abs(volume) > 1e-15)
    return np.asarray(s[met])
