"""Numpy in, numpy out, at any size and of any kind."""

import dataclasses
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

import linstereo
from linstereo import InputError, StereoPredictor
from linstereo.backends.engine import EngineResult
from linstereo.checkpoints.checkpoint import bundled_weights, save_checkpoint
from linstereo.evaluation.methods import ModelMethod
from linstereo.geometry.depth_edges import sharpened
from linstereo.image_pairs import read_pair
from linstereo.model.presets import LinStereoConfig, build, preset
from linstereo.run_plan import working_size
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs


@pytest.fixture(scope="module")
def predictor():
    torch.manual_seed(0)
    return StereoPredictor(build(TINY, backbone=TinyBackbone()), device="cpu")


def picture(tensor):
    return (tensor[0].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)


@pytest.fixture(scope="module")
def pair():
    left, right, _ = synthetic_pairs(1)
    return picture(left), picture(right)


@pytest.mark.parametrize("size", [(32, 32), (33, 57), (64, 96), (101, 43)])
def test_the_result_has_the_input_size_and_is_never_negative(predictor, size):
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 256, (2, *size, 3), dtype=np.uint8)
    disparity = predictor.predict(left, right, iters=2).disparity
    assert disparity.shape == size
    assert disparity.dtype == np.float32
    assert np.isfinite(disparity).all()
    assert disparity.min() >= 0


def test_it_is_the_networks_own_output(predictor, pair):
    left, right = (torch.from_numpy(p).permute(2, 0, 1)[None].float() / 255 for p in pair)
    with torch.no_grad():
        expected = predictor.model(left, right, iters=3)[0, 0].clamp(min=0).numpy()
    np.testing.assert_allclose(predictor.predict(*pair, iters=3).disparity, expected, atol=1e-5)


def test_the_disparity_after_each_iteration(predictor, pair):
    seen = {}
    result = predictor.predict(*pair, iters=3, occlusion=True, on_disparity=seen.__setitem__)
    assert list(seen) == [0, 1, 2, 3]  # those of the right view are not told
    np.testing.assert_array_equal(seen[3], result.disparity)
    np.testing.assert_array_equal(seen[2], predictor.predict(*pair, iters=2).disparity)
    assert all(disparity.dtype == np.float32 and disparity.shape == (64, 96) for disparity in seen.values())
    assert (seen[0] == 0).all()  # where this model starts
    small = {}
    predictor.predict(*pair, iters=1, scale=0.5, on_disparity=small.__setitem__)
    assert {disparity.shape for disparity in small.values()} == {(64, 96)}


def test_default_iterations_are_the_models(predictor, pair):
    seen = []
    result = predictor.predict(*pair, on_iteration=seen.append)
    assert result.iterations == TINY.iterations
    assert seen == [1, 2, 3, 4]


def test_paths_and_arrays_agree_and_so_do_other_kinds_of_images(predictor, pair, tmp_path):
    grey = [cv2.cvtColor(p, cv2.COLOR_RGB2GRAY) for p in pair]
    reference = predictor.predict(*(np.dstack([g] * 3) for g in grey), iters=1).disparity
    kinds = {
        "grey": grey,
        "grey16": [g.astype(np.uint16) * 257 for g in grey],
        "rgb16": [np.dstack([g] * 3).astype(np.uint16) * 257 for g in grey],
        "rgba": [np.dstack([g, g, g, np.full_like(g, 9)]) for g in grey],
    }
    for kind, (left, right) in kinds.items():
        np.testing.assert_array_equal(predictor.predict(left, right, iters=1).disparity, reference, err_msg=kind)
        paths = [tmp_path / f"{kind}_{side}.png" for side in "lr"]
        for path, image in zip(paths, (left, right), strict=True):
            cv2.imwrite(str(path), image)
        np.testing.assert_array_equal(predictor.predict(*paths, iters=1).disparity, reference, err_msg=kind)
        by_name = predictor.predict(*map(str, paths), iters=1).disparity
        np.testing.assert_array_equal(by_name, reference, err_msg=kind)


