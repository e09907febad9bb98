"""Which images belong together: from two files, folders or globs, or from a list of pairs.

Images are paired by name, never by order alone: with a frame missing on one side, order would pair every later image
with a wrong one, and the disparities would look plausible. Names agree if they are equal once what tells the sides
apart is taken away:

    left/0001.png            right/0001.png             the folder (also image_2/, image_3/; cam0/, cam1/; ...)
    im2_left.png             im2_right.png              the words left and right, or the letters L and R
    Adirondack/im0.png       Adirondack/im1.png         a camera's number (also im2, im6; view1, view5), if each side
                                                        has the same one throughout
    18284512_001.png         18284509_001.png           a camera's serial number or name, if it never changes

Time stamps, numbers of ten digits or more, may differ by up to a quarter of the time between two frames.
"""

import bisect
import dataclasses
import glob
import itertools
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

from linstereo.data.datasets.layout import IMAGE_SUFFIXES, file_names
from linstereo.errors import InputError
from linstereo.files import read_file

Pair = tuple[Path, Path]
Parts = tuple[str, ...]

_TOKEN = re.compile(r"\d+(?:\.\d+)?|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+|[\W_]+")
_CAMERA_WORDS = frozenset(("im", "img", "image", "images", "cam", "camera", "view", "colored", "color", "rgb", "grey"))
_SIDES = {"left": "right", "l": "r"}
_MIN_SERIAL_DIGITS = 6
_MIN_TIME_DIGITS = 10  # seconds since 1970; more with milli-, micro- or nanoseconds
_MAX_TIME_DIFFERENCE = Decimal("0.25")  # of the time between two frames


@dataclasses.dataclass(frozen=True)
class Pairing:
    """What was found: pairs in natural order of their left images, and images without a partner."""

    pairs: list[Pair]
    lone_left: list[Path] = dataclasses.field(default_factory=list)
    lone_right: list[Path] = dataclasses.field(default_factory=list)
    note: str = ""
    """What the user should know about how the images were paired, or nothing."""

    def lone(self) -> list[str]:
        """A phrase for each image without a partner."""
        sides = (("right", self.lone_left), ("left", self.lone_right))
        return [f"{path} has no {other} image" for other, paths in sides for path in paths]


def find_images(pattern: str) -> list[Path]:
    """The images that a path, a folder or a glob stands for, in natural order (2 before 10)."""
    path = Path(pattern)
    try:
        folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError) as error:  # a name that is too long, or has a null byte in it
        raise InputError(f"{pattern[:80]!r} cannot be the name of a file; check it") from error
    if folder:
        found = [path / name for name in file_names(path) if Path(name).suffix.lower() in IMAGE_SUFFIXES]
        missing = f"the folder {path} holds no image; give one with {', '.join(IMAGE_SUFFIXES)} files"
    elif exists or not glob.has_magic(pattern):
        return [path]
    else:
        found = [Path(p) for p in glob.glob(pattern, recursive=True) if Path(p).is_file()]  # noqa: PTH207 (Path.glob takes no absolute patterns)
        missing = f"nothing matches {pattern!r}; check the pattern"
    if not found:
        raise InputError(missing)
    return sorted(found, key=_natural_order)


def read_list(file: str) -> list[Pair]:
    """The pairs that a text file names: LEFT RIGHT in each line, relative to the current folder.

    Names with blanks stand in quotes, single or double; a backslash is part of the name. Lines that start with # and
    empty ones are skipped.
    """
    try:
        lines = read_file(file).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not a text file; it must hold LEFT RIGHT in each line") from error
    pairs = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
        lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
        try:
            names = list(lexer)
        except ValueError as error:
            raise InputError(f"{file}, line {number}: a quotation mark is not closed; close it") from error
        if len(names) != 2:
            raise InputError(
                f"{file}, line {number} holds {len(names)} name{'s' * (len(names) != 1)} instead of 2; write LEFT "
                "RIGHT, with names that contain blanks in quotes"
            )
        pairs.append((Path(names[0]), Path(names[1])))
    if not pairs:
        raise InputError(f"{file} names no pair; it must hold LEFT RIGHT in each line")
    return pairs


