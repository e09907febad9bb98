"""Submission archives, opened again as a test server would."""

import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest
from tests.data import layouts
from tests.data.writers import write_pfm

from linstereo.cli import main
from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.datasets.official_counts import official_count
from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.evaluation.baselines import FolderMethod
from linstereo.evaluation.submission import FORMATS, dense_disparity, kitti_disparity, write_submission


class Known:
    """Predicts a ramp that depends on the sample's name, and counts how often it is asked."""

    title = "known"
    timed = True

    def __init__(self) -> None:
        self.settings: dict[str, object] = {"method": "known"}
        self.asked: list[str] = []
        self.holes = False

    def for_benchmark(self, key: str, names: Sequence[str]) -> "Known":
        return self

    def sources(self, name: str) -> tuple[Path, ...]:
        return ()

    def predict(self, sample: StereoSample) -> np.ndarray:
        self.asked.append(sample.name)
        return ramp(sample, holes=self.holes)


def ramp(sample: StereoSample, *, holes: bool = False) -> np.ndarray:
    height, width = sample.left.shape[:2]
    values = np.linspace(0, 300, height * width, dtype=np.float32).reshape(height, width)
    values += np.float32(len(sample.name))
    values[0, 0] = 0
    if holes:
        values[1, 1] = np.nan
    return values


@contextmanager
def silent(title: str, total: int) -> Iterator[object]:
    yield lambda name: None


def submit(
    benchmark: str, root: Path, out: Path, *, method: Known | FolderMethod | None = None, **changes: object
) -> tuple[zipfile.ZipFile, list[str]]:
    said: list[str] = []
    options = {"name": "Lin-8", "say": said.append, "progress": silent} | changes
    path = write_submission(benchmark, root, method or Known(), out=out, **options)
    assert path == out / f"{benchmark}-{options['name']}.zip"
    return zipfile.ZipFile(path), said


def read_pfm(data: bytes) -> np.ndarray:
    header, size, scale, pixels = data.split(b"\n", 3)
    assert header == b"Pf"
    assert float(scale) < 0  # little endian
    width, height = map(int, size.split())
    return np.frombuffer(pixels, "<f4").reshape(height, width)[::-1]


@pytest.mark.parametrize(("year", "folder"), [(2012, ""), (2015, "disp_0/")])
def test_kitti(tmp_path: Path, year: int, folder: str) -> None:
    """2012 wants its files in the root of the archive, 2015 in disp_0; both 16-bit PNG, 256 for each pixel."""
    known = getattr(layouts, f"make_kitti{year}")(tmp_path / "data", test_frames=3)
    method = Known()
    method.holes = True
    archive, said = submit(f"kitti{year}", tmp_path / "data", tmp_path / "out", method=method)
    assert archive.testzip() is None
    assert sorted(archive.namelist()) == [f"{folder}00000{index}_10.png" for index in range(3)]
    assert "officially has" in said[0]
    for index in range(3):
        data = np.frombuffer(archive.read(f"{folder}00000{index}_10.png"), np.uint8)
        stored = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
        assert stored.dtype == np.uint16
        expected = ramp(known[f"testing/00000{index}_10"])
        assert stored[0, 0] == 1  # 0 px, which must not look like "no estimate"
        assert stored[1, 1] == 0  # NaN: no estimate
        assert stored.max() == 65535  # what is 256 px or more cannot be written
        ordinary = (expected < 255.9) & (expected > 0)
        ordinary[1, 1] = False
        np.testing.assert_array_equal(stored[ordinary], np.rint(expected[ordinary].astype(np.float64) * 256))


@pytest.mark.parametrize(("benchmark", "size"), [("middlebury", "H"), ("middlebury-q", "Q"), ("middlebury-f", "F")])
def test_middlebury(tmp_path: Path, benchmark: str, size: str) -> None:
    known = layouts.make_middlebury(tmp_path / "data", sizes=size)
    archive, said = submit(benchmark, tmp_path / "data", tmp_path / "out")
    folders = [f"test{size}/Australia", f"training{size}/Adirondack", f"training{size}/Motorcycle"]
    wanted = [f"{folder}/{file}" for folder in folders for file in ("disp0Lin-8.pfm", "timeLin-8.txt")]
    assert sorted(archive.namelist()) == wanted
    for folder in folders:
        np.testing.assert_array_equal(read_pfm(archive.read(f"{folder}/disp0Lin-8.pfm")), ramp(known[folder]))
        assert 0 <= float(archive.read(f"{folder}/timeLin-8.txt")) < 60
    assert len(said) == 2


def test_middlebury_training_only(tmp_path: Path) -> None:
    layouts.make_middlebury(tmp_path / "data", sizes="H", test_scenes=0)
    archive, _ = submit("middlebury", tmp_path / "data", tmp_path / "out", splits=["trainingH"])
    assert {name.split("/")[0] for name in archive.namelist()} == {"trainingH"}


def test_eth3d(tmp_path: Path) -> None:
    known = layouts.make_eth3d(tmp_path / "data")
    archive, _ = submit("eth3d", tmp_path / "data", tmp_path / "out")
    scenes = {"delivery_area_1l": "training", "lakeside_1l": "testing", "terrains_2s": "training"}
    wanted = [f"low_res_two_view/{scene}{suffix}" for scene in scenes for suffix in (".pfm", ".txt")]
    assert sorted(archive.namelist()) == sorted(wanted)
    for scene, part in scenes.items():
        disparity = read_pfm(archive.read(f"low_res_two_view/{scene}.pfm"))
        np.testing.assert_array_equal(disparity, ramp(known[f"two_view_{part}/{scene}"]))
        assert re.fullmatch(r"runtime \d+\.\d+\n", archive.read(f"low_res_two_view/{scene}.txt").decode())


