"""What lives as long as a stage: the parameters it trains, their optimiser and average, and one step of it."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from linstereo.checkpoints.checkpoint import stored_weights
from linstereo.errors import InputError
from linstereo.model.linstereo import LinStereo
from linstereo.model.precision import PRECISIONS
from linstereo.processes import Worker
from linstereo.training.batches import Batch
from linstereo.training.ema import WeightAverage
from linstereo.training.feature_cache import FeatureCache
from linstereo.training.muon import Muon, suits
from linstereo.training.objective import Objective, counts_of
from linstereo.training.recipe import Stage
from linstereo.training.state import OPTIMISER_GROUPS, TrainingState

STATE_NAMES: dict[type[torch.optim.Optimizer], dict[str, str]] = {
    torch.optim.AdamW: {"step": "adam_steps", "exp_avg": "first_moment", "exp_avg_sq": "second_moment"},
    Muon: {"momentum": "first_moment"},
}
"""What each optimiser keeps of a parameter, and which group of a `TrainingState` holds it."""


class NotFiniteError(ArithmeticError):
    """The loss or the gradient of a step is not finite; nothing was changed."""

    def __init__(self, *, loss: float, norm: float) -> None:
        super().__init__(f"loss {loss} and gradient norm {norm}")


class StepResult(NamedTuple):
    """figures: loss, its terms and the gradient norm of the whole batch; others: `extras` summed over processes."""

    figures: dict[str, float]
    others: list[float]


class StageRun:
    """One stage in progress.

    Args:
        model: the network, on its device.
        stage: what to do.
        trainable: names of the parameters that may be trained at all.
        worker: which of several processes this is.
        cache: features of a frozen backbone, None to compute them every time.
    """

    def __init__(
        self,
        model: LinStereo,
        stage: Stage,
        *,
        trainable: frozenset[str],
        worker: Worker,
        cache: FeatureCache | None = None,
    ) -> None:
        self.model, self.stage, self.worker = model, stage, worker
        self.device = next(model.parameters()).device
        self.parameters = freeze(model, stage, trainable=trainable)
        self.optimizers = _optimizers(self.parameters, stage, self.device)
        changing = {
            name: tensor
            for name, tensor in stored_weights(model).items()
            if name in self.parameters or (name not in trainable and tensor.is_floating_point())
        }
        self.average = WeightAverage(changing, decay=stage.ema_decay)
        self.precision = _pick_precision(stage, self.device)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.precision == torch.float16)
        self._objective: nn.Module = Objective(model, stage, cache=cache)
        if worker.count > 1:
            some_unused = stage.objective == "matching" or stage.warm_iterations > 0
            self._objective = DistributedDataParallel(
                self._objective, broadcast_buffers=False, find_unused_parameters=some_unused
            )

    def step(self, parts: Sequence[Batch], *, rate: float, seed: int, extras: Sequence[float] = ()) -> StepResult:
        """One optimiser step on this process's share of a batch.

        Args:
            parts: the share, to be worked on one after the other.
            rate: learning rate.
            seed: of what is random in the objective; the same in all processes.
            extras: further numbers to be summed over all processes.
        """
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad(set_to_none=True)
        batches = [part.to(self.device) for part in parts]
        counts = self.worker.whole_counts([counts_of(batch, self.stage) for batch in batches])
        sums: dict[str, Tensor] = {}
        for i, batch in enumerate(batches):
            with self._gradients_stay_here(i + 1 < len(batches)):
                with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
                    terms = self._objective(batch, counts, seed=seed)
                self.scaler.scale(terms["total"]).backward()
            for name, value in terms.items():
                sums[name] = sums[name] + value.detach() if name in sums else value.detach()
        for optimizer in self.optimizers:
            self.scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(self.parameters.values(), self.stage.clip_norm)
        figures, others = self.worker.mean({**sums, "gradient_norm": norm}, extras)
        self._check(figures)
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        self.average.update()
        return StepResult(figures, others)

    def restore(self, state: TrainingState) -> None:
        """Go on from a state that `tensors` gave."""
        for group in ("average", "first_moment", "second_moment"):
            for name, tensor in getattr(state, group).items():
                if name in self.parameters and tensor.shape != self.parameters[name].shape:
                    raise InputError(
                        f"{group} of {name} in the state of the run does not fit the network; the file is damaged, use "
                        "another folder"
                    )
        for optimizer in self.optimizers:
            names = STATE_NAMES[type(optimizer)]
            stored = {key: getattr(state, group) for key, group in names.items()}
            for name, parameter in self._own(optimizer):
                if all(name in tensors for tensors in stored.values()):
                    optimizer.state[parameter] = {
                        key: _like(parameter, tensors[name]) for key, tensors in stored.items()
                    }
        if state.progress.step:
            self.average.load(state.average, updates=state.progress.average_updates)
        if state.progress.loss_scaling:
            self.scaler.load_state_dict(dict(state.progress.loss_scaling))

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Averaged weights, and the optimisers' moments and step counts of all parameters that have any, by name."""
        found: dict[str, dict[str, Tensor]] = {"average": self.average.average, **{g: {} for g in OPTIMISER_GROUPS}}
        for optimizer in self.optimizers:
            for name, parameter in self._own(optimizer):
                entry: dict[str, Any] = optimizer.state.get(parameter, {})
                for key, group in STATE_NAMES[type(optimizer)].items():
                    if entry:
                        found[group][name] = entry[key]
        return found

    def _own(self, optimizer: torch.optim.Optimizer) -> list[tuple[str, nn.Parameter]]:
        """The parameters of an optimiser with their names."""
        own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        return [(name, parameter) for name, parameter in self.parameters.items() if id(parameter) in own]

    def _gradients_stay_here(self, stay: bool) -> contextlib.AbstractContextManager[Any]:
        """Sum gradients over processes only after the last part of a step."""
        if stay and isinstance(self._objective, DistributedDataParallel):
            return self._objective.no_sync()
        return contextlib.nullcontext()

    def _check(self, figures: dict[str, float]) -> None:
        loss, norm = figures["total"], figures["gradient_norm"]
        if _is_finite(loss) and _is_finite(norm):
            return
        if self.precision == torch.float16 and _is_finite(loss) and self.scaler.get_scale() > 1:
            return  # the scaler leaves this step out and tries smaller gradients
        raise NotFiniteError(loss=loss, norm=norm)


