"""Recipes as TOML files, and changes to them from the command line.

    preset = "compact"              # the network
    batch = 8                       # a field of `Stage` here holds for all stages ...
    [model]                         # settings of the network that differ from the preset
    hidden = 64
    [[stage]]
    name = "features"
    batch = 4                       # ... unless the stage has its own

A change is `field=value` (all stages), `stage.field=value` (one stage), `model.field=value`, `preset=name` or
`seed=number`, where the value is written as in TOML; text needs no quotes.
"""

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from linstereo.errors import InputError
from linstereo.files import read_file
from linstereo.training.recipe import Recipe, Stage, convert, convert_fields, stage_fields

_TOP_FIELDS = ("preset", "seed", "model", "stage")
_TABLES = ("augmentation",)  # fields whose entries are overridden one by one


def recipe_names() -> tuple[str, ...]:
    """The recipes that come with the package."""
    folder = resources.files("linstereo.training") / "recipes"
    return tuple(sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_recipe(name_or_path: str, *, changes: Sequence[str] = ()) -> Recipe:
    """A recipe of the package by name, or one from a TOML file, with `changes` ("field=value") applied."""
    if name_or_path in recipe_names():
        text = (resources.files("linstereo.training") / "recipes" / f"{name_or_path}.toml").read_text("utf-8")
    elif Path(name_or_path).exists() or name_or_path.endswith(".toml"):
        text = _decode(read_file(name_or_path), name_or_path)
    else:
        raise InputError(
            f"there is no recipe {name_or_path!r}; choose among {', '.join(recipe_names())}, or give a .toml file"
        )
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError also for numbers of thousands of digits
        raise InputError(f"the recipe {name_or_path} is not valid TOML: {error}") from error
    return recipe_from(content, changes=changes)


def recipe_from(content: Mapping[str, Any], *, changes: Sequence[str] = ()) -> Recipe:
    """The recipe that a parsed TOML file describes."""
    common = {name: value for name, value in content.items() if name not in _TOP_FIELDS}
    _check_names(common, (*stage_fields(), *_TOP_FIELDS), where="the recipe")
    tables = content.get("stage", [{}])
    if not (isinstance(tables, list) and all(isinstance(table, dict) for table in tables)):
        raise InputError("'stage' in the recipe must be written as [[stage]] tables")
    stages = [_merged(common, table) for table in tables]
    for table in stages:
        _check_names(table, stage_fields(), where="a stage")
    model = dict(convert(content.get("model", {}), Mapping, name="model"))
    top = {"preset": content.get("preset", Recipe.preset), "seed": content.get("seed", Recipe.seed)}
    for change in changes:
        _apply(change, top=top, model=model, stages=stages)
    return Recipe(
        preset=convert(top["preset"], str, name="preset"),
        seed=convert(top["seed"], int, name="seed"),
        model=model,
        stages=tuple(Stage(**convert_fields(Stage, table, where="a stage")) for table in stages),
    )


def recipe_to_json(recipe: Recipe) -> str:
    """All fields of a recipe as JSON text."""
    return json.dumps(dataclasses.asdict(recipe))


def recipe_from_json(text: str) -> Recipe:
    """The recipe that `recipe_to_json` wrote."""
    try:
        content = json.loads(text)
        content["stage"] = content.pop("stages")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError("the recipe that the run has stored is damaged; use another folder") from error
    return recipe_from(content)


def _apply(change: str, *, top: dict[str, Any], model: dict[str, Any], stages: list[dict[str, Any]]) -> None:
    """Apply one `key=value` from the command line."""
    key, equals, text = change.partition("=")
    if not equals or not key:
        raise InputError(f"the change {change!r} is not understood; write FIELD=VALUE, such as batch=4")
    first, _, rest = key.partition(".")
    value = _parse_value(text)
    names = [stage.get("name", Stage.name) for stage in stages]
    if key in top:
        top[key] = value
    elif first == "model" and rest:
        model[rest] = value
    elif first in names and rest:
        _set_field(stages[names.index(first)], rest, value, where=f"stage {first}")
    elif first in stage_fields() and (not rest or first in _TABLES):
        for stage in stages:
            _set_field(stage, key, value, where="a stage")
    else:
        choices = ", ".join([*top, *stage_fields()])
        raise InputError(
            f"there is no field {key!r}; choose among {choices}, model.FIELD, or STAGE.FIELD for the stages "
            f"{', '.join(names)}"
        )


def _set_field(stage: dict[str, Any], key: str, value: Any, *, where: str) -> None:
    first, _, rest = key.partition(".")
    if first in _TABLES and rest:
        stage[first] = {**stage.get(first, {}), rest: value}
        return
    _check_names([key], stage_fields(), where=where)
    if key == "name":
        raise InputError("the name of a stage cannot be changed from outside the recipe; edit its file")
    stage[key] = value.split(",") if key == "frozen" and isinstance(value, str) and value else value
    if stage[key] == "":
        stage[key] = []


def _merged(common: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**common, **table}
    for name in _TABLES:
        if isinstance(common.get(name), dict) and isinstance(table.get(name), dict):
            merged[name] = {**common[name], **table[name]}
    return merged


def _parse_value(text: str) -> Any:
    """A TOML value; anything that is none is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _check_names(names: Mapping[str, Any] | Sequence[str], known: Sequence[str], *, where: str) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"{where} has no field {name!r}; choose among {', '.join(known)}")


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"the recipe {name} is not a text file; give a TOML file") from error
