"""What `linstereo track` does: open the source, check its first frame, follow the sequence, and write as it goes."""

import argparse
import contextlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from linstereo.cli.cameras import depth_doubt, doubts
from linstereo.cli.options import check_count, load_model
from linstereo.cli.prediction_jobs import tell_doubt
from linstereo.cli.process import SignalledError
from linstereo.cli.rerun_stream import RerunStream, check_target
from linstereo.cli.sequence_files import INDEX, SequenceFiles
from linstereo.cli.sequence_sources import sequence_calibration, sequence_source
from linstereo.cli.training_session import chosen_threads
from linstereo.data.formats.calibration_files import write_calibration
from linstereo.data.sequences.frames import FrameSource, StereoFrame
from linstereo.errors import InputError
from linstereo.files import filling
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.pair_checks import doubts_about_pair
from linstereo.geometry.rectification import Rectification
from linstereo.geometry.stereo_rig import StereoRig
from linstereo.image_pairs import pair_size, read_pair
from linstereo.memory_limits import memory_errors_told
from linstereo.predictor import StereoPredictor
from linstereo.runs import RunFolder

MOST_FRAMES = 10**9


def follow_sequence(options: argparse.Namespace) -> None:
    """Predict every frame of the sequence and write its results."""
    _check(options)
    source = sequence_source(options)
    frames = iter(source)
    first = next(frames, None)
    if first is None:
        raise InputError(f"{source.name} has no frame; give another source")
    size = pair_size(first.left, first.right)
    calibration, rectification, origin = sequence_calibration(source, options, size)
    outputs = options.outputs or {"disparity", "video"} | ({"depth"} if calibration else set())
    if calibration is None and outputs & {"depth", "cloud"}:
        raise InputError(
            f"no calibration is known for {source.name}; give --calib, or --focal and --baseline, to get depth"
        )
    with contextlib.ExitStack() as stack:
        stack.enter_context(chosen_threads(options.threads))
        notes = ["calib.json", INDEX]
        folder = stack.enter_context(RunFolder.open(options.out, notes=notes))
        predictor = load_model(options)
        predictor.check_tracks()
        predictor.iterations(options.warm_iters)
        predictor.plan(*size, scale=options.scale)
        folder.settle(_settings(options, predictor, outputs, calibration))
        _check_first(first, source, options, size, rectification, origin)
        stack.enter_context(filling(folder.path))
        if calibration is not None:
            write_calibration(folder.path / "calib.json", calibration, size=(size[1], size[0]))
        files = SequenceFiles(
            folder.path,
            outputs=outputs,
            suffix=options.format,
            keep_all=options.keep_all,
            max_depth=options.max_depth,
        )
        stream = None
        if options.rerun is not None:
            stream = stack.enter_context(RerunStream.opened(options.rerun, calibration))
        left = _frames(itertools.chain([first], frames), source, rectification, size, options.limit)
        done = len(files.rows)
        if done and source.live:
            raise InputError(f"{folder.path} holds frames of an earlier recording; choose a new folder for a camera")
        if done:
            _note(f"{folder.path} holds {done} frames; going on after them")
        _follow(itertools.islice(left, done, None), predictor, options, files, stream, source, calibration)
        told = f"{len(files.rows)} frames, {sum(row.cold for row in files.rows[1:])} cuts"
        if "video" in outputs:
            told += f", {files.write_video().name}"
        print(f"{source.name}: {told} -> {folder.path}")
    for remark in source.remarks():
        _note(remark)


def _check_first(
    first: StereoFrame,
    source: FrameSource,
    options: argparse.Namespace,
    size: tuple[int, int],
    rectification: Rectification | None,
    origin: StereoCalibration | StereoRig | None,
) -> None:
    """Tell what looks wrong about the first frame, and about the calibration it came with."""
    images = read_pair(first.left, first.right, on_note=_note)
    if rectification is not None:
        images = rectification.left(images[0]), rectification.right(images[1])
        _note(f"the calibration is for raw images, so frames of {size[1]} x {size[0]} px are rectified first")
    found = doubts(origin, Path(source.name), size, water=options.water) if origin is not None else []
    for doubt in [*found, *doubts_about_pair(*images, names=_names(source))]:
        tell_doubt(doubt, strict=options.strict)


