"""Finding, reading and checking weights in safetensors files, the only kind of checkpoint the package opens.

Pickled checkpoints can run code when they are read, so they are recognised and refused, never opened.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import huggingface_hub
import torch
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from linstereo.errors import InputError

# A safetensors file is: header length (8 bytes, little endian), JSON header, tensor data.
LENGTH_BYTES = 8
LONGEST_HEADER = 100_000_000  # the format's own limit
PICKLE_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle")
PICKLE_MAGIC = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
LFS_MAGIC = b"version https://git-lfs"
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")
WEIGHT_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def find_checkpoint(
    name_or_path: str | os.PathLike[str], *, file_name: str, hub_names: Mapping[str, str] | None = None
) -> Path:
    """The weights file behind a path or a hub name, downloaded if need be.

    Args:
        name_or_path: a file, a folder that holds `file_name`, or a repository of the Hugging Face hub that does. What
            exists on disk goes first.
        file_name: the file to look for in folders and repositories.
        hub_names: short names of repositories.
    """
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        if not (path / file_name).is_file():
            raise InputError(f"the folder {path} holds no {file_name}; give the weights file itself")
        return path / file_name
    if path.exists():
        return path
    name = str(name_or_path)
    short = hub_names or {}
    repository = short.get(name.upper(), name)
    is_hub_name = HUB_NAME.fullmatch(repository) and path.suffix not in (".safetensors", *PICKLE_SUFFIXES)
    if isinstance(name_or_path, str) and is_hub_name:
        return _download(repository, file_name)
    models = f"one of the hub models {', '.join(short)}" if short else "the name OWNER/MODEL of a hub model"
    raise InputError(f"there is no checkpoint {name!r}; give the path of a {file_name} or {models}")


def _download(repository: str, file_name: str) -> Path:
    remedy = f"download its {file_name} by other means and give that file's path"
    try:
        return Path(huggingface_hub.hf_hub_download(repository, file_name))
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise InputError(
            f"there is no public model {repository!r} on the Hugging Face hub, nor such a path here; "
            f"check the name, or {remedy}"
        ) from error
    except LocalEntryNotFoundError as error:
        raise InputError(
            f"the Hugging Face hub cannot be reached and {repository!r} is not in the local cache; {remedy}"
        ) from error
    except EntryNotFoundError as error:
        raise InputError(
            f"the hub model {repository!r} has no file {file_name}; choose another model, or give a path"
        ) from error
    except (HfHubHTTPError, OSError, RuntimeError) as error:  # refused, interrupted, or no room to store it
        raise InputError(
            f"downloading {repository!r} from the Hugging Face hub failed ({type(error).__name__}); {remedy}"
        ) from error


def check_weights(
    found: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    *,
    file: Path,
    wanted: str,
    unused: re.Pattern[str] | None = None,
) -> dict[str, Tensor]:
    """The tensors of `found` that `expected` names, after checking every one of them.

    Args:
        found: what `file` holds.
        expected: a tensor of the right shape for every key that must be there.
        file: named in errors.
        wanted: what the user should give instead, in errors.
        unused: keys that may be left over; any other surplus key is an error.
    """
    if missing := [key for key in expected if key not in found]:
        raise InputError(f"{file} lacks {_some(missing)} of the {len(expected)} weights needed; give {wanted}")
    surplus = [key for key in found if key not in expected and not (unused and unused.fullmatch(key))]
    if surplus:
        raise InputError(f"{file} has weights that do not belong to this model: {_some(surplus)}; give {wanted}")
    for key, parameter in expected.items():
        tensor = found[key]
        if tensor.shape != parameter.shape:
            raise InputError(
                f"{file} has {key} in shape {tuple(tensor.shape)} instead of {tuple(parameter.shape)}; give {wanted}"
            )
        if tensor.dtype not in WEIGHT_DTYPES:
            raise InputError(
                f"{file} has {key} as {str(tensor.dtype).removeprefix('torch.')}; "
                "give floating-point weights of 16 bits or more"
            )
        if not tensor.isfinite().all():
            raise InputError(f"{file} has NaN or infinite values in {key}; download or export the checkpoint again")
    return {key: found[key] for key in expected}


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The text entries in the header of a file that `read_safetensors` accepts."""
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata() or {})


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file, by name, on the CPU and in the precision they are stored in.

    A file that is missing, unreadable, cut short, a pickle or of any other kind raises `InputError`.
    """
    file = Path(path)
    if file.is_dir():
        raise InputError(f"{file} is a folder, not a checkpoint; give the .safetensors file inside it")
    try:
        _refuse_foreign_file(file)
        return dict(load_file(file))
    except FileNotFoundError as error:
        raise InputError(f"there is no checkpoint {file}; check the path") from error
    except OSError as error:
        raise InputError(
            f"cannot read the checkpoint {file}: {error.strerror or error}; check its permissions"
        ) from error
    except SafetensorError as error:
        raise InputError(f"{file} is damaged ({_one_line(error)}); download or export the checkpoint again") from error


def _refuse_foreign_file(file: Path) -> None:
    """Raise `InputError` unless `file` begins like a safetensors file and is as long as its header says."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        start = stream.read(max(LENGTH_BYTES + 1, len(LFS_MAGIC)))
        header_length = int.from_bytes(start[:LENGTH_BYTES], "little")
        # The brace comes first: a header length may happen to begin with the bytes of a pickle.
        if header_length > LONGEST_HEADER or start[LENGTH_BYTES : LENGTH_BYTES + 1] != b"{":
            raise InputError(_what_it_is_instead(file, start))
        stream.seek(LENGTH_BYTES)
        header = stream.read(header_length)
    expected = LENGTH_BYTES + header_length + (_data_length(header) if len(header) == header_length else 0)
    if size < expected:
        raise InputError(
            f"{file} is cut short: it holds {size} bytes of at least {expected}; download or copy it again"
        )


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


def _data_length(header: bytes) -> int:
    """Bytes of tensor data a header announces; 0 for a broken header, which the library refuses later."""
    try:
        entries = json.loads(header)
        return max(
            (int(entry["data_offsets"][1]) for name, entry in entries.items() if name != "__metadata__"),
            default=0,
        )
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return 0


def _some(keys: list[str]) -> str:
    shown = ", ".join(keys[:3])
    return shown if len(keys) <= 3 else f"{shown} and {len(keys) - 3} more"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
