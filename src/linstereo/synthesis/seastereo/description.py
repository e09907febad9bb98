"""The description of a scene that Blender is given: scene.json (what, where, which light) and meshes.npz (arrays)."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from linstereo.synthesis.seastereo.light import caustics, describe_light, describe_water, light_of
from linstereo.synthesis.seastereo.parts import Part
from linstereo.synthesis.seastereo.scene import Placed, Scene


def write_description(folder: Path, scene: Scene) -> None:
    """Write both files of a scene into an existing folder."""
    configuration = scene.configuration
    rng = scene.light_rng()
    light = light_of(configuration, rng)
    arrays: dict[str, Any] = {}
    things = [{"name": "floor", "role": "floor", "velocity": [0, 0, 0], "parts": [_part(scene.floor, arrays)]}]
    things += [_thing(thing, arrays) for thing in scene.things]
    if light.caustics > 0:
        arrays["caustics"] = caustics(rng, contrast=light.caustics)
    content = {
        "configuration": configuration.name,
        "focal": configuration.focal_mm,
        "cameras": {"left": scene.path.left.tolist(), "right": scene.path.right.tolist()},
        "light": describe_light(light, configuration),
        "water": describe_water(configuration),
        "things": things,
    }
    np.savez(folder / "meshes.npz", **arrays)
    (folder / "scene.json").write_text(json.dumps(content), encoding="utf-8")


def summary(scene: Scene) -> dict[str, Any]:
    """What stands where, without meshes, as it is kept beside the frames: boxes in metres, z up, floor about 0."""
    return {
        "configuration": scene.configuration.name,
        "floor_depth": scene.configuration.floor_depth,
        "things": [
            {
                "name": thing.name,
                "role": thing.role,
                "low": np.round(thing.box.low, 4).tolist(),
                "high": np.round(thing.box.high, 4).tolist(),
                "velocity": np.round(thing.velocity, 5).tolist(),
            }
            for thing in scene.things
        ],
    }


def _thing(thing: Placed, arrays: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"name": thing.name, "role": thing.role, "velocity": thing.velocity.tolist()}
    if thing.file is not None and thing.matrix is not None:
        return {**content, "file": str(thing.file), "matrix": thing.matrix.tolist()}
    return {**content, "parts": [_part(part, arrays) for part in thing.parts]}


def _part(part: Part, arrays: dict[str, Any]) -> dict[str, Any]:
    number = len(arrays)
    arrays[f"v{number}"] = part.vertices.astype(np.float32)
    arrays[f"f{number}"] = part.faces
    return {
        "mesh": number,
        "kind": part.look.kind,
        "colour": list(part.look.colour),
        "variant": round(part.look.variant),
        "smooth": part.smooth,
    }
