"""Runs: resumed exactly, never under other settings, never on files that changed."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.data import layouts
from tests.evaluation.processes import lines_in, run_and_kill, start

from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.evaluation.baselines import FolderMethod, SgbmMethod
from linstereo.evaluation.records import Record
from linstereo.evaluation.result_files import results_json, write_results
from linstereo.evaluation.runner import BenchmarkResult, Run, evaluate, open_benchmark
from linstereo.evaluation.scores import ImageScore, RegionSums
from linstereo.processes import Worker
from linstereo.visualize import PARTS


class Counting:
    """A method that adds `offset` to the true disparity and counts how often it is asked."""

    title = "counting"
    timed = True

    def __init__(self, known: dict[str, StereoSample], *, offset: float = 1.5) -> None:
        self.settings = {"method": "counting", "offset": offset}
        self.known = known
        self.asked: list[str] = []
        self.fail_at: str | None = None

    def for_benchmark(self, key: str, names: Sequence[str]) -> "Counting":
        return self

    def sources(self, name: str) -> tuple[Path, ...]:
        return ()

    def predict(self, sample: StereoSample) -> np.ndarray:
        if sample.name == self.fail_at:
            raise KeyboardInterrupt
        self.asked.append(sample.name)
        more = (10, 1, 2, 0.5, 6)[sorted(self.known).index(sample.name)]
        return self.known[sample.name].disparity + np.float32(self.settings["offset"] + more)


@contextmanager
def silent(title: str, total: int) -> Iterator[object]:
    yield lambda name: None


def run(
    root: Path, method: object, out: Path, *, said: list[str] | None = None, **changes: object
) -> list[BenchmarkResult]:
    limit = changes.pop("limit", None)
    options = {"worker": Worker(), "pictures": 0, "again": False, "progress": silent} | changes
    benchmark = open_benchmark("kitti2015", root, limit=limit)
    say = (said if said is not None else []).append
    return evaluate([benchmark], method, out=out, say=say, **options)


@pytest.fixture
def kitti(tmp_path: Path) -> tuple[Path, dict[str, StereoSample]]:
    known = layouts.make_kitti2015(tmp_path / "data", frames=5)
    return tmp_path / "data", {name: pair for name, pair in known.items() if name.startswith("training")}


def test_interrupted_run_goes_on_where_it_was(kitti, tmp_path: Path) -> None:
    root, known = kitti
    whole = Counting(known)
    expected = results_json(run(root, whole, tmp_path / "whole"), whole)

    method = Counting(known)
    method.fail_at = sorted(known)[3]
    with pytest.raises(KeyboardInterrupt):
        run(root, method, tmp_path / "out")
    assert len(method.asked) == 3
    method.fail_at = None
    said: list[str] = []
    assert results_json(run(root, method, tmp_path / "out", said=said), method) == expected
    assert method.asked == sorted(known)  # each image once
    assert said == ["kitti2015: 3 of 5 images are taken from the records of an earlier run"]


def test_line_cut_short_by_a_kill_is_measured_again(kitti, tmp_path: Path) -> None:
    root, known = kitti
    method = Counting(known)
    expected = results_json(run(root, method, tmp_path / "out"), method)
    path = next((tmp_path / "out").rglob("process-0.jsonl"))
    content = path.read_bytes()
    lines = [line for line in content.splitlines(keepends=True) if line.strip()]
    for kept in (1, 20, len(lines[-1]) // 2, len(lines[-1]) - 2):
        path.write_bytes(content[: content.rindex(lines[-1]) + kept])
        method.asked.clear()
        said: list[str] = []
        assert results_json(run(root, method, tmp_path / "out", said=said), method) == expected
        assert len(method.asked) == 1
        assert "1 damaged lines" in said[0]
    path.write_bytes(b'\x00\xff garbage\n[]\n{"score": {"name": "x"}}\nnull\n' + content)
    method.asked.clear()
    assert results_json(run(root, method, tmp_path / "out"), method) == expected
    assert not method.asked


def test_every_cut_of_a_record_is_recognised() -> None:
    score = ImageScore("a", {"all": RegionSums(pixels=3, non_finite=0, sums={"EPE": 0.1, "bad1": 2})})
    record = Record(score, ((1, 2), (3, 4)), 0.25)
    line = record.to_line().strip()
    assert Record.from_line(line) == record
    assert all(Record.from_line(line[:length]) is None for length in range(len(line)))


def test_changed_settings_never_use_old_records_and_say_so(kitti, tmp_path: Path) -> None:
    root, known = kitti
    run(root, Counting(known, offset=1.5), tmp_path / "out")
    said: list[str] = []
    other = Counting(known, offset=2.5)
    result = run(root, other, tmp_path / "out", said=said)
    assert len(other.asked) == 5
    assert result[0].scores == run(root, Counting(known, offset=2.5), tmp_path / "fresh")[0].scores
    assert re.fullmatch(
        r"kitti2015: .* other settings \(method.offset was 1.5, is 2.5\); they are kept, but not used", said[0]
    )
    back = Counting(known, offset=1.5)  # the old ones are still there for their own settings
    run(root, back, tmp_path / "out")
    assert not back.asked


def test_another_listing_of_the_dataset_is_another_setting(kitti, tmp_path: Path) -> None:
    root, known = kitti
    run(root, Counting(known), tmp_path / "out")
    for folder in ("image_2", "image_3", "disp_occ_0", "disp_noc_0"):
        (root / "training" / folder / "000004_10.png").unlink()
    said: list[str] = []
    smaller = Counting(known)
    run(root, smaller, tmp_path / "out", said=said)
    assert len(smaller.asked) == 4
    assert "names_sha256" in said[0]


def test_changed_files_are_measured_again(kitti, tmp_path: Path) -> None:
    root, known = kitti
    method = Counting(known)
    run(root, method, tmp_path / "out")
    path = root / "training" / "image_2" / "000002_10.png"
    os.utime(path, ns=(1, 1))
    method.asked.clear()
    said: list[str] = []
    run(root, method, tmp_path / "out", said=said)
    assert method.asked == ["training/000002_10"]
    assert said[0] == "kitti2015: the files of 1 recorded images have changed, so they are measured again"
    method.asked.clear()
    run(root, method, tmp_path / "out")
    assert not method.asked


def test_changed_predictions_of_another_tool_are_read_again(kitti, tmp_path: Path) -> None:
    root, known = kitti
    folder = tmp_path / "predictions"
    folder.mkdir()
    for name, pair in known.items():
        np.save(folder / f"{name.rpartition('/')[2]}.npy", pair.disparity)
    before = run(root, FolderMethod(folder), tmp_path / "out")
    assert before[0].headline("all", "EPE") == 0
    np.save(folder / "000001_10.npy", known["training/000001_10"].disparity + 5)
    after = run(root, FolderMethod(folder), tmp_path / "out")
    assert after[0].headline("all", "EPE") == pytest.approx(1, abs=1e-6)
    assert not after[0].seconds  # reading a file is no runtime


def test_again_measures_everything_again(kitti, tmp_path: Path) -> None:
    root, known = kitti
    method = Counting(known)
    run(root, method, tmp_path / "out")
    run(root, method, tmp_path / "out", again=True)
    assert len(method.asked) == 10


def test_limit_takes_the_first_images_and_its_records_serve_the_whole_run(kitti, tmp_path: Path) -> None:
    root, known = kitti
    method = Counting(known)
    limited = run(root, method, tmp_path / "out", limit=2)
    assert [score.name for score in limited[0].scores] == sorted(known)[:2]
    assert run(root, method, tmp_path / "out", limit=99)[0].benchmark.count == 5
    assert method.asked == sorted(known)
    with pytest.raises(InputError, match="limit is 0"):
        open_benchmark("kitti2015", root, limit=0)


def test_two_runs_that_disagree_are_refused(kitti, tmp_path: Path) -> None:
    root, known = kitti
    run(root, Counting(known), tmp_path / "out")
    path = next((tmp_path / "out").rglob("process-0.jsonl"))
    first = json.loads(next(line for line in path.read_text().splitlines() if line))
    first["score"]["regions"]["all"]["sums"]["EPE"] += 1
    (path.parent / "process-1.jsonl").write_text(json.dumps(first) + "\n")
    with pytest.raises(InputError, match="two different records of training/000000_10"):
        run(root, Counting(known), tmp_path / "out")


@pytest.mark.parametrize("count", [2, 3])
def test_shares_of_processes_make_the_same_result(kitti, tmp_path: Path, count: int) -> None:
    root, known = kitti
    alone = Counting(known)
    expected = results_json(run(root, alone, tmp_path / "alone", pictures=2), alone)
    benchmark = open_benchmark("kitti2015", root)
    asked = []
    for rank in reversed(range(count)):
        method = Counting(known)
        Run(benchmark, method, out=tmp_path / "out", worker=Worker(0, 1), pictures=2).start(
            again=False, say=lambda text: None
        )
        part = Run(benchmark, method, out=tmp_path / "out", worker=Worker(rank, count, rank), pictures=2)
        part.measure(on_image=lambda name: None)
        asked.append(method.asked)
    assert sorted(name for names in asked for name in names) == sorted(known)
    assert max(map(len, asked)) - min(map(len, asked)) <= 1
    assert results_json([part.result()], method) == expected


def test_pictures_are_those_of_the_worst_images_however_the_run_went(kitti, tmp_path: Path) -> None:
    root, known = kitti
    names = sorted(known)
    worst = [0, 4]  # off by 11.5 and 7.5 px; on the way, the third displaces the second, the fourth nobody
    method = Counting(known)
    result = run(root, method, tmp_path / "one", pictures=2)[0]
    assert [index for index, _ in result.pictures] == worst
    assert all(path.is_file() for _, files in result.pictures for path in files.values())
    assert len(list((tmp_path / "one").rglob("*.jpg"))) == 2 * len(PARTS)  # those of better images are gone
    assert method.asked == names

    interrupted = Counting(known)
    interrupted.fail_at = names[2]
    with pytest.raises(KeyboardInterrupt):
        run(root, interrupted, tmp_path / "two", pictures=2)
    interrupted.fail_at = None
    resumed = run(root, interrupted, tmp_path / "two", pictures=2)[0]
    assert interrupted.asked == names
    for (_, files), (_, others) in zip(result.pictures, resumed.pictures, strict=True):
        assert all(files[part].read_bytes() == others[part].read_bytes() for part in PARTS)

    later = Counting(known)  # the first time without pictures: the worst ones are predicted once more
    run(root, later, tmp_path / "three")
    later.asked.clear()
    drawn = run(root, later, tmp_path / "three", pictures=2)[0]
    assert later.asked == [names[0], names[4]]
    assert drawn.pictures[0][1]["error"].read_bytes() == result.pictures[0][1]["error"].read_bytes()


def test_files_are_written_whole_and_say_how_long_it_took(kitti, tmp_path: Path) -> None:
    root, known = kitti
    method = Counting(known)
    results = run(root, method, tmp_path / "out")
    written = write_results(results, method, out=tmp_path / "out", paper=False)
    assert [path.name for path in written] == ["results.json", "report.md", "report.html", "timing.json"]
    assert json.loads(written[0].read_text()) == json.loads(json.dumps(results_json(results, method)))
    timing = json.loads(written[3].read_text())["benchmarks"]["kitti2015"]
    assert list(timing) == sorted(known)
    assert all(0 <= seconds < 60 for seconds in timing.values())
    assert "seconds" not in written[0].read_text()


def test_another_split_is_said(tmp_path: Path) -> None:
    layouts.make_middlebury(tmp_path, sizes="Q")
    benchmark = open_benchmark("middlebury", tmp_path, split="trainingQ")
    assert benchmark.key == "middlebury@trainingQ"
    assert not benchmark.own_split
    assert "trainingH" in benchmark.protocol.pairs
    assert "half" not in benchmark.protocol.resolution
    assert open_benchmark("middlebury-q", tmp_path, split="trainingQ").own_split


def test_split_without_ground_truth_is_refused(kitti, tmp_path: Path) -> None:
    root, _ = kitti
    benchmark = open_benchmark("kitti2015", root, split="testing")
    with pytest.raises(InputError, match=r"testing/000000_10 has no ground truth"):
        evaluate(
            [benchmark],
            SgbmMethod(),
            out=tmp_path / "out",
            worker=Worker(),
            pictures=0,
            again=False,
            say=lambda text: None,
            progress=silent,
        )


def test_killed_run_started_again_gives_the_same_json(tmp_path: Path) -> None:
    frames = 40
    layouts.make_kitti2015(tmp_path / "data", frames=frames)
    arguments = ["evaluate", "--benchmark", f"kitti2015={tmp_path / 'data'}", "--method", "sgbm", "--pictures", "3"]
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert start([*arguments, "--out", str(whole)]).wait() == 0

    run_and_kill([*arguments, "--out", str(out)], count=10)
    done = lines_in(out)
    assert done == 10
    assert not (out / "results.json").exists()
    with next(out.rglob("process-0.jsonl")).open("ab") as stream:  # as if killed in the middle of a write
        stream.write(b'\n{"score": {"name": "training/0000')
    run_and_kill([*arguments, "--out", str(out)], count=done + 5)
    assert start([*arguments, "--out", str(out)]).wait() == 0
    assert (out / "results.json").read_bytes() == (whole / "results.json").read_bytes()
    assert lines_in(out) == frames  # no image was measured twice
