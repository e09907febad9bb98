"""Peak memory of a prediction, part by part, and of a decoder.

On a GPU the allocator of PyTorch counts. On the CPU nothing does, so a fresh process runs the prediction and the system
tells how far its resident memory rose above what it was with the model loaded; that works on Linux only.
"""

import contextlib
import ctypes
import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

import torch

import linstereo
from linstereo.efficiency.decoder import Decoder, autocast
from linstereo.efficiency.pairs import textured_pair
from linstereo.efficiency.parts import run_parts
from linstereo.errors import InputError
from linstereo.loading import load
from linstereo.memory_limits import is_out_of_memory
from linstereo.model.cost_volume import VolumeKind
from linstereo.model.presets import LinStereoConfig
from linstereo.run_plan import RunPlan

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
Peaks = dict[str, float]
"""Bytes above what the loaded model takes, by part."""


@dataclasses.dataclass(frozen=True)
class PartsJob:
    """A prediction whose peaks are wanted; the fields are those of `linstereo.loading.load` and `run_parts`."""

    model: str | None
    backbone: str | None
    device: str
    precision: str
    height: int
    width: int
    volume: VolumeKind
    iterations: int
    threads: int


@dataclasses.dataclass(frozen=True)
class DecoderJob:
    """A decoder on random features whose peak is wanted; `config` holds the fields of `LinStereoConfig`."""

    config: dict[str, Any]
    device: str
    precision: str
    height: int
    width: int
    volume: VolumeKind
    threads: int


def peak_memory(job: PartsJob | DecoderJob) -> Peaks | None:
    """The peaks of a job; None where the system does not tell."""
    if torch.device(job.device).type == "cuda":
        return _run(job)
    if not (_STATUS.exists() and _CLEAR.exists()):
        return None
    return _in_fresh_process(job)


def _in_fresh_process(job: PartsJob | DecoderJob) -> Peaks | None:
    request = json.dumps({"kind": type(job).__name__, **dataclasses.asdict(job)})
    package = str(Path(linstereo.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))}
    command = [sys.executable, "-m", "linstereo.efficiency.memory"]
    done = subprocess.run(command, input=request, capture_output=True, text=True, env=environment, check=False)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise InputError(
            f"the process that measures memory at {job.height} x {job.width} px was ended by the system (code "
            f"{done.returncode}); use a smaller size, or free memory"
        ) from error
    if "error" in answer:
        raise InputError(answer["error"])
    peaks: Peaks | None = answer["peaks"]
    return peaks


class _Meter(Protocol):
    """Tells how much memory is in use, and the most there was since the last reset."""

    def reset(self) -> None: ...

    def now(self) -> int: ...

    def peak(self) -> int: ...


class _ResidentMemory:
    """Of this process, on Linux."""

    def reset(self) -> None:
        """Give back what is free, so that it is not counted twice, and forget the peak."""
        with contextlib.suppress(AttributeError, OSError):  # other C libraries keep less
            ctypes.CDLL(None).malloc_trim(0)
        _CLEAR.write_text("5")

    def now(self) -> int:
        return self._field("VmRSS")

    def peak(self) -> int:
        return self._field("VmHWM")

    def _field(self, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", _STATUS.read_text("ascii"))
        if found is None:
            raise OSError(f"the system does not tell {name}")
        return 1024 * int(found[1])


class _CudaMemory:
    """Of tensors on a GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def reset(self) -> None:
        torch.cuda.synchronize(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)

    def now(self) -> int:
        return torch.cuda.memory_allocated(self._device)

    def peak(self) -> int:
        torch.cuda.synchronize(self._device)
        return torch.cuda.max_memory_allocated(self._device)


class _PeakRecorder:
    """Keeps the highest memory of each part above the level at its construction."""

    def __init__(self, meter: _Meter) -> None:
        self._meter = meter
        meter.reset()
        self._base = meter.now()
        self.peaks: Peaks = {}

    def end(self, part: str) -> None:
        """A part has ended; the next one begins."""
        peak = max(self._meter.peak() - self._base, 0)
        self.peaks[part] = max(self.peaks.get(part, 0), peak)
        self._meter.reset()


def _run(job: PartsJob | DecoderJob) -> Peaks:
    device = torch.device(job.device)
    meter: _Meter = _CudaMemory(device) if device.type == "cuda" else _ResidentMemory()
    return _run_parts_job(job, meter) if isinstance(job, PartsJob) else _run_decoder_job(job, device, meter)


def _run_parts_job(job: PartsJob, meter: _Meter) -> Peaks:
    predictor = load(job.model, device=job.device, backbone_weights=job.backbone, precision=job.precision)
    small = textured_pair(64, 64)
    run_parts(predictor, *small, RunPlan(64, 64, job.volume), 1, lambda _: None)
    pair = textured_pair(job.height, job.width)
    recorder = _PeakRecorder(meter)
    plan = RunPlan(job.height, job.width, job.volume)
    run_parts(predictor, *pair, plan, job.iterations, recorder.end)
    recorder.peaks.pop("", None)
    return recorder.peaks


def _run_decoder_job(job: DecoderJob, device: torch.device, meter: _Meter) -> Peaks:
    config = LinStereoConfig(**job.config)
    for height, width in ((64, 64), (job.height, job.width)):  # the first one loads the libraries
        decoder = Decoder.make(config, height, width, device)
        recorder = _PeakRecorder(meter)
        with torch.inference_mode(), autocast(device, job.precision):
            decoder.refine(job.volume, 2)
        recorder.end("decoder")
    return recorder.peaks


def main() -> None:
    """Do the job on the standard input in this process, and print its peaks, or the sentence that says why not."""
    request = json.load(sys.stdin)
    kinds = {kind.__name__: kind for kind in (PartsJob, DecoderJob)}
    job = kinds[request.pop("kind")](**request)
    torch.set_num_threads(job.threads)
    try:
        answer: dict[str, Any] = {"peaks": _run(job)}
    except InputError as error:
        answer = {"error": str(error)}
    except OSError:  # the peak cannot be reset, as in some containers
        answer = {"peaks": None}
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        answer = {"error": f"{job.height} x {job.width} px do not fit into memory; use a smaller size"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