def _optimizers(
    parameters: Mapping[str, nn.Parameter], stage: Stage, device: torch.device
) -> list[torch.optim.Optimizer]:
    """The optimisers of a stage; every parameter belongs to one of them."""
    rate, decay = stage.learning_rate, stage.weight_decay
    matrices = [p for p in parameters.values() if stage.optimizer == "muon" and suits(p)]
    others = [p for p in parameters.values() if stage.optimizer != "muon" or not suits(p)]
    optimizers: list[torch.optim.Optimizer] = []
    if others:
        optimizers.append(torch.optim.AdamW(others, lr=rate, weight_decay=decay, fused=device.type in ("cpu", "cuda")))
    if matrices:
        optimizers.append(Muon(matrices, lr=rate, weight_decay=decay))
    return optimizers


def _like(parameter: nn.Parameter, tensor: Tensor) -> Tensor:
    """A stored tensor on a parameter's device, and in its memory order if it has its shape."""
    if tensor.shape != parameter.shape:
        return tensor.to(parameter.device)
    return torch.zeros_like(parameter).copy_(tensor)


def freeze(model: LinStereo, stage: Stage, *, trainable: frozenset[str]) -> dict[str, nn.Parameter]:
    """Let gradients flow to what this stage trains only; returns these parameters by name."""
    names = [name for name, _ in model.named_parameters()]
    for prefix in stage.frozen:
        if not any(is_frozen(name, (prefix,)) for name in names):
            parts = ", ".join(dict.fromkeys(name.split(".")[0] for name in names))
            raise InputError(
                f"stage {stage.name!r} freezes {prefix!r}, which the network does not have; its parts are {parts}"
            )
    chosen = {n: p for n, p in model.named_parameters() if n in trainable and not is_frozen(n, stage.frozen)}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in chosen)
    if not chosen:
        raise InputError(f"stage {stage.name!r} freezes everything; leave something to train")
    set_modes(model, stage)
    return chosen


def set_modes(model: LinStereo, stage: Stage) -> None:
    """Training mode for all but the frozen parts."""
    model.train()
    for name, module in model.named_modules():
        if name and is_frozen(name, stage.frozen):
            module.eval()


def is_frozen(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a parameter or module lies under one of the prefixes."""
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def _pick_precision(stage: Stage, device: torch.device) -> torch.dtype:
    if stage.precision != "auto":
        return PRECISIONS[stage.precision]
    if device.type != "cuda":
        return torch.float32
    # Older GPUs only emulate bfloat16, which is slower than float32; they do have float16.
    return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16


def _is_finite(value: float) -> bool:
    return value - value == 0
