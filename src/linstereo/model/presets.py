"""Sizes and variants: the only place that knows them.

`preset(name)` gives the settings of the paper's model, of the small one, and of every row of every ablation table;
`build(settings)` turns them into a network.
"""

import dataclasses
import math
import reprlib
from functools import partial
from typing import Any, Literal

from torch import nn

from linstereo.errors import InputError
from linstereo.files import MAX_PIXELS
from linstereo.model.backbone import Backbone, CompactBackbone, build_da3
from linstereo.model.confidence import ConfidenceHead
from linstereo.model.correlation_start import CorrelationStart
from linstereo.model.cost_volume import HierarchicalCostVolumes, PooledCostVolume
from linstereo.model.depth_prior import DepthPriorStart
from linstereo.model.linstereo import LinStereo
from linstereo.model.pala import PALABlock
from linstereo.model.starts import Start, ZeroStart
from linstereo.model.updater import ConvGRUUnit, MotionEncoder, MultiScaleUpdater, PALAUnit, ResidualHead, UnitFactory
from linstereo.model.upsample import ConvexUpsampler

CHOICES = {
    "backbone": ("vitb", "vits", "compact"),
    "cost_volume": ("hierarchical", "single", "pooled"),
    "start": ("depth_prior", "correlation", "zero"),
    "update": ("pala", "convgru"),
}
RANGES: dict[str, tuple[float, float]] = {
    "scales": (1, 3),
    "feature_width": (1, 1024),
    "levels": (1, 10),
    "radius": (1, 32),
    "hidden": (4, 1024),
    "coarse_hidden": (0, 1024),
    "heads": (1, 64),
    "blocks": (1, 32),
    "mlp_ratio": (0.125, 16),
    "context": (0, 1024),
    "fine": (0, 512),
    "guide": (0, 512),
    "coarse_iterations": (0, 1000),
    "coarse_passes": (1, 8),
    "working_pixels": (0, MAX_PIXELS),
    "plain_pixels": (0, MAX_PIXELS),
    "iterations": (1, 1000),
    "prior_inlier_share": (0, 1),
    "confidence": (0, 512),
}
"""Smallest and largest value of each numeric setting, far beyond what makes sense on either side: what lies outside is
damage or malice, which must not cost gigabytes or hours."""
MAX_BLOCK_WEIGHTS = 1 << 26  # of all PALA blocks of an update scale, about; the paper has 160,000


