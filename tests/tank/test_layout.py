"""Layout files: read back as written, and refused with one sentence when something is odd."""

import json

import numpy as np
import pytest
from tests.tank.pictures import TARGET

from linstereo.errors import InputError
from linstereo.tank.layout import read_layout, write_layout

SQUARE = [[0, 0, 0], [0.04, 0, 0], [0.04, 0.04, 0], [0, 0.04, 0]]


def write(path, *tags, **fields):
    path.write_text(json.dumps({"family": "tag16h5", "tags": list(tags), **fields}))
    return path


def tag(**changes):
    return {"id": 3, "size": 0.04, "corners": SQUARE} | changes


def test_reads_what_it_wrote(tmp_path):
    write_layout(tmp_path / "tags.json", TARGET.layout)
    layout = read_layout(tmp_path / "tags.json")
    assert layout.ids == TARGET.layout.ids
    np.testing.assert_allclose(layout.corners, TARGET.layout.corners, atol=1e-6)
    np.testing.assert_allclose(layout.sizes, 0.04, atol=1e-6)


def test_fronts_look_at_the_viewer(tmp_path):
    layout = read_layout(write(tmp_path / "a.json", tag()))
    np.testing.assert_allclose(layout.fronts, [[0, 0, -1]], atol=1e-12)  # x right, y down, z away


def test_millimetres(tmp_path):
    corners = (1000 * np.array(SQUARE)).tolist()
    layout = read_layout(write(tmp_path / "a.json", tag(size=40, corners=corners), unit="mm"))
    np.testing.assert_allclose(layout.corners[0], SQUARE, atol=1e-12)


@pytest.mark.parametrize(
    ("tags", "fields", "told"),
    [
        ([], {}, "holds no tags"),
        ([tag()], {"family": "tag36h11"}, "is for the family 'tag36h11'; only tag16h5 is read"),
        ([tag()], {"unit": "inch"}, "has the unit 'inch'; choose one of m, mm"),
        ([tag(), tag()], {}, "has the tag 3 twice"),
        ([{"id": 3}], {}, 'each needs "id", "size" and "corners"'),
        ([tag(id=30)], {}, "has the id 30; tag16h5 has the tags 0 to 29"),
        ([tag(id=True)], {}, "has the id True"),
        ([tag(size=-1)], {}, "has the size -1; it must be a length greater than 0"),
        ([tag(size="4")], {}, "has the size '4'"),
        ([tag(corners=SQUARE[:3])], {}, "corners of shape (3, 3); give four points"),
        ([tag(corners=[["a"] * 3] * 4)], {}, "corners that are no numbers"),
        ([tag(corners=[[1e400, 0, 0]] * 4)], {}, "give four points"),
        ([tag(size=40, corners=(1000 * np.array(SQUARE)).tolist())], {}, "would be 40 m wide; check the unit"),
        ([tag(size=0.05)], {}, "has the size 50 mm, but two neighbouring corners are 40 mm apart"),
        ([tag(corners=[SQUARE[0], SQUARE[2], SQUARE[1], SQUARE[3]])], {}, "list its corners one after the other"),
        ([tag(corners=[[0, 0, 0], [0.04, 0, 0], [0.06, 0.0346, 0], [0.02, 0.0346, 0]])], {}, "do not make a square"),
    ],
)
def test_odd_files_are_one_sentence(tmp_path, tags, fields, told):
    path = write(tmp_path / "odd.json", *tags, **fields)
    with pytest.raises(InputError) as error:
        read_layout(path)
    assert told in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("content", ["", "{", "[1]", "[" * 100_000, '{"tags": 3}'])
def test_what_is_no_layout_is_refused(tmp_path, content):
    (tmp_path / "odd.json").write_text(content)
    with pytest.raises(InputError, match=r"odd\.json"):
        read_layout(tmp_path / "odd.json")
