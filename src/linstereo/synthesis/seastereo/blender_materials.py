"""Runs inside Blender: materials, sky, caustics and the volume of water, all made of shader nodes."""

from collections.abc import Callable, Sequence
from typing import Any

import bpy
import numpy as np
from mathutils import Vector

Value = Any
"""A number, a colour, or the output of a node."""


def towards(direction: Sequence[float]) -> Any:
    """The quaternion that turns a light, which shines along -z, so that it shines along -`direction`."""
    return Vector(direction).to_track_quat("Z", "Y")


class Nodes:
    """The nodes of one shader, made by short calls."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        tree.nodes.clear()

    def new(self, kind: str, inputs: dict[Any, Value] | None = None, **properties: Any) -> Any:
        """A node; `inputs` by name or number are values or the outputs of other nodes."""
        node = self.tree.nodes.new(kind)
        for name, value in properties.items():
            setattr(node, name, value)
        for name, value in (inputs or {}).items():
            self.feed(node.inputs[name], value)
        return node

    def feed(self, socket: Any, value: Value) -> None:
        """Link an output to an input, or set its value."""
        if isinstance(value, bpy.types.NodeSocket):
            self.tree.links.new(value, socket)
        else:
            socket.default_value = value

    def mix(self, factor: Value, one: Value, two: Value) -> Value:
        """A mixture of two colours."""
        node = self.new("ShaderNodeMix", data_type="RGBA")
        self.feed(node.inputs[0], factor)
        self.feed(node.inputs[6], one)
        self.feed(node.inputs[7], two)
        return node.outputs[2]

    def math(self, operation: str, one: Value, two: Value = 0.5) -> Value:
        """One or two numbers put together."""
        node = self.new("ShaderNodeMath", operation=operation)
        self.feed(node.inputs[0], one)
        self.feed(node.inputs[1], two)
        return node.outputs[0]

    def ramp(self, value: Value, low: float, high: float) -> Value:
        """`value` mapped from low..high to 0..1, clamped."""
        node = self.new("ShaderNodeMapRange", {0: value, 1: low, 2: high})
        return node.outputs[0]

    def noise(self, where: Value, scale: float, detail: float = 4.0, roughness: float = 0.55) -> Value:
        """Fractal noise, 0 to 1."""
        node = self.new("ShaderNodeTexNoise", {"Vector": where, "Scale": scale, "Detail": detail})
        node.inputs["Roughness"].default_value = roughness
        return node.outputs["Fac"]

    def cells(self, where: Value, scale: float) -> Value:
        """Distance to the nearest of random points."""
        return self.new("ShaderNodeTexVoronoi", {"Vector": where, "Scale": scale}).outputs["Distance"]

    def bump(self, height: Value, distance: float, strength: float = 1.0) -> Value:
        """The normal of a surface with a relief of `distance` metres."""
        node = self.new("ShaderNodeBump", {"Height": height, "Distance": distance, "Strength": strength})
        return node.outputs["Normal"]

    def scaled(self, colour: Value, factor: Value) -> Value:
        """A colour times a number."""
        node = self.new("ShaderNodeVectorMath", operation="SCALE")
        self.feed(node.inputs[0], colour)
        self.feed(node.inputs["Scale"], factor)
        return node.outputs[0]


def make_all() -> dict[str, Any]:
    """One material for each kind; colour and pattern are those of the object that has it."""
    return {kind: _make(kind, build) for kind, build in _BUILDERS.items()}


def _make(kind: str, build: Callable[[Nodes, Value, Value], Value]) -> Any:
    material = bpy.data.materials.new(kind)
    material.use_nodes = True
    nodes = Nodes(material.node_tree)
    info = nodes.new("ShaderNodeObjectInfo")
    place = nodes.new("ShaderNodeTexCoord").outputs["Object"]
    shift = nodes.new("ShaderNodeCombineXYZ", {0: info.outputs["Object Index"], 1: info.outputs["Object Index"]})
    where = nodes.new("ShaderNodeVectorMath", {0: place, 1: shift.outputs[0]}, operation="ADD").outputs[0]
    surface = build(nodes, where, info.outputs["Color"])
    nodes.new("ShaderNodeOutputMaterial", {"Surface": surface})
    return material


def _principled(
    nodes: Nodes,
    colour: Value,
    normal: Value = None,
    *,
    roughness: float = 0.9,
    metallic: Value = 0.0,
    specular: float = 0.25,
) -> Value:
    node = nodes.new("ShaderNodeBsdfPrincipled", {"Base Color": colour, "Roughness": roughness, "Metallic": metallic})
    node.inputs["Specular IOR Level"].default_value = specular
    if normal is not None:
        nodes.feed(node.inputs["Normal"], normal)
    return node.outputs[0]


def _upwards(nodes: Nodes) -> Value:
    """1 where the surface looks up, -1 where it looks down."""
    geometry = nodes.new("ShaderNodeNewGeometry")
    return nodes.new("ShaderNodeSeparateXYZ", {0: geometry.outputs["Normal"]}).outputs[2]


def _fouled(nodes: Nodes, where: Value, colour: Value, amount: float) -> Value:
    """What grows on things under water: a brownish green film in patches, more of it on top, and silt."""
    patches = nodes.ramp(nodes.noise(where, 3.5, detail=4.0), 0.62 - amount, 0.80 - 0.5 * amount)
    film = nodes.mix(patches, colour, (0.10, 0.11, 0.05, 1.0))
    silt = nodes.ramp(nodes.math("ADD", _upwards(nodes), nodes.noise(where, 9.0)), 1.25, 1.62)
    return nodes.mix(nodes.math("MULTIPLY", silt, 0.55), film, (0.42, 0.37, 0.28, 1.0))


def _sand(nodes: Nodes, where: Value, colour: Value) -> Value:
    slow, grain = nodes.noise(where, 0.45, detail=3.0), nodes.noise(where, 130.0, detail=1.0, roughness=0.8)
    tone = nodes.math("ADD", nodes.math("MULTIPLY", slow, 0.7), nodes.math("MULTIPLY", grain, 0.9))
    base = nodes.scaled(colour, nodes.ramp(tone, 0.1, 1.25))
    shells = nodes.ramp(nodes.cells(where, 11.0), 0.085, 0.06)
    stones = nodes.ramp(nodes.noise(where, 6.0, detail=4.0, roughness=0.7), 0.64, 0.74)
    base = nodes.mix(nodes.math("MULTIPLY", stones, 0.75), base, (0.10, 0.09, 0.075, 1.0))
    base = nodes.mix(nodes.math("MULTIPLY", shells, 0.8), base, (0.75, 0.72, 0.66, 1.0))
    relief = nodes.math("ADD", nodes.noise(where, 18.0, detail=2.0), nodes.math("MULTIPLY", grain, 0.25))
    return _principled(nodes, base, nodes.bump(relief, 0.03, 0.9), roughness=1.0, specular=0.05)


def _rock(nodes: Nodes, where: Value, colour: Value) -> Value:
    rough = nodes.noise(where, 5.0, detail=5.0, roughness=0.65)
    base = nodes.scaled(colour, nodes.math("MULTIPLY_ADD", rough, 2.6))
    lichen = nodes.ramp(nodes.noise(where, 2.6, detail=4.0), 0.52, 0.62)
    growth = nodes.mix(nodes.noise(where, 14.0), (0.16, 0.15, 0.06, 1.0), (0.26, 0.12, 0.12, 1.0))
    base = nodes.mix(nodes.math("MULTIPLY", lichen, 0.8), base, growth)
    base = _fouled(nodes, where, base, 0.0)
    return _principled(nodes, base, nodes.bump(nodes.noise(where, 9.0, detail=5.0, roughness=0.7), 0.09), specular=0.1)


def _coral(nodes: Nodes, where: Value, colour: Value) -> Value:
    pores = nodes.cells(where, 46.0)
    base = nodes.scaled(colour, nodes.ramp(nodes.math("ADD", pores, nodes.noise(where, 7.0)), 0.15, 1.15))
    tips = nodes.ramp(nodes.noise(where, 11.0, detail=2.0), 0.5, 0.75)
    base = nodes.mix(nodes.math("MULTIPLY", tips, 0.45), base, (0.75, 0.68, 0.55, 1.0))
    return _principled(nodes, base, nodes.bump(pores, 0.02), specular=0.15)


def _weed(nodes: Nodes, where: Value, colour: Value) -> Value:
    base = nodes.scaled(colour, nodes.ramp(nodes.noise(where, 9.0, detail=5.0), -0.1, 0.75))
    spots = nodes.ramp(nodes.noise(where, 40.0), 0.55, 0.7)
    base = nodes.mix(nodes.math("MULTIPLY", spots, 0.5), base, (0.35, 0.30, 0.12, 1.0))
    leaf = _principled(nodes, base, roughness=0.6)
    through = nodes.new("ShaderNodeBsdfTranslucent", {"Color": base}).outputs[0]
    return nodes.new("ShaderNodeMixShader", {0: 0.4, 1: leaf, 2: through}).outputs[0]


def _fish(nodes: Nodes, where: Value, colour: Value) -> Value:
    back = nodes.ramp(_upwards(nodes), -0.4, 0.7)
    base = nodes.mix(back, (0.62, 0.64, 0.62, 1.0), nodes.scaled(colour, 0.7))
    bars = nodes.ramp(nodes.noise(where, 26.0, detail=1.0), 0.55, 0.62)
    base = nodes.mix(nodes.math("MULTIPLY", bars, 0.5), base, nodes.scaled(colour, 0.3))
    return _principled(nodes, base, roughness=0.35, metallic=0.25, specular=0.5)


def _wood(nodes: Nodes, where: Value, colour: Value) -> Value:
    stretch = nodes.new("ShaderNodeMapping", {"Vector": where, "Scale": (3.0, 3.0, 26.0)}).outputs[0]
    grain = nodes.noise(stretch, 1.6, detail=4.0, roughness=0.6)
    base = nodes.scaled(colour, nodes.ramp(grain, 0.1, 0.62))
    base = _fouled(nodes, where, base, 0.06)
    return _principled(nodes, base, nodes.bump(grain, 0.012), roughness=0.85, specular=0.15)


def _paint(nodes: Nodes, where: Value, colour: Value) -> Value:
    base = nodes.scaled(colour, nodes.ramp(nodes.noise(where, 5.0, detail=5.0), -0.7, 0.6))
    chips = nodes.ramp(nodes.noise(where, 8.0, detail=5.0, roughness=0.7), 0.62, 0.65)
    base = nodes.mix(chips, base, (0.16, 0.09, 0.05, 1.0))
    base = _fouled(nodes, where, base, 0.04)
    return _principled(nodes, base, nodes.bump(chips, -0.004), roughness=0.5, specular=0.4)


def _metal(nodes: Nodes, where: Value, colour: Value) -> Value:
    rusty = nodes.ramp(nodes.noise(where, 4.0, detail=5.0), 0.42, 0.6)
    base = nodes.mix(rusty, colour, (0.22, 0.10, 0.05, 1.0))
    base = _fouled(nodes, where, base, 0.05)
    shine = nodes.math("SUBTRACT", 0.6, nodes.math("MULTIPLY", rusty, 0.6))
    return _principled(nodes, base, nodes.bump(nodes.noise(where, 30.0), 0.004), roughness=0.5, metallic=shine)


def _cloth(nodes: Nodes, where: Value, colour: Value) -> Value:
    weave = nodes.noise(where, 90.0, detail=3.0, roughness=0.7)
    base = nodes.scaled(colour, nodes.ramp(nodes.math("ADD", weave, nodes.noise(where, 3.0)), 0.2, 1.3))
    base = _fouled(nodes, where, base, 0.04)
    return _principled(nodes, base, nodes.bump(nodes.noise(where, 12.0, detail=4.0), 0.015), roughness=1.0)


def _ceramic(nodes: Nodes, where: Value, colour: Value) -> Value:
    base = nodes.scaled(colour, nodes.ramp(nodes.noise(where, 4.0, detail=4.0), -0.6, 0.62))
    base = _fouled(nodes, where, base, 0.07)
    return _principled(nodes, base, nodes.bump(nodes.noise(where, 20.0), 0.006), roughness=0.35, specular=0.5)


def _rust(nodes: Nodes, where: Value, colour: Value) -> Value:
    crust = nodes.noise(where, 9.0, detail=5.0, roughness=0.7)
    base = nodes.mix(nodes.ramp(crust, 0.35, 0.65), nodes.scaled(colour, 0.5), (0.34, 0.15, 0.06, 1.0))
    base = _fouled(nodes, where, base, 0.08)
    return _principled(nodes, base, nodes.bump(crust, 0.03), roughness=0.95, specular=0.1)


_BUILDERS = {
    "sand": _sand,
    "rock": _rock,
    "coral": _coral,
    "weed": _weed,
    "fish": _fish,
    "wood": _wood,
    "paint": _paint,
    "metal": _metal,
    "cloth": _cloth,
    "ceramic": _ceramic,
    "rust": _rust,
}


def drop_image(image: Any) -> None:
    """Take an image out of all materials; what it coloured becomes a plain grey."""
    for material in bpy.data.materials:
        if material.node_tree is None:
            continue
        for node in [n for n in material.node_tree.nodes if n.type == "TEX_IMAGE" and n.image == image]:
            for link in [k for output in node.outputs for k in output.links]:
                if link.to_socket.type == "RGBA":
                    link.to_socket.default_value = (0.5, 0.5, 0.5, 1.0)
            material.node_tree.nodes.remove(node)


def make_sky(scene: Any, *, sky: Sequence[float], window: float, around: Sequence[float]) -> Any:
    """Light from above: radiance `sky` within the cone whose cosine is `window`, `around` outside; returns its node."""
    world = bpy.data.worlds.new("sky")
    world.use_nodes = True
    scene.world = world
    world.cycles_visibility.camera = False
    nodes = Nodes(world.node_tree)
    up = nodes.new("ShaderNodeSeparateXYZ", {0: nodes.new("ShaderNodeNewGeometry").outputs["Incoming"]}).outputs[2]
    down = nodes.math("MULTIPLY", up, -1.0)  # incoming points from the background to the viewer
    above = nodes.ramp(down, window - 0.06, window + 0.06)
    colour = nodes.mix(above, (*around, 1.0), (*sky, 1.0))
    background = nodes.new("ShaderNodeBackground", {"Color": colour})
    nodes.new("ShaderNodeOutputWorld", {"Surface": background.outputs[0]})
    world.cycles.sampling_method = "MANUAL"
    world.cycles.sample_map_resolution = 256
    return background


def make_caustics(scene: Any, pattern: Any, *, tile: float, height: float) -> None:
    """A pattern of light [S, S], mean 1, that repeats every `tile` metres, cast by the sun from `height` metres."""
    size = len(pattern)
    image = bpy.data.images.new("caustics", size, size, float_buffer=True, is_data=True)
    pixels = np.ones((size, size, 4), np.float32)
    pixels[..., :3] = pattern[..., None]
    image.pixels.foreach_set(pixels.ravel())
    image.update()
    material = bpy.data.materials.new("caustics")
    material.use_nodes = True
    nodes = Nodes(material.node_tree)
    place = nodes.new("ShaderNodeNewGeometry").outputs["Position"]
    where = nodes.scaled(place, 1.0 / tile)
    texture = nodes.new("ShaderNodeTexImage", {"Vector": where}, image=image, interpolation="Linear")
    light = nodes.new("ShaderNodeBsdfTransparent", {"Color": texture.outputs["Color"]})
    nodes.new("ShaderNodeOutputMaterial", {"Surface": light.outputs[0]})
    item = bpy.data.objects.new("caustics", _square("caustics", material, half_extent=60.0, height=height))
    for ray in ("camera", "diffuse", "glossy", "transmission", "volume_scatter"):
        setattr(item, f"visible_{ray}", False)
    scene.collection.objects.link(item)


def make_water(
    scene: Any,
    *,
    absorption: Sequence[float],
    scattering: Sequence[float],
    anisotropy: float,
    half_extent: float,
    low: float,
    high: float,
) -> list[tuple[Any, float]]:
    """A box of water under a mirror: absorption and scattering coefficients in 1/m for red, green and blue.

    Returns the inputs of nodes that make it water, with their values; with all of them at 0 there is none.
    """
    material = bpy.data.materials.new("water")
    material.use_nodes = True
    nodes = Nodes(material.node_tree)
    parts = []
    for kind, values in (("ShaderNodeVolumeAbsorption", absorption), ("ShaderNodeVolumeScatter", scattering)):
        density = max(values)
        share = [value / density for value in values]
        # The node for absorption takes the colour that is left, not the one that is taken.
        colour = [1.0 - part for part in share] if kind.endswith("Absorption") else share
        parts.append(nodes.new(kind, {"Color": (*colour, 1.0), "Density": density}))
    parts[1].inputs["Anisotropy"].default_value = anisotropy
    both = nodes.new("ShaderNodeAddShader", {0: parts[0].outputs[0], 1: parts[1].outputs[0]})
    nodes.new("ShaderNodeOutputMaterial", {"Volume": both.outputs[0]})
    material.cycles.homogeneous_volume = True
    mesh = bpy.data.meshes.new("water")
    corners = [(x, y, z) for z in (low, high) for y in (-half_extent, half_extent) for x in (-half_extent, half_extent)]
    mesh.from_pydata(corners, [], [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)])
    mesh.materials.append(material)
    scene.collection.objects.link(bpy.data.objects.new("water", mesh))
    densities = [(part.inputs["Density"], part.inputs["Density"].default_value) for part in parts]
    return [*densities, (_make_mirror(scene, half_extent=half_extent, height=high - 0.02), 1.0)]


def _make_mirror(scene: Any, *, half_extent: float, height: float) -> Any:
    """The surface from below, which reflects all light that comes as level as the view of our cameras does.

    Only they see it: light passes from above. Returns the input that makes it a mirror at 1 and nothing at 0.
    """
    material = bpy.data.materials.new("surface")
    material.use_nodes = True
    nodes = Nodes(material.node_tree)
    waves = nodes.noise(nodes.new("ShaderNodeNewGeometry").outputs["Position"], 0.9, detail=2.0)
    mirror = nodes.new("ShaderNodeBsdfAnisotropic", {"Roughness": 0.12, "Normal": nodes.bump(waves, 0.15)})
    mix = nodes.new("ShaderNodeMixShader", {1: nodes.new("ShaderNodeBsdfTransparent").outputs[0], 2: mirror.outputs[0]})
    nodes.new("ShaderNodeOutputMaterial", {"Surface": mix.outputs[0]})
    item = bpy.data.objects.new("surface", _square("surface", material, half_extent=half_extent, height=height))
    for ray in ("diffuse", "glossy", "transmission", "volume_scatter", "shadow"):
        setattr(item, f"visible_{ray}", False)
    scene.collection.objects.link(item)
    return mix.inputs[0]


def _square(name: str, material: Any, *, half_extent: float, height: float) -> Any:
    """The mesh of a level square."""
    mesh = bpy.data.meshes.new(name)
    ends = (-half_extent, half_extent)
    mesh.from_pydata([(x, y, height) for y in ends for x in ends], [], [(0, 1, 3, 2)])
    mesh.materials.append(material)
    return mesh
