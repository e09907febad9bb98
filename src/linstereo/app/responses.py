"""Answers that clean up after themselves, whether they were sent whole or the client went away in the middle."""

from collections.abc import Callable

from fastapi import Response
from starlette.types import Receive, Scope, Send


class Cleaned(Response):
    """Another answer, with what is to be done after it.

    Args:
        answer: what is sent.
        after: called in the end in any case, even if nothing was sent.
    """

    def __init__(self, answer: Response, *, after: Callable[[], object]) -> None:
        super().__init__()
        self._answer = answer
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await self._answer(scope, receive, send)
        finally:
            self._after()
