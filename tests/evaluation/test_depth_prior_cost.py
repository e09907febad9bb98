"""Fallbacks of the depth prior: counted, and their cost measured, in records, tables and JSON."""

import dataclasses
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.evaluation.test_paper_tables import SOURCE
from tests.evaluation.test_report import result
from tests.model.tiny import TinyBackbone, synthetic_pairs

from linstereo.data.datasets.official_counts import official_count
from linstereo.data.formats.images import write_image
from linstereo.data.formats.pfm import write_pfm
from linstereo.data.sample import StereoSample
from linstereo.evaluation.depth_prior_cost import (
    PAPER_COST,
    PAPER_FALLBACKS,
    PriorRecord,
    end_point_error,
    summarise_prior,
)
from linstereo.evaluation.methods import ModelMethod
from linstereo.evaluation.protocol import get_protocol
from linstereo.evaluation.records import Record
from linstereo.evaluation.report import markdown_report, prior_table
from linstereo.evaluation.result_files import write_results
from linstereo.evaluation.runner import evaluate, open_benchmark
from linstereo.evaluation.scores import ImageScore, RegionSums
from linstereo.geometry.calibration import StereoCalibration
from linstereo.model.presets import LinStereoConfig, build
from linstereo.predictor import StereoPredictor
from linstereo.processes import Worker


def record(fell_back: bool, epe: float | None, zero: float | None = None) -> PriorRecord:
    return PriorRecord(fell_back, 100, 10 if fell_back else 90, "too few" if fell_back else "", epe, zero)


def test_summary_by_hand() -> None:
    records = [record(False, 1.0, 1.5), record(False, 2.0, 2.1), record(True, 4.0, 4.0), record(False, None, None)]
    found = summarise_prior(records)
    assert (found.pairs, found.fell_back, found.share) == (4, 1, 25.0)
    assert (found.epe_fitted, found.epe_fell_back, found.difference) == (1.5, 4.0, 2.5)
    assert found.zero_start_cost == pytest.approx(0.3)  # the mean of 0.5 and 0.1; the fallback itself does not count
    all_fitted = summarise_prior(records[:1])
    assert (all_fitted.share, all_fitted.epe_fell_back, all_fitted.difference) == (0, None, None)
    all_fell_back = summarise_prior([record(True, 4.0)])
    assert (all_fell_back.share, all_fell_back.epe_fitted, all_fell_back.zero_start_cost) == (100, None, None)
    assert summarise_prior([]) is None


def test_records_come_back_and_damaged_ones_do_not() -> None:
    score = ImageScore("a", {"all": RegionSums(pixels=3, non_finite=0, sums={"EPE": 0.1})})
    whole = Record(score, ((1, 2),), 0.25, record(True, 0.1, 0.3))
    assert Record.from_line(whole.to_line()) == whole
    content = json.loads(whole.to_line())
    for name, value in (("fell_back", 1), ("matches", -1), ("inliers", "3"), ("reason", None), ("epe", "1")):
        broken = content | {"prior": content["prior"] | {name: value}}
        assert Record.from_line(json.dumps(broken).encode()) is None
    assert Record.from_line(json.dumps(content | {"prior": {}}).encode()) is None


def test_error_in_pixels_also_where_depth_is_scored() -> None:
    disparity = np.full((4, 6), 8.0, np.float32)
    disparity[0] = 1.0  # 80 m away, beyond the range
    sample = StereoSample(
        name="a",
        left=np.zeros((4, 6, 3), np.uint8),
        right=np.zeros((4, 6, 3), np.uint8),
        disparity=disparity,
        valid=np.ones((4, 6), bool),
        depth=80 / disparity,
        calibration=StereoCalibration(focal=320.0, baseline=0.25, cx=3.0, cy=2.0),
    )
    prediction = disparity + np.float32(0.5)
    prediction[0] = 100
    assert end_point_error(get_protocol("tartanair-uw"), sample, prediction) == pytest.approx(0.5)
    assert end_point_error(get_protocol("folder"), sample, prediction) == pytest.approx((99 * 6 + 0.5 * 18) / 24)


@contextmanager
def silent(title: str, total: int) -> Iterator[object]:
    yield lambda name: None


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[Path, torch.Tensor]:
    """Three pairs that the depth prior can fit, and between them one whose right image is blank."""
    left, right, disparity = synthetic_pairs(4, height=128, width=256)
    right[1] = 0.5
    for index in range(4):
        for side, images in (("left", left), ("right", right)):
            (tmp_path / "data" / side).mkdir(parents=True, exist_ok=True)
            pixels = (images[index].permute(1, 2, 0) * 255).round().numpy().astype(np.uint8)
            write_image(tmp_path / "data" / side / f"{index}.png", pixels)
        (tmp_path / "data" / "disparity").mkdir(exist_ok=True)
        write_pfm(tmp_path / "data" / "disparity" / f"{index}.pfm", disparity[index, 0].numpy())
    return tmp_path / "data", disparity[:1]


