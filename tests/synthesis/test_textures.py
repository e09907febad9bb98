"""Procedural textures: valid, reproducible, varied, and what their names say."""

import cv2
import numpy as np
import pytest

from linstereo.synthesis.materials import USES, MaterialStock
from linstereo.synthesis.noise import fractal_noise, value_noise
from linstereo.synthesis.textures import KINDS, TEXTURES, TILING, library_texture, random_colour, random_texture


@pytest.mark.parametrize("size", [32, 128, 512])
@pytest.mark.parametrize("kind", sorted(TEXTURES))
def test_textures_are_square_bytes(kind, size):
    texture = random_texture(np.random.default_rng(0), size=size, kind=kind)
    assert texture.dtype == np.uint8
    assert texture.shape == (size, size, 3)
    assert texture.flags.c_contiguous


@pytest.mark.parametrize("kind", sorted(TEXTURES))
def test_same_generator_same_texture_and_others_differ(kind):
    one, two, other = (random_texture(np.random.default_rng(seed), size=64, kind=kind) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


@pytest.mark.parametrize(
    "kind", [kind for kind in sorted(TEXTURES) if kind not in ("plain", "plaster", "sky", "deep_water")]
)
def test_textures_have_something_to_match(kind):
    contrast = [
        random_texture(np.random.default_rng(seed), size=128, kind=kind).astype(float).std(axis=(0, 1)).mean()
        for seed in range(12)
    ]
    assert np.median(contrast) > 7


def test_plain_is_nearly_textureless():
    for seed in range(20):
        texture = random_texture(np.random.default_rng(seed), size=128, kind="plain").astype(float)
        assert np.abs(np.diff(texture, axis=1)).mean() < 3


@pytest.mark.parametrize("kind", ["stripes", "checks", "dots"])
def test_repeated_patterns_repeat_exactly(kind):
    for seed in range(10):
        texture = random_texture(np.random.default_rng(seed), size=256, kind=kind)
        np.testing.assert_array_equal(texture[:128], texture[128:])
        np.testing.assert_array_equal(texture[:, :128], texture[:, 128:])


@pytest.mark.parametrize("kind", sorted(TILING))
def test_tiling_textures_have_no_seam(kind):
    """The step across the border is no larger than the largest step inside."""
    for seed in range(6):
        texture = random_texture(np.random.default_rng(seed), size=128, kind=kind).astype(float)
        for picture in (texture, texture.transpose(1, 0, 2)):
            inside = np.abs(np.diff(picture, axis=0)).mean(axis=(1, 2))
            seam = np.abs(picture[0] - picture[-1]).mean()
            assert seam <= 1.3 * inside.max() + 2


def test_none_chooses_among_the_kinds():
    rng = np.random.default_rng(0)
    pictures = {random_texture(rng, size=32).tobytes() for _ in range(30)}
    assert len(pictures) == 30
    assert "sky" not in KINDS


def test_library_textures_are_the_same_whether_kept_or_not():
    first = library_texture("bricks", 3, 64)
    assert library_texture("bricks", 3, 64) is first
    assert not first.flags.writeable
    kept = first.copy()
    library_texture.cache_clear()
    np.testing.assert_array_equal(library_texture("bricks", 3, 64), kept)
    assert (library_texture("bricks", 4, 64) != kept).any()
    assert (library_texture("gravel", 3, 64) != kept).any()


def test_colours_cover_hues_and_brightness():
    rng = np.random.default_rng(0)
    colours = np.stack([random_colour(rng, saturation=0.9) for _ in range(300)])
    assert colours.min() >= 0
    assert colours.max() <= 255
    assert set(colours.argmax(axis=1)) == {0, 1, 2}
    assert np.ptp(colours.mean(axis=1)) > 150


@pytest.mark.parametrize("cells", [1, 2, 8, 64])
def test_noise_tiles_and_stays_in_range(cells):
    noise = value_noise(np.random.default_rng(0), 64, cells)
    assert noise.shape == (64, 64)
    assert np.abs(noise).max() < 1.6  # cubic interpolation overshoots a little
    if cells < 64:
        steps = np.abs(np.diff(noise, axis=0)).max()
        assert np.abs(noise[0] - noise[-1]).max() <= 1.5 * steps + 1e-6
    fractal = fractal_noise(np.random.default_rng(0), 64, cells=cells, octaves=4)
    assert fractal.max() - fractal.min() == pytest.approx(1 if fractal.std() > 0 else 0, abs=1e-5)


def test_finer_noise_has_more_detail():
    def detail(cells: int) -> float:
        return float(np.abs(cv2.Laplacian(value_noise(np.random.default_rng(0), 128, cells), cv2.CV_32F)).mean())

    assert detail(4) < detail(16) < detail(64)


@pytest.mark.parametrize("use", sorted(USES))
def test_materials_for_every_use(use):
    stock, rng = MaterialStock(None, plainness=0.0), np.random.default_rng(0)
    materials = [stock.material(rng, use) for _ in range(40)]
    different = {id(material.texture) for material in materials}
    assert 1 <= len(different) <= USES[use][1]
    assert all(0 <= material.specular <= 1 and min(material.tint) > 0 for material in materials)


def test_plainness_makes_surfaces_textureless():
    def contrast(plainness: float) -> float:
        stock, rng = MaterialStock(None, plainness=plainness), np.random.default_rng(0)
        return float(np.mean([stock.material(rng, "any").texture.astype(float).std() for _ in range(60)]))

    assert contrast(0.9) < 0.6 * contrast(0.0)


def test_glass_is_transparent():
    material = MaterialStock(None, plainness=1.0).material(np.random.default_rng(0), "glass")
    assert 0.3 < material.transparency < 1
