"""Ablation runs: where rows start from, how they are trained, stopped and gone on with, and measured."""

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.ablation.tiny_ablations import FEATURES, Sessions, run, tiny_recipe, weights
from tests.data import layouts
from tests.model.tiny import TinyBackbone

from linstereo.ablation.report import write_report
from linstereo.ablation.run import (
    Ablation,
    SharedStart,
    find_home,
    first_weights,
    load_start,
    measure,
    run_variants,
    take_weights,
    thawed,
)
from linstereo.ablation.tables import ablation_table
from linstereo.checkpoints.checkpoint import load_checkpoint, save_checkpoint, stored_weights
from linstereo.errors import InputError
from linstereo.evaluation.paper_tables import load_table
from linstereo.evaluation.runner import open_benchmark
from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import LinStereoConfig, build
from linstereo.processes import Worker
from linstereo.training.recipe import Stage


class TestSharedStart:
    def model(self, **changes: object) -> LinStereo:
        torch.manual_seed(1)
        return build(dataclasses.replace(tiny_recipe().config(), **changes))

    @pytest.mark.parametrize(
        ("changes", "projections"),
        [
            ({}, [0, 1, 2]),
            ({"cost_volume": "single", "start": "zero", "coarse_iterations": 0, "update": "convgru"}, [0]),
            ({"scales": 2}, [0, 1]),
            ({"cost_volume": "pooled"}, [0, 1, 2]),
            ({"feature_width": 8}, []),
        ],
    )
    def test_backbone_and_fitting_projections_are_taken_and_nothing_else(self, features, changes, projections):
        model = self.model(**changes)
        before = {name: tensor.clone() for name, tensor in stored_weights(model).items()}
        taken = take_weights(model, load_start(features))
        expected = ["backbone", *(f"cost_volumes.project.{i}" for i in projections)]
        assert taken == expected
        source = load_file(features)
        for name, tensor in stored_weights(model).items():
            comes_from = source if name.startswith(tuple(f"{part}." for part in expected)) else before
            assert torch.equal(tensor, comes_from[name]), name

    def test_another_backbone_is_refused(self, features):
        model = build(LinStereoConfig(start="zero"), backbone=TinyBackbone())
        with pytest.raises(InputError, match=r"has the backbone 'compact', but the recipe 'vitb'"):
            take_weights(model, load_start(features))

    def test_only_what_was_trained_stays_frozen(self, features):
        start = load_start(features)
        stages = tiny_recipe().stages

        def frozen(start: SharedStart, **changes: object) -> tuple[str, ...]:
            model = self.model(**changes)
            return thawed(stages, model, taken=take_weights(model, start), start=start)[0].frozen

        assert frozen(start) == FEATURES
        assert frozen(start, cost_volume="single") == FEATURES
        assert frozen(start, cost_volume="pooled") == ("backbone",)
        assert frozen(start, feature_width=8) == ("backbone",)
        pooled = dataclasses.replace(start, model=self.model(cost_volume="pooled"))
        assert frozen(pooled, cost_volume="pooled") == FEATURES
        assert frozen(pooled) == ("backbone",)

    def test_freezing_random_weights_is_refused_unless_a_stage_trains_them_first(self):
        model, stages = self.model(), tiny_recipe().stages
        with pytest.raises(InputError, match="freezes 'backbone', which nothing has trained; give --from"):
            thawed(stages, model, taken=[], start=None)
        both = (Stage(name="features", objective="matching"), *stages)
        assert thawed(both, model, taken=[], start=None) == list(both)

    def test_variants_begin_with_the_same_seed(self):
        ablation = Ablation(Path("unused"))
        config = tiny_recipe().config()
        models = [first_weights(ablation, config, seed=seed)[0] for seed in (5, 5, 6)]
        heads = [m.residual_head.state_dict() for m in models]
        assert all(torch.equal(heads[0][k], heads[1][k]) for k in heads[0])
        assert not all(torch.equal(heads[0][k], heads[2][k]) for k in heads[0])


