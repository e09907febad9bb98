"""Pairs held out of the training data, where a recipe would validate on rendered pairs that are not trained on.

Recipes that train on rendered pairs validate on rendered pairs too. With other data, and no word about validation,
these say little: the last pairs of each source are then validated on and not trained on.
"""

import dataclasses
from collections.abc import Sequence

from linstereo.training.recipe import Recipe
from linstereo.training.sources import is_rendered, open_source, split_source

HELD_OUT = 5  # per cent of each source


def hold_out(recipe: Recipe) -> tuple[Recipe, list[str]]:
    """The recipe with validation pairs held out of its data, and what to tell the user about it.

    Stages that validate on anything but rendered pairs stay as they are, and so do those that train on rendered pairs
    alone, on single pairs, or on parts that the user has chosen ("folder=/my/pairs[:80%]").
    """
    notes: dict[str, None] = {}
    stages = []
    for stage in recipe.stages:
        if stage.validation and all(is_rendered(text) for text in stage.validation):
            data, validation, told = _divide(stage.data, seed=recipe.seed)
            if validation:
                stage = dataclasses.replace(stage, data=tuple(data), validation=tuple(validation))
                notes |= dict.fromkeys(told)
        stages.append(stage)
    return dataclasses.replace(recipe, stages=tuple(stages)), list(notes)


def _divide(texts: Sequence[str], *, seed: int) -> tuple[list[str], list[str], list[str]]:
    """Sources to train on, sources to validate on, and a sentence about each of the latter."""
    data, validation, told = [], [], []
    for text in texts:
        written = split_source(text)
        pairs = 0 if is_rendered(text) or written.part else len(open_source(text, seed=seed).dataset)
        if pairs < 2:
            data.append(text)
            continue
        start = 100 - HELD_OUT
        data.append(f"{text}[:{start}%]")
        validation.append(f"{written.origin}[{start}%:]")
        kept = pairs - pairs * start // 100
        told.append(
            f"the last {kept} of the {pairs} pairs of {written.origin} are validated on and not trained on; to choose "
            "others, give --validation"
        )
    return data, validation, told
