"""The whole measurement: which sections there are, what each measures, and the result as plain values.

Everything that the report and the plot show is in the result: times in ms, memory in MB (1e6 bytes), operations in 1e9.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cv2
import torch

from linstereo.backends.engine import BackendName
from linstereo.backends.onnx_file import SUFFIX
from linstereo.checkpoints.summary import summarise
from linstereo.efficiency.decoder import Decoder, autocast
from linstereo.efficiency.machine import LoadMeter, describe_machine
from linstereo.efficiency.memory import DecoderJob, PartsJob, Peaks, peak_memory
from linstereo.efficiency.methods import Way, installed_ways, sgbm, whole_prediction
from linstereo.efficiency.operators import PUBLISHED, build_operators
from linstereo.efficiency.pairs import textured_pair
from linstereo.efficiency.parts import counted, part_names, run_parts
from linstereo.efficiency.statistics import LEAST_SAMPLES, Estimate, log_log_slope, median_interval
from linstereo.efficiency.timing import Laps, Stopwatch, take_turns, timed
from linstereo.errors import InputError
from linstereo.evaluation.paper_tables import load_table
from linstereo.loading import load
from linstereo.memory_limits import available_memory, memory_errors_told
from linstereo.model.cost_volume import VolumeKind
from linstereo.model.memory import peak_bytes
from linstereo.model.strides import padded
from linstereo.predictor import StereoPredictor

SECTIONS = ("parts", "operators", "scaling", "methods")
SCALING_SIZES = ((240, 320), (480, 640), (960, 1280))
VOLUMES: tuple[VolumeKind, ...] = ("stored", "on_the_fly")
MOST_ROUNDS = 10_000
MB = 1e6
Result = dict[str, Any]
"""Plain JSON values."""


@dataclasses.dataclass(frozen=True)
class StudySettings:
    """What to measure; all but the last six are as for a prediction.

    Attributes:
        model: a checkpoint, hub repository or preset; None for the bundled model.
        backbone: official DA3 weights, a path or hub name.
        device: where to run; None for CUDA if there is one.
        precision: of the arithmetic.
        iterations: T; None for the model's own.
        scale: of the images before the network sees them; None for the model's choice.
        volume: how correlations are held; None for the usual choice.
        size: height and width of the images, px.
        rounds: measurements of each time, at least `LEAST_SAMPLES`.
        warm_up: measurements before that which are not kept.
        sections: which of `SECTIONS`.
        scaling_sizes: height and width of the images of the section `scaling`, px.
        backend: what runs the network in the section `methods`; None for all that are installed. The other sections
            measure PyTorch.
    """

    model: str | None = None
    backbone: str | None = None
    device: str | None = None
    precision: str = "float32"
    iterations: int | None = None
    scale: float | None = None
    volume: VolumeKind | None = None
    size: tuple[int, int] = (480, 640)
    rounds: int = 15
    warm_up: int = 2
    sections: Sequence[str] = SECTIONS
    scaling_sizes: Sequence[tuple[int, int]] = SCALING_SIZES
    backend: BackendName | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not LEAST_SAMPLES <= self.rounds <= MOST_ROUNDS:
            raise InputError(f"the number of rounds is {self.rounds}; use {LEAST_SAMPLES} to {MOST_ROUNDS}")
        if not 0 <= self.warm_up <= MOST_ROUNDS:
            raise InputError(f"the number of warm-up rounds is {self.warm_up}; use 0 to {MOST_ROUNDS}")


class Study:
    """A model made ready to be measured; an `InputError` if it cannot be run as the settings say."""

    def __init__(self, settings: StudySettings) -> None:
        self.settings = settings
        height, width = settings.size
        exported = settings.model is not None and settings.model.lower().endswith(SUFFIX)
        self.predictor = load(
            settings.model,
            device=settings.device,
            backbone_weights=settings.backbone,
            precision=settings.precision,
            backend=settings.backend if exported else None,
        )
        self._ways = _ways_to_measure(settings, self.predictor)
        self.iterations = self.predictor.iterations(settings.iterations)
        self.plan = self.predictor.plan(height, width, scale=settings.scale, volume=settings.volume)
        self.device = self.predictor.device
        self.config = self.predictor.config
        self._on_step: Callable[[int, int], None] = lambda done, total: None
        self._done = 0

    def run(self, on_step: Callable[[int, int], None] | None = None) -> Result:
        """Measure everything.

        Args:
            on_step: called with the number of steps done and of all steps.
        """
        self._on_step, self._done = on_step or self._on_step, 0
        meter = LoadMeter()
        sections: dict[str, Callable[[], Any]] = {
            "parts": self._parts,
            "operators": self._operators,
            "scaling": self._scaling,
            "methods": self._methods,
        }
        height, width = self.settings.size
        with memory_errors_told(f"measuring at {height} x {width} px", "use smaller sizes, or fewer sections"):
            measured = {name: sections[name]() for name in SECTIONS if name in self.settings.sections}
        return {
            "settings": self._described(),
            "machine": describe_machine(self.device),
            "load": dataclasses.asdict(meter.load()),
            **measured,
            "paper": {name: _published(name) for name in ("efficiency", "iteration_latency")},
        }

    @property
    def steps(self) -> int:
        """How many times `on_step` will be called."""
        timed_sections = len(set(self.settings.sections))
        jobs = ("parts" in self.settings.sections) + (
            len(VOLUMES) * len(set(self.settings.scaling_sizes)) if "scaling" in self.settings.sections else 0
        )
        return timed_sections * (self.settings.warm_up + self.settings.rounds) + jobs

    def _step(self) -> None:
        self._done += 1
        self._on_step(self._done, self.steps)

    def _turns(self, actions: Mapping[str, Callable[[], Laps]]) -> dict[str, list[Laps]]:
        with torch.inference_mode(), autocast(self.device, self.predictor.precision):
            return take_turns(actions, rounds=self.settings.rounds, warm_up=self.settings.warm_up, on_round=self._step)

    def _peaks(self, job: PartsJob | DecoderJob) -> Peaks | None:
        peaks = peak_memory(job)
        self._step()
        return peaks

    def _described(self) -> Result:
        return {
            "model": self.predictor.name,
            "trained": self.predictor.trained,
            "size": list(self.settings.size),
            "run_size": [self.plan.height, self.plan.width],
            "iterations": self.iterations,
            "volume": self.plan.volume,
            "device": str(self.device),
            "precision": self.predictor.precision,
            "rounds": self.settings.rounds,
            "warm_up": self.settings.warm_up,
            "config": dataclasses.asdict(self.config),
        }

    def _parts(self) -> Result:
        """The prediction of one pair, part by part."""
        pair = textured_pair(self.plan.height, self.plan.width)
        peaks = self._peaks(
            PartsJob(
                model=self.settings.model,
                backbone=self.settings.backbone,
                device=str(self.device),
                precision=self.predictor.precision,
                height=self.plan.height,
                width=self.plan.width,
                volume=self.plan.volume,
                iterations=self.iterations,
                threads=torch.get_num_threads(),
            )
        )

        def predict() -> Laps:
            watch = Stopwatch(self.device)
            run_parts(self.predictor, *pair, self.plan, self.iterations, watch.lap)
            watch.laps.pop("")
            return watch.laps

        samples = self._turns({"": predict})[""]
        summary = summarise(self.config, height=self.plan.height, width=self.plan.width, iterations=self.iterations)
        counts = counted(summary)
        rows: list[Result] = []
        for name in part_names(self.predictor):
            parameters, gflops = counts.get(name, (0, 0.0))
            rows.append(
                {
                    "part": name,
                    "parameters": parameters,
                    "gflops": gflops,
                    **_time([laps[name] for laps in samples]),
                    "peak_mb": None if peaks is None else peaks[name] / MB,
                }
            )
        totals = [sum(laps.values()) for laps in samples]
        for row in rows:
            row["share_percent"] = 100 * row["median_ms"] / _time(totals)["median_ms"]
        return {
            "rows": rows,
            "one_iteration": {
                "gflops": counts["iterations"][1] / self.iterations,
                **_time([laps["iterations"] / self.iterations for laps in samples]),
            },
            "total": {
                "parameters": summary.parameters,
                "gflops": summary.gflops,
                **_time(totals),
                "share_percent": 100.0,
                "fps": 1 / median_interval(totals).median,
                "peak_mb": None if peaks is None else max(peaks.values()) / MB,
            },
            "beyond_backbone": dataclasses.asdict(
                median_interval([(sum(laps.values()) - laps["backbone"]) / laps["backbone"] for laps in samples])
            ),
        }

    def _operators(self) -> list[Result]:
        """One iteration of PALA and of the ConvGRUs."""
        with autocast(self.device, self.predictor.precision):
            operators = build_operators(*self.settings.size, self.device)
        samples = self._turns({op.name: timed(self.device, op.step) for op in operators})
        first = samples[operators[0].name]
        return [
            {
                "operator": op.name,
                "published": PUBLISHED.get(op.name),
                "parameters": op.parameters,
                "gflops": op.gflops,
                **_time([laps[""] for laps in samples[op.name]]),
                "pala_relative": dataclasses.asdict(_ratio(first, samples[op.name])),
            }
            for op in operators
        ]

    def _scaling(self) -> Result:
        """One iteration of the model, and the peak memory of its decoder, over image sizes and kinds of volume."""
        fitting, rows = self._fitting_sizes()
        peaks: dict[str, Peaks | None] = {}
        for name, (height, width, kind) in fitting.items():
            job = DecoderJob(
                config=dataclasses.asdict(self.config),
                device=str(self.device),
                precision=self.predictor.precision,
                height=height,
                width=width,
                volume=kind,
                threads=torch.get_num_threads(),
            )
            peaks[name] = self._peaks(job)
        actions = {}
        with torch.inference_mode(), autocast(self.device, self.predictor.precision):
            for name, (height, width, kind) in fitting.items():
                decoder = Decoder.make(self.config, height, width, self.device)
                evidence = decoder.prepare(kind)
                actions[name] = timed(self.device, functools.partial(decoder.step, evidence))
        samples = self._turns(actions)
        for name, (height, width, kind) in fitting.items():
            peak = peaks[name]
            rows.append(
                {
                    "size": [height, width],
                    "volume": kind,
                    "pixels": padded(height) * padded(width),
                    **_time([laps[""] for laps in samples[name]]),
                    "peak_mb": None if peak is None else peak["decoder"] / MB,
                }
            )
        return {"rows": rows, "slopes": {kind: _slopes(rows, kind) for kind in VOLUMES}}

    def _fitting_sizes(self) -> tuple[dict[str, tuple[int, int, VolumeKind]], list[Result]]:
        """The runs of the section `scaling` that fit into memory side by side, by name, and rows for all others."""
        available = available_memory() if self.device.type == "cpu" else None
        fitting: dict[str, tuple[int, int, VolumeKind]] = {}
        left_out: list[Result] = []
        taken = 0
        for height, width in dict.fromkeys(self.settings.scaling_sizes):
            for kind in VOLUMES:
                taken += peak_bytes(self.config, height, width, kind)
                if available is None or taken <= available:
                    fitting[f"{height}x{width} {kind}"] = (height, width, kind)
                else:
                    left_out.append({"size": [height, width], "volume": kind, "left_out": "not enough memory"})
                    self._step()
        return fitting, left_out

    def _methods(self) -> list[Result]:
        """Whole predictions through every backend, and SGBM."""
        pair = textured_pair(*self.settings.size)
        name, match = sgbm(self.settings.size[1])
        matchers = {
            f"{self.predictor.name}, T = {self.iterations}, {way}": whole_prediction(
                self.predictor,
                way,
                iterations=self.iterations,
                scale=self.settings.scale,
                volume=self.settings.volume,
            )
            for way in self._ways
        } | {name: match}
        before = cv2.getNumThreads()
        cv2.setNumThreads(torch.get_num_threads())
        try:
            samples = self._turns(
                {
                    title: timed(self.device, functools.partial(match_pair, *pair))
                    for title, match_pair in matchers.items()
                }
            )
        finally:
            cv2.setNumThreads(before)
        return [
            {
                "method": title,
                **_time([laps[""] for laps in laps_of]),
                "fps": 1 / median_interval([laps[""] for laps in laps_of]).median,
                "sgbm_relative": dataclasses.asdict(_ratio(laps_of, samples[name])),
            }
            for title, laps_of in samples.items()
        ]


def _ways_to_measure(settings: StudySettings, predictor: StereoPredictor) -> list[Way]:
    """How the section `methods` runs the model; an `InputError` if a section cannot be measured with this model."""
    if predictor.engine.backend != "torch":  # an exported model
        if set(settings.sections) != {"methods"}:
            raise InputError(
                f"{predictor.name} is an exported model, of which only whole predictions can be measured; use --only "
                "methods, or give its checkpoint"
            )
        return [Way(predictor.engine.backend, predictor.precision)]
    if settings.backend is not None:
        return [Way(settings.backend, settings.precision)]
    if predictor.device.type != "cpu":
        return [Way("torch", settings.precision)]
    others = [way for way in installed_ways() if way.backend != "torch"]
    return [Way("torch", settings.precision), *(w for w in others if settings.precision in ("float32", w.precision))]


def _time(seconds: Sequence[float]) -> Result:
    """A time in ms with its interval, and the least one, which a busy machine disturbs least."""
    estimate = median_interval(seconds).scaled(1e3)
    return {
        "median_ms": estimate.median,
        "low_ms": estimate.low,
        "high_ms": estimate.high,
        "least_ms": 1e3 * min(seconds),
    }


def _ratio(samples: Sequence[Laps], others: Sequence[Laps]) -> Estimate:
    """Of two times that were measured in turns, round by round, so that what slows both down cancels."""
    return median_interval([a[""] / b[""] for a, b in zip(samples, others, strict=True)])


def _slopes(rows: Sequence[Result], kind: VolumeKind) -> Result:
    """Exponents of time and memory over pixels; None for fewer than two sizes."""
    found = {}
    for name, column in (("time", "median_ms"), ("memory", "peak_mb")):
        known = [(row["pixels"], row[column]) for row in rows if row["volume"] == kind and row.get(column)]
        found[name] = log_log_slope([pixels for pixels, _ in known], [cost for _, cost in known])
    return found


def _published(name: str) -> Result:
    table = load_table(name)
    return {"caption": table.caption, "rows": [{"method": row.method, **row.printed} for row in table.rows]}
