"""Every form in which people have a stereo calibration leads to the same metric depth."""

import json

import cv2
import numpy as np
import pytest
from tests.data.camera_files import kalibr_text, opencv_fields, write_opencv, write_ros
from tests.geometry.raw_pairs import DISTORTIONS, FISHEYE, HEIGHT, RADTAN, WIDTH, depth_error, raw_rig, render_of

from linstereo.data.formats.calibration_files import write_calibration, write_middlebury_calibration
from linstereo.data.formats.camera_files import cameras_for_size, read_cameras
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.rectification import Rectification
from linstereo.geometry.stereo_rig import Distortion, StereoRig

SPELLINGS = {
    "M1": {"K1": "M1", "K2": "M2"},
    "cameraMatrix1": {"K1": "cameraMatrix1", "D1": "distCoeffs1", "K2": "cameraMatrix2", "D2": "distCoeffs2"},
    "left": {
        "K1": "camera_matrix_left",
        "D1": "distortion_coefficients_left",
        "K2": "camera_matrix_right",
        "D2": "distortion_coefficients_right",
        "R": "rotation_matrix",
        "T": "translation_vector",
    },
    "L": {"K1": "K_l", "D1": "D_l", "K2": "K_r", "D2": "D_r"},
}


def read(path, **options):
    return cameras_for_size(path, **{"width": WIDTH, "height": HEIGHT, "image": "left.png", **options})


def assert_same(found, rig):
    assert isinstance(found, StereoRig)
    for name in ("left_matrix", "right_matrix", "rotation", "translation"):
        np.testing.assert_allclose(getattr(found, name), getattr(rig, name), atol=1e-9, rtol=1e-12)
    assert (found.left_distortion, found.right_distortion) == (rig.left_distortion, rig.right_distortion)
    assert (found.width, found.height) == (rig.width, rig.height)


def write_as(kind, folder, rig):
    """Write the rig in a format; returns the path and the options that its reading needs."""
    fisheye = rig.left_distortion.kind == "equidistant"
    if kind in ("yml", "xml"):
        write_opencv(folder / f"stereo.{kind}", opencv_fields(rig))
        return folder / f"stereo.{kind}", {"fisheye": fisheye}
    if kind == "kalibr":
        (folder / "camchain.yaml").write_text(kalibr_text(rig))
        return folder / "camchain.yaml", {}
    return write_ros(folder, rig, message=kind == "ros message"), {}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, name) for kind in ("yml", "xml", "ros", "ros message") for name in DISTORTIONS),
        ("kalibr", "radtan 4"),
        ("kalibr", "fisheye"),
    ],
)
def test_all_formats_hold_the_same_rig(tmp_path, kind, name):
    rig = raw_rig(DISTORTIONS[name])
    path, options = write_as(kind, tmp_path, rig)
    assert_same(read(path, **options), rig)


@pytest.mark.parametrize("kind", ["yml", "xml", "kalibr", "ros"])
@pytest.mark.parametrize("name", ["radtan 4", "fisheye"])
def test_depth_of_a_rendered_pair_is_right(tmp_path, kind, name):
    path, options = write_as(kind, tmp_path, raw_rig(DISTORTIONS[name]))
    rectification = Rectification(read(path, **options))
    left, right = (
        rectification.left(render_of(DISTORTIONS[name])[0]),
        rectification.right(render_of(DISTORTIONS[name])[1]),
    )
    assert depth_error(left, right, rectification.calibration, rectification.rotation) < 0.005


