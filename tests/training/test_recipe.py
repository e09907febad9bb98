"""Recipes: the shipped ones, changes to them, and what is refused."""

from pathlib import Path

import pytest

from linstereo.errors import InputError
from linstereo.model.presets import preset
from linstereo.training.recipe import Stage, stage_fields
from linstereo.training.recipe_files import load_recipe, recipe_from, recipe_from_json, recipe_names, recipe_to_json


def one_sentence(told):
    text = str(told.value)
    assert "\n" not in text
    assert not text.endswith(".")
    return text


def test_the_papers_numbers():
    (stage,) = load_recipe("paper").stages
    assert (stage.steps, stage.batch, stage.crop, stage.iterations) == (200_000, 8, (320, 640), 8)
    assert (stage.learning_rate, stage.gamma) == (2e-4, 0.9)
    assert (stage.smoothness_weight, stage.gradient_weight) == (0.001, 0.01)
    assert (stage.weight_decay, stage.clip_norm, stage.warmup) == (1e-5, 1.0, 0.01)
    assert load_recipe("paper").config() == preset("paper")


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_loads_and_survives_json(name):
    recipe = load_recipe(name)
    assert recipe.stages
    assert recipe_from_json(recipe_to_json(recipe)) == recipe


def test_stages_inherit_and_override(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'preset = "compact"\nbatch = 2\nfrozen = ["backbone"]\n[augmentation]\nhue = 0.1\nbrightness = 0.3\n[model]\n'
        'hidden = 32\n[[stage]]\nname = "a"\n[[stage]]\nname = "b"\nbatch = 6\nfrozen = []\n'
        "augmentation = {hue = 0.0}\n"
    )
    recipe = load_recipe(str(file))
    a, b = recipe.stages
    assert (a.batch, a.frozen, a.augmentation_settings().hue) == (2, ("backbone",), 0.1)
    assert (b.batch, b.frozen, b.augmentation_settings().hue) == (6, (), 0.0)
    assert b.augmentation_settings().brightness == 0.3
    assert recipe.config().hidden == 32


def test_changes_from_the_command_line():
    recipe = load_recipe(
        "compact",
        changes=[
            "batch=16",
            "joint.batch=12",
            "crop=64x128",
            "learning_rate=1e-4",
            "joint.frozen=backbone,cost_volumes",
            "decoder.frozen=",
            "augmentation.brightness=0.1",
            "joint.augmentation.eraser_size=[10, 20]",
            "model.hidden=32",
            "seed=7",
            'data=["synth", "2*folder=/x"]',
            "validation=folder=/y,z",
        ],
    )
    features, decoder, joint, _surfaces = recipe.stages
    assert (features.batch, joint.batch) == (16, 12)
    assert features.crop == joint.crop == (64, 128)
    assert features.learning_rate == 1e-4
    assert joint.frozen == ("backbone", "cost_volumes")
    assert decoder.frozen == ()
    assert joint.augmentation_settings().brightness == 0.1
    assert joint.augmentation_settings().eraser_size == (10, 20)
    assert (recipe.config().hidden, recipe.seed) == (32, 7)
    assert joint.data == ("synth", "2*folder=/x")
    assert joint.validation == ("folder=/y,z",)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("bath=4", "'bath'"),
        ("joint.bath=4", "'bath'"),
        ("nostage.batch=4", "joint"),
        ("model.bath=4", "'bath'"),
        ("augmentation.bath=4", "'bath'"),
        ("batch", "FIELD=VALUE"),
        ("batch=four", "batch is 'four'"),
        ("batch=2.5", "batch is 2.5"),
        ("batch=true", "batch is True"),
        ("batch=0", "a number from 1 to 65,536"),
        ("batch=10", "multiple of accumulate"),
        ("learning_rate=-1", "above 0"),
        ("learning_rate=nan", "learning_rate"),
        ("crop=100x200", "multiples of 32"),
        ("crop=64", "crop is 64"),
        ("crop=64x64x64", "crop"),
        ("objective=matchign", "matching"),
        ("precision=half", "bfloat16"),
        ("ema_decay=1", "below 1"),
        ("gamma=0", "gamma"),
        ("augmentation.eraser_probability=2", "eraser_probability"),
        ("augmentation=3", "augmentation"),
        ("augmentation.crop_height=64", "crop_height"),
        ("model.hidden=33", "hidden is 33"),
        ("model.update=none", "update"),
        ("preset=nothing", "there is no preset 'nothing'"),
        ("seed=-1", "seed"),
        ("joint.name=x", "name"),
        ("data=3", "data is 3"),
    ],
)
def test_a_bad_change_is_told_in_one_sentence(change, expected):
    with pytest.raises(InputError) as told:
        load_recipe("compact", changes=["accumulate=4", "batch=8", change])
    assert expected in one_sentence(told)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch = ", "not valid TOML"),
        ("bath = 4", "'bath'"),
        ("[[stage]]\nbath = 4", "'bath'"),
        ("[stage]\nbatch = 4", "[[stage]]"),
        ("stage = []", "no stage"),
        ('[[stage]]\nname = "a"\n[[stage]]\nname = "a"', "a name of its own"),
        ('[[stage]]\nname = "batch"', "name"),
        ("model = 3", "model"),
        ("augmentation = 3", "augmentation"),
    ],
)
def test_a_bad_file_is_told_in_one_sentence(tmp_path, text, expected):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(InputError) as told:
        load_recipe(str(file))
    assert expected in one_sentence(told)


def test_recipes_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match=r"choose among compact, finetune, paper"):
        load_recipe("papr")
    with pytest.raises(InputError, match="does not exist"):
        load_recipe(str(tmp_path / "none.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not a text file"):
        load_recipe(str(tmp_path / "binary.toml"))


def test_a_recipe_without_stage_tables_is_one_stage():
    recipe = recipe_from({"steps": 5})
    assert recipe.stages == (Stage(steps=5),)


def test_the_number_of_iterations_may_be_left_to_the_network():
    recipe = recipe_from({"stage": [{"name": "a", "iterations": 0}, {"name": "b", "iterations": 3}]})
    assert [stage.iterations for stage in recipe.with_iterations(5).stages] == [5, 3]


def test_the_documentation_has_every_field():
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")
    for field in stage_fields():
        assert f"| `{field}` |" in text, field