class Steps:
    """An engine that remembers what it was asked for."""

    backend, precision, volumes, config = "onnx", "float32", ("stored",), TINY
    needs_matches = False

    def __init__(self, *, stops_early):
        self.stops_early = stops_early

    def iterations(self, wanted):
        return 8

    def run(self, request):
        self.request = request
        ran = 3 if request.stop_below else None
        return EngineResult(np.full(request.left.shape[:2], 5, np.float32), prior=None, iterations=ran)


def test_no_iteration_follows_one_that_changes_little(pair, predictor):
    told, shown = [], []
    stopped = predictor.predict(
        *pair,
        iters=6,
        stop_below=1e6,
        on_iteration=told.append,
        on_disparity=lambda t, disparity: shown.append((t, disparity)),
    )
    assert stopped.iterations == 1
    assert told == [1]
    assert [t for t, _ in shown] == [0, 1]
    np.testing.assert_array_equal(stopped.disparity, predictor.predict(*pair, iters=1).disparity)
    np.testing.assert_array_equal(stopped.disparity, shown[-1][1])


@pytest.mark.parametrize("stop_below", [None, 0, 1e-30])
def test_all_iterations_are_run_if_none_changes_so_little(pair, predictor, stop_below):
    result = predictor.predict(*pair, iters=3, stop_below=stop_below)
    assert result.iterations == 3
    np.testing.assert_array_equal(result.disparity, predictor.predict(*pair, iters=3).disparity)


def test_updates_are_compared_in_pixels_of_the_input(pair):
    engine = Steps(stops_early=True)
    result = StereoPredictor(engine, device="cpu").predict(*pair, scale=0.5, stop_below=0.1)
    assert engine.request.stop_below == pytest.approx(0.05)
    assert result.iterations == 3


@pytest.mark.parametrize("stop_below", [-0.1, float("nan"), float("inf")])
def test_updates_that_are_none_are_refused(pair, predictor, stop_below):
    with pytest.raises(InputError, match="use a number from 0"):
        predictor.predict(*pair, stop_below=stop_below)


def test_a_backend_that_cannot_stop_says_so(pair):
    predictor = StereoPredictor(Steps(stops_early=False), device="cpu")
    with pytest.raises(InputError, match="use the backend torch"):
        predictor.predict(*pair, stop_below=0.1)
    assert predictor.predict(*pair, stop_below=0).iterations == 8


def test_scaling_keeps_size_and_unit(pair):
    class Constant:
        """An engine that always says 5 px."""

        backend, precision, volumes, config = "onnx", "float32", ("stored",), TINY
        needs_matches = False

        def iterations(self, wanted):
            return 1

        def run(self, request):
            assert request.left.shape[:2] == (32, 48)
            return EngineResult(np.full(request.left.shape[:2], 5, np.float32), prior=None)

    disparity = StereoPredictor(Constant(), device="cpu").predict(*pair, scale=0.5).disparity
    assert disparity.shape == (64, 96)
    np.testing.assert_allclose(disparity, 10.0)


def test_a_model_may_ask_for_sharp_steps(pair):
    rough = np.random.default_rng(0).uniform(0, 40, (64, 96)).astype(np.float32)

    class Rough(Steps):
        def run(self, request):
            request.on_disparity(8, rough)
            return EngineResult(rough, prior=None)

    for sharp, expected in ((False, rough), (True, sharpened(rough))):
        engine = Rough(stops_early=False)
        engine.config = dataclasses.replace(TINY, sharp_steps=sharp)
        seen = {}
        result = StereoPredictor(engine, device="cpu").predict(*pair, on_disparity=seen.__setitem__)
        np.testing.assert_array_equal(result.disparity, expected)
        np.testing.assert_array_equal(seen[8], expected)
    assert (sharpened(rough) != rough).any()


