"""Validation pairs held out of the user's own data, where the recipe would render its own."""

import sys

import pytest
from tests.training.tiny import write_folder

from linstereo.cli import main
from linstereo.training.held_out import hold_out
from linstereo.training.metrics_log import read_metrics
from linstereo.training.recipe_files import load_recipe
from linstereo.training.sources import open_source

QUICK = [f"--set={change}" for change in ("steps=1", "crop=32x64", "batch=1", "iterations=1", "model.hidden=16")]


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "pairs", count=3)


def test_no_pair_is_both_trained_and_validated_on(folder):
    recipe, notes = hold_out(load_recipe("compact", changes=[f'data=["2*folder={folder}", "synth"]']))
    assert notes == [
        f"the last 1 of the 3 pairs of folder={folder} are validated on and not trained on; to choose others, give "
        "--validation"
    ]
    for stage in recipe.stages:
        assert stage.data == (f"2*folder={folder}[:95%]", "synth")
        assert stage.validation == (f"folder={folder}[95%:]",)
    data, validation = (
        [source.dataset.sample_name(i) for i in range(len(source.dataset))]
        for source in (open_source(text, seed=0) for text in (stage.data[0], stage.validation[0]))
    )
    assert len(data) == 2
    assert len(validation) == 1
    assert not set(data) & set(validation)


@pytest.mark.parametrize(
    "changes",
    [
        ['data=["synth"]'],
        ['validation=["folder={folder}"]'],
        ["validation=[]"],
        ['data=["folder={folder}[:50%]"]'],
        ['data=["folder={single}"]'],
    ],
)
def test_what_cannot_be_held_out_or_was_chosen_stays(folder, tmp_path, changes):
    single = write_folder(tmp_path / "single", count=1)
    texts = [f'data=["folder={folder}"]', *(text.format(folder=folder, single=single) for text in changes)]
    recipe = load_recipe("compact", changes=texts)
    assert hold_out(recipe) == (recipe, [])


def test_training_on_a_folder_needs_no_rendering(folder, tmp_path, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("linstereo.synthesis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "embreex.mesh_construction", None)
    command = ["train", "--config", "compact", "--workers", "0", *QUICK]
    assert main([*command, "--data", f"folder={folder}", "--out", str(tmp_path / "run")]) == 0
    assert "the last 1 of the 3 pairs" in capsys.readouterr().err
    log = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert all(entry["EPE"] > 0 for entry in log if entry["kind"] == "validation")
    assert any(entry["kind"] == "validation" for entry in log)

    for other in (command, ["ablate", "--config", "compact", "--table", "components", *QUICK]):
        assert main([*other, "--out", str(tmp_path / "other")]) == 2
        assert capsys.readouterr().err == (
            "linstereo: rendering synthetic pairs needs the package embreex, which is not installed here; run: "
            "pip install --constraint constraints.txt 'linstereo[synth]'\n"
        )
        assert not (tmp_path / "other").exists()


def test_validation_that_the_user_sets_is_not_held_out(folder, tmp_path, capsys):
    command = ["train", "--config", "compact", "--data", f"folder={folder}", "--list-fields", "--out", str(tmp_path)]
    for more in (["--validation", f"folder={folder}"], ["--set", "joint.validation=[]"]):
        assert main([*command, *more]) == 0
        assert "[:95%]" not in capsys.readouterr().out
    assert main(command) == 0
    assert f"folder={folder}[:95%]" in capsys.readouterr().out
