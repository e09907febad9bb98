"""Hostile cases written by hand: what no generic value finds."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.data.writers import write_rgb
from tests.hostile.cases import ACCEPTED, LONG, Case

SETTINGS = (
    "model.heads=0",
    "model.heads=-1",
    "model.heads=1000000",
    "model.hidden=0",
    "model.hidden=10000000",
    "model.hidden=1.5",
    "model.levels=0",
    "model.levels=1000000",
    "model.radius=100000000",
    "model.blocks=1000000",
    "model.iterations=1000000000",
    "model.mlp_ratio=nan",
    "model.mlp_ratio=inf",
    "model.mlp_ratio=1e300",
    "model.scales=4",
    "model.start=nowhere",
    "model.local_encoding=yes",
    "model.backbone=vitz",
    "model.nothing=1",
    "crop=100000x100000",
    "crop=0x0",
    "crop=33x64",
    "crop=-32x64",
    "crop=32",
    "crop=axb",
    "validation_crop=-1x-1",
    "validation_crop=1x1",
    f"seed={10**20}",
    "seed=-1",
    "seed=1.5",
    "seed=nan",
    "learning_rate=inf",
    "learning_rate=nan",
    "learning_rate=0",
    "learning_rate=-1",
    "learning_rate=1e300",
    "weight_decay=inf",
    "weight_decay=1e300",
    "clip_norm=0",
    "clip_norm=inf",
    "gamma=nan",
    "gamma=2",
    "warmup=1",
    "warmup=-0.1",
    "ema_decay=1",
    "ema_decay=nan",
    "steps=0",
    f"steps={10**20}",
    "steps=many",
    "batch=0",
    f"batch={10**20}",
    "batch=1e400",
    "accumulate=0",
    "accumulate=2",
    "iterations=-1",
    f"iterations={10**12}",
    f"warm_iterations={10**12}",
    "smoothness_weight=inf",
    "matching_weight=-1",
    "robust=nan",
    "max_disparity=-5",
    "max_disparity=0.000001",
    "log_every=0",
    "checkpoint_every=0",
    f"validation_count={10**20}",
    f"variants={10**20}",
    "objective=gradient",
    "optimizer=sgd",
    "precision=float8",
    "frozen=nothing",
    "frozen=backbone,cost_volumes,updater,motion_encoders,hidden_projection,residual_head,upsampler",
    "name=other",
    "preset=none",
    "preset=3",
    "model=3",
    "stage=3",
    "augmentation=3",
    "augmentation.nothing=3",
    "augmentation.crop_height=64",
    "augmentation.log2_scale=[0.4, -0.2]",
    "augmentation.log2_scale=[-1000, 1000]",
    "augmentation.log2_scale=[nan, nan]",
    "augmentation.log2_scale=0.1",
    "augmentation.log2_stretch=1e300",
    "augmentation.saturation=[1.4, 0.0]",
    "augmentation.gamma=[1.2, 0.8]",
    "augmentation.gamma=[0, 0]",
    "augmentation.gamma=[-1, 1]",
    "augmentation.eraser_size=[100, 50]",
    "augmentation.eraser_size=[-1, 50]",
    f"augmentation.eraser_count={10**20}",
    "augmentation.eraser_probability=2",
    "augmentation.brightness=-1",
    "augmentation.hue=inf",
    f"augmentation.vertical_jitter={10**20}",
    "validation=3",
    "training.batch=0",
    "training.nothing=1",
    "=3",
    "batch",
    "batch=" + "[" * 5000,
    "seed=" + "9" * 5000,
    "training.=1",
    "model.=1",
)
SOURCES = (
    "synth:height=0",
    "synth:height=999999,width=999999",
    "synth:underwater=nan",
    "synth:underwater=2",
    "synth:max_disparity=inf",
    "synth:count=-1",
    "synth:seed=-1",
    "synth:nothing=1",
    "synth:photos=missing",
    "synth:meshes={world}/bad/empty-folder",
    "folder=missing",
    "folder=",
    "folder",
    "=x",
    "0*folder={world}/training",
    "nan*folder={world}/training",
    "folder={world}/training:nosplit",
    "folder:nosplit={world}/training",
    "folder:={world}/training",
    "folder={world}/bad/folder-of-text",
    f"folder={LONG}",
    "kitti2015={world}/training",
)
BENCHMARKS = (
    "middlebury-q",
    "middlebury-q=",
    "=x",
    "middlebury-q:=x",
    "middlebury-q:nosplit={world}/middlebury",
    "middlebury-q=missing",
    "middlebury-q={world}/bad/file",
    "middlebury-q={world}/bad/fifo",
    f"middlebury-q={LONG}",
    "nothing={world}/middlebury",
    "kitti2015={world}/middlebury",
    "eth3d={world}/middlebury",
)


def written_cases() -> list[Case]:
    """All rows, with what they need in the folder of the case."""
    cases = [Case(f"train --set {text[:60]}", ("train",), ("--set", text)) for text in SETTINGS]
    cases += [Case(f"ablate --set {text[:60]}", ("ablate",), ("--set", text)) for text in SETTINGS[::4]]
    for option in ("--data", "--validation"):
        cases += [Case(f"train {option} {text[:60]}", ("train",), (option, text)) for text in SOURCES]
    for text in BENCHMARKS:
        cases.append(Case(f"submit --benchmark {text[:60]}", ("submit",), ("--benchmark", text)))
        cases += [Case(f"{c} --benchmark {text[:60]}", (c,), ("--benchmark", text)) for c in ("evaluate", "ablate")]
    return [*cases, *_rows()]


def _rows() -> list[Case]:
    train, evaluate, predict = ("train",), ("evaluate",), ("predict",)
    truth, render, ablate = ("tank", "ground-truth"), ("tank", "render"), ("ablate",)
    rows = [
        *[Case(f"{c} many threads", (c,), ("--threads=999999999",)) for c in ("train", "ablate", "evaluate")],
        Case("train on ground truth that is all NaN", train, ("--data=folder={world}/nan",), without="--data"),
        Case("train --set data=3", train, ("--set", "data=3"), without="--data"),
        Case("train --set data=[3]", train, ("--set", "data=[3]"), without="--data"),
        Case("train below all disparities", train, ("--set", "max_disparity=0.5")),
        Case("evaluate the same benchmark twice", evaluate, ("--benchmark=middlebury-q={world}/middlebury",)),
        Case("evaluate SGBM with a model", evaluate, ("--method=sgbm",)),
        Case("evaluate --scale nan", evaluate, ("--scale=nan",)),
        Case("predict the same image under two globs", predict, positional=(0, "{world}/*t.png")),
        Case("predict --focal alone", predict, ("--focal=80",)),
        Case("predict --focal with --calib", predict, ("--focal=80", "--baseline=1", "--calib={world}/calib.json")),
        Case("predict depth without calibration", predict, ("--outputs=depth",), prepare=_pair_alone),
        Case("submit with another name", ("submit",), ("--name=x/../../y",)),
        Case("submit without seconds", ("submit",), ("--method=folder:{world}/training",), without="--seconds"),
        Case("render a target too wide for the tank", render, ("--opening=5000", "--tag-size=500", "--tags=2")),
        Case("render another series into the folder", render, ("--seed=3",), prepare=_begun("tank-render")),
        Case("ground truth with an unreadable image", truth, positional=(0, "session"), prepare=_bad_session),
        Case("ground truth into its own source", truth, ("--out={world}/session",)),
        Case("ground truth without any accepted pair", truth, ("--max-depth-error=0.0001",)),
        Case("synth on a file of prose as photograph", ("synth",), ("--photos={world}/bad/folder-of-text",)),
        Case("synth into a folder of something else", ("synth",), prepare=_foreign),
        Case("train in a folder of something else", train, expected=ACCEPTED, prepare=_foreign),
        Case("features where a file is", train, (*_FROZEN, "--cache-features=out"), prepare=_file_in_the_way),
        *_resumed(train, "train", {
            "training.safetensors": ("empty", "text", "truncated", "binary", "other", "metadata", "shapes", "progress"),
        }),
        *_resumed(ablate, "ablate", {"components/none/variant.json": ("empty", "text", "list", "object", "deep")}),
        *_resumed(("synth",), "synth", {"settings.json": ("empty", "text", "list", "object", "deep")}),
        *_resumed(truth, "ground-truth", {"settings.json": ("empty", "text", "list", "object", "deep")}),
        *_resumed(render, "tank-render", {"views.json": ("empty", "text", "list", "object", "deep")}),
        *_resumed(("track",), "track", {
            "settings.json": ("empty", "text", "list", "object", "deep"),
            "frames.csv": ("text", "list", "binary", "deep", "numbers"),
        }),
        Case("track another sequence into the folder", ("track",), ("--fps=5",), prepare=_begun("track")),
        Case("track into a folder of something else", ("track",), prepare=_foreign),
        *(Case(f"track two videos: {kind}", ("track",), prepare=_videos(kind)) for kind in ("empty", "text", "binary")),
        Case("track depth without calibration", ("track",), ("--outputs=depth",)),
        Case("track with topics of no bag", ("track",), ("--left-topic=/left/image",)),
        *_resumed(("submit",), "submit", {"submission.json": ("text", "list", "object", "deep")}),
    ]  # fmt: skip
    for kind in ("empty", "text", "list", "binary", "numbers"):
        rows.append(
            Case(
                f"resume train with metrics.jsonl: {kind}",
                train,
                ("--set", "steps=2"),
                expected=ACCEPTED,
                prepare=_damaged("train-stopped", "metrics.jsonl", kind),
            )
        )
    rows += [Case(f"predict with a calibration: {name}", predict, ("--calib=calib.json",), prepare=_calib(text))
             for name, text in CALIBRATIONS.items()]  # fmt: skip
    rows += [Case(f"train by a recipe: {name}", train, ("--config=recipe.toml",), without="--data",
                  prepare=_recipe(text)) for name, text in RECIPES.items()]  # fmt: skip
    rows += [Case(f"predict with a checkpoint: {name}", predict, ("--model=bad.safetensors",),
                  prepare=_checkpoint(name)) for name in CHECKPOINTS]  # fmt: skip
    rows += [Case(f"train from a checkpoint: {name}", train, ("--from=bad.safetensors", "--config=finetune"),
                  prepare=_checkpoint(name)) for name in CHECKPOINTS]  # fmt: skip
    rows += [Case(f"ground truth with a layout: {name}", truth, ("--layout=tags.json",), prepare=_layout(text))
             for name, text in LAYOUTS.items()]  # fmt: skip
    rows += [Case(f"predict an image: {name}", predict, positional=(0, "bad.png"), prepare=_image(name))
             for name in IMAGES]  # fmt: skip
    return rows


_FROZEN = ("--set", "frozen=backbone", "--set", "variants=1")
CALIBRATIONS = {
    "list": "[]",
    "null": "null",
    "deep": "[" * 5000,
    "no baseline": '{"focal": 80, "cx": 1, "cy": 1}',
    "NaN": '{"focal": NaN, "baseline": 0.1, "cx": 1, "cy": 1}',
    "infinite": '{"focal": 1e400, "baseline": 0.1, "cx": 1, "cy": 1}',
    "negative": '{"focal": -80, "baseline": 0.1, "cx": 1, "cy": 1}',
    "zero baseline": '{"focal": 80, "baseline": 0, "cx": 1, "cy": 1}',
    "text": '{"focal": "80", "baseline": 0.1, "cx": 1, "cy": 1}',
    "boolean": '{"focal": true, "baseline": 0.1, "cx": 1, "cy": 1}',
    "huge integer": '{"focal": ' + "9" * 400 + ', "baseline": 0.1, "cx": 1, "cy": 1}',
}
RECIPES = {
    "not TOML": "batch = = 3",
    "deep": "batch = " + "[" * 5000,
    "huge number": "seed = " + "9" * 5000,
    "stage is a number": "stage = 3",
    "no stage": "stage = []",
    "two stages of one name": 'preset = "compact"\n[[stage]]\nname = "a"\n[[stage]]\nname = "a"',
    "stage named as a field": 'preset = "compact"\n[[stage]]\nname = "batch"',
    "stage named as a path": 'preset = "compact"\n[[stage]]\nname = "../x"',
    "null byte in a source": 'preset = "compact"\ndata = ["folder=a\\u0000b"]',
    "null byte in a frozen part": 'preset = "compact"\nfrozen = ["a\\u0000b"]',
    "dates": "batch = 1979-05-27",
    "model is a list": "model = [1]",
    "unknown field": "bach = 3",
}
CHECKPOINTS = ("other format", "no settings", "nested settings", "heads 0", "NaN ratio", "wide", "blocks", "iterations",
               "string for boolean", "missing tensor", "wrong shape", "NaN weights")  # fmt: skip
LAYOUTS = {
    "list": "[]",
    "deep": "[" * 5000,
    "no tags": '{"tags": []}',
    "text": '{"tags": [{"id": 0, "size": 0.04, "corners": "abc"}]}',
    "NaN": '{"tags": [{"id": 0, "size": NaN, "corners": [[0,0,0],[1,0,0],[1,1,0],[0,1,0]]}]}',
    "ragged": '{"tags": [{"id": 0, "size": 0.04, "corners": [[0,0],[1,0,0]]}]}',
    "huge id": '{"tags": [{"id": ' + "9" * 30 + ', "size": 0.04, "corners": [[0,0,0],[1,0,0],[1,1,0],[0,1,0]]}]}',
}
IMAGES = ("one pixel", "other size", "bomb", "header only")


def _pair_alone(world: Path, case: Path) -> list[str]:
    for side in ("left", "right"):
        shutil.copy(world / f"{side}.png", case / f"{side}.png")
    return ["left.png", "right.png"]


def _begun(run: str) -> Callable[[Path, Path], None]:
    """Start from the folder that the baseline of a command leaves."""
    return lambda world, case: shutil.copytree(world / "runs" / run, case / "out") and None


def _resumed(command: tuple[str, ...], run: str, files: dict[str, tuple[str, ...]]) -> list[Case]:
    return [
        Case(f"resume {' '.join(command)} with {file}: {kind}", command, prepare=_damaged(run, file, kind))
        for file, kinds in files.items()
        for kind in kinds
    ]


def _damaged(run: str, file: str, kind: str) -> Callable[[Path, Path], None]:
    def prepare(world: Path, case: Path) -> None:
        shutil.copytree(world / "runs" / run, case / "out")
        damage(case / "out" / file, kind, world=world)

    return prepare


def _videos(kind: str) -> Callable[[Path, Path], list[str]]:
    """Two damaged videos instead of two folders."""

    def prepare(world: Path, case: Path) -> list[str]:
        for name in ("l.avi", "r.avi"):
            shutil.copy(world / "clip.avi", case / name)
            damage(case / name, kind, world=world)
        return ["l.avi", "r.avi"]

    return prepare


def damage(file: Path, kind: str, *, world: Path) -> None:
    """Replace a file by a damaged one."""
    data = file.read_bytes()
    plain = {
        "empty": b"",
        "text": b"this is prose\n",
        "truncated": data[: len(data) // 2],
        "binary": bytes(range(256)) * 8,
        "list": b"[1, 2, 3]\n",
        "object": b"{}\n",
        "deep": b"[" * 5000,
        "numbers": b'5\nnull\n"x"\n{"step": "x"}\n{"step": 1e400}\n',
    }
    if kind in plain:
        file.write_bytes(plain[kind])
    elif kind == "other":
        shutil.copy(world / "tiny.safetensors", file)
    else:
        with safe_open(file, "pt") as opened:
            metadata = opened.metadata()
        tensors = load_file(file)
        if kind == "metadata":
            del metadata["recipe"]
        elif kind == "progress":
            metadata["progress"] = '{"stage": "x", "steps": []}'
        elif kind == "shapes":
            tensors = {name: torch.zeros(3) for name in tensors}
        save_file(tensors, file, metadata=metadata)


def _foreign(_world: Path, case: Path) -> None:
    (case / "out").mkdir()
    (case / "out" / "thesis.tex").write_text("years of work")


def _file_in_the_way(_world: Path, case: Path) -> None:
    (case / "out").write_text("")


def _bad_session(world: Path, case: Path) -> None:
    shutil.copytree(world / "session", case / "session")
    (case / "session/left/0000.png").write_bytes((world / "session/left/0000.png").read_bytes()[:5000])


def _calib(text: str) -> Callable[[Path, Path], None]:
    return lambda _world, case: (case / "calib.json").write_text(text) and None


def _recipe(text: str) -> Callable[[Path, Path], None]:
    return lambda _world, case: (case / "recipe.toml").write_text(text) and None


def _layout(text: str) -> Callable[[Path, Path], None]:
    return lambda _world, case: (case / "tags.json").write_text(text) and None


def _image(kind: str) -> Callable[[Path, Path], None]:
    def prepare(world: Path, case: Path) -> None:
        file = case / "bad.png"
        if kind == "header only":
            file.write_bytes((world / "left.png").read_bytes()[:33])
            return
        height, width = {"one pixel": (1, 1), "other size": (64, 100), "bomb": (40, 99_000)}[kind]
        write_rgb(file, np.zeros((height, width, 3), np.uint8))

    return prepare


def _checkpoint(kind: str) -> Callable[[Path, Path], None]:
    changes = {
        "heads 0": {"heads": 0},
        "NaN ratio": {"mlp_ratio": float("nan")},
        "wide": {"hidden": 10**7},
        "blocks": {"blocks": 10**6},
        "iterations": {"iterations": 10**9},
        "string for boolean": {"local_encoding": "yes"},
    }

    def prepare(world: Path, case: Path) -> None:
        tensors = load_file(world / "tiny.safetensors")
        with safe_open(world / "tiny.safetensors", "pt") as opened:
            metadata = dict(opened.metadata())
        if kind in changes:
            metadata["config"] = json.dumps({**json.loads(metadata["config"]), **changes[kind]})
        elif kind == "other format":
            metadata["format"] = "something-else/1"
        elif kind == "no settings":
            del metadata["config"]
        elif kind == "nested settings":
            metadata["config"] = "[" * 5000
        elif kind == "missing tensor":
            tensors.pop(next(iter(tensors)))
        elif kind == "wrong shape":
            tensors = {name: tensor.flatten() for name, tensor in tensors.items()}
        else:
            tensors = {name: torch.full_like(tensor, float("nan")) for name, tensor in tensors.items()}
        save_file(tensors, case / "bad.safetensors", metadata=metadata)

    return prepare


def unique(cases: list[Case]) -> list[Case]:
    """The cases with names that differ."""
    seen: dict[str, int] = {}
    named = []
    for case in cases:
        number = seen[case.name] = seen.get(case.name, 0) + 1
        named.append(case if number == 1 else replace(case, name=f"{case.name} ({number})"))
    return named
