"""Counting a network: parameters of its parts and the operations of a forward pass."""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from linstereo.model.presets import LinStereoConfig, build, checked_iterations
from linstereo.model.strides import padded

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Part:
    """One box of the figure.

    Attributes:
        name: what it is.
        parameters: how many numbers it holds.
        trained: how many of them training changes.
        gflops: 1e9 floating-point operations per image pair, a multiplication and an addition counting as two; those of
            matrix products and convolutions, which dominate.
        repeats: how often it runs per pair; `gflops` is for all of them together.
    """

    name: str
    parameters: int
    trained: int
    gflops: float
    repeats: int = 1


@dataclasses.dataclass(frozen=True)
class Summary:
    """A network's parts at one image size."""

    height: int
    width: int
    iterations: int
    parts: tuple[Part, ...]

    @property
    def parameters(self) -> int:
        """Parameters of all parts."""
        return sum(part.parameters for part in self.parts)

    @property
    def trained(self) -> int:
        """Trained parameters of all parts."""
        return sum(part.trained for part in self.parts)

    @property
    def gflops(self) -> float:
        """Operations of all parts, in 1e9."""
        return sum(part.gflops for part in self.parts)


def summarise(
    config: LinStereoConfig, *, height: int = 480, width: int = 640, iterations: int | None = None
) -> Summary:
    """Count parameters and operations for one pair of `height` x `width` px (padded as the network does).

    Nothing is computed: the network is built without memory behind it. SIFT matching, on the CPU, is not counted.
    """
    rounds = checked_iterations(config.iterations if iterations is None else iterations)
    size = height, width = padded(height), padded(width)
    with torch.device("meta"):
        model = build(config).eval()
        pair = torch.empty(2, 3, height, width)
    parts = []

    def run(name: str, module: object, action: Callable[[], T], repeats: int = 1) -> T:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            result = action()
        sizes = [(p.numel(), p.requires_grad) for p in module.parameters()] if isinstance(module, nn.Module) else []
        parts.append(
            Part(
                name,
                sum(n for n, _ in sizes),
                sum(n for n, trained in sizes if trained),
                repeats * counter.get_total_flops() / 1e9,
                repeats,
            )
        )
        return result

    depth_images = int(model.start.needs_depth)
    features = run("backbone", model.backbone, lambda: model.backbone(pair, depth_images=depth_images))
    volumes = run("cost volumes", model.cost_volumes, lambda: model.cost_volumes(features.pyramid))
    left = [feature[:1] for feature in features.pyramid]
    disparity, cues = (left[0].new_empty(1, channels, *volumes[0].size) for channels in (1, model.start.cues))
    hidden = run("hidden state projections", model.hidden_projection, lambda: model.initial_hidden(left, cues))
    tables = model.updater.positions(hidden)
    motion = run(
        "motion encoders", model.motion_encoders, lambda: model.encode_motion(volumes, disparity, len(hidden)), rounds
    )
    updated = run("updaters", model.updater, lambda: model.updater(hidden, motion, tables), rounds)
    run("residual head", model.residual_head, lambda: model.residual_head(updated[0]), rounds)
    run("upsampler", model.upsampler, lambda: model.upsampler(disparity, updated[0], model.guide(pair[:1])))
    head = model.confidence_head
    if head is not None:
        inputs = left[0].new_empty(1, head.inputs, *volumes[0].size)
        run("confidence head", head, lambda: head.logits(inputs, inputs.new_empty(1)))
    if config.coarse_iterations:
        single = dataclasses.replace(config, coarse_iterations=0)
        gflops = 0.0
        for _ in range(config.coarse_passes):
            height, width = height // 2, width // 2
            coarse = summarise(single, height=height, width=width, iterations=config.coarse_iterations)
            height, width, gflops = coarse.height, coarse.width, gflops + coarse.gflops
        parts.append(Part("coarse passes", 0, 0, gflops, 1))
    return Summary(*size, rounds, tuple(parts))
