"""Screenshots of `linstereo serve` for the documentation: docs/images/serve_desktop.png, _phone.png and _dark.png.

    python examples/page_pictures.py

Needs Chromium and its driver (Debian: chromium, chromium-driver) and the packages of the extra `dev`.
"""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
VIEWS = {
    "desktop": (1440, 1000, "light", "room"),
    "phone": (390, 844, "light", "reef"),
    "dark": (1440, 1000, "dark", "reef"),
}
"""Width and height of the window, px, the colour scheme, and the example."""
PATIENCE = 600  # s
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--hide-scrollbars",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
)


def main() -> None:
    """Start a server and take all pictures of it."""
    command = [sys.executable, "-m", "linstereo", "serve", "--port=0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        for name, (width, height, scheme, example) in VIEWS.items():
            picture = photograph(address, width=width, height=height, scheme=scheme, example=example)
            cv2.imwrite(str(IMAGES / f"serve_{name}.png"), few_colours(picture), [cv2.IMWRITE_PNG_COMPRESSION, 9])
    finally:
        server.terminate()
        server.wait()


def photograph(address: str, *, width: int, height: int, scheme: str, example: str) -> np.ndarray:
    """The page with the result of an example, uint8 [H, W, 3] BGR."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ARGUMENTS:
        options.add_argument(argument)
    driver = webdriver.Chrome(service=webdriver.ChromeService(shutil.which("chromedriver")), options=options)
    try:
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        driver.get(address)
        driver.find_element(By.CSS_SELECTOR, f".examples [data-example={example}]").click()
        wait = WebDriverWait(driver, PATIENCE)
        wait.until(lambda driver: driver.find_element(By.ID, "cloud").get_attribute("data-points"))
        if width < 600:  # where the maps and the cloud are
            driver.execute_script("document.querySelector('.maps').scrollIntoView()")
        canvas = driver.find_element(By.ID, "map")
        for x, y in ((0.62, 0.42), (0.8, 0.8)):
            driver.execute_script(CLICK, canvas, x, y)
        driver.execute_script("document.activeElement.blur()")
        time.sleep(1)
        return cv2.imdecode(np.frombuffer(driver.get_screenshot_as_png(), np.uint8), cv2.IMREAD_COLOR)
    finally:
        driver.quit()


CLICK = """
const [canvas, x, y] = arguments, box = canvas.getBoundingClientRect();
const place = {clientX: box.left + x * box.width, clientY: box.top + y * box.height, bubbles: true};
canvas.dispatchEvent(new PointerEvent("pointermove", place));
canvas.dispatchEvent(new MouseEvent("click", place));
"""


def few_colours(picture: np.ndarray) -> np.ndarray:
    """The same with 6 bits for each colour, which makes a PNG file half as large."""
    return (picture & 0xFC) | (picture >> 6)


if __name__ == "__main__":
    main()