@pytest.mark.parametrize("share", [0.33, 0.43, 0.44, 0.55])
def test_a_reduced_disparity_mixes_no_surfaces_and_follows_slopes(pair, share):
    """The network sees the pair enlarged; its map has a slope at 20 px and more, and a step down to 4 px beside it."""

    class Step(Steps):
        def run(self, request):
            height, width = request.left.shape[:2]
            factor = width / 96
            slope = 20 + 0.05 * (np.arange(width) + 0.5) / factor  # px of the pair
            columns = np.where(np.arange(width) < share * width, slope, 4.0)
            return EngineResult(np.tile(factor * columns, (height, 1)).astype(np.float32), prior=None)

    disparity = StereoPredictor(Step(stops_early=False), device="cpu").predict(*pair, scale=1.3).disparity
    far = np.abs(disparity - 4) < 1e-5
    slope = np.tile(20 + 0.05 * (np.arange(96) + 0.5), (64, 1))
    np.testing.assert_allclose(disparity[~far], slope[~far], atol=0.03)
    np.testing.assert_allclose(far.sum(axis=1), 96 * (1 - share), atol=1)


@pytest.mark.parametrize(
    ("size", "enlarged"),
    [
        ((480, 960), (480, 960)),  # large enough
        ((2000, 3001), (2000, 3001)),
        ((240, 480), (480, 960)),
        ((100, 100), (192, 192)),  # not more than about twice
        ((480, 640), (576, 768)),  # 588 x 784 would be padded to 608 x 800
        ((490, 930), (512, 960)),  # 494 x 937: no side may become shorter
        ((32, 57), (64, 128)),
    ],
)
def test_small_images_are_enlarged_to_the_working_size(size, enlarged):
    assert working_size(*size, 480 * 960) == enlarged
    assert working_size(*size, 0) == size


def test_a_model_with_a_working_size_enlarges_by_itself(predictor, pair, monkeypatch):
    config = dataclasses.replace(predictor.model.config, working_pixels=4 * 64 * 96)
    monkeypatch.setattr(predictor.model, "config", config)
    own = predictor.predict(*pair, iters=1).disparity
    assert own.shape == (64, 96)
    np.testing.assert_array_equal(own, predictor.predict(*pair, iters=1, scale=2.0).disparity)
    assert not np.array_equal(own, predictor.predict(*pair, iters=1, scale=1.0).disparity)


def test_plain_images_are_not_enlarged_as_far(predictor, pair, monkeypatch):
    config = dataclasses.replace(predictor.model.config, working_pixels=4 * 64 * 96, plain_pixels=96 * 128)
    monkeypatch.setattr(predictor.model, "config", config)
    plain = np.full((64, 96, 3), 90, np.uint8)
    plain[:, :12] = pair[0][:, :12]
    for left, size in ((pair[0], (128, 192)), (plain, (96, 128))):
        plan = predictor.plan_of(left)
        assert (plan.height, plan.width) == size
        own = predictor.predict(left, pair[1], iters=1).disparity
        monkeypatch.setattr("linstereo.predictor.mostly_plain", lambda _: True)
        told = predictor.predict(left, pair[1], iters=1).disparity
        monkeypatch.undo()
        monkeypatch.setattr(predictor.model, "config", config)
        assert np.array_equal(own, told) == (left is plain)
        assert predictor.plan_of(left, scale=2.0) == predictor.plan(64, 96, scale=2.0)  # the user's word
    monkeypatch.setattr(predictor.model, "config", dataclasses.replace(config, plain_pixels=0))
    assert predictor.plan_of(plain) == predictor.plan(64, 96)


def test_the_allocator_is_asked_only_if_memory_is_short(predictor, pair, monkeypatch):
    asked = []
    monkeypatch.setattr("linstereo.memory_limits._kept_by_allocator", lambda: asked.append(1) or 1 << 40)
    predictor.predict(*pair, iters=1)
    assert not asked
    monkeypatch.setattr("linstereo.memory_limits._system_memory", lambda _: 1)
    predictor.predict(*pair, iters=1)  # with what the allocator has
    assert asked


