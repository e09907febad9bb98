"""Runs inside Blender: builds the scene that a description names and renders its frames. Imports bpy and numpy only.

Started by `blender_process`, as `python blender_worker.py` where bpy is a module or by `blender --background --python
blender_worker.py`. It reads requests from the standard input, one JSON object in each line, and answers each with one
line on the standard output; everything that Blender prints goes to the standard error.

    {"do": "load", "scene": "<folder with scene.json and meshes.npz>", "settings": {...}}
    {"do": "render", "frame": 12, "out": "<folder>"}

`render` writes <side>_depth.exr (planar depth, metres, 1e10 where there is nothing; one ray through the middle of each
pixel) and <side>_<light>.exr (linear radiance), for the sides left and right and each light that the settings name.
"""

import importlib.util
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import bpy
import numpy as np


def _beside(name: str) -> Any:
    """The module in the file of that name beside this one, which is no part of a package inside Blender."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).resolve().with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


blender_materials = _beside("blender_materials")

FROM_BLENDER_AXES = np.array([[1.0, 0, 0, 0], [0, 0, 1.0, 0], [0, -1.0, 0, 0], [0, 0, 0, 1.0]])
"""Importers turn (x, y up, z) of a file into (x, -z, y); this undoes it."""
CAMERA_AXES = np.diag([1.0, -1.0, -1.0, 1.0])
"""From Blender's camera (y up, looking along -z) to ours (y down, looking along z)."""
GPU_KINDS = ("OPTIX", "CUDA", "HIP", "METAL", "ONEAPI")


class MeshError(Exception):
    """Blender cannot use a mesh of the user: its path, and why."""


class NoGpuError(Exception):
    """Cycles cannot render on a GPU here."""


