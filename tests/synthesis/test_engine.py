"""Pairs: the same bytes anywhere, exact ground truth whatever the cameras do, clear errors."""

import dataclasses
import hashlib
import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from tests.synthesis.small_scenes import WHITE, cluttered, scene, wall, warped

from linstereo.data.sample import StereoDataset
from linstereo.errors import InputError
from linstereo.synthesis import engine as engine_module
from linstereo.synthesis.engine import EngineSettings, RenderedPair, StereoEngine, SyntheticPairs
from linstereo.synthesis.scene import Material, SceneObject
from linstereo.synthesis.sensor import MAX_HORIZONTAL_ERROR, CameraFaults, PairFaults, rectification_error
from linstereo.synthesis.water import WATER_TYPES

SMALL = EngineSettings(height=64, width=96)


def digest(pair: RenderedPair) -> str:
    total = hashlib.sha256(f"{pair.name} {pair.water} {pair.calibration}".encode())
    for name in ("left", "right", "disparity", "right_disparity", "depth", "occluded", "right_occluded"):
        total.update(getattr(pair, name).tobytes())
    return total.hexdigest()


def test_another_process_makes_the_same_bytes_in_another_order():
    engine = StereoEngine(SMALL)
    indices = [0, 1, 2, 3, 4, 5]
    here = [digest(engine.render(7, i)) for i in indices]
    assert len(set(here)) == len(here)
    program = (
        "from linstereo.synthesis.engine import *\n"
        "from tests.synthesis.test_engine import SMALL, digest\n"
        "engine = StereoEngine(SMALL)\n"
        f"print(*[digest(engine.render(7, i)) for i in {indices[::-1]}])"
    )
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert there[::-1] == here


def test_photographs_too_are_the_same_whatever_was_rendered_before(tmp_path):
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(0)
    for i in range(4):
        cv2.imwrite(str(tmp_path / f"{i}.png"), rng.integers(0, 256, (80, 120, 3), dtype=np.uint8))
    settings = EngineSettings(height=64, width=96, photos=str(tmp_path), underwater=0.0)
    fresh = [digest(StereoEngine(settings).render(1, i)) for i in range(3)]
    used = StereoEngine(settings)
    assert [digest(used.render(1, i)) for i in (2, 1, 0)] == fresh[::-1]
    bare = StereoEngine(EngineSettings(height=64, width=96, underwater=0.0))
    assert [digest(bare.render(1, i)) for i in range(3)] != fresh


@pytest.mark.parametrize("index", range(8))
def test_ground_truth_of_a_random_pair(index):
    settings = EngineSettings(height=80, width=128, underwater=0.5, margins=0.0)
    pair = StereoEngine(settings).render(5, index)
    assert pair.left.shape == pair.right.shape == (80, 128, 3)
    assert pair.left.dtype == pair.right.dtype == np.uint8
    for disparity in (pair.disparity, pair.right_disparity):
        assert disparity.dtype == np.float32
        assert disparity.shape == (80, 128)
        assert (disparity > 0).all()
        assert disparity.max() <= 128 / 3 * 1.05
    calibration = pair.calibration
    sideways = calibration.focal * calibration.baseline / pair.depth - pair.disparity  # by the rectification error
    assert np.abs(sideways).max() <= MAX_HORIZONTAL_ERROR + 1e-4
    np.testing.assert_allclose(sideways, np.broadcast_to(sideways[:, :1], sideways.shape), rtol=0, atol=1e-4)
    # a pixel that both see has the same disparity from both sides, up to the slope within a pixel
    rows, columns = np.nonzero(~pair.occluded)
    back = np.clip(np.round(columns - pair.disparity[rows, columns]).astype(int), 0, 127)
    difference = np.abs(pair.right_disparity[rows, back] - pair.disparity[rows, columns])
    assert np.median(difference) < 0.3
    # and what the left camera does not see from a hidden pixel is something nearer, or nothing
    rows, columns = np.nonzero(pair.occluded)
    back = np.round(columns - pair.disparity[rows, columns]).astype(int)
    within = (back > 0) & (back < 127)
    nearer = pair.right_disparity[rows[within], back[within]] >= pair.disparity[rows[within], columns[within]]
    assert within.sum() == 0 or nearer.mean() > 0.7


