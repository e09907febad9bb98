"""Spreading work over the machines of a Ray cluster (ray.io). They must see the same folders, and have linstereo."""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from linstereo import extras
from linstereo.errors import InputError

RETRIES = 5
"""How often a piece is tried again whose process died."""
_ADDRESS = re.compile(r"auto|(ray://)?[A-Za-z0-9_.\-\[\]:]+:[0-9]{1,5}")
Piece = TypeVar("Piece")
Result = TypeVar("Result")


def check_address(address: str) -> str:
    """The address of a cluster: `auto` for one that runs on this machine, HOST:PORT or ray://HOST:PORT."""
    if _ADDRESS.fullmatch(address) is None:
        raise InputError(f"{address!r} is not the address of a Ray cluster; write auto, HOST:PORT or ray://HOST:PORT")
    return address


def ray_map(
    address: str, function: Callable[[Piece], Result], pieces: Sequence[Piece], *, cpus: int = 1
) -> Iterator[Result]:
    """What `function` makes of each piece, in any order, made on the cluster.

    Args:
        address: see `check_address`.
        function: importable on every machine, or a partial of such a function; a piece may reach it more than once.
        pieces: plain values.
        cpus: cores that one call takes up.
    """
    ray = extras.require("ray", extra="cluster", purpose="rendering on a Ray cluster")
    check_address(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, OSError, TimeoutError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"the Ray cluster {address} cannot be reached ({reason}); start it, or correct it") from error
    pending: list[Any] = []
    try:
        task = ray.remote(num_cpus=cpus, max_retries=RETRIES)(_call)
        pending = [task.remote(function, piece) for piece in pieces]
        while pending:
            done, pending = ray.wait(pending, num_returns=1)
            yield from _results(ray, done)
    finally:
        with contextlib.suppress(Exception):
            for reference in pending:
                ray.cancel(reference, force=True)
        ray.shutdown()


def _call(function: Callable[[Piece], Result], piece: Piece) -> Result:
    return function(piece)


def _results(ray: Any, references: Sequence[Any]) -> list[Any]:
    try:
        return list(ray.get(list(references)))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise InputError(str(error.cause)) from error
        raise
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"a process of the cluster died again and again ({reason}); run the same command again, it goes on where "
            "it stopped"
        ) from error
