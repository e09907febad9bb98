"""What the tests of the documentation read from Markdown files: blocks, commands, links, headings."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")],
    key=lambda path: path.relative_to(ROOT).as_posix(),
)
_FENCE = re.compile(r"^(?P<mark><!-- run -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_SHELL = ("", "bash", "sh")


class Block(NamedTuple):
    """A fenced block."""

    kind: str
    """Language; "" if none is given."""
    text: str
    marked: bool
    """Whether `<!-- run -->` stands above it."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    return [Block(m["kind"], m["text"], bool(m["mark"])) for m in _FENCE.finditer(page.read_text("utf-8"))]


def shell_lines(text: str) -> list[str]:
    """The commands of a shell block: continued lines joined, comments cut off, variables that it sets put in."""
    variables: dict[str, str] = {}
    lines = []
    for line in text.replace("\\\n", " ").splitlines():
        command = re.sub(r"\$(\w+)", lambda m: variables.get(m[1], m[0]), re.split(r"(?:^|\s)#", line)[0].strip())
        if assignment := re.fullmatch(r'(\w+)="(.*)"', command):
            variables[assignment[1]] = assignment[2]
        elif command:
            lines.append(command)
    return lines


def linstereo_commands(page: Path) -> list[list[str]]:
    """Arguments of every `linstereo` command in the blocks of a page, also of those started by torchrun."""
    found = []
    for block in blocks(page):
        if block.kind in _SHELL:
            for line in shell_lines(block.text):
                if match := re.match(r"(?:torchrun .* -m )?linstereo (.*)", line):
                    found.append(shlex.split(match[1]))
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def inline_code(page: Path) -> list[str]:
    """Everything between single backticks."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def links(page: Path) -> list[str]:
    """Targets of links and images to other files and headings of the project."""
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    plain = [
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)).strip().lower() for title in titles
    ]
    return {title.replace(" ", "-") for title in plain}
