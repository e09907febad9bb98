"""Linear attention against its explicit N x N form, and what RoPE may and may not touch."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from linstereo.model import pala
from linstereo.model.pala import PALA, PALABlock, attend, kernel, linear_attention, normaliser, rotary_table, summarise

GRIDS = [(7, 5, 1), (7, 5, 4), (1, 13, 2), (6, 11, 3)]  # height, width, heads


def inputs(height, width, heads, dim=8, batch=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (3, batch, height * width, heads, dim)
    query, key, value = torch.randn(shape, dtype=torch.float64, generator=generator)
    return kernel(query), kernel(key), value


def plain_rotation(vector, row, column, base=10000.0):
    """RoPE of one vector, written out: pairs of the first half turn with the row, the others with the column."""
    dim = len(vector)
    out = list(vector)
    pairs = dim // 2
    for p in range(pairs):
        position, index = (row, p) if p < pairs // 2 else (column, p - pairs // 2)
        angle = position * base ** (-index / (pairs // 2))
        a, b = vector[2 * p], vector[2 * p + 1]
        out[2 * p] = a * math.cos(angle) - b * math.sin(angle)
        out[2 * p + 1] = a * math.sin(angle) + b * math.cos(angle)
    return out


def explicit_attention(query, key, value, height, width, *, rope=True, symmetric=False, epsilon=1e-6):
    """The same with all N x N weights formed; the slow twin of `linear_attention`."""
    turned = []
    for x in (query, key):
        y = x.clone()
        if rope:
            for n in range(height * width):
                for b in range(x.shape[0]):
                    for h in range(x.shape[2]):
                        rotated = plain_rotation(x[b, n, h].tolist(), n // width, n % width)
                        y[b, n, h] = torch.tensor(rotated, dtype=torch.float64)
        turned.append(y)
    weights = torch.einsum("bihd,bjhd->bhij", *turned)  # [B, heads, N, N]
    plain = torch.einsum("bihd,bjhd->bhij", *(turned if symmetric else (query, key)))
    denominator = plain.mean(dim=-1, keepdim=True)
    if symmetric:
        denominator = denominator.abs()
    weights = weights / query.shape[1] / (denominator + epsilon)
    return torch.einsum("bhij,bjhd->bihd", weights, value)


@pytest.mark.parametrize(("height", "width", "heads"), GRIDS)
@pytest.mark.parametrize("variant", ["asymmetric", "symmetric", "blind"])
def test_linear_form_equals_the_explicit_one(height, width, heads, variant):
    query, key, value = inputs(height, width, heads)
    table = None if variant == "blind" else rotary_table(height, width, 8, dtype=torch.float64)
    options = {"symmetric": variant == "symmetric"}
    got = linear_attention(query, key, value, table, **options)
    expected = explicit_attention(query, key, value, height, width, rope=variant != "blind", **options)
    assert (got - expected).abs().max() <= 1e-10 * expected.abs().max()


def test_gradients_equal_those_of_the_explicit_form_without_rope():
    tensors = [x.requires_grad_() for x in inputs(5, 3, 2)]
    weight = torch.randn(tensors[2].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    fast = torch.autograd.grad((linear_attention(*tensors, None) * weight).sum(), tensors)
    slow = torch.autograd.grad((explicit_attention(*tensors, 5, 3, rope=False) * weight).sum(), tensors)
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_gradients_with_rope_are_those_of_finite_differences():
    tensors = [x.requires_grad_() for x in inputs(2, 3, 1, dim=4, batch=1)]
    table = rotary_table(2, 3, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda q, k, v: linear_attention(q, k, v, table), tensors)


def test_shifting_all_positions_changes_nothing():
    query, key, value = inputs(6, 9, 2)
    here = rotary_table(6, 9, 8, dtype=torch.float64)
    there = rotary_table(6, 9, 8, dtype=torch.float64, offset=(17.0, -40.5))
    assert (here - there).abs().max() > 0.1
    a, b = (linear_attention(query, key, value, table) for table in (here, there))
    assert (a - b).abs().max() <= 1e-10 * a.abs().max()


@pytest.mark.parametrize("symmetric", [False, True])
def test_parts_attend_to_the_whole_by_their_joined_summaries(symmetric):
    """Three rows, then two, then one; each part knows its own rows only, and where they are."""
    query, key, value = inputs(6, 9, 2)
    whole = rotary_table(6, 9, 8, dtype=torch.float64)
    expected = linear_attention(query, key, value, whole, symmetric=symmetric)
    rows = [(0, 3), (3, 5), (5, 6)]
    tables = [rotary_table(end - first, 9, 8, dtype=torch.float64, offset=(first, 0)) for first, end in rows]
    parts = [slice(9 * first, 9 * end) for first, end in rows]
    first, *others = (
        summarise(key[:, part], value[:, part], table, symmetric=symmetric)
        for part, table in zip(parts, tables, strict=True)
    )
    for other in others:
        first = first.joined(other)
    assert first.positions == 54
    got = [attend(query[:, part], first, table, symmetric=symmetric) for part, table in zip(parts, tables, strict=True)]
    torch.testing.assert_close(torch.cat(got, dim=1), expected, rtol=1e-10, atol=1e-12)


def test_moving_one_position_does_change_the_output():
    query, key, value = inputs(6, 9, 2)
    table = rotary_table(6, 9, 8, dtype=torch.float64)
    a = linear_attention(query, key, value, table)
    b = linear_attention(query, key, value, table[:, torch.randperm(54, generator=torch.Generator().manual_seed(0))])
    assert (a - b).abs().max() > 1e-2 * a.abs().max()


@pytest.mark.parametrize(("symmetric", "factor"), [(False, 9.0), (True, 1.0)])
def test_the_denominator_sees_rope_only_in_the_symmetric_variant(monkeypatch, symmetric, factor):
    query, key, value = inputs(4, 5, 2)
    table = rotary_table(4, 5, 8, dtype=torch.float64)
    monkeypatch.setattr(pala, "rotate", lambda x, table: x)
    plain = linear_attention(query, key, value, table, symmetric=symmetric, epsilon=0.0)
    monkeypatch.setattr(pala, "rotate", lambda x, table: 3 * x)  # would cancel if the denominator saw it too
    scaled = linear_attention(query, key, value, table, symmetric=symmetric, epsilon=0.0)
    torch.testing.assert_close(scaled, factor * plain, rtol=1e-12, atol=0)


def test_the_normaliser_is_each_query_times_the_mean_key():
    query, key, _ = inputs(3, 4, 2)
    expected = torch.zeros(2, 12, 2, 1, dtype=torch.float64)
    for b in range(2):
        for n in range(12):
            for h in range(2):
                expected[b, n, h] = sum(query[b, n, h] @ key[b, j, h] for j in range(12)) / 12
    torch.testing.assert_close(normaliser(query, key.mean(dim=1)), expected)


def test_without_positions_constant_values_come_back_unchanged():
    query, key, value = inputs(5, 5, 2)
    constant = torch.full_like(value, 2.5)
    out = linear_attention(query, key, constant, None, epsilon=0.0)
    torch.testing.assert_close(out, constant)


def test_kernel_is_elu_plus_one_and_never_negative():
    x = torch.linspace(-30, 30, 101, dtype=torch.float64)
    expected = torch.tensor([v + 1 if v > 0 else math.exp(v) for v in x.tolist()], dtype=torch.float64)
    torch.testing.assert_close(kernel(x), expected, rtol=1e-12, atol=1e-15)
    assert torch.all(kernel(x) >= 0)


def count_flops(function):
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


def test_flops_grow_exactly_linearly_with_positions():
    block = PALABlock(32, 4).to("meta")
    counts = []
    for height, width in ((8, 12), (16, 12), (32, 36)):
        x = torch.empty(1, height, width, 32, device="meta")
        table = torch.empty(2, height * width, 1, 8, device="meta")
        counts.append(count_flops(lambda x=x, table=table: block(x, table)))
    query = torch.empty(1, 8 * 12, 4, 8, device="meta")
    attention = count_flops(lambda: linear_attention(query, query, query, None))
    assert attention >= 4 * (8 * 12) * 32 * 8  # two products of N x d x d per head, two operations each
    assert counts[0] > attention
    assert counts[1] == 2 * counts[0]
    assert counts[2] == 12 * counts[0]


def test_parts_of_the_block_can_be_taken_away_one_by_one():
    full = {name.split(".")[0] for name, _ in PALA(32, 4).named_parameters()}
    bare = {name.split(".")[0] for name, _ in PALA(32, 4, local_encoding=False, context_gate=False).named_parameters()}
    assert full - bare == {"mix", "value_encoding", "context"}
    blind = {name.split(".")[0] for name, _ in PALABlock(32, 4, position_encoding=False).named_parameters()}
    assert {"cpe1", "cpe2"}.isdisjoint(blind)


def test_the_block_without_any_position_encoding_is_blind_to_order_and_with_it_is_not():
    torch.manual_seed(0)
    x = torch.randn(1, 4, 6, 16, dtype=torch.float64)
    order = torch.randperm(24)
    table = rotary_table(4, 6, 4, dtype=torch.float64)

    def shuffled_difference(block):
        shuffle = x.view(1, 24, 16)[:, order].view(1, 4, 6, 16)
        straight = block(x, table).view(1, 24, 16)[:, order]
        return (block(shuffle, table).view(1, 24, 16) - straight).abs().max()

    blind = PALABlock(16, 4, position_encoding=False, local_encoding=False).double()
    aware = PALABlock(16, 4, local_encoding=False).double()
    assert shuffled_difference(blind) < 1e-12
    assert shuffled_difference(aware) > 1e-3


def test_the_block_is_the_formula_of_the_figure():
    torch.manual_seed(0)
    block = PALABlock(16, 4).double()
    x = torch.randn(2, 5, 7, 16, dtype=torch.float64)
    table = rotary_table(5, 7, 4, dtype=torch.float64)
    y = x + block.cpe1(x)
    y = y + block.attention(block.norm1(y), table)
    y = y + block.cpe2(y)
    y = y + block.mlp(block.norm2(y))
    torch.testing.assert_close(block(x, table), y)


def test_pala_is_the_formula_of_the_figure():
    torch.manual_seed(0)
    pala = PALA(16, 4).double()
    x = torch.randn(2, 5, 7, 16, dtype=torch.float64)
    table = rotary_table(5, 7, 4, dtype=torch.float64)
    mixed = pala.mix(pala.encode(x))
    query, key = (kernel(z).reshape(2, 35, 4, 4) for z in pala.query_key(mixed).split(16, dim=-1))
    attended = linear_attention(query, key, mixed.reshape(2, 35, 4, 4), table).reshape(2, 5, 7, 16)
    attended = attended + pala.value_encoding(mixed)
    context = pala.context(x)
    expected = pala.aggregate(attended * context * torch.sigmoid(context))
    torch.testing.assert_close(pala(x, table), expected)


def test_one_changed_position_reaches_every_other_in_one_pass():
    torch.manual_seed(0)
    attention = PALA(16, 4).double()
    x = torch.randn(1, 9, 11, 16, dtype=torch.float64)
    y = x.clone()
    y[0, 0, 0] += 1
    table = rotary_table(9, 11, 4, dtype=torch.float64)
    change = (attention(x, table) - attention(y, table)).abs().amax(dim=-1)
    assert torch.all(change > 0)
