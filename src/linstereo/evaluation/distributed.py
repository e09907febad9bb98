"""Sharing the images of a benchmark among processes started by torchrun, one for each GPU or core.

    torchrun --nproc-per-node=2 -m linstereo evaluate ...

Each process measures every n-th image and writes its own records; the first one then puts all of them together.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from linstereo.errors import InputError

_LONGEST_WAIT = timedelta(days=7)
"""A process may be done long before the others; it is torchrun that notices if one of them fails."""


@dataclass(frozen=True)
class Worker:
    """One of `count` processes: `rank` among all of them, `local_rank` among those on this machine."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0

    @property
    def leads(self) -> bool:
        """Whether this process speaks to the user and puts the results together."""
        return self.rank == 0

    def owns(self, index: int) -> bool:
        """Whether the image `index` of a benchmark is this process's to measure."""
        return index % self.count == self.rank

    def device(self) -> str | None:
        """The GPU of this process if it has to share the machine's GPUs with others; else None, the usual choice."""
        if self.count == 1:
            return None
        import torch

        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return f"cuda:{self.local_rank % gpus}" if gpus else "cpu"

    def wait_for_all(self) -> None:
        """Return when every process has come here."""
        if self.count > 1:
            import torch.distributed

            torch.distributed.barrier()


def worker_from_environment(environment: Mapping[str, str] = os.environ) -> Worker:
    """The place of this process as torchrun tells it (RANK, WORLD_SIZE, LOCAL_RANK); alone if it says nothing."""
    if "WORLD_SIZE" not in environment:
        return Worker()
    try:
        rank, count = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        local_rank = int(environment.get("LOCAL_RANK", rank))
    except (KeyError, ValueError) as error:
        raise InputError(
            f"the environment has WORLD_SIZE={environment['WORLD_SIZE']!r} and RANK={environment.get('RANK')!r}, which "
            "must both be numbers; start several processes with torchrun"
        ) from error
    if not (0 <= rank < count and local_rank >= 0):
        raise InputError(f"process {rank} of {count} cannot be; start several processes with torchrun")
    return Worker(rank=rank, count=count, local_rank=local_rank)


@contextlib.contextmanager
def joined_workers(*, backend: str = "gloo") -> Iterator[Worker]:
    """Join the other processes, if there are any, for as long as the context lasts."""
    worker = worker_from_environment()
    if worker.count == 1:
        yield worker
        return
    import torch.distributed

    try:
        torch.distributed.init_process_group(backend, timeout=_LONGEST_WAIT)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"the {worker.count} processes cannot reach each other ({reason}); use torchrun") from error
    try:
        yield worker
    finally:
        torch.distributed.destroy_process_group()
