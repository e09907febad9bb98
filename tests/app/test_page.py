"""The files of the page: whole, nothing from elsewhere, the vendored ones as their authors published them."""

import base64
import hashlib
import re
import shutil
import subprocess

import cv2
import numpy as np
import pytest

from linstereo.app.page import assets, content_policy
from tests.documents import ROOT

STATIC = ROOT / "src" / "linstereo" / "app" / "static"
OWN = [path for path in sorted(STATIC.iterdir()) if path.is_file()]
THREE = {
    "three.core.js": "613e370f76638fdef83926642bf256dc9615684922de1ce1f63a8583e5d78578",
    "three.module.js": "104f56145899722094556490d787aae0617cc2fc3382f31df02d724ea1aee341",
    "OrbitControls.js": "e7fca2fe9e7670a828af9b28084669a5909445b7f36f1f26cee9bf8f2961c32c",
    "LICENSE": "8b378ebe60e2fe500158cb0ac71cb5e8b7d92953c2abcc63a0eb90499653b5bc",
}
"""SHA-256 of the files in the package three 0.187.0."""


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere(path):
    text = path.read_text("utf-8")
    addresses = set(re.findall(r"""(?:https?:)?//[\w.-]+\.\w+[^\s"'<>]*""", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "//www.w3.org/2000/svg"}
    assert not re.search(r"\son\w+=|javascript:|style=\"", text), "the content security policy forbids it"


def test_vendored_files_are_as_published():
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (STATIC / "vendor" / "three").iterdir()
    }
    assert found == THREE


def test_the_policy_allows_the_import_map_and_nothing_else_inline():
    page = (STATIC / "index.html").read_text("utf-8")
    (inline,) = re.findall(r'<script type="importmap">(.*?)</script>', page)
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in content_policy(page)


def test_every_file_that_the_page_names_is_there():
    found = assets()
    for path in OWN:
        text = path.read_text("utf-8")
        for name in re.findall(r'"/static/([\w./-]+\.\w+)', text):
            assert name in found, f"{path.name} names {name}"
        for name in re.findall(r'(?:from |import\()"\./([\w./-]+)"', text):
            assert name in found, f"{path.name} imports {name}"
    names = set(
        re.findall(r'byId\("([\w-]+)"\)', (STATIC / "main.js").read_text() + (STATIC / "inputs.js").read_text())
    )
    page = (STATIC / "index.html").read_text()
    assert names <= set(re.findall(r'\bid="([\w-]+)"', page))


def test_colours_are_those_of_opencv():
    table = re.search(r'TABLE = "([\w+/=]+)"', (STATIC / "colours.js").read_text())[1]
    colours = np.frombuffer(base64.b64decode(table), np.uint8).reshape(256, 3)
    levels = np.arange(256, dtype=np.uint8)[:, None]
    opencv = cv2.cvtColor(cv2.applyColorMap(levels, cv2.COLORMAP_TURBO), cv2.COLOR_BGR2RGB)[:, 0]
    np.testing.assert_array_equal(colours, opencv)


def test_controls_have_names():
    page = (STATIC / "index.html").read_text()
    assert '<html lang="en">' in page
    for control in re.findall(r"<(?:input|select|canvas|button)\b[^>]*>", page):
        identity = re.search(r'id="([\w-]+)"', control)
        named = (
            "aria-label" in control or control.startswith("<button") or 'name="' in control or "aria-hidden" in control
        )
        wrapped = identity and re.search(rf'<label[^>]*>(?:(?!</label>).)*id="{identity[1]}"', page, re.DOTALL)
        pointed = identity and f'for="{identity[1]}"' in page
        assert named or wrapped or pointed, control


def test_a_page_is_sent_packed_and_remembered(client):
    first = client.get("/static/vendor/three/three.module.js", headers={"Accept-Encoding": "gzip"})
    assert first.headers["Content-Encoding"] == "gzip"
    assert first.content == (STATIC / "vendor" / "three" / "three.module.js").read_bytes()
    again = client.get("/static/vendor/three/three.module.js", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304


def test_modules_are_valid_javascript():
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed here")
    for path in OWN:
        if path.suffix == ".js":
            kind = "--input-type=module" if path.name != "theme.js" else "--input-type=commonjs"
            done = subprocess.run(
                [node, "--check", kind, "-"], input=path.read_bytes(), capture_output=True, check=False
            )
            assert done.returncode == 0, (path.name, done.stderr.decode())