@dataclasses.dataclass(frozen=True)
class LinStereoConfig:
    """The settings of a network; the defaults are the paper's model.

    Args:
        backbone: which DA3 encoder, frozen; or the small convolutional one that is trained with the rest.
        cost_volume: one volume per scale (HSCV), a single one at 1/4, or a single one from pooled features.
        start: where refinement starts: from monocular depth (DPI), from the best matches in the volumes, or from zero.
        update: PALA or the ConvGRU baseline.
        scales: update scales: 1 (1/4), 2 (1/4, 1/8) or 3 (1/4, 1/8, 1/16).
        feature_width: c_f, channels of the projected features.
        levels: L_corr, pyramid levels along the disparity axis.
        radius: samples on either side of the current match in each level.
        hidden: channels of the hidden states.
        coarse_hidden: their channels at 1/8 and 1/16, where positions are few; 0 stands for `hidden`.
        heads: attention heads; hidden must be a multiple of 4 * heads.
        blocks: PALA blocks per updater.
        mlp_ratio: width of the block's MLP relative to hidden.
        position_encoding: global spatial encoding: RoPE and CPE.
        symmetric_rope: RoPE in the attention's denominator too.
        local_encoding: spatial mixing and local encoding of the values.
        context_gate: adaptive gating by the context branch.
        context: channels of a level at 1/32 of the compact backbone; 0 for none, as with the other backbones.
        fine: channels between two further convolutions at 1/4 of the compact backbone; 0 for none, as with the others.
        guide: channels of the image's own detail that the upsampling sees beside the hidden state; 0 for none.
        coarse_iterations: iterations of a first pass at half the size, whose disparity starts the pass at full size
            where the correlations are unsure; 0 for a single pass. Only with the start from correlations.
        coarse_passes: how many such passes there are if any: each starts from one at half its own size.
        working_pixels: images with fewer pixels are enlarged before prediction, to about as many, because the finest
            cells are 4 px wide; 0 for never.
        plain_pixels: the same for images that are plain nearly everywhere, which have no detail to gain and larger
            surfaces to lose their way on; 0 for `working_pixels`.
        sharp_steps: whether a prediction is rid of what is blended between two surfaces, see
            `linstereo.geometry.depth_edges.sharpened`; the network itself is the same.
        iterations: T used for training and by default for inference.
        prior_inlier_share: DPI also starts from zero if a smaller share of the sparse matches agrees with its fit, in
            [0, 1]; 0 is the paper's rule, which only asks for 20 of them.
        confidence: channels of the head that tells how far a disparity can be trusted, trained by itself after all
            else (`linstereo confidence`); 0 for none.
        confidence_cues: whether that head also sees how far the start could be trusted.
    """

    backbone: Literal["vitb", "vits", "compact"] = "vitb"
    cost_volume: Literal["hierarchical", "single", "pooled"] = "hierarchical"
    start: Literal["depth_prior", "correlation", "zero"] = "depth_prior"
    update: Literal["pala", "convgru"] = "pala"
    scales: int = 3
    feature_width: int = 128
    levels: int = 4
    radius: int = 4
    hidden: int = 128
    coarse_hidden: int = 0
    heads: int = 4
    blocks: int = 1
    mlp_ratio: float = 2.0
    position_encoding: bool = True
    symmetric_rope: bool = False
    local_encoding: bool = True
    context_gate: bool = True
    context: int = 0
    fine: int = 0
    guide: int = 0
    coarse_iterations: int = 0
    coarse_passes: int = 1
    working_pixels: int = 0
    plain_pixels: int = 0
    sharp_steps: bool = False
    iterations: int = 8
    prior_inlier_share: float = 0.0
    confidence: int = 0
    confidence_cues: bool = False

    def __post_init__(self) -> None:
        """Check types, ranges and what suits what; nothing is allocated, so a file's settings can be judged first."""
        for field in dataclasses.fields(self):
            _check_setting(field.name, getattr(self, field.name), field.type)
        for name in ("hidden", "coarse_hidden"):
            if getattr(self, name) % (4 * self.heads):
                raise InputError(
                    f"{name} is {getattr(self, name)}; with {self.heads} heads use a multiple of {4 * self.heads}"
                )
        weights = self.blocks * max(self.hidden_widths) ** 2 * (6 + 2 * self.mlp_ratio)
        if weights > MAX_BLOCK_WEIGHTS:
            raise InputError(
                f"hidden {self.hidden}, coarse_hidden {self.coarse_hidden}, blocks {self.blocks} and mlp_ratio "
                f"{self.mlp_ratio:g} together ask for some {weights:.0e} weights in the blocks of an update scale; use "
                f"values that need at most {MAX_BLOCK_WEIGHTS:.0e}"
            )
        if self.coarse_iterations and self.start != "correlation":
            raise InputError(f"coarse_iterations is {self.coarse_iterations}; use 0 with the start {self.start!r}")
        for name in ("context", "fine"):
            if getattr(self, name) and self.backbone != "compact":
                raise InputError(f"{name} is {getattr(self, name)}; use 0 with the backbone {self.backbone!r}")

    @property
    def hidden_widths(self) -> tuple[int, ...]:
        """Channels of the hidden state of each update scale, finest first."""
        return (self.hidden, *[self.coarse_hidden or self.hidden] * (self.scales - 1))