class TestMeasurement:
    def test_figures_are_those_of_a_plain_loop(self, pairs, features):
        known = list(layouts.make_folder(pairs, pairs=3).values())
        from linstereo.predictor import StereoPredictor

        predictor = StereoPredictor(load_checkpoint(features), device="cpu")
        (stage,) = tiny_recipe(pairs, validation_count=3).stages
        figures = measure(predictor, stage, seed=0)
        wanted: dict[str, list[float]] = {"EPE": [], "bad3": [], "occ/EPE": []}
        for pair in known:
            rows, columns = slice(28, 92), slice(32, 128)  # the middle 64 x 96 of 120 x 160
            images = (np.ascontiguousarray(image[rows, columns]) for image in (pair.left, pair.right))
            predicted = predictor.predict(*images, iters=2, scale=1.0).disparity.astype(np.float64)
            error = np.abs(predicted - pair.disparity[rows, columns])
            valid, occluded = pair.valid[rows, columns], pair.occluded[rows, columns]
            wanted["EPE"].append(error[valid].mean())
            wanted["bad3"].append(100 * (error[valid] > 3).mean())
            wanted["occ/EPE"].append(error[valid & occluded].mean())
        for name, values in wanted.items():
            assert figures[name] == pytest.approx(np.mean(values)), name
        assert figures["EPE of pairs"] == pytest.approx(wanted["EPE"])
        assert figures["pairs"] == 3

    def test_without_labels_there_is_no_figure_for_occluded_pixels(self, tmp_path, features):
        from linstereo.predictor import StereoPredictor

        layouts.make_folder(tmp_path, pairs=1, occlusion=False)
        predictor = StereoPredictor(load_checkpoint(features), device="cpu")
        assert measure(predictor, tiny_recipe(tmp_path).stages[0], seed=0)["occ/EPE"] is None

    def test_pairs_without_ground_truth_are_named(self, tmp_path, features):
        from linstereo.predictor import StereoPredictor

        layouts.make_folder(tmp_path, pairs=1, disparity=None, occlusion=False)
        predictor = StereoPredictor(load_checkpoint(features), device="cpu")
        with pytest.raises(InputError, match="0000 has no ground truth"):
            measure(predictor, tiny_recipe(tmp_path).stages[0], seed=0)


