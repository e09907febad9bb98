"""Blender as a process of its own, driven line by line; see `blender_worker` for what is said.

Blender is either its Python module in an environment of its own (`make blender` makes .venv-blender) or an executable.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from linstereo.errors import InputError

ENVIRONMENT = ".venv-blender"
VARIABLE = "LINSTEREO_BLENDER"
OLDEST = (4, 2)
"""The oldest Blender whose nodes are those of `blender_materials`."""
_WORKER = Path(__file__).with_name("blender_worker.py")
_LIBRARY_HINT = "cannot open shared object file"


class BlenderDiedError(Exception):
    """Blender ended by itself or was killed; the same request may well succeed in a new process."""


class MeshRefusedError(Exception):
    """Blender cannot use a mesh of the user, though it can be read: its absolute path, and a sentence that says why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"the mesh {path} cannot be used by Blender ({reason}); remove it from the folder or replace it"
        )
        self.path = path


def find_blender(given: str | os.PathLike[str] | None = None) -> Path:
    """The program that runs the worker: a Blender executable, or the Python of an environment that has bpy.

    Looked for in this order: what is given, the environment variable LINSTEREO_BLENDER, .venv-blender in the current
    folder and in that of the sources, `blender` on the PATH.
    """
    named = given if given is not None else os.environ.get(VARIABLE)
    if named is not None:
        found = shutil.which(named) if str(named) else None
        if found is None:
            raise InputError(f"there is no program {str(named)!r}; name the Blender executable, or a Python with bpy")
        return Path(found).absolute()
    for folder in (Path.cwd(), Path(__file__).parents[4]):
        for python in ("bin/python", "Scripts/python.exe"):
            if (folder / ENVIRONMENT / python).is_file():
                return folder / ENVIRONMENT / python
    on_path = shutil.which("blender")
    if on_path is None:
        raise InputError(
            "Blender is not here; run `make blender` in the folder of the sources, or put a Blender executable on the "
            f"PATH (or its name into {VARIABLE})"
        )
    return Path(on_path).absolute()


class BlenderProcess:
    """One running Blender with one scene loaded; a context manager that ends it.

    One that cannot start is an `InputError`; one that is killed while it starts a `BlenderDiedError`.

    Args:
        program: see `find_blender`.
    """

    def __init__(self, program: Path) -> None:
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  closed in `close`
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        python = "python" in program.name.lower()
        words = [str(program), "-I", str(_WORKER)] if python else _executable_words(program)
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=clean,
                text=True,
                start_new_session=True,  # Ctrl-C is for us; Blender ends when it reads no more requests
            )
        except OSError as error:
            self._log.close()
            raise InputError(f"{program} cannot be started: {error.strerror}; name another Blender") from error
        try:
            self.version = str(self._answer(starting=True)["ready"])
        except BlenderDiedError as error:
            last = self._last_words()
            self.close()
            if self._process.returncode < 0:  # killed by a signal, not ended by itself
                raise
            hint = ""
            if _LIBRARY_HINT in last:
                hint = "; install that library (docs/seastereo.md lists what Blender needs)"
            elif "No module named 'bpy'" in last:
                hint = "; run `make blender`, or name a Blender executable"
            raise InputError(f"Blender does not start with {program}: {last}{hint}") from error
        if not _recent(self.version):
            self.close()
            raise InputError(
                f"{program} is Blender {self.version}; {'.'.join(map(str, OLDEST))} or newer is needed, or what "
                "`make blender` installs"
            )

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    def load(self, folder: Path, settings: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Load the scene that is described in `folder`; returns (mesh, texture) of textures that are not there.

        A mesh of the user that Blender cannot use is a `MeshRefusedError`.
        """
        answer = self._ask({"do": "load", "scene": str(folder), "settings": dict(settings)})
        return [(str(mesh), str(texture)) for mesh, texture in answer["missing_textures"]]

    def render(self, frame: int, folder: Path) -> None:
        """Render all images of a frame into `folder`."""
        self._ask({"do": "render", "frame": frame, "out": str(folder)})

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def __enter__(self) -> "BlenderProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        stdin = _stream(self._process.stdin)
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        except OSError as error:
            raise BlenderDiedError(self._last_words()) from error
        answer = self._answer()
        if "mesh" in answer:
            raise MeshRefusedError(Path(answer["mesh"]), answer["error"])
        if "error" in answer:
            raise InputError(f"Blender reports {answer['error']}")
        return answer

    def _answer(self, *, starting: bool = False) -> dict[str, Any]:
        while True:
            line = _stream(self._process.stdout).readline()
            if not line:
                self._process.wait()
                raise BlenderDiedError(self._last_words())
            if starting and not line.startswith('{"ready"'):
                continue  # a Blender executable prints its version before the worker begins
            answer: dict[str, Any] = json.loads(line)
            return answer

    def _last_words(self) -> str:
        """The last line that Blender printed."""
        self._log.flush()
        self._log.seek(0)
        lines = [" ".join(line.split()) for line in self._log if line.strip()]
        return lines[-1][:300] if lines else f"it ended with code {self._process.returncode} and said nothing"


def _recent(version: str) -> bool:
    numbers = [int(part) for part in re.findall("[0-9]+", version)[:2]]
    return tuple(numbers) >= OLDEST


def _executable_words(program: Path) -> list[str]:
    return [str(program), "--background", "--factory-startup", "--python-exit-code", "1", "--python", str(_WORKER)]


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None  # both are pipes
    return stream
