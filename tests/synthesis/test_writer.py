"""Datasets of synthetic pairs: the same bytes however the run went, readable again, and clear refusals."""

import errno
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.synthesis.quick_engine import SETTINGS, DyingEngine, FailingEngine, QuickEngine
from tests.waiting import wait_until

from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.formats.disparity import read_disparity
from linstereo.data.formats.images import write_image
from linstereo.data.formats.png import read_png_values
from linstereo.errors import InputError
from linstereo.synthesis.engine import EngineSettings
from linstereo.synthesis.writer import WriterSettings, pair_files, write_dataset

PROJECT = Path(__file__).resolve().parents[2]
QUICK = WriterSettings(engine=SETTINGS)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder, hidden ones included."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, str]:
    """What 12 pairs written in one go by one process are."""
    assert write_dataset(tmp_path / "whole", QUICK, count=12, make_engine=QuickEngine) == 12
    return digests(tmp_path / "whole")


@pytest.mark.parametrize("depth", [False, True])
def test_folder_layout_reads_back(tmp_path: Path, depth: bool) -> None:
    settings = WriterSettings(engine=SETTINGS, seed=7, depth=depth)
    write_dataset(tmp_path, settings, count=3, make_engine=QuickEngine)
    dataset = open_dataset("folder", tmp_path)
    assert [dataset.sample_name(index) for index in range(len(dataset))] == ["000000", "000001", "000002"]
    engine = QuickEngine(SETTINGS)
    for index in range(3):
        pair, sample = engine.render(7, index), dataset[index]
        for name in ("left", "right", "disparity", "occluded"):
            np.testing.assert_array_equal(getattr(sample, name), getattr(pair, name))
        assert sample.calibration == pair.calibration
        assert sample.valid is not None
        assert sample.valid.all()
        assert (sample.depth is not None) == depth
        if depth:
            np.testing.assert_array_equal(sample.depth, pair.depth)
        name = f"{index:06d}"
        np.testing.assert_array_equal(read_disparity(tmp_path / f"disparity_right/{name}.pfm"), pair.right_disparity)
        mask = read_png_values(tmp_path / f"occlusion_right/{name}.png")
        np.testing.assert_array_equal(mask != 0, pair.right_occluded)
        assert json.loads((tmp_path / f"info/{name}.json").read_text()) == {"water": pair.water}


def test_sceneflow_layout_reads_back(tmp_path: Path) -> None:
    write_dataset(tmp_path, WriterSettings(engine=SETTINGS, layout="sceneflow"), count=102, make_engine=QuickEngine)
    dataset = open_dataset("sceneflow", tmp_path, "flyingthings3d")
    assert len(dataset) == 102
    assert dataset.sample_name(100) == "FlyingThings3D/finalpass/TRAIN/A/0001/0000"
    pair, sample = QuickEngine(SETTINGS).render(0, 100), dataset[100]
    for name in ("left", "right", "disparity"):
        np.testing.assert_array_equal(getattr(sample, name), getattr(pair, name))
    right = tmp_path / "FlyingThings3D/disparity/TRAIN/A/0001/right/0000.pfm"
    np.testing.assert_array_equal(read_disparity(right), pair.right_disparity)


def test_any_number_of_workers_writes_the_same_bytes(tmp_path: Path, whole: dict[str, str]) -> None:
    assert write_dataset(tmp_path / "three", QUICK, count=12, workers=3, make_engine=QuickEngine) == 12
    assert digests(tmp_path / "three") == whole
    assert len(whole) == 12 * 8 + 1


def test_a_run_goes_on_where_it_stopped_and_grows(tmp_path: Path, whole: dict[str, str]) -> None:
    out = tmp_path / "again"
    seen: list[int] = []
    write_dataset(out, QUICK, count=5, make_engine=QuickEngine)
    (out / "calib/000003.json").unlink()
    assert write_dataset(out, QUICK, count=12, make_engine=QuickEngine, on_pair=seen.append) == 8
    assert seen == [4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert digests(out) == whole
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.pfm")}
    assert write_dataset(out, QUICK, count=12, make_engine=QuickEngine) == 0
    assert write_dataset(out, QUICK, count=3, make_engine=QuickEngine) == 0
    assert times == {path: path.stat().st_mtime_ns for path in out.rglob("*.pfm")}


@pytest.mark.parametrize("workers", [1, 3])
def test_killed_runs_end_in_the_same_bytes(tmp_path: Path, whole: dict[str, str], workers: int) -> None:
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "tests.synthesis.quick_engine", str(out), "12", str(workers)]
    environment = {**os.environ, "QUICK_ENGINE_MS": "120"}
    chance = random.Random(workers)
    for kill in range(5):
        process = subprocess.Popen(command, cwd=PROJECT, env=environment, stderr=subprocess.DEVNULL)
        wait_until(lambda: (out / "settings.json").exists() or process.poll() is not None)  # noqa: B023
        if kill:
            time.sleep(chance.uniform(0.0, 0.4))
        else:
            wait_until(lambda: len(list(out.glob("left/*.png"))) >= 2 or process.poll() is not None)  # noqa: B023
        workers_of = _children(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: not any(_runs(pid) for pid in workers_of))  # noqa: B023
    (out / "left").mkdir(exist_ok=True)
    (out / "left/.000002-0123456789abcdef.png").write_bytes(b"half a file")
    subprocess.run(command, cwd=PROJECT, env={**os.environ, "QUICK_ENGINE_MS": "0"}, check=True)
    assert digests(out) == whole


