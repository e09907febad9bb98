"""What the endpoint answers: maps in every kind, the same numbers as the predictor gives, and clear refusals."""

import base64
import io
import json
import zipfile

import cv2
import httpx
import numpy as np
import pytest
import trimesh

from linstereo.data.formats.pfm import read_pfm
from tests.app.conftest import as_files, png, running
from tests.documents import ROOT, blocks

CALIBRATION = {"focal": "80", "baseline": "0.1"}


@pytest.fixture(scope="module")
def truth(predictor, pair):
    """The prediction of the pair, made without the server."""
    images = [cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), 1), cv2.COLOR_BGR2RGB) for data in pair]
    return predictor.predict(*images, occlusion=True)


def ask(client, pair, accept="*/*", query="", **fields) -> httpx.Response:
    return client.post(f"/v1/predict{query}", files=as_files(pair), data=fields, headers={"Accept": accept})


def array(response) -> np.ndarray:
    assert response.status_code == 200, response.text
    return np.load(io.BytesIO(response.content), allow_pickle=False)


def events(response) -> list[dict]:
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]


@pytest.fixture(scope="module")
def kept(client, pair):
    """The events of a request with everything."""
    wanted = {"confidence": "true", "occlusion": "true", "sgbm": "true", **CALIBRATION}
    found = events(ask(client, pair, accept="text/event-stream", **wanted))
    assert found[-1]["event"] == "done", found[-1]
    return found


def test_disparity_is_that_of_the_predictor(client, pair, truth):
    response = ask(client, pair, accept="application/x-npy")
    np.testing.assert_array_equal(array(response), truth.disparity)
    assert response.headers["X-Linstereo-Unit"] == "px"
    assert json.loads(response.headers["X-Linstereo-Facts"])["iterations"] == 4


def test_png_has_16_bits_and_256_levels_for_a_pixel(client, pair, truth):
    response = ask(client, pair)
    assert response.headers["Content-Type"] == "image/png"
    levels = cv2.imdecode(np.frombuffer(response.content, np.uint8), cv2.IMREAD_UNCHANGED)
    assert levels.dtype == np.uint16
    np.testing.assert_allclose(levels / 256, truth.disparity, atol=1 / 256)


@pytest.mark.parametrize(
    "fields",
    [
        CALIBRATION,
        {"calibration": '{"focal": 80, "baseline": 0.1}'},
        {"calibration": '{"focal": 80, "baseline": 0.1, "cx": 3, "cy": 5, "doffs": 0}'},
    ],
)
def test_depth_is_focal_times_baseline_over_disparity(client, pair, truth, fields):
    depth = array(ask(client, pair, accept="application/x-npy", output="depth", **fields))
    np.testing.assert_allclose(depth, 8.0 / truth.disparity, rtol=1e-5)


def test_query_overrules_the_field(client, pair):
    response = ask(client, pair, accept="image/png", query="?output=depth", output="disparity", **CALIBRATION)
    assert response.headers["X-Linstereo-Output"] == "depth"
    assert response.headers["X-Linstereo-Unit"] == "mm"


def test_confidence_of_both_views(client, pair, truth):
    confidence = array(ask(client, pair, accept="application/x-npy", output="confidence"))
    assert confidence.min() >= 0
    assert confidence.max() <= 1
    agreeing = ~truth.occluded & (truth.disparity < 20)  # by at most 1 px
    assert (confidence[agreeing] >= 0.5 - 1e-6).all()
    assert agreeing.any()


def test_occlusion(client, pair, truth):
    occluded = array(ask(client, pair, accept="application/x-npy", output="occlusion"))
    np.testing.assert_array_equal(occluded, truth.occluded)


def test_points_are_a_ply_file_that_others_read(client, pair, truth):
    response = ask(client, pair, accept="model/ply", max_depth="1e6", **CALIBRATION)
    assert response.status_code == 200, response.text
    cloud = trimesh.load(io.BytesIO(response.content), file_type="ply")
    assert len(cloud.vertices) == (~truth.edges & (truth.disparity > 0)).sum()
    assert cloud.vertices[:, 2].min() == pytest.approx((8.0 / truth.disparity[~truth.edges]).min(), rel=1e-5)


def test_side_by_side(client, pair, truth):
    both = np.hstack([cv2.imdecode(np.frombuffer(data, np.uint8), 1) for data in pair])
    data = cv2.imencode(".png", both)[1].tobytes()
    response = client.post("/v1/predict", files={"pair": ("x", data)}, headers={"Accept": "application/x-npy"})
    np.testing.assert_array_equal(array(response), truth.disparity)


def test_iterations_and_scale(client, pair, predictor):
    response = ask(client, pair, accept="application/x-npy", iterations="2", scale="0.75")
    images = [cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), 1), cv2.COLOR_BGR2RGB) for data in pair]
    np.testing.assert_array_equal(array(response), predictor.predict(*images, iters=2, scale=0.75).disparity)


