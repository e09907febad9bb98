"""Render the example: two pairs of the target under water, and a picture of their ground truth.

    python examples/tank/make.py examples/tank

The pairs are JPEG files, to be small. Needs the extra `synth`.
"""

import sys
from pathlib import Path

import numpy as np

from linstereo.data.formats.calibration_files import write_calibration
from linstereo.data.formats.images import write_image
from linstereo.tank.ground_truth import make_ground_truth, overlay
from linstereo.tank.scene import photograph_target, random_pose
from linstereo.tank.sheets import tag_sheets, write_sheets
from linstereo.tank.target import make_target, write_target
from linstereo.tank.views import ViewSettings
from linstereo.visualize import colourise

VIEWS = {"near": (3, "IB", (0.5, 0.6)), "far": (4, "1C", (1.1, 1.2))}
"""Seed, water and distance in metres of each pair."""


def main() -> None:
    """Write pairs, calibration, target and overview into the folder named on the command line."""
    root = Path(sys.argv[1])
    target = make_target()
    rig = ViewSettings(count=1, size=(480, 640)).rig
    write_target(root / "target", target)
    write_sheets(root / "target", tag_sheets(target))
    write_calibration(root / "calib.json", rig.calibration)
    rows = []
    for name, (seed, water, distance) in VIEWS.items():
        rng = np.random.default_rng(seed)
        pose = random_pose(rng, target, rig, distance=distance, tags=12)
        view = photograph_target(target, pose, rng, water_type=water, rig=rig)
        for side, image in (("left", view.left), ("right", view.right)):
            (root / side).mkdir(parents=True, exist_ok=True)
            if image is not None:
                write_image(root / side / f"{name}.jpg", image)
        truth = make_ground_truth(view.left, view.right, rig.calibration, target.layout, target.mesh)
        rows.append(
            np.hstack([view.left, overlay(view.left, truth), colourise(truth.depth, valid=truth.valid, reverse=True)])
        )
    write_image(root / "overview.jpg", np.vstack(rows))


if __name__ == "__main__":
    main()
