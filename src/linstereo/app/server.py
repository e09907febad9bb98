"""The application put together, and the server that runs it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from linstereo import __version__
from linstereo.app.endpoint import Service, endpoint_routes
from linstereo.app.failures import RefusedError
from linstereo.app.guards import Application, Guards
from linstereo.app.page import assets, content_policy, page_routes
from linstereo.app.private_folder import private_folder
from linstereo.app.settings import ServerSettings
from linstereo.errors import InputError
from linstereo.predictor import StereoPredictor

_SILENT = 20.0  # s that a connection may be open without a request that is being answered
_CONNECTIONS = 256


def create_application(predictor: StereoPredictor, settings: ServerSettings, folder: Path) -> Application:
    """The ASGI application, guards included.

    Args:
        predictor: the model.
        settings: limits, token and names.
        folder: a private folder, which the caller removes.
    """
    service = Service(predictor, settings, folder)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(_sweep(service))
        yield
        sweeper.cancel()
        await asyncio.to_thread(service.queue.close)

    app = FastAPI(
        title="linstereo",
        version=__version__,
        description="Metric depth from stereo pairs.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
    )
    found = assets()
    app.include_router(endpoint_routes(service))
    app.include_router(page_routes(found))

    @app.exception_handler(RefusedError)
    async def refused(_: Request, refusal: RefusedError) -> JSONResponse:
        return JSONResponse({"error": refusal.sentence}, status_code=refusal.status, headers=refusal.headers)

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> JSONResponse:
        sentences = {404: "There is no such page; start at /", 405: "This page does not take that method"}
        sentence = sentences.get(error.status_code, str(error.detail))
        return JSONResponse({"error": sentence}, status_code=error.status_code, headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        where = ".".join(str(part) for part in error.errors()[0]["loc"][1:])
        return JSONResponse({"error": f"The value of {where[:40]} is not valid; correct it"}, status_code=422)

    return Guards(app, settings=settings, policy=content_policy(found["index.html"].content.decode()))


def serve(
    load: Callable[[], StereoPredictor],
    settings: ServerSettings,
    *,
    on_start: Callable[[str], None],
    check: bool = False,
) -> None:
    """Serve until a signal ends it.

    Args:
        load: gives the model; called once it is clear that the server can listen.
        settings: where and with which limits.
        on_start: called with the address of the page as soon as it can be opened.
        check: end there.
    """
    with private_folder() as folder, listening(settings) as listener:
        server = http_server(create_application(load(), settings, folder))
        on_start(_address(settings, listener.getsockname()[1]))
        if not check:
            server.run(sockets=[listener])


def http_server(application: Application) -> uvicorn.Server:
    """The server that runs an application; it keeps no log and names nothing about itself."""
    config = uvicorn.Config(
        application,
        http=WatchedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=3,
        limit_concurrency=_CONNECTIONS,
    )
    return uvicorn.Server(config)


class WatchedProtocol(H11Protocol):
    """HTTP/1.1 that closes connections which stay open without a request: slow headers, or endless bodies after it."""

    def connection_made(self, transport: Any) -> None:
        """Begin to watch."""
        super().connection_made(transport)
        self._silent, self._seen = 0.0, self.cycle
        self._watch()

    def _watch(self) -> None:
        if self.transport.is_closing():
            return
        answering = self.cycle is not None and not self.cycle.response_complete
        self._silent = 0.0 if answering or self.cycle is not self._seen else self._silent + _SILENT / 4
        self._seen = self.cycle
        if self._silent > _SILENT:
            self.transport.close()
        else:
            self.loop.call_later(_SILENT / 4, self._watch)


async def _sweep(service: Service) -> None:
    """Forget old results even if nobody asks for any."""
    while True:
        await asyncio.sleep(30)
        service.store.expire()


def listening(settings: ServerSettings) -> contextlib.closing[socket.socket]:
    """A socket that listens."""
    try:
        address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(address[0], address[1])
    except (OSError, UnicodeError) as error:
        raise InputError(f"cannot listen on {settings.host!r}; give --host an address of this machine") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address[4])
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}; give another --port or --host"
        ) from error
    return contextlib.closing(listener)


def _address(settings: ServerSettings, port: int) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    shown = {"0.0.0.0": socket.gethostname(), "[::]": socket.gethostname()}.get(host, host)
    return f"http://{shown}:{port}/" + (f"#token={settings.token}" if settings.token else "")
