"""What surfaces are made of: a scene's stock of textures, and materials drawn from it."""

import numpy as np
from numpy.typing import NDArray

from linstereo.synthesis.photos import PhotoFolder
from linstereo.synthesis.scene import Material
from linstereo.synthesis.textures import KINDS, library_texture

USES: dict[str, tuple[tuple[str, ...], int, float]] = {
    # use: (procedural kinds, how many different textures a scene has at most, share of photographs)
    "any": (KINDS, 7, 0.6),
    "plain": (("plain", "plain", "plaster"), 3, 0.0),
    "wall": (("plain", "plaster", "plaster", "bricks", "wood", "stripes", "checks", "clouds", "dots"), 2, 0.3),
    "floor": (("wood", "wood", "checks", "plaster", "gravel", "weave", "speckle", "bricks", "plain", "marble"), 2, 0.3),
    "pattern": (("stripes", "checks", "dots", "weave", "bricks"), 3, 0.0),
    "print": (("writing", "collage", "barcode", "writing"), 4, 0.55),
    "wood": (("wood", "wood", "plain"), 2, 0.1),
    "metal": (("plain", "plaster", "speckle"), 2, 0.05),
    "cloth": (("weave", "checks", "stripes", "clouds", "plain"), 3, 0.3),
    "rock": (("coral", "gravel", "clouds", "speckle", "plaster", "marble"), 3, 0.4),
    "leaf": (("foliage", "clouds", "foliage", "plain"), 3, 0.2),
    "road": (("asphalt", "asphalt", "asphalt", "speckle", "bricks", "gravel"), 1, 0.05),
    "facade": (("facade", "facade", "bricks", "plaster"), 4, 0.3),
    "sand": (("speckle", "coral", "clouds", "plaster", "gravel"), 2, 0.35),
    "dark": (("plain", "plaster"), 2, 0.0),
    "whitewash": (("shaded", "shaded", "shaded", "plain", "plaster"), 4, 0.0),
    "paint": (("plain",), 3, 0.0),
    "coral": (("coral", "coral", "clouds", "gravel", "foliage", "dots", "speckle"), 5, 0.3),
}
"""What surfaces can be asked for."""

VARIANTS = 40
"""Different procedural textures of each kind; tint, scale and turn vary them further."""


class MaterialStock:
    """Materials for one scene. Textures are made when first drawn and used again, as things in one place look alike.

    Args:
        photos: photographs to take textures from; None for procedural textures only.
        size: side of the procedural textures, a power of two; photographs get twice that.
        photo_factor: multiplies the share of photographs.
        plainness: chance, 0 to 1, that a surface is nearly textureless whatever was asked for.
        painted: chance, 0 to 1, that it is painted: often white, as bright and plain as the sky, but not far.
        mirrors: where the randomness of what shiny surfaces mirror comes from; None if they mirror nothing.
    """

    def __init__(
        self,
        photos: PhotoFolder | None,
        *,
        size: int = 256,
        photo_factor: float = 1.0,
        plainness: float = 0.1,
        painted: float = 0.0,
        mirrors: np.random.Generator | None = None,
    ) -> None:
        self._photos = photos
        self._size = size
        self._photo_factor = photo_factor
        self._plainness = plainness
        self._painted = painted
        self._mirrors = mirrors
        self._textures: dict[str, list[NDArray[np.uint8]]] = {}

    def texture(self, rng: np.random.Generator, use: str, *, whole: bool = False) -> NDArray[np.uint8]:
        """A texture uint8 [S, S, 3] for one of `USES`; `whole` asks for whole photographs, upright."""
        kinds, most, share = USES[use]
        shelf = self._textures.setdefault(use, [])
        if len(shelf) >= most or (shelf and rng.random() < 0.3):
            return shelf[rng.integers(len(shelf))]
        if self._photos is not None and rng.random() < share * self._photo_factor:
            texture = self._photos.texture(rng, size=2 * self._size, whole=whole)
        else:
            texture = library_texture(kinds[rng.integers(len(kinds))], int(rng.integers(VARIANTS)), self._size)
        shelf.append(texture)
        return texture

    def material(self, rng: np.random.Generator, use: str, *, strong: bool = False) -> Material:
        """A material for one of `USES` or `glass`; with `strong` it is textured for certain and keeps its colour."""
        if use == "glass":
            return self.glass(rng)
        if not strong and use != "dark":
            use = "paint" if rng.random() < self._painted else "plain" if rng.random() < self._plainness else use
        texture = self.texture(rng, use)
        tint = rng.uniform(0.85, 1.15) * rng.uniform(0.85, 1.15, 3)
        if use == "dark":
            tint = rng.uniform(0.02, 0.12) * rng.uniform(0.9, 1.1, 3)
        elif (use == "paint" and rng.random() < 0.6) or (use == "whitewash" and rng.random() < 0.75):
            white = (255 / max(float(texture.mean()), 60.0)) ** 2.2  # textures are not linear
            tint = rng.uniform(0.6, 1.0) * rng.uniform(0.95, 1.05, 3) * white
        elif not strong and rng.random() < 0.4:
            tint = rng.uniform(0.5, 1.3) * rng.uniform(0.5, 1.15, 3)
        shiny = rng.random() < (0.8 if use in ("metal", "dark", "paint") else 0.35 if use == "whitewash" else 0.2)
        return Material(
            texture=texture,
            tint=(float(tint[0]), float(tint[1]), float(tint[2])),
            specular=float(rng.uniform(0.05, 0.6)) if shiny else 0.0,
            shininess=float(np.exp(rng.uniform(np.log(8), np.log(150)))) if shiny else 20.0,
            mirror=self._mirror(use) if shiny else 0.0,
        )

    def glass(self, rng: np.random.Generator) -> Material:
        """A transparent pane, faintly coloured."""
        return Material(
            texture=self.texture(rng, "plain"),
            tint=(0.5, 0.55, 0.55),
            specular=float(rng.uniform(0.2, 0.9)),
            shininess=float(rng.uniform(40, 200)),
            transparency=float(rng.uniform(0.4, 0.8)),
            mirror=self._mirror("glass"),
        )

    def _mirror(self, use: str) -> float:
        """Part of the light that something shiny mirrors at a right angle."""
        if self._mirrors is None or self._mirrors.random() < 0.25:
            return 0.0
        if use == "metal" and self._mirrors.random() < 0.4:
            return float(self._mirrors.uniform(0.3, 0.7))
        low, high = (0.04, 0.4) if use in ("glass", "dark", "metal") else (0.01, 0.15)
        return float(np.exp(self._mirrors.uniform(np.log(low), np.log(high))))
