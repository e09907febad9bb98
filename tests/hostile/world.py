"""A folder of valid inputs, and for every subcommand a command line that succeeds with them.

`BASELINES` holds one command line per subcommand; the hostile cases change one thing each. `{world}` stands for the
folder of the inputs, relative paths are in the folder of the case.
"""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import numpy as np
import torch

from linstereo.checkpoints.checkpoint import save_checkpoint
from linstereo.cli import main
from linstereo.files import make_parent
from linstereo.geometry.stereo_rig import StereoRig
from linstereo.model.presets import LinStereoConfig, build
from tests.data import layouts
from tests.data.camera_files import opencv_fields, write_opencv
from tests.data.sequences.test_videos import write_video
from tests.data.writers import write_pfm, write_rgb
from tests.synthesis.seastereo import fake_blender
from tests.training.tiny import write_folder

MODEL = {"feature_width": 16, "hidden": 16, "coarse_hidden": 0, "heads": 2, "levels": 2, "radius": 2}
RECIPE = """
preset = "compact"
batch = 1
steps = 1
crop = [32, 64]
iterations = 1
log_every = 1
checkpoint_every = 1
validation = []
validation_count = 1
[model]
feature_width = 16
hidden = 16
coarse_hidden = 0
heads = 2
levels = 2
radius = 2
"""

CAMERA = np.array([[80.0, 0, 48], [0, 80, 32], [0, 0, 1]])
RAW_CAMERAS = {
    "left_matrix": CAMERA,
    "right_matrix": CAMERA + np.array([[0, 0, 1.0], [0, 0, -0.5], [0, 0, 0]]),
    "rotation": np.eye(3),
    "translation": np.array([-0.1, 0.001, 0]),
    "width": 96,
    "height": 64,
}

_TRAINING = "--config={world}/recipe.toml --data=folder={world}/training --workers=0 --threads=1 --device=cpu --out=out"
SEA = "--trajectory=1 --focal=24 --baseline=65 --water=I --depth=shallow --iteration=1 --frames=1 --size=32x64"
BASELINES: dict[tuple[str, ...], str] = {
    ("predict",): "{world}/left.png {world}/right.png --model={world}/tiny.safetensors --device=cpu --out=out",
    ("track",): "{world}/frames/left {world}/frames/right --model={world}/tiny.safetensors --device=cpu "
    "--outputs=disparity --out=out",
    ("serve",): "--port=0 --check --model={world}/tiny.safetensors --device=cpu",
    ("rectify",): "{world}/left.png {world}/right.png --calib={world}/stereo.yml --out=out",
    ("synth",): "--out=out --count=1 --size=32x64 --workers=1",
    ("seastereo", "plan"): "--trajectory=1 --water=I",
    ("seastereo", "render"): f"--out=out {SEA} --blender={{world}}/fake/blender",
    ("seastereo", "verify"): "{world}/sea",
    ("tank", "target"): "--out=out",
    ("tank", "ground-truth"): "{world}/session --layout={world}/session/target/tags.json "
    "--mesh={world}/session/target/target.obj --out=out",
    ("tank", "render"): "--out=out --count=1 --size=96x128",
    ("train",): _TRAINING,
    ("confidence",): "--from={world}/tiny.safetensors --data=folder={world}/training --pairs=2 --steps=1 --device=cpu "
    "--out=out",
    ("ablate",): f"{_TRAINING} --table=components --rows=none --validation=folder={{world}}/training "
    "--from={world}/tiny.safetensors",
    ("evaluate",): "--benchmark=middlebury-q={world}/middlebury --limit=1 --no-pictures "
    "--model={world}/tiny.safetensors --iters=1 --device=cpu --out=out",
    ("benchmark",): "--model={world}/tiny.safetensors --size=64x96 --rounds=6 --warm-up=1 --only=methods --device=cpu "
    "--backend=torch --out=out",
    ("export",): "--model={world}/tiny.safetensors --iters=1 --out=tiny.onnx",
    ("submit",): "--benchmark=middlebury-q:trainingQ={world}/middlebury --name=Tiny --method=sgbm --seconds=1 "
    "--out=out",
    ("info",): "--preset=compact --size=64x96",
}

EXAMPLES = {
    "--backbone": "tiny.safetensors",
    "--calib": "calib.json",
    "--config": "recipe.toml",
    "--from": "tiny.safetensors",
    "--layout": "session/target/tags.json",
    "--mesh": "session/target/target.obj",
    "--model": "tiny.safetensors",
    "--rope-mesh": "session/target/target.stl",
    "LEFT": "left.png",
    "RIGHT": "right.png",
    "SOURCE": "clip.avi",
}
"""A valid file for each option or argument that takes one."""


