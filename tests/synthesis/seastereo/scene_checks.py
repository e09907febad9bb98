"""Whether cameras and things of a scene keep apart, checked on the meshes that are rendered, in all frames.

    python -m tests.synthesis.seastereo.scene_checks --seed 0 --seed 1

builds every scene of the plan of each seed (half a second of CPU time for each of the 1,008) and says what is wrong;
`--every 9` takes every ninth.
"""

import argparse
import sys

import numpy as np
from tqdm import tqdm

from linstereo.synthesis.seastereo.assets import AssetLibrary
from linstereo.synthesis.seastereo.plan import FRAMES, MAX_SEED, all_configurations
from linstereo.synthesis.seastereo.scene import CAMERA_DISTANCE, OBJECT_COUNTS, build_scene
from linstereo.synthesis.seastereo.trajectories import CLEARANCE

EPSILON = 1e-9
AROUND = np.linspace(-0.6, 0.6, 49)
"""Metres about a camera, in x and in y, at which the height of the floor is looked up."""


def problems_of(scene):
    """What is wrong with a scene, one sentence each."""
    return [*_cameras_in_floor(scene), *_cameras_in_things(scene), *_overlaps(scene), *_boxes(scene)]


def clearance(scene):
    """Metres [2 F] from each place of either camera to the nearest point of the mesh of the floor; 0 below it."""
    vertices, _ = scene.terrain.grid()
    line = np.unique(vertices[:, 0])
    heights = vertices[:, 2].reshape(len(line), len(line))  # [y, x]
    places = scene.path.places
    x, y = places[:, 0, None, None] + AROUND[None, None, :], places[:, 1, None, None] + AROUND[None, :, None]
    x, y = np.broadcast_arrays(x, y)  # [2 F, A, A]
    z = _bilinear(heights, line, x, y)
    away = np.sqrt(
        (x - places[:, 0, None, None]) ** 2 + (y - places[:, 1, None, None]) ** 2 + (z - places[:, 2, None, None]) ** 2
    )
    above = places[:, 2] > z[:, len(AROUND) // 2, len(AROUND) // 2]
    return np.where(above, away.reshape(len(places), -1).min(axis=1), 0.0)


def _bilinear(values, line, x, y):
    column, row = (np.clip(np.searchsorted(line, at) - 1, 0, len(line) - 2) for at in (x, y))
    u, v = (x - line[column]) / (line[column + 1] - line[column]), (y - line[row]) / (line[row + 1] - line[row])
    low = (1 - u) * values[row, column] + u * values[row, column + 1]
    return (1 - v) * low + v * ((1 - u) * values[row + 1, column] + u * values[row + 1, column + 1])


def _cameras_in_floor(scene):
    nearest = clearance(scene)
    if nearest.min() < CLEARANCE - 0.005:  # the mesh is coarser than the waves that it is made of
        yield f"a camera is {nearest.min():.3f} m from the floor"
    if scene.path.places[:, 2].max() > scene.configuration.floor_depth - 0.3:
        yield "a camera comes to the surface"


def _cameras_in_things(scene):
    """Boxes as they are in each frame, against both cameras in that frame."""
    low, high, velocity = (np.stack([get(thing) for thing in scene.things]) for get in _CORNERS)  # [N, 3]
    step = np.arange(FRAMES)[:, None, None] * velocity  # [F, N, 3]
    for side, poses in (("left", scene.path.left), ("right", scene.path.right)):
        place = poses[:, None, :3, 3]  # [F, 1, 3]
        outside = np.maximum(np.maximum(low + step - place, place - high - step), 0.0)
        distance = np.sqrt((outside**2).sum(axis=-1))  # [F, N]
        for frame, number in np.argwhere(distance < CAMERA_DISTANCE - EPSILON):
            name = scene.things[number].name
            yield f"the {side} camera is {distance[frame, number]:.3f} m from the {name} in frame {frame}"


_CORNERS = (lambda thing: thing.box.low, lambda thing: thing.box.high, lambda thing: thing.velocity)


def _overlaps(scene):
    """Foreground objects against each other, and in every frame against all the rest."""
    low, high, velocity = (np.stack([get(thing) for thing in scene.things]) for get in _CORNERS)
    objects = np.array([thing.role == "object" for thing in scene.things])
    if not OBJECT_COUNTS[0] <= objects.sum() <= OBJECT_COUNTS[1]:
        yield f"there are {objects.sum()} foreground objects"
    step = np.arange(FRAMES)[:, None, None] * velocity
    for number in np.flatnonzero(objects):
        hit = ((low[number] < high + step) & (low + step < high[number])).all(axis=-1)  # [F, N]
        hit[:, number] = False
        for other in np.flatnonzero(hit.any(axis=0)):
            yield f"{scene.things[number].name} and {scene.things[other].name} overlap"


def _boxes(scene):
    """Boxes against the meshes themselves."""
    for thing in scene.things:
        if thing.parts:
            points = np.concatenate([part.vertices for part in thing.parts])
            if (points < thing.box.low - EPSILON).any() or (points > thing.box.high + EPSILON).any():
                yield f"the {thing.name} is larger than its box"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help=f"0 to {MAX_SEED}; may be given several times")
    parser.add_argument("--every", type=int, default=1, help="take only every n-th configuration")
    options = parser.parse_args()
    library, wrong, smallest, count = AssetLibrary(), 0, np.inf, 0
    for seed in options.seed or [0]:
        for configuration in tqdm(all_configurations(seed)[seed % options.every :: options.every], disable=None):
            scene = build_scene(configuration, library)
            smallest, count = min(smallest, clearance(scene).min()), count + 1
            for problem in problems_of(scene):
                wrong += 1
                print(f"seed {seed}, {configuration.name}: {problem}", flush=True)
    print(f"{count} scenes of {FRAMES} frames, {wrong} problems; nearest to the floor: {smallest:.3f} m")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
