"""The endpoint for programs, which the page uses as well: `/v1/predict`, `/v1/results`, `/v1/health`."""

import asyncio
import json
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse

from linstereo import __version__
from linstereo.app.description import HEALTH, PREDICT, RESULT
from linstereo.app.failures import RefusedError
from linstereo.app.job_queue import Job, JobQueue
from linstereo.app.job_request import FILE_PARTS, JobRequest, read_request
from linstereo.app.negotiation import EVENTS, UNITS, accepted_kinds, wanted_file
from linstereo.app.responses import Cleaned
from linstereo.app.results import FILE_NAMES, ResultStore, StereoResult, load_result
from linstereo.app.settings import MAX_ITERATIONS, ServerSettings
from linstereo.app.stages import process_pair
from linstereo.app.uploads import discard_body, receive_upload
from linstereo.errors import InputError
from linstereo.predictor import StereoPredictor

_HEARTBEAT = 5.0  # s: a stream that is silent for longer says that it lives, which tells whether anybody listens


class Service:
    """What the routes share.

    Args:
        predictor: the model.
        settings: the limits.
        folder: the private folder of the server.
    """

    def __init__(self, predictor: StereoPredictor, settings: ServerSettings, folder: Path) -> None:
        self.predictor = predictor
        self.settings = settings
        self.queue = JobQueue(length=settings.queue)
        self.store = ResultStore(folder, most=settings.kept, seconds=settings.kept_seconds)
        self._folder = folder
        self._receiving = 0

    def new_folder(self) -> Path:
        """An empty folder for one request."""
        folder = self._folder / f"request-{secrets.token_hex(16)}"
        folder.mkdir(mode=0o700)
        return folder

    async def receive(self, request: Request, folder: Path) -> JobRequest:
        """Take a request into a folder; refused early if there is no place for it in any case."""
        try:
            self.queue.check_room()
            if self._receiving >= self.settings.receiving:
                raise RefusedError(503, "Too many requests are being received; try again", retry_after=5)
        except RefusedError:
            await discard_body(request, self.settings)
            raise
        self._receiving += 1
        try:
            upload = await receive_upload(request, folder, self.settings, files=FILE_PARTS)
        finally:
            self._receiving -= 1
        asked = await asyncio.to_thread(read_request, upload, folder, self.settings)
        try:
            self.predictor.plan(*asked.size, scale=asked.scale)
        except InputError as error:
            raise asked.names.refusal(error) from error
        return asked

    def health(self) -> dict[str, Any]:
        """What `/v1/health` tells."""
        model, settings = self.predictor, self.settings
        return {
            "status": "ok",
            "version": __version__,
            "model": {
                "name": model.name,
                "trained": model.trained,
                "device": str(model.device),
                "iterations": model.iterations(settings.iterations),
            },
            "queue": {"running": int(self.queue.busy), "waiting": self.queue.waiting, "length": settings.queue},
            "limits": {
                "upload_bytes": settings.max_bytes,
                "pixels": round(settings.max_pixels * 1e6),
                "side": settings.max_side,
                "seconds": settings.seconds,
                "iterations": MAX_ITERATIONS,
            },
            "token": settings.token is not None,
        }