@pytest.mark.parametrize("zero_start", [False, True])
def test_a_network_with_the_depth_prior(pairs: tuple[Path, torch.Tensor], tmp_path: Path, zero_start: bool) -> None:
    root, disparity = pairs
    torch.manual_seed(0)
    config = LinStereoConfig(hidden=32, heads=2, feature_width=32, levels=2, radius=3)
    model = build(config, backbone=TinyBackbone(depth=50.0 / (disparity + 6.0)))
    torch.nn.init.zeros_(list(model.residual_head.parameters())[-1])
    torch.nn.init.zeros_(list(model.residual_head.parameters())[-2])  # the start is the answer
    method = ModelMethod(StereoPredictor(model, device="cpu"), iters=1, title="mine", zero_start=zero_start)
    out = tmp_path / "out"
    options = {"worker": Worker(), "pictures": 0, "again": False, "progress": silent, "say": lambda text: None}
    (measured,) = evaluate([open_benchmark("folder", root)], method, out=out, **options)
    write_results([measured], method, out=out, paper=False)
    found = json.loads((out / "results.json").read_text())["benchmarks"]["folder"]
    assert [image["depth_prior"]["fell_back"] for image in found["images"]] == [False, True, False, False]
    epes = [image["regions"]["all"]["EPE"] for image in found["images"]]
    assert [image["depth_prior"]["epe"] for image in found["images"]] == pytest.approx(epes)
    mean = float(disparity.mean())
    assert epes[1] == pytest.approx(mean, abs=0.05)  # from zero: as wrong as the disparity is large
    assert max(epes[0], epes[2], epes[3]) < 1.5
    prior = found["depth_prior"]
    assert (prior["pairs"], prior["fell_back"], prior["fell_back_percent"]) == (4, 1, 25.0)
    fitted = (epes[0] + epes[2] + epes[3]) / 3
    assert prior["EPE_difference"] == pytest.approx(epes[1] - fitted)
    if zero_start:
        assert prior["EPE_zero_start_cost"] == pytest.approx(mean - fitted, abs=0.05)
    else:
        assert prior["EPE_zero_start_cost"] is None
    for text in ((out / "report.html").read_text(), (out / "report.md").read_text()):
        assert "Depth prior (DPI)" in text
        assert "25.0" in text
        assert f"{epes[1] - fitted:+.2f}" in text
        assert ("zero start costs (px)" in text) == zero_start
    again = markdown_report(
        evaluate([open_benchmark("folder", root)], method, out=out, **options),
        title="mine",
        settings=method.settings,
        paper=False,
    )
    assert again == (out / "report.md").read_text()  # from the records


def test_the_papers_figures_stand_beside_the_measured_ones() -> None:
    measured = dataclasses.replace(result("squid"), prior={"a": record(False, 1.0), "b": record(True, 3.0)})
    table = prior_table(measured, title="mine", paper=True)
    paper, mine = table.rows
    assert paper.cells[2] == "3.7"
    assert paper.cells[5].startswith("+0.08")
    assert mine.cells == ("2", "1", "50.0", "1.00", "3.00", "+2.00")
    assert len(prior_table(measured, title="mine", paper=False).rows) == 1
    assert prior_table(result("squid"), title="mine", paper=True) is None
    part = dataclasses.replace(measured.benchmark, official=official_count("squid/all"))
    labels = [
        row.label for row in prior_table(dataclasses.replace(measured, benchmark=part), title="mine", paper=True).rows
    ]
    assert "not comparable" in labels[0]
    assert "not comparable" not in labels[1]
    elsewhere = dataclasses.replace(result("kitti2015"), prior={"a": record(False, 1.0)})
    assert len(prior_table(elsewhere, title="mine", paper=True).rows) == 1


@pytest.mark.skipif(not SOURCE.is_file(), reason="the paper's source is not beside the project")
def test_figures_of_the_paper() -> None:
    text = re.sub(r"[$\\,]", "", SOURCE.read_text(encoding="utf-8"))
    assert f"{PAPER_FALLBACKS['tartanair-uw']:.0f}% of TartanAir-UW and {PAPER_FALLBACKS['squid']}% of SQUID" in text
    assert f"costs only +{PAPER_COST}px EPE" in text
