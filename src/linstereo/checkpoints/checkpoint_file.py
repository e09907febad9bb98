"""Reading and checking weights in safetensors files, the only kind of checkpoint the package opens.

Pickled checkpoints can run code when they are read, so they are recognised and refused, never opened.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from linstereo.errors import InputError
from linstereo.files import readable

# A safetensors file is: header length (8 bytes, little endian), JSON header, tensor data.
LENGTH_BYTES = 8
LONGEST_HEADER = 4 << 20  # bytes; about 40 times that of DA3-BASE, and cheap to parse
PICKLE_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle")
PICKLE_MAGIC = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
LFS_MAGIC = b"version https://git-lfs"
WEIGHT_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class Header(NamedTuple):
    """What a safetensors file says about itself, known without reading a tensor.

    metadata: text entries.
    shapes: of all tensors, by name.
    precisions: how their numbers are stored, such as ["F16"], sorted.
    """

    metadata: dict[str, str]
    shapes: dict[str, tuple[int, ...]]
    precisions: list[str]


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read the header of a safetensors file; it costs little memory whatever the file claims to hold.

    A file that is missing, unreadable, cut short, a pipe, a pickle or of any other kind raises `InputError`.
    """
    file = Path(path)
    with readable(file), file.open("rb") as stream:
        size = file.stat().st_size
        start = stream.read(max(LENGTH_BYTES + 1, len(LFS_MAGIC)))
        length = int.from_bytes(start[:LENGTH_BYTES], "little")
        # The brace comes first: a header length may happen to begin with the bytes of a pickle.
        if length > LONGEST_HEADER or start[LENGTH_BYTES : LENGTH_BYTES + 1] != b"{":
            raise InputError(_what_it_is_instead(file, start))
        stream.seek(LENGTH_BYTES)
        content = stream.read(min(length, size))
    whole = LENGTH_BYTES + length
    if len(content) == length:
        header, data_length = _parse_header(content, file=file)
        whole += data_length
    if size < whole:
        raise InputError(f"{file} is cut short: it holds {size} bytes of at least {whole}; download or copy it again")
    return header


def check_layout(
    found: Mapping[str, tuple[int, ...]],
    expected: Mapping[str, Tensor],
    *,
    file: Path,
    wanted: str,
    unused: re.Pattern[str] | None = None,
) -> None:
    """Raise `InputError` unless a file's tensors are those of a network, by name and shape.

    Args:
        found: shapes of the tensors in `file`.
        expected: a tensor of the right shape for every key that must be there; it may be without memory (meta).
        file: named in errors.
        wanted: what the user should give instead, in errors.
        unused: keys that may be left over; any other surplus key is an error.
    """
    if missing := [key for key in expected if key not in found]:
        raise InputError(f"{file} lacks {_some(missing)} of the {len(expected)} weights needed; give {wanted}")
    surplus = [key for key in found if key not in expected and not (unused and unused.fullmatch(key))]
    if surplus:
        raise InputError(f"{file} has weights that do not belong to this model: {_some(surplus)}; give {wanted}")
    for key, tensor in expected.items():
        if found[key] != tuple(tensor.shape):
            raise InputError(f"{file} has {key} in shape {found[key]} instead of {tuple(tensor.shape)}; give {wanted}")


def read_weights(file: Path, names: Iterable[str], *, prefix: str = "") -> dict[str, Tensor]:
    """The tensors `prefix + name` of a file that `read_header` accepts, by name, checked to be finite numbers."""
    stored = read_safetensors(file, [prefix + name for name in names])
    weights = {key.removeprefix(prefix): tensor for key, tensor in stored.items()}
    for key, tensor in weights.items():
        if tensor.dtype not in WEIGHT_DTYPES:
            raise InputError(
                f"{file} has {key} as {str(tensor.dtype).removeprefix('torch.')}; "
                "give floating-point weights of 16 bits or more"
            )
        if not tensor.isfinite().all():
            raise InputError(f"{file} has NaN or infinite values in {key}; download or export the checkpoint again")
    return weights


def read_safetensors(path: str | os.PathLike[str], names: Iterable[str] | None = None) -> dict[str, Tensor]:
    """Read tensors of a safetensors file, by name, on the CPU and in the precision they are stored in.

    `names` are those to read, by default all. What `read_header` refuses and a damaged file raise `InputError`.
    """
    file = Path(path)
    wanted = read_header(file).shapes if names is None else names
    try:
        with readable(file), safe_open(file, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in wanted}
    except SafetensorError as error:
        raise _damaged(file, " ".join(str(error).split())) from error


def _parse_header(content: bytes, *, file: Path) -> tuple[Header, int]:
    """The header, and how many bytes of tensor data it announces."""
    try:
        entries = json.loads(content)
        metadata = entries.pop("__metadata__", None) or {}
        shapes = {name: tuple(entry["shape"]) for name, entry in entries.items()}
        ends = [entry["data_offsets"][1] for entry in entries.values()]
        precisions = sorted({str(entry["dtype"]) for entry in entries.values()})
        numbers = [*ends, *(side for shape in shapes.values() for side in shape)]
        good = all(isinstance(n, int) and n >= 0 for n in numbers)
        good &= all(isinstance(text, str) for text in metadata.values())
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise _damaged(file, "its header cannot be understood") from error
    if not good:
        raise _damaged(file, "its header cannot be understood")
    return Header(metadata, shapes, precisions), max(ends, default=0)


def _damaged(file: Path, reason: str) -> InputError:
    return InputError(f"{file} is damaged ({reason}); download or export the checkpoint again")


def _what_it_is_instead(file: Path, start: bytes) -> str:
    if start.startswith(PICKLE_MAGIC) or file.suffix.lower() in PICKLE_SUFFIXES:
        return (
            f"{file} is a pickled checkpoint, which is never opened because it can run code; "
            "give a .safetensors file instead"
        )
    if start.startswith(LFS_MAGIC):
        return f"{file} is only a Git LFS pointer to the weights; fetch the file itself with git lfs pull"
    if len(start) <= LENGTH_BYTES:
        return f"{file} is cut short: it holds only {len(start)} bytes; download or copy it again"
    return f"{file} is not a safetensors file; give a checkpoint in the .safetensors format"


def _some(keys: list[str]) -> str:
    shown = ", ".join(keys[:3])
    return shown if len(keys) <= 3 else f"{shown} and {len(keys) - 3} more"