def test_official_numbers_of_pairs(tmp_path: Path) -> None:
    makers = {"kitti2012": layouts.make_kitti2012, "kitti2015": layouts.make_kitti2015, "eth3d": layouts.make_eth3d}
    official = {"kitti2012": (195,), "kitti2015": (200,), "eth3d": (27, 20)} | dict.fromkeys(
        ("middlebury", "middlebury-f", "middlebury-q"), (15, 15)
    )
    assert set(official) == set(FORMATS)
    for name, counts in official.items():
        make = makers.get(name, lambda root: layouts.make_middlebury(root, sizes="FHQ"))
        make(tmp_path / name)
        splits = FORMATS[name].splits
        opened = [open_dataset(FORMATS[name].dataset, tmp_path / name, split) for split in splits]
        assert tuple(official_count(dataset.name).count for dataset in opened) == counts


def test_stopped_submission_goes_on_and_is_packed_the_same(tmp_path: Path) -> None:
    layouts.make_kitti2015(tmp_path / "data", test_frames=3)
    method = Known()
    whole, _ = submit("kitti2015", tmp_path / "data", tmp_path / "out", method=method)
    first = Path(whole.filename).read_bytes()
    assert method.asked == ["testing/000000_10", *(f"testing/00000{index}_10" for index in range(3))]  # warmed up
    (tmp_path / "out" / "files" / "disp_0" / "000001_10.png").unlink()
    Path(whole.filename).unlink()
    method.asked.clear()
    again, _ = submit("kitti2015", tmp_path / "data", tmp_path / "out", method=method)
    assert set(method.asked) == {"testing/000001_10"}
    assert Path(again.filename).read_bytes() == first


def test_other_settings_are_not_mixed_in(tmp_path: Path) -> None:
    layouts.make_kitti2015(tmp_path / "data")
    submit("kitti2015", tmp_path / "data", tmp_path / "out")
    other = Known()
    other.settings["iterations"] = 4
    with pytest.raises(InputError, match=r"other settings \(method.iterations was unset, is 4\)"):
        submit("kitti2015", tmp_path / "data", tmp_path / "out", method=other)
    with pytest.raises(InputError, match=r"other settings \(name was .*, is \"Other\"\)"):
        submit("kitti2015", tmp_path / "data", tmp_path / "out", name="Other")


def test_holes_are_refused_where_results_must_be_dense(tmp_path: Path) -> None:
    layouts.make_eth3d(tmp_path / "data")
    method = Known()
    method.holes = True
    with pytest.raises(InputError, match=r"two_view_training/delivery_area_1l has no finite disparity in 1 pixels"):
        submit("eth3d", tmp_path / "data", tmp_path / "out", method=method)
    assert not list((tmp_path / "out").rglob("*.pfm"))


def test_predictions_from_files_need_a_time_and_are_read_again(tmp_path: Path) -> None:
    known = layouts.make_eth3d(tmp_path / "data")
    for name, pair in known.items():
        write_pfm(tmp_path / "predictions" / f"{name}.pfm", ramp(pair))
    method = FolderMethod(tmp_path / "predictions")
    with pytest.raises(InputError, match="give it with --seconds"):
        submit("eth3d", tmp_path / "data", tmp_path / "out", method=method)
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="give seconds, 0 to 1,000,000"):
            submit("eth3d", tmp_path / "data", tmp_path / "out", method=method, seconds=wrong)
    archive, _ = submit("eth3d", tmp_path / "data", tmp_path / "out", method=method, seconds=0.25)
    assert archive.read("low_res_two_view/lakeside_1l.txt") == b"runtime 0.250000\n"
    changed = ramp(known["two_view_testing/lakeside_1l"]) + 7
    write_pfm(tmp_path / "predictions" / "two_view_testing" / "lakeside_1l.pfm", changed)
    archive, _ = submit("eth3d", tmp_path / "data", tmp_path / "out", method=method, seconds=0.25)
    np.testing.assert_array_equal(read_pfm(archive.read("low_res_two_view/lakeside_1l.pfm")), changed)


def test_preparing_a_prediction() -> None:
    values = np.array([[0.0, -3.0, 0.001, 10.0, 255.9, 300.0, np.inf, np.nan]], np.float32)
    prepared = kitti_disparity(values, "a")
    np.testing.assert_allclose(prepared[0], [1 / 256, 1 / 256, 1 / 256, 10, 255.9, 65535 / 256, 0, 0], rtol=1e-6)
    with pytest.raises(InputError, match="no finite disparity at all"):
        kitti_disparity(values[:, 6:], "a")
    assert dense_disparity(values[:, :6], "a") is not None


@pytest.mark.parametrize("name", ["", "my method", "a/b", "x_s", "-x", "ü", "a" * 41])
def test_names_that_would_break_a_file_name_are_refused(tmp_path: Path, name: str) -> None:
    layouts.make_kitti2015(tmp_path / "data")
    with pytest.raises(InputError, match="letters, digits and hyphens"):
        submit("kitti2015", tmp_path / "data", tmp_path / "out", name=name)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layouts.make_kitti2012(tmp_path / "data")
    arguments = ["--name", "sgbm", "--method", "sgbm", "--out", str(tmp_path / "out")]
    assert main(["submit", "--benchmark", f"kitti2012={tmp_path / 'data'}", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"written: {tmp_path / 'out' / 'kitti2012-sgbm.zip'}\n"
    assert "officially has 195 pairs, but 1 are here" in printed.err
    assert zipfile.ZipFile(tmp_path / "out" / "kitti2012-sgbm.zip").namelist() == ["000000_10.png"]
    assert main(["submit", "--benchmark", f"booster={tmp_path}", *arguments]) == 2
    assert "no submission format for 'booster'" in capsys.readouterr().err
