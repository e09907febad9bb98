"""Who may ask, and what every answer carries."""

import pytest

from linstereo.app.guards import Guards, allowed_names, host_name
from linstereo.app.settings import ServerSettings
from tests.app.conftest import as_files, running

TOKEN = "correct-horse-battery-staple"


@pytest.mark.parametrize(
    ("host", "name"),
    [
        *(("localhost", "localhost"), ("LOCALHOST.:80", "localhost"), ("[::1]:8000", "::1"), ("[::1]", "::1")),
        *(("127.0.0.1:1", "127.0.0.1"), ("a:b", None), ("", None), ("::1", None), ("x:123456", None), (":80", None)),
    ],
)
def test_host_name(host, name):
    assert host_name(host) == name


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "attacker.example"},
        {"Host": "attacker.example:8000"},
        {"Host": "192.168.1.20"},
        {"Host": "localhost.attacker.example"},
        {"Host": ""},
        {"Origin": "https://attacker.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_other_names_and_other_sites(client, headers):
    response = client.get("/v1/health", headers=headers)
    assert response.status_code == 403
    assert response.json()["error"]


def test_own_names(client):
    port = client.base_url.port
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "localhost:9000"):
        assert client.get("/v1/health", headers={"Host": host, "Origin": f"http://{host}"}).status_code == 200


def test_names_of_a_server_for_others():
    names = allowed_names(ServerSettings(host="0.0.0.0", allowed_hosts=("Depth.example.org",)))
    assert {"localhost", "depth.example.org"} <= names
    guards = Guards(lambda *_: None, settings=ServerSettings(host="0.0.0.0"), policy="")
    assert guards._is_own("192.168.1.20:8000")
    assert not guards._is_own("attacker.example:8000")


def test_every_answer_has_the_headers(client, pair):
    answers = [client.get(path) for path in ("/", "/static/main.js", "/v1/health", "/nothing", "/v1/results/0/x.npy")]
    answers.append(client.post("/v1/predict", files=as_files(pair)))
    answers.append(client.get("/", headers={"Host": "attacker.example"}))
    for answer in answers:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "server" not in answer.headers


def test_token(predictor, pair, tmp_path):
    with running(predictor, tmp_path, token=TOKEN) as client:
        assert client.get("/").status_code == 200
        assert client.get("/v1/health").json()["token"] is True
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": "Bearer"}):
            refused = client.post("/v1/predict", files=as_files(pair), headers=header)
            assert refused.status_code == 401
            assert refused.headers["WWW-Authenticate"] == "Bearer"
        given = {"Authorization": f"Bearer {TOKEN}"}
        assert client.post("/v1/predict", files=as_files(pair), headers=given).status_code == 200
        assert client.post("/v1/predict", files=as_files(pair), headers=given).status_code == 200
        twice = [("Authorization", "Bearer wrong"), ("Authorization", f"Bearer {TOKEN}")]
        assert client.post("/v1/predict", files=as_files(pair), headers=twice).status_code == 400


@pytest.mark.parametrize("token", ["short", "blank blank blank blank", "ü" * 20, "x" * 300, "line\nline\nline\nline"])
def test_tokens_that_cannot_be_sent(token):
    with pytest.raises(ValueError, match="token"):
        ServerSettings(token=token)
