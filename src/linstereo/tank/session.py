"""The ground truth of a whole session: a folder of pairs in, one in the layout of `linstereo.data.datasets.tank` out.

    <out>/left/0000.png, right/0000.png    the images, unchanged
    <out>/depth/0000.npy                   metres, 0 where the target is not seen
    <out>/disparity/0000.pfm               px, 0 where the target is not seen
    <out>/mask/0000.png                    255 valid, 128 valid but thinner than a pixel, 0 not valid
    <out>/parts/0000.png                   1 frame, 2 rope, 0 neither
    <out>/overlay/0000.jpg                 to check by eye
    <out>/quality/0000.json                figures about the pair, or why it was rejected
    <out>/calib.json                       (or calib/0000.json for each pair)
    <out>/report.md, report.json           all pairs, and those rejected with their reasons
    <out>/settings.json                    what the ground truth was made with

Without a single accepted pair a new folder is not left. Only accepted pairs have files besides that in `quality`. The
left image of a pair is written last but for its quality, so that whatever has a left image is complete. A pair whose
quality is there, and whose images have not changed since, is not worked on again.
"""

import dataclasses
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from linstereo import __version__
from linstereo.data.datasets.folder import list_folder
from linstereo.data.datasets.reading import read_views
from linstereo.data.formats.calibration_files import read_calibration, write_calibration
from linstereo.data.formats.disparity import write_disparity
from linstereo.data.formats.images import write_image
from linstereo.data.formats.npy import write_npy
from linstereo.data.formats.png import write_png_values
from linstereo.data.sample import PairFiles
from linstereo.errors import InputError
from linstereo.files import make_parent, read_file, read_json, write_file, write_json
from linstereo.runs import RunFolder
from linstereo.tank.ground_truth import GroundTruth, Thresholds, make_ground_truth, overlay
from linstereo.tank.layout import TagLayout, read_layout
from linstereo.tank.mesh import TargetMesh, read_target_mesh
from linstereo.tank.mesh_check import check_tags_on_mesh
from linstereo.tank.pose import Rejected

_REPORTS = ("report.md", "report.json")
VALID, THIN = 255, 128
"""Values in the mask."""
_FOLDERS = {"depth": ".npy", "disparity": ".pfm", "mask": ".png", "parts": ".png", "overlay": ".jpg"}


@dataclass(frozen=True)
class SessionSettings:
    """What the ground truth of a session is made with.

    Args:
        layout: the tag layout file.
        mesh: the CAD model, .stl, .obj, .ply or .glb.
        unit: of the mesh, "m" or "mm".
        ropes: a second mesh with the ropes, if they are not in the first one.
        calibration: of all pairs, instead of that in the folder of the session.
        thresholds: what a pair must reach.
    """

    layout: str
    mesh: str
    unit: str = "m"
    ropes: str | None = None
    calibration: str | None = None
    thresholds: Thresholds = dataclasses.field(default_factory=Thresholds)

    def to_json(self) -> dict[str, Any]:
        """What `settings.json` holds: digests in place of files."""
        files = {"layout": self.layout, "mesh": self.mesh, "ropes": self.ropes, "calibration": self.calibration}
        digests = {
            name: None if path is None else hashlib.sha256(read_file(path)).hexdigest() for name, path in files.items()
        }
        return {"linstereo": __version__, **digests, "unit": self.unit, **dataclasses.asdict(self.thresholds)}


@dataclass(frozen=True)
class PairReport:
    """What became of one pair: its name, and its quality as plain values or the reason why it was rejected."""

    name: str
    quality: dict[str, Any] | None
    reason: str | None


def write_session(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    settings: SessionSettings,
    *,
    on_pair: Callable[[int, int], None] = lambda done, total: None,
) -> list[PairReport]:
    """Make the ground truth of all pairs of the folder `source` and write it to `out`.

    `source` is laid out as in `linstereo.data.datasets.folder`.

    `on_pair` is told how many pairs are done, of how many. Returns what became of each pair, in order; if none of them
    gave ground truth, an `InputError` tells why, and a folder that is new is not left.
    """
    pairs = _pairs(Path(source), settings)
    if Path(out).resolve() == Path(source).resolve():
        raise InputError(f"{out} is the folder of the pictures themselves; give another one with --out")
    layout = read_layout(settings.layout)
    mesh = read_target_mesh(settings.mesh, unit=settings.unit, ropes=settings.ropes)
    check_tags_on_mesh(layout, mesh)
    reports = []
    with RunFolder.open(out, notes=["quality", *_REPORTS]) as run:
        run.settle(settings.to_json())
        on_pair(0, len(pairs))
        for done, pair in enumerate(pairs, start=1):
            reports.append(_known(run.path, pair) or _work(run.path, pair, layout, mesh, settings))
            on_pair(done, len(pairs))
        _write_report(run.path, reports)
        if all(report.reason is not None for report in reports):
            raise InputError(f"none of the {len(reports)} pairs gave ground truth: {'; '.join(_reasons(reports))}")
    return reports


def summary(reports: Sequence[PairReport]) -> str:
    """What became of a session, for the terminal: counts, median figures, the reasons of rejections."""
    accepted = [report.quality for report in reports if report.quality is not None]
    lines = [f"{len(accepted)} of {len(reports)} pairs have ground truth"]
    if accepted:
        depth = 1e3 * float(np.median([quality["depth_error"] for quality in accepted]))
        error = float(np.median([quality["reprojection"] for quality in accepted]))
        tags = float(np.median([len(quality["tags"]) for quality in accepted]))
        lines[0] += f" (median: {tags:g} tags, corner error {error:.2f} px, estimated depth error {depth:.2f} mm)"
    return "\n".join(lines + [f"rejected: {reason}" for reason in _reasons(reports)])


