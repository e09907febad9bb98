"""PALA: position-aware linear attention (paper section 3.5, Eq. 7, and figure 1c).

Linear attention sums keys times values once and shares the sum among all queries, so its cost grows linearly with the
number of positions N; rotary position encoding of queries and keys in the numerator gives back what the shared sum
forgets: where things are relative to each other.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.fast_paths import CHUNK, fast, linear_gelu
from linstereo.model.layers import DepthwiseConv
from linstereo.model.precision import at_least_float32, without_autocast

EPSILON = 1e-6
NARROW_HEAD = 12
"""Channels of a head up to which one product over all heads is faster than one for each."""


def rotary_table(
    height: int,
    width: int,
    head_dim: int,
    *,
    offset: tuple[float, float] = (0.0, 0.0),
    base: float = 10000.0,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Rotations of two-dimensional RoPE on a grid, rows first: cosines and sines, [2, N, 1, head_dim].

    Channels 2p and 2p + 1 are a pair, so their cosines are the same; their sines have opposite signs, as `rotate` needs
    them. Half of the pairs turn with the row, half with the column; `head_dim` must be a multiple of 4. `offset` (rows,
    columns) shifts all positions; relative encoding means that it changes no attention numerator.
    """
    pairs = head_dim // 4
    frequency = base ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    rows = (torch.arange(height, dtype=torch.float64) + offset[0])[:, None] * frequency  # [h, pairs]
    columns = (torch.arange(width, dtype=torch.float64) + offset[1])[:, None] * frequency  # [w, pairs]
    angle = torch.cat(
        [rows[:, None].expand(height, width, pairs), columns[None].expand(height, width, pairs)], dim=-1
    ).reshape(height * width, 1, 2 * pairs)
    sine = angle.sin()
    table = torch.stack([angle.cos().repeat_interleave(2, dim=-1), torch.stack([-sine, sine], dim=-1).flatten(-2)])
    return table.to(device, dtype)