class TestRuns:
    def test_rows_are_trained_measured_and_set_beside_the_paper(self, tmp_path, pairs, features):
        ablation = Ablation(tmp_path, start=load_start(features))
        table = ablation_table("components", tiny_recipe(pairs))
        sessions = Sessions()
        rows = ["none", "hscv-dpi-pala", "pooled-dpi-pala"]
        assert run(ablation, table, rows, sessions)
        assert sessions.made == [f"components/{row}" for row in rows]
        source = load_file(features)
        for row in rows:
            trained = weights(ablation, f"components/{row}")
            frozen = [n for n in trained if n.startswith("backbone.")]
            frozen += [n for n in trained if n.startswith("cost_volumes.") and "pooled" not in row]
            assert all(torch.equal(trained[name], source[name]) for name in frozen)
            assert load_checkpoint(tmp_path / "components" / row).config == next(
                v.config for v in table.variants if v.name == row
            )
        pooled = weights(ablation, "components/pooled-dpi-pala")
        assert not torch.equal(pooled["cost_volumes.project.0.out.weight"], source["cost_volumes.project.0.out.weight"])

        content = json.loads((tmp_path / "components.json").read_text())
        found = {row["variant"]: row for row in content["rows"]}
        for name, row in found.items():
            assert (row["result"] is not None) == (name in rows)
        full = found["hscv-dpi-pala"]
        model = build(tiny_recipe().config())
        parts = [p for n, p in model.named_parameters() if not n.startswith(FEATURES)]
        assert full["is_base"]
        assert full["result"]["parameters"] == sum(p.numel() for p in model.parameters())
        assert full["result"]["trained"] == sum(p.numel() for p in parts)
        assert full["result"]["seconds_per_step"] > 0
        assert found["pooled-dpi-pala"]["result"]["frozen"] == {"decoder": ["backbone"]}
        log = [json.loads(line) for line in (tmp_path / "components/none/metrics.jsonl").read_text().splitlines()]
        last = [entry for entry in log if entry["kind"] == "validation"][-1]
        for name in ("EPE", "bad3"):
            assert found["none"]["result"]["figures"][name] == pytest.approx(last[name])
        assert found["none"]["result"]["figures"]["occ/EPE"] > 0

        lines = list(csv.DictReader((tmp_path / "components.csv").read_text().splitlines()))
        assert [line["variant"] for line in lines] == [v.name for v in table.variants]
        for line, row in zip(lines, load_table("ablation_components").rows, strict=True):
            assert {c: line[f"paper/{c}"] for c in row.printed} == dict(row.printed)
            done = line["variant"] in rows
            assert (line["EPE"] != "") == done
            if done:
                assert float(line["EPE"]) == found[line["variant"]]["result"]["figures"]["EPE"]

        text = (tmp_path / "components.md").read_text()
        assert "stands in for it" in text
        assert "pooled-dpi-pala: cost_volumes trained in stage 'decoder' too" in text
        assert "Not trained yet: hscv, dpi, pala, hscv-dpi, hscv-pala, dpi-pala." in text
        table_lines = [line for line in text.splitlines() if line.startswith("|")]
        assert len(table_lines) == 2 + 9
        assert "start from correlations" in table_lines[0]
        assert f" {full['result']['figures']['EPE']:.2f} " in table_lines[2 + 7]
        assert [c.strip() for c in table_lines[2 + 7].split("|")][-6:-1] == ["1.01", "4.54", "0.04", "2.08", "+0 %"]

    def test_what_is_done_is_not_done_again_and_equal_rows_are_trained_once(self, tmp_path, pairs, features):
        ablation = Ablation(tmp_path, start=load_start(features))
        recipe = tiny_recipe(pairs)
        components, hscv = (ablation_table(name, recipe) for name in ("components", "hscv"))
        run(ablation, components, ["hscv-dpi-pala"])
        before = (tmp_path / "components/hscv-dpi-pala/linstereo.safetensors").stat().st_mtime_ns
        sessions = Sessions()
        assert run(ablation, components, ["hscv-dpi-pala"], sessions)
        assert run(ablation, hscv, ["levels-2", "scales-3"], sessions)
        assert sessions.made == []
        assert (tmp_path / "components/hscv-dpi-pala/linstereo.safetensors").stat().st_mtime_ns == before
        levels = next(v for v in hscv.variants if v.name == "levels-2")  # the base has two levels
        assert find_home(ablation, hscv, levels) == tmp_path / "components/hscv-dpi-pala"
        assert (
            "levels-2: the same network and training as components/hscv-dpi-pala" in (tmp_path / "hscv.md").read_text()
        )

    @pytest.mark.parametrize("stop", [1, 4])
    def test_an_interrupted_ablation_goes_on_to_the_same_weights(self, tmp_path, pairs, features, stop):
        recipe, rows = tiny_recipe(pairs), ["none", "pala"]
        whole, broken = (Ablation(tmp_path / name, start=load_start(features)) for name in ("whole", "broken"))
        table = ablation_table("components", recipe)
        assert run(whole, table, rows)
        assert not run(broken, table, rows, Sessions(steps=stop))
        sessions = Sessions()
        assert run(broken, table, rows, sessions)
        assert sessions.made == [f"components/{row}" for row in rows[stop // 3 :]]
        for row in rows:
            expected, found = (weights(ablation, f"components/{row}") for ablation in (whole, broken))
            assert expected.keys() == found.keys()
            assert all(torch.equal(expected[name], found[name]) for name in expected)
        csvs = [list(csv.DictReader((a.out / "components.csv").open())) for a in (whole, broken)]
        assert [line["EPE"] for line in csvs[0]] == [line["EPE"] for line in csvs[1]]

    def test_other_settings_in_the_same_folder_are_refused(self, tmp_path, pairs, features):
        ablation = Ablation(tmp_path, start=load_start(features))
        run(ablation, ablation_table("components", tiny_recipe(pairs)), ["none"])
        longer = ablation_table("components", tiny_recipe(pairs, steps=4))
        with pytest.raises(
            InputError, match=r"components/none was .* \(stage decoder\.steps was 3, is 4\); use the same"
        ):
            run(ablation, longer, ["pala"])
        wider = ablation_table("components", tiny_recipe(pairs, model={"hidden": 32}))
        with pytest.raises(InputError, match=r"model\.hidden was 16, is 32"):
            run(ablation, wider, ["none"])
        other = build(tiny_recipe().config())
        file = save_checkpoint(other, tmp_path / "other.safetensors")
        with pytest.raises(InputError, match=r"--from was \"\w+\", is \"\w+\""):
            run(dataclasses.replace(ablation, start=load_start(file)), longer, ["none"])
        often = ablation_table("components", tiny_recipe(pairs, log_every=2, validate_every=2))
        sessions = Sessions()
        assert run(ablation, often, ["none"], sessions)
        assert sessions.made == []

    def test_rows_that_the_base_does_not_allow_are_told_not_trained(self, tmp_path, pairs, features):
        ablation = Ablation(tmp_path, start=load_start(features))
        table = ablation_table("updater-size", tiny_recipe(pairs))  # hidden 16 has no place for 8 heads
        sessions = Sessions()
        assert run(ablation, table, ["heads-8"], sessions)
        assert sessions.made == []
        write_report(ablation, table)
        assert "heads-8: this base does not allow it (hidden is 16" in (tmp_path / "updater-size.md").read_text()

    def test_the_training_table_trains_each_row_its_own_way(self, tmp_path, pairs, features):
        ablation = Ablation(tmp_path, start=load_start(features))
        table = ablation_table("training", tiny_recipe(pairs))
        rows = ["base", "lr-2x", "batch-2x", "iterations-2x"]
        assert run(ablation, table, rows)
        state = {row: weights(ablation, f"training/{row}")["residual_head.out.bias"].item() for row in rows}
        assert len(set(state.values())) == 4
        assert load_checkpoint(tmp_path / "training/iterations-2x").config.iterations == 8  # compact's 4, twice
        text = (tmp_path / "training.md").read_text()
        assert "LR 2e-4, batch 16, T=8" in text
        assert "a larger batch sees more pairs" in text

    def test_all_stages_without_a_shared_start(self, tmp_path, pairs):
        features = {"name": "features", "objective": "matching", "frozen": (), "steps": 2}
        recipe = tiny_recipe(pairs)
        stages = (dataclasses.replace(recipe.stages[0], **features), *recipe.stages)
        ablation = Ablation(tmp_path)
        table = ablation_table("components", dataclasses.replace(recipe, stages=stages))
        sessions = Sessions()
        assert run(ablation, table, ["pala"], sessions)
        assert "components/pala: starts from random weights" in sessions.said
        result = json.loads((tmp_path / "components/pala/result.json").read_text())
        assert result["trained"] == result["parameters"]
        assert result["taken"] == []

    def test_benchmarks_are_measured_and_fill_the_papers_columns(self, tmp_path, pairs, features):
        layouts.make_kitti2015(tmp_path / "kitti")
        benchmark = open_benchmark("kitti2015", tmp_path / "kitti")
        ablation = Ablation(tmp_path / "out", start=load_start(features), benchmarks=(benchmark,))
        table = ablation_table("components", tiny_recipe(pairs))
        shown = []

        def progress(title, total):
            import contextlib

            shown.append((title, total))
            return contextlib.nullcontext(lambda name: None)

        for _ in range(2):
            assert run_variants(
                ablation,
                table,
                table.chosen(["none"]),
                session=Sessions(),
                worker=Worker(),
                progress=progress,
                done=lambda: write_report(ablation, table),
            )
        assert shown == [("kitti2015", 2)] * 2
        result = json.loads((tmp_path / "out/components/none/result.json").read_text())
        line = next(csv.DictReader((tmp_path / "out/components.csv").open()))
        assert float(line["kitti2015/EPE"]) == result["benchmarks"]["kitti2015"]["EPE"] > 0
        assert line["paper/kitti2015/EPE"] == "1.42"
        assert "| KITTI 2015 EPE (px) ↓ |" in (tmp_path / "out/components.md").read_text().replace("  ", "")
