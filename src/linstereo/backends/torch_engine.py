"""The network as PyTorch runs it."""

import hashlib
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from linstereo.backends.engine import BackendName, EngineMemory, EngineRequest, EngineResult, Image
from linstereo.geometry.known_disparity import KnownDisparity
from linstereo.model.cost_volume import VolumeKind
from linstereo.model.large_images import Strips, predict_in_strips
from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import LinStereoConfig, checked_iterations
from linstereo.model.strides import FINEST
from linstereo.model.warm_start import WarmStart, warmed


class TorchEngine:
    """An `Engine` around the network itself.

    Args:
        model: the network; moved to `device` and put in eval mode.
        device: where it runs.
    """

    backend: BackendName = "torch"
    precision = "float32"
    volumes: tuple[VolumeKind, ...] = ("stored", "on_the_fly")
    takes_start = True
    stops_early = True

    def __init__(self, model: LinStereo, *, device: torch.device) -> None:
        self.model = model.to(device).eval()
        self.device = device

    @property
    def config(self) -> LinStereoConfig:
        """See `Engine.config`."""
        return self.model.config

    @property
    def gives_confidence(self) -> bool:
        """See `Engine.gives_confidence`."""
        return self.model.confidence_head is not None

    @property
    def needs_matches(self) -> bool:
        """See `Engine.needs_matches`."""
        return self.model.start.needs_depth

    def iterations(self, wanted: int | None) -> int:
        """See `Engine.iterations`."""
        return checked_iterations(self.config.iterations if wanted is None else wanted)

    def digest(self) -> str:
        """See `Engine.digest`."""
        return weights_digest(self.model)

    @torch.inference_mode()
    def run(self, request: EngineRequest) -> EngineResult:
        """See `Engine.run`."""
        on_disparity, start = request.on_disparity, request.start
        height, width = request.left.shape[:2]
        tensors = [_to_tensor(image, self.device) for image in (request.left, request.right)]
        matches = None if request.matches is None else [request.matches]
        evidence = self.model.prepare(*tensors, matches=matches, volume=request.volume)
        if start is not None:
            evidence = warmed(evidence, self._warm_start(start, request.memory))
        if on_disparity is not None:
            first = F.interpolate(FINEST * evidence.disparity, scale_factor=FINEST, mode="bilinear")
            on_disparity(0, _to_array(first[..., :height, :width]))
        before = current = evidence.disparity
        full: Tensor | None = None
        states = self.model.iterate(evidence, request.iterations, stop_below=request.stop_below)
        for t, state in enumerate(states, start=1):
            before, current = current, state.disparity
            if request.on_iteration is not None:
                request.on_iteration(t)
            if on_disparity is not None:
                full = self.model.upsample(state, evidence)
                on_disparity(t, _to_array(full))
        if request.memory is not None:
            request.memory.hidden = state.hidden
        if full is None:
            full = self.model.upsample(state, evidence)
        sure = self.model.confidence(state, evidence, before=before, full=full, tolerance=request.tolerance)
        return EngineResult(
            _to_array(full),
            prior=evidence.prior[0] if evidence.prior else None,
            confidence=None if sure is None else sure[0, 0].cpu().numpy(),
            iterations=t,
        )

    def _warm_start(self, start: KnownDisparity, memory: EngineMemory | None) -> WarmStart:
        disparity = torch.from_numpy(start.disparity).to(self.device)[None, None]
        known = torch.from_numpy(start.known).to(self.device)[None, None]
        if start.places is None or memory is None or memory.hidden is None:
            return WarmStart(disparity, known)
        places = torch.from_numpy(start.places).to(self.device).permute(2, 0, 1)[None]
        return WarmStart(disparity, known, places, memory.hidden)

    @torch.inference_mode()
    def run_large(
        self,
        left: Image,
        right: Image,
        strips: Strips,
        *,
        iterations: int,
        on_iteration: Callable[[int], None] | None = None,
    ) -> EngineResult:
        """As `run`, for images that do not fit into memory in one piece, see `linstereo.model.large_images`."""
        disparity, confidence = predict_in_strips(
            self.model,
            torch.from_numpy(left),
            torch.from_numpy(right),
            strips,
            iterations=iterations,
            on_iteration=on_iteration,
        )
        return EngineResult(
            np.ascontiguousarray(disparity.clamp(min=0).float().cpu().numpy()),
            prior=None,
            confidence=None if confidence is None else confidence.cpu().numpy(),
        )


def weights_digest(model: nn.Module) -> str:
    """SHA-256 of all weights by name: the same for the same network, wherever it was loaded from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def _to_tensor(image: Image, device: torch.device) -> Tensor:
    """uint8 [H, W, 3] -> float [1, 3, H, W] in [0, 1]."""
    return torch.from_numpy(image).to(device).permute(2, 0, 1).unsqueeze(0).float() / 255


def _to_array(disparity: Tensor) -> NDArray[np.float32]:
    """[1, 1, H, W] -> float32 [H, W], >= 0."""
    values: NDArray[np.float32] = disparity[0, 0].clamp(min=0).float().cpu().numpy()
    return values
