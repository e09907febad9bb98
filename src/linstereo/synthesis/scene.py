"""What a scene is made of, whoever made it.

All coordinates are metres in the frame of the left camera: x right, y down, z ahead; the right camera stands at
(baseline, 0, 0) and looks the same way. A scene is closed: every ray of both cameras meets a surface (a far backdrop
stands for the sky), so that every pixel has a disparity.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from linstereo.geometry.calibration import StereoCalibration


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles with texture coordinates.

    Args:
        vertices: [V, 3] metres.
        faces: [F, 3] indices of vertices; both sides of a face are seen.
        uv: [V, 2] texture coordinates; the texture repeats with period 1.
        normals: [V, 3] unit vectors for smooth shading; None shades every face flat.
    """

    vertices: NDArray[np.float64]
    faces: NDArray[np.int32]
    uv: NDArray[np.float32]
    normals: NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class Material:
    """How a surface looks.

    Args:
        texture: uint8 [S, S, 3] RGB (sRGB-encoded), S a power of two; tiles without a seam or not, as it pleases.
        tint: linear RGB factors.
        specular: strength of the highlight, 0 (matt) to 1.
        shininess: its sharpness, the exponent of the Blinn-Phong model.
        transparency: part of the light that comes straight through the surface from behind, 0 (opaque) to below 1. The
            ground truth is the surface itself.
        mirror: part of the light from its surroundings that a surface mirrors at a right angle, 0 (none) to 1; more at
            grazing angles. The ground truth is the surface itself.
        shaded: False for surfaces that shine by themselves and take no light, such as the sky.
    """

    texture: NDArray[np.uint8]
    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)
    specular: float = 0.0
    shininess: float = 20.0
    transparency: float = 0.0
    mirror: float = 0.0
    shaded: bool = True


@dataclass(frozen=True, eq=False)
class SceneObject:
    """A mesh in its place, with what it is made of."""

    mesh: Mesh
    material: Material


@dataclass(frozen=True)
class Lamp:
    """A point light, such as a vehicle's; its light falls off with the square of the distance.

    Args:
        position: metres in the frame of the left camera.
        colour: linear RGB radiance that a white matt surface facing it shows at a distance of 1 m.
    """

    position: tuple[float, float, float]
    colour: tuple[float, float, float]


@dataclass(frozen=True)
class Lighting:
    """What lights the scene.

    Args:
        sun_direction: unit vector towards the sun (up is negative y for a level camera).
        sun_colour: linear RGB radiance of a white matt surface that faces the sun.
        ambient_colour: linear RGB radiance of a white surface in the shade.
        lamps: point lights.
        shadows: whether the sun casts shadows.
    """

    sun_direction: tuple[float, float, float]
    sun_colour: tuple[float, float, float]
    ambient_colour: tuple[float, float, float]
    lamps: tuple[Lamp, ...] = ()
    shadows: bool = True


@dataclass(frozen=True)
class IdealStereoRig:
    """Two ideal cameras side by side; pixel centres have integer coordinates.

    Args:
        height: rows of both images.
        width: columns of both images.
        calibration: focal length in px, baseline in metres, principal point of both cameras.
    """

    height: int
    width: int
    calibration: StereoCalibration


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything that is rendered.

    Args:
        objects: all surfaces.
        lighting: its lights.
        rig: the cameras.
        up: unit vector towards the water surface or the sky.
        name: what kind of scene it is, for logs and contact sheets.
    """

    objects: tuple[SceneObject, ...]
    lighting: Lighting
    rig: IdealStereoRig
    up: tuple[float, float, float] = (0.0, -1.0, 0.0)
    name: str = field(default="scene")
