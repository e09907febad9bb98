"""Features of a frozen backbone, kept on disk.

Where the backbone is frozen, the same images always have the same features, and computing them is most of the work. A
file is found by what is in the images and in the backbone's weights, and by the precision of the arithmetic, so a
changed image, augmentation, backbone or precision can never meet old features. It pays only if images come again: a
recipe must limit the number of augmented variants of each pair (`variants`).
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from linstereo.checkpoints.checkpoint_file import read_safetensors
from linstereo.errors import InputError
from linstereo.files import atomic_path, make_parent
from linstereo.model.backbone import Backbone, BackboneFeatures
from linstereo.model.strides import STRIDES
from linstereo.runs import check_output_folder


class FeatureCache:
    """Features of one backbone.

    Args:
        folder: where the files are; several runs and processes may share it.
        backbone: the frozen backbone, a module.
    """

    def __init__(self, folder: Path, backbone: Backbone) -> None:
        self.backbone = backbone
        self.folder = folder / _fingerprint(backbone)
        check_output_folder(self.folder)

    def features(self, key: str, pair: Tensor, *, with_depth: bool) -> dict[str, Tensor]:
        """Features of one pair [2, 3, H, W], [2, C, h, w] for each level; made and stored if they are not there."""
        suffix = f"{'-depth' if with_depth else ''}{_precision_suffix(pair.device.type)}"
        height, width = pair.shape[-2:]  # those of a coarse pass are smaller
        file = self.folder / key[:2] / f"{key}-{height}x{width}{suffix}.safetensors"
        if file.is_file():
            return {name: tensor.to(pair.device) for name, tensor in read_safetensors(file).items()}
        with torch.no_grad():
            features = self.backbone(pair, depth_images=1 if with_depth else 0)
        entry = {f"level{level}": feature.contiguous() for level, feature in enumerate(features.pyramid)}
        if features.depth is not None:
            entry["depth"] = features.depth.contiguous()
        self._store(file, entry)
        return entry

    def _store(self, file: Path, entry: dict[str, Tensor]) -> None:
        try:
            with atomic_path(make_parent(file)) as temporary:
                save_file({name: tensor.cpu() for name, tensor in entry.items()}, temporary)
        except (OSError, SafetensorError, InputError) as error:
            reason = " ".join(str(error).split()).split(";")[0]
            raise InputError(
                f"features cannot be stored in {self.folder} ({reason}); free some space and resume, or train without "
                "the cache"
            ) from error


class CachedBackbone:
    """Stands in for the backbone of a cache while a batch is worked on; a `Backbone`.

    Args:
        cache: where the features are.
        keys: one for each pair of the batch, as from `image_key`. It must be called with the left images of all pairs,
            then the right ones.
    """

    def __init__(self, cache: FeatureCache, keys: Sequence[str]) -> None:
        self.cache, self.keys = cache, keys
        self.channels, self.has_depth = cache.backbone.channels, cache.backbone.has_depth

    def __call__(self, images: Tensor, *, depth_images: int = 0) -> BackboneFeatures:
        """See `Backbone.__call__`; depth is that of all left images, or of none."""
        pairs = images.reshape(2, len(self.keys), *images.shape[1:])  # [2, B, 3, H, W]
        entries = [
            self.cache.features(key, pairs[:, i], with_depth=depth_images > 0) for i, key in enumerate(self.keys)
        ]  # every pair on its own, so that features do not depend on which pairs are in the cache already
        fine, middle, coarse = (
            torch.stack([entry[f"level{level}"] for entry in entries], dim=1).flatten(0, 1)
            for level in range(len(STRIDES))
        )  # each [2 B, C, h, w]
        depth = torch.cat([entry["depth"] for entry in entries]) if depth_images else None
        return BackboneFeatures((fine, middle, coarse), depth)


def image_key(left: Any, right: Any) -> str:
    """A key for a pair of uint8 arrays of one size, from their content."""
    digest = hashlib.blake2b(repr(left.shape).encode(), digest_size=20)
    digest.update(left.tobytes())
    digest.update(right.tobytes())
    return digest.hexdigest()


def _precision_suffix(device_type: str) -> str:
    """What a file's name says about the arithmetic: nothing if it is that of the weights, else autocast's type."""
    if not torch.is_autocast_enabled(device_type):
        return ""
    return f"-{torch.get_autocast_dtype(device_type)}".replace("torch.", "")


def _fingerprint(backbone: Backbone) -> str:
    """From the weights and the kind of a backbone."""
    assert isinstance(backbone, nn.Module)
    digest = hashlib.blake2b(type(backbone).__name__.encode(), digest_size=12)
    for name, tensor in sorted({**dict(backbone.named_parameters()), **dict(backbone.named_buffers())}.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
