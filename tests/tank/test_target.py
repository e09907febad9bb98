"""The target that a laboratory builds: sound surfaces, tags in their places, sheets that can be read again."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import trimesh
from tests.tank.pictures import TARGET

from linstereo.errors import InputError
from linstereo.tank.detection import detect_tags
from linstereo.tank.layout import read_layout
from linstereo.tank.mesh import FRAME, ROPE, read_target_mesh
from linstereo.tank.mesh_check import check_tags_on_mesh
from linstereo.tank.sheets import PAPERS, pdf, svg, tag_sheets, write_sheets
from linstereo.tank.target import TargetDesign, make_target, write_target

DOTS = 6  # px for a mm, about 150 dpi


def test_every_body_is_closed_and_turned_outwards():
    for number, name in enumerate(TARGET.names):
        body = trimesh.Trimesh(TARGET.mesh.vertices, TARGET.mesh.faces[TARGET.mesh.body == number])
        assert body.is_watertight, name
        assert body.volume > 0, name
    ropes = [name for name in TARGET.names if name.startswith("rope")]
    assert len(ropes) == 5
    assert set(TARGET.mesh.part) == {FRAME, ROPE}


def test_ropes_have_their_diameter():
    number = TARGET.names.index("rope_0")
    points = TARGET.mesh.vertices[np.unique(TARGET.mesh.faces[TARGET.mesh.body == number])]
    radius = np.linalg.norm((points - points.mean(axis=0))[:, [0, 2]], axis=1).max()
    assert 2 * radius == pytest.approx(0.003, rel=0.02)


@pytest.mark.parametrize(
    "design",
    [
        TargetDesign(),
        TargetDesign(stagger=0.0, tags=15, ropes=0),
        TargetDesign(tag_size=0.1, tags=2, ropes=1, opening=1.0, rope_diameter=0.01),
        TargetDesign(tags=10, tag_size=0.02, stagger=0.01),
    ],
)
def test_tags_are_on_every_design(design):
    target = make_target(design)
    check_tags_on_mesh(target.layout, target.mesh)
    assert len(target.layout.ids) == design.tags * len(design.plates)
    np.testing.assert_allclose(target.layout.sizes, design.tag_size)
    np.testing.assert_allclose(target.layout.fronts, [[0, 0, -1]] * len(target.layout.ids), atol=1e-12)


@pytest.mark.parametrize("name", ["target.obj", "target.stl"])
def test_files_hold_the_same_target(tmp_path, name):
    write_target(tmp_path, TARGET)
    mesh = read_target_mesh(tmp_path / name)
    assert np.array_equal(np.bincount(mesh.part), np.bincount(TARGET.mesh.part))
    np.testing.assert_allclose(mesh.vertices.min(axis=0), TARGET.mesh.vertices.min(axis=0), atol=1e-7)
    np.testing.assert_allclose(mesh.vertices.max(axis=0), TARGET.mesh.vertices.max(axis=0), atol=1e-7)
    check_tags_on_mesh(read_layout(tmp_path / "tags.json"), mesh)


@pytest.mark.parametrize("suffix", [".glb", ".ply", ".obj", ".stl"])
def test_meshes_of_other_programs(tmp_path, suffix):
    """trimesh writes; millimetres, and a separate file of ropes."""
    whole = trimesh.Trimesh(TARGET.mesh.vertices * 1000, TARGET.mesh.faces, process=False)
    whole.export(tmp_path / f"all{suffix}")
    mesh = read_target_mesh(tmp_path / f"all{suffix}", unit="mm")
    check_tags_on_mesh(TARGET.layout, mesh)
    assert np.array_equal(np.bincount(mesh.part), np.bincount(TARGET.mesh.part))  # ropes known by their form
    for part, name in ((FRAME, "frame"), (ROPE, "ropes")):
        piece = trimesh.Trimesh(TARGET.mesh.vertices, TARGET.mesh.faces[TARGET.mesh.part == part])
        piece.export(tmp_path / f"{name}{suffix}")
    joined = read_target_mesh(tmp_path / f"frame{suffix}", ropes=tmp_path / f"ropes{suffix}")
    assert np.array_equal(np.bincount(joined.part), np.bincount(TARGET.mesh.part))


def test_scenes_keep_places_and_names(tmp_path):
    scene = trimesh.Scene()
    scene.add_geometry(trimesh.creation.box((0.1, 0.1, 0.1)), node_name="plate")
    shift = trimesh.transformations.translation_matrix([0, 0, 0.5])
    scene.add_geometry(trimesh.creation.box((0.1, 0.1, 0.1)), node_name="Thick Rope 1", transform=shift)
    (tmp_path / "a.glb").write_bytes(scene.export(file_type="glb"))
    mesh = read_target_mesh(tmp_path / "a.glb")
    assert mesh.vertices[mesh.faces[mesh.part == ROPE]][..., 2].min() == pytest.approx(0.45)
    assert mesh.vertices[mesh.faces[mesh.part == FRAME]][..., 2].max() == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.step", b"x", "has the suffix '.step'; give one of .stl, .obj, .ply, .glb"),
        ("a.stl", None, "does not exist"),
        ("a.glb", b"not a mesh", "cannot be read"),
        ("a.obj", b"v 0 0 0\n", "a.obj"),
        ("a.obj", b"v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "no numbers or out of range"),
    ],
)
def test_bad_meshes_are_one_sentence(tmp_path, name, content, told):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        read_target_mesh(tmp_path / name)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("measures", "told"),
    [
        ({"tags": 11}, "it must be 2 to 10, since there are 30 tags and 3 plates"),
        ({"tags": 1}, "it must be 2 to 10"),
        ({"tag_size": 0.001}, "they must be 0.01 to 0.5 m"),
        ({"opening": 0.0}, "opening is 0"),
        ({"rail": -1.0}, "rail is -1 m; it must be from 0.0001 to 5.0 m"),
        ({"thickness": float("nan")}, "thickness is nan"),
        ({"rope_diameter": 0.02}, "do not fit rails"),
    ],
)
def test_impossible_designs_are_one_sentence(measures, told):
    with pytest.raises(InputError) as error:
        TargetDesign(**measures)
    assert told in str(error.value)


def raster(boxes, width, height):
    """A picture uint8 [H, W, 3] of boxes (x, y, width, height in mm, grey 0 to 1), drawn one over the other."""
    page = np.full((round(height * DOTS), round(width * DOTS)), 255, np.uint8)
    for x, y, w, h, grey in boxes:
        low = round(x * DOTS), round(y * DOTS)
        high = max(round((x + w) * DOTS), low[0] + 1), max(round((y + h) * DOTS), low[1] + 1)
        page[low[1] : high[1], low[0] : high[0]] = round(255 * grey)
    return np.repeat(page[..., None], 3, axis=2)


def svg_raster(text):
    root = ElementTree.fromstring(text)
    width, height = (float(root.attrib[name].removesuffix("mm")) for name in ("width", "height"))
    boxes = [
        (*(float(item.attrib[name]) for name in ("x", "y", "width", "height")), int(item.attrib["fill"][1:3], 16) / 255)
        for item in root.iter("{http://www.w3.org/2000/svg}rect")
    ]
    return raster(boxes, width, height)


def pdf_rasters(data):
    """Pages of a PDF file, from its cross-reference table down, as a reader goes about it."""
    start = int(re.search(rb"startxref\n(\d+)\n%%EOF", data)[1])
    count = int(re.match(rb"xref\n0 (\d+)\n", data[start:])[1])
    offsets = [int(line) for line in re.findall(rb"(\d{10}) 00000 n ", data[start:])]
    assert len(offsets) == count - 1
    objects = {}
    for offset in offsets:
        number, body = re.match(rb"(\d+) 0 obj\n(.*?)\nendobj", data[offset:], re.DOTALL).groups()
        objects[int(number)] = body
    pages = []
    for body in objects.values():
        if b"/Type /Page " in body:
            size = [float(value) for value in re.search(rb"/MediaBox \[0 0 (\S+) (\S+)\]", body).groups()]
            content = objects[int(re.search(rb"/Contents (\d+) 0 R", body)[1])]
            length = int(re.search(rb"/Length (\d+)", content)[1])
            stream = content.split(b"stream\n", 1)[1][:length]
            mm = 25.4 / 72
            boxes = []
            for line in re.findall(rb"(\S+) g (\S+) (\S+) (\S+) (\S+) re f", stream):
                grey, x, y, w, h = map(float, line)
                boxes.append((x * mm, (size[1] - y - h) * mm, w * mm, h * mm, grey))
            pages.append(raster(boxes, size[0] * mm, size[1] * mm))
    return pages


def check_print(pictures, target):
    """All tags are found again, and a plate's tags have the distances and sizes of the layout to 0.1 mm."""
    found = {}
    for number, picture in enumerate(pictures):
        for item in detect_tags(picture):
            if item.tag in target.layout.ids:
                found[item.tag] = number, (item.corners + 0.5) / DOTS
    assert sorted(found) == list(target.layout.ids)
    for plate in range(len(target.design.plates)):
        tags = target.layout.ids[plate * target.design.tags : (plate + 1) * target.design.tags]
        assert len({found[tag][0] for tag in tags}) == 1
        printed = np.concatenate([found[tag][1] for tag in tags])
        built = 1e3 * np.concatenate([target.layout.corners[tag][:, :2] for tag in tags])
        difference = [np.linalg.norm(points[:, None] - points, axis=2) for points in (printed, built)]
        assert np.abs(difference[0] - difference[1]).max() < 0.15
        turned = [
            np.linalg.det(np.stack([points[1] - points[0], points[3] - points[0]])) for points in (printed, built)
        ]
        assert np.sign(turned[0]) == np.sign(turned[1])  # not mirrored


