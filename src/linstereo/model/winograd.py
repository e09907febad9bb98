"""Winograd's convolution F(4x4, 3x3) for CPUs: a quarter of the multiplications of a dense 3x3 convolution.

A tile of 6x6 inputs becomes 36 numbers for each channel, which are multiplied by those of the kernel, one matrix
product for each; 4x4 outputs come back from them. These changes are separable, and each half of one is a product with a
small matrix. Some rows of tiles are taken at a time, so that nothing leaves the cache between the steps.

See Lavin and Gray, Fast algorithms for convolutional neural networks, CVPR 2016.
"""

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from linstereo.model.processor import is_zen5

OUT, IN = 4, 6
"""Side of the outputs and of the inputs of a tile."""
LEAST_CHANNELS = 80
"""Inputs and outputs from which it is faster than oneDNN, with several threads too."""
LEAST_VALUES = 400_000
"""Inputs times positions from which it is worth the transform of the kernels."""
TILES = 104
"""Tiles that are taken at a time, or one row of them if there are more in it."""


def pays(weight: Tensor, *, height: int, width: int) -> bool:
    """Whether it is faster than oneDNN for a weight [C, D, k, k], stride 1, and maps of height x width positions."""
    return (
        weight.shape[-2:] == (3, 3)
        and not is_zen5()
        and min(weight.shape[:2]) >= LEAST_CHANNELS
        and weight.shape[1] * height * width >= LEAST_VALUES
        and min(height, width) >= IN
    )


