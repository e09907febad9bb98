"""Features of a frozen backbone, kept on disk.

Where the backbone is frozen, the same images always have the same features, and computing them is most of the work. A
file is found by what is in the images and in the backbone's weights, and by the precision of the arithmetic, so a
changed image, augmentation, backbone or precision can never meet old features. It pays only if images come again: a
recipe must limit the number of augmented variants of each pair (`variants`).
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from linstereo.checkpoints.checkpoint_file import read_safetensors
from linstereo.errors import InputError
from linstereo.files import atomic_path, make_parent
from linstereo.model.backbone import BackboneFeatures
from linstereo.runs import check_output_folder

_LEVELS = 3


class FeatureCache:
    """Features of one backbone.

    Args:
        folder: where the files are; several runs and processes may share it.
        backbone: the frozen backbone, a module.
    """

    def __init__(self, folder: Path, backbone: nn.Module) -> None:
        self._backbone = backbone
        self.folder = folder / _fingerprint(backbone)
        check_output_folder(self.folder)

    @contextlib.contextmanager
    def serving(self, keys: Sequence[str]) -> Iterator[None]:
        """The backbone takes features from the cache as long as the context lasts.

        Args:
            keys: one for each pair of the batch, as from `image_key`. The backbone must be called with the left images
                of all pairs, then the right ones.
        """
        compute = self._backbone.forward

        def forward(images: Tensor, *, depth_images: int = 0) -> BackboneFeatures:
            return self._features(images, keys, compute, with_depth=depth_images > 0)

        self._backbone.__dict__["forward"] = forward
        try:
            yield
        finally:
            del self._backbone.__dict__["forward"]

    def _features(
        self, images: Tensor, keys: Sequence[str], compute: Callable[..., BackboneFeatures], *, with_depth: bool
    ) -> BackboneFeatures:
        pairs = images.reshape(2, len(keys), *images.shape[1:])  # [2, B, 3, H, W]
        entries = [
            self._entry(key, pairs[:, i], compute, with_depth=with_depth) for i, key in enumerate(keys)
        ]  # every pair on its own, so that features do not depend on which pairs are in the cache already
        levels = [
            torch.stack([entry[f"level{level}"] for entry in entries], dim=1).flatten(0, 1) for level in range(_LEVELS)
        ]  # each [2 B, C, h, w]
        depth = torch.cat([entry["depth"] for entry in entries]) if with_depth else None
        return BackboneFeatures((levels[0], levels[1], levels[2]), depth)

    def _entry(
        self, key: str, pair: Tensor, compute: Callable[..., BackboneFeatures], *, with_depth: bool
    ) -> dict[str, Tensor]:
        """Stored features of one pair, [2, C, h, w] for each level; made and stored if they are not there."""
        suffix = f"{'-depth' if with_depth else ''}{_precision_suffix(pair.device.type)}"
        height, width = pair.shape[-2:]  # those of a coarse pass are smaller
        file = self.folder / key[:2] / f"{key}-{height}x{width}{suffix}.safetensors"
        if file.is_file():
            return {name: tensor.to(pair.device) for name, tensor in read_safetensors(file).items()}
        with torch.no_grad():
            features = compute(pair, depth_images=1 if with_depth else 0)
        entry = {f"level{level}": features.pyramid[level].contiguous() for level in range(_LEVELS)}
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
                f"features cannot be stored in {self.folder} ({reason}); free some space and go on, or train without "
                "the cache"
            ) from error


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


def _fingerprint(backbone: nn.Module) -> str:
    """From the weights and the kind of a backbone."""
    digest = hashlib.blake2b(type(backbone).__name__.encode(), digest_size=12)
    for name, tensor in sorted({**dict(backbone.named_parameters()), **dict(backbone.named_buffers())}.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
