"""Writing synthetic pairs to disk: seeded, by any number of processes, resumable after a kill at any moment.

Every file is either whole or not there, and holds what the settings, the seed and the index of its pair say. So
whichever process wrote it and however often the run was stopped, the dataset ends in the same bytes. `settings.json`
in its folder keeps what it is made of; a run with other settings is refused.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from linstereo import __version__
from linstereo.data.formats.calibration_files import write_calibration
from linstereo.data.formats.disparity import write_disparity
from linstereo.data.formats.images import write_image
from linstereo.data.formats.npy import write_npy
from linstereo.data.formats.png import write_png_values
from linstereo.errors import InputError
from linstereo.files import filling, make_parent, write_json
from linstereo.runs import RunFolder
from linstereo.synthesis.engine import MAX_SEED, EngineSettings, RenderedPair, StereoEngine
from linstereo.synthesis.mesh_files import MeshFolder
from linstereo.synthesis.photos import PhotoFolder
from linstereo.synthesis.ray_cluster import check_address, ray_map
from linstereo.synthesis.shards import Shard

LAYOUTS = ("folder", "sceneflow")
MAX_PAIRS = 1_000_000
MAX_WORKERS = 256
_DIGESTS: Mapping[str, Callable[[str], PhotoFolder | MeshFolder]] = MappingProxyType(
    {"photos": PhotoFolder, "meshes": MeshFolder}
)
_RAY_BATCH = 16  # pairs in one task of a cluster
_SCENEFLOW_SCENE = 100  # pairs in one scene folder


class Engine(Protocol):
    """What makes the pairs, see `StereoEngine`."""

    def render(self, seed: int, index: int) -> RenderedPair:
        """Pair `index` of the series `seed`."""
        ...


MakeEngine = Callable[[EngineSettings], Engine]
"""A class or module-level function, since every process makes its own engine."""


@dataclass(frozen=True)
class WriterSettings:
    """What a dataset is made of.

    Args:
        engine: what kind of pairs.
        seed: which series of pairs, at least 0.
        layout: `folder` or `sceneflow`, as the modules of these names in `linstereo.data.datasets` read them.
        depth: write depth maps too; they follow from disparity and calibration. Only in the layout `folder`.
    """

    engine: EngineSettings = dataclasses.field(default_factory=EngineSettings)
    seed: int = 0
    layout: str = "folder"
    depth: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= MAX_SEED:
            raise InputError(f"the seed is {self.seed}; it must be from 0 to {MAX_SEED}")
        if self.layout not in LAYOUTS:
            raise InputError(f"there is no layout '{self.layout}'; choose one of {', '.join(LAYOUTS)}")
        if self.depth and self.layout != "folder":
            raise InputError(f"the layout '{self.layout}' has no place for depth maps; use the layout 'folder'")

    def to_json(self) -> dict[str, Any]:
        """What `settings.json` holds; in place of the folders of photographs and meshes, digests of their files."""
        engine = dataclasses.asdict(self.engine)
        for name, open_folder in _DIGESTS.items():
            if engine[name] is not None:
                engine[name] = _files_digest(engine[name], open_folder(engine[name]).files)
        return {"linstereo": __version__, "layout": self.layout, "depth": self.depth, "seed": self.seed, **engine}


def write_dataset(
    out: str | os.PathLike[str],
    settings: WriterSettings,
    *,
    count: int,
    workers: int = 1,
    on_pair: Callable[[int], None] = lambda done: None,
    make_engine: MakeEngine = StereoEngine,
    shard: Shard | None = None,
    ray: str | None = None,
) -> int:
    """Write the first `count` pairs of the series into the folder `out`, all but those that are there already.

    Args:
        out: made if it is not there.
        settings: must be those of the earlier run, if there was one.
        count: number of pairs; with a larger one than before, the dataset grows.
        workers: number of processes.
        on_pair: told how many of the `count` pairs (of its share, with a shard) are there, first of all and after each.
        make_engine: makes the engine from its settings.
        shard: which part of the pairs to write, for several runs that share the folder; all by default.
        ray: address of a Ray cluster that does the work instead of processes on this machine.

    Returns:
        How many pairs were written.
    """
    if not 1 <= count <= MAX_PAIRS:
        raise InputError(f"the number of pairs is {count}; it must be from 1 to {MAX_PAIRS:,}")
    if not 1 <= workers <= MAX_WORKERS:
        raise InputError(f"the number of workers is {workers}; it must be from 1 to {MAX_WORKERS}")
    shard = shard or Shard()
    if ray is not None:
        check_address(ray)
    with RunFolder.open(out, part=shard.part) as run:
        run.settle(settings.to_json())
        share = shard.share(range(count))
        missing = [index for index in share if not _is_there(run.path, settings, index)]
        done = len(share) - len(missing)
        on_pair(done)
        job = _Job(run.path.absolute(), settings, make_engine)
        if ray is None:
            work = _run_all(job, missing, workers=min(workers, max(len(missing), 1)))
        else:
            work = _run_on_ray(job, missing, address=ray)
        with contextlib.closing(work) as finished:
            for _ in finished:
                done += 1
                on_pair(done)
    return len(missing)


def pair_files(settings: WriterSettings, index: int) -> Mapping[str, Path]:
    """Paths of the files of pair `index`, relative to the folder of the dataset, by what they hold."""
    if settings.layout == "sceneflow":
        scene = Path("TRAIN", "A", f"{index // _SCENEFLOW_SCENE:04d}")
        frame = f"{index % _SCENEFLOW_SCENE:04d}"
        root = Path("FlyingThings3D")
        return {
            "left": root / "frames_finalpass" / scene / "left" / f"{frame}.png",
            "right": root / "frames_finalpass" / scene / "right" / f"{frame}.png",
            "disparity": root / "disparity" / scene / "left" / f"{frame}.pfm",
            "disparity_right": root / "disparity" / scene / "right" / f"{frame}.pfm",
        }
    suffixes = {name: suffix for name, (suffix, _) in _WRITERS.items() if name != "depth" or settings.depth}
    return {name: Path(name, f"{index:06d}{suffix}") for name, suffix in suffixes.items()}


_WRITERS: Mapping[str, tuple[str, Callable[[Path, RenderedPair], None]]] = MappingProxyType(
    {
        "left": (".png", lambda path, pair: write_image(path, pair.left)),
        "right": (".png", lambda path, pair: write_image(path, pair.right)),
        "disparity": (".pfm", lambda path, pair: write_disparity(path, pair.disparity)),
        "disparity_right": (".pfm", lambda path, pair: write_disparity(path, pair.right_disparity)),
        "occlusion": (".png", lambda path, pair: write_png_values(path, np.uint8(255) * pair.occluded)),
        "occlusion_right": (".png", lambda path, pair: write_png_values(path, np.uint8(255) * pair.right_occluded)),
        "depth": (".npy", lambda path, pair: write_npy(path, pair.depth)),
        "calib": (".json", lambda path, pair: write_calibration(path, pair.calibration)),
        "info": (".json", lambda path, pair: write_json(path, {"water": pair.water}, indent=None)),
    }
)
"""Folder of the layout `folder`, its suffix, and how a file of it is written."""


@dataclass(frozen=True)
class _Job:
    """What a process must know to write any pair."""

    folder: Path
    settings: WriterSettings
    make_engine: MakeEngine

    def write(self, engine: Engine, index: int) -> None:
        pair = engine.render(self.settings.seed, index)
        with filling(self.folder):
            for name, path in pair_files(self.settings, index).items():
                _WRITERS[name][1](make_parent(self.folder / path), pair)


def _run_all(job: _Job, indices: Sequence[int], *, workers: int) -> Generator[int, None, None]:
    """Write the pairs `indices`; yields each when it is written, in any order."""
    if workers == 1:
        engine = job.make_engine(job.settings.engine)
        for index in indices:
            job.write(engine, index)
            yield index
        return
    pool = ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker, initargs=(job,)
    )
    try:
        waiting = iter(indices)
        pending: dict[Future[None], int] = {}
        while True:
            for index in itertools.islice(waiting, 3 * workers - len(pending)):
                pending[pool.submit(_write_in_worker, index)] = index
            if not pending:
                return
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                index = pending.pop(future)
                future.result()
                yield index
    except BrokenProcessPool as error:
        raise InputError(
            "a worker process ended by itself, perhaps for want of memory; run the command again with fewer workers"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _run_on_ray(job: _Job, indices: Sequence[int], *, address: str) -> Generator[int, None, None]:
    """Write the pairs `indices` on a Ray cluster; yields each when its batch is written, in any order."""
    batches = [indices[start : start + _RAY_BATCH] for start in range(0, len(indices), _RAY_BATCH)]
    if batches:
        for written in ray_map(address, functools.partial(_write_batch, job), batches):
            yield from written


def _write_batch(job: _Job, indices: Sequence[int]) -> list[int]:
    engine = job.make_engine(job.settings.engine)
    for index in indices:
        if not _is_there(job.folder, job.settings, index):
            job.write(engine, index)
    return list(indices)


class _Worker:
    """What a worker process keeps between pairs."""

    job: _Job
    engine: Engine


def _start_worker(job: _Job) -> None:
    """Run once in each worker process: it leaves Ctrl-C to the parent, and ends when the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _Worker.job = job


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _write_in_worker(index: int) -> None:
    if not hasattr(_Worker, "engine"):  # made here and not at the start, so that its errors reach the parent
        _Worker.engine = _Worker.job.make_engine(_Worker.job.settings.engine)
    _Worker.job.write(_Worker.engine, index)


def _is_there(folder: Path, settings: WriterSettings, index: int) -> bool:
    return all((folder / path).is_file() for path in pair_files(settings, index).values())


def _files_digest(root: str, files: Sequence[Path]) -> str:
    """SHA-256 of the names and sizes of files below `root`."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(root).as_posix()}\0{path.stat().st_size}\0".encode())
    return digest.hexdigest()