def _reasons(reports: Sequence[PairReport]) -> list[str]:
    """The most frequent reasons of rejections, each with the pairs it is about."""
    told = []
    reasons = Counter(report.reason for report in reports if report.reason is not None)
    for reason, count in reasons.most_common(5):
        name = next(report.name for report in reports if report.reason == reason)
        more = f" and {count - 1} more" if count > 1 else ""
        told.append(f"{name}{more}: {reason}")
    return told


def _pairs(source: Path, settings: SessionSettings) -> Sequence[PairFiles]:
    pairs = list_folder(source, dataset="tank")
    if settings.calibration is not None:
        return [dataclasses.replace(pair, calibration=Path(settings.calibration)) for pair in pairs]
    if pairs[0].calibration is None:
        raise InputError(f"{source} has no calibration; add calib.json or calib.txt, or name one with --calib")
    return pairs


def _work(folder: Path, pair: PairFiles, layout: TagLayout, mesh: TargetMesh, settings: SessionSettings) -> PairReport:
    left, right = read_views(pair)
    calibration = read_calibration(_calibration(pair))
    _remove(folder, pair.name)
    record: dict[str, Any] = {"stamp": _stamp(pair)}
    try:
        truth = make_ground_truth(left, right, calibration, layout, mesh, settings.thresholds)
    except Rejected as error:
        record |= {"accepted": False, "reason": str(error)}
    else:
        quality = truth.quality.to_json()
        record |= {"accepted": True, "quality": quality}
        record["pose"] = {"rotation": truth.pose.rotation.tolist(), "translation": truth.pose.translation.tolist()}
        _write_truth(folder, pair, truth, overlay(left, truth))
        single = settings.calibration is not None or _calibration(pair).parent.name != "calib"
        where = folder / ("calib.json" if single else f"calib/{pair.name}.json")
        write_calibration(make_parent(where), calibration)
        for side, path in (("right", pair.right), ("left", pair.left)):
            write_file(make_parent(folder / side / f"{pair.name}{path.suffix}"), read_file(path))
    write_json(make_parent(_record(folder, pair)), record)
    return _report(pair.name, record)


def _write_truth(folder: Path, pair: PairFiles, truth: GroundTruth, picture: Any) -> None:
    mask = np.where(truth.thin, THIN, np.where(truth.valid, VALID, 0)).astype(np.uint8)
    files = {kind: make_parent(folder / kind / f"{pair.name}{suffix}") for kind, suffix in _FOLDERS.items()}
    write_npy(files["depth"], truth.depth)
    write_disparity(files["disparity"], truth.disparity)
    write_png_values(files["mask"], mask)
    write_png_values(files["parts"], truth.part)
    write_image(files["overlay"], picture)


def _known(folder: Path, pair: PairFiles) -> PairReport | None:
    """The report of an earlier run about this pair; None if there is none, or its images have changed."""
    path = _record(folder, pair)
    if not path.is_file():
        return None
    try:
        record = read_json(path)
        return _report(pair.name, record) if record["stamp"] == _stamp(pair) else None
    except (ValueError, KeyError, TypeError):  # a damaged record, which is an InputError too, is made again
        return None


def _record(folder: Path, pair: PairFiles) -> Path:
    return folder / "quality" / f"{pair.name}.json"


def _report(name: str, record: dict[str, Any]) -> PairReport:
    if record["accepted"]:
        return PairReport(name, dict(record["quality"]), None)
    return PairReport(name, None, str(record["reason"]))


def _write_report(folder: Path, reports: Sequence[PairReport]) -> None:
    pairs = [dataclasses.asdict(report) for report in reports]
    write_json(folder / "report.json", {"accepted": sum(report.reason is None for report in reports), "pairs": pairs})
    lines = [
        "# Ground truth from tags and model",
        "",
        *summary(reports).split("\n")[:1],
        "",
        "| pair | tags | corner error (px) | depth error (mm) | 95 % (mm) | disparity seen - true | pixels | rope |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for report in reports:
        if report.quality is not None:
            q = report.quality
            seen = "" if q["disparity_difference"] is None else f"{q['disparity_difference']:+.2f}"
            lines.append(
                f"| {report.name} | {len(q['tags'])} | {q['reprojection']:.2f} | {1e3 * q['depth_error']:.2f} | "
                f"{1e3 * q['depth_error_95']:.2f} | {seen} | {q['pixels']} | {q['rope_pixels']} |"
            )
    rejected = [f"* {report.name}: {report.reason}" for report in reports if report.reason is not None]
    lines += ["", "## Rejected", "", *(rejected or ["none"])]
    write_file(folder / "report.md", "\n".join(lines) + "\n")


def _remove(folder: Path, name: str) -> None:
    """Remove what an earlier run wrote for a pair, the left image first."""
    for kind in ("left", "right", *_FOLDERS, "calib"):
        for path in (folder / kind).glob("*"):
            if path.stem == name:
                path.unlink()


def _calibration(pair: PairFiles) -> Path:
    if pair.calibration is None:
        raise InputError(f"{pair.name} has no calibration; add calib.json or calib.txt")
    return pair.calibration


def _stamp(pair: PairFiles) -> list[list[int]]:
    """Size in bytes and time of the last change of the files a pair is made from."""
    states = [path.stat() for path in (pair.left, pair.right, _calibration(pair))]
    return [[state.st_size, state.st_mtime_ns] for state in states]
