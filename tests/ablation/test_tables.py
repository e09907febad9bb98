"""Ablation tables: how rows are derived from a base and from a budget."""

import dataclasses

import pytest
from tests.ablation.tiny_ablations import tiny_recipe
from tests.model.tiny import synthetic_pairs

from linstereo.ablation.tables import TABLES, ablation_table, budgeted, check_rows
from linstereo.errors import InputError
from linstereo.evaluation.paper_tables import load_table
from linstereo.model.presets import PRESETS, build, preset
from linstereo.training.loss import sequence_loss
from linstereo.training.recipe import Recipe, Stage
from linstereo.training.recipe_files import load_recipe


class TestDerivation:
    @pytest.mark.parametrize("name", TABLES)
    def test_every_row_of_the_paper_has_a_variant_of_its_own_network(self, name):
        table = ablation_table(name, load_recipe("paper"))
        assert [v.paper for v in table.variants] == list(load_table(TABLES[name]).rows)
        assert len({v.name for v in table.variants}) == len(table.variants)
        prefix = {"components": "components-", "pala": "pala-"}.get(name, "")
        if name != "training":
            for variant in table.variants:
                assert variant.config == PRESETS[prefix + variant.name]
                assert variant.stages == load_recipe("paper").stages

    @pytest.mark.parametrize("name", TABLES)
    def test_the_rows_without_change_are_those_the_paper_chose(self, name):
        table = ablation_table(name, load_recipe("paper"))
        best = {v.name for v in table.variants if v.paper.values["kitti2015/EPE"] == 1.01}
        assert {v.name for v in table.variants if table.is_base(v)} == best != set()

    def test_the_training_table_of_the_paper_has_its_numbers(self):
        table = ablation_table("training", load_recipe("paper"))
        for variant in table.variants:
            (stage,), row = variant.stages, variant.paper.settings
            assert stage.learning_rate == pytest.approx(float(row["learning_rate"]))
            assert (stage.batch, stage.iterations) == (int(row["batch_size"]), int(row["iterations"]))
            assert variant.config.iterations == stage.iterations == variant.iterations

    def test_the_training_table_of_another_base_varies_its_own_numbers(self):
        recipe = dataclasses.replace(
            tiny_recipe(),
            stages=(
                Stage(name="first", learning_rate=0.01, batch=4, accumulate=4, iterations=1),
                Stage(name="last", learning_rate=0.002, batch=6, iterations=3),
            ),
        )
        variants = {v.name: v for v in ablation_table("training", recipe).variants}
        assert [s.learning_rate for s in variants["lr-2x"].stages] == [0.02, 0.004]
        assert [(s.batch, s.accumulate) for s in variants["batch-0.5x"].stages] == [(2, 1), (3, 1)]
        assert [s.batch for s in variants["batch-2x"].stages] == [8, 12]
        factors = ("0.25x", "0.5x", "1.5x", "2x")
        assert [variants[f"iterations-{f}"].iterations for f in factors] == [1, 2, 5, 6]
        assert [variants[f"iterations-{f}"].stages[0].iterations for f in factors] == [1, 1, 2, 2]
        assert [variants[f"iterations-{f}"].config.iterations for f in factors] == [1, 2, 6, 8]  # of compact's 4
        assert {v.config.hidden for v in variants.values()} == {16}

    def test_components_of_a_base_without_depth_toggle_the_start_from_correlations(self):
        table = ablation_table("components", load_recipe("compact"))
        base = preset("compact")
        configs = {v.name: v.config for v in table.variants}
        assert len(configs) == 9
        for name, config in configs.items():
            parts = name.split("-")
            volume = "hierarchical" if "hscv" in parts else "pooled" if "pooled" in parts else "single"
            assert config == dataclasses.replace(
                base,
                cost_volume=volume,
                start="correlation" if "dpi" in parts else "zero",
                coarse_iterations=base.coarse_iterations if "dpi" in parts else 0,
                update="pala" if "pala" in parts else "convgru",
            )
        assert table.columns == ("HSCV", "start from correlations", "PALA")
        assert "stands in for it" in " ".join(table.notes)
        assert ablation_table("components", load_recipe("paper")).notes == ()

    def test_a_base_that_lacks_a_component_is_completed(self):
        recipe = tiny_recipe(
            model={"start": "zero", "coarse_iterations": 0, "update": "convgru", "cost_volume": "single"}
        )
        variants = {v.name: v.config for v in ablation_table("components", recipe).variants}
        assert variants["none"] == recipe.config()
        complete = variants["hscv-dpi-pala"]
        assert (complete.cost_volume, complete.start, complete.update) == ("hierarchical", "correlation", "pala")

    def test_widths_follow_the_base_and_impossible_heads_are_told(self):
        table = ablation_table("updater-size", load_recipe("compact"))
        variants = {v.name: v for v in table.variants}
        widths = [(v.config.hidden, v.config.coarse_hidden) for n, v in variants.items() if n.startswith("hidden")]
        assert widths == [(16, 32), (32, 48), (48, 64), (96, 128)]
        assert variants["heads-8"].config is None
        assert "8 heads" in variants["heads-8"].obstacle
        assert "16" in " ".join(table.notes)

    @pytest.mark.parametrize("name", [name for name in TABLES if name != "training"])
    def test_every_variant_of_a_base_without_depth_can_be_trained(self, name):
        left, right, target = synthetic_pairs(1, height=32, width=64)
        for variant in ablation_table(name, tiny_recipe(model={"hidden": 32})).variants:
            if variant.config is None:
                continue
            model = build(variant.config)
            out = model(left, right, iters=2, all_iterations=True)
            sequence_loss(out, target, target > 0, left).total.backward()
            assert [n for n, p in model.trained_parameters().items() if p.grad is None] == [], variant.name

    def test_a_batch_that_cannot_be_halved_is_told(self):
        variants = {v.name: v for v in ablation_table("training", tiny_recipe(batch=1)).variants}
        assert variants["batch-0.5x"].config is None
        assert "halved" in variants["batch-0.5x"].obstacle
        assert variants["batch-2x"].config is not None

    def test_unknown_tables_and_rows_name_the_known_ones(self):
        with pytest.raises(InputError, match=r"no ablation table 'component'; .*components, pala"):
            ablation_table("component", tiny_recipe())
        tables = [ablation_table(name, tiny_recipe()) for name in ("components", "hscv")]
        check_rows(tables, ["hscv-dpi", "levels-2"])
        with pytest.raises(InputError, match=r"no row 'blocks-1'; .*hscv-dpi.*scales-3"):
            check_rows(tables, ["levels-2", "blocks-1"])