@pytest.mark.parametrize(("index", "smeared"), [(1, False), (5, True)])
def test_what_margins_hide_counts_as_occluded(index, smeared):
    settings = EngineSettings(height=80, width=128, underwater=0.0, noisy=0.0)
    clean, framed = (
        StereoEngine(dataclasses.replace(settings, margins=share)).render(5, index) for share in (0.0, 1.0)
    )
    np.testing.assert_array_equal(framed.depth, clean.depth)
    found = 0
    for image, whole, hidden, before in (
        (framed.left, clean.left, framed.occluded, clean.occluded),
        (framed.right, clean.right, framed.right_occluded, clean.right_occluded),
    ):
        if smeared:  # the same from the border on
            same = (np.diff(image.astype(int), axis=1) == 0).all(axis=2)
            left, right = np.cumprod(same, axis=1), np.cumprod(same[:, ::-1], axis=1)[:, ::-1]
            margin = np.pad(left, ((0, 0), (0, 1))) | np.pad(right, ((0, 0), (1, 0))) == 1
            margin &= (left.sum(axis=1) + right.sum(axis=1) >= 3)[:, None]
        else:
            margin = (image == 0).all(axis=2) & (whole > 60).any(axis=2)
        found += margin[:, [0, -1]].any() or margin[[0, -1]].any()
        assert hidden[margin].all()
        assert (hidden & ~before).any()
    assert found == 2


@pytest.mark.parametrize("grey", [0.0, 1.0])
def test_grey_cameras_have_one_channel(grey):
    engine = StereoEngine(EngineSettings(height=48, width=64, grey=grey, underwater=0.3, noisy=1.0))
    pairs = [engine.render(4, i) for i in range(6)]
    same = [bool((image == image[..., :1]).all()) for pair in pairs for image in (pair.left, pair.right)]
    assert all(same) if grey else not any(same)


def test_share_of_pairs_under_water():
    def waters(share):
        engine = StereoEngine(EngineSettings(height=32, width=48, underwater=share))
        return [engine.render(3, i).water for i in range(12)]

    assert waters(0.0) == [None] * 12
    assert all(water in WATER_TYPES for water in waters(1.0))
    mixed = waters(0.5)
    assert 2 <= mixed.count(None) <= 10


def no_faults(**right):
    return PairFaults(left=CameraFaults(), right=CameraFaults(**right))


def photograph(item, *, seed, faults):
    rng = np.random.default_rng(seed)
    return engine_module._Shot(item, water_rng=None, camera_rng=rng, faults=faults).pair("pair")


def photographed(faults):
    return photograph(cluttered(height=120, width=200, focal=180.0), seed=2, faults=faults)


@pytest.mark.parametrize(
    "fault",
    [
        {"vertical_error": (0.4, 0.2, -0.3)},
        {"vertical_error": (0.2, 0.1, 0.1), "horizontal_error": (0.12, -0.08)},
        {"horizontal_error": (-0.6, 0.0)},
        {"full_well": 2000.0, "read_noise": 6.0, "blur": 0.8, "exposure": 1.05},
    ],
)
def test_faults_of_the_right_camera_leave_the_left_frame_and_move_only_the_disparity(fault):
    clean = photographed(no_faults())
    faulty = photographed(no_faults(**fault))
    for name in ("left", "depth", "occluded", "right_occluded"):
        np.testing.assert_array_equal(getattr(faulty, name), getattr(clean, name))
    assert (faulty.right != clean.right).mean() > 0.3
    sideways, _ = rectification_error(*clean.disparity.shape, CameraFaults(**fault))
    for name in ("disparity", "right_disparity"):
        np.testing.assert_allclose(getattr(faulty, name), getattr(clean, name) - sideways, rtol=0, atol=1e-5)
    shifts = np.arange(-1, 1.01, 0.05)
    seen = ~faulty.occluded
    seen[:, :60] = False  # the warp needs columns inside of the right image
    left = faulty.left.astype(np.float32)
    right = faulty.right.astype(np.float32)
    errors = [np.abs(warped(right, faulty.disparity + shift) - left)[seen].mean() for shift in shifts]
    assert abs(shifts[int(np.argmin(errors))]) <= 0.2


