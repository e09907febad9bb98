"""What to train, on what, and how long: a recipe is a network and a row of stages.

Recipes are written as TOML files, see `linstereo.training.recipe_files`; this module holds their fields and checks
the values.
"""

import dataclasses
import reprlib
import sys
import types
import typing
from collections.abc import Mapping
from typing import Any

from linstereo.data.augmentation import AugmentationSettings
from linstereo.errors import InputError
from linstereo.model.presets import LinStereoConfig, preset
from linstereo.model.strides import PAD_TO

OBJECTIVES = ("sequence", "matching")
OPTIMIZERS = ("adamw", "muon")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")
MAX_CROP = 4096  # px
MAX_SEED = 2**63 - 1
STAGE_RANGES: Mapping[str, tuple[float, float]] = types.MappingProxyType(
    {
        **dict.fromkeys(("steps", "checkpoint_every", "log_every"), (1, 1e9)),
        **dict.fromkeys(("validate_every", "picture_every"), (0, 1e9)),
        **dict.fromkeys(("batch", "accumulate"), (1, 2**16)),
        **dict.fromkeys(("validation_count", "variants"), (0, 1e6)),
        **dict.fromkeys(("iterations", "warm_iterations"), (0, 1000)),
        **dict.fromkeys(("smoothness_weight", "gradient_weight", "edge_weight", "matching_weight"), (0, 1e6)),
        **dict.fromkeys(("weight_decay",), (0, 1000)),
        **dict.fromkeys(("robust", "max_disparity"), (0, 1e6)),
    }
)
"""Smallest and largest value of the fields of a stage; far wider than what anybody trains with."""
_CROP_FIELDS = ("crop_height", "crop_width")  # of the augmentation; a stage has them as `crop`


