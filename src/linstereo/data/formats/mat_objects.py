"""Objects of MATLAB classes saved in .mat files, such as the `stereoParameters` of a calibration.

MATLAB keeps the content of saved objects in one place of the file, the subsystem: a list of cells whose first
one tells in 32-bit numbers which cells are which properties of which object. The layout is not documented by
The MathWorks; this follows the descriptions in MatFileHandler's Objects.md
(github.com/mahalex/MatFileHandler) and of the reader in MAT.jl (github.com/JuliaIO/MAT.jl, pull request 205):

    words 0, 1    version, number of names words 2 to 9  byte offsets of the regions, then the names, each
    ended by a zero byte region 0      4 words for each class: package, name, 0, 0 region 1      properties of
    objects that a class turned into another value for saving (its `saveobj`) region 2      6 words for each
    object: class, 0, 0, its place in region 1, its place in region 3, dependencies region 3      properties
    of all other objects regions 1, 3  for each object the number of properties, then 3 words for each: name,
    kind, value; even length

Names and places count from 1, 0 meaning none. A value of kind 1 is a cell, counted from the third one; of
kind 2, the number itself; of kind 0, a name. The last cell holds, class by class, the properties that an
object has by default.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.mat_values import MatReference, MatValue, variables

_REFERENCE_MARK = 0xDD000000
_REFERENCE_WORDS = 6  # mark, number of dimensions, two dimensions, object, class
_MAX_DEPTH = 32
_WORDS_BEFORE_NAMES = 10


class SavedObjects:
    """The objects of a .mat file; `subsystem` is the content of its variable without a name."""

    def __init__(self, subsystem: npt.NDArray[np.uint8]) -> None:
        self._cells = _object_cells(subsystem.tobytes(order="F"))
        metadata = np.asarray(self._cells[0], dtype=np.uint8).tobytes(order="F")
        words = np.frombuffer(metadata[: len(metadata) // 4 * 4], dtype="<u4")
        offsets = [int(word) for word in words[2:_WORDS_BEFORE_NAMES]]
        self._names = metadata[4 * _WORDS_BEFORE_NAMES : offsets[0]].decode("latin-1").split("\0")
        self._saved, self._objects, self._properties = (
            words[offsets[region] // 4 : offsets[region + 1] // 4] for region in (1, 2, 3)
        )

    def resolve(self, value: MatValue, depth: int = 0) -> MatValue:
        """`value` with each reference to an object, at any depth, replaced by the dict of its properties."""
        if depth > _MAX_DEPTH:
            raise ValueError("its objects are nested too deeply")
        if isinstance(value, MatReference):
            return self.resolve(value.content, depth + 1)
        if isinstance(value, dict):
            return {name: self.resolve(item, depth + 1) for name, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item, depth + 1) for item in value]
        if isinstance(value, np.ndarray) and value.dtype == np.uint32:
            numbers = [int(number) for number in value.ravel(order="F")]
            if len(numbers) >= _REFERENCE_WORDS and numbers[0] == _REFERENCE_MARK:
                objects = [self._object(number, depth) for number in numbers[2 + numbers[1] : -1]]
                return objects[0] if len(objects) == 1 else objects
        return value

    def _object(self, number: int, depth: int) -> dict[str, MatValue]:
        class_number, _, _, saved, normal, _ = (int(word) for word in self._objects[6 * number : 6 * number + 6])
        defaults = self._cells[-1]
        by_default = defaults[class_number] if isinstance(defaults, list) and class_number < len(defaults) else {}
        properties = dict(by_default) if isinstance(by_default, dict) else {}
        for name, kind, value in _triples(self._saved if saved else self._properties, saved or normal):
            if kind == 1:
                content = self._cells[2 + value]
            else:
                content = self._names[value - 1] if kind == 0 else np.full((1, 1), value)
            properties[self._names[name - 1]] = content
        return {name: self.resolve(item, depth + 1) for name, item in properties.items()}


def holds_objects(value: MatValue) -> bool:
    """Whether `value` refers to a saved object at any depth."""
    if isinstance(value, dict):
        return any(holds_objects(item) for item in value.values())
    if isinstance(value, list):
        return any(holds_objects(item) for item in value)
    return isinstance(value, MatReference)


def _object_cells(subsystem: bytes) -> list[MatValue]:
    """The cells of the subsystem, which is laid out like a .mat file with a header of eight bytes."""
    order = {b"IM": "<", b"MI": ">"}[subsystem[2:4]]
    for _, read in variables(memoryview(subsystem)[8:], order):
        value = read()
        wrapper = value.get("MCOS") if isinstance(value, dict) else None
        if isinstance(wrapper, MatReference) and isinstance(wrapper.content, list):
            return wrapper.content
    raise ValueError("the content of its objects is missing")


def _triples(region: npt.NDArray[Any], place: int) -> list[tuple[int, int, int]]:
    """The properties of the object at `place`; place 0 is there, too, and empty."""
    position = 0
    for _ in range(place):
        position += 1 + 3 * int(region[position])
        position += position % 2
    count = int(region[position])
    words = [int(word) for word in region[position + 1 : position + 1 + 3 * count]]
    if len(words) != 3 * count:
        raise ValueError("its table of objects ends early")
    return list(zip(words[0::3], words[1::3], words[2::3], strict=True))
