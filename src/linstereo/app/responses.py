"""Answers that clean up after themselves, whether they were sent whole or the client went away in the middle."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

from fastapi.responses import FileResponse, StreamingResponse
from starlette.types import Receive, Scope, Send


class CleanedFile(FileResponse):
    """A file.

    Args:
        path: of the file.
        after: called in the end in any case.
        name: under which the client is to save it.
        media_type: its kind.
        headers: further ones.
    """

    def __init__(
        self,
        path: Path,
        *,
        after: Callable[[], object],
        name: str,
        media_type: str,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(path, filename=name, media_type=media_type, headers=headers)
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._after()


class CleanedStream(StreamingResponse):
    """Text that comes bit by bit; `after` is called in the end in any case, even if nothing was ever sent."""

    def __init__(self, content: AsyncIterator[str], *, after: Callable[[], object], media_type: str) -> None:
        super().__init__(content, media_type=media_type, headers={"X-Accel-Buffering": "no"})
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._after()
