import pytest

from linstereo.data.sequences.synchronised import Synchronised


def paired(left, right, tolerance):
    streams = [iter([(stamp, f"{side}{stamp}") for stamp in stamps]) for side, stamps in (("l", left), ("r", right))]
    found = Synchronised(*streams, tolerance=tolerance)
    return [pair[1:] for pair in found], found


@pytest.mark.parametrize(
    ("left", "right", "expected", "lone"),
    [
        ([0, 100], [1, 101], [("l0", "r1"), ("l100", "r101")], 0),
        ([100], [92, 101], [("l100", "r101")], 1),  # the second one is nearer
        ([100, 104], [103], [("l104", "r103")], 1),
        ([100, 200], [201, 300], [("l200", "r201")], 2),
        ([100, 110], [105], [("l100", "r105")], 1),  # a draw: the first
        ([], [1, 2], [], 2),
    ],
)
def test_each_message_goes_with_the_nearest(left, right, expected, lone):
    pairs, found = paired(left, right, tolerance=20)
    assert pairs == expected
    assert (found.count, found.lone) == (len(expected), lone)


def test_what_is_too_far_apart_is_measured():
    pairs, found = paired([0, 100], [30, 150], tolerance=20)
    assert pairs == []
    assert found.nearest == 30
    assert paired([], [1], tolerance=5)[1].nearest is None
