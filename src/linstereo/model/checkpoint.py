"""LinStereo checkpoints: one safetensors file with the trained weights and, in its header, the settings.

A frozen backbone is not repeated in every checkpoint: DA3 comes from its own official file, and a backbone that was
handed in is handed in again. The compact backbone is trained, so it is stored with the rest.
"""

import dataclasses
import json
import os
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from linstereo.errors import InputError
from linstereo.files import atomic_path
from linstereo.model.backbone import Backbone, CompactBackbone, DepthAnything3, load_da3_weights
from linstereo.model.checkpoint_file import check_weights, find_checkpoint, read_metadata, read_safetensors
from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import LinStereoConfig, build

FILE_NAME = "linstereo.safetensors"
FORMAT = "linstereo/1"
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


def load_checkpoint(
    name_or_path: str | os.PathLike[str],
    *,
    backbone_weights: str | os.PathLike[str] | None = None,
    backbone: Backbone | None = None,
) -> LinStereo:
    """Read a network back, in eval mode on the CPU; arguments as for `LinStereo.from_pretrained`."""
    file = find_checkpoint(name_or_path, file_name=FILE_NAME)
    found = read_safetensors(file)
    model = build(_read_config(read_metadata(file), file=file), backbone=backbone)
    weights = check_weights(found, stored_weights(model), file=file, wanted="a checkpoint written by save_pretrained")
    if backbone is None and isinstance(model.backbone, DepthAnything3):
        load_da3_weights(model.backbone, backbone_weights or OFFICIAL_BACKBONES[model.config.backbone])
    model.load_state_dict(weights, strict=False)
    return model.eval()


def _read_config(metadata: dict[str, str], *, file: Path) -> LinStereoConfig:
    if metadata.get("format") != FORMAT:
        raise InputError(
            f"{file} is not a LinStereo checkpoint (its header says format {metadata.get('format')!r} instead of "
            f"{FORMAT!r}); give one written by save_pretrained"
        )
    try:
        return LinStereoConfig(**json.loads(metadata["config"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file} has settings that cannot be used ({error}); write the checkpoint again") from error
