"""Training in several processes started by torchrun, one for each GPU, on one machine or several.

    torchrun --nproc-per-node=4 -m linstereo train ...

Every process has the whole network and its share of each batch; gradients are averaged (DistributedDataParallel), so
that the weights stay alike.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed
from numpy.typing import NDArray
from torch import Tensor

from linstereo.evaluation.distributed import Worker, joined_workers


@contextlib.contextmanager
def joined_trainers() -> Iterator[Worker]:
    """Join the other processes, if there are any, for as long as the context lasts."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    with joined_workers(backend=backend) as worker:
        device = worker.device()
        if device is not None and device != "cpu":
            torch.cuda.set_device(device)
        yield worker


def whole_counts(counts: Sequence[Tensor], worker: Worker) -> Tensor:
    """What each process divides by so that the mean of all processes' losses is the loss of the whole batch.

    Args:
        counts: of the parts of this process's share.
        worker: this process.
    """
    total = torch.stack(list(counts)).sum(dim=0)
    if worker.count > 1:
        torch.distributed.all_reduce(total)
    return total.clamp(min=1) / worker.count


def mean_over_processes(
    figures: Mapping[str, Tensor], extras: Sequence[float], worker: Worker
) -> tuple[dict[str, float], list[float]]:
    """The mean of scalars over all processes, and the sums of further numbers."""
    scalars = [value.detach().float().reshape(()) for value in figures.values()]
    if worker.count == 1:
        return dict(zip(figures, torch.stack(scalars).tolist(), strict=True)), list(extras)
    both = torch.cat([torch.stack(scalars), torch.tensor(extras, device=scalars[0].device)])
    torch.distributed.all_reduce(both)
    values = both.tolist()
    return {name: v / worker.count for name, v in zip(figures, values, strict=False)}, values[len(figures) :]


def summed(values: NDArray[np.float64], worker: Worker) -> NDArray[np.float64]:
    """The sum of an array over all processes."""
    if worker.count > 1:
        total = torch.from_numpy(values.copy())
        torch.distributed.all_reduce(total)
        return total.numpy()
    return values


def gathered(value: Any, worker: Worker) -> list[Any]:
    """The `value` of every process, in order of rank."""
    if worker.count == 1:
        return [value]
    found: list[Any] = [None] * worker.count
    torch.distributed.all_gather_object(found, value)
    return found
