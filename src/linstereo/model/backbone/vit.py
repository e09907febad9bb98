"""The vision transformer of Depth Anything 3, for one view per image.

Twelve pre-norm blocks. The first four are plain. From the fifth on, queries and keys are normalised and
rotated by their position, and blocks alternate between local ones (attention inside a view) and global ones
(across the views of a scene, without telling the places of patches apart). With a single view both attend
inside the image and differ only in the positions. After every global block a stage is read out for the head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.backbone.positions import (
    RopeTable,
    apply_rope,
    resize_position_embedding,
    rope_tables,
)

PATCH = 14
BLOCKS = 12
PLAIN_BLOCKS = 4
STAGES = 4
TRAINING_GRID = 37  # the learned position embedding covers 37 x 37 patches, 518 x 518 pixels
BLOCK_NORM_EPS = 1e-6
NORM_EPS = 1e-5


class PatchEmbed(nn.Module):
    """Cut an image into patches and project each to a token."""

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, dim, kernel_size=PATCH, stride=PATCH)

    def forward(self, images: Tensor) -> Tensor:
        """`[B, 3, 14h, 14w]` to `[B, h * w, C]`."""
        x: Tensor = self.proj(images)  # [B, C, h, w]
        return x.flatten(2).transpose(1, 2)  # [B, h * w, C]


class Attention(nn.Module):
    """Multi-head self-attention; `positional` adds the query and key norms that go with RoPE."""

    def __init__(self, *, dim: int, heads: int, positional: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.q_norm = nn.LayerNorm(dim // heads, eps=NORM_EPS) if positional else nn.Identity()
        self.k_norm = nn.LayerNorm(dim // heads, eps=NORM_EPS) if positional else nn.Identity()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, rope: RopeTable | None) -> Tensor:
        """`[B, N, C]` to `[B, N, C]`."""
        qkv = self.qkv(x).unflatten(2, (3, self.heads, -1))  # [B, N, 3, heads, D]
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each [B, heads, N, D]
        q, k = self.q_norm(q), self.k_norm(k)
        if rope is not None:
            q, k = apply_rope(q, rope), apply_rope(k, rope)
        # Under autocast the norms and rotations may have left q and k in another precision than v.
        x = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v)
        out: Tensor = self.proj(x.transpose(1, 2).flatten(2))  # [B, N, C]
        return out


class Mlp(nn.Module):
    """Two linear layers around an exact GELU."""

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """`[B, N, C]` to `[B, N, C]`."""
        out: Tensor = self.fc2(F.gelu(self.fc1(x)))
        return out


class ScaledResidual(nn.Module):
    """Add a branch to the trunk, each channel with its own learned weight."""

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))

    def forward(self, trunk: Tensor, branch: Tensor) -> Tensor:
        """`trunk + gamma * branch`, all `[B, N, C]`."""
        return torch.addcmul(trunk, branch.to(trunk.dtype), self.gamma)


class Block(nn.Module):
    """Attention and MLP, each behind a LayerNorm and added back with a learned weight per channel."""

    def __init__(self, *, dim: int, heads: int, positional: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=BLOCK_NORM_EPS)
        self.attn = Attention(dim=dim, heads=heads, positional=positional)
        self.ls1 = ScaledResidual(dim=dim)
        self.norm2 = nn.LayerNorm(dim, eps=BLOCK_NORM_EPS)
        self.mlp = Mlp(dim=dim)
        self.ls2 = ScaledResidual(dim=dim)

    def forward(self, x: Tensor, rope: RopeTable | None) -> Tensor:
        """`[B, N, C]` to `[B, N, C]`."""
        x = self.ls1(x, self.attn(self.norm1(x), rope))
        x = self.ls2(x, self.mlp(self.norm2(x)))
        return x


class VisionTransformer(nn.Module):
    """Normalised images to four stages of patch tokens.

    dim: token channels C. heads: attention heads, each of C / heads channels (a multiple of 4).
    """

    def __init__(self, *, dim: int, heads: int) -> None:
        super().__init__()
        self.head_dim = dim // heads
        self.patch_embed = PatchEmbed(dim=dim)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        # One for the reference view of a scene, one for all its other views.
        self.camera_token = nn.Parameter(torch.randn(1, 2, dim) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, 1 + TRAINING_GRID**2, dim) * 0.02)
        self.blocks = nn.ModuleList(
            Block(dim=dim, heads=heads, positional=index >= PLAIN_BLOCKS) for index in range(BLOCKS)
        )
        self.norm = nn.LayerNorm(dim, eps=NORM_EPS)
        self._resized: tuple[tuple[object, ...], Tensor] | None = None

    def forward(self, images: Tensor, *, last_stage_images: int) -> list[Tensor]:
        """`[B, 3, 14h, 14w]` to the patch tokens of each stage, `[B, h * w, 2C]`.

        The first C channels are a local block's output as it is, the others the next global block's,
        normalised. Only the first `last_stage_images` images pass to the fourth stage; if there are none, it
        is left out.
        """
        rows, cols = images.shape[-2] // PATCH, images.shape[-1] // PATCH
        tables = rope_tables(rows, cols, self.head_dim, self.pos_embed.dtype, images.device)
        patches = self.patch_embed(images)
        tokens = torch.cat((self.cls_token.expand(len(images), -1, -1), patches), dim=1)  # [B, 1 + h * w, C]
        tokens = tokens + self._position_embedding(rows, cols)

        for block in self.blocks[:PLAIN_BLOCKS]:
            tokens = block(tokens, None)
        # Every image is the only view of its scene, hence its reference view.
        tokens[:, :1] = self.camera_token[:, :1]

        stages = []
        alternating = self.blocks[PLAIN_BLOCKS:]
        for stage in range(STAGES):
            if stage == STAGES - 1:
                if last_stage_images == 0:
                    break
                tokens = tokens[:last_stage_images]
            local = alternating[2 * stage](tokens, tables.local)
            tokens = alternating[2 * stage + 1](local, tables.shared)
            stages.append(torch.cat((local[:, 1:], self.norm(tokens[:, 1:])), dim=2))  # [B, h * w, 2C]
        return stages

    def _position_embedding(self, rows: int, cols: int) -> Tensor:
        """The learned embedding at this size, interpolated anew only if size or weights have changed."""
        weights = self.pos_embed
        version = None if weights.is_inference() else weights._version
        key = (rows, cols, weights.dtype, weights.device, weights.data_ptr(), version)
        resized = self._resized
        if resized is None or resized[0] != key:
            resized = self._resized = (key, resize_position_embedding(weights, rows, cols))
        return resized[1]
