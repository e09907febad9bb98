"""What `linstereo predict` does: check all pairs, then predict one after the other and write its results."""

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from tqdm import tqdm

from linstereo.cli.cameras import depth_doubt, doubts, given_camera, may_be_raw
from linstereo.cli.options import load_model
from linstereo.cli.pairs import Pair, Pairing, check_complete, find_images, output_names, pair_up, read_list
from linstereo.cli.training_session import chosen_threads
from linstereo.data.formats.calibration_fields import naming_calibration
from linstereo.data.formats.calibration_files import write_calibration
from linstereo.data.formats.images import write_image
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.pair_checks import doubts_about_pair
from linstereo.geometry.point_cloud import usable_depth
from linstereo.geometry.rectification import Rectification
from linstereo.geometry.stereo_rig import StereoRig
from linstereo.image_pairs import pair_size, read_pair
from linstereo.memory_limits import memory_errors_told
from linstereo.prediction import Prediction
from linstereo.prediction_files import OUTPUTS, write_prediction
from linstereo.predictor import StereoPredictor
from linstereo.runs import output_folder

MAX_NAME = 255 - len("_confidence_colour.png")  # bytes


@dataclasses.dataclass(frozen=True)
class Job:
    """A pair that was checked.

    Attributes:
        left: the left image.
        right: the right image.
        name: how the names of its results begin.
        size: height and width, px.
        calibration: None if it is unknown or not needed; that of the rectified images if they are raw.
        rectification: for raw images, else None.
    """

    left: Path
    right: Path
    name: str
    size: tuple[int, int]
    calibration: StereoCalibration | None
    rectification: Rectification | None = None


class BadPairs:
    """Counts pairs that cannot be predicted; the first one ends everything unless they may be skipped."""

    def __init__(self, *, skip: bool) -> None:
        self.skip = skip
        self.count = 0

    def add(self, error: InputError) -> None:
        """Name the pair on stderr, or raise the error."""
        if not self.skip:
            raise error
        self.count += 1
        _warn(f"SKIPPED: {error}")


def predict_given_pairs(options: argparse.Namespace) -> int:
    """Check all pairs, then predict them and write their results as they come; returns the exit code."""
    if options.max_depth is not None and not options.max_depth > 0:
        raise InputError(f"the largest depth is {options.max_depth}; it must be greater than 0 metres")
    pairing = given_pairs(options)
    if not options.skip_bad:
        check_complete(pairing)
    inputs = len(pairing.pairs) + len(pairing.lone())
    bad = BadPairs(skip=options.skip_bad)
    for phrase in pairing.lone():
        bad.add(InputError(phrase))
    if pairing.note:
        _warn(f"NOTE: {pairing.note}")
    outputs = options.outputs or set(OUTPUTS)
    # what is wrong with the input is told at once, not after the model has been loaded or half of the pairs are done
    jobs = list(check_pairs(pairing.pairs, options, outputs, bad))
    with chosen_threads(options.threads), output_folder(options.out) as out:
        predictor = load_model(options)
        predictor.memory = options.memory
        predictor.checked_stop(options.stop_below)
        jobs = list(check_memory(jobs, predictor, options, bad))
        unknown = next((job.left for job in jobs if job.calibration is None), None)
        if unknown and outputs != {"disparity"}:
            _warn(f"NOTE: {_no_calibration(unknown)} to get depth and a point cloud")
        if options.min_confidence is not None and not (options.keep_all or predictor.gives_confidence):
            raise InputError(
                f"--min-confidence is {options.min_confidence:g}, but the model {predictor.name!r} gives no "
                "confidence; leave it out, or train its confidence first"
            )
        write = partial(
            write_results,
            outputs=outputs,
            formats=options.format or ["pfm"],
            min_confidence=None if options.keep_all else options.min_confidence,
            keep_all=options.keep_all,
            normals=options.normals,
            max_depth=options.max_depth,
        )
        predict_jobs(jobs, predictor, options, out, write, bad)
        if bad.count == inputs:
            raise InputError(f"none of {inputs} inputs could be predicted; see above why")
    if bad.count:
        _warn(f"{bad.count} of {inputs} inputs were skipped, see above why")
    return 1 if bad.count else 0


