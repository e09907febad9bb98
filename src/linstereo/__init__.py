"""LinStereo: stereo matching with global, linear-cost attention on a frozen Depth Anything 3 backbone.

    import linstereo
    predictor = linstereo.load()
    disparity = predictor.predict("left.png", "right.png").disparity  # float32 [H, W], pixels

The names below are imported on first use, so that the parts that need no network (file readers, metrics) start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linstereo.errors import InputError
    from linstereo.geometry.calibration import StereoCalibration
    from linstereo.loading import load
    from linstereo.model.linstereo import LinStereo
    from linstereo.prediction import Prediction
    from linstereo.predictor import StereoPredictor

__version__ = "0.1.0"
__all__ = ["InputError", "LinStereo", "Prediction", "StereoCalibration", "StereoPredictor", "load"]

_HOMES = {
    "InputError": "linstereo.errors",
    "LinStereo": "linstereo.model.linstereo",
    "Prediction": "linstereo.prediction",
    "StereoCalibration": "linstereo.geometry.calibration",
    "StereoPredictor": "linstereo.predictor",
    "load": "linstereo.loading",
}


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