@pytest.mark.parametrize(
    ("design", "paper", "sheets"),
    [
        (TargetDesign(), "a4", 1),
        (TargetDesign(stagger=0.0), "tabloid", 1),
        (TargetDesign(tag_size=0.06, tags=4), "a3", 2),
    ],
)
def test_printed_sheets_are_read_again(design, paper, sheets):
    target = make_target(design)
    pages = tag_sheets(target, paper=paper)
    assert len(pages) == sheets
    assert (pages[0].width, pages[0].height) == PAPERS[paper]
    check_print([svg_raster(svg(page)) for page in pages], target)
    check_print(pdf_rasters(pdf(pages)), target)


def test_many_plates_take_several_sheets(tmp_path):
    target = make_target(TargetDesign(tag_size=0.065, tags=3))
    pages = tag_sheets(target, paper="a4")
    assert len(pages) == 3
    names = [path.name for path in write_sheets(tmp_path, pages)]
    assert names == ["tags.pdf", "tags-1.svg", "tags-2.svg", "tags-3.svg"]
    assert len(pdf_rasters((tmp_path / "tags.pdf").read_bytes())) == 3


def test_paper_that_is_too_small_or_unknown():
    with pytest.raises(InputError, match="does not fit a4 with 8 mm of border; use --paper a2"):
        tag_sheets(make_target(TargetDesign(tag_size=0.06)), paper="a4")
    with pytest.raises(InputError, match=r"does not fit a4 .*; make the tags smaller or fewer"):
        tag_sheets(make_target(TargetDesign(tag_size=0.4, opening=3.0)), paper="a4")
    with pytest.raises(InputError, match="there is no paper 'b5'; choose one of a4, a3"):
        tag_sheets(TARGET, paper="b5")