def given_pairs(options: argparse.Namespace) -> Pairing:
    """The pairs that LEFT and RIGHT, or the list, stand for."""
    if options.list is not None:
        if options.left is not None:
            raise InputError("give LEFT and RIGHT or --list, not both")
        return Pairing(read_list(options.list))
    if options.left is None or options.right is None:
        raise InputError("give LEFT and RIGHT, or the pairs in a text file with --list")
    return pair_up(find_images(options.left), find_images(options.right))


def check_pairs(pairs: Sequence[Pair], options: argparse.Namespace, outputs: set[str], bad: BadPairs) -> Iterator[Job]:
    """Check files, sizes and calibrations of all pairs, without decoding an image; bad ones are left out."""
    camera = given_camera(options, rectified=options.rectified)
    told: set[str] = set()  # once for all images of a camera
    known: dict[tuple[int, int], Rectification] = {}  # all raw pairs share one file
    names = output_names([left for left, _ in pairs]) if pairs else []
    bar = tqdm(zip(pairs, names, strict=True), total=len(pairs), desc="check", unit="pair", disable=None, leave=False)
    for (left, right), name in bar:
        try:
            if len(os.fsencode(name)) > MAX_NAME:
                raise InputError(f"the name of {left} is too long to be that of results as well; rename the image")
            size = pair_size(left, right)
            if left.samefile(right):
                raise InputError(f"{left} is both the left and the right image of a pair; give two images")
            needless = outputs == {"disparity"} and not may_be_raw(options.calib)
            found = None if needless else camera(left, size)
            if found is None and options.outputs and outputs & {"depth", "cloud"}:
                raise InputError(_no_calibration(left))
            if isinstance(found, StereoRig) and size not in known:
                with naming_calibration(options.calib):
                    known[size] = Rectification(found)
                _warn(
                    f"NOTE: {options.calib} is for raw images, so pairs of {size[1]} x {size[0]} px are rectified "
                    "first; the results belong to the rectified left images, *_rectified.png"
                )
            for doubt in doubts(found, left, size, water=options.water) if found else ():
                if options.strict or (kind := doubt.replace(str(left), "")) not in told:
                    tell_doubt(doubt, strict=options.strict)
                    told.add(kind)
        except InputError as error:
            bad.add(error)
            continue
        if isinstance(found, StereoRig):
            yield Job(left, right, name, size, known[size].calibration, known[size])
        else:
            yield Job(left, right, name, size, found)


def check_memory(
    jobs: Sequence[Job], predictor: StereoPredictor, options: argparse.Namespace, bad: BadPairs
) -> Iterator[Job]:
    """Leave out the pairs that will not fit into memory, or are too small at the chosen scale."""
    for job in jobs:
        try:
            predictor.plan(*job.size, scale=options.scale, volume=options.volume)
        except InputError as error:
            bad.add(InputError(f"{job.left}: {error}"))
            continue
        yield job


