"""Run an exported model without PyTorch: `pip install numpy opencv-python-headless onnxruntime` is all that it needs.

    linstereo export --out linstereo.onnx                       # once, on any machine
    python examples/run_onnx.py linstereo.onnx left.png right.png disparity.png

The pair must be rectified. The result is a 16-bit PNG of the disparity times 256, in pixels of the left image, up
to 255.99 px.
"""

import json
import sys

import cv2
import numpy as np
import onnxruntime


def main(model: str, left_name: str, right_name: str, out: str) -> None:
    """Predict one pair."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map
    config = json.loads(facts["config"])
    left, right = (cv2.cvtColor(cv2.imread(name), cv2.COLOR_BGR2RGB) for name in (left_name, right_name))
    height, width = left.shape[:2]

    # Small images are enlarged to the size the model likes, to multiples of what it pads to.
    scale = min((int(facts["working_pixels"]) / (height * width)) ** 0.5, 2.0)
    if scale > 1:
        step = int(facts["padded_to"])
        size = [max(round(scale * side / step), -(-side // step)) * step for side in (width, height)]
        left, right = (cv2.resize(image, size, interpolation=cv2.INTER_CUBIC) for image in (left, right))
    inputs = {"left": left, "right": right}
    if any(given.name == "tolerance" for given in session.get_inputs()):
        # With the output "confidence": by how many px of these images a disparity may be off and still be right.
        inputs["tolerance"] = np.array([left.shape[1] / width], np.float32)
    if config["start"] == "depth_prior":
        # x, y and disparity of sparse matches, [K, 3]; linstereo.geometry.sparse_matches finds some, without PyTorch.
        # Without any, refinement starts from zero disparity.
        inputs["matches"] = np.zeros((0, 3), np.float32)

    disparity = session.run(["disparity"], inputs)[0]
    if config["sharp_steps"]:  # what is blended between two surfaces goes to the one it differs from less
        nearer, farther = (method(disparity, np.ones((3, 3), np.uint8)) for method in (cv2.dilate, cv2.erode))
        above, below = nearer - disparity, disparity - farther
        blended = (above + below > np.maximum(4, 0.1 * disparity)) & (np.minimum(above, below) > 1)
        disparity = np.where(blended, np.where(above < below, nearer, farther), disparity)
    if scale > 1:  # back to the size of the images, without mixing surfaces at steps
        methods = (cv2.INTER_LINEAR, cv2.INTER_NEAREST_EXACT)
        factor = width / left.shape[1]
        between, nearest = (cv2.resize(disparity, (width, height), interpolation=m) * factor for m in methods)
        disparity = np.where(np.abs(between - nearest) > 0.5, nearest, between)
    cv2.imwrite(out, np.clip(np.round(disparity * 256), 0, 65535).astype(np.uint16))
    print(f"{out}: {disparity.min():.2f} to {disparity.max():.2f} px, T = {facts['iterations']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
