"""Position encodings of Depth Anything 3: everything in the backbone that depends on the image size alone.

The official network computes some of these in float32 even when it runs in float64. The same steps are
rounded here, so that both agree far beyond float32 precision.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

ROPE_BASE = 100.0
UV_BASE = 100.0
UV_WEIGHT = 0.1
GRID_OFFSET = 0.1
# Sizes remembered at a time. Video and training use one size, a benchmark many; a table is a few MB at most.
REMEMBERED_SIZES = 8


class RopeTable(NamedTuple):
    """Rotation of N tokens of D channels: `cos` and `sin` are `[N, D]`.

    The first D/2 channels turn with the row, the others with the column; in each half, channel i is paired
    with channel i + D/4. `sin` carries the sign of the rotation: negative for the first of a pair, positive
    for the second.
    """

    cos: Tensor
    sin: Tensor


class RopeTables(NamedTuple):
    """`local` places every patch in the grid; `shared` only tells patches from the camera token."""

    local: RopeTable
    shared: RopeTable


@lru_cache(maxsize=REMEMBERED_SIZES)
def rope_tables(rows: int, cols: int, head_dim: int, dtype: torch.dtype, device: torch.device) -> RopeTables:
    """Rotations of a camera token at (0, 0) followed by `rows` x `cols` patches, counted from (1, 1)."""
    row, col = torch.meshgrid(
        torch.arange(1, rows + 1, device=device), torch.arange(1, cols + 1, device=device), indexing="ij"
    )
    patches = torch.stack((row, col), dim=-1).reshape(-1, 2)  # [rows * cols, 2]
    camera = patches.new_zeros(1, 2)
    return RopeTables(
        local=_rope_table(torch.cat((camera, patches)), head_dim, dtype),
        shared=_rope_table(torch.cat((camera, torch.ones_like(patches))), head_dim, dtype),
    )


def _rope_table(positions: Tensor, head_dim: int, dtype: torch.dtype) -> RopeTable:
    pairs = head_dim // 4
    exponents = torch.arange(pairs, dtype=torch.float32, device=positions.device) / pairs
    frequencies = 1.0 / ROPE_BASE**exponents
    angles = positions.float()[:, :, None] * frequencies  # [N, 2, pairs], rounded to float32
    angles = angles.to(torch.promote_types(dtype, torch.float32))
    cos, sin = angles.cos(), angles.sin()
    return RopeTable(
        cos=torch.stack((cos, cos), dim=2).reshape(-1, head_dim).to(dtype),  # [N, 2, 2, pairs] -> [N, D]
        sin=torch.stack((-sin, sin), dim=2).reshape(-1, head_dim).to(dtype),
    )


def apply_rope(x: Tensor, table: RopeTable) -> Tensor:
    """Rotate queries or keys `[B, heads, N, D]` to their positions."""
    axes = x.reshape(*x.shape[:-1], 2, 2, x.shape[-1] // 4)  # [B, heads, N, 2, 2, D / 4]
    partner = axes.flip(-2).flatten(-3)  # [B, heads, N, D], the other channel of each pair
    return x * table.cos + partner * table.sin


def resize_position_embedding(embedding: Tensor, rows: int, cols: int) -> Tensor:
    """Interpolate a learned embedding to a grid of `rows` x `cols` patches: `[1, 1 + rows * cols, C]`.

    embedding: `[1, 1 + M * M, C]`, of a class token, which is kept, and M x M patches. The resampling is part
    of what the weights were trained with: bicubic, in float32, with a scale of (n + 0.1) / M instead of
    n / M, and none at all on the M x M grid itself.
    """
    count, channels = embedding.shape[1] - 1, embedding.shape[2]
    side = round(count**0.5)
    if rows == cols == side:
        return embedding
    table = embedding.float()
    grid = table[:, 1:].reshape(1, side, side, channels).permute(0, 3, 1, 2)  # [1, C, M, M]
    scale = ((rows + GRID_OFFSET) / side, (cols + GRID_OFFSET) / side)
    grid = F.interpolate(grid, scale_factor=scale, mode="bicubic")  # [1, C, rows, cols]
    return torch.cat((table[:, :1], grid.flatten(2).transpose(1, 2)), dim=1).to(embedding.dtype)


@lru_cache(maxsize=8 * REMEMBERED_SIZES)  # a size needs two axes in each of five maps
def _axis_embedding(steps: int, span: float, channels: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Sines, then cosines, of `steps` pixel centres across [-span, span]: `[channels, steps]`."""
    edge = span * (steps - 1) / steps
    precise = torch.promote_types(dtype, torch.float32)
    centres = torch.linspace(-edge, edge, steps, dtype=precise, device=device)
    octaves = torch.arange(channels // 2, dtype=torch.float32, device=device) / (channels / 2)
    angles = (1.0 / UV_BASE**octaves)[:, None] * centres  # [channels / 2, steps]
    waves = torch.cat((angles.sin(), angles.cos())).float()
    return (waves * UV_WEIGHT).to(dtype)


def add_uv_embedding_(x: Tensor, *, aspect: float) -> Tensor:
    """Add, in place, the head's fixed position embedding to `x` `[B, C, h, w]` and return it.

    aspect: width / height of the image. Half of the channels depends on the column alone and half on the row
    alone, so the embedding is kept as two narrow tables and never spread out to `[C, h, w]`.
    """
    channels, height, width = x.shape[1:]
    half = channels // 2
    diagonal = (aspect**2 + 1.0) ** 0.5
    across = _axis_embedding(width, aspect / diagonal, half, x.dtype, x.device)
    down = _axis_embedding(height, 1.0 / diagonal, half, x.dtype, x.device)
    x[:, :half] += across[:, None, :]
    x[:, half:] += down[:, :, None]
    return x