def predict_jobs(
    jobs: Sequence[Job],
    predictor: StereoPredictor,
    options: argparse.Namespace,
    out: Path,
    write: Callable[..., tuple[list[str], list[Path]]],
    bad: BadPairs,
) -> None:
    """Predict all pairs, write their results into `out`, and a line about each to stdout."""
    iterations = predictor.iterations(options.iters) * (2 if options.occlusion else 1)
    with tqdm(total=len(jobs) * iterations, unit="it", desc="predict", disable=None) as bar:
        for number, job in enumerate(jobs, start=1):
            bar.set_postfix_str(job.name)
            writing = False
            try:
                with memory_errors_told(str(job.left), "use a smaller --scale, fewer --outputs, or smaller images"):
                    images = read_pair(job.left, job.right, on_note=lambda note: _warn(f"NOTE: {note}"))
                    if job.rectification:
                        images = job.rectification.left(images[0]), job.rectification.right(images[1])
                    for doubt in doubts_about_pair(*images, names=[str(job.left), str(job.right)]):
                        tell_doubt(doubt, strict=options.strict)
                    prediction = predictor.predict(
                        *images,
                        calibration=job.calibration,
                        occlusion=options.occlusion,
                        iters=options.iters,
                        scale=options.scale,
                        volume=options.volume,
                        on_iteration=lambda _: bar.update(),
                        stop_below=options.stop_below,
                    )
                    if job.calibration and (far := depth_doubt(prediction.disparity, job.calibration, job.left)):
                        tell_doubt(far, strict=options.strict)
                    writing = True
                    rectified = job.rectification is not None
                    facts, files = write(out / job.name, prediction, rectified=rectified)
            except InputError as error:
                if writing and isinstance(error.__cause__, OSError):  # a full disk is not the fault of this pair
                    raise
                bad.add(error)
                bar.n = number * iterations
                continue
            bar.n = number * iterations  # fewer were run if they stopped early
            bar.write(f"{job.left}: {', '.join(facts)} -> {out}: {', '.join(file.name for file in files)}")
            sys.stdout.flush()


def write_results(
    stem: Path,
    prediction: Prediction,
    *,
    outputs: Collection[str],
    formats: Sequence[str],
    min_confidence: float | None = None,
    keep_all: bool = False,
    normals: bool = False,
    max_depth: float | None = None,
    rectified: bool = False,
) -> tuple[list[str], list[Path]]:
    """Write what is asked for and known.

    Args:
        stem: how the paths of all files begin.
        prediction: for the pair.
        outputs: some of `OUTPUTS`.
        formats: of maps, some of `FORMATS`.
        min_confidence: of the points in the cloud, see `Prediction.points`, like the next three.
        keep_all: keep all points.
        normals: give the points their normals.
        max_depth: farther points are left out, metres; None stands for `usable_depth`.
        rectified: the results belong to the rectified left image, which is written too, with its calibration.

    Returns:
        What to tell about the results, and the files.
    """
    disparity, calibration = prediction.disparity, prediction.calibration
    facts, files = [f"disparity {disparity.min():.2f} to {disparity.max():.2f} px"], []
    cloud = None
    if calibration is not None:
        depth = prediction.depth
        known = depth[np.isfinite(depth)]
        facts.append(f"depth {known.min():,.2f} to {known.max():,.2f} m" if known.size else "no depth")
    if prediction.confidence is not None:
        facts.append(f"mean confidence {prediction.confidence.mean():.2f}")
    if prediction.occluded is not None:
        facts.append(f"{100 * prediction.occluded.mean():.1f} % occluded")
    if calibration is not None and "cloud" in outputs:
        limit = usable_depth(calibration) if max_depth is None else max_depth
        cloud = prediction.points(
            min_confidence=min_confidence, keep_all=keep_all, normals=normals, max_depth=max_depth
        )
        facts.append(f"{len(cloud):,} points up to {limit:.3g} m")
    files = write_prediction(stem, prediction, outputs=outputs, formats=formats, cloud=cloud, max_depth=max_depth)
    if rectified and calibration is not None:
        image, camera = (stem.with_name(f"{stem.name}_rectified{suffix}") for suffix in (".png", ".json"))
        write_image(image, prediction.left)
        write_calibration(camera, calibration, size=(disparity.shape[1], disparity.shape[0]))
        files += [image, camera]
    return facts, files


def _no_calibration(left: Path) -> str:
    return f"no calibration is known for {left}; give --calib, or --focal and --baseline"


def tell_doubt(doubt: str, *, strict: bool) -> None:
    """Warn of what looks wrong on stderr, or refuse it with an `InputError`."""
    if strict:
        raise InputError(doubt)
    _warn(f"WARNING: {doubt}")


def _warn(text: str) -> None:
    tqdm.write(text, file=sys.stderr)
