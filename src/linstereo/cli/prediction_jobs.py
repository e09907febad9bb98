"""What `linstereo predict` does: check all pairs, then predict one after the other and write its results."""

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from linstereo.cli.cameras import calibration_of, depth_doubt, doubts, may_be_raw
from linstereo.cli.options import load_model
from linstereo.cli.pairs import Pair, Pairing, check_complete, find_images, output_names, pair_up, read_list
from linstereo.cli.predict import FORMATS, OUTPUTS
from linstereo.cli.training_session import chosen_threads
from linstereo.data.formats.calibration_fields import naming_calibration
from linstereo.data.formats.calibration_files import write_calibration
from linstereo.data.formats.depth_maps import write_depth
from linstereo.data.formats.disparity import write_disparity
from linstereo.data.formats.images import write_image
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.pair_checks import doubts_about_pair
from linstereo.geometry.point_cloud import usable_depth, write_ply
from linstereo.geometry.rectification import Rectification
from linstereo.geometry.stereo_rig import StereoRig
from linstereo.memory_limits import memory_errors_told
from linstereo.predictor import Prediction, StereoPredictor, pair_size, read_pair
from linstereo.runs import output_folder
from linstereo.visualize import depth_picture, disparity_picture

MAX_NAME = 255 - len("_disparity_colour.png")  # bytes


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
    formats = [f for f in FORMATS if f in (options.format or ["pfm"])]
    # what is wrong with the input is told at once, not after the model has been loaded or half of the pairs are done
    jobs = list(check_pairs(pairing.pairs, options, outputs, bad))
    with chosen_threads(options.threads), output_folder(options.out) as out:
        predictor = load_model(options)
        predictor.memory = options.memory
        jobs = list(check_memory(jobs, predictor, options, bad))
        unknown = next((job.left for job in jobs if job.calibration is None), None)
        if unknown and outputs != {"disparity"}:
            _warn(f"NOTE: {_no_calibration(unknown)} to get depth and a point cloud")
        write = partial(write_results, outputs=outputs, formats=formats, max_depth=options.max_depth)
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
    camera = partial(
        calibration_of,
        file=options.calib,
        focal=options.focal,
        baseline=options.baseline,
        resize=options.scale_calib,
        unit=options.calib_unit,
        fisheye=options.fisheye,
        rectified=options.rectified,
    )
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
    iterations = predictor.iterations(options.iters)
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
                        iters=options.iters,
                        scale=options.scale,
                        volume=options.volume,
                        on_iteration=lambda _: bar.update(),
                    )
                    if job.calibration and (far := depth_doubt(prediction.disparity, job.calibration, job.left)):
                        tell_doubt(far, strict=options.strict)
                    writing = True
                    rectified = job.rectification is not None
                    facts, files = write(out / job.name, prediction, images[0], job.calibration, rectified=rectified)
            except InputError as error:
                if writing and isinstance(error.__cause__, OSError):  # a full disk is not the fault of this pair
                    raise
                bad.add(error)
                bar.n = number * iterations
                continue
            bar.write(f"{job.left}: {', '.join(facts)} -> {out}: {', '.join(file.name for file in files)}")
            sys.stdout.flush()


def write_results(
    stem: Path,
    prediction: Prediction,
    left: npt.NDArray[np.uint8],
    calibration: StereoCalibration | None,
    *,
    outputs: Collection[str],
    formats: Sequence[str],
    max_depth: float | None = None,
    rectified: bool = False,
) -> tuple[list[str], list[Path]]:
    """Write what is asked for, of `OUTPUTS`, and known.

    Args:
        stem: how the paths of all files begin.
        prediction: for the pair.
        left: the left image, uint8 [H, W, 3] RGB.
        calibration: of the pair; without it there is neither depth nor cloud.
        outputs: some of `OUTPUTS`.
        formats: of disparity and depth, some of `FORMATS`.
        max_depth: farther points are left out of the cloud, metres; None stands for `usable_depth`.
        rectified: `left` is not the given image but the one that the results belong to; both are written.

    Returns:
        What to tell about the results, and the files.
    """
    disparity = prediction.disparity
    facts, files = [f"disparity {disparity.min():.2f} to {disparity.max():.2f} px"], []

    def file(ending: str) -> Path:
        files.append(stem.with_name(f"{stem.name}_{ending}"))
        return files[-1]

    if "disparity" in outputs:
        for suffix in formats:
            write_disparity(file(f"disparity.{suffix}"), disparity)
    if "pictures" in outputs:
        write_image(file("disparity_colour.png"), disparity_picture(disparity))
    if calibration is None:
        return facts, files
    if rectified:
        write_image(file("rectified.png"), left)
        write_calibration(file("rectified.json"), calibration, size=(left.shape[1], left.shape[0]))
    depth = prediction.depth(calibration)
    known = depth[np.isfinite(depth)]
    facts.append(f"depth {known.min():,.2f} to {known.max():,.2f} m" if known.size else "no depth")
    if "depth" in outputs:
        for suffix in formats:
            write_depth(file(f"depth.{suffix}"), depth)
    limit = usable_depth(calibration) if max_depth is None else max_depth
    if "pictures" in outputs:
        write_image(file("depth_colour.png"), depth_picture(depth, max_depth=limit))
    if "cloud" in outputs:
        cloud = prediction.point_cloud(left, calibration, max_depth=limit)
        write_ply(file("cloud.ply"), cloud)
        facts.append(f"{len(cloud):,} points up to {limit:.3g} m")
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