def test_frames_of_a_sequence_are_enlarged_as_the_first(predictor, pair, monkeypatch):
    config = dataclasses.replace(predictor.model.config, working_pixels=4 * 64 * 96, plain_pixels=96 * 128)
    monkeypatch.setattr(predictor.model, "config", config)
    sizes = []
    original = predictor.model.prepare

    def prepare(left, *args, **kwargs):
        sizes.append(tuple(left.shape[-2:]))
        return original(left, *args, **kwargs)

    monkeypatch.setattr(predictor.model, "prepare", prepare)
    plain = (np.full((64, 96, 3), 90, np.uint8),) * 2
    list(predictor.track([pair, plain, pair], cold_iters=1))
    list(predictor.track([plain, pair], cold_iters=1))
    assert sizes == [(128, 192)] * 3 + [(96, 128)] * 2


def test_disparities_of_enlarged_images_shrink_with_their_width(predictor, monkeypatch):
    # 48 x 72 px become 96 x 128 px: not quite twice as wide
    config = dataclasses.replace(predictor.model.config, working_pixels=4 * 48 * 72)
    monkeypatch.setattr(predictor.model, "config", config)
    monkeypatch.setattr(predictor.model, "upsample", lambda *_: torch.full((1, 1, 96, 128), 12.8))
    images = np.zeros((2, 48, 72, 3), np.uint8)
    np.testing.assert_allclose(predictor.predict(*images, iters=1).disparity, np.full((48, 72), 7.2), rtol=1e-6)


def test_the_volume_is_stored_only_while_it_is_small(predictor, pair, monkeypatch):
    kinds = []
    original = predictor.model.prepare

    def prepare(*args, volume, **kwargs):
        kinds.append(volume)
        return original(*args, volume=volume, **kwargs)

    monkeypatch.setattr(predictor.model, "prepare", prepare)
    first = predictor.predict(*pair, iters=1).disparity
    monkeypatch.setattr("linstereo.run_plan.STORED_VOLUME_LIMIT", 1)
    second = predictor.predict(*pair, iters=1).disparity
    assert kinds == ["stored", "on_the_fly"]
    np.testing.assert_allclose(first, second, atol=1e-4)


def test_on_the_cpu_freed_memory_is_kept(monkeypatch):
    calls = []
    monkeypatch.setattr("linstereo.predictor.keep_freed_memory", lambda: calls.append(1))
    StereoPredictor(build(TINY, backbone=TinyBackbone()), device="cpu")
    assert calls == [1]


def test_the_report_of_the_depth_prior_comes_along(pair):
    model = build(
        LinStereoConfig(hidden=32, heads=2, feature_width=32), backbone=TinyBackbone(depth=torch.ones(1, 1, 56, 84))
    )
    result = StereoPredictor(model, device="cpu").predict(*pair, iters=1)
    assert result.prior.fell_back
    assert result.prior.reason


@pytest.mark.parametrize(
    ("left", "right", "complaint"),
    [
        ((64, 64, 3), (64, 65, 3), "left image is 64 x 64 px but the right image is 65 x 64 px"),
        ((31, 64, 3), (31, 64, 3), "64 x 31 px; use an image of at least 32 px"),
        ((64, 64, 5), (64, 64, 5), "left image"),
        ((64,), (64,), "left image"),
    ],
)
def test_bad_arrays_are_refused(left, right, complaint):
    with pytest.raises(InputError, match=complaint):
        read_pair(np.zeros(left, np.uint8), np.zeros(right, np.uint8))


@pytest.mark.parametrize("options", [{"iters": 0}, {"scale": 0.0}, {"scale": 4.5}, {"scale": 0.1}])
def test_bad_options_are_refused(predictor, pair, options):
    with pytest.raises(InputError):
        predictor.predict(*pair, **options)


