"""Tags that were overlooked are found where the pose has them, and only if they are there."""

import numpy as np
from tests.tank.pictures import CALIBRATION, TARGET, straight_view

from linstereo.tank.corners import linear_grey
from linstereo.tank.detection import detect_tags
from linstereo.tank.missing_tags import ALIKE, find_missing, likeness
from linstereo.tank.pose import project, solve_pose


def test_overlooked_tags_are_found():
    view = straight_view()
    few = [found for found in detect_tags(view.left) if found.tag in (0, 4, 7, 12)]
    fit = solve_pose(few, TARGET.layout, CALIBRATION)
    more = find_missing(view.left, fit, TARGET.layout, CALIBRATION)
    assert {found.tag for found in more} == set(TARGET.layout.ids) - {0, 4, 7, 12}
    true = project(view.pose.apply(TARGET.layout.corners), CALIBRATION)
    off = [np.abs(found.corners - true[found.tag]).max() for found in more]
    assert max(off) < 0.4


def test_hidden_tags_are_not_made_up():
    view = straight_view()
    image = view.left.copy()
    true = project(view.pose.apply(TARGET.layout.corners), CALIBRATION)
    for tag in (2, 9):
        low, high = true[tag].min(axis=0).astype(int) - 3, true[tag].max(axis=0).astype(int) + 4
        image[low[1] : high[1], low[0] : high[0]] = np.random.default_rng(tag).integers(
            60, 200, (high[1] - low[1], high[0] - low[0], 3)
        )
    few = [found for found in detect_tags(image) if found.tag in (0, 4, 7, 12)]
    fit = solve_pose(few, TARGET.layout, CALIBRATION)
    more = {found.tag for found in find_missing(image, fit, TARGET.layout, CALIBRATION)}
    assert more == set(TARGET.layout.ids) - {0, 4, 7, 12, 2, 9}


def test_a_tag_is_alike_only_to_itself():
    view = straight_view()
    grey = linear_grey(view.left)
    true = project(view.pose.apply(TARGET.layout.corners), CALIBRATION)
    for place in (0, 6, 13):
        scores = [likeness(grey, true[place], tag) for tag in range(30)]
        assert int(np.argmax(scores)) == place
        assert scores[place] > ALIKE > sorted(scores)[-2]
        assert likeness(grey, np.roll(true[place], 1, axis=0), place) < ALIKE
