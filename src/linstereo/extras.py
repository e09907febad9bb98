"""Packages that only some features need, and that a plain installation leaves out."""

from importlib import import_module
from types import ModuleType
from typing import Literal

from linstereo.errors import MissingExtraError

Extra = Literal["synth", "train", "cluster", "export", "ros", "view", "web"]


def require(module: str, *, extra: Extra, purpose: str) -> ModuleType:
    """Import `module`; if it is not installed, raise a `MissingExtraError` with the command that installs it.

    Args:
        module: its full name, such as "embreex.rtcore_scene".
        extra: the extra of this package that brings it.
        purpose: what needs it, the beginning of the message, such as "reading meshes".
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{purpose} needs the package {package}, which is not installed here; run: {install_command(extra)}"
        ) from error


def install_command(extra: Extra) -> str:
    """The command, run in the folder of the sources, that adds an extra to an installation."""
    return f"pip install --constraint constraints.txt 'linstereo[{extra}]'"
