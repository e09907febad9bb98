"""`linstereo evaluate`, the whole command: every benchmark with known answers, bad input, the network.

The datasets are small samples in their official layouts; the predictions, made here and read from files, are off by
known amounts, so that every figure follows by arithmetic.
"""

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from linstereo.cli import main
from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.sample import StereoSample
from linstereo.evaluation.protocol import describe, get_protocol, protocol_names
from tests.data import layouts
from tests.data.writers import write_disparity_png, write_npy, write_pfm

Samples = dict[str, StereoSample]
WRITERS: dict[str, Callable[[Path, np.ndarray], None]] = {
    ".pfm": write_pfm,
    ".npy": write_npy,
    ".png": write_disparity_png,
}


def evaluate(*arguments: str | Path) -> int:
    return main(["evaluate", *map(str, arguments)])


def results(out: Path) -> dict:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in the JSON")

    return json.loads((out / "results.json").read_text(), parse_constant=refuse)


def predict(folder: Path, known: Samples, suffix: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    for name, pair in known.items():
        WRITERS[suffix](folder / f"{name}{suffix}", change(pair.disparity).astype(np.float32))


def off_by_columns(disparity: np.ndarray) -> np.ndarray:
    """Right in a third of the columns, off by 1.5 px in another and by 4.25 px in the last."""
    changed = disparity.copy()
    changed[:, 1::3] += 1.5
    changed[:, 2::3] += 4.25
    return changed


def expected_figures(pair: StereoSample) -> dict[str, dict[str, float]]:
    """The figures of one image by region, counted pixel by pixel."""
    error = np.zeros(pair.disparity.shape)
    error[:, 1::3], error[:, 2::3] = 1.5, 4.25
    regions = {"all": pair.valid}
    if pair.occluded is not None:
        regions |= {"nonocc": pair.valid & ~pair.occluded, "occ": pair.valid & pair.occluded}
    figures = {}
    for region, mask in regions.items():
        pixels = [(error[y, x], pair.disparity[y, x]) for y, x in zip(*np.nonzero(mask), strict=True)]
        share = 100 / len(pixels)
        figures[region] = {
            "pixels": len(pixels),
            "EPE": sum(e for e, _ in pixels) / len(pixels),
            "bad1": share * sum(e > 1 for e, _ in pixels),
            "bad2": share * sum(e > 2 for e, _ in pixels),
            "bad3": share * sum(e > 3 for e, _ in pixels),
            "D1": share * sum(e > 3 and e > 0.05 * d for e, d in pixels),
        }
    return figures


def chosen(known: Samples, *starts: str) -> Samples:
    return {name: pair for name, pair in known.items() if name.startswith(starts)}


DISPARITY: dict[str, tuple[Callable[[Path], Samples], str]] = {
    "sceneflow": (lambda root: chosen(layouts.make_sceneflow(root), "FlyingThings3D/finalpass/TEST"), ".pfm"),
    "sceneflow-cleanpass": (lambda root: chosen(layouts.make_sceneflow(root), "FlyingThings3D/cleanpass/TEST"), ".npy"),
    "kitti2012": (lambda root: chosen(layouts.make_kitti2012(root), "training"), ".png"),
    "kitti2015": (lambda root: chosen(layouts.make_kitti2015(root), "training"), ".png"),
    "middlebury": (lambda root: chosen(layouts.make_middlebury(root, sizes="HQ"), "trainingH"), ".pfm"),
    "middlebury-f": (lambda root: chosen(layouts.make_middlebury(root, sizes="F"), "trainingF"), ".pfm"),
    "middlebury-q": (lambda root: chosen(layouts.make_middlebury(root, sizes="HQ"), "trainingQ"), ".npy"),
    "middlebury2001": (lambda root: layouts.make_middlebury_classic(root, year=2001), ".pfm"),
    "middlebury2003": (lambda root: layouts.make_middlebury_classic(root, year=2003), ".pfm"),
    "middlebury2005": (lambda root: layouts.make_middlebury_classic(root, year=2005), ".pfm"),
    "middlebury2006": (lambda root: layouts.make_middlebury_classic(root, year=2006), ".pfm"),
    "eth3d": (lambda root: chosen(layouts.make_eth3d(root), "two_view_training"), ".pfm"),
    "booster": (layouts.make_booster, ".npy"),
    "seastereo:val": (lambda root: {n: p for n, p in layouts.make_seastereo(root).items() if "0000" in n}, ".pfm"),
    "folder": (layouts.make_folder, ".pfm"),
}
DEPTH: dict[str, Callable[[Path], Samples]] = {
    "tartanair-uw": layouts.make_tartanair,
    "squid": layouts.make_squid,
    "tank": layouts.make_tank,
    "folder-depth": layouts.make_folder,
}


def test_every_benchmark_is_tested_here() -> None:
    assert {name.partition(":")[0] for name in (*DISPARITY, *DEPTH)} == set(protocol_names())


@pytest.mark.parametrize("benchmark", DISPARITY)
def test_known_errors_of_disparity(benchmark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, suffix = DISPARITY[benchmark]
    known = make(tmp_path / "data")
    predict(tmp_path / "predictions", known, suffix, off_by_columns)
    out = tmp_path / "out"
    folder = f"folder:{tmp_path / 'predictions'}"
    assert evaluate("--benchmark", f"{benchmark}={tmp_path / 'data'}", "--method", folder, "--out", out) == 0
    name = benchmark.partition(":")[0]
    found = results(out)["benchmarks"][benchmark.replace(":", "@")]
    protocol = get_protocol(name)
    assert found["images_measured"] == len(known)
    assert [image["name"] for image in found["images"]] == sorted(known)
    exact = 2e-3 if suffix == ".png" else 1e-5  # a PNG rounds to 1 / 256 px
    all_figures = [expected_figures(known[image["name"]]) for image in found["images"]]
    for image, figures in zip(found["images"], all_figures, strict=True):
        assert set(image["regions"]) == set(figures)
        for region, wanted in figures.items():
            for metric, value in wanted.items():
                assert image["regions"][region][metric] == pytest.approx(value, abs=exact), (region, metric)
    for region in protocol.regions:
        for metric in protocol.metrics:
            parts = [figures[region] for figures in all_figures if region in figures]
            headline = found["headline"][region][metric]
            if not parts:
                assert headline["value"] is None
                continue
            weights = [part["pixels"] if headline["mean_over"] == "pixels" else 1 for part in parts]
            mean = sum(w * part[metric] for w, part in zip(weights, parts, strict=True)) / sum(weights)
            assert headline["value"] == pytest.approx(mean, abs=exact)

    printed = capsys.readouterr().out
    if benchmark == name:
        part = "" if found["complete"] in (True, None) else found["measured"]
        for line in describe(protocol, part=part).splitlines():
            assert line.replace("*", "\\*") in printed
    fixed = name not in ("seastereo", "folder")
    assert (found["official"] is not None) == fixed
    if fixed:
        assert found["complete"] == (len(known) == found["official"]["count"])
        official = f"{found['official']['count']:,} {found['official']['unit']}"
        assert found["measured"] == f"{len(known)} of {official}"
        assert found["complete"] or f"{protocol.title}, {found['measured']}" in printed
    assert (out / "report.md").read_text() in printed
    html = (out / "report.html").read_text()
    assert html.count('<figure class="image">') == len(known)


@pytest.mark.parametrize("benchmark", DEPTH)
def test_known_errors_of_depth(benchmark: str, tmp_path: Path) -> None:
    """Disparities divided by 1.1 make depths 10 % too large; halved ones, twice too large."""
    known = DEPTH[benchmark](tmp_path / "data")
    if benchmark == "tank":  # closer than 2 m, as the real one is
        for calibration in (tmp_path / "data").glob("*/calib.json"):
            content = json.loads(calibration.read_text()) | {"baseline": 0.01}
            calibration.write_text(json.dumps(content))
        for depth in (tmp_path / "data").glob("*/depth/*.npy"):
            np.save(depth, np.load(depth) / 10)
    predict(tmp_path / "near", known, ".npy", lambda disparity: disparity / np.float32(1.1))
    predict(tmp_path / "far", known, ".npy", lambda disparity: disparity / 2)
    figures = {}
    for kind in ("near", "far"):
        out = tmp_path / f"out-{kind}"
        arguments = ["--method", f"folder:{tmp_path / kind}", "--out", out, "--no-pictures"]
        assert evaluate("--benchmark", f"{benchmark}={tmp_path / 'data'}", *arguments) == 0
        found = results(out)["benchmarks"][benchmark]
        assert len(found["images"]) == len(known)
        assert found["regions"]["all"]["pixels"] == sum(int(pair.valid.sum()) for pair in known.values())
        figures[kind] = {metric: entry["value"] for metric, entry in found["headline"]["all"].items()}
    near, far = figures["near"], figures["far"]
    assert near["AbsRel"] == pytest.approx(0.1, rel=1e-3)
    assert near["LogRMSE"] == pytest.approx(math.log(1.1), rel=1e-3)
    assert (near["A1"], near["A2"], near["A3"]) == (1, 1, 1)
    metres = [np.float64(found) for found in _depths(known, benchmark)]
    roots = [math.sqrt(np.mean((0.1 * depth) ** 2)) for depth in metres]
    assert near["RMSE"] == pytest.approx(np.mean(roots), rel=1e-3)
    if benchmark not in ("tank", "tartanair-uw"):  # there, some of the doubled depths are beyond the range
        assert far["AbsRel"] == pytest.approx(1, rel=1e-3)
        assert (far["A1"], far["A2"], far["A3"]) == (0, 0, 0)
    assert far["AbsRel"] > 0.7


def _depths(known: Samples, benchmark: str) -> list[np.ndarray]:
    """True depths of the counted pixels of each image, metres."""
    scale = 0.1 if benchmark == "tank" else 1.0
    return [
        scale * pair.calibration.focal * pair.calibration.baseline / pair.disparity[pair.valid].astype(np.float64)
        for pair in known.values()
    ]


def test_several_benchmarks_in_one_report_with_the_paper_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layouts.make_kitti2015(tmp_path / "kitti")
    layouts.make_middlebury(tmp_path / "middlebury", sizes="H")
    arguments = [
        "--benchmark",
        f"kitti2015={tmp_path / 'kitti'}",
        "--benchmark",
        f"middlebury={tmp_path / 'middlebury'}",
    ]
    assert evaluate(*arguments, "--method", "sgbm", "--name", "my SGBM", "--paper", "--out", tmp_path / "out") == 0
    found = results(tmp_path / "out")
    assert list(found["benchmarks"]) == ["kitti2015", "middlebury"]
    assert found["method"]["title"] == "my SGBM"
    assert found["method"]["P2"] == 2400
    printed = capsys.readouterr().out
    for text in (printed, (tmp_path / "out" / "report.html").read_text()):
        assert "RAFT-Stereo" in text
        assert "my SGBM" in text
    assert "## All benchmarks" in printed
    for benchmark, (largest, visible) in {"kitti2015": (0.6, 0.4), "middlebury": (0.6, 0.4)}.items():
        headline = found["benchmarks"][benchmark]["headline"]
        assert headline["all"]["EPE"]["value"] < largest
        assert headline["nonocc"]["EPE"]["value"] < visible < headline["occ"]["EPE"]["value"]


@pytest.mark.parametrize(("scenes", "limit"), [(1, None), (15, 3), (15, None), (16, None)])
def test_a_part_of_a_benchmark_does_not_pass_for_the_whole(
    scenes: int, limit: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layouts.make_middlebury(tmp_path / "data", sizes="H", scenes=1)
    for index in range(1, scenes):
        shutil.copytree(tmp_path / "data/trainingH/Adirondack", tmp_path / f"data/trainingH/Scene{index}")
    arguments = ["--benchmark", f"middlebury={tmp_path / 'data'}", "--method", "sgbm", "--no-pictures"]
    arguments += [] if limit is None else ["--limit", str(limit)]
    measured = limit or scenes
    said = "16 scenes instead of 15" if scenes == 16 else f"{measured} of 15 scenes"
    whole = measured == 15
    for paper in ([], ["--paper"]):
        assert evaluate(*arguments, *paper, "--out", tmp_path / "out") == 0
        printed = capsys.readouterr().out
        html = (tmp_path / "out" / "report.html").read_text()
        for text in (printed, html):
            assert ("RAFT-Stereo" in text) == bool(paper)
            assert ("not comparable" in text) == (bool(paper) and not whole)
            assert (f"Middlebury (H), {said}" in text) == (not whole)
            assert ("not the figures of the benchmark" in text) == (not whole)
        assert (f"Pairs: only {said}; the whole would be the 15 training scenes" in printed) == (not whole)
        rows = [line for line in printed.splitlines() if line.startswith("| RAFT-Stereo")]
        assert all(("not comparable" in row) != whole for row in rows)
    found = results(tmp_path / "out")["benchmarks"]["middlebury"]
    assert found["complete"] is whole
    assert found["measured"] == said
    assert (found["official"]["count"], found["official"]["unit"]) == (15, "scenes")
    assert "middlebury" in found["official"]["source"]


def test_parts_of_benchmarks_are_marked_in_the_overview(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layouts.make_kitti2015(tmp_path / "kitti")
    layouts.make_folder(tmp_path / "own")
    benchmarks = ["--benchmark", f"kitti2015={tmp_path / 'kitti'}", "--benchmark", f"folder={tmp_path / 'own'}"]
    arguments = [*benchmarks, "--method", "sgbm", "--no-pictures", "--paper", "--out", tmp_path / "out"]
    assert evaluate(*arguments) == 0
    overview = capsys.readouterr().out.split("## All benchmarks")[1].split("## ")[0]
    assert "KITTI 2015, 2 of 200 pairs: EPE (px)" in overview
    assert re.search(r"\| RAFT-Stereo +\| +\(1\.13\) \|", overview)
    assert "not comparable with the part that was measured (KITTI 2015, 2 of 200 pairs)" in overview
    assert "not comparable with the part" in (tmp_path / "out" / "report.html").read_text()


def test_nothing_is_ever_not_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A prediction of NaN, a zero disparity, an image without ground truth: all have a defined result."""
    known = layouts.make_folder(tmp_path / "data", pairs=3)
    names = sorted(known)
    write_pfm(tmp_path / "data" / "disparity" / f"{names[2]}.pfm", np.full((120, 160), np.inf))
    predict(tmp_path / "p", chosen(known, names[0]), ".pfm", lambda disparity: np.full_like(disparity, np.nan))
    predict(tmp_path / "p", chosen(known, names[1], names[2]), ".pfm", np.zeros_like)
    arguments = ["--benchmark", f"folder={tmp_path / 'data'}", "--benchmark", f"folder-depth={tmp_path / 'data'}"]
    assert evaluate(*arguments, "--method", f"folder:{tmp_path / 'p'}", "--out", tmp_path / "out") == 0
    found = results(tmp_path / "out")["benchmarks"]["folder"]
    lost, zero, empty = (image["regions"]["all"] for image in found["images"])
    pixels = int(known[names[0]].valid.sum())
    assert (lost["pixels"], lost["non_finite_pixels"], lost["bad3"], lost["D1"]) == (pixels, pixels, 100, 100)
    for figures, name in ((lost, names[0]), (zero, names[1])):
        pair = known[name]
        assert figures["EPE"] == pytest.approx(pair.disparity[pair.valid].astype(np.float64).mean(), rel=1e-6)
    assert empty["pixels"] == 0
    assert empty["EPE"] is None
    assert found["regions"]["all"]["images_without_pixels"] == 1
    printed = capsys.readouterr().out
    assert "1 image without any counted pixel" in printed
    assert re.search(rf"\| {names[2]} +\| +n/a \|", printed)
    assert not re.search(r"\| +\**nan", printed, re.IGNORECASE)


def test_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A preset with random weights: its warning is in every report, T and the weights are part of the settings."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    layouts.make_kitti2015(tmp_path / "data", frames=1)
    arguments = ["--benchmark", f"kitti2015={tmp_path / 'data'}", "--model", "small", "--device", "cpu"]
    assert evaluate(*arguments, "--iters", "1", "--out", tmp_path / "out") == 0
    one = results(tmp_path / "out")
    assert one["method"]["iterations"] == 1
    assert one["method"]["title"] == "LinStereo (small, random weights, T = 1)"
    assert re.fullmatch("[0-9a-f]{64}", one["method"]["weights_sha256"])
    printed = capsys.readouterr()
    assert "figures mean nothing" in printed.out
    assert evaluate(*arguments, "--iters", "2", "--out", tmp_path / "out") == 0
    assert "method.iterations was 1, is 2" in capsys.readouterr().err
    two = results(tmp_path / "out")
    assert two["method"]["weights_sha256"] == one["method"]["weights_sha256"]
    assert two["benchmarks"]["kitti2015"]["images"] != one["benchmarks"]["kitti2015"]["images"]


def test_saved_checkpoint_counts_the_same_wherever_it_lies(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from linstereo.backends.torch_engine import weights_digest
    from linstereo.loading import load

    torch.set_num_threads(1)
    first = load("small", device="cpu")
    digest = weights_digest(first.model)
    assert weights_digest(load("small", device="cpu").model) == digest
    parameter = next(iter(first.model.parameters()))
    with torch.no_grad():
        parameter.view(-1)[0] = torch.nextafter(parameter.view(-1)[0], torch.tensor(9.0))  # one bit
    assert weights_digest(first.model) != digest


def test_list_names_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate("--list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(protocol_names())


def test_split_may_be_chosen(tmp_path: Path) -> None:
    layouts.make_tartanair(tmp_path / "data")
    benchmark = f"tartanair-uw:easy={tmp_path / 'data'}"
    assert evaluate("--benchmark", benchmark, "--method", "sgbm", "--limit", "3", "--out", tmp_path / "out") == 0
    found = results(tmp_path / "out")["benchmarks"]["tartanair-uw@easy"]
    assert found["own_split"] is False
    assert (found["images_in_split"], found["images_measured"]) == (4, 3)
    assert found["headline"]["all"]["AbsRel"]["value"] < 0.1


ERRORS: dict[str, tuple[list[str], str]] = {
    "no benchmark": ([], r"no benchmark is given; add --benchmark NAME=ROOT"),
    "unknown benchmark": (["--benchmark", "kitti=DATA"], r"no benchmark 'kitti'; choose among"),
    "no root": (["--benchmark", "kitti2015"], r"'kitti2015' is not understood; write NAME=ROOT"),
    "empty root": (["--benchmark", "kitti2015="], r"is not understood; write NAME=ROOT"),
    "empty split": (["--benchmark", "kitti2015:=DATA"], r"is not understood; write NAME=ROOT"),
    "wrong root": (
        ["--benchmark", "kitti2015=DATA/training"],
        r"no folder 'training/image_2' in .*did you mean .*DATA",
    ),
    "absent root": (["--benchmark", "kitti2015=DATA/none"], r"folder .*none does not exist"),
    "unknown split": (["--benchmark", "kitti2015:val=DATA"], r"there is no split 'val'; choose one of"),
    "split without truth": (["--benchmark", "kitti2015:test=DATA"], r"has no ground truth"),
    "twice": (["--benchmark", "kitti2015=DATA", "--benchmark", "kitti2015=DATA"], r"kitti2015 is given 2 times"),
    "unknown method": (["--benchmark", "kitti2015=DATA", "--method", "magic"], r"no method 'magic'; choose among"),
    "absent folder": (
        ["--benchmark", "kitti2015=DATA", "--method", "folder:DATA/x"],
        r"no folder .*x with predictions",
    ),
    "no folder": (["--benchmark", "kitti2015=DATA", "--method", "folder:"], r"no method 'folder:'; choose among"),
    "no prediction": (
        ["--benchmark", "kitti2015=DATA", "--method", "folder:DATA"],
        r"looked for .*training/000000_10 or .*000000_10 with .pfm, .npy, .exr, .png \(2 of 2",
    ),
    "limit": (["--benchmark", "kitti2015=DATA", "--limit", "0"], r"limit is 0 images; measure at least 1"),
    "pictures": (["--benchmark", "kitti2015=DATA", "--pictures", "-1"], r"--pictures is -1"),
    "out is a file": (["--benchmark", "kitti2015=DATA", "--out", "DATA/file"], r"file is a file; give a folder"),
    "iterations": (["--benchmark", "kitti2015=DATA", "--iters", "4"], r"--iters is for the network, not for .* sgbm"),
    "scale": (["--benchmark", "kitti2015=DATA", "--scale", "0.5"], r"--scale is for the network, not for .* sgbm"),
    "zero start of SGBM": (["--benchmark", "kitti2015=DATA", "--zero-start"], r"--zero-start is for the network"),
    "zero start without DPI": (
        ["--benchmark", "kitti2015=DATA", "--method", "model", "--zero-start"],
        r"what a fallback of the depth prior \(DPI\) costs, but compact \(bundled\) has none; leave it out",
    ),
    "precision": (
        ["--benchmark", "kitti2015=DATA", "--precision", "float16"],
        r"--precision is for the network, not for",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_bad_input_is_one_sentence_and_code_2(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "DATA"
    layouts.make_kitti2015(data)
    (data / "file").write_text("")
    arguments, message = ERRORS[case]
    arguments = [argument.replace("DATA", str(data)) for argument in arguments]
    usual = ["--method", "sgbm"] if "--method" not in arguments else []
    usual += ["--out", str(tmp_path / "out")] if "--out" not in arguments else []
    assert evaluate(*usual, *arguments) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.startswith("linstereo: ")
    assert printed.err.count("\n") == 1
    assert re.search(message.replace("DATA", re.escape(str(data))), printed.err), printed.err
    assert not (tmp_path / "out" / "results.json").exists()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("disp_occ_0/000001_10.png", r"disparity of '000001' not found in .*disp_occ_0"),
        ("image_3/000000_10.png", r"right image of '000000' not found in .*image_3"),
    ],
)
def test_incomplete_dataset_says_what_is_missing(
    file: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layouts.make_kitti2015(tmp_path)
    (tmp_path / "training" / file).unlink()
    assert evaluate("--benchmark", f"kitti2015={tmp_path}", "--method", "sgbm", "--out", tmp_path / "out") == 2
    assert re.search(message, capsys.readouterr().err)


def test_results_can_be_written_where_there_is_no_folder_yet(tmp_path: Path) -> None:
    layouts.make_eth3d(tmp_path / "data")
    out = tmp_path / "a" / "b"
    assert evaluate("--benchmark", f"eth3d={tmp_path / 'data'}", "--method", "sgbm", "--out", out, "--no-pictures") == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "records",
        "report.html",
        "report.md",
        "results.json",
        "timing.json",
    ]
    assert len(open_dataset("eth3d", tmp_path / "data")) == 2
