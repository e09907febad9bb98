"""The page: files of the package, read once, named by a fixed list, so that no path of a client is ever opened."""

import base64
import dataclasses
import gzip
import hashlib
import re
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request, Response

from linstereo.app.failures import RefusedError

_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "jpg": "image/jpeg",
    "png": "image/png",
}
_PACKED = ("html", "css", "js", "json", "svg")
_INLINE = re.compile(r"<script\b(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Asset:
    """A file of the page: its bytes, the same packed by gzip if that pays, its media type and a tag of its content."""

    content: bytes
    packed: bytes | None
    kind: str
    tag: str


def assets() -> dict[str, Asset]:
    """All files of the page by their path below `static/`."""
    found: dict[str, Asset] = {}

    def collect(folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            suffix = entry.name.rpartition(".")[2]
            if entry.is_dir():
                collect(entry, f"{prefix}{entry.name}/")
            elif suffix in _KINDS:
                content = entry.read_bytes()
                packed = gzip.compress(content, compresslevel=6, mtime=0) if suffix in _PACKED else None
                tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
                found[prefix + entry.name] = Asset(content, packed, _KINDS[suffix], tag)

    collect(files("linstereo.app") / "static", "")
    return found


def content_policy(page: str) -> str:
    """The content security policy of a page: nothing from elsewhere, no inline script but those that it has itself.

    The import map, which tells modules where three.js is, can only be inline; its hash is part of the policy.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in _INLINE.findall(page))
    scripts = " ".join(["'self'", *(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)])
    return (
        f"default-src 'self'; script-src {scripts}; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


def page_routes(found: dict[str, Asset]) -> APIRouter:
    """Routes of the page itself and of its files."""
    router = APIRouter(include_in_schema=False)

    def answer(request: Request, name: str) -> Response:
        asset = found.get(name)
        if asset is None:
            raise RefusedError(404, "There is no such page; start at /")
        headers = {"ETag": asset.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=304, headers=headers)
        if asset.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(asset.packed, media_type=asset.kind, headers=headers | {"Content-Encoding": "gzip"})
        return Response(asset.content, media_type=asset.kind, headers=headers)

    @router.get("/")
    async def front(request: Request) -> Response:
        return answer(request, "index.html")

    @router.get("/docs")
    async def description(request: Request) -> Response:
        return answer(request, "api.html")

    @router.get("/static/{name:path}")
    async def file(request: Request, name: str) -> Response:
        return answer(request, name)

    return router
