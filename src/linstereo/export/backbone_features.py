"""What a backbone gives to the rest of the graph."""

from typing import NamedTuple

from linstereo.export.graph import Value


class Features(NamedTuple):
    """What a backbone says about images [B, 3, H, W]."""

    pyramid: tuple[Value, Value, Value]  # [B, C_s, H/s, W/s] at 1/4, 1/8 and 1/16
    depth: Value | None  # monocular depth of the first image, [1, 1, h, w]; None unless it was asked for
