"""Position encodings against plain formulas."""

import math

import torch

from linstereo.model.backbone import positions
from linstereo.model.backbone.positions import (
    add_uv_embedding_,
    apply_rope,
    resize_position_embedding,
    rope_tables,
)

CPU = torch.device("cpu")


def test_rope_turns_each_pair_of_channels_by_its_angle() -> None:
    rows, cols, dim = 2, 3, 16
    tables = rope_tables(rows, cols, dim, torch.float64, CPU)
    x = torch.randn(1, 1, 1 + rows * cols, dim, dtype=torch.float64)
    places = [(0, 0)] + [(row, col) for row in range(1, rows + 1) for col in range(1, cols + 1)]
    for table, seats in ((tables.local, places), (tables.shared, [(0, 0)] + [(1, 1)] * (rows * cols))):
        turned = apply_rope(x, table)
        for token, place in enumerate(seats):
            for axis in range(2):
                for pair in range(4):
                    first, second = 8 * axis + pair, 8 * axis + 4 + pair
                    angle = place[axis] * 100.0 ** (-pair / 4)
                    before = complex(x[0, 0, token, first], x[0, 0, token, second])
                    after = complex(turned[0, 0, token, first], turned[0, 0, token, second])
                    expected = before * complex(math.cos(angle), math.sin(angle))
                    assert abs(after - expected) < 1e-6


def test_uv_embedding_is_sines_and_cosines_of_the_pixel_centres() -> None:
    channels, height, width, aspect = 8, 3, 5, 2.5
    added = add_uv_embedding_(torch.zeros(2, channels, height, width, dtype=torch.float64), aspect=aspect)
    diagonal = math.hypot(aspect, 1.0)
    for row in range(height):
        for col in range(width):
            u = ((2 * col + 1) / width - 1) * aspect / diagonal
            v = ((2 * row + 1) / height - 1) / diagonal
            expected = [
                0.1 * wave(place * frequency)
                for place in (u, v)
                for wave in (math.sin, math.cos)
                for frequency in (1.0, 0.1)
            ]
            for image in added:
                torch.testing.assert_close(
                    image[:, row, col], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-7
                )


def test_uv_embedding_is_added_in_place() -> None:
    x = torch.ones(1, 8, 2, 2)
    assert add_uv_embedding_(x, aspect=1.0) is x
    assert not torch.equal(x, torch.ones_like(x))


def test_position_embedding_fits_any_grid() -> None:
    embedding = torch.randn(1, 1 + 37 * 37, 1)
    for rows in range(1, 200):
        assert resize_position_embedding(embedding, rows, 3).shape == (1, 1 + rows * 3, 1)
        assert resize_position_embedding(embedding, 3, rows).shape == (1, 1 + rows * 3, 1)


def test_position_embedding_is_itself_on_its_own_grid_and_keeps_the_class_token() -> None:
    embedding = torch.randn(1, 1 + 37 * 37, 4, dtype=torch.float64)
    assert torch.equal(resize_position_embedding(embedding, 37, 37), embedding)
    resized = resize_position_embedding(embedding, 20, 30)
    assert resized.dtype == torch.float64
    assert torch.equal(resized[:, 0], embedding[:, 0].float().double())


def test_remembered_tables_are_bounded() -> None:
    for size in range(1, 40):
        rope_tables(size, 2, 8, torch.float32, CPU)
        add_uv_embedding_(torch.zeros(1, 8, size, 2 * size), aspect=2.0)
    for cache in (positions.rope_tables, positions._axis_embedding):
        info = cache.cache_info()
        assert info.maxsize is not None
        assert info.currsize <= info.maxsize <= 64
    misses = positions.rope_tables.cache_info().misses
    rope_tables(39, 2, 8, torch.float32, CPU)
    assert positions.rope_tables.cache_info().misses == misses
