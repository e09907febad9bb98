"""Ablation tables set beside the paper's."""

import json

import numpy as np
import pytest
from tests.ablation.tiny_ablations import FEATURES, tiny_recipe

from linstereo.ablation.report import spearman, write_report
from linstereo.ablation.run import (
    Ablation,
)
from linstereo.ablation.tables import ablation_table


class TestComparison:
    def test_rank_correlation(self):
        assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
        assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
        rng = np.random.default_rng(0)
        first, second = rng.permutation(9).tolist(), rng.permutation(9).tolist()
        # without ties: 1 - 6 sum d^2 / (n (n^2 - 1))
        expected = 1 - 6 * sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) / (9 * 80)
        assert spearman(first, second) == pytest.approx(expected)
        assert spearman([1, 1, 2], [1, 2, 3]) == pytest.approx(np.corrcoef([0.5, 0.5, 2], [0, 1, 2])[0, 1])

    def test_the_effect_of_a_component_is_its_mean_over_the_others(self, tmp_path):
        ablation, table = Ablation(tmp_path), ablation_table("components", tiny_recipe())
        for variant in table.variants:  # every component takes its own share off, whatever the others do
            parts = variant.name.split("-")
            epe = (
                10 * (0.5 if "hscv" in parts else 1) * (0.8 if "dpi" in parts else 1) * (1.1 if "pala" in parts else 1)
            )
            home = tmp_path / "components" / variant.name
            home.mkdir(parents=True)
            figures = {"EPE": epe, "bad3": 1.0, "occ/EPE": None, "pairs": 2}
            result = {"figures": figures, "frozen": {"decoder": list(FEATURES)}, "taken": []}
            (home / "result.json").write_text(json.dumps(result))
        write_report(ablation, table)
        text = (tmp_path / "components.md").read_text()
        assert "HSCV changes the EPE by -50 % here and by -9 % in the paper, mean over 4" in text
        assert "start from correlations changes the EPE by -20 % here" in text
        assert "PALA changes the EPE by +10 % here" in text
        assert "The order of the 9 trained networks" in text
        assert "occ EPE" not in text
