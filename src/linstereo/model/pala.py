"""PALA: position-aware linear attention (paper section 3.5, Eq. 7, and figure 1c).

Linear attention sums keys times values once and shares the sum among all queries, so its cost grows linearly with the
number of positions N; rotary position encoding of queries and keys in the numerator gives back what the shared sum
forgets: where things are relative to each other.

So attention has two halves: a `Summary` of all keys and values, and its application to every query. Summaries of parts
of an image can be joined, and each part then attends to the whole without seeing it.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.fast_paths import add_product_, chunks, fast, linear, linear_gelu, product
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
    table = torch.empty(2, height, width, 4 * pairs, dtype=dtype)
    table[:, :, :, : 2 * pairs] = _turns(rows)[:, :, None]
    table[:, :, :, 2 * pairs :] = _turns(columns)[:, None]
    return table.view(2, height * width, 1, 4 * pairs).to(device)


def _turns(angle: Tensor) -> Tensor:
    """Cosines and signed sines of angles [n, pairs] for both channels of each pair: [2, n, 2 * pairs]."""
    sine = angle.sin()
    return torch.stack([angle.cos().repeat_interleave(2, dim=-1), torch.stack([-sine, sine], dim=-1).flatten(-2)])


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


class Summary(NamedTuple):
    """All that attention keeps of keys and values: means over positions, float32 or better."""

    products: Tensor  # of turned keys and values, [B, heads, d, d]
    key: Tensor  # of keys, [B, heads, d]
    positions: int  # how many they are means of

    def joined(self, other: "Summary") -> "Summary":
        """The summary of the positions of both."""
        positions = self.positions + other.positions
        share = other.positions / positions
        return Summary(
            torch.lerp(self.products, other.products, share), torch.lerp(self.key, other.key, share), positions
        )


def summarise(key: Tensor, value: Tensor, table: Tensor | None, *, symmetric: bool = False) -> Summary:
    """The first half of `linear_attention`, whose arguments these are."""
    key, value = at_least_float32(key), at_least_float32(value)
    with without_autocast(key.device.type):
        turned = key if table is None else rotate(key, table)
        products = torch.einsum("bnhd,bnhe->bhde", turned, value / value.shape[1])  # [B, heads, d, d]
        return Summary(products, (turned if symmetric else key).mean(dim=1), key.shape[1])


def attend(
    query: Tensor, summary: Summary, table: Tensor | None, *, symmetric: bool = False, epsilon: float = EPSILON
) -> Tensor:
    """The second half of `linear_attention`, whose arguments these are; `table` is that of the queries."""
    query = at_least_float32(query)
    with without_autocast(query.device.type):
        turned = query if table is None else rotate(query, table)
        denominator = normaliser(turned if symmetric else query, summary.key)
        if symmetric:
            denominator = denominator.abs()
        return torch.einsum("bnhd,bhde->bnhe", turned, summary.products) / (denominator + epsilon)


def normaliser(query: Tensor, mean_key: Tensor) -> Tensor:
    """Denominator of Eq. 7 without epsilon: [B, N, heads, d] and the mean key [B, heads, d] -> [B, N, heads, 1]."""
    return torch.einsum("bnhd,bhd->bnh", query, mean_key).unsqueeze(-1)


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
    summary = summarise(key, value, table, symmetric=symmetric)
    return attend(query, summary, table, symmetric=symmetric, epsilon=epsilon)


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

    def forward(
        self, x: Tensor, table: Tensor, summary: Summary | None = None, *, plus: Tensor | None = None
    ) -> Tensor:
        """[B, h, w, C] -> [B, h, w, C].

        Args:
            x: what attends.
            table: rotations of the h x w grid.
            summary: that of the whole image if `x` is a part of one, see `summarise`; by default it is made of `x`.
            plus: what is added to the result, as large as it, and may be overwritten.
        """
        mixed = self._mixed(x)
        if self._goes_in_chunks(x, table):
            return self._apply_in_chunks(x, mixed, table, summary or self._summarise_in_chunks(mixed, table), plus)
        query, key = self._queries_and_keys(mixed)
        positions = table if self.rope else None
        if summary is None:
            summary = summarise(key, mixed.reshape(key.shape), positions, symmetric=self.symmetric_rope)
        attended = attend(query, summary, positions, symmetric=self.symmetric_rope).reshape(mixed.shape)
        attended = attended.to(mixed.dtype)
        if self.value_encoding is not None:
            attended = self.value_encoding(mixed).add_(attended)
        if self.context is not None:
            attended = attended * F.silu(self.context(x), inplace=True)
        out: Tensor = self.aggregate(attended)
        return out if plus is None else out.add_(plus)

    def summarise(self, x: Tensor, table: Tensor, rows: slice) -> Summary:
        """The summary of some rows of `x` [B, h, w, C], with the `table` of these rows only.

        The rows around them are there for the spatial mixing.
        """
        mixed = self._mixed(x)[:, rows]
        if self._goes_in_chunks(x, table):
            return self._summarise_in_chunks(mixed, table)
        _, key = self._queries_and_keys(mixed)
        positions = table if self.rope else None
        return summarise(key, mixed.reshape(key.shape), positions, symmetric=self.symmetric_rope)

    def _mixed(self, x: Tensor) -> Tensor:
        """The values, of which queries and keys are made too: [B, h, w, C]."""
        mixed = linear(x, self.encode.weight, self.encode.bias)
        return mixed if self.mix is None else self.mix(mixed)

    def _queries_and_keys(self, mixed: Tensor) -> tuple[Tensor, Tensor]:
        batch, height, width, dim = mixed.shape
        per_head = (batch, height * width, self.heads, dim // self.heads)
        query, key = kernel(at_least_float32(self.query_key(mixed))).chunk(2, dim=-1)  # [B, h, w, C] each
        return query.reshape(per_head), key.reshape(per_head)

    def _goes_in_chunks(self, x: Tensor, table: Tensor) -> bool:
        """Whether both halves may take some positions at a time: no map of queries or keys leaves the cache then."""
        return fast(x) and len(x) == 1 and table.is_complex() and self.rope and not self.symmetric_rope

    def _summarise_in_chunks(self, mixed: Tensor, table: Tensor) -> Summary:
        """`summarise` of one image or a part of it, [1, h, w, C]."""
        values = mixed.flatten(0, 2)  # [N, C]
        count, dim = values.shape
        key_weight, key_bias = self.query_key.weight[dim:], self.query_key.bias[dim:]
        products, key_sum = values.new_zeros(self.heads, dim // self.heads, dim // self.heads), values.new_zeros(dim)
        for part in chunks(values):
            key = _kernel_in_place(product(values[part], key_weight, key_bias))
            key_sum += key.sum(dim=0)
            products += _products_of_heads(_rotate_in_place(key, table[part]), values[part], self.heads)
        return Summary(products.div_(count).unsqueeze(0), key_sum.div_(count).view(1, self.heads, -1), count)

    def _apply_in_chunks(
        self, x: Tensor, mixed: Tensor, table: Tensor, summary: Summary, plus: Tensor | None
    ) -> Tensor:
        """What `forward` does with a summary, for one image or a part of it, [1, h, w, C]."""
        local = None if self.value_encoding is None else self.value_encoding(mixed).flatten(0, 2)
        inputs, values = x.flatten(0, 2), mixed.flatten(0, 2)  # [N, C], as `local`
        dim = values.shape[1]
        query_weight, query_bias = self.query_key.weight[:dim], self.query_key.bias[:dim]
        mean_key = summary.key[0].unsqueeze(-1)  # [heads, d, 1]
        of_value, of_key = _operand(summary.products[0]), _block_diagonal(mean_key)  # the second one [C, heads]
        to_channels = _block_diagonal(torch.ones_like(mean_key).transpose(1, 2))  # [heads, C]
        out = torch.zeros_like(x) if plus is None else plus
        sums = out.view(values.shape)
        for part in chunks(values):
            query = _kernel_in_place(product(values[part], query_weight, query_bias))
            factor = (query @ of_key).add_(EPSILON).reciprocal_() @ to_channels  # the same in all channels of a head
            attended = _apply_to_heads(_rotate_in_place(query, table[part]), of_value).mul_(factor)
            if local is not None:
                attended += local[part]
            if self.context is not None:
                context = product(inputs[part], self.context.weight, self.context.bias)
                attended *= F.silu(context, inplace=True)
            add_product_(sums[part], attended, self.aggregate.weight, self.aggregate.bias)
        return out


def _rotate_in_place(x: Tensor, table: Tensor) -> Tensor:
    """`rotate_rows`, which overwrites its argument."""
    torch.view_as_complex(x.view(len(x), -1, 2)).mul_(table)
    return x


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
    return matrices if matrices.shape[1] > NARROW_HEAD else _block_diagonal(matrices)


def _block_diagonal(matrices: Tensor) -> Tensor:
    """Matrices [n, a, b] along the diagonal of one [n * a, n * b]."""
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

    Attributes:
        reach: rows above and below that the convolutions of the block see; attention sees all.
        summary_reach: rows that those before the keys see.
    """

    reach = 4  # CPE, spatial mixing, encoding of the values, CPE
    summary_reach = 2  # CPE, spatial mixing

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

    def summarise(self, x: Tensor, table: Tensor, rows: slice) -> Summary:
        """What the attention keeps of some rows of `x`, see `PALA.summarise`."""
        if self.cpe1 is not None:
            x = self.cpe1.plus_input(x)
        return self.attention.summarise(self.norm1(x), table, rows)

    def forward(self, x: Tensor, table: Tensor, summary: Summary | None = None) -> Tensor:
        """[B, h, w, C] -> [B, h, w, C]; `table` and `summary` as in `PALA.forward`."""
        if self.cpe1 is not None:
            x = self.cpe1.plus_input(x)
        x = self.attention(self.norm1(x), table, summary, plus=x)
        if self.cpe2 is not None:
            x = self.cpe2.plus_input(x)
        if not fast(x):
            out: Tensor = self.mlp(self.norm2(x)).add_(x)
            return out
        widen, narrow = self.mlp[0], self.mlp[2]
        assert isinstance(widen, nn.Linear)
        assert isinstance(narrow, nn.Linear)
        rows = x.flatten(0, 2)  # [N, C]
        for part in chunks(rows):
            wide = linear_gelu(widen, self.norm2(rows[part]))
            add_product_(rows[part], wide, narrow.weight, narrow.bias)
        return rows.view(x.shape)
