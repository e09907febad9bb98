"""LinStereo checkpoints: one safetensors file with the trained weights and, in its header, the settings.

A frozen backbone is not repeated in every checkpoint: DA3 comes from its own official file, and a backbone that was
handed in is handed in again. The compact backbone is trained, so it is stored with the rest.
"""

import dataclasses
import json
import os
import reprlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from linstereo.checkpoints.checkpoint_file import check_layout, read_header, read_weights
from linstereo.checkpoints.da3_weights import load_da3_weights
from linstereo.checkpoints.hub import find_checkpoint
from linstereo.errors import InputError
from linstereo.files import atomic_path
from linstereo.model.backbone import Backbone, CompactBackbone, DepthAnything3
from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import PRESETS, LinStereoConfig, build

FILE_NAME = "linstereo.safetensors"
FORMAT = "linstereo/1"
BUNDLED = "compact"  # the preset whose trained weights are part of the package
BACKBONE_PREFIX = "backbone."
OFFICIAL_BACKBONES = {"vitb": "DA3-BASE", "vits": "DA3-SMALL"}


def save_checkpoint(model: LinStereo, path: str | os.PathLike[str], *, dtype: torch.dtype | None = None) -> Path:
    """Write a network's weights and settings; the file appears whole or not at all.

    `dtype` stores the weights in another precision, such as `torch.float16` for half the size; a network that is
    loaded from such a file computes in single precision all the same.
    """
    weights = {key: tensor.detach().to("cpu", dtype).contiguous() for key, tensor in stored_weights(model).items()}
    metadata = {"format": FORMAT, "config": json.dumps(dataclasses.asdict(model.config))}
    target = Path(path)
    with atomic_path(target) as temporary:
        save_file(weights, temporary, metadata=metadata)
    return target


def stored_weights(model: LinStereo) -> dict[str, Tensor]:
    """What of a network belongs into its checkpoint."""
    with_backbone = isinstance(model.backbone, CompactBackbone)
    return {k: v for k, v in model.state_dict().items() if with_backbone or not k.startswith(BACKBONE_PREFIX)}


def find_model(name_or_path: str | os.PathLike[str]) -> Path:
    """The checkpoint behind a file, a folder that holds `linstereo.safetensors`, a hub repository, or `compact`.

    `compact` is the trained model that is part of the package, unless a file or a run of that name is there.
    """
    return bundled_weights() if is_bundled(name_or_path) else find_checkpoint(name_or_path, file_name=FILE_NAME)


def is_bundled(name_or_path: str | os.PathLike[str]) -> bool:
    """Whether a name stands for the trained model that is part of the package."""
    path = Path(name_or_path)
    return str(name_or_path) == BUNDLED and not (path.is_file() or (path / FILE_NAME).is_file())


def is_random_preset(name_or_path: str | os.PathLike[str]) -> bool:
    """Whether a name stands for a preset without trained weights: not the bundled model, and nothing on disk."""
    return str(name_or_path) in PRESETS and not is_bundled(name_or_path) and not Path(name_or_path).exists()


def bundled_weights() -> Path:
    """The file of the trained weights that are part of the package."""
    return Path(str(resources.files("linstereo").joinpath("weights", f"{BUNDLED}.safetensors")))


def read_config(
    name_or_path: str | os.PathLike[str], *, backbone: Backbone | None = None
) -> tuple[LinStereoConfig, Path]:
    """The settings of a checkpoint, checked against the shapes of its weights, and its file.

    Only the header is read and nothing is allocated for a network, so that damaged or forged settings cost nothing.
    """
    file = find_model(name_or_path)
    header = read_header(file)
    if header.metadata.get("format") != FORMAT:
        raise InputError(
            f"{file} is not a LinStereo checkpoint (its header says format "
            f"{reprlib.repr(header.metadata.get('format'))} instead of {FORMAT!r}); give one written by save_pretrained"
        )
    config = parse_config(header.metadata.get("config", ""), file=file)
    check_shapes(header.shapes, config, backbone=backbone, file=file, wanted="a checkpoint written by save_pretrained")
    return config, file


def check_shapes(
    shapes: Mapping[str, tuple[int, ...]],
    config: LinStereoConfig,
    *,
    backbone: Backbone | None,
    file: Path,
    wanted: str,
) -> None:
    """Raise `InputError` unless weights have the names and shapes of the network that settings describe.

    The network is built without memory behind it; `file` and `wanted` are for the message, see `check_layout`.
    """
    with torch.device("meta"):
        skeleton = build(config, backbone=backbone)
    check_layout(shapes, stored_weights(skeleton), file=file, wanted=wanted)


def parse_config(text: str, *, file: Path) -> LinStereoConfig:
    """Settings from JSON, every one of them checked; those that are not there have their default value."""
    try:
        values = json.loads(text)
        known = {field.name for field in dataclasses.fields(LinStereoConfig)}
        if not isinstance(values, dict):
            raise InputError("they are not a JSON object")
        if unknown := [name for name in values if name not in known]:
            raise InputError(f"there is no setting {reprlib.repr(unknown[0])}")
        return LinStereoConfig(**values)
    except (ValueError, RecursionError) as error:
        reason = error if isinstance(error, InputError) else "they are not valid JSON"
        raise InputError(f"{file} has settings that cannot be used ({reason}); write the checkpoint again") from error


def load_checkpoint(
    name_or_path: str | os.PathLike[str],
    *,
    backbone_weights: str | os.PathLike[str] | None = None,
    backbone: Backbone | None = None,
) -> LinStereo:
    """Read a network back, in eval mode on the CPU; arguments as for `LinStereo.from_pretrained`."""
    config, file = read_config(name_or_path, backbone=backbone)
    model = build(config, backbone=backbone)
    weights = read_weights(file, stored_weights(model))
    if backbone is None and isinstance(model.backbone, DepthAnything3):
        load_da3_weights(model.backbone, backbone_weights or OFFICIAL_BACKBONES[model.config.backbone])
    model.load_state_dict(weights, strict=False)
    return model.eval()
