"""`linstereo info`."""

import json

from linstereo.cli import main
from linstereo.model.presets import PRESETS


def test_json_lists_the_parts_with_parameters_and_gflops(capsys):
    assert main(["info", "--preset", "paper", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["parameters"] == sum(part["parameters"] for part in report["parts"])
    assert report["trained"] == sum(part["trained"] for part in report["parts"])
    by_name = {part["name"]: part for part in report["parts"]}
    assert by_name["backbone"]["trained"] == 0
    assert by_name["backbone"]["parameters"] == 98_287_458
    assert 6.5e6 < report["trained"] < 7.5e6
    assert all(part["gflops"] > 0 for part in report["parts"])
    assert report["config"]["hidden"] == 128


def test_text_shows_the_same_totals(capsys):
    main(["info", "--preset", "small", "--json", "--iters", "2"])
    report = json.loads(capsys.readouterr().out)
    main(["info", "--preset", "small", "--iters", "2"])
    total = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("total"))
    assert total.split()[1:] == [f"{report['parameters']:,}", f"{report['trained']:,}", f"{report['gflops']:.1f}"]


def test_list_names_every_preset(capsys):
    main(["info", "--list"])
    assert capsys.readouterr().out.split() == list(PRESETS)


def test_an_unknown_preset_is_one_sentence(capsys):
    assert main(["info", "--preset", "nope"]) == 2
    error = capsys.readouterr().err
    assert "no preset 'nope'" in error
    assert error.count("\n") == 1


def test_a_larger_image_costs_more(capsys):
    totals = []
    for size in ("480x640", "960x1280"):
        main(["info", "--size", size, "--json"])
        totals.append({p["name"]: p["gflops"] for p in json.loads(capsys.readouterr().out)["parts"]})
    assert totals[1]["updaters"] == 4 * totals[0]["updaters"]
