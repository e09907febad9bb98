"""The usual mistakes, each made on purpose, are found and explained."""

import dataclasses

import numpy as np
import pytest
from tests.tank.pictures import CALIBRATION, TARGET, straight_view

from linstereo.errors import InputError
from linstereo.tank.detection import detect_tags
from linstereo.tank.ground_truth import make_ground_truth
from linstereo.tank.layout import TagLayout
from linstereo.tank.mesh_check import check_tags_on_mesh
from linstereo.tank.pose import Rejected

LAYOUT, MESH = TARGET.layout, TARGET.mesh


def why(left=None, right=None, *, layout=LAYOUT, calibration=CALIBRATION) -> str:
    image = straight_view().left if left is None else left
    with pytest.raises(Rejected) as told:
        make_ground_truth(image, right, calibration, layout, MESH)
    assert str(told.value).count("\n") == 0
    return str(told.value)


def hidden(*kept: int) -> np.ndarray:
    """The view with all tags but some painted over."""
    image = straight_view().left.copy()
    for found in detect_tags(image):
        if found.tag not in kept:
            low, high = found.corners.min(axis=0).astype(int) - 4, found.corners.max(axis=0).astype(int) + 5
            image[low[1] : high[1], low[0] : high[0]] = 150
    return image


def sized(factor: float) -> TagLayout:
    centres = LAYOUT.centres[:, None]
    return TagLayout(LAYOUT.ids, centres + factor * (LAYOUT.corners - centres))


def test_no_tag():
    assert "no tag is seen" in why(hidden())


def test_one_tag():
    assert "only tag 7 of the layout is seen" in why(hidden(7))


def test_other_tags():
    layout = TagLayout(tuple(range(15, 30)), LAYOUT.corners)
    assert "no tag of the layout is seen, but what looks like tag 0, 1, 2" in why(layout=layout)


@pytest.mark.parametrize(("factor", "told"), [(1.25, "20 % smaller"), (0.8, "25 % larger"), (1.1, "9 % smaller")])
def test_wrong_tag_size(factor, told):
    reason = why(layout=sized(factor))
    assert "measure the black squares" in reason
    size, word = told.split(" % ")
    found = int(reason.split("about ")[1].split(" %")[0])
    assert abs(found - int(size)) <= 4
    assert word in reason


def test_printed_two_per_cent_too_small_is_within_what_blur_does_and_harmless():
    """Too small an error of size to be told from blur hardly moves the depth, since the plates' distances fix it."""
    view = straight_view()
    truth = make_ground_truth(view.left, None, CALIBRATION, sized(1.02), MESH)
    rigid = (truth.part == 1) & (view.part == 1) & ~truth.thin
    assert np.median(np.abs(truth.depth - view.depth)[rigid]) < 1e-3


def test_mirrored_image():
    mirrored = np.ascontiguousarray(straight_view().left[:, ::-1])
    assert "found in the mirror image only" in why(mirrored)


def test_corners_the_wrong_way_round():
    reason = why(layout=TagLayout(LAYOUT.ids, LAYOUT.corners[:, ::-1]))
    assert "run the wrong way round, so that its tags are mirrored" in reason


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_corners_from_another_one(turn):
    reason = why(layout=TagLayout(LAYOUT.ids, np.roll(LAYOUT.corners, -turn, axis=1)))
    assert f"turned by {90 * turn} degrees" in reason


@pytest.mark.parametrize("axes", [[1, 0, 2], [0, 2, 1], [2, 1, 0]])
def test_swapped_axes_of_the_layout(axes):
    """With tags at two depths the picture itself tells; the mesh tells in any case."""
    layout = TagLayout(LAYOUT.ids, LAYOUT.corners[:, :, axes])
    assert "mirror image of the target; two of its axes are exchanged" in why(layout=layout)
    names = [name for name, axis, own in zip("xyz", axes, range(3), strict=True) if axis != own]
    with pytest.raises(InputError, match=f"on it with the axes {names[0]} and {names[1]} exchanged"):
        check_tags_on_mesh(layout, MESH)


def test_swapped_axes_of_tags_in_one_plane_are_told_by_the_mesh():
    flat = TagLayout(LAYOUT.ids[:10], LAYOUT.corners[:10][:, :, [1, 0, 2]])
    with pytest.raises(InputError, match="axes x and y exchanged"):
        check_tags_on_mesh(flat, MESH)


@pytest.mark.parametrize(
    ("factor", "told"),
    [
        (1000, "the mesh is in millimetres: say so with --mesh-unit mm"),
        (100, "the mesh is in centimetres"),
        (39.3701, "inches"),
    ],
)
def test_mesh_in_other_units(factor, told):
    mesh = dataclasses.replace(MESH, vertices=MESH.vertices * factor)
    with pytest.raises(InputError) as error:
        check_tags_on_mesh(LAYOUT, mesh)
    assert told in str(error.value)


def test_mirrored_layouts_face_into_the_mesh():
    for corners in (LAYOUT.corners * (-1, 1, 1), LAYOUT.corners[:, ::-1]):
        with pytest.raises(InputError, match=r"face into the mesh; .*mirrored"):
            check_tags_on_mesh(TagLayout(LAYOUT.ids, corners), MESH)


def test_one_axis_the_wrong_way():
    with pytest.raises(InputError, match="on it with z pointing the other way"):
        check_tags_on_mesh(TagLayout(LAYOUT.ids, LAYOUT.corners * (1, 1, -1)), MESH)


def test_another_target():
    with pytest.raises(InputError, match=r"up to 8\.0 mm off the surface .*same coordinates and in the same unit"):
        check_tags_on_mesh(TagLayout(LAYOUT.ids, LAYOUT.corners - (0, 0, 0.008)), MESH)


def test_the_right_layout_passes():
    check_tags_on_mesh(LAYOUT, MESH)
    check_tags_on_mesh(TagLayout(LAYOUT.ids, LAYOUT.corners - (0, 0, 0.001)), MESH)  # a print of 1 mm


def test_wrong_scale_of_everything_is_told_by_the_other_image():
    view = straight_view()
    reason = why(view.left, view.right, layout=TagLayout(LAYOUT.ids, LAYOUT.corners * 1.1))
    assert "check the sizes in the layout and their unit, the baseline" in reason
    seen, said = (float(words.split(" m")[0].split()[-1]) for words in reason.split(",")[:2])
    assert said / seen == pytest.approx(1.1, abs=0.01)


def test_swapped_images():
    view = straight_view()
    assert "left and right image are swapped" in why(view.right, view.left)


def test_calibration_made_in_air():
    calibration = dataclasses.replace(CALIBRATION, focal=CALIBRATION.focal / 1.33)
    reason = why(straight_view().left, straight_view().right, calibration=calibration)
    assert "check that the calibration was made under water" in reason
    assert float(reason.split(" px rather")[0].split()[-1]) == pytest.approx(CALIBRATION.focal, rel=0.03)
