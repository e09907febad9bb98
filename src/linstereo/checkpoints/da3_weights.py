"""Official Depth Anything 3 weights: finding the file, checking it key by key, and loading it."""

import os
import re
from pathlib import Path

from linstereo.checkpoints.checkpoint_file import check_layout, read_header, read_weights
from linstereo.checkpoints.hub import find_checkpoint
from linstereo.errors import InputError
from linstereo.model.backbone.da3 import DepthAnything3

WEIGHTS_FILE = "model.safetensors"
HUB_NAMES = {"DA3-BASE": "depth-anything/DA3-BASE", "DA3-SMALL": "depth-anything/DA3-SMALL"}

# The official files put everything under `model.`, the transformer under `backbone.pretrained.`.
OFFICIAL_ROOT = "model."
OFFICIAL_VIT = "backbone.pretrained."
UNUSED_KEYS = re.compile(r"cam_enc\..+|cam_dec\..+|head\.scratch\.(refinenet[1-4]|output_conv[12])_aux\..+")
VARIANT_BY_DIM = {
    384: "DA3-SMALL (ViT-S)",
    768: "DA3-BASE (ViT-B)",
    1024: "DA3-LARGE (ViT-L)",
    1536: "DA3-GIANT (ViT-g)",
}


def resolve_checkpoint(name_or_path: str | os.PathLike[str]) -> Path:
    """The weights file behind a path or a hub name, downloaded if need be.

    name_or_path: a safetensors file, a folder with a `model.safetensors`, or a model of the Hugging Face hub
    such as "depth-anything/DA3-BASE", for short "DA3-BASE" or "DA3-SMALL". What exists on disk goes first.
    """
    return find_checkpoint(name_or_path, file_name=WEIGHTS_FILE, hub_names=HUB_NAMES)


def load_da3_weights(backbone: DepthAnything3, source: str | os.PathLike[str]) -> None:
    """Load official weights into `backbone`, in the precision and on the device it already has.

    source: as for `resolve_checkpoint`. Strict: every weight of the backbone must be there, finite and in its
    shape, and only the official ray and camera parts may be left over. Otherwise raises `InputError` and
    changes nothing.
    """
    file = resolve_checkpoint(source)
    shapes = read_header(file).shapes
    prefix = OFFICIAL_ROOT if all(key.startswith(OFFICIAL_ROOT) for key in shapes) else ""
    found = {key.removeprefix(prefix): shape for key, shape in shapes.items()}
    own = backbone.state_dict()
    expected = {official_key(key): tensor for key, tensor in own.items()}
    _check_variant(found, backbone=backbone, file=file)
    check_layout(
        found,
        expected,
        file=file,
        wanted=f"an official Depth Anything 3 {WEIGHTS_FILE} of {backbone.config.name}",
        unused=UNUSED_KEYS,
    )
    weights = read_weights(file, expected, prefix=prefix)
    backbone.load_state_dict({key: weights[official_key(key)] for key in own})


def official_key(key: str) -> str:
    """The official checkpoint's name, without its leading `model.`, of a key of our state dict."""
    return OFFICIAL_VIT + key.removeprefix("vit.") if key.startswith("vit.") else key


def _check_variant(found: dict[str, tuple[int, ...]], *, backbone: DepthAnything3, file: Path) -> None:
    token = found.get(OFFICIAL_VIT + "cls_token")
    dim = token[-1] if token else None
    if dim in VARIANT_BY_DIM and dim != backbone.config.dim:
        raise InputError(
            f"{file} holds the weights of {VARIANT_BY_DIM[dim]}, but this model is built on "
            f"{backbone.config.name}; give the weights of that one"
        )
