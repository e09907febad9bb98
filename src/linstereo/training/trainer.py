"""The training loop: stages, steps, and what is due after a step."""

import dataclasses
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import torch

from linstereo.checkpoints.checkpoint import FILE_NAME as MODEL_FILE
from linstereo.checkpoints.checkpoint import save_checkpoint, stored_weights
from linstereo.cpu_memory import keep_freed_memory
from linstereo.data.formats.images import write_image
from linstereo.errors import InputError
from linstereo.files import make_parent
from linstereo.model.linstereo import LinStereo
from linstereo.processes import Worker
from linstereo.training.batches import Batch, Shares, TrainingPairs, training_batches
from linstereo.training.feature_cache import FeatureCache
from linstereo.training.metrics_log import MetricsLog
from linstereo.training.recipe import Recipe, Stage
from linstereo.training.recipe_files import recipe_to_json
from linstereo.training.schedule import one_cycle
from linstereo.training.sources import Source, open_sources
from linstereo.training.stage_run import NotFiniteError, StageRun, freeze, is_frozen, set_modes
from linstereo.training.state import FILE_NAME as STATE_FILE
from linstereo.training.state import TrainingProgress, TrainingState, keep_last_good, save_state
from linstereo.training.validation import ValidationPairs, means, put_together, validate

PICTURES = "pictures"
OnStep = Callable[[Stage, TrainingProgress, dict[str, float]], None]


@dataclasses.dataclass(frozen=True)
class Session:
    """How to run, as opposed to what: nothing here changes the weights that come out.

    folder: of the run.
    device: where the network is.
    worker: which of several processes this is.
    loaders: processes that load data.
    skip_bad: replace unreadable pairs instead of stopping.
    stop_after: steps after which to stop, to resume another time; None to run to the end.
    cache: folder for the features of frozen backbones; None to compute them every time.
    say: told what the user should read.
    on_step: called after every step with the stage, the progress and the step's figures.
    stopping: asked at every step whether to stop early.
    """

    folder: Path
    device: torch.device
    worker: Worker = dataclasses.field(default_factory=Worker)
    loaders: int = 0
    skip_bad: bool = False
    stop_after: int | None = None
    cache: Path | None = None
    say: Callable[[str], None] = print
    on_step: OnStep = lambda *_: None
    stopping: Callable[[], bool] = lambda: False


