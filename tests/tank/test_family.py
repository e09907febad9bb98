"""The tags are those of the AprilTag project."""

import cv2
import numpy as np
import pytest

from linstereo.errors import InputError
from linstereo.tank.family import CODES, dictionary, pattern


def test_every_pattern_is_one_of_opencv_in_some_turn():
    theirs = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_APRILTAG_16h5)
    turns = set()
    for tag in range(30):
        drawn = cv2.aruco.generateImageMarker(theirs, tag, 6) > 0
        turns.add(next(turn for turn in range(4) if np.array_equal(np.rot90(drawn, turn), pattern(tag) > 0)))
    assert len(turns) == 1  # the same for all: the family is one, only its upright differs


def test_tag_zero_is_upright_as_the_apriltag_project_draws_it():
    assert pattern(0)[1:5, 1:5].tolist() == [[0, 0, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1], [1, 0, 1, 1]]
    assert not pattern(0)[0].any()
    assert not pattern(0)[:, 5].any()


def test_tags_differ_in_at_least_five_cells_in_every_turn():
    cells = [pattern(tag) for tag in range(len(CODES))]
    for first in range(30):
        for second in range(first, 30):
            for turn in range(4):
                if first != second or turn:
                    assert (np.rot90(cells[second], turn) != cells[first]).sum() >= 5


def test_opencv_decodes_our_dictionary():
    for tag in (0, 17, 29):
        image = np.full((120, 120), 255, np.uint8)
        image[30:90, 30:90] = cv2.resize(255 * pattern(tag), (60, 60), interpolation=cv2.INTER_NEAREST)
        corners, ids, _ = cv2.aruco.ArucoDetector(dictionary()).detectMarkers(image)
        assert ids.ravel().tolist() == [tag]
        assert np.abs(corners[0][0] - [(30, 30), (89, 30), (89, 89), (30, 89)]).max() < 1


def test_there_is_no_tag_thirty():
    with pytest.raises(InputError, match="no tag 30 in the family tag16h5; its tags are 0 to 29"):
        pattern(30)
