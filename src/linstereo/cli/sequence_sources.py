"""What the arguments of `linstereo track` stand for: the source of the frames, and the calibration of its cameras."""

import argparse
from pathlib import Path

from linstereo.cli.cameras import given_camera
from linstereo.cli.pairs import check_complete, find_images, pair_up
from linstereo.data.formats.calibration_fields import naming_calibration
from linstereo.data.formats.camera_files import fitted_cameras
from linstereo.data.sequences.bags import DEFAULT_TOLERANCE, Bag, is_bag
from linstereo.data.sequences.frames import DEFAULT_RATE, FrameSource, ImageFiles
from linstereo.data.sequences.videos import Videos, is_video
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.rectification import Rectification
from linstereo.geometry.stereo_rig import StereoRig


def sequence_source(options: argparse.Namespace) -> FrameSource:
    """The source that SOURCE and RIGHT stand for; options that belong to another kind of source are refused."""
    name, right = options.source, options.right
    rate = DEFAULT_RATE if options.fps is None else options.fps
    bag, video = is_bag(name), is_video(name)
    _check_options(options, bag=bag, one_video=video and right is None)
    if bag:
        if right is not None:
            raise InputError(f"{name} is a bag, which holds both images; leave out {right}")
        own = options.calib is not None or options.focal is not None
        tolerance = DEFAULT_TOLERANCE if options.sync_tolerance is None else options.sync_tolerance
        return Bag(
            name,
            left_topic=options.left_topic,
            right_topic=options.right_topic,
            tolerance=tolerance,
            camera_info=not own,
        )
    if video:
        if right is not None and not is_video(right):
            raise InputError(f"{name} is a video and {right} is none; give two videos, or one that shows both images")
        return Videos(name, right, layout=options.layout or "side-by-side", rate=rate)
    if right is None:
        raise InputError(
            f"{name} is neither a video nor a bag; give the right images too, or a file whose name ends like that of "
            "a video"
        )
    pairing = pair_up(find_images(name), find_images(right))
    check_complete(pairing)
    return ImageFiles(pairing.pairs, rate=rate)


def sequence_calibration(
    source: FrameSource, options: argparse.Namespace, size: tuple[int, int]
) -> tuple[StereoCalibration | None, Rectification | None, StereoCalibration | StereoRig | None]:
    """The calibration of the rectified frames of height x width px, how to rectify them, and what both come from.

    None for what is unknown, and for a rectification that is not needed.
    """
    rectified = options.rectified or source.rectified
    given = options.calib is not None or options.focal is not None or options.baseline is not None
    found: StereoCalibration | StereoRig | None
    name = options.calib
    if source.cameras is not None and not given:
        name = source.name
        found = fitted_cameras(
            source.cameras,
            name,
            width=size[1],
            height=size[0],
            image=f"an image of {name}",
            resize=options.scale_calib,
            rectified=rectified,
        )
    else:
        first = source.pairs[0][0] if isinstance(source, ImageFiles) else Path(options.source)
        found = given_camera(options, rectified=rectified)(first, size)
    if isinstance(found, StereoRig):
        with naming_calibration(name):
            rectification = Rectification(found)
        return rectification.calibration, rectification, found
    return found, None, found


def _check_options(options: argparse.Namespace, *, bag: bool, one_video: bool) -> None:
    for option, value in (
        ("--left-topic", options.left_topic),
        ("--right-topic", options.right_topic),
        ("--sync-tolerance", options.sync_tolerance),
    ):
        if value is not None and not bag:
            raise InputError(f"{option} is for bags, and {options.source} is none; leave it out")
    if options.layout is not None and not one_video:
        raise InputError("--layout is for one video that shows both images; leave it out")
    if options.fps is not None and bag:
        raise InputError("--fps is for sources without time stamps, and a bag has them; leave it out")
