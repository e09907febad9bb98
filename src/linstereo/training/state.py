"""The state of a run: everything needed to resume it as if it had never stopped.

One safetensors file; tensors by name, everything else as JSON in its header; nothing is pickled. It is replaced as a
whole, so that whatever happens while it is written, the last good one stays.
"""

import contextlib
import dataclasses
import errno
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from linstereo.checkpoints.checkpoint_file import read_header, read_safetensors
from linstereo.errors import InputError
from linstereo.files import atomic_path

FILE_NAME = "training.safetensors"
FORMAT = "linstereo-training/1"
OPTIMISER_GROUPS = ("first_moment", "second_moment", "adam_steps")
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_GROUPS = ("weights", "average", *OPTIMISER_GROUPS)


@dataclasses.dataclass(frozen=True)
class TrainingProgress:
    """How far a run is.

    stage: number of the present stage, from 0; the number of stages when all is done.
    step: steps done in it.
    total_steps: steps done in all stages.
    average_updates: how often the averaged weights of this stage were updated.
    best: the best validation of this stage so far, None if there is none.
    skipped: unreadable pairs that were replaced.
    loss_scaling: state of the loss scaling of float16 arithmetic; empty where it is not used.
    """

    stage: int = 0
    step: int = 0
    total_steps: int = 0
    average_updates: int = 0
    best: float | None = None
    skipped: int = 0
    loss_scaling: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class TrainingState:
    """What a checkpoint holds: recipe and settings of the network as JSON, and mappings from names of its tensors."""

    progress: TrainingProgress
    recipe: str
    config: str
    weights: Mapping[str, Tensor]
    average: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    first_moment: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    second_moment: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    adam_steps: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)


def save_state(state: TrainingState, path: Path) -> None:
    """Write the state; the file appears whole or not at all."""
    tensors = {
        f"{group}/{name}": tensor.detach().cpu().contiguous()
        for group in _GROUPS
        for name, tensor in getattr(state, group).items()
    }
    metadata = {
        "format": FORMAT,
        "progress": json.dumps(dataclasses.asdict(state.progress)),
        "recipe": state.recipe,
        "config": state.config,
    }
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)
        _to_disk(temporary)


def load_state(path: Path) -> TrainingState:
    """Read a state back, on the CPU."""
    metadata = read_header(path).metadata
    if metadata.get("format") != FORMAT:
        raise InputError(f"{path} is not the state of a training run; give the folder of one, or an empty folder")
    groups: dict[str, dict[str, Tensor]] = {group: {} for group in _GROUPS}
    try:
        for key, tensor in read_safetensors(path).items():
            group, _, name = key.partition("/")
            groups[group][name] = tensor
        progress = TrainingProgress(**json.loads(metadata["progress"]))
        recipe, config = metadata["recipe"], metadata["config"]
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged; use another folder, or delete it to start again") from error
    return TrainingState(progress=progress, recipe=recipe, config=config, **groups)


@contextlib.contextmanager
def keep_last_good(folder: Path) -> Iterator[None]:
    """Turn a failure to write into an `InputError` that says which checkpoint is still there."""
    try:
        yield
    except (OSError, SafetensorError, InputError) as error:
        system_error = error.__cause__ if isinstance(error, InputError) else error
        no_room = isinstance(system_error, OSError) and system_error.errno in _CANNOT_WRITE
        if not (no_room or isinstance(error, SafetensorError)):
            raise
        reason = " ".join(str(error).split()).split(";")[0].rstrip(".")
        raise InputError(f"cannot write in {folder} ({reason}); {_what_is_left(folder)}") from error


def _what_is_left(folder: Path) -> str:
    path = folder / FILE_NAME
    if not path.exists():
        return f"there is no checkpoint in {folder} yet, so free some space and start again"
    step = load_state(path).progress.total_steps
    return (
        f"the last good checkpoint, of step {step}, is intact in {path}, so free some space and give the same command "
        "again"
    )


def _to_disk(file: Path) -> None:
    """Make sure that the content is stored before the old file is replaced, even if the power fails."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
