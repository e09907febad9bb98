"""Printable sheets: the plates of a target with their tags at true scale, as one PDF file and as SVG files."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.files import write_file
from linstereo.tank.family import CELLS, pattern
from linstereo.tank.target import Target, TargetDesign

PAPERS = {
    "a4": (210.0, 297.0),
    "a3": (297.0, 420.0),
    "a2": (420.0, 594.0),
    "a1": (594.0, 841.0),
    "a0": (841.0, 1189.0),
    "letter": (215.9, 279.4),
    "tabloid": (279.4, 431.8),
}
"""Width and height of the papers, mm."""
BORDER = 8.0
"""mm at the edges of the paper that stay empty, since printers do not reach them."""
_GAP = 6.0
_RULER = 100.0
_FOOT = 10.0  # mm below the plates for the ruler and the note
_POINTS = 72 / 25.4  # of a mm


@dataclass(frozen=True)
class Box:
    """A filled rectangle: left, top, width and height in mm from the upper left of the page; grey from 0 to 1."""

    x: float
    y: float
    width: float
    height: float
    grey: float = 0.0


@dataclass(frozen=True)
class Text:
    """A line of text whose baseline begins at x, y mm; its size is in mm."""

    x: float
    y: float
    size: float
    words: str


@dataclass(frozen=True)
class Page:
    """One sheet of paper, mm."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    texts: tuple[Text, ...]