def _check_setting(name: str, value: Any, kind: Any) -> None:
    """Check one setting by itself; `kind` is the type of its field."""
    low, high = RANGES.get(name, (-math.inf, math.inf))
    if name in CHOICES:
        good, wanted = isinstance(value, str) and value in CHOICES[name], " or ".join(CHOICES[name])
    elif kind is bool:
        good, wanted = isinstance(value, bool), "true or false"
    else:
        allowed = (int, float) if kind is float else (int,)
        number = isinstance(value, allowed) and not isinstance(value, bool)
        good = number and low <= value <= high and -math.inf < value < math.inf
        wanted = f"a {'' if kind is float else 'whole '}number from {low} to {high}"
    if not good:
        raise InputError(f"{name} is {reprlib.repr(value)}; use {wanted}")


PAPER = LinStereoConfig()


def ablations(base: LinStereoConfig) -> dict[str, dict[str, Any]]:
    """Settings that differ from `base` in each variant of the ablation tables that changes the network, by name.

    The complete network has HSCV, PALA and DPI; a base whose backbone gives no monocular depth starts from correlations
    where the paper starts from DPI. The hidden width is varied by the paper's factors, see `scaled_widths`; all other
    numbers are the paper's. Not every variant suits every base: the heads must divide its hidden width.
    """
    start = base.start if base.start != "zero" else "correlation" if base.backbone == "compact" else "depth_prior"
    passes = {"start": start, "coarse_iterations": base.coarse_iterations if start == base.start else 0}
    complete = {"cost_volume": "hierarchical", **passes, "update": "pala"}
    variants: dict[str, dict[str, Any]] = {}
    for hscv in (False, True):
        for dpi in (False, True):
            for pala in (False, True):
                on = [n for n, used in (("hscv", hscv), ("dpi", dpi), ("pala", pala)) if used]
                variants["components-" + ("-".join(on) or "none")] = {
                    "cost_volume": "hierarchical" if hscv else "single",
                    **(passes if dpi else {"start": "zero", "coarse_iterations": 0}),
                    "update": "pala" if pala else "convgru",
                }
    variants["components-pooled-dpi-pala"] = complete | {"cost_volume": "pooled"}
    a = complete | {"position_encoding": False, "local_encoding": False, "context_gate": False, "symmetric_rope": False}
    b = a | {"position_encoding": True}
    c = b | {"local_encoding": True}
    d = c | {"context_gate": True}
    variants |= {f"pala-{step}": changes for step, changes in zip("abcd", (a, b, c, d), strict=True)}
    variants["pala-symmetric-rope"] = d | {"symmetric_rope": True}
    for field, values in (("levels", (2, 3, 4)), ("scales", (1, 2, 3)), ("blocks", (1, 2, 3)), ("heads", (1, 2, 4, 8))):
        variants |= {f"{field}-{value}": complete | {field: value} for value in values}
    for value in (64, 96, 128, 256):
        widths = scaled_widths(base, value / PAPER.hidden)
        variants[f"hidden-{widths['hidden']}"] = complete | widths
    return variants


