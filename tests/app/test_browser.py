"""The page in headless Chromium, with everything but the server out of reach."""

import base64
import io
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import cv2
import httpx
import numpy as np
import pytest
import trimesh
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from linstereo.geometry.depth import depth_confidence
from tests.app.conftest import png, running
from tests.documents import ROOT
from tests.waiting import wait_until

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None,
    reason="chromium and chromedriver are not installed here (Debian: apt install chromium chromium-driver)",
)
ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,1100", "--hide-scrollbars"),
    *("--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
REEF = ROOT / "examples" / "reef"


class Page:
    """The page as a test sees it."""

    def __init__(self, driver: webdriver.Chrome, address: str) -> None:
        self.driver = driver
        self.address = address

    def open(self) -> None:
        self.driver.get(self.address)
        wait_until(lambda: "cpu" in self.text("server-text"))

    def find(self, name: str):
        return self.driver.find_element(By.ID, name)

    def text(self, name: str) -> str:
        return self.find(name).text

    def value(self, name: str) -> str:
        """One of the values under the cursor."""
        found = self.driver.find_elements(By.CSS_SELECTOR, f"[data-value={name}]")
        return found[0].text if found else ""

    def set(self, name: str, value: str) -> None:
        """Move a slider or fill in a field as a person would, with the events that follow."""
        script = (
            "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}));"
            "arguments[0].dispatchEvent(new Event('change', {bubbles: true}));"
        )
        self.driver.execute_script(script, self.find(name), value)

    def choose(self, left: Path, right: Path) -> None:
        self.find("file-left").send_keys(str(left))
        self.find("file-right").send_keys(str(right))
        wait_until(lambda: self.find("run").is_enabled())

    def calibrate(self) -> None:
        self.driver.execute_script("document.querySelector('input[name=calibration][value=numbers]').click()")
        self.set("focal", "420")
        self.set("baseline", "0.12")

    def run(self) -> None:
        self.find("run").click()

    def finish(self) -> None:
        """Wait for a result or a message."""
        wait_until(lambda: not self.find("cancel").is_displayed())

    def array(self, name: str) -> np.ndarray:
        """A map of the result that is shown, as the server gives it."""
        link = self.driver.find_element(By.CSS_SELECTOR, f"[data-file='{name}']").get_attribute("href")
        return np.load(io.BytesIO(httpx.get(link, timeout=600).content), allow_pickle=False)

    def hover(self, x: int, y: int, *, click: bool = False) -> None:
        """Put the cursor on a pixel of the map."""
        canvas = self.find("map")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
        box = self.driver.execute_script(
            "const b = arguments[0].getBoundingClientRect();"
            "return [b.width / arguments[0].width, b.height / arguments[0].height, b.width, b.height]",
            canvas,
        )
        dx, dy = (x + 0.5) * box[0] - box[2] / 2, (y + 0.5) * box[1] - box[3] / 2
        moves = ActionChains(self.driver).move_to_element_with_offset(canvas, round(dx), round(dy))
        (moves.click() if click else moves).perform()


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=webdriver.ChromeService(DRIVER), options=options)
    driver.downloads = tmp_path_factory.mktemp("downloads")
    settings = {"behavior": "allow", "downloadPath": str(driver.downloads)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", settings)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def address(predictor, tmp_path_factory) -> Iterator[str]:
    with running(predictor, tmp_path_factory.mktemp("server")) as client:
        yield f"{client.base_url}/"


@pytest.fixture
def page(driver, address) -> Page:
    page = Page(driver, address)
    page.open()
    return page


@pytest.fixture(scope="module")
def shown(driver, address) -> Page:
    """The page with the result of a pair."""
    page = Page(driver, address)
    page.open()
    page.choose(REEF / "left" / "clear.png", REEF / "right" / "clear.png")
    page.calibrate()
    page.set("iterations", "6")
    driver.execute_script(
        "window.seen = {};"
        "for (const [id, name] of [['progress', 'aria-valuetext'], ['progress', 'aria-valuenow'],"
        " ['stage', 'data-iteration']]) { window.seen[name] = []; const element = document.getElementById(id);"
        " new MutationObserver((changes) => changes.forEach((change) => window.seen[name].push(change.oldValue)))"
        " .observe(element, {attributeFilter: [name], attributeOldValue: true}); }"
    )
    page.run()
    page.finish()
    assert page.text("error") == "", driver.get_log("browser")
    wait_until(lambda: page.find("cloud").get_attribute("data-points"))
    return page


def test_the_progress_is_seen(shown):
    seen = shown.driver.execute_script("return window.seen")
    for iteration in range(1, 7):
        assert f"Iteration {iteration} of 6" in seen["aria-valuetext"]
    values = [int(value) for value in seen["aria-valuenow"]]
    assert values == sorted(values)
    shown_disparities = [int(value) for value in seen["data-iteration"] if value is not None]
    assert shown_disparities == [0, 1, 2, 3, 4, 5, 6]


def test_the_value_under_the_cursor_is_that_of_the_array(shown):
    disparity, confidence = shown.array("disparity.npy"), shown.array("confidence.npy")
    depth, sgbm = shown.array("depth.npy"), shown.array("sgbm.npy")
    for x, y in ((40, 130), (300, 200), (455, 300)):
        shown.hover(x, y)
        wait_until(lambda: shown.value("pixel") != "")
        column, row = (int(word) for word in shown.value("pixel").split(", "))
        assert abs(column - x) <= 1
        assert abs(row - y) <= 1
        assert shown.value("disparity") == f"{disparity[row, column]:,.2f} px"
        assert float(shown.value("depth").split()[0].replace(",", "")) == pytest.approx(depth[row, column], abs=6e-4)
        assert float(shown.value("confidence")) == pytest.approx(confidence[row, column], abs=0.006)
        assert float(shown.value("sgbm").split()[0]) == pytest.approx(sgbm[row, column], abs=0.006)


def test_two_clicks_measure_a_distance(shown):
    depth = shown.array("depth.npy")
    points = []
    known = np.argwhere(np.isfinite(cv2.erode(np.where(np.isfinite(depth), depth, -np.inf), np.ones((5, 5)))))
    known = known[(np.abs(known[:, 1] - 240) > 40) & (known[:, 0] > 80)]  # beside the controls
    for y, x in (known[len(known) // 5], known[-len(known) // 5]):
        shown.hover(int(x), int(y), click=True)
        column, row = (int(word) for word in shown.value("pixel").split(", "))
        z = float(depth[row, column])
        points.append(np.array([(column - 239.5) / 420 * z, (row - 159.5) / 420 * z, z]))
    expected = float(np.linalg.norm(points[0] - points[1]))
    assert float(shown.value("distance").split()[0].replace(",", "")) == pytest.approx(expected, abs=2e-3)


def test_keys_move_the_cursor_and_the_slider(shown):
    canvas = shown.find("map")
    canvas.send_keys(Keys.ESCAPE)
    shown.hover(100, 100)
    column, row = (int(word) for word in shown.value("pixel").split(", "))
    canvas.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    assert shown.value("pixel") == f"{column + 2}, {row + 1}"
    divider = shown.find("divider")
    divider.send_keys(Keys.HOME)
    assert divider.get_attribute("aria-valuenow") == "0"
    divider.send_keys(Keys.END, Keys.PAGE_DOWN)
    assert divider.get_attribute("aria-valuenow") == "90"


def pixels(page: Page, name: str = "map") -> np.ndarray:
    """What a canvas shows."""
    script = "return document.getElementById(arguments[0]).toDataURL('image/png').split(',')[1]"
    data = base64.b64decode(page.driver.execute_script(script, name))
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)


def test_sgbm_can_be_put_beside(shown):
    shown.find("divider").send_keys(Keys.END)
    Select(shown.find("map-left")).select_by_value("left")
    np.testing.assert_array_equal(pixels(shown), cv2.imread(str(REEF / "left" / "clear.png")))
    Select(shown.find("map-left")).select_by_value("sgbm")
    low, high = (float(shown.find(name).get_attribute("value")) for name in ("low", "high"))
    sgbm = shown.array("sgbm.npy")
    levels = np.rint(np.clip((sgbm - low) / (high - low), 0, 1) * 255).astype(np.uint8)
    expected = cv2.applyColorMap(levels, cv2.COLORMAP_TURBO)
    assert np.abs(pixels(shown).astype(int) - expected).mean() < 2  # the shown range is rounded
    Select(shown.find("map-left")).select_by_value("left")


def test_colours_and_overlays_change_the_picture(shown):
    shown.find("divider").send_keys(Keys.HOME)
    before = pixels(shown)
    shown.set("high", "12")
    narrow = pixels(shown)
    assert (narrow != before).mean() > 0.05
    shown.find("auto").click()
    np.testing.assert_array_equal(pixels(shown), before)
    shown.find("overlay-occlusion").click()
    marked = (pixels(shown) != before).any(axis=2)
    np.testing.assert_array_equal(marked, shown.array("occlusion.npy").astype(bool))
    shown.find("overlay-occlusion").click()
    shown.find("overlay-confidence").click()
    confidence = shown.array("confidence.npy")
    assert pixels(shown)[confidence < 0.1].mean() < 0.3 * before[confidence < 0.1].mean()
    shown.find("overlay-confidence").click()
    Select(shown.find("map-right")).select_by_value("depth")
    assert shown.text("unit-text") == "m"
    Select(shown.find("map-right")).select_by_value("disparity")


def test_the_cloud_turns(shown):
    cloud = shown.find("cloud")
    shown.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", cloud)
    before, picture = cloud.get_attribute("data-view"), cloud.screenshot_as_png
    ActionChains(shown.driver).click_and_hold(cloud).move_by_offset(120, 30).release().perform()
    wait_until(lambda: cloud.get_attribute("data-view") != before)
    assert cloud.screenshot_as_png != picture
    dragged = cloud.get_attribute("data-view")
    cloud.send_keys(Keys.ARROW_LEFT)
    turned = cloud.get_attribute("data-view")
    assert float(turned.split()[0]) == pytest.approx(float(dragged.split()[0]) - 0.08, abs=1e-3)
    cloud.send_keys("r")
    assert cloud.get_attribute("data-view") == before


def test_the_confidence_slider_filters_the_cloud_and_the_file(shown):
    everything = int(shown.find("cloud").get_attribute("data-points"))
    shown.set("min-confidence", "0.6")
    left = int(shown.find("cloud").get_attribute("data-points"))
    assert 0 < left < everything
    assert shown.text("cloud-text").startswith(f"{left:,} of {everything:,} points")
    shown.driver.find_element(By.CSS_SELECTOR, "[data-file='cloud.ply']").click()
    file = shown.driver.downloads / "cloud.ply"
    wait_until(lambda: file.exists() and not list(shown.driver.downloads.glob("*.crdownload")))
    vertices = trimesh.load(file).vertices
    assert len(vertices) == left
    confidence, depth = shown.array("confidence.npy"), shown.array("depth.npy")
    kept = (depth_confidence(confidence, 420 * 0.12 / depth) >= 0.6) & ~shown.array("occlusion.npy").astype(bool)
    kept &= ~shown.array("edges.npy").astype(bool) & (depth <= 420 * 0.12)
    np.testing.assert_allclose(np.sort(vertices[:, 2]), np.sort(depth[kept]), rtol=1e-6)
    colours = Select(shown.find("cloud-colour"))
    for kind in ("depth", "confidence", "image"):
        before = shown.find("cloud").screenshot_as_png
        colours.select_by_value(kind)
        assert shown.find("cloud").screenshot_as_png != before
    shown.set("min-confidence", "0")


def test_times_and_files_are_listed(shown):
    times = shown.text("times")
    for stage in ("Reading", "Checking the pair", "Features", "Refinement", "Second view", "SGBM"):
        assert stage in times
    files = {link.get_attribute("data-file") for link in shown.find("files").find_elements(By.TAG_NAME, "a")}
    assert {"disparity.pfm", "disparity.npy", "disparity.png", "depth.png", "confidence.png", "cloud.ply"} <= files
    assert {"disparity_colour.png", "left.png", "sgbm.pfm", "calib.json", "all.zip"} <= files


def test_nothing_was_missing_and_nothing_was_blocked(shown):
    script = "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    assert all(name.startswith((shown.address, "blob:")) for name in shown.driver.execute_script(script))
    severe = [entry["message"] for entry in shown.driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert severe == []


@pytest.mark.parametrize("width", [360, 768, 1920])
def test_nothing_sticks_out_on_any_screen(shown, width):
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    shown.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        assert shown.driver.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        shown.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_colour_scheme_can_be_chosen(page):
    for scheme in ("light", "dark"):
        page.find("theme").click()
        assert page.driver.execute_script("return document.documentElement.dataset.scheme") == scheme
    colour = page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert max(int(value) for value in re.findall(r"\d+", colour)[:3]) < 60
    page.find("theme").click()


@pytest.fixture
def bad(tmp_path) -> dict[str, Path]:
    """Files that cannot be used."""
    (tmp_path / "prose.png").write_text("This is prose, not a picture.")
    (tmp_path / "small.png").write_bytes(png(np.zeros((64, 96, 3), np.uint8)))
    large = cv2.imencode(".png", np.zeros((10_000, 10_000), np.uint8), [cv2.IMWRITE_PNG_COMPRESSION, 1])[1]
    (tmp_path / "large.png").write_bytes(large.tobytes())
    return {path.stem: path for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("left", "right", "sentence"),
    [
        ("prose", "small", "The left image is not a PNG"),
        ("large", "large", "which is 100.0 megapixels"),
        ("small", "reef", "The left image is 96 x 64 px but the right image is 480 x 320 px"),
    ],
)
def test_bad_images_are_told(page, bad, left, right, sentence):
    bad["reef"] = REEF / "right" / "clear.png"
    page.choose(bad[left], bad[right])
    page.run()
    page.finish()
    assert sentence in page.text("error")
    assert "/tmp" not in page.text("error")


def test_a_swapped_pair_is_told_and_swapped_back(page):
    page.choose(REEF / "right" / "clear.png", REEF / "left" / "clear.png")
    page.driver.execute_script("document.getElementById('want-views').checked = false")
    page.set("iterations", "1")
    page.run()
    page.finish()
    assert "seem to be swapped" in page.text("notes")
    page.find("notes").find_element(By.TAG_NAME, "button").click()
    page.finish()
    wait_until(lambda: page.find("cloud").get_attribute("data-points"))
    assert not page.find("notes").is_displayed()


def test_a_request_can_be_cancelled(page, predictor, monkeypatch):
    cancelled = threading.Event()
    iterate = predictor.model.iterate

    def held(evidence, iterations, **settings):
        for state in iterate(evidence, iterations, **settings):
            yield state
            cancelled.wait()

    monkeypatch.setattr(predictor.model, "iterate", held)
    page.choose(REEF / "left" / "clear.png", REEF / "right" / "clear.png")
    page.set("iterations", "16")
    try:
        page.run()
        wait_until(lambda: "Iteration" in page.text("status"))
        page.find("cancel").click()
        wait_until(lambda: "Cancelled" in page.text("status"))
    finally:
        cancelled.set()
    wait_until(lambda: httpx.get(f"{page.address}v1/health").json()["queue"]["running"] == 0)
    assert page.find("run").is_enabled()


def test_side_by_side_and_example(page, tmp_path):
    both = np.hstack([cv2.imread(str(REEF / side / "clear.png"))[:96, :128] for side in ("left", "right")])
    cv2.imwrite(str(tmp_path / "both.png"), both)
    page.driver.execute_script("document.querySelector('input[name=layout][value=one]').click()")
    page.find("file-left").send_keys(str(tmp_path / "both.png"))
    wait_until(lambda: page.find("run").is_enabled())
    page.run()
    page.finish()
    assert page.text("status").startswith("128 x 96 px")
    page.driver.execute_script("document.querySelector('[data-example=reef]').click()")
    wait_until(lambda: page.text("status").startswith("480 x 320 px"))
    assert page.find("focal").get_attribute("value") == "420"


def test_a_server_that_has_gone_is_told(driver, predictor, tmp_path):
    with running(predictor, tmp_path) as client:
        page = Page(driver, f"{client.base_url}/")
        page.open()
        page.choose(REEF / "left" / "clear.png", REEF / "right" / "clear.png")
    page.run()
    page.finish()
    assert "The server cannot be reached" in page.text("error")
    wait_until(lambda: page.text("server-text") == "server is gone")


def test_the_page_asks_for_the_token(driver, predictor, tmp_path):
    token = "correct-horse-battery-staple"
    with running(predictor, tmp_path, token=token) as client:
        page = Page(driver, f"{client.base_url}/")
        page.open()
        page.choose(REEF / "left" / "clear.png", REEF / "right" / "clear.png")
        page.set("iterations", "1")
        page.run()
        wait_until(lambda: page.find("token-dialog").is_displayed())
        page.find("token-text").send_keys(token)
        page.find("token-ok").click()
        wait_until(lambda: page.text("status").startswith("480 x 320 px"))
        driver.execute_script("sessionStorage.clear()")
        driver.get("about:blank")
        page.address += f"#token={token}"
        page.open()
        assert "token" not in driver.current_url
        assert driver.execute_script("return sessionStorage.getItem('token')") == token
