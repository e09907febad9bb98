"""Confidence maps: float files as they are, or PNG of 16 bits whose white is 1."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linstereo.data.formats.float_files import is_float_file, read_float_file, write_float_file
from linstereo.data.formats.png import read_png_values, write_png_values
from linstereo.errors import InputError

_WHITE = 65535


def read_confidence(path: str | os.PathLike[str]) -> NDArray[np.float32]:
    """Read a confidence map as float32 [H, W] in [0, 1]."""
    if is_float_file(path):
        confidence = read_float_file(path)
    elif Path(path).suffix.lower() == ".png":
        stored = read_png_values(path)
        confidence = stored.astype(np.float32) / np.float32(np.iinfo(stored.dtype).max)
    else:
        raise _unknown_suffix(path)
    if not ((confidence >= 0) & (confidence <= 1)).all():
        raise InputError(f"{path} holds values outside of 0 to 1; give a map of confidence")
    return confidence


def write_confidence(path: str | os.PathLike[str], confidence: NDArray[np.float32]) -> None:
    """Write a confidence map [H, W] in [0, 1] as .pfm, .npy or .exr, exactly, or as .png, 65535 times it; atomic."""
    if is_float_file(path):
        write_float_file(path, confidence)
    elif Path(path).suffix.lower() == ".png":
        write_png_values(path, np.rint(_WHITE * confidence.astype(np.float64)).astype(np.uint16))
    else:
        raise _unknown_suffix(path)


def _unknown_suffix(path: str | os.PathLike[str]) -> InputError:
    return InputError(f"{path} has the suffix {Path(path).suffix!r}; a confidence map is .pfm, .npy, .exr or .png")
