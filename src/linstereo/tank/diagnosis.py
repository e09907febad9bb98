"""Why the tags of a picture do not agree on a pose.

Each usual mistake is undone in turn; the first change after which the tags do agree is the explanation.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from linstereo.geometry.calibration import StereoCalibration
from linstereo.tank.detection import Detection, detect_tags
from linstereo.tank.layout import TagLayout
from linstereo.tank.pose import Pose, PoseFit, PoseProblem, Rejected, solve_pose

_GOOD = 1.0  # px, or
_GOOD_SHARE = 0.03  # of a side, whichever is larger: root mean square error with which an explanation is believed
_BETTER = 1.7  # times smaller than the error that is there, it must be
_ASKED = 8  # tags that must agree with it, the largest ones
_SHIFT = 0.6  # px of edge shift that blur does not cause, and
_SHIFT_SHARE = 0.04  # of half a side; more than both is a wrong size
_MORE = 3  # tags by which another layout must be better to be believed
_FOCALS = np.exp(np.arange(-25, 26) * 0.02)  # factors of the focal length that are tried
_FOCAL_SHARE = 0.05  # of the focal length, and
_FOCAL_GAIN = 60.0  # of chi square: a wrong focal length costs more than both
_SIZES = np.round(np.exp(np.linspace(np.log(0.5), np.log(2.0), 29)), 3)


def why_too_few(image: NDArray[np.uint8], detections: Sequence[Detection], layout: TagLayout) -> str:
    """One sentence about a picture uint8 [H, W, 3] with fewer than two tags of the layout."""
    known = sorted({found.tag for found in detections if found.tag in layout.ids})
    others = sorted({found.tag for found in detections} - set(known))
    mirrored = {found.tag for found in detect_tags(np.ascontiguousarray(image[:, ::-1])) if found.tag in layout.ids}
    if len(mirrored) >= 2 and len(mirrored) > len(known):
        return (
            f"{len(mirrored)} tags are found in the mirror image only; the image is mirrored, or the tags were printed "
            "mirrored: use the image as the camera took it, and print the tags again"
        )
    if len(known) == 1:
        return (
            f"only tag {known[0]} of the layout is seen, and one tag alone is too uncertain; have at least two in view"
        )
    if others:
        return (
            f"no tag of the layout is seen, but what looks like tag {', '.join(map(str, others[:6]))}; check that this "
            "is the layout of the target"
        )
    return "no tag is seen; at least two tags of the layout must be in view, sharp and lit"


def why_no_agreement(detections: Sequence[Detection], layout: TagLayout, calibration: StereoCalibration) -> str:
    """One sentence about a picture whose tags agree on no pose."""
    known = {found.tag for found in detections if found.tag in layout.ids}
    return _explanation(detections, layout, calibration, limit=np.inf) or (
        f"the {len(known)} tags that are seen agree on no pose; check the corners in the layout, the calibration, and "
        "that no tag has moved"
    )


def why_so_bad(
    detections: Sequence[Detection], fit: PoseFit, layout: TagLayout, calibration: StereoCalibration, *, limit: float
) -> str:
    """One sentence about a picture whose tags agree on a pose with an error of more than `limit` px, or few of them."""
    factor = size_error(fit)
    if factor is not None:
        return wrong_size(factor)
    known = {found.tag for found in detections if found.tag in layout.ids}
    most = 2 * len(fit.tags) >= len(known)
    explanation = _explanation(detections, layout, calibration, limit=fit.rms / _BETTER if most else np.inf)
    if explanation is not None:
        return explanation
    if fit.rms > limit:
        return (
            f"the corners of the {len(fit.tags)} tags that agree are off by {fit.rms:.2f} px, more than {limit:g} px; "
            "have them nearer or sharper, and check the calibration"
        )
    return (
        f"only {len(fit.tags)} of the {len(known)} tags that are seen agree on a pose; check the corners in the "
        "layout, and that no tag has moved"
    )


def _explanation(
    detections: Sequence[Detection], layout: TagLayout, calibration: StereoCalibration, *, limit: float
) -> str | None:
    """The change of the layout that makes its largest tags agree best, with an error below `limit` px."""
    known = [found for found in detections if found.tag in layout.ids]
    largest = sorted(known, key=lambda found: -found.side)[:_ASKED]
    asked = len({found.tag for found in largest})
    best: tuple[float, str] | None = None
    for changed, words in _changes(layout):
        fit = _fit(largest, changed, calibration)
        good = min(max(_GOOD, _GOOD_SHARE * largest[0].side), limit)
        if fit is not None and fit.rms < good and len(fit.tags) > asked / 2:
            score = fit.rms / len(fit.tags)
            if best is None or score < best[0]:
                best = score, words
    return None if best is None else best[1]


def size_error(fit: PoseFit) -> float | None:
    """How many times as large as in the layout the tags are; None if they are as they should be.

    Blur moves the edges by a few tenths of a pixel; more than that is a wrong size.
    """
    half = float(np.mean([found.side for found in fit.detections])) / 2
    share = fit.edge_shift / half
    if abs(fit.edge_shift) < _SHIFT or abs(share) < _SHIFT_SHARE or abs(fit.edge_shift) < 4 * fit.edge_deviation:
        return None
    return 1 / (1 - share) if share < 0.9 else 10.0


def better_explanation(
    detections: Sequence[Detection], fit: PoseFit, layout: TagLayout, calibration: StereoCalibration
) -> str | None:
    """A change of the layout with which clearly more of its tags agree on a pose, as one sentence; None without any.

    Tags in one plane fit a mirrored layout as well as the right one; it is the tags out of that plane that do not.
    """
    known = {found.tag for found in detections if found.tag in layout.ids}
    if len(known) - len(fit.tags) < _MORE:
        return None
    for changed, words in _rearrangements(layout):
        other = _fit(detections, changed, calibration)
        if other is not None and len(other.tags) >= len(fit.tags) + _MORE and other.rms < _GOOD:
            return words
    return None


def focal_error(fit: PoseFit, layout: TagLayout, calibration: StereoCalibration) -> float | None:
    """By what factor another focal length fits the perspective of the tags better; None if it fits as it is."""

    def cost(factor: float) -> tuple[float, float]:
        other = dataclasses.replace(calibration, focal=calibration.focal * factor)
        problem = PoseProblem(fit.detections, layout, other)
        moved = fit.pose.translation * (1, 1, factor)
        pose, shift = problem.minimise(Pose(fit.pose.rotation, moved))
        return problem.cost(pose, shift), problem.scale(pose, shift)

    own = cost(1.0)[0]
    if min(cost(1 - _FOCAL_SHARE)[0], cost(1 + _FOCAL_SHARE)[0]) > own - 1:
        return None
    best, (least, scale) = min(((float(factor), cost(float(factor))) for factor in _FOCALS), key=lambda item: item[1])
    return best if abs(best - 1) > _FOCAL_SHARE and (own - least) / scale > _FOCAL_GAIN else None


def wrong_focal(factor: float, calibration: StereoCalibration) -> str:
    """The sentence about a focal length that should be `factor` as large."""
    return (
        f"the perspective of the tags fits a focal length of {factor * calibration.focal:.0f} px rather than "
        f"{calibration.focal:.0f} px; check that the calibration was made under water and at this image size"
    )


def wrong_size(factor: float) -> str:
    """The sentence about tags of another size than the layout says, relative to which they are `factor` as large."""
    percent = abs(factor - 1) * 100
    return (
        f"the tags are about {percent:.0f} % {'larger' if factor > 1 else 'smaller'} than the layout says; measure the "
        "black squares (printers scale pages unless told to print at 100 %) and correct the layout"
    )


def _changes(layout: TagLayout) -> Iterator[tuple[TagLayout, str]]:
    yield from _rearrangements(layout)
    centres = layout.centres[:, None]
    for factor in _SIZES:
        if abs(factor - 1) > 0.03:
            yield TagLayout(layout.ids, centres + factor * (layout.corners - centres)), wrong_size(float(factor))


def _rearrangements(layout: TagLayout) -> Iterator[tuple[TagLayout, str]]:
    for turn in (1, 2, 3):
        yield (
            TagLayout(layout.ids, np.roll(layout.corners, turn, axis=1)),
            f"the tags are turned by {90 * turn} degrees against the layout; begin its corners with the upper left one "
            "of the upright tag",
        )
    for turn in range(4):
        yield (
            TagLayout(layout.ids, np.roll(layout.corners[:, ::-1], turn, axis=1)),
            "the corners of the layout run the wrong way round, so that its tags are mirrored; list them clockwise as "
            "seen from the front",
        )
    yield (
        TagLayout(layout.ids, layout.corners * (-1.0, 1.0, 1.0)),
        "the layout is the mirror image of the target; two of its axes are exchanged, or one points the wrong way",
    )


def _fit(detections: Sequence[Detection], layout: TagLayout, calibration: StereoCalibration) -> PoseFit | None:
    try:
        return solve_pose(detections, layout, calibration)
    except Rejected:
        return None
