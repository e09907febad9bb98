"""OpenEXR files of depth or disparity, as Blender and other renderers write them.

Needs the package `OpenEXR` (openexr.com), which is only imported here and only when a file is read or
written.
"""

import os
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from linstereo import extras
from linstereo.data.formats.float_maps import as_float_map, to_float32
from linstereo.errors import InputError
from linstereo.files import MAX_PIXELS, atomic_path, check_pixel_count, read_file

_MAGIC = b"\x76\x2f\x31\x01"
_MAX_VALUES = 3 * MAX_PIXELS  # all channels of all layers are decoded at once
_LAYER_WORDS = ("depth", "disparity", "disp")
_VALUE_NAMES = ("z", "v", "y", "r", "x")


def read_exr(path: str | os.PathLike[str], *, channel: str | None = None) -> npt.NDArray[np.float32]:
    """Read one channel of an EXR file as float32 [H, W], values as stored, half or float.

    Without `channel` it is the only channel of the file, or else `Z`, or a layer named depth or disparity
    (such as `Depth.V` or `ViewLayer.Depth.Z`), or `Y`, or `R` of an RGB file whose three channels are equal.
    """
    channels = _read_channels(path)
    name = _choose(channels, path) if channel is None else channel
    if name not in channels:
        raise InputError(f"{path} has no channel {name!r}; it has {_listed(channels)}")
    values = channels[name]
    return to_float32(values, name=str(path))


def read_exr_channels(path: str | os.PathLike[str]) -> dict[str, npt.NDArray[np.float32]]:
    """Read all channels of an EXR file by name, each float32 [H, W], values as stored, half or float."""
    return {name: to_float32(values, name=str(path)) for name, values in _read_channels(path).items()}


def write_exr(path: str | os.PathLike[str], values: npt.ArrayLike, *, channel: str = "Z", half: bool = False) -> None:
    """Write a map [H, W] as one channel of an EXR file, losslessly compressed, float or half; atomic.

    With `half`, values are rounded to 16-bit floats, and a finite value above 65504 is an `InputError`.
    """
    openexr = _openexr(path)
    pixels: npt.NDArray[Any] = as_float_map(values, name=f"the map for {path}")
    if half:
        with np.errstate(over="ignore"):
            rounded = pixels.astype(np.float16)
        if bool((np.isinf(rounded) & np.isfinite(pixels)).any()):
            raise InputError(f"cannot write {path}: a value is above 65504, the largest half float; use half=False")
        pixels = rounded
    header = {"compression": openexr.ZIP_COMPRESSION, "type": openexr.scanlineimage}
    with atomic_path(path) as temporary:
        try:
            openexr.File(header, {channel: pixels}).write(str(temporary))
        except (RuntimeError, ValueError, TypeError) as error:
            raise InputError(f"cannot write {path} as EXR: {error}") from error


def _read_channels(path: str | os.PathLike[str]) -> dict[str, npt.NDArray[Any]]:
    openexr = _openexr(path)
    if not read_file(path).startswith(_MAGIC):
        raise InputError(f"{path} is not an EXR file; give a file that starts with the EXR signature")
    sizes = _part_sizes(openexr, path)
    parts = _open(openexr, path, header_only=False).parts
    if len(parts) != len(sizes):  # OpenEXR leaves out the parts whose pixels it cannot decode
        raise _damaged(path)
    channels: dict[str, npt.NDArray[Any]] = {}
    for part, size in zip(parts, sizes, strict=True):
        for name, content in part.channels.items():
            pixels = content.pixels
            if isinstance(pixels, np.ndarray) and pixels.shape == size and pixels.dtype.kind in "fu":
                channels[f"{part.name()}.{name}" if name in channels else name] = pixels
    return channels


def _openexr(path: str | os.PathLike[str]) -> ModuleType:
    return extras.require("OpenEXR", extra="synth", purpose=f"the EXR file {path}")


def _open(openexr: ModuleType, path: str | os.PathLike[str], *, header_only: bool) -> Any:
    try:
        return openexr.File(str(path), separate_channels=True, header_only=header_only)
    except (RuntimeError, ValueError, TypeError, OverflowError, MemoryError, OSError) as error:
        raise _damaged(path) from error


def _damaged(path: str | os.PathLike[str]) -> InputError:
    return InputError(f"{path} cannot be decoded as EXR, it is damaged; copy or render it again")


def _part_sizes(openexr: ModuleType, path: str | os.PathLike[str]) -> list[tuple[int, int]]:
    """Height and width of each part by the header alone; refuses absurd sizes and cropped pictures."""
    sizes: list[tuple[int, int]] = []
    total = 0
    for part in _open(openexr, path, header_only=True).parts:
        (left, top), (right, bottom) = np.asarray(part.header["dataWindow"], dtype=np.int64).tolist()
        width, height = right - left + 1, bottom - top + 1
        check_pixel_count(width=width, height=height, path=path)
        if not np.array_equal(part.header["dataWindow"], part.header["displayWindow"]):
            raise InputError(f"{path} holds only a part of its picture (a crop region); render it without a border")
        sizes.append((height, width))
        total += width * height * len(part.header["channels"])
    if total > _MAX_VALUES:
        raise InputError(f"{path} holds {total} values, more than the {_MAX_VALUES} that are read; keep only the depth")
    return sizes


def _choose(channels: dict[str, npt.NDArray[Any]], path: str | os.PathLike[str]) -> str:
    if len(channels) == 1:
        return next(iter(channels))
    layers = [name for name in channels if _is_layer_value(name)]
    for candidates in (
        [name for name in channels if name == "Z"],
        layers,
        [name for name in channels if name == "Y"],
    ):
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            raise InputError(f"{path} has several depth channels ({_listed(candidates)}); name the one to read")
    if {"R", "G", "B"} <= channels.keys():
        red = channels["R"]
        if all(np.array_equal(red, channels[name], equal_nan=True) for name in ("G", "B")):
            return "R"
    raise InputError(f"{path} has no depth channel, only {_listed(channels)}; name the one to read")


def _is_layer_value(name: str) -> bool:
    """Whether `name` is a layer called depth or disparity, or the value channel of one."""
    *layers, last = name.lower().split(".")
    return last in _LAYER_WORDS or (bool(layers) and layers[-1] in _LAYER_WORDS and last in _VALUE_NAMES)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:20]) or "none of plain pixel values"
