"""Who may ask, and what every answer carries: checks around the whole application."""

import hmac
import ipaddress
import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from linstereo.app.failures import RefusedError
from linstereo.app.settings import ServerSettings, is_loopback

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/v1/health", "/openapi.json")
"""Need no token, like the page itself; results need only their random key."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Guards:
    """Refuses requests from other sites, under other names, or without the token; adds security headers.

    A browser sends the page's own name in Host even if an attacker's name resolves to this machine (DNS rebinding), and
    the page that asks in Origin. Programs send no Origin.

    Args:
        application: what is guarded.
        settings: for token and names.
        policy: the content security policy of every answer.
    """

    def __init__(self, application: Application, *, settings: ServerSettings, policy: str) -> None:
        self._application = application
        self._settings = settings
        self._names = allowed_names(settings)
        self._fixed = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
        self._fixed.append((b"content-security-policy", policy.encode()))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in self._fixed if pair[0] not in given)]
                if b"cache-control" not in given:
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        try:
            self._check(scope)
        except RefusedError as refusal:
            await _answer(send_guarded, refusal)
            return
        await self._application(scope, receive, send_guarded)

    def _check(self, scope: Message) -> None:
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in (b"host", b"origin", b"authorization") and name in headers:
                raise RefusedError(400, f"The header {name.decode()} is there twice; correct the client")
            headers[name] = value
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_own(host):
            raise RefusedError(
                403, "This server is not known under that name; use its address, or start it with --allow-host NAME"
            )
        origin = headers.get(b"origin", b"").decode("latin-1")
        site = headers.get(b"sec-fetch-site", b"").decode("latin-1")
        if site == "cross-site" and scope["path"] != "/":
            raise RefusedError(403, "Pages of other sites may not use this server")
        if origin and origin.partition("://")[2].lower() != host.lower():
            raise RefusedError(403, "Pages of other sites may not use this server")
        if self._settings.token is not None and self._is_secret(scope):
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            matches = hmac.compare_digest(given.strip(), self._settings.token.encode())
            if kind.lower() != b"bearer" or not matches:
                raise RefusedError(401, "This server needs a token; send it as Authorization: Bearer TOKEN")

    def _is_secret(self, scope: Message) -> bool:
        path = scope["path"]
        return path.startswith("/v1/") and path not in OPEN_PATHS and not path.startswith("/v1/results/")

    def _is_own(self, host: str) -> bool:
        name = host_name(host)
        if name is None:
            return False
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._settings.is_loopback


def host_name(host: str) -> str | None:
    """The name or address in a Host header, without port and brackets, in lower case; None if it is not valid."""
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name, port = host, "0"
    if not port.isdigit() or len(port) > 5:
        return None
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    elif ":" in name:
        return None
    return name.lower().rstrip(".") or None


def allowed_names(settings: ServerSettings) -> frozenset[str]:
    """Names under which the server answers; addresses are always fine, since no attacker's name is one."""
    names = {"localhost", *(name.lower().rstrip(".") for name in settings.allowed_hosts)}
    if not settings.is_loopback:
        own = socket.gethostname().lower()
        names |= {own, f"{own}.local", socket.getfqdn().lower(), settings.host.lower()}
    elif is_loopback(settings.host):
        names.add(settings.host.lower())
    return frozenset(names)


async def _answer(send: Send, refusal: RefusedError) -> None:
    body = json.dumps({"error": refusal.sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in refusal.headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
