"""The processes of one job, started by torchrun: one for each GPU or core, on one machine or several.

    torchrun --nproc-per-node=4 -m linstereo train ...

A job of one process needs nothing of this and does not load PyTorch for it.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from linstereo.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

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
        """Whether item `index` of a list that the processes share is this process's."""
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

    def whole_counts(self, counts: "Sequence[Mapping[str, Tensor]]") -> "dict[str, Tensor]":
        """What each process divides by so that the mean of all processes' losses is the loss of the whole batch.

        counts: of the parts of this process's share, by name.
        """
        import torch.distributed

        totals = {name: torch.stack([part[name] for part in counts]).sum(dim=0) for name in counts[0]}
        if self.count > 1:
            for total in totals.values():
                torch.distributed.all_reduce(total)
        return {name: total.clamp(min=1) / self.count for name, total in totals.items()}

    def mean(self, figures: "Mapping[str, Tensor]", extras: Sequence[float]) -> tuple[dict[str, float], list[float]]:
        """The mean of scalars over all processes, and the sums of further numbers."""
        import torch.distributed

        scalars = [value.detach().float().reshape(()) for value in figures.values()]
        if self.count == 1:
            return dict(zip(figures, torch.stack(scalars).tolist(), strict=True)), list(extras)
        both = torch.cat([torch.stack(scalars), torch.tensor(extras, device=scalars[0].device)])
        torch.distributed.all_reduce(both)
        values = both.tolist()
        return {name: v / self.count for name, v in zip(figures, values, strict=False)}, values[len(figures) :]

    def summed(self, values: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """The sum of an array over all processes."""
        if self.count == 1:
            return values
        import torch.distributed

        total = torch.from_numpy(values.copy())
        torch.distributed.all_reduce(total)
        return total.numpy()

    def gathered(self, value: Any) -> list[Any]:
        """The `value` of every process, in order of rank."""
        if self.count == 1:
            return [value]
        import torch.distributed

        found: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(found, value)
        return found


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
def joined_workers(*, gpu: bool = False) -> Iterator[Worker]:
    """Join the other processes, if there are any, for as long as the context lasts.

    gpu: they exchange tensors on their GPUs too, where there are any, as in training.
    """
    worker = worker_from_environment()
    if worker.count == 1:
        yield worker
        return
    import torch.distributed

    gpu = gpu and torch.cuda.is_available()
    try:
        torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", timeout=_LONGEST_WAIT)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"the {worker.count} processes cannot reach each other ({reason}); use torchrun") from error
    try:
        if gpu:
            torch.cuda.set_device(worker.device())
        yield worker
    finally:
        torch.distributed.destroy_process_group()
