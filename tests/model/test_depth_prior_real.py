"""Depth prior initialisation on real pairs, end to end."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from linstereo.data.formats.disparity import read_disparity
from linstereo.data.formats.images import read_image
from linstereo.geometry.sparse_matches import match_sparse
from linstereo.model.depth_prior import initial_disparity

# folder, left image, right image, disparity of the left image, of the right image, stored units per px
REAL_PAIRS = {
    "Motorcycle": ("middlebury_v3/trainingQ/Motorcycle", "im0.png", "im1.png", "disp0GT.pfm", None, 1),
    "Recycle": ("middlebury_v3/trainingQ/Recycle", "im0.png", "im1.png", "disp0GT.pfm", None, 1),
    **{
        name: (f"middlebury_2005_2006_third/{name}", "view1.png", "view5.png", "disp1.png", "disp5.png", 3)
        for name in ("Aloe", "Baby1", "Cloth1", "Reindeer")
    },
    "cones": ("middlebury_2001_2003/cones", "im2.png", "im6.png", "disp2.png", "disp6.png", 4),
    "venus": ("middlebury_2001_2003/venus", "im2.png", "im6.png", "disp2.png", "disp6.png", 8),
    "tsukuba": ("middlebury_2001_2003/tsukuba", "im2.png", "im6.png", "disp2.png", None, 16),
}


def real_images(root: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    folder, left, right, *_ = REAL_PAIRS[name]
    return read_image(root / folder / left), read_image(root / folder / right)


def real_disparity(root: Path, name: str, *, of_right: bool = False) -> np.ndarray:
    """Ground truth [H, W] in px, 0 where unknown; of the left image where there is none of the right."""
    folder, _, _, of_left_file, of_right_file, units = REAL_PAIRS[name]
    path = root / folder / ((of_right_file if of_right else None) or of_left_file)
    return read_disparity(path) if path.suffix == ".pfm" else read_image(path)[..., 0] / np.float32(units)


def fill_holes(disparity: np.ndarray) -> np.ndarray:
    """Give unknown pixels the value of the nearest known one in their row."""
    filled = disparity.copy()
    for row in filled:
        known = np.flatnonzero(row > 0)
        if len(known):
            row[:] = row[known[np.abs(np.arange(len(row))[:, None] - known).argmin(axis=1)]]
    return np.where(filled > 0, filled, np.median(disparity[disparity > 0]))


def backbone_depth(disparity: np.ndarray, alpha: float, beta: float) -> tuple[torch.Tensor, tuple[int, int]]:
    """Depth [1, 1, h, w] with d = alpha / D + beta at 14/16 of the size padded to 32, and the padded size."""
    height, width = disparity.shape
    padded = np.pad(disparity, ((0, -height % 32), (0, -width % 32)), mode="edge").astype(np.float64)
    depth = torch.from_numpy(alpha / (padded - beta))[None, None]
    size = (padded.shape[0] * 14 // 16, padded.shape[1] * 14 // 16)
    return F.interpolate(depth, size=size, mode="bilinear", align_corners=False).float(), padded.shape


class TestRealPairs:
    @pytest.mark.parametrize("name", REAL_PAIRS)
    def test_start_is_within_a_pixel_of_the_truth(self, name: str, stereo_data: Path) -> None:
        matches = match_sparse(*real_images(stereo_data, name))
        truth = real_disparity(stereo_data, name)
        filled = fill_holes(truth)
        for seed in range(3):
            rng = np.random.default_rng(seed)
            alpha, beta = math.exp(rng.uniform(-3, 6)), rng.uniform(-15, 0.8 * filled.min())
            depth, full_size = backbone_depth(filled, alpha, beta)
            out_size = (full_size[0] // 4, full_size[1] // 4)
            start, (report,) = initial_disparity(depth, [matches], full_size=full_size, out_size=out_size)
            assert not report.fell_back
            assert report.inliers > 0.8 * report.matches > 100
            assert report.alpha == pytest.approx(alpha, rel=0.05)
            full = F.interpolate(start, size=full_size, mode="bilinear", align_corners=False)[0, 0].numpy()
            error = np.abs(full[: truth.shape[0], : truth.shape[1]] - truth)[truth > 0]
            assert np.median(error) < 0.5  # the requirement is 1 px

    @pytest.mark.parametrize("name", REAL_PAIRS)
    def test_swapped_pair_falls_back_and_says_so(self, name: str, stereo_data: Path) -> None:
        left, right = real_images(stereo_data, name)
        swapped = match_sparse(right, left)
        assert swapped.negative > 10 * len(swapped.disparity)
        depth, full_size = backbone_depth(fill_holes(real_disparity(stereo_data, name, of_right=True)), 40, -1)
        # the second does not know of the negative matches, and still must not find a fit among the others
        for matches, says in ((swapped, "swapped"), (replace(swapped, negative=0), "needed")):
            start, (report,) = initial_disparity(depth, [matches], full_size=full_size, out_size=(64, 96))
            assert report.fell_back
            assert says in report.reason
            assert torch.all(start == 0)

    def test_two_pictures_of_different_scenes_fall_back(self, stereo_data: Path) -> None:
        depth, full_size = backbone_depth(fill_holes(real_disparity(stereo_data, "Aloe")), 40, -1)
        left, _ = real_images(stereo_data, "Aloe")
        for name in ("Baby1", "Cloth1", "Reindeer", "cones", "Motorcycle"):
            _, right = real_images(stereo_data, name)
            height, width = min(left.shape[0], right.shape[0]), min(left.shape[1], right.shape[1])
            matches = match_sparse(left[:height, :width], right[:height, :width])
            _, (report,) = initial_disparity(depth, [matches], full_size=full_size, out_size=(64, 96))
            assert report.fell_back