def tag_sheets(target: Target, *, paper: str = "a4") -> list[Page]:
    """The plates of a target on sheets of paper, each whole and upright along the page, to be cut along its outline."""
    if paper.lower() not in PAPERS:
        raise InputError(f"there is no paper {paper!r}; choose one of {', '.join(PAPERS)}")
    width, height = PAPERS[paper.lower()]
    short, long = 1e3 * target.design.plate_width, 1e3 * target.design.plate_length
    across = int((width - 2 * BORDER + _GAP) // (short + _GAP))
    if not _fits(short, long, (width, height)):
        room = [name for name, size in PAPERS.items() if _fits(short, long, size)]
        advice = f"use --paper {room[0]}" if room else "make the tags smaller or fewer"
        raise InputError(
            f"a plate of {short:.0f} x {long:.0f} mm does not fit {paper} with {BORDER:.0f} mm of border; {advice}"
        )
    plates = list(enumerate(target.design.plates))
    pages = []
    for start in range(0, len(plates), across):
        boxes: list[Box] = []
        texts: list[Text] = []
        for place, (number, name) in enumerate(plates[start : start + across]):
            left = BORDER + place * (short + _GAP)
            _plate(boxes, texts, target, number, name, left=left, top=BORDER)
        _foot(boxes, texts, target.design, height=height)
        pages.append(Page(width, height, tuple(boxes), tuple(texts)))
    return pages


def write_sheets(folder: str | os.PathLike[str], pages: Sequence[Page]) -> list[Path]:
    """Write tags.pdf with all pages and tags-1.svg, tags-2.svg, ... with one each; the folder must exist."""
    root = Path(folder)
    paths = [root / "tags.pdf"]
    write_file(paths[0], pdf(pages))
    for number, page in enumerate(pages, start=1):
        paths.append(root / f"tags-{number}.svg")
        write_file(paths[-1], svg(page))
    return paths


def svg(page: Page) -> str:
    """A page as an SVG file whose size is given in mm."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{page.width:g}mm" height="{page.height:g}mm" '
        f'viewBox="0 0 {page.width:g} {page.height:g}">',
        f'<rect x="0" y="0" width="{page.width:g}" height="{page.height:g}" fill="#ffffff"/>',
    ]
    for box in page.boxes:
        level = round(255 * box.grey)
        lines.append(
            f'<rect x="{box.x:.4f}" y="{box.y:.4f}" width="{box.width:.4f}" height="{box.height:.4f}" '
            f'fill="#{level:02x}{level:02x}{level:02x}" shape-rendering="crispEdges"/>'
        )
    for text in page.texts:
        lines.append(
            f'<text x="{text.x:.4f}" y="{text.y:.4f}" font-size="{text.size:g}" font-family="Helvetica, Arial, '
            f'sans-serif" fill="#606060">{text.words}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def pdf(pages: Sequence[Page]) -> bytes:
    """All pages as a PDF file (version 1.4) of plain rectangles and Helvetica."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /ViewerPreferences << /PrintScaling /None >> >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, page in enumerate(pages):
        content = _content(page)
        size = f"{page.width * _POINTS:.4f} {page.height * _POINTS:.4f}"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {size}] /Contents {5 + 2 * index} 0 R "
            f"/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    data = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    entries = len(objects) + 1
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (entries, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n%s" % (entries, table) + trailer


def _content(page: Page) -> bytes:
    """Drawing commands of a page, in points from the lower left."""
    lines = []
    for box in page.boxes:
        x, y = box.x * _POINTS, (page.height - box.y - box.height) * _POINTS
        lines.append(f"{box.grey:.3f} g {x:.4f} {y:.4f} {box.width * _POINTS:.4f} {box.height * _POINTS:.4f} re f")
    for text in page.texts:
        words = text.words.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
        x, y = text.x * _POINTS, (page.height - text.y) * _POINTS
        lines.append(f"BT 0.38 g /F1 {text.size * _POINTS:.4f} Tf {x:.4f} {y:.4f} Td ({words}) Tj ET")
    return "\n".join(lines).encode("ascii")


def _fits(short: float, long: float, size: tuple[float, float]) -> bool:
    return short <= size[0] - 2 * BORDER and long <= size[1] - 2 * BORDER - _FOOT


def _plate(
    boxes: list[Box], texts: list[Text], target: Target, number: int, name: str, *, left: float, top: float
) -> None:
    """One plate, its long side along the page; tags of the plate that lies across are turned by a quarter."""
    design = target.design
    short, long = 1e3 * design.plate_width, 1e3 * design.plate_length
    margin, pitch, side = 1e3 * design.margin, 1e3 * design.pitch, 1e3 * design.tag_size
    line = 0.2
    boxes += [
        Box(left, top, short, line, 0.6),
        Box(left, top + long - line, short, line, 0.6),
        Box(left, top, line, long, 0.6),
        Box(left + short - line, top, line, long, 0.6),
    ]
    first = number * design.tags
    for place in range(design.tags):
        cells = pattern(target.layout.ids[first + place])
        if name == "back":
            cells = np.rot90(cells, -1)  # right on the target is down on the page
        _tag(boxes, cells, x=left + margin, y=top + margin + place * pitch, side=side)
    way = "its left end" if name == "back" else "its upper end"
    texts.append(Text(left + 1, top + 2.6, 2.0, f"{name} plate, tags {first} to {first + design.tags - 1}; {way}"))


def _tag(boxes: list[Box], cells: NDArray[np.uint8], *, x: float, y: float, side: float) -> None:
    """A black square with its white cells on top, neighbours in a row joined."""
    cell = side / CELLS
    boxes.append(Box(x, y, side, side, 0.0))
    for row in range(CELLS):
        column = 0
        for white, run in itertools.groupby(cells[row].tolist()):
            length = len(list(run))
            if white:
                boxes.append(Box(x + column * cell, y + row * cell, length * cell, cell, 1.0))
            column += length


def _foot(boxes: list[Box], texts: list[Text], design: TargetDesign, *, height: float) -> None:
    """A ruler to check the scale of the print."""
    level = height - BORDER
    boxes.append(Box(BORDER, level, _RULER, 0.3, 0.0))
    boxes += [Box(BORDER + at - 0.15, level - 2, 0.3, 2, 0.0) for at in np.arange(0, _RULER + 1, 10.0)]
    texts.append(
        Text(
            BORDER + _RULER + 4,
            level,
            2.5,
            f"print at 100 %: this ruler is 100 mm, a black square {1e3 * design.tag_size:g} mm",
        )
    )