def _follow(
    frames: Iterator[StereoFrame],
    predictor: StereoPredictor,
    options: argparse.Namespace,
    files: SequenceFiles,
    stream: RerunStream | None,
    source: FrameSource,
    calibration: StereoCalibration | None,
) -> None:
    """Track the frames that are left; a live source ends when the user interrupts it, or asks it to end."""
    total = source.count if options.limit is None else min(options.limit, source.count or options.limit)
    tracked = predictor.track(
        frames,
        calibration=calibration,
        iters=options.warm_iters,
        cold_iters=options.iters,
        scale=options.scale,
        steady=not options.no_steady,
    )
    ended: tuple[type[BaseException], ...] = (KeyboardInterrupt, SignalledError) if source.live else ()
    with (
        contextlib.suppress(*ended),
        memory_errors_told(source.name, "use a smaller --scale, or smaller images"),
        tqdm(total=total, initial=len(files.rows), desc="track", unit="frame", disable=None) as bar,
    ):
        for frame in tracked:
            number = len(files.rows)
            if number == 0 and calibration is not None:
                far = depth_doubt(frame.prediction.disparity, calibration, Path(source.name))
                if far is not None:
                    tell_doubt(far, strict=options.strict)
            if frame.cold and number and frame.followed:
                bar.write(
                    f"frame {number}: a cut, or a motion too large to follow ({frame.followed:.0%} of the pixels were "
                    "in the frame before); it starts anew"
                )
            files.add(frame)
            if stream is not None:
                stream.log(number, frame)
            bar.update()


def _frames(
    frames: Iterator[StereoFrame],
    source: FrameSource,
    rectification: Rectification | None,
    size: tuple[int, int],
    limit: int | None,
) -> Iterator[StereoFrame]:
    """The frames, rectified if need be, all of one size, at most `limit`."""
    for number, frame in enumerate(itertools.islice(frames, limit)):
        height, width = pair_size(frame.left, frame.right)
        if (height, width) != size:
            raise InputError(
                f"frame {number} of {source.name} is {width} x {height} px, but the first one {size[1]} x {size[0]}; "
                "give a sequence of one size"
            )
        if rectification is None:
            yield frame
        else:
            left, right = read_pair(frame.left, frame.right)
            yield StereoFrame(frame.stamp, rectification.left(left), rectification.right(right))


def _settings(
    options: argparse.Namespace,
    predictor: StereoPredictor,
    outputs: set[str],
    calibration: StereoCalibration | None,
) -> dict[str, Any]:
    """What decides the results, for resuming; --limit does not, so that a longer run can follow a shorter one."""
    names = ("source", "right", "layout", "fps", "left_topic", "right_topic", "sync_tolerance", "format", "scale")
    return {name: getattr(options, name) for name in (*names, "iters", "warm_iters", "no_steady")} | {
        "keep_all": options.keep_all,
        "max_depth": None if options.max_depth is None else str(options.max_depth),  # JSON has no infinity
        "model": predictor.name,
        "precision": predictor.precision,
        "outputs": sorted(outputs),
        "calibration": None if calibration is None else [float(value) for value in vars(calibration).values()],
    }


def _check(options: argparse.Namespace) -> None:
    if options.max_depth is not None and not options.max_depth > 0:
        raise InputError(f"the largest depth is {options.max_depth}; it must be greater than 0 metres")
    check_count("--limit", options.limit, least=1, most=MOST_FRAMES)
    if options.rerun is not None:
        check_target(options.rerun)


def _names(source: FrameSource) -> list[str]:
    return [f"the {side} image of the first frame of {source.name}" for side in ("left", "right")]


def _note(text: str) -> None:
    tqdm.write(f"NOTE: {text}", file=sys.stderr)
