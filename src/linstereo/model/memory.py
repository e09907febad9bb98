"""How much memory a prediction takes on the CPU, told from its size before it starts.

The numbers were fitted to measurements of the peak of whole processes, in benchmarks/memory.md, which
benchmarks/memory.py repeats. They lie above all of them: it is better to choose the smaller volume, or to refuse a run
that would just have fitted, than to be killed by the system half-way.
"""

from linstereo.model.cost_volume import VolumeKind
from linstereo.model.linstereo import PAD_TO
from linstereo.model.presets import LinStereoConfig

_FIXED = 64 << 20  # bytes that do not depend on the size: thread stacks, buffers of the libraries
_BACKBONE = {"vitb": 1450.0, "vits": 1400.0, "compact": 600.0}  # bytes for each pixel, as all that follows
_REFINEMENT = 175.0
_PER_HIDDEN_CHANNEL = 4.6
_PER_MLP_CHANNEL = 0.6
_PER_FEATURE_CHANNEL = 3.2


def peak_bytes(config: LinStereoConfig, height: int, width: int, volume: VolumeKind) -> int:
    """Bytes of float32 that predicting one pair takes at most, beyond the weights and the images themselves.

    Args:
        config: settings of the network.
        height: of the images that the network sees, px.
        width: of them, px.
        volume: how correlations are held.
    """
    rows, columns = (-(-side // PAD_TO) * PAD_TO for side in (height, width))
    hidden = max(config.hidden, config.coarse_hidden / 4)  # coarse maps have a quarter of the positions, or fewer
    refinement = (
        _REFINEMENT
        + _PER_HIDDEN_CHANNEL * hidden
        + _PER_MLP_CHANNEL * hidden * config.mlp_ratio
        + _PER_FEATURE_CHANNEL * config.feature_width
    )
    stored = volume_bytes(config, rows, columns) if volume == "stored" else 0
    return _FIXED + round(rows * columns * max(_BACKBONE[config.backbone], refinement)) + stored


def volume_bytes(config: LinStereoConfig, height: int, width: int) -> int:
    """Bytes of the stored float32 volumes of all scales, pyramids (x 2) included, for images of that size."""
    scales = (4, 8, 16)[: config.scales if config.cost_volume == "hierarchical" else 1]
    return sum(8 * -(-height // s) * (-(-width // s)) ** 2 for s in scales)
