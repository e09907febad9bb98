"""The body of a request, streamed into files of a private folder while it is counted and timed."""

import asyncio
import dataclasses
import logging
import re
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from linstereo.app.failures import RefusedError
from linstereo.app.settings import ServerSettings

MAX_PARTS = 24
MAX_FIELD = 64 * 1024
"""Bytes of a part that is not a file."""
logging.getLogger("python_multipart").disabled = True  # it would warn of each damaged request on stderr
logging.getLogger("python_multipart.multipart").disabled = True
_WANTED = "send multipart/form-data with the files left and right"


@dataclasses.dataclass(frozen=True)
class UploadedFile:
    """A file of a request.

    Attributes:
        path: in the private folder.
        suffix: of the client's own name, such as ".yaml" or "".
        right: whether that name says that it is of the right camera. Nothing else of the name is used.
    """

    path: Path
    suffix: str
    right: bool


class Upload:
    """The parts of one request.

    Attributes:
        fields: text by the name of the part.
        files: by the name of the part.
    """

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self.files: dict[str, list[UploadedFile]] = {}


async def receive_upload(
    request: Request, folder: Path, settings: ServerSettings, *, files: Mapping[str, int]
) -> Upload:
    """Receive the parts of a multipart request.

    Args:
        request: its body has not been read yet.
        folder: an existing, empty folder; files become `part-01`, `part-02`, ... in it.
        settings: for the limits.
        files: how many files each name may stand for; parts of other names are fields.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        await discard_body(request, settings)
        raise RefusedError(415, f"The request is no form with files; {_WANTED}")
    sink = _Sink(folder, files)
    try:
        parser = MultipartParser(boundary, sink.callbacks(), max_header_count=8, max_header_size=4096)
        async for chunk in body(request, settings):
            parser.write(chunk)
        parser.finalize()
        if not sink.ended:
            raise RefusedError(400, f"The request ends before its last part does; {_WANTED}, whole")
    except FormParserError as error:
        raise RefusedError(400, f"The request is no valid multipart form; {_WANTED}") from error
    except OSError as error:
        raise RefusedError(507, f"The server cannot store the request: {error.strerror}; try again later") from error
    finally:
        sink.close()
    return sink.upload


async def body(request: Request, settings: ServerSettings) -> AsyncIterator[bytes]:
    """The chunks of a body, refused as soon as it is too large or too slow."""
    declared = request.headers.get("content-length", "0")
    if not re.fullmatch(r"\d{1,18}", declared):
        raise RefusedError(400, "The header Content-Length is no number; correct the client")
    if int(declared) > settings.max_bytes:
        await discard_body(request, settings)
        raise _too_large(settings)
    received, started = 0, time.monotonic()
    while True:
        chunk, more = await _next_chunk(request, settings, started)
        received += len(chunk)
        if received > settings.max_bytes:
            raise _too_large(settings)
        if chunk:
            yield chunk
        if not more:
            return


async def discard_body(request: Request, settings: ServerSettings) -> None:
    """Take what a client still sends, up to the limit, so that it gets to read why it is refused."""
    left, started = settings.max_bytes, time.monotonic()
    while left > 0:
        try:
            chunk, more = await _next_chunk(request, settings, started)
        except RefusedError:
            return
        if not more:
            return
        left -= len(chunk)


async def _next_chunk(request: Request, settings: ServerSettings, started: float) -> tuple[bytes, bool]:
    """The next chunk, and whether more may come."""
    left = settings.receive_seconds - (time.monotonic() - started)
    try:
        message = await asyncio.wait_for(request.receive(), timeout=min(settings.idle_seconds, max(left, 0)))
    except TimeoutError as error:
        raise RefusedError(
            408,
            f"The request came too slowly: nothing for {settings.idle_seconds:g} s, or not all of it in "
            f"{settings.receive_seconds:g} s; send it again",
        ) from error
    if message["type"] == "http.disconnect":
        raise RefusedError(400, "The client went away before the request was complete")
    return message.get("body", b""), message.get("more_body", False)


def _too_large(settings: ServerSettings) -> RefusedError:
    return RefusedError(
        413, f"The request is larger than {settings.max_upload:g} MB, the limit of this server; send smaller images"
    )


class _Sink:
    """What the parser calls: writes files, collects fields, counts parts."""

    def __init__(self, folder: Path, files: Mapping[str, int]) -> None:
        self.upload = Upload()
        self.ended = False
        self._folder = folder
        self._allowed = files
        self._parts = 0
        self._header: tuple[bytearray, bytearray] = (bytearray(), bytearray())  # name, value
        self._disposition = b""
        self._name = ""
        self._text = bytearray()
        self._file: BinaryIO | None = None

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._on_part_begin,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": self._on_part_data,
            "on_part_end": self._on_part_end,
            "on_end": self._on_end,
        }

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise RefusedError(400, f"The request has more than {MAX_PARTS} parts; send only the fields that are known")
        self._disposition, self._text = b"", bytearray()

    def _on_header_end(self) -> None:
        if bytes(self._header[0]).lower() == b"content-disposition":
            self._disposition = bytes(self._header[1])
        self._header = (bytearray(), bytearray())

    def _on_headers_finished(self) -> None:
        kind, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if kind != b"form-data" or not re.fullmatch(r"[a-z_]{1,32}", self._name):
            raise RefusedError(400, f"A part of the request has no name that is known; {_WANTED}")
        if self._name in self._allowed and (b"filename" in options or self._name != "calibration"):
            given = self.upload.files.setdefault(self._name, [])
            if len(given) >= self._allowed[self._name]:
                raise RefusedError(
                    400, f"The request has more than {self._allowed[self._name]} files {self._name}; send fewer"
                )
            path = self._folder / f"part-{self._parts:02}"
            filename = options.get(b"filename", b"")
            given.append(UploadedFile(path, _suffix(filename), b"right" in filename.lower()))
            self._file = path.open("xb")
        elif self._name in self.upload.fields:
            raise RefusedError(400, f"The field {self._name} is there twice; send it once")

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(data[start:end])
            return
        self._text += data[start:end]
        if len(self._text) > MAX_FIELD:
            raise RefusedError(413, f"The field {self._name} is longer than {MAX_FIELD} bytes; send it as a file")

    def _on_part_end(self) -> None:
        if self._file is not None:
            self.close()
            return
        try:
            self.upload.fields[self._name] = self._text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RefusedError(400, f"The field {self._name} is no UTF-8 text; correct it") from error

    def _on_end(self) -> None:
        self.ended = True


def _suffix(filename: bytes) -> str:
    """The suffix of a client's file name if it is a plain one, such as ".yaml", else ""."""
    found = re.search(rb"\.[A-Za-z]{1,5}\Z", filename)
    return found[0].decode().lower() if found else ""
