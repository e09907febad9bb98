"""Rendering a plan: chunks of frames, each by one Blender at a time, on this machine or on a Ray cluster.

Which process renders a frame, and how often the run was stopped, makes no difference to it: all that is random in a
frame comes from the seed, its configuration and its number. A frame whose Blender dies is rendered again by a new one.
"""

import contextlib
import dataclasses
import hashlib
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linstereo import __version__
from linstereo.errors import InputError
from linstereo.files import MAX_SIDE, filling, write_json
from linstereo.runs import RunFolder
from linstereo.synthesis.seastereo import files
from linstereo.synthesis.seastereo.assets import AssetLibrary
from linstereo.synthesis.seastereo.blender_process import (
    BlenderDiedError,
    BlenderProcess,
    MeshRefusedError,
    find_blender,
)
from linstereo.synthesis.seastereo.description import write_description
from linstereo.synthesis.seastereo.frame import SIDES, Mode, compose, lights_of, read_radiance
from linstereo.synthesis.seastereo.light import light_of
from linstereo.synthesis.seastereo.plan import FRAMES, Configuration, all_configurations
from linstereo.synthesis.seastereo.scene import Scene, build_scene
from linstereo.synthesis.shards import Shard

MODES: tuple[Mode, Mode] = ("analytic", "volume")
DEFAULT_SAMPLES: Mapping[str, int] = {"analytic": 24, "volume": 64}
VOLUME_BOUNCES = 6
MAX_SAMPLES = 65536
MAX_WORKERS = 256
TRIES = 3
"""How often a frame is tried whose Blender dies."""
CHUNK = 5
"""Frames of one configuration that one Blender renders before it looks for other work."""


@dataclass(frozen=True)
class RenderSettings:
    """What a dataset is made of.

    Args:
        seed: of the enumeration, at least 0.
        height: of the images, px.
        width: of the images, px.
        mode: how the water is made: `analytic` or `volume`.
        samples: paths that Cycles traces for each pixel; None for the usual number of the mode.
        objects: folder of foreground objects; None takes the bundled ones.
        scenery: folder of scenery; None takes the bundled one.
        only_scenery: whether that folder replaces the bundled scenery instead of adding to it.
    """

    seed: int = 0
    height: int = 480
    width: int = 640
    mode: Mode = "analytic"
    samples: int | None = None
    objects: str | None = None
    scenery: str | None = None
    only_scenery: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InputError(f"there is no water mode '{self.mode}'; choose one of {', '.join(MODES)}")
        if not 1 <= self.paths <= MAX_SAMPLES:
            raise InputError(f"the number of samples is {self.samples}; it must be from 1 to {MAX_SAMPLES}")
        if not (32 <= self.height <= MAX_SIDE and 32 <= self.width <= MAX_SIDE):
            raise InputError(f"the size {self.height} x {self.width} must be from 32 to {MAX_SIDE} px on each side")

    @property
    def paths(self) -> int:
        """Paths that Cycles traces for each pixel."""
        return DEFAULT_SAMPLES[self.mode] if self.samples is None else self.samples

    def library(self) -> AssetLibrary:
        """The user's meshes."""
        return AssetLibrary(self.objects, self.scenery, self.only_scenery)

    def to_json(self, library: AssetLibrary) -> dict[str, Any]:
        """What settings.json holds; in place of the folders of meshes, a digest of their files."""
        content = {**dataclasses.asdict(self), "samples": self.paths, "linstereo": __version__}
        for name in ("objects", "scenery"):
            if content[name] is not None:
                digest = hashlib.sha256()
                for place, path in library.files().items():
                    digest.update(f"{place}\0{path.stat().st_size}\0".encode())
                content[name] = digest.hexdigest()
        return content


@dataclass(frozen=True)
class Job:
    """What a process must know to render any chunk; plain values only.

    Args:
        root: folder of the dataset.
        settings: what it is made of.
        blender: program that runs the worker; None looks for one where the chunk is rendered.
        threads: CPU threads of one Blender.
        gpu: whether Cycles runs on the GPU.
    """

    root: Path
    settings: RenderSettings
    blender: str | None = None
    threads: int = 1
    gpu: bool = False


@dataclass(frozen=True)
class Chunk:
    """Some frames of one configuration."""

    configuration: Configuration
    frames: tuple[int, ...]


