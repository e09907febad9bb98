"""Bring pages and images that live outside of docs/ into the site.

docs/ is the root of the site. `benchmarks/*.md`, `CONTRIBUTING.md` and `CHANGELOG.md` are put beside its pages, each at
its path in the repository. Links are written for the repository, where GitHub and editors follow them; those that lead
into docs/ or out of it are rewritten here.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

OUTSIDE = ("benchmarks/*.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/tank/overview.jpg")
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s]+)(?=\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of docs/."""
    root = Path(config.docs_dir).parent
    for pattern in OUTSIDE:
        for path in sorted(root.glob(pattern)):
            files.append(File.generated(config, path.relative_to(root).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page from its place in the repository to its place in the site."""
    root = Path(config.docs_dir).parent
    folder = Path(str(page.file.abs_src_path)).relative_to(root).parent.as_posix()
    site_folder = posixpath.dirname(page.file.src_uri)

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1])).removeprefix("docs/")
        return posixpath.relpath(target, site_folder or ".")

    return LINK.sub(moved, markdown)