class TestBudget:
    def steps(self, recipe: Recipe) -> dict[str, int]:
        return {stage.name: stage.steps for stage in recipe.stages}

    def test_stages_share_the_steps_as_in_the_recipe(self):
        stages = tuple(Stage(name=n, steps=s) for n, s in (("features", 4000), ("decoder", 4000), ("joint", 8000)))
        compact = dataclasses.replace(tiny_recipe(), stages=stages)
        assert self.steps(budgeted(compact, steps=400, stages=[])) == {"features": 100, "decoder": 100, "joint": 200}
        assert self.steps(budgeted(compact, steps=None, stages=["joint"])) == {"joint": 8000}
        assert self.steps(budgeted(compact, steps=7, stages=["joint", "decoder"])) == {"decoder": 2, "joint": 5}
        for total in range(3, 30):
            shared = self.steps(budgeted(compact, steps=total, stages=[])).values()
            assert sum(shared) == total
            assert min(shared) >= 1

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"steps": 2, "stages": []}, "2 steps are too few for 4 stages"),
            ({"steps": 9, "stages": ["decode"]}, "no stage 'decode'; choose among features, decoder, joint"),
            ({"steps": 9, "stages": ["features"]}, "'features', trains no decoder"),
        ],
    )
    def test_impossible_budgets_are_refused(self, options, message):
        with pytest.raises(InputError, match=message):
            budgeted(load_recipe("compact"), **options)
