"""Rendering on a Ray cluster: each chunk of frames is a task that starts a Blender of its own."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from linstereo.synthesis.ray_cluster import check_address, ray_map
from linstereo.synthesis.seastereo.render import Chunk, ChunkRenderer, Job, Report


@dataclass(frozen=True)
class RayFarm:
    """Renders on the Ray cluster at `address`, see `ray_cluster.check_address`."""

    address: str

    def __post_init__(self) -> None:
        check_address(self.address)

    def __call__(self, job: Job, work: Sequence[Chunk], report: Report) -> Iterator[int]:
        """Render chunks; yields the number of frames of each when it is finished."""
        meshes = {
            name: None if folder is None else str(Path(folder).absolute())
            for name, folder in (("objects", job.settings.objects), ("scenery", job.settings.scenery))
        }
        settings = dataclasses.replace(job.settings, **meshes)  # type: ignore[arg-type]
        away = dataclasses.replace(job, root=job.root.absolute(), settings=settings)
        if not work:
            return
        for count, part in ray_map(self.address, functools.partial(_render, away), work, cpus=job.threads):
            report.died += part.died
            report.broken.update(part.broken)
            report.missing_textures.update(part.missing_textures)
            yield count


def _render(job: Job, chunk: Chunk) -> tuple[int, Report]:
    report = Report()
    with ChunkRenderer(job, report) as renderer:
        return len(list(renderer.render(chunk))), report
