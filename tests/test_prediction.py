"""The result of a prediction: what it knows, writes and shows."""

import dataclasses
import sys
import types

import cv2
import numpy as np
import pytest
import torch
import trimesh

from linstereo import InputError, Prediction, StereoCalibration, StereoPredictor
from linstereo.data.formats.calibration_files import write_calibration
from linstereo.data.formats.confidence_maps import read_confidence
from linstereo.data.formats.images import read_image
from linstereo.geometry.rectification import Rectification
from linstereo.geometry.stereo_rig import StereoRig
from linstereo.model.presets import build
from tests.model.tiny import TINY, TinyBackbone

CAMERA = StereoCalibration(focal=80.0, baseline=0.2, cx=23.5, cy=19.5, doffs=0.5)
FLAT, STEP = 4.0, 20


@pytest.fixture(scope="module")
def predictor():
    torch.manual_seed(0)
    return StereoPredictor(build(TINY, backbone=TinyBackbone()), device="cpu")


@pytest.fixture(scope="module")
def pair():
    return tuple(np.random.default_rng(0).integers(0, 256, (2, 40, 48, 3), dtype=np.uint8))


@pytest.fixture
def result(pair):
    """Two flat surfaces with a jump between columns 19 and 20; confident but for the first row."""
    disparity = np.full((40, 48), FLAT, np.float32)
    disparity[:, STEP:] = 8.0
    confidence = np.full((40, 48), 0.985, np.float32)
    confidence[0] = 0.3
    return Prediction(disparity=disparity, left=pair[0], iterations=3, calibration=CAMERA, confidence=confidence)


def test_depth_is_that_of_the_calibration(result):
    np.testing.assert_allclose(result.depth, 16 / (result.disparity.astype(np.float64) + 0.5), rtol=1e-6)
    other = dataclasses.replace(CAMERA, baseline=0.4)
    np.testing.assert_allclose(result.depth_with(other), 2 * result.depth, rtol=1e-6)
    np.testing.assert_allclose(result.with_calibration(other).depth, 2 * result.depth, rtol=1e-6)


def test_without_a_calibration_there_is_one_clear_sentence(result):
    unknown = dataclasses.replace(result, calibration=None)
    for action in (lambda: unknown.depth, lambda: unknown.points()):
        with pytest.raises(InputError, match=r"there is no calibration.*give one to predict"):
            action()


def test_points_leave_out_edges_and_what_is_not_confident(result):
    whole = result.points(keep_all=True)
    assert len(whole) == 40 * 48
    np.testing.assert_array_equal(whole.points[:, 2], result.depth.ravel())
    np.testing.assert_array_equal(whole.colours, result.left.reshape(-1, 3))
    np.testing.assert_array_equal(whole.confidence, result.depth_confidence.ravel())
    assert whole.normals is None
    kept = ~result.edges & (result.depth_confidence >= 0.895)
    assert kept.any(axis=0).tolist() == [False] * (STEP + 1) + [True] * (48 - STEP - 1)  # the near surface only
    assert result.edges[:, STEP - 1 : STEP + 1].all()
    assert not result.edges[:, : STEP - 4].any()
    assert len(result.points()) == kept.sum() < len(whole)
    np.testing.assert_array_equal(result.points().points, whole.points[kept.ravel()])
    assert len(result.points(min_confidence=0.01)) == (~result.edges).sum()
    assert len(result.points(min_confidence=0.99)) == 0
    near = result.points(keep_all=True, max_depth=2.0)
    assert len(near) == (result.depth <= 2).sum()


def test_occluded_points_are_left_out_once_the_right_view_is_known(result):
    assert result.occluded is None
    checked = dataclasses.replace(result, right_disparity=np.full((40, 48), 8.0, np.float32))
    assert checked.occluded[:, : STEP - 1].all()
    assert len(checked.points(min_confidence=0.5)) < len(result.points(min_confidence=0.5))
    assert len(checked.points(keep_all=True)) == len(result.points(keep_all=True))


def test_normals_on_request(result):
    cloud = result.points(normals=True)
    np.testing.assert_allclose(cloud.normals, np.broadcast_to([0, 0, -1], (len(cloud), 3)), atol=1e-5)


@pytest.mark.parametrize("lowest", [-0.1, 1.1, float("nan")])
def test_an_impossible_confidence_is_refused(result, lowest):
    with pytest.raises(InputError, match="it must be from 0 to 1"):
        result.points(min_confidence=lowest)


def test_a_lowest_confidence_needs_a_confidence(result):
    blind = dataclasses.replace(result, confidence=None)
    with pytest.raises(InputError, match=r"0\.7, but this model gives no confidence"):
        blind.points(min_confidence=0.7)
    assert blind.points().confidence is None


