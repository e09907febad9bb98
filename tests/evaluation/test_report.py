"""The reports: the right figures, nothing that is not a number, nothing that comes from outside unescaped."""

import base64
import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import cv2
import numpy as np
import pytest

from linstereo.data.sample import ListedDataset, PairFiles, StereoSample
from linstereo.evaluation.html_report import html_report
from linstereo.evaluation.paper_tables import rows_for_protocol
from linstereo.evaluation.pictures import Gallery, draw_pictures, error_map
from linstereo.evaluation.protocol import describe, get_protocol, score_sample
from linstereo.evaluation.report import (
    MISSING,
    averages_table,
    benchmark_table,
    column_title,
    format_value,
    markdown_report,
    markdown_table,
    overview_table,
    worst_first,
)
from linstereo.evaluation.runner import Benchmark, BenchmarkResult
from linstereo.evaluation.scores import aggregate
from linstereo.geometry.calibration import StereoCalibration
from linstereo.visualize import PARTS, picture_size

SIZE = (12, 16)
EVIL = """<script>alert("x")</script>|`*'&"""
CALIBRATION = StereoCalibration(focal=320.0, baseline=0.25, cx=8.0, cy=6.0)


def sample(name: str, *, disparity: float = 8.0, valid: bool = True, **changes: object) -> StereoSample:
    fields = {
        "left": np.full((*SIZE, 3), 128, np.uint8),
        "right": np.full((*SIZE, 3), 128, np.uint8),
        "disparity": np.full(SIZE, disparity, np.float32),
        "valid": np.full(SIZE, valid),
        "calibration": CALIBRATION,
    }
    return StereoSample(name=name, **(fields | changes))


def result(
    protocol: str = "middlebury",
    errors: dict[str, float | None] | None = None,
    *,
    pictures: Path | None = None,
    own_split: bool = True,
    names: int | None = None,
) -> BenchmarkResult:
    """A benchmark whose images have these errors, px; None stands for an image without ground truth."""
    errors = {"a": 1.0, "b": 3.0} if errors is None else errors
    rules = get_protocol(protocol)
    samples = [sample(name, valid=error is not None) for name, error in errors.items()]
    predictions = [one.disparity + np.float32(error or 0) for one, error in zip(samples, errors.values(), strict=True)]
    scores = tuple(score_sample(rules, one, guess) for one, guess in zip(samples, predictions, strict=True))
    gallery = Gallery(pictures or Path("unused"), protocol=rules, keep=3 if pictures else 0)
    worst = gallery.worst(enumerate(scores))
    for index in worst:
        gallery.draw(index, samples[index], predictions[index])
    files = [PairFiles(name, Path(name), Path(name)) for name in errors]
    benchmark = Benchmark(
        key=protocol,
        protocol=rules,
        dataset=ListedDataset(protocol, files, lambda listed: sample(listed.name)),
        names=tuple(errors) + ("more",) * ((names or len(errors)) - len(errors)),
        count=len(errors),
        own_split=own_split,
    )
    return BenchmarkResult(
        benchmark=benchmark,
        scores=scores,
        regions=aggregate(scores, regions=rules.regions),
        seconds={"a": 0.25},
        pictures=tuple((index, gallery.files(index)) for index in worst),
    )


def reports(
    results: list[BenchmarkResult], *, title: str = "mine", paper: bool = False, **settings: object
) -> list[str]:
    return [report(results, title=title, settings=settings, paper=paper) for report in (markdown_report, html_report)]