def pair_up(left: Sequence[Path], right: Sequence[Path]) -> Pairing:
    """Pair images by name; one image on each side is a pair whatever the names are.

    Of the ways to compare names, from strict to lenient, the first one that leaves no image alone is taken, else the
    one that leaves the fewest alone.
    """
    if len(left) == len(right) == 1:
        return Pairing([(left[0], right[0])])
    best = None
    for pair in (_by_stem, _by_side_words, _by_what_varies, _by_time):
        found = pair(left, right)
        if found is not None and (best is None or len(found.pairs) > len(best.pairs)):
            best = found
        if best is not None and not best.lone():
            break
    return best or Pairing([], list(left), list(right))


def check_complete(pairing: Pairing) -> None:
    """Refuse images without a partner, naming the first ones."""
    lone = pairing.lone()
    if not lone:
        return
    if not pairing.pairs:
        raise InputError(
            f"the names of the left images ({pairing.lone_left[0]} ...) and of the right ones "
            f"({pairing.lone_right[0]} ...) do not tell which belong together; use the same names on both sides, or "
            "write the pairs into a file for --list"
        )
    shown = "; ".join(lone[:4]) + (f"; and {len(lone) - 4} more" if len(lone) > 4 else "")
    raise InputError(
        f"{shown}; add what is missing, pass over such images with --skip-bad, or write the pairs into a file for "
        f"--list ({len(pairing.pairs)} pairs are complete)"
    )


def output_names(paths: Sequence[Path]) -> list[str]:
    """A file name for each input: its stem, or as much of its path as tells it from the others."""
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["_".join(path.with_suffix("").parts[-depth:]).replace(os.sep, "") for path in paths]
        if max(Counter(names).values()) == 1:
            return names
    twice = next(path for path, count in Counter(paths).items() if count > 1) if len(set(paths)) < len(paths) else None
    which = f"{twice} is given twice" if twice else f"{paths[0]} and another input have the same name"
    raise InputError(f"{which}; give each left image once")


def _natural_order(path: Path) -> list[tuple[int, int | str]]:
    pieces = re.split(r"(\d+)", str(path))
    return [(0, int(piece)) if piece.isdigit() else (1, piece) for piece in pieces]


def _match(
    left: Sequence[Path], right: Sequence[Path], left_keys: Sequence[object], right_keys: Sequence[object]
) -> Pairing | None:
    """Pair by equal keys; None if a key occurs twice on a side."""
    partner = dict(zip(right_keys, right, strict=True))
    if len(partner) < len(right) or len(set(left_keys)) < len(left):
        return None
    pairs = [(path, partner[key]) for path, key in zip(left, left_keys, strict=True) if key in partner]
    used = {other for _, other in pairs}
    return Pairing(
        pairs,
        [path for path, key in zip(left, left_keys, strict=True) if key not in partner],
        [path for path in right if path not in used],
    )


def _by_stem(left: Sequence[Path], right: Sequence[Path]) -> Pairing | None:
    return _match(left, right, [path.stem for path in left], [path.stem for path in right])


def _by_side_words(left: Sequence[Path], right: Sequence[Path]) -> Pairing | None:
    """Replace left by right and L by R in the names and folders of the left images, wherever that gives a partner."""
    depth = max(_depth(left), _depth(right))
    right_keys = [_parts(path, depth) for path in right]
    known = set(right_keys)
    left_keys = []
    for path in left:
        variants = itertools.product(*([_with_right(part), part] for part in _parts(path, depth)))
        key = _parts(path, depth)
        left_keys.append(next((found for found in variants if found in known and found != key), key))
    return _match(left, right, left_keys, right_keys)


def _by_what_varies(left: Sequence[Path], right: Sequence[Path]) -> Pairing | None:
    """Leave out what is the same in all names of a side and may be the name of its camera."""
    keys = _varying_tokens(left, right)
    return None if keys is None else _match(left, right, *keys)


