"""What a request asks for, checked before an image is decoded or a place in the queue is taken."""

import dataclasses
import json
import math
from pathlib import Path

from linstereo.app.failures import Names, RefusedError
from linstereo.app.settings import MAX_ITERATIONS, MAX_SCALE, MIN_SCALE, ServerSettings
from linstereo.app.uploads import Upload, UploadedFile
from linstereo.data.formats.camera_files import CAMERA_SUFFIXES, UNITS, cameras_for_size
from linstereo.data.formats.images import image_size
from linstereo.errors import InputError
from linstereo.files import write_file
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.stereo_rig import StereoRig

FILE_PARTS = {"left": 1, "right": 1, "pair": 1, "calibration": 2}
"""How many files each part may stand for."""
FIELDS = frozenset(
    {"calibration", "focal", "baseline", "unit", "fisheye", "rectified", "scale_calibration", "iterations", "scale"}
    | {"output", "confidence", "occlusion", "sgbm", "min_confidence", "max_depth"}
)
OUTPUTS = ("disparity", "depth", "confidence", "occlusion", "cloud")
_SUFFIXES = (".json", ".txt", *CAMERA_SUFFIXES)
_YES, _NO = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


@dataclasses.dataclass(frozen=True)
class JobRequest:
    """One pair and what to do with it.

    Attributes:
        left: file of the left image, or of both if `right` is None: side by side, left first.
        right: file of the right image.
        size: height and width of one image, px.
        cameras: None if nothing is known; a rig if the images are raw.
        iterations: None for the model's own number.
        scale: at which the network runs; None for the model's own choice.
        output: which map is asked for, of `OUTPUTS`; None if the request does not say.
        confidence: whether to tell how sure the network is.
        occlusion: whether to find what the right camera cannot see, which takes a second pass.
        sgbm: whether to compute OpenCV's SGBM as well.
        min_confidence: below which points are left out of the cloud, in [0, 1]; None leaves out none for that.
        max_depth: beyond which points are left out of the cloud, metres; None for where the disparity is 1 px.
        names: how its files are called in sentences.
    """

    left: Path
    right: Path | None
    size: tuple[int, int]
    cameras: StereoCalibration | StereoRig | None
    iterations: int | None
    scale: float | None
    output: str | None
    confidence: bool
    occlusion: bool
    sgbm: bool
    min_confidence: float | None
    max_depth: float | None
    names: Names

    def needing(self, file: str) -> "JobRequest":
        """The same request with only what one file of the result needs."""
        confident = file.startswith("confidence") or (file == "cloud.ply" and self.min_confidence is not None)
        return dataclasses.replace(self, confidence=confident, occlusion=file.startswith("occlusion"), sgbm=False)


def read_request(upload: Upload, folder: Path, settings: ServerSettings) -> JobRequest:
    """Check all that can be checked without decoding an image; a `RefusedError` says what is wrong.

    Args:
        upload: the parts.
        folder: the private folder of the request.
        settings: for the limits.
    """
    unknown = sorted(set(upload.fields) - FIELDS)
    if unknown:
        raise RefusedError(422, f"The field {unknown[0]} is not known; use some of {', '.join(sorted(FIELDS))}")
    left, right = _images(upload)
    names = Names(
        (
            (str(left), "the left image" if right else "the side-by-side image"),
            (str(right or left), "the right image"),
            (str(folder / "right.yaml"), "the calibration of the right camera"),
            *((str(folder / f"left{suffix}"), "the calibration") for suffix in _SUFFIXES),
            (str(folder), "the request"),
        )
    )
    try:
        size = _pair_size(left, right, settings)
        cameras = _cameras(upload, folder, size)
    except InputError as error:
        raise names.refusal(error) from error
    fields = upload.fields
    iterations = _number(fields, "iterations", least=1, most=MAX_ITERATIONS)
    if iterations is not None and not iterations.is_integer():
        raise RefusedError(422, f"The field iterations is {iterations:g}; give a whole number")
    output = fields.get("output", "").strip().lower() or None
    if output not in (None, *OUTPUTS):
        raise RefusedError(422, f"The field output is {output[:40]!r}; use {', '.join(OUTPUTS)}")
    return JobRequest(
        left=left,
        right=right,
        size=size,
        cameras=cameras,
        iterations=settings.iterations if iterations is None else int(iterations),
        scale=_number(fields, "scale", least=MIN_SCALE, most=MAX_SCALE) or settings.scale,
        output=output,
        confidence=_flag(fields, "confidence"),
        occlusion=_flag(fields, "occlusion"),
        sgbm=_flag(fields, "sgbm"),
        min_confidence=_number(fields, "min_confidence", least=0, most=1),
        max_depth=_number(fields, "max_depth", least=1e-3, most=1e9),
        names=names,
    )