@dataclass
class Report:
    """What became of a run: frames written, Blenders that died, meshes skipped and textures that were missing."""

    written: int = 0
    died: int = 0
    broken: dict[str, str] = dataclasses.field(default_factory=dict)
    missing_textures: set[tuple[str, str]] = dataclasses.field(default_factory=set)


Runner = Callable[[Job, Sequence[Chunk], Report], Iterator[int]]
"""Renders chunks and yields how many frames were finished since it last did."""


def render_plan(
    out: str | Path,
    settings: RenderSettings,
    configurations: Sequence[Configuration],
    *,
    frames: int = FRAMES,
    runner: Runner,
    job: Callable[[Path], Job],
    shard: Shard | None = None,
    on_frame: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Render all frames of the configurations that are not there yet.

    Args:
        out: folder of the dataset, made if it is not there.
        settings: must be those of the earlier run, if there was one.
        configurations: which ones; may be others than before, the dataset grows then.
        frames: of each configuration, spread evenly over its trajectory.
        runner: who renders: `LocalFarm` or `ray_farm.RayFarm`.
        job: makes the job, given the folder.
        shard: which part of the plan this run does; all by default.
        on_frame: told how many of how many frames are there, first of all and whenever one is finished.
    """
    if not 1 <= frames <= FRAMES:
        raise InputError(f"the number of frames is {frames}; it must be from 1 to {FRAMES}")
    shard = shard or Shard()
    library = settings.library()
    with RunFolder.open(out, notes=[files.PLAN], part=shard.part) as run:
        root = run.path
        run.settle(settings.to_json(library))
        chosen = chosen_frames(frames)
        plan = files.read_plan(root)
        merged = {c.name: sorted({*plan.get(c.name, []), *chosen}) for c in configurations}
        if any(plan.get(name) != wanted for name, wanted in merged.items()):
            write_json(root / files.PLAN, {**plan, **merged})
        share = shard.share([(c, frame) for c in configurations for frame in chosen])
        missing = [piece for piece in share if not files.is_there(root, *piece)]
        done, report = len(share) - len(missing), Report()
        on_frame(done, len(share))
        with contextlib.closing(runner(job(root), chunks(missing), report)) as finished:  # type: ignore[type-var]
            for count in finished:
                done += count
                report.written += count
                on_frame(done, len(share))
        known = {c.name: c for c in all_configurations(settings.seed)}
        files.write_splits(root, files.read_plan(root), known)
        return report


def chosen_frames(count: int) -> tuple[int, ...]:
    """`count` of the 40 frames, spread evenly over the trajectory."""
    return tuple(round(k * (FRAMES - 1) / max(count - 1, 1)) for k in range(count))


def chunks(pieces: Sequence[tuple[Configuration, int]]) -> list[Chunk]:
    """Frames gathered by configuration, at most `CHUNK` in each."""
    by_configuration: dict[Configuration, list[int]] = {}
    for configuration, frame in pieces:
        by_configuration.setdefault(configuration, []).append(frame)
    return [
        Chunk(configuration, tuple(frames[start : start + CHUNK]))
        for configuration, frames in by_configuration.items()
        for start in range(0, len(frames), CHUNK)
    ]


class ChunkRenderer:
    """Renders chunks one after the other with one Blender, which it starts anew when it dies; a context manager."""

    def __init__(self, job: Job, report: Report) -> None:
        self.job = job
        self.report = report
        self._program = find_blender(job.blender)
        self._library = job.settings.library()
        self._temporary = tempfile.TemporaryDirectory(prefix="seastereo-")
        self._folder = Path(self._temporary.name)
        self._blender: BlenderProcess | None = None
        self._scene: Scene | None = None
        self._loaded = False
        self._given_up = threading.Event()

    def __enter__(self) -> "ChunkRenderer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._temporary.cleanup()

    def stop(self) -> None:
        """End Blender, whatever it does at the moment, for good; may be called while another thread renders."""
        self._given_up.set()
        self._end_blender()

    def _end_blender(self) -> None:
        if self._blender is not None:
            self._blender.close()
        self._blender, self._loaded = None, False

    def render(self, chunk: Chunk) -> Iterator[int]:
        """Render the frames of a chunk that are not there; yields each when it is."""
        settings, root = self.job.settings, self.job.root
        for frame in chunk.frames:
            if not files.is_there(root, chunk.configuration, frame):
                started = time.monotonic()
                scene = self._render(chunk.configuration, frame)
                lights = lights_of(light_of(chunk.configuration, scene.light_rng()), settings.mode)
                seen = {side: read_radiance(self._folder, side, lights) for side in SIDES}
                views = compose(scene, frame, seen, settings.mode)
                seconds = time.monotonic() - started
                with filling(root):
                    files.write_configuration(root, scene, height=settings.height, width=settings.width)
                    files.write_frame(
                        root, scene, frame, views, mode=settings.mode, samples=settings.paths, seconds=seconds
                    )
            yield frame

    def _scene_of(self, configuration: Configuration) -> Scene:
        if self._scene is None or self._scene.configuration != configuration:
            self._scene = build_scene(configuration, self._library)
            self._loaded = False
            with filling(self._folder):
                write_description(self._folder, self._scene)
            self.report.broken.update({str(path): reason for path, reason in self._library.broken.items()})
        return self._scene

    def _render(self, configuration: Configuration, frame: int) -> Scene:
        """Have Blender render a frame; returns its scene, which has no mesh that Blender cannot use."""
        attempt = 1
        while True:
            scene = self._scene_of(configuration)
            try:
                if self._given_up.is_set():
                    raise BlenderDiedError("it was stopped")
                if self._blender is None:
                    self._blender = BlenderProcess(self._program)
                if not self._loaded:
                    missing = self._blender.load(self._folder, self._worker_settings(scene))
                    self.report.missing_textures.update(missing)
                    self._loaded = True
                self._blender.render(frame, self._folder)
                return scene
            except MeshRefusedError as error:
                self._library.refuse(error.path, str(error))
                self._scene = None  # the next mesh of the folder takes its place
            except BlenderDiedError as error:
                if self._given_up.is_set():
                    raise
                self._end_blender()
                self.report.died += 1
                if attempt == TRIES:
                    raise InputError(
                        f"Blender died {TRIES} times on frame {frame} of {scene.configuration.name} ({error}); it may "
                        "be short of memory: use fewer workers, or a smaller size"
                    ) from error
                attempt += 1

    def _worker_settings(self, scene: Scene) -> dict[str, Any]:
        settings = self.job.settings
        return {
            "lights": lights_of(light_of(scene.configuration, scene.light_rng()), settings.mode),
            "width": settings.width,
            "height": settings.height,
            "samples": settings.paths,
            "threads": self.job.threads,
            "gpu": self.job.gpu,
            "denoise": True,
            "seed": 1000 * scene.configuration.index,
            "volume_bounces": VOLUME_BOUNCES,
        }


@dataclass(frozen=True)
class LocalFarm:
    """Renders with several Blenders on this machine."""

    workers: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MAX_WORKERS:
            raise InputError(f"the number of workers is {self.workers}; it must be from 1 to {MAX_WORKERS}")

    def __call__(self, job: Job, work: Sequence[Chunk], report: Report) -> Iterator[int]:
        """Render chunks; yields 1 for each finished frame."""
        waiting: queue.SimpleQueue[Chunk] = queue.SimpleQueue()
        for chunk in work:
            waiting.put(chunk)
        finished: queue.SimpleQueue[int | BaseException | None] = queue.SimpleQueue()
        stopping = threading.Event()
        renderers: list[ChunkRenderer] = []

        def run(renderer: ChunkRenderer) -> None:
            try:
                while not stopping.is_set():
                    for _ in renderer.render(waiting.get_nowait()):
                        finished.put(1)
                        if stopping.is_set():
                            break
            except queue.Empty:
                pass
            except BaseException as error:  # told to the thread that waits for the frames, unless that ended Blender
                finished.put(error)
            finally:
                finished.put(None)

        with contextlib.ExitStack() as stack:
            count = min(self.workers, len(work))
            renderers += [stack.enter_context(ChunkRenderer(job, report)) for _ in range(count)]
            threads = [threading.Thread(target=run, args=(renderer,), daemon=True) for renderer in renderers]
            for thread in threads:
                thread.start()
            try:
                running = count
                while running:
                    message = finished.get()
                    if isinstance(message, BaseException):
                        raise message
                    if message is None:
                        running -= 1
                    else:
                        yield message
            finally:
                stopping.set()
                for renderer in renderers:
                    renderer.stop()
                for thread in threads:
                    thread.join()
