"""What the server allows."""

import dataclasses
import ipaddress
import re

from linstereo.errors import InputError
from linstereo.files import MAX_SIDE

LOOPBACK = "127.0.0.1"
MAX_ITERATIONS = 64
"""Refinement iterations that one request may ask for."""
MIN_SCALE, MAX_SCALE = 0.05, 4.0
"""At which the network may run."""
_OPTIONS = {"iterations": "iters"}
_RANGES: dict[str, tuple[float, float]] = {
    "port": (0, 65535),
    "max_upload": (1, 4096),
    "max_pixels": (0.01, 128),
    "queue": (0, 1000),
    "seconds": (1, 86400),
    "iterations": (1, MAX_ITERATIONS),
    "scale": (MIN_SCALE, MAX_SCALE),
}


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """Where the server listens, and how much a request may take.

    Attributes:
        host: name or address of the interface to listen on.
        port: TCP port, 0 for any free one.
        token: what requests must carry as `Authorization: Bearer TOKEN`; None asks for nothing.
        allowed_hosts: names, besides those of this machine, under which the server may be addressed.
        max_upload: megabytes (10^6) of a request.
        max_pixels: megapixels of one image.
        max_side: height and width of one image, px.
        queue: requests that may wait besides the one that is worked on.
        seconds: that one request may be worked on.
        receiving: requests whose bodies may be received at a time.
        idle_seconds: that a client may be silent while it sends a request.
        receive_seconds: that a client may take to send a request.
        kept: results that are kept for the page.
        kept_seconds: for how long they are kept.
        iterations: of requests that do not say; None for the model's own number.
        scale: of requests that do not say; None for the model's own choice.
    """

    host: str = LOOPBACK
    port: int = 8000
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    max_upload: float = 64.0
    max_pixels: float = 16.0
    max_side: int = MAX_SIDE
    queue: int = 8
    seconds: float = 300.0
    receiving: int = 32
    idle_seconds: float = 10.0
    receive_seconds: float = 120.0
    kept: int = 16
    kept_seconds: float = 1800.0
    iterations: int | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                option = _OPTIONS.get(name, name).replace("_", "-")
                raise InputError(f"--{option} is {value:g}; give {least:g} to {most:g}")
        for name in (self.host, *self.allowed_hosts):
            if not re.fullmatch(r"[0-9A-Za-z._:\[\]%-]{1,253}", name):
                raise InputError(f"{name[:60]!r} is no name or address of a machine; give one such as 192.168.1.20")
        token = self.token
        if token is not None and not re.fullmatch(r"[!-~]{16,256}", token):
            raise InputError("the token must have 16 to 256 ASCII characters without blanks; give another one, or auto")

    @property
    def max_bytes(self) -> int:
        """Bytes of a request's body."""
        return round(self.max_upload * 1e6)

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach the server."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a name or an address stands for this machine alone."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