def scaled_widths(base: LinStereoConfig, factor: float) -> dict[str, int]:
    """The hidden widths of `base` times `factor`, rounded down to what its heads allow."""
    unit = 4 * base.heads
    widths = {name: int(getattr(base, name) * factor) // unit * unit for name in ("hidden", "coarse_hidden")}
    return {name: max(width, unit) if getattr(base, name) else 0 for name, width in widths.items()}


PRESETS: dict[str, LinStereoConfig] = {
    "paper": PAPER,
    "small": LinStereoConfig(backbone="vits"),
    "compact": LinStereoConfig(
        backbone="compact",
        start="correlation",
        feature_width=64,
        hidden=48,
        coarse_hidden=64,
        context=120,
        fine=48,
        guide=32,
        coarse_iterations=2,
        coarse_passes=2,
        working_pixels=600_000,
        plain_pixels=400 * 640,
        sharp_steps=True,
        iterations=4,
    ),
    **{name: dataclasses.replace(PAPER, **changes) for name, changes in ablations(PAPER).items()},
    **{f"iterations-{n}": LinStereoConfig(iterations=n) for n in (2, 4, 8, 12, 16)},
}


def preset(name: str) -> LinStereoConfig:
    """The settings of a named preset."""
    try:
        return PRESETS[name]
    except KeyError:
        raise InputError(f"there is no preset {name!r}; choose one of {', '.join(PRESETS)}") from None


def checked_iterations(count: int) -> int:
    """`count` itself if a network can be run with so many refinement iterations."""
    least, most = RANGES["iterations"]
    if not least <= count <= most:
        raise InputError(f"the number of iterations is {count}; use {least} to {most}")
    return count


def build(config: LinStereoConfig, *, backbone: Backbone | None = None) -> LinStereo:
    """Build the network with random weights.

    Args:
        config: its settings.
        backbone: features to use instead of the DA3 encoder that the settings name. The method does not depend on the
            backbone: anything that follows the `Backbone` protocol serves.
    """
    compact = partial(CompactBackbone, context=config.context, fine=config.fine)
    own = compact if config.backbone == "compact" else partial(build_da3, config.backbone)
    features: Backbone = own() if backbone is None else backbone
    start = _build_start(config)
    if start.needs_depth and not features.has_depth:
        raise InputError("this backbone gives no monocular depth; use a preset without the depth prior (DPI)")
    channels = features.channels[: config.scales]
    sizes = {"width": config.feature_width, "levels": config.levels, "radius": config.radius}
    volumes = config.scales if config.cost_volume == "hierarchical" else 1
    if config.cost_volume == "pooled":
        cost_volumes: HierarchicalCostVolumes = PooledCostVolume(features.channels, **sizes)
    else:
        cost_volumes = HierarchicalCostVolumes(channels[:volumes], **sizes)
    samples = config.levels * (2 * config.radius + 1)
    widths = config.hidden_widths
    return LinStereo(
        config=config,
        backbone=features,
        cost_volumes=cost_volumes,
        start=start,
        hidden_projection=nn.ModuleList(
            nn.Conv2d(c + start.cues, width, 3, padding=1) for c, width in zip(channels, widths, strict=True)
        ),
        motion_encoders=[MotionEncoder(samples, width) for width in widths[:volumes]],
        updater=MultiScaleUpdater(
            _unit_factory(config),
            hidden=widths,
            motion_channels=[*widths[:volumes], *[0] * (config.scales - volumes)],
            heads=config.heads,
        ),
        residual_head=ResidualHead(config.hidden),
        upsampler=ConvexUpsampler(config.hidden, guide=config.guide),
        confidence_head=build_confidence_head(config) if config.confidence else None,
    )


def build_confidence_head(config: LinStereoConfig) -> ConfidenceHead:
    """The head that `config.confidence` asks for, untrained; it is not trained with the rest, so it is frozen."""
    samples = config.levels * (2 * config.radius + 1)
    cues = _build_start(config).cues if config.confidence_cues else 0
    head = ConfidenceHead(hidden=config.hidden, samples=samples, cues=cues, width=config.confidence)
    return head.requires_grad_(False)


def _build_start(config: LinStereoConfig) -> Start:
    if config.start == "depth_prior":
        return DepthPriorStart(min_inlier_share=config.prior_inlier_share)
    if config.start == "zero":
        return ZeroStart()
    return CorrelationStart(coarse_iterations=config.coarse_iterations, coarse_passes=config.coarse_passes)


def _unit_factory(config: LinStereoConfig) -> UnitFactory:
    if config.update == "convgru":
        return ConvGRUUnit
    make_block = partial(
        PALABlock,
        heads=config.heads,
        mlp_ratio=config.mlp_ratio,
        position_encoding=config.position_encoding,
        symmetric_rope=config.symmetric_rope,
        local_encoding=config.local_encoding,
        context_gate=config.context_gate,
    )
    return lambda hidden, inputs: PALAUnit(hidden, inputs, blocks=[make_block(hidden) for _ in range(config.blocks)])
