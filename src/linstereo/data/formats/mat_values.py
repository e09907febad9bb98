"""The values inside MATLAB's level 5 .mat files: numbers, text, cells, structs, references to objects.

Layout: "MAT-File Format", The MathWorks (www.mathworks.com/help/pdf_doc/matlab/matfile_format.pdf); the class
17, a reference to an object, is described in MatFileHandler's Objects.md (github.com/mahalex/MatFileHandler).
A malformed file ends in a ValueError, struct.error or zlib.error here; `mat.read_mat` turns them into one
sentence.
"""

import dataclasses
import functools
import math
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

MatValue: TypeAlias = Any
"""np.ndarray (numbers), str, list (cells), dict (struct), list of dicts, MatReference; None for what is none of it."""

_MAX_BYTES = 2**29
_MAX_DEPTH = 32
_NAME_BYTES = 512  # of an uncompressed variable, enough for its flags, dimensions and name
_MATRIX, _COMPRESSED = 14, 15
_CELL, _STRUCT, _OBJECT, _CHAR, _OPAQUE = 1, 2, 3, 4, 17
_COMPLEX_FLAG = 0x0800
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = dict(enumerate(("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"), start=6))
_TEXT = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}


@dataclasses.dataclass(frozen=True)
class MatReference:
    """A saved object as it stands in its variable: the name of its class and what tells its place."""

    class_name: str
    content: MatValue


class Elements:
    """The data elements of a buffer one after another; `order` is "<" or ">"."""

    def __init__(self, data: memoryview, order: str) -> None:
        self._data = data
        self.order = order
        self._position = 0

    def __bool__(self) -> bool:
        return self._position < len(self._data)

    @property
    def remaining(self) -> int:
        """How many bytes were not taken yet."""
        return max(len(self._data) - self._position, 0)

    def take(self) -> tuple[int, memoryview]:
        """The type and the content of the next element."""
        (first,) = struct.unpack_from(self.order + "I", self._data, self._position)
        if first >> 16:  # up to four bytes, packed into the tag
            kind, size, start = first & 0xFFFF, first >> 16, self._position + 4
            self._position += 8
        else:
            kind, start = first, self._position + 8
            (size,) = struct.unpack_from(self.order + "I", self._data, self._position + 4)
            padding = 0 if kind == _COMPRESSED else -size % 8
            self._position = start + size + padding
        if start + size > len(self._data):
            raise ValueError("it ends early")
        return kind, self._data[start : start + size]

    def take_numbers(self) -> npt.NDArray[Any]:
        """The next element as a flat array in the machine's byte order."""
        kind, content = self.take()
        if kind not in _STORED:
            raise ValueError(f"data of the unknown type {kind}")
        dtype = np.dtype(self.order + _STORED[kind])
        return np.frombuffer(content, dtype=dtype).astype(dtype.newbyteorder("="))

    def take_text(self) -> str:
        """The next element as text; one byte is one character."""
        return bytes(self.take()[1]).decode("latin-1").rstrip("\0")


def variables(data: memoryview, order: str) -> Iterator[tuple[str, Callable[[], MatValue]]]:
    """The name of each variable in a sequence of elements and a function that reads its value."""
    elements = Elements(data, order)
    while elements:
        kind, content = elements.take()
        if kind == _COMPRESSED:
            head = memoryview(_inflate(content, at_most=_NAME_BYTES))[8:]
            yield _name(head, order), functools.partial(_read_compressed, content, order)
        elif kind == _MATRIX:
            yield _name(content, order), functools.partial(read_matrix, content, order)
        else:
            raise ValueError(f"it has a variable of the unknown type {kind}")


def read_matrix(data: memoryview, order: str, depth: int = 0) -> MatValue:
    """The value of an array element of any class."""
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if len(data) == 0:
        return np.zeros((0, 0))
    elements = Elements(data, order)
    flags = int(elements.take_numbers()[0])
    kind = flags & 0xFF
    if kind == _OPAQUE:
        elements.take()  # the variable's name
        elements.take()  # the object system, "MCOS"
        return MatReference(elements.take_text(), _read_nested(elements, depth))
    shape = [int(length) for length in elements.take_numbers()]
    count = math.prod(shape)
    if any(length < 0 for length in shape) or count * 8 > _MAX_BYTES:
        raise ValueError(f"it has an array of the absurd shape {tuple(shape)}")
    elements.take()  # the variable's name
    if kind == _CELL:
        return [_read_nested(elements, depth) for _ in _at_most(count, elements)]
    if kind in (_STRUCT, _OBJECT):
        if kind == _OBJECT:
            elements.take()  # the name of its class
        return _read_structs(elements, count, depth)
    if kind == _CHAR:
        return _read_text(elements, rows=shape[0])
    if kind not in _CLASSES or flags & _COMPLEX_FLAG:
        return None  # sparse, complex, function handle
    numbers = elements.take_numbers()
    if len(numbers) != count:
        raise ValueError(f"it has {len(numbers)} numbers in an array of the shape {tuple(shape)}")
    return numbers.astype(_CLASSES[kind]).reshape(shape, order="F")


def _read_compressed(content: memoryview, order: str) -> MatValue:
    kind, data = Elements(memoryview(_inflate(content, at_most=None)), order).take()
    if kind != _MATRIX:
        raise ValueError(f"it has a variable of the unknown type {kind}")
    return read_matrix(data, order)


def _read_nested(elements: Elements, depth: int) -> MatValue:
    kind, data = elements.take()
    if kind != _MATRIX:
        raise ValueError(f"it has data of the unknown type {kind}")
    return read_matrix(data, elements.order, depth + 1)


def _read_structs(elements: Elements, count: int, depth: int) -> MatValue:
    length = int(elements.take_numbers()[0])
    text = bytes(elements.take()[1])
    if length <= 0:
        raise ValueError("it has a struct with empty field names")
    starts = range(0, len(text), length)
    names = [text[start : start + length].split(b"\0")[0].decode("latin-1") for start in starts]
    structs = [
        {name: _read_nested(elements, depth) for name in names}
        for _ in (_at_most(count, elements) if names else range(0))
    ]
    return structs[0] if count == 1 and structs else structs


def _read_text(elements: Elements, *, rows: int) -> str | list[str]:
    kind, content = elements.take()
    if kind not in _TEXT:
        raise ValueError(f"it has text of the unknown type {kind}")
    suffix = {"<": "-le", ">": "-be"}[elements.order] if _TEXT[kind] in ("utf-16", "utf-32") else ""
    text = bytes(content).decode(_TEXT[kind] + suffix, errors="replace")
    return text if rows <= 1 else [text[row::rows] for row in range(rows)]


def _name(data: memoryview, order: str) -> str:
    elements = Elements(data, order)
    if int(elements.take_numbers()[0]) & 0xFF != _OPAQUE:
        elements.take()  # the shape
    return elements.take_text()


def _at_most(count: int, elements: Elements) -> range:
    """`range(count)` if so many elements can follow, since each takes at least eight bytes."""
    if count > elements.remaining // 8:
        raise ValueError("it ends early")
    return range(count)


def _inflate(content: memoryview, *, at_most: int | None) -> bytes:
    """The decompressed bytes, or the first `at_most` of them."""
    decompressor = zlib.decompressobj()
    result = decompressor.decompress(content, _MAX_BYTES if at_most is None else at_most)
    if at_most is None and not decompressor.eof:
        raise ValueError("a compressed variable is incomplete or too large")
    return result
