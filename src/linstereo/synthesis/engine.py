"""An endless supply of stereo pairs with exact ground truth.

Pair `index` of `seed` depends on the settings, the seed and the index alone, so pairs can be made in any order and by
any number of processes.
"""

import contextlib
import math
from collections.abc import Generator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.files import MAX_SIDE
from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.ground_truth import disparity_of, occlusion
from linstereo.synthesis.mesh_files import MeshFolder
from linstereo.synthesis.photos import PhotoFolder
from linstereo.synthesis.raycast import RayCaster
from linstereo.synthesis.render import View, render_view, textures_of
from linstereo.synthesis.scene import Scene
from linstereo.synthesis.scenes import PLAIN, check_kind, random_scene
from linstereo.synthesis.sensor import (
    CameraKinds,
    PairFaults,
    expose_pair,
    margin_mask,
    random_faults,
    rectification_error,
)
from linstereo.synthesis.water import Water, random_water, through_water

MAX_SEED = 2**63 - 1
_SMALLEST_DISPARITY = 0.001  # as a share of the width
_FARTHEST = 0.01  # px of disparity that a point keeps if a rectification error puts it beyond infinity
_KEPT_PHOTOS = 200  # decoded ones in memory, at most 2 MB each


@dataclass(frozen=True)
class EngineSettings:
    """What kind of pairs the engine makes.

    Args:
        height: of the images, px.
        width: of the images, px.
        underwater: share of the pairs that are taken under water, 0 to 1.
        photos: a folder of photographs that serve as textures besides procedural ones.
        meshes: a folder of meshes that stand in the scenes besides procedural ones.
        max_disparity: the largest disparity, as a share of the width.
        plain: share of plain rooms among the pairs in air, 0 to 1.
        grey: share of the pairs taken by cameras without colour.
        noisy: share of the pairs taken by small cameras with much noise.
        margins: share of the pairs with the margins, black or smeared, of rectified wide-angle lenses.
        kind: the kind of all scenes, one of `linstereo.synthesis.scenes.FILLERS`; None for a mixture.
    """

    height: int = 320
    width: int = 640
    underwater: float = 0.4
    photos: str | None = None
    meshes: str | None = None
    max_disparity: float = 1 / 3
    plain: float = PLAIN
    grey: float = CameraKinds.grey
    noisy: float = CameraKinds.noisy
    margins: float = CameraKinds.margins
    kind: str | None = None

    def __post_init__(self) -> None:
        if not (min(self.height, self.width) >= 16 and max(self.height, self.width) <= MAX_SIDE):
            raise InputError(
                f"pairs of {self.height} x {self.width} px cannot be rendered; use 16 to {MAX_SIDE} px a side"
            )
        for name in ("underwater", "plain", "grey", "noisy", "margins"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name):g}; it is a share of the pairs, between 0 and 1")
        if not _SMALLEST_DISPARITY <= self.max_disparity <= 1:
            raise InputError(
                f"max_disparity is {self.max_disparity:g}; it is a share of the width, from {_SMALLEST_DISPARITY} to 1"
            )
        if self.kind is not None:
            check_kind(self.kind)


@dataclass(frozen=True, eq=False)
class RenderedPair:
    """A stereo pair with everything that is known about it; H x W px."""

    name: str
    left: NDArray[np.uint8]
    """[H, W, 3] RGB."""
    right: NDArray[np.uint8]
    """[H, W, 3] RGB."""
    disparity: NDArray[np.float32]
    """[H, W] px, positive, of the left image's pixels: between the images as they are, rectification error included."""
    right_disparity: NDArray[np.float32]
    """[H, W] px, positive, of the right image's pixels: the same point is at column + disparity of the left image."""
    depth: NDArray[np.float32]
    """[H, W] metres, of the left image's pixels; the scene's own, without any rectification error."""
    occluded: NDArray[np.bool_]
    """[H, W] True where the right camera does not see the point that the left one sees."""
    right_occluded: NDArray[np.bool_]
    """[H, W] the same the other way round."""
    calibration: StereoCalibration
    water: str | None
    """Jerlov type of the water; None in air."""

    def sample(self) -> StereoSample:
        """The pair as a sample of a dataset."""
        return _sample(self.name, self.left, self.right, self.disparity, self.occluded, self.depth, self.calibration)