@dataclasses.dataclass(frozen=True)
class Stage:
    """One part of training with its own data, objective and learning-rate cycle; the defaults are the paper's.

    A stage starts from the averaged weights that the stage before ended with.

    Args:
        name: what to call it; unique in its recipe.
        objective: "sequence", the loss of the paper over all refinement iterations (Eq. 9), or "matching", the
            cross-entropy of the soft match along the row, which trains features without the decoder.
        steps: optimiser steps.
        learning_rate: peak of the one-cycle schedule.
        warmup: fraction of the steps in which the rate rises; it falls linearly in the rest.
        batch: pairs in an optimiser step, over all processes.
        accumulate: into how many parts a step's batch is split to save memory; does not change the result.
        crop: height and width of the training crops in px, multiples of 32.
        iterations: refinement iterations T; 0 for the network's own number.
        warm_iterations: up to this many iterations, a new number in every step, come before those of the loss and
            without a gradient: the network learns, for little time, to keep what is right in further iterations.
        true_starts: share of the steps, 0 to 1, in which a network with coarse passes starts from the disturbed truth
            instead, see `linstereo.training.starts`: it learns to keep what is right and to repair what is wrong.
        optimizer: "adamw", or "muon" for steps of the same length in all directions of a weight matrix, which learn
            more from few steps; vectors and small matrices are AdamW's in both.
        weight_decay: of the optimiser, decoupled.
        clip_norm: largest norm of the gradient.
        gamma: weight ratio of a refinement iteration to the next.
        smoothness_weight: lambda_s of Eq. 9.
        gradient_weight: lambda_g of Eq. 9.
        robust: error in px from which larger ones count ever less, see `linstereo.training.loss`; 0 for never.
        edge_weight: how much more pixels near a step of the disparity, or hidden from the right camera by something
            else, count, and by a third of it those whose match lies outside; see `linstereo.training.edges`.
        upsample_all: every iteration is brought to full size by the network itself, as in the paper; if false only the
            last one is and the others are interpolated, which saves time.
        matching_weight: weight of the matching objective beside the sequence one, so that features keep matching while
            the decoder learns; 0 for none.
        ema_decay: decay of the averaged weights; 0 turns averaging off.
        frozen: prefixes of the names of parameters that this stage does not change, such as "backbone".
        max_disparity: ground truth beyond this, px, is not trained on; 0 for no limit.
        precision: "auto" (bfloat16 or float16 arithmetic on CUDA, float32 on the CPU), or one of them.
        data: where the pairs come from, see `linstereo.training.sources`.
        augmentation: settings that differ from `AugmentationSettings`; its crop is the one given here.
        variants: augmented variants of each pair, which take turns; 0 for a new one every time. Features of a frozen
            backbone can only be cached with a limited number.
        validation: sources of the pairs that are measured during training.
        validation_count: pairs taken from each of them, evenly spread.
        validation_crop: centre crop of these pairs, height and width in px; 0, 0 for the whole image.
        validate_every: steps between validations; 0 for only one at the end of the stage.
        picture_every: steps between pictures, drawn with the next validation; 0 for only at the end of the stage.
        checkpoint_every: steps between checkpoints to resume from.
        log_every: steps between entries in the log.
    """

    name: str = "training"
    objective: str = "sequence"
    steps: int = 200_000
    learning_rate: float = 2e-4
    warmup: float = 0.01
    batch: int = 8
    accumulate: int = 1
    crop: tuple[int, int] = (320, 640)
    iterations: int = 8
    warm_iterations: int = 0
    true_starts: float = 0.0
    optimizer: str = "adamw"
    weight_decay: float = 1e-5
    clip_norm: float = 1.0
    gamma: float = 0.9
    smoothness_weight: float = 0.001
    gradient_weight: float = 0.01
    robust: float = 0.0
    edge_weight: float = 0.0
    upsample_all: bool = True
    matching_weight: float = 0.0
    ema_decay: float = 0.999
    frozen: tuple[str, ...] = ()
    max_disparity: float = 0.0
    precision: str = "auto"
    data: tuple[str, ...] = ()
    augmentation: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    variants: int = 0
    validation: tuple[str, ...] = ()
    validation_count: int = 16
    validation_crop: tuple[int, int] = (0, 0)
    validate_every: int = 1000
    picture_every: int = 1000
    checkpoint_every: int = 500
    log_every: int = 20

    def __post_init__(self) -> None:
        self._check_choice("objective", OBJECTIVES)
        self._check_choice("precision", PRECISIONS)
        self._check_choice("optimizer", OPTIMIZERS)
        for name, (least, most) in STAGE_RANGES.items():
            self._check(name, least <= getattr(self, name) <= most, f"a number from {least:,g} to {most:,g}")
        self._check("learning_rate", 0 < self.learning_rate <= 1000, "a number above 0, up to 1,000")
        self._check("clip_norm", self.clip_norm > 0, "a number above 0")
        self._check("gamma", 0 < self.gamma <= 1, "a number above 0 and at most 1")
        self._check("true_starts", 0 <= self.true_starts <= 1, "a share from 0 to 1")
        self._check("warmup", 0 <= self.warmup < 1, "a fraction from 0 to below 1")
        self._check("ema_decay", 0 <= self.ema_decay < 1, "a number from 0 to below 1")
        good_crop = all(PAD_TO <= side <= MAX_CROP and side % PAD_TO == 0 for side in self.crop)
        self._check("crop", good_crop, f"height and width in multiples of {PAD_TO} px, up to {MAX_CROP}")
        whole = self.validation_crop == (0, 0)
        self._check("validation_crop", whole or min(self.validation_crop) >= PAD_TO, f"at least {PAD_TO}")
        self._check("batch", self.batch % self.accumulate == 0, f"a multiple of accumulate, {self.accumulate}")
        plain_name = self.name.replace("_", "").replace("-", "").isalnum()
        self._check("name", plain_name and self.name not in stage_fields(), "letters, digits, - and _, and no field")
        self.augmentation_settings()

    def augmentation_settings(self) -> AugmentationSettings:
        """The augmentation of this stage's pairs."""
        values = convert_fields(AugmentationSettings, self.augmentation, where="augmentation", without=_CROP_FIELDS)
        return AugmentationSettings(crop_height=self.crop[0], crop_width=self.crop[1], **values)

    def _check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        self._check(name, getattr(self, name) in choices, " or ".join(choices))

    def _check(self, name: str, good: bool, wanted: str) -> None:
        if not good:
            raise InputError(f"{name} of stage {self.name!r} is {getattr(self, name)!r}; use {wanted}")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A network and the stages that train it.

    Args:
        preset: name of the network's settings, see `linstereo.model.presets`.
        model: settings of the network that differ from the preset.
        seed: of the first weights, the order of the data and its augmentation; >= 0.
        stages: what to do, in order.
    """

    preset: str = "paper"
    model: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    seed: int = 0
    stages: tuple[Stage, ...] = dataclasses.field(default_factory=lambda: (Stage(),))

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= MAX_SEED:
            raise InputError(f"the seed is {self.seed}; use 0 to {MAX_SEED}")
        names = [stage.name for stage in self.stages]
        if not names:
            raise InputError("the recipe has no stage; add a [[stage]] table")
        if len(set(names)) < len(names):
            raise InputError(f"the stages are called {', '.join(names)}; give each one a name of its own")
        self.config()

    def with_iterations(self, own: int) -> "Recipe":
        """The recipe with `own` iterations in the stages that leave their number to the network."""
        stages = (dataclasses.replace(stage, iterations=stage.iterations or own) for stage in self.stages)
        return dataclasses.replace(self, stages=tuple(stages))

    def config(self) -> LinStereoConfig:
        """The settings of the network."""
        values = convert_fields(LinStereoConfig, self.model, where="model")
        return dataclasses.replace(preset(self.preset), **values)


def stage_fields() -> tuple[str, ...]:
    """The names of a stage's fields."""
    return tuple(field.name for field in dataclasses.fields(Stage))


