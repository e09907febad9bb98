"""Training the confidence head of a network whose other weights stay as they are; resumable, minutes on a CPU.

`RUN/states` holds how refinement ended on each pair, `RUN/confidence.safetensors` the head and its optimiser, and at
the end `RUN/linstereo.safetensors` the network with its head.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from linstereo.checkpoints.checkpoint import FILE_NAME, find_model, load_checkpoint, read_config, save_checkpoint
from linstereo.checkpoints.checkpoint_file import read_header, read_safetensors
from linstereo.errors import InputError
from linstereo.evaluation.confidence_metrics import expected_calibration_error, reliability
from linstereo.files import atomic_path
from linstereo.model.confidence import ConfidenceHead, is_right
from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import build_confidence_head
from linstereo.predictor import StereoPredictor
from linstereo.runs import RunFolder
from linstereo.training.confidence_states import CapturedState, capture, load_captured, save_captured, stack
from linstereo.training.run import check_backbone_weights
from linstereo.training.sources import DrawOrder, open_sources

STATE_FILE = "confidence.safetensors"
DEFAULT_DATA = ("synth:plain=0.3,underwater=0.2,max_disparity=0.25",)
"""Pairs in air and under water, with noise, grey cameras and plain rooms."""
_SAVE_EVERY = 100  # steps
_HELD_OUT = 10  # every so manieth pair is measured, not trained on
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # that AdamW keeps of each weight
_OTHER_TOLERANCES = (0.5, 2.5)  # px as run, from which half of the batches draw theirs
_LEFT_OUT = 0.1  # share of the features that a step does without, so that the head leans on no single one


@dataclasses.dataclass(frozen=True)
class ConfidenceRecipe:
    """How a head is trained.

    Attributes:
        data: where pairs come from, see `linstereo.training.sources`; not those that the network was trained on, whose
            errors are smaller than others'.
        pairs: how many of them are predicted, the measured ones included.
        steps: of the optimiser.
        batch: pairs of a step.
        width: channels of the head.
        learning_rate: at its highest.
        seed: of everything random.
    """

    data: tuple[str, ...] = DEFAULT_DATA
    pairs: int = 160
    steps: int = 800
    batch: int = 4
    width: int = 32
    learning_rate: float = 2e-3
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (("pairs", 2, 100_000), ("steps", 1, 10_000_000), ("batch", 1, 1024)):
            value = getattr(self, name)
            if not least <= value <= most:
                raise InputError(f"the number of {name} is {value}; give {least} to {most}")
        if not 0 <= self.seed < 1 << 63:
            raise InputError(f"the seed is {self.seed}; give 0 to {(1 << 63) - 1}")


@dataclasses.dataclass(frozen=True)
class ConfidenceSession:
    """How a training is run.

    Attributes:
        folder: of the run.
        device: where the network runs.
        on_pair: called after each pair that was predicted, with the number of those that are done.
        on_step: called after each step, with its number, from 1, and the loss.
        stopping: asked after each pair and step whether to stop.
    """

    folder: Path
    device: torch.device
    on_pair: Callable[[int], None] = lambda done: None
    on_step: Callable[[int, float], None] = lambda step, loss: None
    stopping: Callable[[], bool] = lambda: False


def train_confidence(
    checkpoint: str | os.PathLike[str],
    recipe: ConfidenceRecipe,
    session: ConfidenceSession,
    *,
    backbone_weights: str | os.PathLike[str] | None = None,
) -> float | None:
    """Give a network a new confidence head and write it with all its other weights, which stay as they are.

    Args:
        checkpoint: whose weights; a head that it has is replaced.
        recipe: how.
        session: where, and whom to tell.
        backbone_weights: official DA3 weights for a frozen backbone, a path or hub name.

    Returns:
        The expected calibration error on pairs that were not trained on, or None if the session stopped before the end.
    """
    file = find_model(checkpoint)
    sources = open_sources(recipe.data, seed=recipe.seed, what="data to learn the confidence from")
    with RunFolder.open(session.folder) as run:
        run.settle(run_settings(recipe, file))
        check_backbone_weights(read_config(file)[0], backbone_weights)
        model = load_checkpoint(file, backbone_weights=backbone_weights)
        model.config = dataclasses.replace(model.config, confidence=recipe.width, confidence_cues=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            head = build_confidence_head(model.config).to(session.device)
        predictor = StereoPredictor(model, device=session.device)
        order = DrawOrder(sources, seed=recipe.seed)
        pairs = []
        for number in range(recipe.pairs):
            stored = run.path / "states" / f"{number:06d}.safetensors"
            if not stored.is_file():
                draw = order[number]
                sample = sources[draw.source].dataset[draw.index]
                if sample.disparity is None or sample.valid is None:
                    raise InputError(f"{sample.name} has no ground truth to learn the confidence from; give other data")
                rng = np.random.default_rng((recipe.seed, number))
                save_captured(capture(predictor, head, sample, rng=rng), stored)
            pairs.append(load_captured(stored))
            session.on_pair(number + 1)
            if session.stopping():
                return None
        known = [[state for state in states if bool((state.truth > 0).any())] for states in pairs]
        known = [states for states in known if states]
        measured = [state for states in known[::_HELD_OUT] for state in states]
        learned = [state for i, states in enumerate(known) if i % _HELD_OUT for state in states]
        if not learned:
            raise InputError("too few of the pairs have ground truth to learn the confidence from; give more pairs")
        if not _fit(head, learned, recipe, session, state_file=run.path / STATE_FILE):
            return None
        model.confidence_head = head.cpu()
        _save(model, file, run.path / FILE_NAME)
        return _calibration_error(head, measured)


def run_settings(recipe: ConfidenceRecipe, file: Path) -> dict[str, Any]:
    """What must be the same for a run to be resumed, as plain JSON values."""
    return {"recipe": json.loads(json.dumps(dataclasses.asdict(recipe))), "weights": _weights_digest(file)}


def _fit(
    head: ConfidenceHead,
    states: list[CapturedState],
    recipe: ConfidenceRecipe,
    session: ConfidenceSession,
    *,
    state_file: Path,
) -> bool:
    """Train the head; False if the session stopped before the end."""
    head.requires_grad_(True)
    optimiser = torch.optim.AdamW(head.parameters(), lr=recipe.learning_rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.learning_rate, total_steps=recipe.steps + 1, pct_start=0.1, cycle_momentum=False
    )
    done = _resume(head, optimiser, state_file)
    for _ in range(done):
        schedule.step()
    for step in range(done + 1, recipe.steps + 1):
        rng = np.random.default_rng((recipe.seed, 1, step))
        chosen = rng.integers(len(states), size=recipe.batch)
        batch = stack([states[i] for i in chosen])
        tolerance = batch.scale
        if rng.random() < 0.5:
            low, high = np.log2(_OTHER_TOLERANCES)
            tolerance = torch.from_numpy(2 ** rng.uniform(low, high, size=recipe.batch)).to(batch.scale)
        used = rng.random(batch.features.shape[:2]) >= _LEFT_OUT  # [B, inputs]
        features = batch.features * torch.from_numpy(used / (1 - _LEFT_OUT)).to(batch.features)[..., None, None]
        logits = head.logits(features.to(session.device), tolerance.to(session.device))[:, 0].cpu()
        right = is_right(batch.disparity, batch.truth, tolerance.view(-1, 1, 1)).float()
        known = batch.truth > 0
        loss = F.binary_cross_entropy_with_logits(logits[known], right[known])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        session.on_step(step, loss.item())
        stopping = session.stopping()
        if stopping or step % _SAVE_EVERY == 0 or step == recipe.steps:
            _store(head, optimiser, step, state_file)
        if stopping and step < recipe.steps:
            return False
    head.requires_grad_(False)
    return True


@torch.inference_mode()
def _calibration_error(head: ConfidenceHead, states: list[CapturedState]) -> float:
    """Expected calibration error over all pixels with ground truth."""
    confidence, right = [], []
    for state in states:
        batch = stack([state])
        logits = head.logits(batch.features, batch.scale)[:, 0]
        known = batch.truth > 0
        confidence.append(logits[known].sigmoid().numpy())
        right.append(is_right(batch.disparity, batch.truth, batch.scale.view(-1, 1, 1))[known].numpy())
    return expected_calibration_error(reliability(np.concatenate(confidence), np.concatenate(right)))


def _save(model: LinStereo, source: Path, target: Path) -> None:
    """Write the network, in half precision if its checkpoint was: its weights then are the same to the last bit."""
    half = read_header(source).precisions == ["F16"]
    save_checkpoint(model, target, dtype=torch.float16 if half else None)


def _store(head: ConfidenceHead, optimiser: torch.optim.Optimizer, step: int, file: Path) -> None:
    tensors: dict[str, Tensor] = {f"weights/{name}": value for name, value in head.state_dict().items()}
    for (name, _), state in zip(head.named_parameters(), optimiser.state_dict()["state"].values(), strict=True):
        tensors |= {f"{key}/{name}": value for key, value in state.items()}
    with atomic_path(file) as temporary:
        save_file({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, temporary, {"step": str(step)})


def _resume(head: ConfidenceHead, optimiser: torch.optim.Optimizer, file: Path) -> int:
    """Load what an earlier session has stored; gives its steps, 0 if there was none."""
    if not file.is_file():
        return 0
    names = [name for name, _ in head.named_parameters()]
    try:
        stored = read_safetensors(file)
        step = int(read_header(file).metadata["step"])
        head.load_state_dict({name: stored[f"weights/{name}"] for name in names})
        moments = {i: {key: stored[f"{key}/{name}"] for key in _MOMENTS} for i, name in enumerate(names)}
    except (KeyError, ValueError, RuntimeError) as error:
        raise InputError(f"{file} is damaged; delete it to train the head again") from error
    optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})
    return step


def _weights_digest(file: Path) -> str:
    """Of the weights without those of a confidence head, so that a run can be resumed whatever the file is called."""
    digest = hashlib.sha256()
    for name, tensor in sorted(read_safetensors(file).items()):
        if not name.startswith("confidence_head."):
            digest.update(json.dumps([name, list(tensor.shape), str(tensor.dtype)]).encode())
            digest.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