def _sample(
    name: str,
    left: NDArray[np.uint8],
    right: NDArray[np.uint8],
    disparity: NDArray[np.float32],
    occluded: NDArray[np.bool_],
    depth: NDArray[np.float32],
    calibration: StereoCalibration,
) -> StereoSample:
    valid = np.ones(disparity.shape, np.bool_)
    return StereoSample(name, left, right, disparity, valid, occluded, depth, calibration)


class StereoEngine:
    """Makes pairs.

    Args:
        settings: what kind of pairs.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._photos = None if settings.photos is None else PhotoFolder(settings.photos, keep=_KEPT_PHOTOS)
        self._meshes = None if settings.meshes is None else MeshFolder(settings.meshes)

    def render(self, seed: int, index: int) -> RenderedPair:
        """Pair `index`, at least 0, of the endless series `seed`, at least 0."""
        with _one_thread():
            return self._shot(seed, index).pair(pair_name(seed, index))

    def sample(self, seed: int, index: int) -> StereoSample:
        """The same pair as a sample of a dataset, without the ground truth of the right view: a little faster."""
        with _one_thread():
            return self._shot(seed, index).sample(pair_name(seed, index))

    def _shot(self, seed: int, index: int) -> "_Shot":
        for_scene, for_water, for_camera = _generators(seed, index)
        underwater = bool(for_water.random() < self.settings.underwater)
        scene = random_scene(
            for_scene,
            height=self.settings.height,
            width=self.settings.width,
            max_disparity=self.settings.max_disparity,
            photos=self._photos,
            meshes=self._meshes,
            underwater=underwater,
            plain=self.settings.plain,
            kind=self.settings.kind,
        )
        kinds = CameraKinds(grey=self.settings.grey, noisy=self.settings.noisy, margins=self.settings.margins)
        faults = random_faults(for_camera, underwater=underwater, kinds=kinds)
        return _Shot(scene, water_rng=for_water if underwater else None, camera_rng=for_camera, faults=faults)


def take_sample(name: str, scene: Scene, *, faults: PairFaults, camera_rng: np.random.Generator) -> StereoSample:
    """A pair of a scene in air, taken by cameras with these faults, whose noise `camera_rng` makes."""
    with _one_thread():
        return _Shot(scene, water_rng=None, camera_rng=camera_rng, faults=faults).sample(name)


class _Shot:
    """Both views of a scene and the images that the cameras make of them."""

    def __init__(
        self,
        scene: Scene,
        *,
        water_rng: np.random.Generator | None,
        camera_rng: np.random.Generator,
        faults: PairFaults,
    ) -> None:
        self.rig = scene.rig
        self.caster = RayCaster(scene.objects)
        # What is seen through glass would need the water on both parts of the way; under water there is no glass.
        palette, atlas = textures_of(scene, opaque=water_rng is not None)
        self.left = render_view(scene, self.caster, palette, atlas, "left")
        self.right = render_view(scene, self.caster, palette, atlas, "right")
        shape = self.rig.height, self.rig.width
        ideal = [disparity_of(view.depth, self.rig.calibration) for view in (self.left, self.right)]
        if min(disparity.min() for disparity in ideal) <= 0:
            raise InputError(
                f"the scene {scene.name} has points without a positive disparity; move its backdrop nearer"
            )
        sideways, _ = rectification_error(*shape, faults.right)
        self.disparity, self.right_disparity = (np.maximum(map_ - sideways, _FARTHEST) for map_ in ideal)
        views = (self.left, self.right)
        self.water: Water | None = None
        if water_rng is None:
            radiances = [view.sun + view.lamp if scene.lighting.lamps else view.sun for view in views]
        else:
            self.water, depth = random_water(water_rng, scene_distance=float(np.median(self.left.distance)))
            radiances = [_under_water(scene, view, self.water, depth) for view in views]
        self.left_image, self.right_image = expose_pair(radiances[0], radiances[1], faults, camera_rng)
        self.left_margin, self.right_margin = (
            margin_mask(*shape, camera.margins) for camera in (faults.left, faults.right)
        )

    def occluded(self) -> NDArray[np.bool_]:
        """[H, W] True where the right image does not show what the left pixel sees, or the left pixel sees nothing."""
        hidden = occlusion(self.left, self.right, "left", self.rig, self.caster)
        return hidden | _in_margins(self.left_margin, self.right_margin, -self.disparity)

    def right_occluded(self) -> NDArray[np.bool_]:
        """The same for the pixels of the right image."""
        hidden = occlusion(self.right, self.left, "right", self.rig, self.caster)
        return hidden | _in_margins(self.right_margin, self.left_margin, self.right_disparity)

    def pair(self, name: str) -> RenderedPair:
        """The pair with all ground truth."""
        return RenderedPair(
            name=name,
            left=self.left_image,
            right=self.right_image,
            disparity=self.disparity.astype(np.float32),
            right_disparity=self.right_disparity.astype(np.float32),
            depth=self.left.depth.astype(np.float32),
            occluded=self.occluded(),
            right_occluded=self.right_occluded(),
            calibration=self.rig.calibration,
            water=None if self.water is None else self.water.name,
        )

    def sample(self, name: str) -> StereoSample:
        """The pair with the ground truth of the left view."""
        return _sample(
            name,
            self.left_image,
            self.right_image,
            self.disparity.astype(np.float32),
            self.occluded(),
            self.left.depth.astype(np.float32),
            self.rig.calibration,
        )


def _in_margins(own: NDArray[np.bool_], other: NDArray[np.bool_], shift: NDArray[np.floating]) -> NDArray[np.bool_]:
    """[H, W] True in the own margins, and where the match, `shift` px to the right, lies in the other's."""
    if not (own.any() or other.any()):
        return own
    height, width = own.shape
    columns = np.clip(np.rint(np.arange(width) + shift), 0, width - 1).astype(np.intp)
    return own | other[np.arange(height)[:, None], columns]