def complex_table(table: Tensor, heads: int) -> Tensor:
    """The rotations of `rotary_table` as complex numbers, one for each channel pair of all heads: [N, C / 2].

    `rotate` is several times faster with them; exporters know no complex numbers.
    """
    cosine, sine = table[..., 1::2]  # [N, 1, head_dim / 2] each
    return torch.complex(cosine, sine).expand(-1, heads, -1).flatten(1)


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Turn neighbouring channel pairs by their position's angle: [B, N, heads, head_dim] -> same.

    `table` is that of `rotary_table`, or of `complex_table`.
    """
    if table.is_complex():
        return rotate_rows(x.flatten(2), table).view(x.shape)
    cosine, sine = table
    first, second = x.view(*x.shape[:-1], -1, 2).unbind(-1)  # [B, N, heads, head_dim / 2] each
    partner = torch.stack([second, first], dim=-1).flatten(-2)  # [B, N, heads, head_dim]
    return partner.mul_(sine).addcmul_(x, cosine)


def rotate_rows(x: Tensor, table: Tensor) -> Tensor:
    """`rotate` of [..., N, C] by a table of `complex_table`."""
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))  # [..., N, C / 2]
    return torch.view_as_real(pairs * table).flatten(-2)


def kernel(x: Tensor) -> Tensor:
    """The non-negative feature map phi(x) = ELU(x) + 1, elementwise."""
    return F.elu(x).add_(1)


def normaliser(query: Tensor, key: Tensor) -> Tensor:
    """Denominator of Eq. 7 without epsilon: each query times the mean key, [B, N, heads, d] -> [B, N, heads, 1]."""
    return torch.einsum("bnhd,bhd->bnh", query, key.mean(dim=1)).unsqueeze(-1)


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    table: Tensor | None,
    *,
    symmetric: bool = False,
    epsilon: float = EPSILON,
) -> Tensor:
    """Eq. 7 in O(N): attention of every position to every other without forming the N x N weights.

    Both sums over positions are means, so the output is a weighted mean of the values whatever N is. They are in
    float32 even if queries, keys and values are in half precision or autocast is on, and values are divided by N before
    they are added up, so that no sum grows with N.

    Args:
        query: [B, N, heads, d], kernel-mapped, non-negative.
        key: [B, N, heads, d], kernel-mapped, non-negative.
        value: [B, N, heads, d].
        table: rotations of the N positions, see `rotary_table`; None for position-blind attention.
        symmetric: the ablation that puts RoPE into the denominator too. Its normaliser may vanish or turn negative,
            so its magnitude is taken.
        epsilon: keeps the quotient finite.

    Returns:
        [B, N, heads, d], float32 or better.
    """
    query, key, value = at_least_float32(query), at_least_float32(key), at_least_float32(value)
    with without_autocast(query.device.type):
        # Keys come first, so that no turned key takes memory while queries are turned.
        turned_key = key if table is None else rotate(key, table)
        summary = torch.einsum("bnhd,bnhe->bhde", turned_key, value / value.shape[1])  # [B, heads, d, d]
        key = turned_key if symmetric else key
        del turned_key
        turned_query = query if table is None else rotate(query, table)
        denominator = normaliser(turned_query if symmetric else query, key)
        if symmetric:
            denominator = denominator.abs()
        return torch.einsum("bnhd,bhde->bnhe", turned_query, summary) / (denominator + epsilon)


class PALA(nn.Module):
    """Multi-head position-aware linear attention with its context branch (right half of figure 1c).

    Feature encoding, depth-wise spatial mixing, kernel and 2-D RoPE on queries and keys, the mixed features as values;
    a depth-wise encoding of the values is added to the attention; the context encoding through SiLU multiplies the
    result before the feature aggregation.

    Args:
        dim: channels C, a multiple of 4 * heads.
        heads: attention heads.
        rope: global spatial encoding by RoPE.
        symmetric_rope: RoPE in the denominator as well.
        local_encoding: spatial mixing and the local encoding of the values.
        context_gate: the context branch.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        rope: bool = True,
        symmetric_rope: bool = False,
        local_encoding: bool = True,
        context_gate: bool = True,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.rope = rope
        self.symmetric_rope = symmetric_rope
        self.encode = nn.Linear(dim, dim)
        self.mix = DepthwiseConv(dim) if local_encoding else None
        self.query_key = nn.Linear(dim, 2 * dim)
        self.value_encoding = DepthwiseConv(dim) if local_encoding else None
        self.context = nn.Linear(dim, dim) if context_gate else None
        self.aggregate = nn.Linear(dim, dim)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """[B, h, w, C] -> [B, h, w, C]; `table` belongs to the h x w grid."""
        if fast(x) and len(x) == 1 and table.is_complex() and self.rope and not self.symmetric_rope:
            return self._in_chunks(x, table)
        batch, height, width, dim = x.shape
        mixed = self.encode(x)
        if self.mix is not None:
            mixed = self.mix(mixed)
        query, key = kernel(at_least_float32(self.query_key(mixed))).chunk(2, dim=-1)  # [B, h, w, C] each
        per_head = (batch, height * width, self.heads, dim // self.heads)
        attended = linear_attention(
            query.reshape(per_head),
            key.reshape(per_head),
            mixed.reshape(per_head),
            table if self.rope else None,
            symmetric=self.symmetric_rope,
        ).reshape(batch, height, width, dim)
        attended = attended.to(mixed.dtype)
        if self.value_encoding is not None:
            attended = self.value_encoding(mixed).add_(attended)
        if self.context is not None:
            attended = attended * F.silu(self.context(x), inplace=True)
        out: Tensor = self.aggregate(attended)
        return out

    def _in_chunks(self, x: Tensor, table: Tensor) -> Tensor:
        """`forward` of one image, some positions at a time: no map of queries, keys or products leaves the cache."""
        mixed = self.encode(x)
        if self.mix is not None:
            mixed = self.mix(mixed)
        local = None if self.value_encoding is None else self.value_encoding(mixed).flatten(0, 2)
        inputs, values = x.flatten(0, 2), mixed.flatten(0, 2)  # [N, C], as `local`
        count, dim = values.shape
        query_weight, key_weight = self.query_key.weight.chunk(2)
        query_bias, key_bias = self.query_key.bias.chunk(2)

        summary, key_sum = values.new_zeros(self.heads, dim // self.heads, dim // self.heads), values.new_zeros(dim)
        for part in _chunks(values):
            key = _kernel_in_place(F.linear(values[part], key_weight, key_bias))
            key_sum += key.sum(dim=0)
            summary += _products_of_heads(rotate_rows(key, table[part]), values[part], self.heads)
        mean_key = (key_sum / count).view(self.heads, -1, 1).expand_as(summary)
        of_value, of_key = _operand(summary / count), _operand(mean_key)

        out = torch.empty_like(values)
        for part in _chunks(values):
            query = _kernel_in_place(F.linear(values[part], query_weight, query_bias))
            denominator = _apply_to_heads(query, of_key).add_(EPSILON)  # the same in all channels of a head
            attended = _apply_to_heads(rotate_rows(query, table[part]), of_value).div_(denominator)
            if local is not None:
                attended += local[part]
            if self.context is not None:
                attended *= F.silu(self.context(inputs[part]), inplace=True)
            out[part] = self.aggregate(attended)
        return out.view(x.shape)


def _chunks(rows: Tensor) -> list[slice]:
    """Parts of [N, C] that fit into the cache."""
    step = max(CHUNK // rows.shape[1], 1)
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def _kernel_in_place(x: Tensor) -> Tensor:
    """`kernel`, which may overwrite its argument."""
    exponential = x.clamp(max=0).exp_()
    return x.clamp_(min=0).add_(exponential)


def _products_of_heads(left: Tensor, right: Tensor, heads: int) -> Tensor:
    """The sum over positions of what two maps [n, C] have in each head: [heads, d, d]."""
    if left.shape[1] > heads * NARROW_HEAD:
        return torch.einsum("nhd,nhe->hde", *(x.view(len(x), heads, -1) for x in (left, right)))
    width = left.shape[1] // heads
    blocks = (left.t() @ right).view(heads, width, heads, width)
    return blocks.diagonal(dim1=0, dim2=2).permute(2, 0, 1)


def _operand(matrices: Tensor) -> Tensor:
    """Matrices [heads, d, d] as `_apply_to_heads` wants them: narrow ones as one block-diagonal matrix [C, C]."""
    if matrices.shape[1] > NARROW_HEAD:
        return matrices
    blocks: Tensor = torch.block_diag(*matrices)  # type: ignore[no-untyped-call]
    return blocks


def _apply_to_heads(x: Tensor, operand: Tensor) -> Tensor:
    """Multiply the channels [n, C] of each head by its matrix: [n, C]."""
    if operand.dim() == 2:
        return x @ operand
    return torch.einsum("nhd,hde->nhe", x.view(len(x), len(operand), -1), operand).flatten(1)


class PALABlock(nn.Module):
    """The block of figure 1c (left half): CPE, LayerNorm, PALA, residual, CPE, LayerNorm, MLP, residual.

    CPE is a convolutional position encoding: a depth-wise convolution added to its input.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        mlp_ratio: float = 2.0,
        position_encoding: bool = True,
        symmetric_rope: bool = False,
        local_encoding: bool = True,
        context_gate: bool = True,
    ) -> None:
        super().__init__()
        self.cpe1 = DepthwiseConv(dim) if position_encoding else None
        self.norm1 = nn.LayerNorm(dim)
        self.attention = PALA(
            dim,
            heads,
            rope=position_encoding,
            symmetric_rope=symmetric_rope,
            local_encoding=local_encoding,
            context_gate=context_gate,
        )
        self.cpe2 = DepthwiseConv(dim) if position_encoding else None
        self.norm2 = nn.LayerNorm(dim)
        width = round(mlp_ratio * dim)
        self.mlp = nn.Sequential(nn.Linear(dim, width), nn.GELU(), nn.Linear(width, dim))

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """[B, h, w, C] -> [B, h, w, C]; `table` belongs to the h x w grid."""
        if self.cpe1 is not None:
            x = self.cpe1(x).add_(x)
        x = self.attention(self.norm1(x), table).add_(x)
        if self.cpe2 is not None:
            x = self.cpe2(x).add_(x)
        if not fast(x):
            out: Tensor = self.mlp(self.norm2(x)).add_(x)
            return out
        widen, narrow = self.mlp[0], self.mlp[2]
        assert isinstance(widen, nn.Linear)
        rows = x.flatten(0, 2)  # [N, C]
        for part in _chunks(rows):
            rows[part] += narrow(linear_gelu(widen, self.norm2(rows[part])))
        return rows.view(x.shape)
