"""Stands in for Blender: answers as `blender_worker` does and renders a bare sea floor; can be made to die.

Run as a program with the arguments of a Blender executable. Files beside the program say what goes wrong, once each:
with `kill_parent` it kills the process that started it, with `die_at_start` itself before it is ready, and itself on
each frame whose number is in `die_on`. With `fail` it reports an error every time, and it refuses meshes whose file
names are in `refuse`.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import OpenEXR

CUBE = "".join(f"v {x} {y} {z}\n" for x in (0, 1) for y in (0, 2) for z in (0, 1)) + "f 1 2 4 3\nf 5 6 8 7\nf 1 2 6 5\n"
"""A mesh file of the user."""


def install(folder):
    """Put the program `blender` into a new folder, beside which it looks for `die_on`, `fail` and `kill_parent`."""
    folder.mkdir()
    program = folder / "blender"
    program.write_text(f'#!/bin/sh\nFAKE_BLENDER="{folder}" exec "{sys.executable}" "{__file__}" "$@"\n')
    program.chmod(0o755)
    return program


def write(path, channels):
    pixels = {f"ViewLayer.{name}": np.ascontiguousarray(values, np.float32) for name, values in channels.items()}
    header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    OpenEXR.File(header, pixels).write(str(path))


def dies(frame, here):
    path = here / "die_on"
    doomed = path.read_text().split() if path.is_file() else []
    if str(frame) in doomed:
        doomed.remove(str(frame))
        path.write_text(" ".join(doomed))
        return True
    return False


def render(scene, settings, frame, out):
    height, width = settings["height"], settings["width"]
    focal = scene["focal"] / 36 * width
    x, y = np.meshgrid((np.arange(width) - (width - 1) / 2) / focal, (np.arange(height) - (height - 1) / 2) / focal)
    for side in ("left", "right"):
        pose = np.array(scene["cameras"][side][frame])
        ray = np.stack([x, y, np.ones_like(x)], axis=-1) @ pose[:3, :3].T
        depth = np.where(ray[..., 2] < -1e-3, -pose[2, 3] / np.minimum(ray[..., 2], -1e-3), 1e10)
        point = pose[:3, 3] + ray * depth[..., None]
        shade = np.where(depth < 1e9, 0.3 + 0.1 * np.sin(2 * point[..., 0]) * np.sin(2 * point[..., 1]), 0)
        opacity = (depth < 1e9).astype(np.float32)
        for light in settings["lights"]:
            write(out / f"{side}_{light}.exr", {**{f"Combined.{c}": shade for c in "RGB"}, "Combined.A": opacity})
        write(out / f"{side}_depth.exr", {"Depth.Z": depth})


def main():
    here = Path(os.environ["FAKE_BLENDER"])
    if (here / "die_at_start").is_file():
        (here / "die_at_start").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    print("Blender 0.0, a fake")
    print(json.dumps({"ready": "4.5.0"}), flush=True)
    scene = settings = None
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"done": request["do"], "missing_textures": []}
        if request["do"] == "load":
            settings = request["settings"]
            scene = json.loads(Path(request["scene"], "scene.json").read_text())
            refused = (here / "refuse").read_text().split() if (here / "refuse").is_file() else []
            for thing in scene["things"]:
                if Path(thing.get("file", "")).name in refused:
                    answer = {"mesh": thing["file"], "error": "RuntimeError: no idea what this is"}
        elif (here / "fail").is_file():
            answer = {"error": "ValueError: out of luck"}
        else:
            if (here / "kill_parent").is_file():
                (here / "kill_parent").unlink()
                os.kill(os.getppid(), signal.SIGKILL)
                return
            if dies(request["frame"], here):
                print("something terrible", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            with (here / "log").open("a") as log:
                print(scene["configuration"], request["frame"], file=log)
            render(scene, settings, request["frame"], Path(request["out"]))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