def test_calibration_files(client, pair, truth):
    middlebury = b"cam0=[80 0 47; 0 80 31; 0 0 1]\ncam1=[80 0 47; 0 80 31; 0 0 1]\ndoffs=0\nbaseline=100\n"
    files = as_files(pair, calibration=("../../etc/calib.txt", middlebury))
    response = client.post("/v1/predict?output=depth", files=files, headers={"Accept": "application/x-npy"})
    np.testing.assert_allclose(array(response), 8.0 / truth.disparity, rtol=1e-5)


def camera_info(shift: float) -> bytes:
    """A camera_info of ROS whose P has this in its fourth column."""
    return (
        "image_width: 96\nimage_height: 64\ndistortion_model: plumb_bob\n"
        "camera_matrix: {rows: 3, cols: 3, data: [80, 0, 47.5, 0, 80, 31.5, 0, 0, 1]}\n"
        "distortion_coefficients: {rows: 1, cols: 5, data: [0.1, 0, 0, 0, 0]}\n"
        "rectification_matrix: {rows: 3, cols: 3, data: [1, 0, 0, 0, 1, 0, 0, 0, 1]}\n"
        f"projection_matrix: {{rows: 3, cols: 4, data: [80, 0, 47.5, {shift}, 0, 80, 31.5, 0, 0, 0, 1, 0]}}\n"
    ).encode()


def test_two_files_of_ros_rectify_a_raw_pair(client, pair):
    cameras = [("calibration", ("right.yaml", camera_info(-8.0))), ("calibration", ("left.yaml", camera_info(0.0)))]
    files = [*as_files(pair).items(), *cameras]
    response = client.post("/v1/predict", files=files, headers={"Accept": "text/event-stream"})
    done = events(response)[-1]
    assert done["event"] == "done", done
    assert any("rectified" in note for note in done["notes"])
    assert done["calibration"]["baseline"] == pytest.approx(0.1)
    assert [stage["name"] for stage in done["stages"]] == ["read", "rectify", "check", "features", "refine"]


def test_events_tell_every_iteration_and_its_disparity(kept):
    steps = [event for event in kept if event["event"] == "iteration"]
    assert [event["iteration"] for event in steps] == [0, 1, 2, 3, 4]
    assert {(event["width"], event["height"]) for event in steps} == {(96, 64)}
    names = [stage["name"] for stage in kept[-1]["stages"]]
    assert names == ["read", "check", "features", "refine", "second_view", "sgbm"]
    assert all(stage["seconds"] >= 0 for stage in kept[-1]["stages"])


def test_every_file_of_a_result(client, kept, truth, tmp_path):
    done = kept[-1]
    files = {}
    for name in done["files"]:
        response = client.get(f"/v1/results/{done['key']}/{name}")
        assert response.status_code == 200, (name, response.text)
        files[name] = response.content
    np.testing.assert_array_equal(np.load(io.BytesIO(files["disparity.npy"])), truth.disparity)
    (tmp_path / "depth.pfm").write_bytes(files["depth.pfm"])
    np.testing.assert_allclose(read_pfm(tmp_path / "depth.pfm"), 8.0 / truth.disparity, rtol=1e-5)
    assert json.loads(files["calib.json"])["focal"] == 80
    inside = zipfile.ZipFile(io.BytesIO(files["all.zip"])).namelist()
    assert {"disparity.pfm", "disparity.png", "depth.pfm", "cloud.ply", "left.png", "sgbm.pfm"} <= set(inside)


def test_a_preview_is_the_disparity(kept, truth):
    last = [event for event in kept if event["event"] == "iteration"][-1]
    levels = np.frombuffer(base64.b64decode(last["values"]), "<u2").reshape(64, 96)
    np.testing.assert_allclose(levels / last["scale"], truth.disparity, atol=0.5 / last["scale"] + 1e-6)


def test_fewer_points_with_a_higher_confidence(client, kept):
    address = f"/v1/results/{kept[-1]['key']}/cloud.ply"
    counts = [
        len(trimesh.load(io.BytesIO(client.get(f"{address}?min_confidence={least}").content), file_type="ply").vertices)
        for least in (0, 0.5, 0.9)
    ]
    assert counts[0] > counts[2]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize(
    "address",
    [
        *("/v1/results/{key}/facts.json", "/v1/results/{key}/images.npy", "/v1/results/{key}/..%2F..%2Fin-use.lock"),
        *("/v1/results/0123/disparity.npy", "/v1/results/../disparity.npy", "/v1/results/{key}/disparity.npy%00"),
        *("/static/../settings.py", "/static/%2e%2e/settings.py", "/static//etc/passwd", "/static/", "/nothing"),
    ],
)
def test_only_known_files_are_given(client, kept, address):
    response = client.get(address.format(key=kept[-1]["key"]))
    assert response.status_code == 404
    assert set(response.json()) == {"error"}