class Checker(HTMLParser):
    """Fails on tags that do not match, and collects attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data + " "


def test_figures_are_the_headline_of_the_protocol() -> None:
    table = benchmark_table(result("kitti2015", {"a": 1.0, "b": 5.0}), title="mine", paper=False)
    assert table.header == ("EPE (px) ↓", "bad3 (%) ↓", "D1 (%) ↓")  # no columns for regions without labels
    assert table.rows[0].label == "mine"
    assert table.rows[0].cells == ("3.00", "50.00", "50.00")
    both = averages_table(result("kitti2015", {"a": 1.0, "b": 5.0, "c": None}))
    assert [row.label for row in both.rows] == ["mean over images", "mean over pixels"]
    assert [row.cells[0] for row in both.rows] == ["3.00", "3.00"]


def test_numbers_are_printed_like_the_papers() -> None:
    assert format_value(1.005, "EPE") == "1.00"
    assert format_value(0.12345, "AbsRel") == "0.123"
    assert format_value(0.0, "A1") == "0.000"
    assert format_value(None, "EPE") == "n/a"
    assert column_title("occ", "bad2") == "occ bad2 (%) ↓"
    assert column_title("all", "A1") == "A1 ↑"
    assert column_title("all", "RMSE") == "RMSE (m) ↓"


@pytest.mark.parametrize("protocol", ["middlebury", "kitti2015", "tank", "squid"])
def test_rows_of_the_paper_stand_beside_the_result(protocol: str) -> None:
    published = rows_for_protocol(protocol)
    table = benchmark_table(result(protocol), title="mine", paper=True)
    assert len(table.rows) == len(published) + 1
    assert [row.ours for row in table.rows] == [False] * len(published) + [True]
    metrics = get_protocol(protocol).metrics
    for row, known in zip(table.rows, published, strict=False):
        assert row.label == known.method + (" *" if known.extra_data else "")
        for cell, metric in zip(row.cells, metrics, strict=False):
            assert cell == MISSING if metric not in known.values else float(cell) == known.values[metric]
    markdown, html = reports([result(protocol)], paper=True)
    assert "| **mine**" in markdown
    for known in published:
        assert known.method in markdown
        assert known.method in html
    markdown, html = reports([result(protocol)], paper=False)
    assert published[0].method not in markdown + html


def test_paper_is_not_compared_with_another_split_or_benchmark() -> None:
    markdown, _ = reports([result("middlebury", own_split=False)], paper=True)
    assert "RAFT-Stereo" not in markdown
    assert "on another split" in markdown
    markdown, _ = reports([result("folder")], paper=True)
    assert "has no results on this benchmark" in markdown


def test_overview_of_several_benchmarks() -> None:
    table = overview_table([result("kitti2015"), result("eth3d"), result("squid")], title="mine", paper=True)
    assert table.header[:4] == (
        "KITTI 2015: EPE (px) ↓",
        "KITTI 2015: bad3 (%) ↓",
        "KITTI 2015: D1 (%) ↓",
        "ETH3D: EPE (px) ↓",
    )
    rows = {row.label: row.cells for row in table.rows}
    assert rows["RAFT-Stereo"][:5] == ("1.13", "5.69", MISSING, "0.36", "3.30")
    assert rows["RAFT-Stereo"][5] == "0.068"
    assert rows["mine"][0] == "2.00"
    markdown, html = reports([result("kitti2015"), result("eth3d")])
    assert "## All benchmarks" in markdown
    assert 'href="#benchmark-eth3d"' in html
    assert "All benchmarks" not in reports([result()])[0]


@pytest.mark.parametrize("protocol", ["kitti2015", "sceneflow", "tartanair-uw", "folder"])
def test_protocol_is_printed_in_words_with_every_result(protocol: str) -> None:
    markdown, html = reports([result(protocol)])
    text = " ".join(Checker(html).text.split())
    for line in describe(get_protocol(protocol)).splitlines()[1:]:
        assert line.replace("*", "\\*") in markdown
        assert " ".join(line.split(": ", 1)[1].split()) in text


def test_never_nan_but_not_available() -> None:
    nothing = result("middlebury", {"a": None, "b": None})
    for report in reports([nothing, result("squid", {"a": None}), result()], paper=True):
        cells = re.findall(r"(?:\||<td[^>]*>|<b>) *([^|<\n]*?) *(?=\||<)", report)
        assert len(cells) > 100
        assert cells.count(MISSING) > 20
        assert not [cell for cell in cells if re.search(r"\bnan\b|\binf\b|None", cell, re.IGNORECASE)]
    assert "2 images without any counted pixel" in reports([nothing])[0]


def test_notes_say_what_limits_the_figures() -> None:
    markdown, html = reports([result("middlebury", {"a": 1.0}, names=15)], trained=False)
    for report in (markdown, html):
        assert "Measured on 1 image, the first of 15, 192 pixels." in report
        assert "No image has labels for nonocc and occ." in report
        assert "random, not trained" in report
        assert "took 0.25 s" in report
    assert "random" not in reports([result()], trained=True)[0]


def test_worst_images_come_first() -> None:
    errors = {"fine": 0.5, "none": None, "worst": 7.0, "bad": 2.0}
    names = ["worst", "bad", "fine", "none"]
    assert [score.name for score in worst_first(result(errors=errors))] == names
    markdown, html = reports([result(errors=errors)])
    table = markdown[markdown.index("The worst images by EPE") :]
    assert sorted(names, key=table.index) == names
    cells = re.findall(r"<tr><td>(\w+)</td><td data-value=\"([^\"]*)\">([^<]*)</td>", html)
    assert cells == [("worst", "7.0", "7.00"), ("bad", "2.0", "2.00"), ("fine", "0.5", "0.50"), ("none", "", "n/a")]


def test_names_are_escaped(tmp_path: Path) -> None:
    evil = result(errors={EVIL: 1.0}, pictures=tmp_path)
    markdown, html = reports([evil], title=EVIL, **{"folder": EVIL})
    checked = Checker(html)
    assert [tag for tag, _ in checked.tags].count("script") == 1
    assert "alert" not in html[html.rindex("<script>") :]
    assert checked.text.count(EVIL) >= 5
    assert f"left image of {EVIL}" in [attributes.get("alt") for _, attributes in checked.tags]
    assert "<script>" not in markdown
    for line in markdown.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 4


def test_html_is_one_file_without_anything_from_outside(tmp_path: Path) -> None:
    shown = result(errors={"a": 1.0, "b": 3.0, "c": 2.0, "d": 0.5}, pictures=tmp_path / "pictures")
    _, html = reports([shown], paper=True)
    checked = Checker(html)
    for tag, attributes in checked.tags:
        assert tag not in ("link", "iframe", "object")
        for name in ("src", "href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:image/", "#"))
    assert "http" not in html
    assert "@import" not in html
    images = [attributes for tag, attributes in checked.tags if tag == "img"]
    captions = [attributes["alt"] for attributes in images if attributes["alt"]]
    titles = ("left image", "prediction", "ground truth", "error")
    assert captions == [f"{part} of {name}" for name in ("b", "c", "a") for part in titles]
    decoded = cv2.imdecode(np.frombuffer(base64.b64decode(images[2]["src"].split(",")[1]), np.uint8), 1)
    assert decoded.shape == (*SIZE, 3)


def test_pictures_share_their_colours_and_show_the_error() -> None:
    protocol = get_protocol("middlebury")
    truth = np.tile(np.linspace(2, 40, 700, dtype=np.float32), (300, 1))
    one = sample("a", disparity=0.0)
    one = dataclasses.replace(
        one,
        left=np.zeros((300, 700, 3), np.uint8),
        right=np.zeros((300, 700, 3), np.uint8),
        disparity=truth,
        valid=np.ones(truth.shape, bool),
    )
    same = draw_pictures(protocol, one, truth)
    assert {picture.shape for picture in same.values()} == {(206, 480, 3)}
    np.testing.assert_array_equal(same["prediction"], same["truth"])
    assert len(np.unique(same["error"].reshape(-1, 3), axis=0)) == 1
    worse = truth.copy()
    worse[:, :350] += 10
    worse[:, 600:] = np.nan
    pictures = draw_pictures(protocol, one, worse)
    blue, red = pictures["error"][100, 300], pictures["error"][100, 100]
    assert blue[2] > 2 * blue[0]
    assert red[0] > 2 * red[2]
    assert (pictures["error"][100, 470] == red).all()  # NaN is as wrong as can be
    assert not pictures["prediction"][100, 470].any()  # and is not drawn


def test_sparse_ground_truth_stays_visible_when_made_small() -> None:
    rng = np.random.default_rng(0)
    valid = rng.random((300, 1200)) < 0.2
    one = dataclasses.replace(
        sample("a"),
        left=np.zeros((300, 1200, 3), np.uint8),
        right=np.zeros((300, 1200, 3), np.uint8),
        disparity=np.where(valid, 20, 0).astype(np.float32),
        valid=valid,
    )
    one.disparity[:, 600:] *= 2
    prediction = np.full(valid.shape, 20, np.float32)
    prediction[:, 600:] *= 2
    pictures = draw_pictures(get_protocol("kitti2015"), one, prediction)
    lit = pictures["truth"].any(axis=2)
    assert lit.mean() > 0.6
    # unknown pixels do not change the colour of known ones
    np.testing.assert_array_equal(pictures["truth"][lit], pictures["prediction"][lit])


def test_error_of_depth_is_relative_and_only_where_it_counts() -> None:
    protocol = get_protocol("tartanair-uw")
    depth = np.full(SIZE, 10.0, np.float32)
    depth[0], depth[1] = 60.0, 0.0
    one = sample("a", depth=depth, valid=True)
    error, counted = error_map(protocol, one, np.full(SIZE, 80 / 12, np.float32))
    assert counted.sum() == 10 * 16
    np.testing.assert_allclose(error[counted], 0.2, rtol=1e-5)
    limited = get_protocol("sceneflow")
    _, counted = error_map(limited, sample("a", disparity=192.0), np.zeros(SIZE, np.float32))
    assert not counted.any()


def test_pictures_of_an_image_without_truth_or_prediction() -> None:
    empty = sample("a", valid=False)
    drawn = draw_pictures(get_protocol("middlebury"), empty, np.full(SIZE, np.nan, np.float32))
    assert not any(drawn[part].any() for part in PARTS if part != "left")


def test_picture_size() -> None:
    assert picture_size(160, 120) == (160, 120)
    assert picture_size(960, 540) == (480, 270)
    assert picture_size(100_000, 10) == (480, 1)


def test_markdown_tables_are_aligned() -> None:
    lines = markdown_table(benchmark_table(result("kitti2015"), title="mine", paper=True))
    assert len({len(line) for line in lines}) == 1
    assert re.fullmatch(r"\| -+ (\| -+: )+\|", lines[1])