@contextlib.contextmanager
def _one_thread() -> Generator[None]:
    """OpenCV on one thread: the pictures are too small for more, and pairs are made by several processes at once."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(threads)


def _under_water(scene: Scene, view: View, water: Water, camera_depth: float) -> NDArray[np.float32]:
    lighting = scene.lighting
    up = np.array(scene.up, np.float32)
    height_of_sun = max(float(np.dot(lighting.sun_direction, scene.up)), 0.0)
    daylight = height_of_sun * np.array(lighting.sun_colour) + np.array(lighting.ambient_colour)
    lamps = lighting.lamps
    lamp_colour = np.sum([lamp.colour for lamp in lamps], axis=0) if lamps else np.zeros(3)
    offset = float(np.mean([math.hypot(*lamp.position) for lamp in lamps])) if lamps else 0.5
    return np.asarray(
        through_water(
            view.sun,
            view.lamp,
            view.distance,
            view.lamp_distance,
            np.float32(camera_depth) - view.point @ up,
            water,
            camera_depth=camera_depth,
            focal_px=scene.rig.calibration.focal,
            sun_colour=_triple(daylight),
            lamp_colour=_triple(lamp_colour),
            lamp_offset=offset,
        ),
        np.float32,
    )


def _triple(values: NDArray[np.float64]) -> tuple[float, float, float]:
    return float(values[0]), float(values[1]), float(values[2])


def _generators(seed: int, index: int) -> tuple[np.random.Generator, np.random.Generator, np.random.Generator]:
    """Independent sources of chance for the scene, the water and the cameras of a pair."""
    if min(seed, index) < 0:
        raise InputError(f"seed {seed} and index {index} must not be negative")
    one, two, three = np.random.SeedSequence((seed, index)).spawn(3)
    return np.random.default_rng(one), np.random.default_rng(two), np.random.default_rng(three)


def pair_name(seed: int, index: int) -> str:
    """Name of a pair, usable as a relative file name."""
    return f"synth-{seed}/{index:06d}"


class SyntheticPairs:
    """The first `count` pairs of a seed as a `StereoDataset`; they are rendered when asked for."""

    def __init__(self, settings: EngineSettings, *, seed: int, count: int) -> None:
        if count < 1:
            raise InputError(f"count is {count}; a dataset needs at least one pair")
        self.name = "synth"
        self.engine = StereoEngine(settings)
        self.seed = seed
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int, /) -> StereoSample:
        if not 0 <= index < self.count:
            raise IndexError(f"pair {index} of {self.count}")
        return self.engine.sample(self.seed, index)

    def sample_name(self, index: int) -> str:
        """Name of pair `index`, without rendering it."""
        return pair_name(self.seed, index)
