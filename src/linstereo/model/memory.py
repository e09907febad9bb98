"""How much memory a prediction takes on the CPU, told from its size before it starts.

The numbers were fitted to measurements of the peak of whole processes, in benchmarks/memory.md, which
benchmarks/memory.py repeats. They lie above all of them: it is better to choose the smaller volume, or to refuse a run
that would just have fitted, than to be killed by the system half-way.
"""

from linstereo.model.correlation_start import start_scale
from linstereo.model.cost_volume import VolumeKind
from linstereo.model.presets import LinStereoConfig
from linstereo.model.strides import STRIDES, padded

_FIXED = 64 << 20  # bytes that do not depend on the size: thread stacks, buffers of the libraries
_BACKBONE = {"vitb": 1450.0, "vits": 1400.0, "compact": 540.0}  # bytes for each pixel, as all that follows
_REFINEMENT = 60.0
_PER_HIDDEN_CHANNEL = 5.6
_PER_MLP_CHANNEL = 0.6
_PER_FEATURE_CHANNEL = 3.2
_BEFORE_START = 340.0
_PER_START_CELL = 30  # bytes for each left pixel and disparity of the volume from which refinement starts


def peak_bytes(config: LinStereoConfig, height: int, width: int, volume: VolumeKind) -> int:
    """Bytes of float32 that predicting one pair takes at most, beyond the weights and the images themselves.

    Args:
        config: settings of the network.
        height: of the images that the network sees, px.
        width: of them, px.
        volume: how correlations are held.
    """
    rows, columns = padded(height), padded(width)
    hidden = max(config.hidden, config.coarse_hidden / 4)  # coarse maps have a quarter of the positions, or fewer
    refinement = (
        _REFINEMENT
        + _PER_HIDDEN_CHANNEL * hidden
        + _PER_MLP_CHANNEL * hidden * config.mlp_ratio
        + _PER_FEATURE_CHANNEL * config.feature_width
    )
    stages = [rows * columns * max(_BACKBONE[config.backbone], refinement)]
    sizes = [(rows // scale, columns // scale) for scale in _volume_scales(config)]
    if config.start == "correlation":
        start_rows, start_columns = sizes[start_scale(sizes)]
        cells = start_rows * start_columns * (start_columns // 2 + 1)
        stages.append(_BEFORE_START * rows * columns + _PER_START_CELL * cells)
    stored = volume_bytes(config, rows, columns) if volume == "stored" else 0
    return _FIXED + round(max(stages)) + stored


def volume_bytes(config: LinStereoConfig, height: int, width: int) -> int:
    """Bytes of the stored float32 volumes of all scales, pyramids (x 2) and gaps included, for images of that size."""
    gaps = (config.levels + 1) * (2 * config.radius + 2)  # columns beside those of the levels
    sizes = [(-(-height // scale), -(-width // scale)) for scale in _volume_scales(config)]
    return sum(4 * rows * columns * (2 * columns + gaps) for rows, columns in sizes)


def _volume_scales(config: LinStereoConfig) -> tuple[int, ...]:
    """How much smaller than the images the maps of each cost volume are."""
    return STRIDES[: config.scales if config.cost_volume == "hierarchical" else 1]