def test_save_writes_every_kind_with_its_unit(result, tmp_path):
    checked = dataclasses.replace(result, right_disparity=result.disparity)
    files = checked.save(tmp_path / "new", name="a", formats=["pfm", "npy", "png", "exr"], normals=True)
    kinds = ("disparity_px", "depth_m", "confidence")
    names = {f"a_{kind}.{suffix}" for kind in kinds for suffix in ("pfm", "npy", "exr")}
    names |= {f"a_{kind}.png" for kind in ("disparity_px256", "depth_mm", "confidence", "edges", "occluded")}
    names |= {"a_cloud.ply"}
    names |= {f"a_{kind}_colour.png" for kind in ("disparity", "depth", "confidence")}
    assert {file.name for file in files} == names == {file.name for file in (tmp_path / "new").iterdir()}
    for suffix in ("pfm", "npy", "exr"):
        np.testing.assert_array_equal(read_confidence(tmp_path / f"new/a_confidence.{suffix}"), result.confidence)
    np.testing.assert_allclose(read_confidence(tmp_path / "new/a_confidence.png"), result.confidence, atol=1e-5)
    assert cv2.imread(str(tmp_path / "new/a_confidence.png"), cv2.IMREAD_UNCHANGED).dtype == np.uint16
    for name, mask in (("edges", checked.edges), ("occluded", checked.occluded)):
        stored = cv2.imread(str(tmp_path / f"new/a_{name}.png"), cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(stored, np.where(mask, 255, 0))
    cloud = checked.points(normals=True)
    read = trimesh.load(tmp_path / "new/a_cloud.ply", process=False)
    np.testing.assert_array_equal(read.vertices.astype(np.float32), cloud.points)
    stored = read.metadata["_ply_raw"]["vertex"]["data"]
    np.testing.assert_array_equal(stored["confidence"].ravel(), cloud.confidence)
    np.testing.assert_array_equal(np.stack([stored[n].ravel() for n in ("nx", "ny", "nz")], 1), cloud.normals)


def test_save_writes_only_what_is_known_and_asked_for(result, tmp_path):
    little = dataclasses.replace(result, calibration=None, confidence=None)
    assert {f.name for f in little.save(tmp_path)} == {
        "pair_disparity_px.pfm",
        "pair_disparity_colour.png",
        "pair_edges.png",
    }
    assert [f.name for f in result.save(tmp_path, name="b", outputs=["cloud"])] == ["b_cloud.ply"]


@pytest.mark.parametrize(("options", "complaint"), [({"outputs": ["mesh"]}, "'mesh'"), ({"formats": ["jpg"]}, "'jpg'")])
def test_save_refuses_unknown_kinds(result, tmp_path, options, complaint):
    with pytest.raises(InputError, match=complaint):
        result.save(tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_a_picture_for_notebooks(result, tmp_path):
    data = result._repr_png_()
    (tmp_path / "a.png").write_bytes(data)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), result.picture())
    little = dataclasses.replace(result, calibration=None, confidence=None)
    assert little.picture().shape[0] < result.picture().shape[0]


def test_show_opens_the_systems_viewer(result, tmp_path, monkeypatch):
    opened = []
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("linstereo.prediction.sys.platform", "linux")
    monkeypatch.setattr("linstereo.prediction.shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr("linstereo.prediction.subprocess.Popen", lambda command, **_: opened.append(command))
    monkeypatch.setenv("DISPLAY", ":0")
    result.show()
    assert opened[0][0] == "/bin/xdg-open"
    np.testing.assert_array_equal(read_image(opened[0][1]), result.picture())
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(InputError, match="no desktop here"):
        result.show()


def test_show_in_a_notebook_displays_the_picture(result, monkeypatch):
    shown = []
    fake = types.SimpleNamespace(Image=lambda data: data, display=shown.append)
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    result.show()
    assert shown == [result._repr_png_()]


def test_predict_knows_the_left_image_and_the_calibration(predictor, pair, tmp_path):
    found = predictor.predict(*pair, iters=1, calibration=CAMERA)
    np.testing.assert_array_equal(found.left, pair[0])
    assert found.calibration == CAMERA
    assert found.confidence is None
    assert not predictor.gives_confidence
    write_calibration(tmp_path / "calib.json", CAMERA)
    assert predictor.predict(*pair, iters=1, calibration=tmp_path / "calib.json").calibration == CAMERA
    with pytest.raises(InputError, match=r"none\.json does not exist"):
        predictor.predict(*pair, iters=1, calibration=tmp_path / "none.json")


def test_the_right_views_disparity_is_that_of_the_mirrored_pair(predictor, pair):
    seen = []
    found = predictor.predict(*pair, iters=2, occlusion=True, on_iteration=seen.append)
    assert seen == [1, 2, 3, 4]
    np.testing.assert_array_equal(found.disparity, predictor.predict(*pair, iters=2).disparity)
    mirrored = predictor.predict(pair[1][:, ::-1], pair[0][:, ::-1], iters=2).disparity
    np.testing.assert_array_equal(found.right_disparity, mirrored[:, ::-1])
    assert found.occluded.shape == (40, 48)
    assert predictor.predict(*pair, iters=1).right_disparity is None


@pytest.fixture(scope="module")
def rig():
    matrix = np.array([[60.0, 0, 23.5], [0, 60, 19.5], [0, 0, 1]])
    rotation = cv2.Rodrigues(np.array([0.0, 0.02, 0.03]))[0]
    return StereoRig(matrix, matrix, rotation, np.array([-0.1, 0, 0]), width=48, height=40)


def test_raw_pairs_are_rectified_first(predictor, pair, rig):
    rectification = Rectification(rig)
    found = predictor.predict(*pair, iters=1, calibration=rig)
    left, right = rectification.left(pair[0]), rectification.right(pair[1])
    np.testing.assert_array_equal(found.left, left)
    np.testing.assert_array_equal(found.disparity, predictor.predict(left, right, iters=1).disparity)
    assert found.calibration == rectification.calibration


def test_frames_of_raw_cameras_are_rectified_too(predictor, pair, rig):
    rectification = Rectification(rig)
    rectified = rectification.left(pair[0]), rectification.right(pair[1])
    raw = list(predictor.track([pair, pair], calibration=rig))
    expected = list(predictor.track([rectified, rectified], calibration=rectification.calibration))
    for found, other in zip(raw, expected, strict=True):
        np.testing.assert_array_equal(found.prediction.disparity, other.prediction.disparity)
        np.testing.assert_array_equal(found.prediction.depth, other.prediction.depth)
        np.testing.assert_array_equal(found.left, rectified[0])
    assert next(predictor.track([pair])).prediction.calibration is None