def _images(upload: Upload) -> tuple[Path, Path | None]:
    given = {name: files[0].path for name, files in upload.files.items()}
    if "pair" in given and "left" not in given and "right" not in given:
        return given["pair"], None
    if "left" in given and "right" in given and "pair" not in given:
        return given["left"], given["right"]
    raise RefusedError(422, "Send the files left and right, or one file pair with both images side by side")


def _pair_size(left: Path, right: Path | None, settings: ServerSettings) -> tuple[int, int]:
    """Height and width of one image, from the headers."""
    sizes = []
    for path, name in ((left, "left" if right else "side-by-side"), (right, "right")):
        if path is None:
            continue
        if path.stat().st_size == 0:
            raise RefusedError(422, f"The {name} image is empty; choose it again")
        width, height = image_size(path)
        one = width if right else width // 2
        if one * height > settings.max_pixels * 1e6 or max(one, height) > settings.max_side:
            raise RefusedError(
                413,
                f"The {name} image is {width} x {height} px, which is {width * height / 1e6:.1f} megapixels; this "
                f"server takes {settings.max_pixels:g} megapixels and {settings.max_side} px a side, so scale it down",
            )
        sizes.append((height, width))
    if right is None:
        height, width = sizes[0]
        if width % 2:
            raise RefusedError(422, f"The side-by-side image is {width} px wide; both halves must be equally wide")
        return height, width // 2
    if sizes[0] != sizes[1]:
        (h0, w0), (h1, w1) = sizes
        raise RefusedError(
            422,
            f"The left image is {w0} x {h0} px but the right image is {w1} x {h1} px; both must have one size",
        )
    return sizes[0]


def _cameras(upload: Upload, folder: Path, size: tuple[int, int]) -> StereoCalibration | StereoRig | None:
    fields = upload.fields
    focal = _number(fields, "focal", least=1e-6, most=1e9)
    baseline = _number(fields, "baseline", least=1e-9, most=1e9)
    text = fields.get("calibration", "").strip()
    files = upload.files.get("calibration", [])
    ways = [focal is not None or baseline is not None, bool(text), bool(files)]
    if sum(ways) > 1:
        raise RefusedError(422, "The calibration is given twice; give a file, JSON, or focal and baseline")
    if not any(ways):
        return None
    height, width = size
    if ways[0]:
        if focal is None or baseline is None:
            raise RefusedError(422, "Focal length (px) and baseline (m) belong together; give both or neither")
        return StereoCalibration(focal=focal, baseline=baseline, cx=(width - 1) / 2, cy=(height - 1) / 2)
    unit = fields.get("unit", "").strip() or None
    if unit is not None and unit not in UNITS:
        raise RefusedError(422, f"The field unit is {unit[:40]!r}; use {', '.join(UNITS)}")
    path = _text_file(text, folder, size) if text else _place_files(files, folder)
    return cameras_for_size(
        path,
        width=width,
        height=height,
        image="the left image",
        resize=_flag(fields, "scale_calibration"),
        unit=unit,
        fisheye=_flag(fields, "fisheye"),
        rectified=_flag(fields, "rectified"),
    )


def _text_file(text: str, folder: Path, size: tuple[int, int]) -> Path:
    """JSON as calib.json, with the centre of the image where it names no principal point."""
    path = folder / "left.json"
    try:
        content = json.loads(text)
        if isinstance(content, dict):
            content = {"cx": (size[1] - 1) / 2, "cy": (size[0] - 1) / 2, **content}
        write_file(path, json.dumps(content))
    except (ValueError, RecursionError) as error:
        raise RefusedError(422, "The field calibration is no valid JSON; give numbers by name") from error
    return path


def _place_files(files: list[UploadedFile], folder: Path) -> Path:
    """Calibration files under names of our own, with the suffix that tells their kind."""
    first = min(files, key=lambda file: file.right)  # ROS's left.yaml before its right.yaml
    suffix = ".yaml" if len(files) > 1 else first.suffix
    if suffix not in _SUFFIXES:
        raise RefusedError(422, f"The calibration is a file {suffix or 'without a suffix'}; use {', '.join(_SUFFIXES)}")
    for file in files:
        file.path.rename(folder / (f"left{suffix}" if file is first else f"right{suffix}"))
    return folder / f"left{suffix}"


def _number(fields: dict[str, str], name: str, *, least: float, most: float) -> float | None:
    text = fields.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise RefusedError(422, f"The field {name} is {text[:40]!r}; give a number from {least:g} to {most:g}")
    return value


def _flag(fields: dict[str, str], name: str) -> bool:
    text = fields.get(name, "").strip().lower()
    if text not in (*_YES, *_NO):
        raise RefusedError(422, f"The field {name} is {text[:40]!r}; use true or false")
    return text in _YES
