"""A model made ready to predict, from whatever names it: a checkpoint, a preset, a hub repository, an exported file."""

import os

import torch

from linstereo.backends.engine import BACKENDS, BackendName, Engine
from linstereo.backends.graph_engine import GraphEngine
from linstereo.backends.onnx_file import SUFFIX, read_onnx
from linstereo.checkpoints.checkpoint import BUNDLED, bundled_weights, is_bundled, is_random_preset
from linstereo.checkpoints.da3_weights import load_da3_weights
from linstereo.errors import InputError
from linstereo.model.backbone import DepthAnything3
from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import build, preset
from linstereo.predictor import StereoPredictor


def load(
    name_or_path: str | os.PathLike[str] | None = None,
    *,
    device: str | torch.device | None = None,
    backbone_weights: str | os.PathLike[str] | None = None,
    precision: str = "float32",
    backend: BackendName | None = None,
) -> StereoPredictor:
    """Get a model ready to predict.

    Args:
        name_or_path: a checkpoint file or folder, a hub repository, or a preset's name. None and `compact` stand for
            the trained model that is part of the package; all other presets have random weights, for measuring and
            testing, and `trained` of the result is then False. Also a file of `linstereo export` (.onnx).
        device: where to run, see `StereoPredictor`.
        backbone_weights: official DA3 weights for the frozen backbone, a path or hub name; from the hub by default.
        precision: of the arithmetic, see `StereoPredictor`.
        backend: what runs the network: "torch", "onnx" (ONNX Runtime) or "openvino"; by default PyTorch, and ONNX
            Runtime for a .onnx file. Other models than files are converted when they are first run.
    """
    if backend not in (None, *BACKENDS):
        raise InputError(f"the backend is {backend!r}; use {' or '.join(BACKENDS)}")
    if name_or_path is not None and str(name_or_path).lower().endswith(SUFFIX):
        if backend == "torch" or backbone_weights is not None:
            what = "backend torch" if backend == "torch" else "backbone weights"
            raise InputError(f"{name_or_path} is an exported model; leave out the {what}, or give its checkpoint")
        file = read_onnx(name_or_path)
        threads = torch.get_num_threads()
        engine = GraphEngine(file, backend=backend or "onnx", threads=threads, precision=precision)
        return StereoPredictor(engine, device=device, trained=file.trained, name=str(name_or_path), precision=precision)
    name = BUNDLED if name_or_path is None else str(name_or_path)
    bundled = name_or_path is None or is_bundled(name_or_path)
    random = not bundled and is_random_preset(name)
    if random:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = build(preset(name))
    else:
        model = LinStereo.from_pretrained(bundled_weights() if bundled else name, backbone_weights=backbone_weights)
    if backbone_weights is not None:
        if not isinstance(model.backbone, DepthAnything3):
            raise InputError(f"the model {name!r} has a backbone of its own; leave out the backbone weights")
        if random:
            load_da3_weights(model.backbone, backbone_weights)
    runs: LinStereo | Engine = model
    if backend in ("onnx", "openvino"):
        runs = GraphEngine(model.eval(), backend=backend, threads=torch.get_num_threads(), precision=precision)
    return StereoPredictor(
        runs,
        device=device,
        trained=not random,
        name=f"{name} (bundled)" if bundled else name,
        precision=precision,
    )