def _by_time(left: Sequence[Path], right: Sequence[Path]) -> Pairing | None:
    """Pair each image with the nearest in time, if all that varies in the names is one time stamp."""
    keys = _varying_tokens(left, right)
    times: list[list[Decimal]] = []
    for side in keys or ():
        numbers = [[token for token in key if token[0].isdigit()] for key in side]
        if any(len(n) != 1 or len(n[0].partition(".")[0]) < _MIN_TIME_DIGITS for n in numbers):
            return None
        times.append([Decimal(n[0]) for n in numbers])
    if len(times) != 2 or min(len(set(side)) for side in times) < 2:
        return None
    step = min(b - a for side in times for a, b in itertools.pairwise(sorted(set(side))))
    limit = _MAX_TIME_DIFFERENCE * step
    candidates = sorted(times[1])
    nearest = [_nearest(time, candidates) for time in times[0]]
    keys_by_time = [a if abs(a - b) <= limit else ("alone", b) for a, b in zip(nearest, times[0], strict=True)]
    found = _match(left, right, keys_by_time, times[1])
    if found is None or not found.pairs:
        return None
    differences = (abs(a - b) for a, b in zip(nearest, times[0], strict=True))
    largest = max(difference for difference in differences if difference <= limit)
    note = f"the images are paired by time stamps, which differ by up to {largest} where frames are {step} apart"
    return dataclasses.replace(found, note=note)


def _nearest(time: Decimal, candidates: Sequence[Decimal]) -> Decimal:
    """The nearest of the sorted `candidates`."""
    after = bisect.bisect_left(candidates, time)
    return min(candidates[max(after - 1, 0) : after + 1], key=lambda other: abs(other - time))


def _varying_tokens(left: Sequence[Path], right: Sequence[Path]) -> tuple[list[Parts], list[Parts]] | None:
    """What of each name, as tokens, is not the mark of its side; None if the sides differ in something else."""
    depth = max(_depth(left), _depth(right))
    sides = [[[_tokens(part) for part in _parts(path, depth)] for path in paths] for paths in (left, right)]
    keys: tuple[list[list[str]], list[list[str]]] = ([[] for _ in left], [[] for _ in right])
    for position in range(depth):
        columns = [[name[position] for name in side] for side in sides]
        lengths = {len(tokens) for column in columns for tokens in column}
        for place in range(max(lengths)):
            constants = [{tokens[place] for tokens in column} if len(lengths) == 1 else set() for column in columns]
            if all(len(values) == 1 for values in constants):
                (mark, other), before = (values.pop() for values in constants), columns[0][0][:place]
                if mark == other:
                    continue
                if not _tells_cameras(mark, other, before):
                    return None
            else:
                for side_keys, column in zip(keys, columns, strict=True):
                    for key, tokens in zip(side_keys, column, strict=True):
                        key += tokens[place : place + 1]
    left_keys, right_keys = ([tuple(key) for key in side] for side in keys)
    return left_keys, right_keys


def _tells_cameras(mark: str, other: str, before: Sequence[str]) -> bool:
    """Whether two tokens, each in all names of its side, may tell the cameras apart, and not the frames.

    `before` are the tokens that precede them. Words do. Numbers do after a word for a camera (im0 and im1, but not
    000002_10 and 000002_11), and if they are as long as serial numbers.
    """
    if not (mark[0].isdigit() and other[0].isdigit()):
        return True
    words = [token for token in before if token.isalnum()]
    after_camera = bool(words) and words[-1] in _CAMERA_WORDS
    return (after_camera and max(len(mark), len(other)) <= 2) or min(len(mark), len(other)) >= _MIN_SERIAL_DIGITS


def _depth(paths: Sequence[Path]) -> int:
    """How many of the last parts of the paths tell them apart: 1 for files of one folder."""
    folders = [path.absolute().parent for path in paths]
    common = Path(os.path.commonpath(folders))
    return 1 + max(len(folder.parts) for folder in folders) - len(common.parts)


def _parts(path: Path, depth: int) -> Parts:
    """The last `depth` parts of the path, without suffix."""
    return path.absolute().with_suffix("").parts[-depth:]


def _tokens(part: str) -> list[str]:
    """Words, numbers (without leading zeros) and what is between them, in lower case."""
    return [_plain(token) for token in _TOKEN.findall(part)]


def _plain(token: str) -> str:
    return (token.lstrip("0") or "0") if token.isdigit() else token.lower()


def _with_right(part: str) -> str:
    """`part` with each word left replaced by right and each L by R, also as leftImg, frameL or lcam."""

    def swap(token: str) -> str:
        for word, other in _SIDES.items():
            if token.lower() == word:
                return _in_case_of(token, other)
        return re.sub("left", lambda found: _in_case_of(found[0], "right"), token, flags=re.IGNORECASE)

    return "".join(swap(token) for token in _TOKEN.findall(part))


def _in_case_of(model: str, word: str) -> str:
    recase: Callable[[str], str] = str.upper if model.isupper() else str.title if model[0].isupper() else str.lower
    return recase(word)