RUNS: dict[str, tuple[str, ...]] = {
    "train": ("train",),
    "train-stopped": ("train",),
    "ablate": ("ablate",),
    "synth": ("synth",),
    "ground-truth": ("tank", "ground-truth"),
    "tank-render": ("tank", "render"),
    "submit": ("submit",),
    "track": ("track",),
}
"""Runs below `runs`, for cases that go on with a damaged one."""


def baseline(command: tuple[str, ...], world: Path | str) -> list[str]:
    """The valid command line of a subcommand."""
    return [*command, *(word.replace("{world}", str(world)) for word in BASELINES[command].split())]


def build_world(root: Path) -> Path:
    """Write all inputs, good and bad, below `root`."""
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (64, 96, 3), dtype=np.uint8)
    write_rgb(root / "left.png", image)
    write_rgb(root / "right.png", np.roll(image, -3, axis=1))
    for side, shift in (("left", 0), ("right", -3)):
        for number in range(2):
            write_rgb(make_parent(root / "frames" / side / f"{number}.png"), np.roll(image, shift + number, axis=1))
    write_video(root / "clip.avi", [np.hstack([image, np.roll(image, -3, axis=1)])] * 2, codec="MJPG")
    calibration = {"focal": 80.0, "baseline": 0.1, "cx": 48.0, "cy": 32.0}
    (root / "calib.json").write_text(json.dumps(calibration))
    write_opencv(root / "stereo.yml", opencv_fields(StereoRig(**RAW_CAMERAS)))
    (root / "recipe.toml").write_text(RECIPE)
    write_folder(root / "training", count=2)
    layouts.make_middlebury(root / "middlebury", sizes="Q")
    torch.manual_seed(0)
    model = build(LinStereoConfig(backbone="compact", start="correlation", **MODEL))
    save_checkpoint(model, root / "tiny.safetensors")
    session = ["tank", "render", "--out", str(root / "session"), "--count", "1", "--size", "480x640", "--seed", "4"]
    assert main(session) == 0
    fake_blender.install(root / "fake")
    sea = ["seastereo", "render", f"--out={root / 'sea'}", *SEA.split(), f"--blender={root / 'fake' / 'blender'}"]
    assert main(sea) == 0
    (root / "photos").mkdir()
    write_rgb(root / "photos" / "photo.png", image)
    (root / "meshes").mkdir()
    shutil.copy(root / "session/target/target.stl", root / "meshes/mesh.stl")
    _bad_inputs(root)
    for run, command in RUNS.items():
        words = [word.replace("--out=out", f"--out={root / 'runs' / run}") for word in baseline(command, root)]
        stopped = ["--set=steps=2", "--stop-after=1"] if run == "train-stopped" else []
        assert main([*words, *stopped]) == 0
    return root


def _bad_inputs(root: Path) -> None:
    bad = root / "bad"
    for folder in ("empty-folder", "files", "folder-of-text"):
        (bad / folder).mkdir(parents=True)
    os.mkfifo(bad / "fifo")
    (bad / "file").write_text("just a file\n")
    for ending in ("png", "obj", "stl", "json", "jpg"):
        (bad / "folder-of-text" / f"text.{ending}").write_text("this is prose\n")
    for option, name in EXAMPLES.items():
        good = root / name
        data = good.read_bytes()
        stem = option.strip("-")
        (bad / "files" / f"{stem}-empty{good.suffix}").write_bytes(b"")
        (bad / "files" / f"{stem}-text{good.suffix}").write_text("this is prose, not what was asked for\n")
        (bad / "files" / f"{stem}-truncated{good.suffix}").write_bytes(data[: len(data) // 2])
        (bad / "files" / f"{stem}-binary{good.suffix}").write_bytes(bytes(range(256)) * 4)
    shutil.copytree(root / "training", root / "nan")
    for file in (root / "nan" / "disparity").glob("*.pfm"):
        write_pfm(file, np.full((64, 96), np.nan, np.float32))


@dataclasses.dataclass(frozen=True)
class Entry:
    """What a snapshot keeps of a file."""

    mode: int
    size: int
    changed: int


def snapshot(folder: Path) -> dict[str, Entry]:
    """All files and folders below `folder`."""
    found = {}
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(base, name)  # noqa: PTH118 (names that are no UTF-8)
            state = os.lstat(path)
            isdir = name in folders
            found[os.path.relpath(path, folder)] = Entry(
                state.st_mode, 0 if isdir else state.st_size, 0 if isdir else state.st_mtime_ns
            )
    return found
