"""Several processes: the same JSON as one, also when all of them are killed half-way."""

import json
from pathlib import Path

import pytest

from linstereo.errors import InputError
from linstereo.processes import Worker, joined_workers, worker_from_environment
from tests.data import layouts
from tests.evaluation.processes import lines_in, run_and_kill, start
from tests.waiting import PATIENCE

TWO = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m")
TORCHRUN = (*TWO, "linstereo.cli")


def test_alone_unless_torchrun_says_otherwise() -> None:
    assert worker_from_environment({}) == Worker(rank=0, count=1, local_rank=0)
    assert worker_from_environment({"RANK": "5"}) == Worker()
    told = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
    assert worker_from_environment(told) == Worker(rank=5, count=8, local_rank=1)
    assert worker_from_environment({"RANK": "1", "WORLD_SIZE": "2"}).local_rank == 1


@pytest.mark.parametrize(
    "environment",
    [
        {"WORLD_SIZE": "2"},
        {"WORLD_SIZE": "two", "RANK": "0"},
        {"WORLD_SIZE": "2", "RANK": "2"},
        {"WORLD_SIZE": "0", "RANK": "0"},
        {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "-1"},
    ],
)
def test_impossible_environment_is_one_clear_error(environment: dict[str, str]) -> None:
    with pytest.raises(InputError, match="torchrun") as told:
        worker_from_environment(environment)
    assert "\n" not in str(told.value)


def test_processes_without_a_meeting_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="cannot reach each other"), joined_workers():
        pass


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_image_belongs_to_exactly_one_process(count: int) -> None:
    for index in range(50):
        assert [worker for worker in range(count) if Worker(worker, count, worker).owns(index)] == [index % count]
    assert [Worker(worker, count).leads for worker in range(count)].count(True) == 1


def test_each_process_has_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    assert Worker().device() is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert Worker(1, 2, 1).device() == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [Worker(rank, 4, rank).device() for rank in range(4)] == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]


def test_two_processes_give_the_same_json_as_one_even_if_killed(tmp_path: Path) -> None:
    kitti, eth3d = tmp_path / "kitti", tmp_path / "eth3d"
    frames = 31
    layouts.make_kitti2015(kitti, frames=frames)
    layouts.make_eth3d(eth3d)
    arguments = ["evaluate", "--method", "sgbm", "--pictures", "3"]
    arguments += ["--benchmark", f"eth3d={eth3d}", "--benchmark", f"kitti2015={kitti}", "--out"]
    one, two, killed = (tmp_path / name for name in ("one", "two", "killed"))
    assert start([*arguments, str(one)]).wait() == 0
    expected = (one / "results.json").read_bytes()
    assert len(json.loads(expected)["benchmarks"]["kitti2015"]["images"]) == frames

    assert start([*arguments, str(two)], launcher=TORCHRUN).wait() == 0
    assert (two / "results.json").read_bytes() == expected
    shares = [path.read_bytes().count(b"}\n") for path in sorted((two / "records" / "kitti2015").rglob("*.jsonl"))]
    assert shares == [16, 15]
    assert sorted(path.name for path in (one / "records").rglob("*.jpg")) == sorted(
        path.name for path in (two / "records").rglob("*.jpg") if (one / path.relative_to(two)).exists()
    )

    run_and_kill([*arguments, str(killed)], launcher=TWO, count=8)
    assert lines_in(killed) < frames + 2
    assert not (killed / "results.json").exists()
    assert start([*arguments, str(killed)], launcher=TORCHRUN).wait() == 0
    assert (killed / "results.json").read_bytes() == expected
    assert lines_in(killed) == frames + 2


def test_network_gives_the_same_json_however_many_threads_the_machine_has(tmp_path: Path) -> None:
    """torchrun gives each process one thread, and the last bits of the network depend on that number."""
    layouts.make_eth3d(tmp_path / "data")
    arguments = ["evaluate", "--model", "small", "--iters", "1", "--device", "cpu", "--no-pictures"]
    arguments += ["--benchmark", f"eth3d={tmp_path / 'data'}", "--out"]
    assert start([*arguments, str(tmp_path / "one")], OMP_NUM_THREADS="2").wait() == 0
    assert start([*arguments, str(tmp_path / "two")], launcher=TORCHRUN, OMP_NUM_THREADS="1").wait() == 0
    expected = (tmp_path / "one" / "results.json").read_bytes()
    assert (tmp_path / "two" / "results.json").read_bytes() == expected
    assert json.loads(expected)["method"]["threads"] == 1
    assert len(list((tmp_path / "two").rglob("process-*.jsonl"))) == 2


def test_bad_input_ends_all_processes(tmp_path: Path) -> None:
    layouts.make_eth3d(tmp_path / "data")
    (tmp_path / "data" / "two_view_training" / "terrains_2s" / "im1.png").write_bytes(b"")
    arguments = ["evaluate", "--method", "sgbm", "--benchmark", f"eth3d={tmp_path / 'data'}"]
    process = start([*arguments, "--out", str(tmp_path / "out")], launcher=TORCHRUN)
    assert process.wait(timeout=PATIENCE) != 0
    assert not (tmp_path / "out" / "results.json").exists()