def test_an_impossible_device_is_refused():
    with pytest.raises(InputError, match="device 'cuda:99'"):
        StereoPredictor(build(TINY, backbone=TinyBackbone()), device="cuda:99")


def test_an_untrained_preset_says_so(pair):
    predictor = linstereo.load("small", device="cpu")
    assert isinstance(predictor, StereoPredictor)
    assert not predictor.trained
    assert predictor.predict(*pair, iters=1).disparity.shape == (64, 96)


def test_load_takes_the_bundled_weights(pair, tmp_path, monkeypatch):
    torch.manual_seed(5)
    model = build(preset("compact"))
    (tmp_path / "weights").mkdir()
    save_checkpoint(model, tmp_path / "weights/compact.safetensors")
    monkeypatch.setattr(
        "linstereo.checkpoints.checkpoint.resources.files", lambda package: {"linstereo": tmp_path}[package]
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "compact").mkdir()  # a folder of that name that holds no checkpoint does not get in the way
    for predictor in (linstereo.load(device="cpu"), linstereo.load("compact", device="cpu")):
        assert predictor.trained
        assert predictor.name == "compact (bundled)"
        for key, value in model.state_dict().items():
            torch.testing.assert_close(predictor.model.state_dict()[key], value, rtol=0, atol=0)
        assert predictor.predict(*pair, iters=1).disparity.shape == (64, 96)


def test_a_run_called_compact_goes_before_the_bundled_model_unless_that_is_the_default(tmp_path, monkeypatch):
    torch.manual_seed(6)
    (tmp_path / "compact").mkdir()
    own = build(preset("compact"))
    own.save_pretrained(tmp_path / "compact")
    monkeypatch.chdir(tmp_path)
    assert linstereo.load(device="cpu").name == "compact (bundled)"
    named = linstereo.load("compact", device="cpu")
    assert named.name == "compact"
    for model in (named.model, linstereo.LinStereo.from_pretrained("compact")):
        assert torch.equal(model.residual_head.out.weight, own.residual_head.out.weight)


def test_compact_is_the_bundled_model_for_from_pretrained_too():
    bundled, named = linstereo.load(device="cpu").model, linstereo.LinStereo.from_pretrained("compact")
    assert all(torch.equal(named.state_dict()[key], value) for key, value in bundled.state_dict().items())


def test_bundled_weights_belong_to_the_package():
    assert bundled_weights() == Path(linstereo.__file__).parent / "weights" / "compact.safetensors"


def test_backbone_weights_for_a_model_that_has_its_own_are_refused(tmp_path):
    for name in (None, "compact"):
        with pytest.raises(InputError, match="'compact' has a backbone of its own"):
            linstereo.load(name, device="cpu", backbone_weights=tmp_path)


def test_load_reads_a_checkpoint(tmp_path):
    with pytest.raises(InputError, match=r"no linstereo\.safetensors"):
        linstereo.load(tmp_path)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_changes_little_but_something(predictor, pair, precision):
    half = StereoPredictor(predictor.model, device="cpu", precision=precision)
    exact, rounded = (p.predict(*pair, iters=2).disparity for p in (predictor, half))
    assert rounded.dtype == np.float32
    assert 0 < np.abs(rounded - exact).max() < 0.1
    assert {p.dtype for p in half.model.parameters()} == {torch.float32}


def test_an_unknown_precision_is_refused(predictor):
    with pytest.raises(InputError, match="'half'; use float32 or bfloat16 or float16"):
        StereoPredictor(predictor.model, precision="half")


def test_an_evaluation_tells_half_precision_apart(predictor):
    half = StereoPredictor(predictor.model, device="cpu", precision="bfloat16")
    exact, rounded = ModelMethod(predictor), ModelMethod(half)
    assert dict(rounded.settings) == {**exact.settings, "precision": "bfloat16"}
    assert rounded.title == exact.title.replace(")", ", bfloat16)")