def winograd_conv(parts: Sequence[Tensor], weight: Tensor, bias: Tensor | None, *, relu: bool = False) -> Tensor:
    """A 3x3 convolution, padded by 1, of maps joined along their channels: [B, C, h, w] in channels-last memory.

    Args:
        parts: the maps [B, *, h, w], float32 on the CPU, at least 6 x 6 positions; none is copied if they are in
            channels-last memory.
        weight: [C, channels of all parts, 3, 3].
        bias: [C].
        relu: whether ReLU follows.
    """
    maps = [part.permute(0, 2, 3, 1).contiguous() for part in parts]  # [B, h, w, *]
    batch, height, width, _ = maps[0].shape
    rows, columns = -(-height // OUT), -(-width // OUT)  # of tiles
    kernel = _kernel_in_tiles(weight)  # [36, D, C]
    step = max(min(TILES // columns, rows), 1)
    # Columns beyond the image stay zero.
    lines = [m.new_zeros(step, IN, OUT * columns + 2, m.shape[3]) for m in maps]
    out = maps[0].new_empty(batch, height, width, len(weight))
    # What one step writes to the first of them the next one reads from there and writes to the second, and so on.
    memory = [out.new_empty(IN * IN * step * columns * max(kernel.shape[1:])) for _ in range(2)]
    for image in range(batch):
        for first in range(0, rows, step):
            some = range(first, min(first + step, rows))
            tiles = _tiles([m[image] for m in maps], lines, some, columns, memory)  # [36, tiles, D]
            products = _part(memory[0], IN * IN, tiles.shape[1], len(weight))
            band = out[image, OUT * some.start : OUT * some.stop]
            _put(torch.bmm(tiles, kernel, out=products), band, columns, memory)
            if bias is not None:
                band.add_(bias)
            if relu:
                band.relu_()
    return out.permute(0, 3, 1, 2)


def _tiles(
    maps: Sequence[Tensor], lines: Sequence[Tensor], rows: range, columns: int, memory: Sequence[Tensor]
) -> Tensor:
    """The transformed inputs of some rows of tiles: [36 (column, row), tiles, channels of all maps], second memory.

    Args:
        maps: [h, w, *] each.
        lines: where to put what is transformed along the rows, [at least as many rows, 6, w + 2 or more, *] each.
        rows: which rows of tiles.
        columns: tiles in a row.
        memory: two pieces that are overwritten.
    """
    _, change, _ = _matrices()
    height, width, _ = maps[0].shape
    channels = [m.shape[2] for m in maps]
    gathered = _part(memory[0], IN, IN, len(rows), columns, sum(channels))
    for m, half, place in zip(maps, lines, torch.split(gathered, channels, dim=-1), strict=True):
        depth, line = m.shape[2], half.stride(1)
        for i, row in enumerate(rows):
            top = OUT * row - 1  # rows outside of the image are zero and left out of the product
            inside = slice(max(top, 0), min(top + IN, height))
            of_image = half[i].view(IN, -1)[:, depth : depth * (width + 1)]
            torch.mm(change[:, inside.start - top : inside.stop - top], m[inside].flatten(1), out=of_image)
        place.copy_(half.as_strided((IN, IN, len(rows), columns, depth), (depth, line, IN * line, OUT * depth, 1)))
    changed = _part(memory[1], IN, gathered[0].numel())
    return torch.mm(change, gathered.view(IN, -1), out=changed).view(IN * IN, len(rows) * columns, -1)


def _put(products: Tensor, band: Tensor, columns: int, memory: Sequence[Tensor]) -> None:
    """Write the outputs of some rows of tiles to their band [rows, w, C].

    Args:
        products: [36, tiles, C], in the first memory.
        band: where to write.
        columns: tiles in a row.
        memory: two pieces that are overwritten.
    """
    _, _, back = _matrices()
    height, width, channels = band.shape
    tiles = products[0].numel()
    half = torch.mm(back, products.view(IN, -1), out=_part(memory[1], OUT, IN * tiles)).view(OUT, IN, tiles)
    cells = torch.matmul(back, half, out=_part(memory[0], OUT, OUT, tiles))  # column, row
    cells = cells.view(OUT, OUT, -1, columns, channels).permute(2, 1, 3, 0, 4)  # [rows of tiles, 4, columns, 4, C]
    if (height, width) == (OUT * len(cells), OUT * columns):
        band.view(cells.shape).copy_(cells)
    else:
        band.copy_(cells.reshape(OUT * len(cells), OUT * columns, channels)[:height, :width])


def _part(memory: Tensor, *shape: int) -> Tensor:
    """The first values of a piece of memory, in some shape."""
    return memory[: math.prod(shape)].view(shape)


def _kernel_in_tiles(weight: Tensor) -> Tensor:
    """The transformed kernels of a weight [C, D, 3, 3]: [36 (column, row), D, C]."""
    change, _, _ = _matrices()
    taps = weight.permute(3, 2, 1, 0).reshape(9, -1)  # column, row
    return torch.mm(torch.kron(change, change), taps).view(IN * IN, *weight.shape[1::-1])


@functools.cache
def _matrices() -> tuple[Tensor, Tensor, Tensor]:
    """What transforms kernels [6, 3], inputs [6, 6] and outputs [4, 6] along one axis; points 0, 1, -1, 2, -2."""
    with torch.inference_mode(False):
        kernels = torch.tensor(
            [
                [1 / 4, 0, 0],
                [-1 / 6, -1 / 6, -1 / 6],
                [-1 / 6, 1 / 6, -1 / 6],
                [1 / 24, 1 / 12, 1 / 6],
                [1 / 24, -1 / 12, 1 / 6],
                [0, 0, 1],
            ],
            dtype=torch.float32,
        )
        inputs = torch.tensor(
            [
                [4, 0, -5, 0, 1, 0],
                [0, -4, -4, 1, 1, 0],
                [0, 4, -4, -1, 1, 0],
                [0, -2, -1, 2, 1, 0],
                [0, 2, -1, -2, 1, 0],
                [0, 4, 0, -5, 0, 1],
            ],
            dtype=torch.float32,
        )
        outputs = torch.tensor(
            [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]], dtype=torch.float32
        )
    return kernels, inputs, outputs
