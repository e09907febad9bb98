"""Photographs from any folder, as textures."""

from collections import OrderedDict
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
LONG_SIDE = 1024
"""Photographs are kept in memory with their longer side reduced to this many pixels."""


class PhotoFolder:
    """All photographs below a folder, decoded when first needed; the last few stay in memory.

    What a method returns depends on the files and its arguments alone, never on what was read before.

    Args:
        folder: searched recursively for files with one of `SUFFIXES`.
        keep: how many decoded photographs stay in memory, about 2 MB each.
    """

    def __init__(self, folder: str | Path, *, keep: int = 128) -> None:
        root = Path(folder)
        if not root.is_dir():
            raise InputError(f"the photo folder {root} does not exist; name a folder with photographs")
        self.files = tuple(sorted(p for p in root.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file()))
        if not self.files:
            raise InputError(f"the photo folder {root} holds no photograph ({', '.join(SUFFIXES)})")
        self._keep = keep
        self._decoded: OrderedDict[Path, NDArray[np.uint8]] = OrderedDict()
        self.picture(0)  # a folder of something else is told at once, not when a scene first asks for a photograph

    def __len__(self) -> int:
        return len(self.files)

    def picture(self, index: int) -> NDArray[np.uint8]:
        """Photograph number `index`, uint8 [H, W, 3] RGB, read-only, its longer side at most `LONG_SIDE`."""
        path = self.files[index]
        if path in self._decoded:
            self._decoded.move_to_end(path)
            return self._decoded[path]
        picture = _decode(path)
        self._decoded[path] = picture
        if len(self._decoded) > self._keep:
            self._decoded.popitem(last=False)
        return picture

    def texture(self, rng: np.random.Generator, *, size: int = 512, whole: bool = False) -> NDArray[np.uint8]:
        """A square piece of a random photograph, preferably with much to see.

        It is turned, mirrored, and sometimes red and blue are exchanged.

        Args:
            rng: where the randomness comes from.
            size: S, a power of two; a small piece comes back with S / 2, as it holds no finer detail.
            whole: take the largest piece, upright: for posters, backdrops.

        Returns:
            uint8 [S, S, 3] or [S / 2, S / 2, 3] RGB.
        """
        piece: Any = max((self._piece(rng, whole) for _ in range(int(rng.integers(1, 4)))), key=_detail)
        side = len(piece)
        out = size // 2 if side < 0.6 * size else size
        mode = cv2.INTER_AREA if side > 2 * out else cv2.INTER_LINEAR
        piece = cv2.resize(piece, (out, out), interpolation=mode)
        if rng.random() < 0.5:
            piece = cv2.flip(piece, 1)
        turn = int(rng.integers(4))
        if turn < 3 and not whole:
            piece = cv2.rotate(piece, turn)  # a quarter, a half, three quarters; 3 leaves it
        if rng.random() < 0.15:
            piece = cv2.cvtColor(piece, cv2.COLOR_RGB2BGR)
        return np.asarray(piece, np.uint8)

    def _piece(self, rng: np.random.Generator, whole: bool) -> NDArray[np.uint8]:
        picture = self.picture(int(rng.integers(len(self.files))))
        height, width = picture.shape[:2]
        side = min(height, width)
        if not whole:
            side = max(int(side * rng.uniform(0.25, 1.0)), min(32, side))
        top, left = int(rng.integers(height - side + 1)), int(rng.integers(width - side + 1))
        return picture[top : top + side, left : left + side]


def _detail(piece: NDArray[np.uint8]) -> float:
    """How much there is to see in a picture: mean absolute difference between neighbours, in some of its rows."""
    green = piece[:: max(len(piece) // 48, 1), :, 1].astype(np.int16)
    return float(np.abs(np.diff(green, axis=1)).mean())


def _decode(path: Path) -> NDArray[np.uint8]:
    try:
        data = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise InputError(f"cannot read the photograph {path}: {error.strerror or error}") from error
    # The coarse look is nearly free for JPEG files and tells how much of the full size is needed.
    coarse = _imdecode(data, cv2.IMREAD_REDUCED_COLOR_8, path)
    full = 8 * max(coarse.shape[:2])
    flag = cv2.IMREAD_COLOR
    if full >= 4 * LONG_SIDE:
        flag = cv2.IMREAD_REDUCED_COLOR_4
    elif full >= 2 * LONG_SIDE:
        flag = cv2.IMREAD_REDUCED_COLOR_2
    picture = _imdecode(data, flag, path)
    height, width = picture.shape[:2]
    factor = LONG_SIDE / max(height, width)
    if factor < 1:
        shape = (max(round(width * factor), 1), max(round(height * factor), 1))
        picture = cv2.resize(picture, shape, interpolation=cv2.INTER_AREA)
    rgb = np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), np.uint8)
    rgb.flags.writeable = False
    return rgb


def _imdecode(data: NDArray[np.uint8], flag: int, path: Path) -> Any:
    try:
        picture = cv2.imdecode(data, flag) if data.size else None
    except cv2.error:
        picture = None
    if picture is None:
        raise InputError(f"the photograph {path} cannot be decoded; remove it from the folder or replace it")
    return picture
