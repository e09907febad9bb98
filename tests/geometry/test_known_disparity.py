"""A known disparity at another size: in the pixels of that size, with places that mean the same points."""

import numpy as np

from linstereo.geometry.known_disparity import KnownDisparity


def test_places_and_disparities_are_in_pixels_of_the_new_size():
    rows, columns = np.mgrid[:20, :40].astype(np.float32)
    places = np.stack([columns - 3, rows + 1], axis=-1)
    half = KnownDisparity(np.full((20, 40), 6.0, np.float32), np.ones((20, 40), bool), places).resized(10, 20)
    np.testing.assert_array_equal(half.disparity, np.full((10, 20), 3.0))
    assert half.known.all()
    rows, columns = np.mgrid[:10, :20].astype(np.float32)
    np.testing.assert_allclose(half.places, np.stack([columns - 1.5, rows + 0.5], axis=-1), atol=1e-5)
    assert KnownDisparity(half.disparity, half.known).resized(20, 40).places is None