def convert_fields(
    kind: type[Any], values: Mapping[str, Any], *, where: str, without: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Check that `values` are fields of the dataclass `kind` and turn each one into its field's type.

    Text, as it comes from a command line, is accepted for numbers, pairs ("160x320") and lists ("a,b").
    """
    types_by_name = {name: hint for name, hint in typing.get_type_hints(kind).items() if name not in without}
    converted = {}
    for name, value in values.items():
        if name not in types_by_name:
            raise InputError(f"{where} has no field {name!r}; choose among {', '.join(sorted(types_by_name))}")
        converted[name] = convert(value, types_by_name[name], name=name)
    return converted


def convert(value: Any, kind: Any, *, name: str) -> Any:
    """`value` as a field of type `kind`; an `InputError` with the field's name if it cannot be one."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return convert(value, next(a for a in arguments if a is not type(None)), name=name)
    if origin is typing.Literal:
        return convert(value, str, name=name)
    if origin is tuple:
        return _convert_tuple(value, arguments, name=name)
    if kind is bool:
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        return _require(value, isinstance(value, bool), name, "true or false")
    if kind is int:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return int(_require(value, whole and not isinstance(value, bool), name, "a whole number"))
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
        return float(_require(value, number, name, "a finite number"))
    if kind is str:
        return _require(value, isinstance(value, str), name, "a text")
    return _require(value, isinstance(value, Mapping), name, "a table of settings")


def _convert_tuple(value: Any, arguments: tuple[Any, ...], *, name: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = value.split("x") if arguments[-1] is int else [value]
        value = [int(v) if arguments[-1] is int and v.strip().isdecimal() else v for v in value]
    some = arguments[-1] is Ellipsis
    right_length = isinstance(value, list | tuple) and (some or len(value) == len(arguments))
    wanted = "a list of texts" if some else f"{len(arguments)} numbers, such as [160, 320] or 160x320"
    items = _require(value, right_length, name, wanted)
    return tuple(convert(item, arguments[0], name=name) for item in items)


def _require(value: Any, good: bool, name: str, wanted: str) -> Any:
    if not good:
        raise InputError(f"{name} is {reprlib.repr(value)}; it must be {wanted}")
    return value
