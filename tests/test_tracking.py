"""Frames that start from the one before: what is carried along, when it is not, and what steadying does."""

import numpy as np
import pytest

import linstereo
from linstereo.data.sequences.frames import StereoFrame
from linstereo.errors import InputError
from linstereo.evaluation.metrics import temporal_error
from linstereo.geometry.known_disparity import KnownDisparity
from linstereo.model import warm_start
from linstereo.predictor import Prediction
from linstereo.synthesis.sequences import StereoSequence
from linstereo.tracking import STEADY_PIXELS, Tracker, steadied
from tests.geometry.test_motion import texture

FRAMES = 8


class Recorder:
    """In place of the network: says what it was given, and answers with the same map always, or with ones."""

    def __init__(self, disparity=None):
        self.disparity, self.starts = disparity, []

    def __call__(self, left, right, known):
        self.starts.append(known)
        disparity = np.ones(left.shape[:2], np.float32) if self.disparity is None else self.disparity
        return Prediction(disparity=disparity, left=left, iterations=1)


def test_disparities_move_along_with_the_image():
    picture = texture(0)
    ramp = np.tile(np.arange(240, dtype=np.float32), (160, 1))
    recorder = Recorder(ramp)
    tracker = Tracker(recorder, steady=False)
    first = tracker.follow(picture, picture, stamp=5)
    second = tracker.follow(np.roll(picture, 4, axis=1), picture)
    assert (first.cold, first.followed, first.stamp) == (True, 0.0, 5)
    assert not second.cold
    assert recorder.starts[0] is None
    carried = recorder.starts[1]
    inner = (slice(20, -20), slice(20, -20))
    assert carried.known[inner].mean() > 0.95
    np.testing.assert_allclose(np.median(carried.disparity[inner] - ramp[inner]), -4, atol=0.1)


def test_cuts_and_new_sizes_start_cold():
    tracker = Tracker(Recorder())
    pictures = [texture(0), texture(0), texture(9), texture(9), texture(9)[:120], texture(9)[:120]]
    assert [tracker.follow(picture, picture).cold for picture in pictures] == [True, False] * 3


def slanted(change=0.0):
    rows, columns = np.mgrid[:60, :80].astype(np.float32)
    plane = 10 + 0.05 * columns + 0.02 * rows
    return plane + change * plane / 10


def noise(seed, size=0.2):
    return np.random.default_rng(seed).normal(0, size, (60, 80)).astype(np.float32)


EVERYWHERE = np.ones((60, 80), bool)


def test_steadying_takes_noise_away_and_does_not_lag():
    """The camera comes nearer: disparities grow by 4 % from frame to frame, which must not be held back."""
    before, now = slanted(), slanted(change=0.4)
    calm = steadied(now + noise(1), KnownDisparity(before + noise(2), EVERYWHERE))
    error, was = calm - now, noise(1)
    assert abs(error.mean()) < 0.02
    assert error.std() < 0.8 * was.std()


def test_steadying_leaves_what_changed_alone():
    now = slanted()
    now[20:30, 20:40] += 3  # something came into view
    calm = steadied(now, KnownDisparity(slanted(), EVERYWHERE))
    np.testing.assert_array_equal(calm[20:30, 20:40], now[20:30, 20:40])
    unknown = steadied(now + noise(1), KnownDisparity(slanted(), ~EVERYWHERE))
    np.testing.assert_array_equal(unknown, now + noise(1))
    assert STEADY_PIXELS < 3


def test_steadied_disparities_are_never_negative():
    before = np.abs(noise(1))
    assert steadied(np.zeros_like(before), KnownDisparity(before - 0.4, EVERYWHERE)).min() == 0


@pytest.fixture(scope="module")
def sequence():
    frames = StereoSequence(1, kind="workshop", height=240, width=480)
    return [frames.frame(index) for index in range(FRAMES)]


@pytest.fixture(scope="module")
def predictor():
    return linstereo.load()


@pytest.fixture(scope="module")
def tracked(predictor, sequence):
    frames = (StereoFrame(index, sample.left, sample.right) for index, sample in enumerate(sequence))
    return list(predictor.track(frames, scale=1.0))


def flicker(maps, sequence):
    truths = [sample.disparity for sample in sequence]
    pairs = zip(maps, maps[1:], truths, truths[1:], strict=False)
    return np.mean([temporal_error((a, b), (c, d)) for a, b, c, d in pairs])


def test_half_the_iterations_do_as_well_with_less_flicker(predictor, sequence, tracked):
    cold = [predictor.predict(sample.left, sample.right, scale=1.0) for sample in sequence]
    warm = [frame.prediction for frame in tracked]
    assert [frame.cold for frame in tracked] == [True] + [False] * (FRAMES - 1)
    assert [result.iterations for result in warm] == [4] + [2] * (FRAMES - 1)
    assert [frame.stamp for frame in tracked] == list(range(FRAMES))
    errors = [
        np.mean(
            [np.abs(result.disparity - sample.disparity).mean() for result, sample in zip(r, sequence, strict=True)]
        )
        for r in (warm, cold)
    ]
    assert errors[0] <= errors[1]
    steadiness = [flicker([result.disparity for result in results], sequence) for results in (warm, cold)]
    assert steadiness[0] < 0.95 * steadiness[1]


def test_the_network_remembers_the_frame_before(predictor, sequence, tracked, monkeypatch):
    monkeypatch.setattr(warm_start, "REMEMBERED", 0.0)
    _, forgetful = predictor.track([(sample.left, sample.right) for sample in sequence[:2]], scale=1.0)
    change = np.abs(forgetful.prediction.disparity - tracked[1].prediction.disparity)
    assert change.mean() > 0.01


def test_pairs_without_stamps_and_16_bits_work_too(predictor, sequence, tracked):
    """The second frame is dark: it must not be scaled up by itself."""
    first, second = sequence[:2]
    pairs = [
        (first.left.astype(np.uint16) * 257, first.right.astype(np.uint16) * 257),
        (second.left.astype(np.uint16), second.right.astype(np.uint16)),
    ]
    frames = list(predictor.track(pairs, iters=1, cold_iters=1, scale=0.5))
    assert frames[0].stamp is None
    assert frames[1].left.max() <= 1
    assert frames[0].prediction.iterations == 1


def test_frames_are_read_only_when_they_are_asked_for(predictor, sequence):
    def frames():
        yield sequence[0].left, sequence[0].right
        raise InputError("the second frame was read")

    found = predictor.track(frames(), cold_iters=1, scale=0.25)
    next(found)
    with pytest.raises(InputError, match="second frame"):
        next(found)