def test_no_disparity_falls_below_that_of_infinity():
    """As it would in the image of a camera that is turned outwards by more than the disparity of what it sees."""
    wall_alone = scene(SceneObject(wall(9), Material(WHITE)))
    clean, turned = (
        photograph(wall_alone, seed=0, faults=no_faults(horizontal_error=(error, 0.0))) for error in (0.0, 99.0)
    )
    assert clean.disparity.max() < 99
    assert np.unique(turned.disparity) == np.unique(turned.right_disparity) == np.float32(0.01)
    np.testing.assert_array_equal(turned.depth, clean.depth)


def test_clean_cameras_show_the_same_colours_on_both_sides():
    pair = photographed(no_faults())
    image = warped(pair.right.astype(np.float32), pair.disparity)
    seen = ~pair.occluded
    seen[:, :60] = False
    assert np.median(np.abs(image - pair.left)[seen]) <= 1.0


def test_exposure_suits_bright_and_dark_scenes():
    levels = []
    for value in (0.02, 50.0):
        bright = SceneObject(wall(4), Material(WHITE, tint=(value, value, value), shaded=False))
        pair = photograph(scene(bright), seed=0, faults=no_faults())
        levels.append(pair.left.mean())
    assert levels[0] == pytest.approx(levels[1], abs=1)
    assert 60 < levels[0] < 200


def test_a_scene_without_positive_disparity_is_refused():
    far = scene(SceneObject(wall(9), Material(WHITE)), doffs=5.0)
    with pytest.raises(InputError, match="positive disparity"):
        photograph(far, seed=0, faults=no_faults())


def test_pairs_as_a_data_set():
    pairs: StereoDataset = SyntheticPairs(SMALL, seed=2, count=3)
    assert len(pairs) == 3
    samples = [pairs[i] for i in range(3)]
    assert [s.name for s in samples] == [pairs.sample_name(i) for i in range(3)]
    assert len({s.name for s in samples}) == 3
    expected = StereoEngine(SMALL).render(2, 1)
    np.testing.assert_array_equal(samples[1].left, expected.left)
    np.testing.assert_array_equal(samples[1].disparity, expected.disparity)
    np.testing.assert_array_equal(samples[1].occluded, expected.occluded)
    np.testing.assert_array_equal(samples[1].right, expected.right)
    np.testing.assert_array_equal(samples[1].depth, expected.sample().depth)
    assert samples[1].valid.all()
    assert samples[1].calibration == expected.calibration
    for index in (-1, 3):
        with pytest.raises(IndexError):
            pairs[index]
    assert sum(1 for _ in pairs) == 3


@pytest.mark.parametrize("kind", ["road", "plain_room"])
def test_a_kind_is_that_of_all_scenes(kind, monkeypatch):
    seen = []
    monkeypatch.setattr("linstereo.synthesis.engine._Shot", lambda scene, **_: seen.append(scene.name))
    engine = StereoEngine(dataclasses.replace(SMALL, kind=kind, underwater=0.5))
    for index in range(6):
        engine._shot(3, index)
    assert seen == [kind] * 6


def test_a_data_set_can_be_sent_to_a_worker():
    pairs = SyntheticPairs(SMALL, seed=2, count=3)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        sample = pool.submit(pairs.__getitem__, 1).result()
    np.testing.assert_array_equal(sample.left, pairs[1].left)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"underwater": 1.5}, "underwater is 1.5"),
        ({"max_disparity": 0.0}, "max_disparity is 0"),
        ({"height": 8}, "use 16 to"),
        ({"width": 10**6}, "use 16 to"),
        ({"plain": -0.1}, "plain is -0.1"),
        ({"grey": 2.0}, "grey is 2"),
        ({"kind": "moon"}, "no scene kind 'moon'; choose one of flying, room"),
    ],
)
def test_bad_settings_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        EngineSettings(**wrong)


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(InputError, match="must not be negative"):
        StereoEngine(SMALL).render(0, -1)
    with pytest.raises(InputError, match="at least one pair"):
        SyntheticPairs(SMALL, seed=0, count=0)
    with pytest.raises(InputError, match="does not exist"):
        StereoEngine(EngineSettings(photos=str(tmp_path / "none")))