class Stage:
    """The scene that is loaded at the moment."""

    def __init__(self, folder: str, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.description = json.loads(Path(folder, "scene.json").read_text(encoding="utf-8"))
        self.meshes = np.load(Path(folder, "meshes.npz"))
        self.missing_textures: list[tuple[str, str]] = []
        bpy.ops.wm.read_factory_settings(use_empty=True)
        self.scene = bpy.context.scene
        self.moving: list[tuple[Any, list[float]]] = []
        self.materials = blender_materials.make_all()
        for thing in self.description["things"]:
            self._add_thing(thing)
        self._add_camera()
        self._add_light()
        self.water = self._add_water() if "volume" in self.settings["lights"] else []
        self._configure()

    def render(self, frame: int, out: str) -> None:
        """All images of a frame, into the folder `out`."""
        for thing, velocity in self.moving:
            thing.location = [step * frame for step in velocity]
        for side in ("left", "right"):
            pose = np.array(self.description["cameras"][side][frame]) @ CAMERA_AXES
            self.camera.matrix_world = _matrix(pose)
            self._aim_lamps(frame)
            # Depth comes first and the lights always in one order: which random numbers Cycles draws depends on what
            # it rendered before, and a frame must not depend on which frames the same process rendered.
            self._switch(self.settings["lights"][-1], water=False)
            self._sharp()
            self._write(out, f"{side}_depth")
            for light in self.settings["lights"]:
                self._switch(light)
                self._quality(self.settings["samples"], frame, side, light)
                self._write(out, f"{side}_{light}")

    def _write(self, out: str, name: str) -> None:
        self.scene.render.filepath = str(Path(out, f"{name}.exr"))
        bpy.ops.render.render(write_still=True)

    def _configure(self) -> None:
        scene, cycles = self.scene, self.scene.cycles
        scene.render.engine = "CYCLES"
        scene.render.resolution_x = self.settings["width"]
        scene.render.resolution_y = self.settings["height"]
        scene.render.resolution_percentage = 100
        scene.render.film_transparent = True
        scene.render.use_persistent_data = True
        scene.render.threads_mode = "FIXED"
        scene.render.threads = self.settings["threads"]
        scene.render.image_settings.file_format = "OPEN_EXR_MULTILAYER"
        scene.render.image_settings.color_depth = "32"
        scene.render.image_settings.exr_codec = "ZIP"
        scene.view_layers[0].use_pass_z = True
        cycles.device = "GPU" if self.settings["gpu"] else "CPU"
        cycles.use_adaptive_sampling = False
        cycles.pixel_filter_type = "BLACKMAN_HARRIS"
        cycles.denoiser = "OPENIMAGEDENOISE"
        cycles.caustics_reflective = cycles.caustics_refractive = False
        cycles.transparent_max_bounces = 16
        cycles.volume_max_steps = 64

    def _quality(self, samples: int, frame: int, side: str, light: str) -> None:
        cycles = self.scene.cycles
        cycles.samples = samples
        cycles.seed = (self.settings["seed"] + 2 * frame + (side == "right")) % 2**31
        cycles.use_denoising = self.settings["denoise"]
        cycles.filter_width = 1.5
        cycles.max_bounces = 12 if light == "volume" else 2
        cycles.diffuse_bounces = 1
        cycles.glossy_bounces = 1
        cycles.volume_bounces = self.settings["volume_bounces"]
        cycles.sample_clamp_indirect = 8.0

    def _sharp(self) -> None:
        """One ray through the middle of each pixel."""
        cycles = self.scene.cycles
        cycles.samples = 1
        cycles.seed = 0
        cycles.use_denoising = False
        cycles.filter_width = 0.01
        cycles.max_bounces = 0

    def _switch(self, light: str, *, water: bool = True) -> None:
        """Only the lights of one image: `sun` (and sky), `lamp`, or all of them and the water for `volume`.

        Nothing with faces is hidden or shown, since Cycles would sort all triangles anew.
        """
        self.sun.hide_render = light not in ("sun", "volume") or self.description["light"]["sun"] <= 0
        for lamp in self.lamps:
            lamp.hide_render = light not in ("lamp", "volume")
        self.sky.inputs["Strength"].default_value = 1.0 if light in ("sun", "volume") else 0.0
        for setting, value in self.water:
            setting.default_value = value if water else 0.0

    def _add_thing(self, thing: dict[str, Any]) -> None:
        if thing.get("file"):
            objects = self._import(thing["file"], np.array(thing["matrix"]))
        else:
            objects = [self._add_mesh(part, thing["name"]) for part in thing["parts"]]
        if any(thing["velocity"]):
            for item in objects:
                pivot = bpy.data.objects.new("swimming", None)
                self.scene.collection.objects.link(pivot)
                item.parent = pivot
                self.moving.append((pivot, thing["velocity"]))

    def _add_mesh(self, part: dict[str, Any], name: str) -> Any:
        vertices, faces = self.meshes[f"v{part['mesh']}"], self.meshes[f"f{part['mesh']}"]
        mesh = bpy.data.meshes.new(name)
        mesh.vertices.add(len(vertices))
        mesh.vertices.foreach_set("co", vertices.astype(np.float32).ravel())
        mesh.loops.add(faces.size)
        mesh.loops.foreach_set("vertex_index", faces.astype(np.int32).ravel())
        mesh.polygons.add(len(faces))
        mesh.polygons.foreach_set("loop_start", np.arange(0, faces.size, 3, dtype=np.int32))
        mesh.polygons.foreach_set("use_smooth", np.full(len(faces), bool(part["smooth"])))
        mesh.update(calc_edges=True)
        mesh.materials.append(self.materials[part["kind"]])
        item = bpy.data.objects.new(name, mesh)
        item.color = (*part["colour"], 1.0)
        item.pass_index = int(part["variant"])
        self.scene.collection.objects.link(item)
        return item

    def _import(self, path: str, matrix: Any) -> list[Any]:
        before = set(bpy.data.objects)
        images = set(bpy.data.images)
        try:
            if path.lower().endswith(".obj"):
                bpy.ops.wm.obj_import(filepath=path)
            else:
                bpy.ops.import_scene.gltf(filepath=path)
        except Exception as error:  # importers fail in as many ways as files are broken
            raise MeshError(path, _told(error)) from error
        bpy.context.view_layer.update()
        added = [item for item in bpy.data.objects if item not in before]
        meshes = [item for item in added if item.type == "MESH"]
        if not any(len(item.data.polygons) for item in meshes):
            raise MeshError(path, "Blender finds no face in it")
        for image in set(bpy.data.images) - images:
            if (
                image.source == "FILE"
                and image.packed_file is None
                and not Path(bpy.path.abspath(image.filepath)).is_file()
            ):
                self.missing_textures.append((path, image.filepath))
                blender_materials.drop_image(image)
        placed = _matrix(matrix @ FROM_BLENDER_AXES)
        worlds = {item: item.matrix_world.copy() for item in meshes}
        for item in meshes:
            item.parent = None
            item.matrix_world = placed @ worlds[item]
        for item in added:
            if item.type != "MESH":
                bpy.data.objects.remove(item)
        return meshes

    def _add_camera(self) -> None:
        camera = bpy.data.cameras.new("camera")
        camera.sensor_fit = "HORIZONTAL"
        camera.sensor_width = 36.0
        camera.lens = self.description["focal"]
        camera.clip_start, camera.clip_end = 0.01, 1000.0
        self.camera = bpy.data.objects.new("camera", camera)
        self.scene.collection.objects.link(self.camera)
        self.scene.camera = self.camera

    def _add_light(self) -> None:
        light = self.description["light"]
        volume = "volume" in self.settings["lights"]
        dim = light["dimmed"] if volume else [1.0, 1.0, 1.0]
        sun = bpy.data.lights.new("sun", "SUN")
        sun.energy = math.pi * max(light["sun"], 0.0) / max(light["to_sun"][2], 0.1)
        sun.color = dim
        sun.angle = math.radians(light["sun_angle"])
        self.sun = bpy.data.objects.new("sun", sun)
        self.sun.rotation_mode = "QUATERNION"
        self.sun.rotation_quaternion = blender_materials.towards(light["to_sun"])
        self.scene.collection.objects.link(self.sun)
        self.sky = blender_materials.make_sky(
            self.scene,
            sky=[light["sky"] * part for part in dim],
            window=light["sky_window"],
            around=[0.0, 0.0, 0.0] if volume else light["around"],
        )
        if "caustics" in self.meshes:
            blender_materials.make_caustics(
                self.scene, self.meshes["caustics"], tile=light["caustics_tile"], height=light["caustics_height"]
            )
        self.lamps: list[Any] = []
        for lamp in light["lamps"]:
            data = bpy.data.lights.new("lamp", "SPOT")
            data.energy = 4.0 * math.pi**2 * lamp["radiance"]
            data.color = lamp["colour"]
            data.spot_size = math.radians(lamp["cone"])
            data.spot_blend = lamp["blend"]
            data.shadow_soft_size = 0.03
            item = bpy.data.objects.new("lamp", data)
            self.scene.collection.objects.link(item)
            self.lamps.append(item)

    def _aim_lamps(self, frame: int) -> None:
        """The lamps travel with the left camera."""
        pose = np.array(self.description["cameras"]["left"][frame])
        for item, lamp in zip(self.lamps, self.description["light"]["lamps"], strict=True):
            place = (pose @ [*lamp["at"], 1.0])[:3]
            ahead = pose[:3, :3] @ np.array(lamp["towards"])
            item.rotation_mode = "QUATERNION"
            item.rotation_quaternion = blender_materials.towards((-ahead).tolist())
            item.location = place.tolist()

    def _add_water(self) -> list[tuple[Any, float]]:
        water = self.description["water"]
        settings: list[tuple[Any, float]] = blender_materials.make_water(
            self.scene,
            absorption=water["absorption"],
            scattering=water["scattering"],
            anisotropy=water["anisotropy"],
            half_extent=water["half_extent"],
            low=water["low"],
            high=water["high"],
        )
        return settings


def _matrix(values: Any) -> Any:
    from mathutils import Matrix

    return Matrix(np.asarray(values).tolist())


def _use_gpu() -> None:
    preferences = bpy.context.preferences.addons["cycles"].preferences
    for kind in GPU_KINDS:
        try:
            preferences.compute_device_type = kind
        except TypeError:
            continue
        preferences.get_devices()
        devices = [device for device in preferences.devices if device.type == kind]
        if devices:
            for device in preferences.devices:
                device.use = device.type == kind
            return
    raise NoGpuError("no GPU that Cycles can use; render without --gpu")


def _told(error: Exception) -> str:
    """An error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def main() -> None:
    """Answer requests until the standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    stage: Stage | None = None
    print(json.dumps({"ready": bpy.app.version_string}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "load":
                stage = Stage(request["scene"], request["settings"])
                if request["settings"]["gpu"]:
                    _use_gpu()
                answer: dict[str, Any] = {"done": "load", "missing_textures": stage.missing_textures}
            elif stage is not None:
                stage.render(request["frame"], request["out"])
                answer = {"done": "render"}
            else:
                raise ValueError("no scene is loaded")
        except NoGpuError as error:
            answer = {"error": str(error)}
        except MeshError as error:
            answer = {"mesh": error.args[0], "error": error.args[1]}
        except Exception as error:  # whatever Blender raises, the caller must hear of it
            answer = {"error": _told(error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
