"""YAML and OpenCV's XML as plain strings, lists and dictionaries: nothing is constructed, expanded or executed.

OpenCV's own parser (`cv2.FileStorage`) is not used: a file of nested brackets overflows its stack and ends the process.
"""

import math
import os
from typing import Any
from xml.etree import ElementTree

import yaml

from linstereo.errors import InputError
from linstereo.files import read_file

FilePath = str | os.PathLike[str]
MAX_BYTES = 2**19
"""Largest file parsed; calibrations take a few thousand bytes."""
_MAX_DEPTH = 16  # of nested elements


class _PlainLoader(yaml.BaseLoader):  # type: ignore[misc]
    """Leaves scalars as strings, ignores tags, and takes neither aliases nor deep nesting."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it uses YAML aliases (*name), which are not followed")
        if self.depth >= _MAX_DEPTH:
            raise yaml.YAMLError(f"it nests deeper than {_MAX_DEPTH} levels")
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def read_plain_yaml(path: FilePath) -> dict[str, Any]:
    """The top-level mapping of a YAML file, written by any tool, OpenCV's `%YAML:1.0` included."""
    text = _text(path)
    if text.startswith("%"):
        text = text.partition("\n")[2]
    try:
        content = yaml.load(text, Loader=_PlainLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid YAML: {_in_one_line(error)}; copy or write it again") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} does not hold values by name; give a calibration file")
    return {str(name): value for name, value in content.items()}


def read_plain_xml(path: FilePath) -> dict[str, Any]:
    """The values of an `<opencv_storage>` file: the fields of matrices by name, and the text of all else as words."""
    text = _text(path)
    if "<!" in text.replace("<!--", ""):
        raise InputError(f"{path} declares a document type, which OpenCV's XML files do not; write it again")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"{path} is not valid XML: {_in_one_line(error)}; copy or write it again") from error
    if root.tag != "opencv_storage":
        raise InputError(f"{path} does not hold <opencv_storage>; give a file written by OpenCV's FileStorage")
    return {child.tag: _value(child) for child in root}


def is_number(value: Any) -> bool:
    """Whether a plain value stands for a finite number."""
    try:
        return isinstance(value, str) and math.isfinite(float(value))
    except ValueError:
        return False


def numbers(value: Any, *, name: str, path: FilePath, most: int = 64) -> list[float]:
    """The finite numbers of a field: of one value, a list of them, or a list of rows."""
    values = value if isinstance(value, list) else [value]
    if any(isinstance(row, list) for row in values):
        values = [number for row in values for number in (row if isinstance(row, list) else [row])]
    if len(values) > most or not all(is_number(number) for number in values):
        raise InputError(f"{path} does not hold numbers in {name}; copy or write it again")
    return [float(number) for number in values]


def _text(path: FilePath) -> str:
    data = read_file(path)
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{path} has {len(data):,} bytes, more than the {MAX_BYTES:,} of any calibration; give the calibration file"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file; give a calibration file") from error


def _value(element: ElementTree.Element) -> Any:
    if len(element):
        return {child.tag: (child.text or "").split() for child in element}
    words = (element.text or "").split()
    return words[0].strip('"') if len(words) == 1 else words


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