@pytest.mark.parametrize("kind", ["json", "middlebury", "kitti", "P1 P2", "Q"])
@pytest.mark.parametrize("doffs", [0, 12])
def test_depth_of_a_rectified_pair_is_right(tmp_path, kind, doffs):
    rectification = Rectification(raw_rig())
    left, right = rectification.left(render_of(RADTAN)[0]), rectification.right(render_of(RADTAN)[1])
    right = np.roll(right, doffs, axis=1)  # as after cropping the right image: its principal point moves
    right[:, :doffs] = 0
    camera = StereoCalibration(
        **{**vars(rectification.calibration), "doffs": float(doffs)}  # x_left - x_right falls by doffs
    )
    focal, cx, cy = camera.focal, camera.cx, camera.cy
    first = np.array([[focal, 0, cx, 0], [0, focal, cy, 0], [0, 0, 1, 0]])
    second = first + np.array([[0, 0, doffs, -focal * camera.baseline], [0] * 4, [0] * 4])
    path = tmp_path / "calib.txt"
    if kind == "json":
        path = tmp_path / "calib.json"
        write_calibration(path, camera, size=(WIDTH, HEIGHT))
    elif kind == "middlebury":
        write_middlebury_calibration(path, camera, width=WIDTH, height=HEIGHT)
    elif kind == "kitti":
        rows = {"P2": first, "P3": second}
        path.write_text("".join(f"{n}: {' '.join(map(repr, m.ravel().tolist()))}\n" for n, m in rows.items()))
    elif kind == "P1 P2":
        path = tmp_path / "rectified.yml"
        write_opencv(path, {"P1": first, "P2": second})
    else:
        path = tmp_path / "q.xml"
        inverse = 1 / camera.baseline
        write_opencv(
            path, {"Q": np.array([[1, 0, 0, -cx], [0, 1, 0, -cy], [0, 0, 0, focal], [0, 0, inverse, doffs * inverse]])}
        )
    found = read(path)
    assert isinstance(found, StereoCalibration)
    assert depth_error(left, right, found, rectification.rotation) < 0.005
    half = cameras_for_size(path, width=WIDTH // 2, height=HEIGHT // 2, image="left.png", resize=True)
    if kind in ("json", "middlebury"):  # which say their size
        small = [cv2.resize(image, (WIDTH // 2, HEIGHT // 2), interpolation=cv2.INTER_AREA) for image in (left, right)]
        assert depth_error(*small, half, rectification.rotation) < 0.005


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("suffix", ["yml", "xml"])
def test_names_that_people_give_to_opencv(tmp_path, spelling, suffix):
    fields = {SPELLINGS[spelling].get(name, name): value for name, value in opencv_fields(raw_rig()).items()}
    write_opencv(tmp_path / f"a.{suffix}", {"calibration_time": "Tue 3 Nov 2026", **fields, "rms": 0.31})
    assert_same(read(tmp_path / f"a.{suffix}"), raw_rig())


def test_the_two_files_of_opencvs_own_sample(tmp_path):
    fields = opencv_fields(raw_rig())
    names = {"K1": "M1", "K2": "M2"}
    write_opencv(tmp_path / "intrinsics.yml", {names.get(n, n): fields[n] for n in ("K1", "D1", "K2", "D2")})
    with pytest.raises(InputError, match=r"intrinsics\.yml holds no R, T; a stereo calibration of OpenCV needs K1"):
        read(tmp_path / "intrinsics.yml")
    write_opencv(tmp_path / "extrinsics.yml", {"R": fields["R"], "T": fields["T"]})
    assert_same(read(tmp_path / "intrinsics.yml"), raw_rig())
    assert_same(read(tmp_path / "extrinsics.yml"), raw_rig())


def test_units_and_rodrigues_vectors(tmp_path):
    fields = opencv_fields(raw_rig(), unit=0.001) | {"R": cv2.Rodrigues(raw_rig().rotation)[0]}
    write_opencv(tmp_path / "a.yml", fields)
    assert read(tmp_path / "a.yml").baseline == pytest.approx(1000 * raw_rig().baseline)
    assert_same(read(tmp_path / "a.yml", unit="mm"), raw_rig())
    (tmp_path / "camchain.yaml").write_text(kalibr_text(raw_rig(DISTORTIONS["radtan 4"])))
    with pytest.raises(InputError, match="leave out --calib-unit"):
        read(tmp_path / "camchain.yaml", unit="mm")


@pytest.mark.parametrize(
    "mark", [{"fisheye_model": 1}, {"distortion_model": "equidistant"}, {"camera_model": "Fisheye"}]
)
def test_a_fisheye_lens_may_be_marked_in_the_file(tmp_path, mark):
    write_opencv(tmp_path / "a.yml", {**opencv_fields(raw_rig(FISHEYE)), **mark})
    assert_same(read(tmp_path / "a.yml"), raw_rig(FISHEYE))
    write_opencv(tmp_path / "b.yml", {**opencv_fields(raw_rig(FISHEYE)), "fisheye_model": 0})
    assert read(tmp_path / "b.yml").left_distortion.kind == "radial-tangential"


@pytest.mark.parametrize(
    "size", [{"image_size": np.array([WIDTH, HEIGHT])}, {"image_width": WIDTH, "image_height": HEIGHT}]
)
@pytest.mark.parametrize("suffix", ["yml", "xml"])
def test_the_size_in_the_file_decides(tmp_path, size, suffix):
    path = tmp_path / f"a.{suffix}"
    write_opencv(path, {**size, **opencv_fields(raw_rig())})
    assert_same(read(path), raw_rig())
    with pytest.raises(InputError, match=r"is for images of 640 x 480 px, but left\.png is 320 x 240 px"):
        read(path, width=WIDTH // 2, height=HEIGHT // 2)
    assert_same(
        read(path, width=WIDTH // 2, height=HEIGHT // 2, resize=True), raw_rig().resized(WIDTH // 2, HEIGHT // 2)
    )
    with pytest.raises(InputError, match="not the same picture resized"):
        read(path, width=WIDTH // 2, height=HEIGHT, resize=True)


def test_the_right_camera_may_be_kalibrs_first(tmp_path):
    rig = raw_rig(FISHEYE)
    (tmp_path / "camchain.yaml").write_text(kalibr_text(rig, swapped=True))
    assert_same(read(tmp_path / "camchain.yaml"), rig)


def test_images_that_ros_rectified(tmp_path):
    path = write_ros(tmp_path, raw_rig())
    found = read(path, rectified=True)
    rectification = Rectification(raw_rig())  # with cv2.stereoRectify as well
    assert vars(found) == pytest.approx(vars(rectification.calibration))
    (tmp_path / "camchain.yaml").write_text(kalibr_text(raw_rig(DISTORTIONS["radtan 4"])))
    with pytest.raises(InputError, match="describes no rectified images"):
        read(tmp_path / "camchain.yaml", rectified=True)


def test_a_camera_info_alone(tmp_path):
    path = write_ros(tmp_path, raw_rig())
    (tmp_path / "right.yaml").unlink()
    with pytest.raises(
        InputError, match="the camera_info of one camera, and no file beside it is that of the right one"
    ):
        read(path)


def test_a_rig_without_anything_to_rectify(tmp_path):
    matrix = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
    fields = {
        "K1": matrix,
        "D1": np.zeros(5),
        "K2": matrix,
        "D2": np.zeros(5),
        "R": np.eye(3),
        "T": np.array([-0.1, 0, 0]),
    }
    write_opencv(tmp_path / "a.yml", fields)
    assert read(tmp_path / "a.yml") == StereoCalibration(focal=500, baseline=0.1, cx=320, cy=240)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("camera_model: pinhole", "camera_model: ds", "of the camera model ds; calibrate with pinhole-radtan"),
        ("distortion_model: equidistant", "distortion_model: fov", "has the distortion model fov"),
        ("cam1:", "cam2:", "holds the cameras cam0, cam2"),
        ("resolution: [640, 480]", "resolution: [640]", "a resolution of 2 numbers"),
        ("T_cn_cnm1", "T_cam_imu", "has no T_cn_cnm1 in cam1"),
        ("  distortion_coeffs: [0.02", "  distortion_coeffs: [1, 0.02", "there are 5 equidistant"),
        ("330.0", ".nan", "does not hold numbers in cam0 intrinsics"),
        ("330.0", "-330.0", "is not a valid calibration: the rig's left_matrix"),
        ("cam0:", "&a cam0: *a\n", "aliases"),
        ("cam0:", "cam0: [" + "[" * 5000, "nests deeper|not valid YAML"),
        ("cam0", "camera", "no calibration of a stereo camera that is known"),
    ],
)
def test_damaged_camchains(tmp_path, old, new, message):
    text = kalibr_text(raw_rig(FISHEYE))
    assert old in text
    (tmp_path / "camchain.yaml").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path / "camchain.yaml")
    assert "camchain.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["yml", "xml"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"K1": np.eye(2)}, "has 4 numbers in K1; there must be 9"),
        ({"R": np.eye(3) * 2}, "must be a rotation matrix"),
        ({"T": np.array([0.1, 0, 0])}, "not on the right of the left one"),
        ({"T": None}, "holds no T"),
        ({"D2": None}, "no distortion coefficients of the right camera, such as D2"),
        ({"D1": np.zeros(6)}, "there are 6 radial-tangential"),
        ({"K1": "none"}, "does not hold numbers in K1"),
        ({"D1": np.array([np.nan, 0, 0, 0])}, "does not hold numbers in D1"),
    ],
)
def test_opencv_files_that_are_no_calibration(tmp_path, suffix, change, message):
    fields = {name: value for name, value in {**opencv_fields(raw_rig()), **change}.items() if value is not None}
    write_opencv(tmp_path / f"a.{suffix}", fields)
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path / f"a.{suffix}")
    assert f"a.{suffix}" in str(caught.value)


BOMB = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><opencv_storage>&c;</opencv_storage>'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.xml", BOMB, "declares a document type"),
        ("a.xml", "<opencv_storage>" + "<a>" * 20000, "not valid XML"),
        ("a.xml", "<html></html>", "does not hold <opencv_storage>"),
        ("a.yml", "%YAML:1.0\n---\nK1: " + "[" * 20000, "nests deeper"),
        ("a.yml", "a: " + "x" * 2**20, "more than the"),
        ("a.yml", "- 1\n- 2\n", "does not hold values by name"),
        ("a.yml", "a: !!python/object/apply:os.system [ls]\n", "no calibration of a stereo camera"),
        ("a.yml", "K1: {data: [1, 2]}\n", "holds no K2, R, T"),
    ],
)
def test_hostile_files(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)


def test_the_calibration_that_is_written_says_its_size(tmp_path):
    camera = Rectification(raw_rig(Distortion())).calibration
    write_calibration(tmp_path / "calib.json", camera, size=(WIDTH, HEIGHT))
    assert json.loads((tmp_path / "calib.json").read_text())["width"] == WIDTH
    assert read(tmp_path / "calib.json") == camera
    with pytest.raises(InputError, match="set unit; leave out"):
        read(tmp_path / "calib.json", unit="mm")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file"):
        read_cameras(tmp_path / "b.yaml")
