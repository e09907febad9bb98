"""What a run writes down as it goes: metrics.jsonl always, TensorBoard where it is installed."""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linstereo.errors import MissingExtraError
from linstereo.extras import install_command, require
from linstereo.files import write_file

FILE_NAME = "metrics.jsonl"


class MetricsLog:
    """Appends one JSON object a line to metrics.jsonl, and the same figures to TensorBoard.

    Nothing is written before the first figures come. Then entries after `step`, which a killed run may have written
    beyond its last checkpoint, and damaged ones are removed.

    Args:
        folder: of the run.
        step: steps done so far.
        say: told once if TensorBoard is missing.
    """

    def __init__(self, folder: Path, *, step: int, say: Callable[[str], None]) -> None:
        self.path = folder / FILE_NAME
        self._step, self._say = step, say
        self._begun = False
        self._writer: Any = None

    def scalars(self, kind: str, *, stage: str, step: int, values: Mapping[str, float]) -> None:
        """Write figures of one kind, such as "train" or "validation"."""
        self._begin()
        entry = {"kind": kind, "stage": stage, "step": step, **{k: float(v) for k, v in values.items()}}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(f"{kind}/{name}", value, step)

    def picture(self, name: str, *, step: int, picture: NDArray[np.uint8]) -> None:
        """Show a picture, uint8 [H, W, 3] RGB, in TensorBoard."""
        if self._writer is not None:
            self._writer.add_image(name, picture, step, dataformats="HWC")

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        _truncate(self.path, step=self._step)
        try:
            tensorboard = require("torch.utils.tensorboard", extra="train", purpose="TensorBoard")
            self._writer = tensorboard.SummaryWriter(str(self.path.parent / "tensorboard"), purge_step=self._step + 1)
        except MissingExtraError:
            self._say(f"TensorBoard is not installed ({install_command('train')}); figures are in {self.path} only")

    def close(self) -> None:
        """Write out what is still in memory."""
        if self._writer is not None:
            self._writer.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The entries of a metrics.jsonl; lines that are none, such as a last one cut short by a kill, are left out."""
    entries = []
    for line in path.read_bytes().splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict) and type(entry.get("step")) is int:
                entries.append(entry)
    return entries


def _truncate(path: Path, *, step: int) -> None:
    if not path.exists():
        return
    kept = [entry for entry in read_metrics(path) if entry["step"] <= step]
    write_file(path, "".join(json.dumps(entry) + "\n" for entry in kept))