class Trainer:
    """Runs the stages of a recipe on a network, from wherever the run stands.

    Args:
        model: the network; changed in place.
        recipe: what to do.
        session: how to do it.
        resume: the state to resume from, None to start.
    """

    def __init__(
        self, model: LinStereo, recipe: Recipe, session: Session, *, resume: TrainingState | None = None
    ) -> None:
        if session.device.type == "cpu":
            keep_freed_memory()
        self.model = model.to(session.device)
        self.recipe = recipe
        self.session = session
        self.progress = TrainingProgress() if resume is None else resume.progress
        self._trainable = frozenset(model.trained_parameters())
        self._resume = resume
        self._steps_here = 0
        if resume is not None:
            model.load_state_dict(resume.weights, strict=False)
        leads = session.worker.leads
        self.log = MetricsLog(session.folder, step=self.progress.total_steps, say=session.say) if leads else None

    def run(self) -> bool:
        """Train; True if the recipe is done, False if the session stopped before."""
        opencv_threads = cv2.getNumThreads()
        # A process that is forked while OpenCV has threads hangs as soon as it uses OpenCV.
        cv2.setNumThreads(1)
        try:
            self._check_stages()
            with keep_last_good(self.session.folder):
                while self.progress.stage < len(self.recipe.stages):
                    if not self._run_stage(self.recipe.stages[self.progress.stage]):
                        return False
            return True
        finally:
            cv2.setNumThreads(opencv_threads)
            if self.log is not None:
                self.log.close()
            if self.progress.skipped:
                self.session.say(f"{self.progress.skipped} times a pair could not be read and was replaced by another")

    def _check_stages(self) -> None:
        """Refuse at once what would stop a later stage, perhaps after days."""
        if self.session.cache is not None and not any(map(self._freezes_backbone, self.recipe.stages)):
            raise InputError(
                "features can only be cached where the backbone is frozen, and no stage does that; leave out "
                '--cache-features, or add "backbone" to frozen'
            )
        for stage in self.recipe.stages[self.progress.stage :]:
            freeze(self.model, stage, trainable=self._trainable)
            self._open_cache(stage, self._sources(stage))
            self._shares(stage)
            ValidationPairs(stage, seed=self.recipe.seed)

    def _sources(self, stage: Stage) -> list[Source]:
        return open_sources(stage.data, seed=self.recipe.seed, what=f"training data for stage {stage.name!r}")

    def _shares(self, stage: Stage) -> Shares:
        worker = self.session.worker
        return Shares(stage.batch, parts=stage.accumulate, rank=worker.rank, processes=worker.count)

    def _run_stage(self, stage: Stage) -> bool:
        """Train from the present step of a stage on; False if the session stops before all is done."""
        sources = self._sources(stage)
        cache = self._open_cache(stage, sources)
        run = StageRun(self.model, stage, trainable=self._trainable, worker=self.session.worker, cache=cache)
        if self._resume is not None:
            run.restore(self._resume)
            self._resume = None
        worker = self.session.worker
        validation = ValidationPairs(stage, seed=self.recipe.seed, rank=worker.rank, processes=worker.count)
        batches = self._batches(stage, sources, with_keys=cache is not None)
        first = list(itertools.islice(batches, 1))  # if it cannot be read, that is told before anything is written
        if len(validation) and self.progress.total_steps == 0:
            self._validate(run, validation, with_picture=False)
        window = _Window()
        for parts in itertools.chain(first, batches):
            figures, stop = self._step(run, parts)
            window.add(figures)
            ends = self.progress.step == stage.steps
            if ends or self.progress.step % stage.log_every == 0:
                mean = window.take()
                if self.log is not None:
                    self.log.scalars("train", stage=stage.name, step=self.progress.total_steps, values=mean)
            self.session.on_step(stage, self.progress, figures)
            if len(validation) and (ends or _is_due(self.progress.step, stage.validate_every)):
                self._validate(run, validation, with_picture=ends or self._picture_is_due(stage))
                window.restart()
            if ends:
                self._finish_stage(run)
                return not stop or self.progress.stage == len(self.recipe.stages)
            if stop or _is_due(self.progress.step, stage.checkpoint_every):
                self._save(run)
            if stop:
                return False
        raise AssertionError("the loader ended before the stage did")

    def _step(self, run: StageRun, parts: list[Batch]) -> tuple[dict[str, float], bool]:
        """One optimiser step: its figures, and whether the session should stop after it."""
        stage, done = run.stage, self.progress
        seed = self.recipe.seed + done.total_steps
        torch.manual_seed(seed)  # for networks that draw random numbers
        rate = one_cycle(done.step, steps=stage.steps, peak=stage.learning_rate, warmup=stage.warmup)
        skipped = [message for part in parts for message in part.skipped]
        for message in skipped:
            self.session.say(f"left out: {message}")
        extras = [float(self.session.stopping()), float(len(skipped))]
        try:
            result = run.step(parts, rate=rate, seed=seed, extras=extras)
        except NotFiniteError as error:
            shares = self.session.worker.gathered([name for part in parts for name in part.names])
            names = ", ".join(name for share in shares for name in share)
            raise InputError(
                f"step {done.total_steps + 1} (stage {stage.name!r}) has {error} with the pairs {names}; nothing of "
                "this step was kept: check these pairs, or lower learning_rate, and give the same command again"
            ) from error
        self.progress = dataclasses.replace(
            done,
            step=done.step + 1,
            total_steps=done.total_steps + 1,
            average_updates=run.average.updates,
            skipped=done.skipped + round(result.others[1]),
            loss_scaling=dict(run.scaler.state_dict()),
        )
        self._steps_here += 1
        stop = result.others[0] > 0 or self._steps_here == self.session.stop_after
        return {**result.figures, "learning_rate": rate}, stop

    def _batches(self, stage: Stage, sources: list[Source], *, with_keys: bool) -> Iterator[list[Batch]]:
        pairs = TrainingPairs(
            sources,
            seed=self.recipe.seed,
            settings=stage.augmentation_settings(),
            max_disparity=stage.max_disparity,
            with_matches=self.model.start.needs_depth and stage.objective == "sequence",
            with_keys=with_keys,
            variants=stage.variants,
            skip_bad=self.session.skip_bad,
        )
        before = self.recipe.stages[: self.progress.stage]
        return training_batches(
            pairs,
            self._shares(stage),
            first_draw=sum(earlier.steps * earlier.batch for earlier in before),
            steps=range(self.progress.step, stage.steps),
            workers=self.session.loaders,
            pin_memory=self.session.device.type == "cuda",
        )

    def _open_cache(self, stage: Stage, sources: list[Source]) -> FeatureCache | None:
        """The feature cache, if the session has one and the backbone is frozen in this stage."""
        if self.session.cache is None or not self._freezes_backbone(stage):
            return None
        if stage.variants < 1 or any(source.endless for source in sources):
            raise InputError(
                f"caching features of stage {stage.name!r} helps only if images come again; set variants to 1 or more, "
                "and count=N for rendered pairs"
            )
        return FeatureCache(self.session.cache, self.model.backbone)

    def _freezes_backbone(self, stage: Stage) -> bool:
        return all(is_frozen(name, stage.frozen) for name in self._trainable if name.startswith("backbone."))

    def _picture_is_due(self, stage: Stage) -> bool:
        """Whether this validation is the first one after a multiple of `picture_every`."""
        return bool(stage.picture_every) and self.progress.step % stage.picture_every < stage.validate_every

    def _validate(self, run: StageRun, pairs: ValidationPairs, *, with_picture: bool) -> None:
        """Measure the averaged weights, keep them if they are the best so far of this stage, and draw a picture."""
        step, folder, worker = self.progress.total_steps, self.session.folder, self.session.worker
        self.model.eval()
        with run.average.swapped():
            total, rows = validate(pairs, self.model, run.stage, self.session.device, pictures=with_picture)
            values = means(worker.summed(total))
            rows = [row for share in worker.gathered(rows) for row in share]
            if values and (self.progress.best is None or values["EPE"] < self.progress.best):
                self.progress = dataclasses.replace(self.progress, best=values["EPE"])
                if worker.leads:
                    save_checkpoint(self.model, folder / MODEL_FILE)
        set_modes(self.model, run.stage)
        if self.log is None or not values:
            return
        self.log.scalars("validation", stage=run.stage.name, step=step, values=values)
        shown = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        self.session.say(f"step {step} ({run.stage.name}): validation {shown}")
        picture = put_together(rows)
        if picture is not None:
            write_image(make_parent(folder / PICTURES / f"{step:08d}.png"), picture)
            self.log.picture("validation", step=step, picture=picture)

    def _finish_stage(self, run: StageRun) -> None:
        """Keep the averaged weights, also as the start of the next stage."""
        run.average.apply()
        if self.session.worker.leads:
            save_checkpoint(self.model, self.session.folder / MODEL_FILE)
        done = self.progress
        self.progress = TrainingProgress(stage=done.stage + 1, total_steps=done.total_steps, skipped=done.skipped)
        self._save(None)

    def _save(self, run: StageRun | None) -> None:
        """Write the state to resume from: of a stage in progress, or (None) between two stages."""
        if not self.session.worker.leads:
            return
        state = TrainingState(
            progress=self.progress,
            recipe=recipe_to_json(self.recipe),
            config=json.dumps(dataclasses.asdict(self.model.config)),
            weights=stored_weights(self.model),
            **({} if run is None else run.tensors()),
        )
        save_state(state, self.session.folder / STATE_FILE)


class _Window:
    """Means of figures between two entries of the log, and the time a step takes."""

    def __init__(self) -> None:
        self._figures: list[dict[str, float]] = []
        self._seconds = 0.0
        self._since = time.perf_counter()

    def add(self, figures: dict[str, float]) -> None:
        self._figures.append(figures)
        now = time.perf_counter()
        self._seconds += now - self._since
        self._since = now

    def restart(self) -> None:
        """Leave out the time since the last step."""
        self._since = time.perf_counter()

    def take(self) -> dict[str, float]:
        count = len(self._figures)
        mean = {name: sum(f[name] for f in self._figures) / count for name in self._figures[0]}
        mean["seconds_per_step"] = self._seconds / count
        self._figures, self._seconds = [], 0.0
        return mean


def _is_due(step: int, every: int) -> bool:
    return bool(every) and step % every == 0