def endpoint_routes(service: Service) -> APIRouter:
    """The routes below /v1."""
    router = APIRouter(prefix="/v1")

    @router.get("/health", **HEALTH)
    async def health() -> JSONResponse:
        return JSONResponse(service.health())

    @router.post("/predict", **PREDICT)
    async def predict(request: Request) -> Response:
        folder = service.new_folder()
        try:
            if EVENTS in accepted_kinds(request.headers.get("accept", "")):
                asked = await service.receive(request, folder)
                job = _add(service, asked, previews=True)

                def end() -> None:
                    job.cancel()
                    shutil.rmtree(folder, ignore_errors=True)

                events = _events(service, job)
                unbuffered = {"X-Accel-Buffering": "no"}
                return Cleaned(StreamingResponse(events, media_type=EVENTS, headers=unbuffered), after=end)
            return await _answer(request, service, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @router.get("/results/{key}/{name}", **RESULT)
    async def result(
        key: str, name: str, min_confidence: float | None = None, max_depth: float | None = None
    ) -> Response:
        folder = service.store.get(key)
        if name not in FILE_NAMES:
            raise RefusedError(404, "A result has no file of that name; see the list of its files")
        path = folder / f"made-{secrets.token_hex(8)}{Path(name).suffix}"

        def make() -> None:
            load_result(folder).write(name, path, min_confidence=min_confidence, max_depth=max_depth)

        try:
            await asyncio.to_thread(make)
        except InputError as error:
            path.unlink(missing_ok=True)
            raise RefusedError(422, str(error).replace(str(path), name)) from error
        except FileNotFoundError as error:
            raise RefusedError(404, "This result is not kept any more; compute it again") from error
        made = FileResponse(path, filename=name, media_type=_media_type(name))
        return Cleaned(made, after=lambda: path.unlink(missing_ok=True))

    @router.delete("/results/{key}", include_in_schema=False)
    async def forget(key: str) -> Response:
        service.store.remove(key)
        return Response(status_code=204)

    return router


def _add(service: Service, asked: JobRequest, *, previews: bool) -> Job[StereoResult]:
    job = Job[StereoResult](
        lambda job: process_pair(asked, service.predictor, job, previews=previews),
        seconds=service.settings.seconds,
        loop=asyncio.get_running_loop(),
    )
    service.queue.add(job)
    return job


async def _answer(request: Request, service: Service, folder: Path) -> Response:
    """Wait for the result and answer with one file of it."""
    wanted_file(None, request.headers.get("accept", ""))
    asked = await service.receive(request, folder)
    output = request.query_params.get("output") or asked.output
    name, media_type = wanted_file(output, request.headers.get("accept", ""))
    if name.startswith(("depth", "cloud")) and asked.cameras is None:
        raise RefusedError(422, "Depth and points need a calibration; give a file, JSON, or focal and baseline")
    asked = asked.needing(name)
    job = _add(service, asked, previews=False)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        waited: set[asyncio.Future[Any]] = {gone, job.result}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not job.result.done():
            raise RefusedError(499, "The client went away")
        if job.result.cancelled():
            raise RefusedError(503, "The server is being stopped; try again later", retry_after=10)
        result = job.result.result()
    finally:
        job.cancel()
        gone.cancel()
    path = folder / f"answer{Path(name).suffix}"
    try:
        await asyncio.to_thread(
            result.write, name, path, min_confidence=asked.min_confidence, max_depth=asked.max_depth
        )
    except InputError as error:
        raise RefusedError(
            422, str(error).replace(str(path), f"the {output or 'disparity'} as {media_type}")
        ) from error
    facts = {key: result.facts[key] for key in ("width", "height", "iterations", "model", "notes", "stages")}
    headers = {
        "X-Linstereo-Output": name.partition(".")[0],
        "X-Linstereo-Unit": UNITS[name],
        "X-Linstereo-Facts": json.dumps(facts),
    }
    answer = FileResponse(path, filename=name, media_type=media_type, headers=headers)
    return Cleaned(answer, after=lambda: shutil.rmtree(folder, ignore_errors=True))


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(service: Service, job: Job[StereoResult]) -> AsyncIterator[str]:
    """The events of a job as they come; the last one is `done` or `error`."""
    while not (job.result.done() and job.events.empty()):
        waiting = asyncio.ensure_future(job.events.get())
        waited: set[asyncio.Future[Any]] = {waiting, job.result}
        await asyncio.wait(waited, timeout=_HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            yield _event(waiting.result())
        else:
            waiting.cancel()
            if not job.result.done():
                yield ": working\n\n"
    if job.result.cancelled():
        yield _event({"event": "error", "status": 503, "error": "The server is being stopped; try again later"})
        return
    try:
        result = job.result.result()
    except RefusedError as refusal:
        yield _event({"event": "error", "status": refusal.status, "error": refusal.sentence})
        return
    key = await asyncio.to_thread(service.store.add, result)
    yield _event({"event": "done", "key": key, "files": result.file_names(), **result.facts})


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content, separators=(',', ':'))}\n\n"


def _media_type(name: str) -> str:
    suffix = name.rpartition(".")[2]
    return {
        "png": "image/png",
        "npy": "application/x-npy",
        "pfm": "application/x-pfm",
        "ply": "model/ply",
        "json": "application/json",
        "zip": "application/zip",
    }[suffix]