def test_two_runs_cannot_write_to_one_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tests.synthesis.quick_engine", str(out), "50", "1"]
    process = subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "QUICK_ENGINE_MS": "200"})
    try:
        wait_until(lambda: (out / "settings.json").exists())
        with pytest.raises(InputError, match="another run is writing to"):
            write_dataset(out, QUICK, count=1, make_engine=QuickEngine)
    finally:
        process.kill()
        process.wait()


def test_other_settings_are_refused(tmp_path: Path) -> None:
    write_dataset(tmp_path, QUICK, count=1, make_engine=QuickEngine)
    before = digests(tmp_path)
    for settings, told in [
        (WriterSettings(engine=SETTINGS, seed=1), r"was started with other settings \(seed was 0, is 1\);"),
        (
            WriterSettings(engine=SETTINGS, layout="sceneflow"),
            r'other settings \(layout was "folder", is "sceneflow"\);',
        ),
        (WriterSettings(engine=EngineSettings(height=40, width=64)), r"other settings \(width was 56, is 64\);"),
        (WriterSettings(engine=SETTINGS, depth=True), r"other settings \(depth was false, is true\);"),
    ]:
        with pytest.raises(InputError, match=told):
            write_dataset(tmp_path, settings, count=1, make_engine=QuickEngine)
    assert digests(tmp_path) == before


def test_changed_photographs_are_refused(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    grey = np.full((16, 16, 3), 128, np.uint8)
    write_image(photos / "a.png", grey)
    settings = WriterSettings(engine=EngineSettings(height=40, width=56, photos=str(photos)))
    write_dataset(tmp_path / "out", settings, count=1, make_engine=QuickEngine)
    write_image(photos / "b.png", grey)
    with pytest.raises(
        InputError, match=r"\(the content of photos has changed\); use the same settings, or another folder"
    ):
        write_dataset(tmp_path / "out", settings, count=2, make_engine=QuickEngine)


def test_folders_that_hold_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"is not empty and holds no settings.json; choose a new folder"):
        write_dataset(tmp_path, QUICK, count=1, make_engine=QuickEngine)
    with pytest.raises(InputError, match=r"notes.txt is a file; give a folder"):
        write_dataset(tmp_path / "notes.txt", QUICK, count=1, make_engine=QuickEngine)
    with pytest.raises(InputError, match="cannot write into the folder"):
        write_dataset(tmp_path / "notes.txt" / "below", QUICK, count=1, make_engine=QuickEngine)
    for damaged in ("{", "[]"):
        (tmp_path / "bad").mkdir(exist_ok=True)
        (tmp_path / "bad/settings.json").write_text(damaged)
        with pytest.raises(InputError, match=r"settings\.json"):
            write_dataset(tmp_path / "bad", QUICK, count=1, make_engine=QuickEngine)


def test_bad_numbers_are_refused(tmp_path: Path) -> None:
    for count in (0, -3, 10_000_000):
        with pytest.raises(InputError, match=f"number of pairs is {count}"):
            write_dataset(tmp_path, QUICK, count=count, make_engine=QuickEngine)
    with pytest.raises(InputError, match="number of workers is 0"):
        write_dataset(tmp_path, QUICK, count=1, workers=0, make_engine=QuickEngine)
    with pytest.raises(InputError, match="seed is -1"):
        WriterSettings(seed=-1)
    with pytest.raises(InputError, match="no layout 'kitti'; choose one of folder, sceneflow"):
        WriterSettings(layout="kitti")
    with pytest.raises(InputError, match="no place for depth maps"):
        WriterSettings(layout="sceneflow", depth=True)


def test_a_full_disk_is_told_and_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, str]
) -> None:
    """The disk takes eleven of the float maps, and then no more."""
    out = tmp_path / "full"
    write, left = Path.write_bytes, [11]

    def write_bytes(path: Path, data: bytes) -> int:
        left[0] -= 1
        if left[0] < 0:
            write(path, data[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write_bytes)
        with pytest.raises(InputError, match=r"the disk of .*full is full; free some space and run the same command"):
            write_dataset(out, QUICK, count=12, make_engine=QuickEngine)
    kept = digests(out)
    assert 0 < len(kept) < len(whole)
    assert kept.items() <= whole.items()
    write_dataset(out, QUICK, count=12, make_engine=QuickEngine)
    assert digests(out) == whole


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_engine_reaches_the_user(tmp_path: Path, workers: int) -> None:
    with pytest.raises(InputError, match=r"the photograph a\.jpg cannot be decoded; remove it"):
        write_dataset(tmp_path, QUICK, count=12, workers=workers, make_engine=FailingEngine)
    written = {path.name for path in (tmp_path / "left").iterdir()}
    assert "000004.png" not in written
    assert "000000.png" in written


def test_a_worker_that_dies_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a worker process ended by itself"):
        write_dataset(tmp_path, QUICK, count=12, workers=2, make_engine=DyingEngine)


def test_names_do_not_depend_on_the_count() -> None:
    assert pair_files(QUICK, 12)["left"] == Path("left/000012.png")
    assert set(pair_files(QUICK, 0)) == {
        "left", "right", "disparity", "disparity_right", "occlusion", "occlusion_right", "calib", "info",
    }  # fmt: skip


def _children(pid: int) -> list[int]:
    """Processes that `pid` started, by Linux' record of them; none where there is no such record."""
    record = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in record.read_text().split()] if record.exists() else []


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