def test_text_named_png(client, pair):
    response = ask(client, (b"This is prose, not a picture.", pair[1]))
    assert response.status_code == 422
    assert response.json()["error"].startswith("The left image is not a PNG")


def test_100_megapixels_are_refused_by_the_header(client, pair):
    rows = cv2.imencode(".png", np.zeros((10_000, 10_000), np.uint8), [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
    response = ask(client, (rows, rows))
    assert response.status_code == 413
    assert "10000 x 10000 px, which is 100.0 megapixels" in response.json()["error"]


def test_two_sizes(client, pair):
    response = ask(client, (pair[0], png(np.zeros((64, 100, 3), np.uint8))))
    assert response.status_code == 422
    assert "96 x 64 px but the right image is 100 x 64 px" in response.json()["error"]


def test_a_large_disparity_asks_for_another_kind(client, pair, monkeypatch):
    monkeypatch.setattr("linstereo.app.stages.predict_views", far_apart)
    response = ask(client, pair)
    assert response.status_code == 422
    assert "PNG holds less than 256" in response.json()["error"]
    assert "/" not in response.json()["error"].replace("image/png", "")


def far_apart(predictor, left, right, *, on_iteration, **_):
    """A prediction of 300 px everywhere."""
    from linstereo.prediction import Prediction

    on_iteration(predictor.iterations(None))
    return Prediction(disparity=np.full(left.shape[:2], 300, np.float32), left=left, iterations=4)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"iterations": "0"}, "iterations is '0'"),
        ({"iterations": "2.5"}, "whole number"),
        ({"iterations": "many"}, "iterations is 'many'"),
        ({"focal": "80"}, "belong together"),
        ({"focal": "nan", "baseline": "1"}, "focal is 'nan'"),
        ({"focal": "80", "baseline": "0.1", "calibration": "{}"}, "given twice"),
        ({"calibration": "{"}, "no valid JSON"),
        ({"calibration": "[1]"}, "The calibration does not hold a JSON object"),
        ({"calibration": '{"focal": -1, "baseline": 1}'}, "must be greater than 0"),
        ({"calibration": '{"focal": 1e999, "baseline": 1}'}, "finite"),
        ({"calibration": '{"focal": 80, "baseline": 1, "width": 5, "height": 5}'}, "is for images of 5 x 5 px"),
        ({"calibration": "[" * 60_000}, "no valid JSON"),
        ({"output": "everything"}, "output is 'everything'"),
        ({"sgbm": "perhaps"}, "sgbm is 'perhaps'"),
        ({"scale": "1e9"}, "scale is"),
        ({"scale": "0.1"}, "use a larger scale"),
        ({"colour": "red"}, "field colour is not known"),
        ({"output": "depth"}, "need a calibration"),
        ({"unit": "feet", "calibration": "{}"}, "unit is 'feet'"),
    ],
)
def test_bad_fields(client, pair, fields, sentence):
    response = ask(client, pair, **fields)
    assert response.status_code == 422
    assert sentence in response.json()["error"]
    assert "linstereo-serve" not in response.text


@pytest.mark.parametrize(
    ("accept", "fields"),
    [("text/html", {}), ("image/jpeg", {}), ("model/ply", {"output": "depth"}), ("image/png;q=0", {})],
)
def test_kinds_that_there_are_not(client, pair, accept, fields):
    response = ask(client, pair, accept=accept, **CALIBRATION, **fields)
    assert response.status_code == 406


def test_health_and_description(client):
    health = client.get("/v1/health").json()
    assert health["status"] == "ok"
    assert health["limits"]["pixels"] == 1_000_000
    description = client.get("/openapi.json").json()
    form = description["paths"]["/v1/predict"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert {"left", "right", "pair", "calibration", "iterations", "output"} <= set(form["properties"])
    assert form["properties"]["calibration"]["example"]


def test_a_pair_that_does_not_fit_into_memory(predictor, pair, tmp_path, monkeypatch):
    monkeypatch.setattr("linstereo.predictor.available_memory", lambda **_: 1)
    with running(predictor, tmp_path) as client:
        response = ask(client, pair)
    assert response.status_code == 422
    assert "memory" in response.json()["error"]


def test_the_clients_of_the_documentation(predictor, tmp_path, monkeypatch):
    """The Python lines of docs/server.md, against a server of their own."""
    page = ROOT / "docs" / "server.md"
    (script,) = [block.text for block in blocks(page) if block.kind == "python"]
    with running(predictor, tmp_path) as client:
        script = script.replace("http://127.0.0.1:8000", str(client.base_url).rstrip("/"))
        pairs = ROOT / "examples" / "reef"
        for side in ("left", "right"):
            image = cv2.imread(str(pairs / side / "clear.png"))
            cv2.imwrite(str(tmp_path / f"{side}.png"), image[:64, :96])
        names: dict = {}
        monkeypatch.chdir(tmp_path)
        exec(compile(script, str(page), "exec"), names)
        assert names["depth"].shape == (64, 96)
        assert names["depth"].dtype == np.float32
