"""10,000 damaged files: each reader gives a valid array or one InputError naming the file, and stays within its memory.

The readers run in a process of their own, so that a crash of a decoder is a failed test and not the end of all tests,
and so that its memory can be limited: a forged header that made a reader allocate gigabytes would break that limit.
"""

import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import OpenEXR
import pytest
from tests.data.camera_files import kalibr_text, opencv_fields, write_opencv
from tests.data.formats.test_calibration_files import KITTI_RAW, MIDDLEBURY
from tests.data.formats.test_mat import compressed, mat_file, variable
from tests.data.mat_files import NESTED_OBJECTS, OBJECT_WITH_SAVEOBJ
from tests.data.png_making import chunk
from tests.geometry.raw_pairs import raw_rig
from tests.waiting import PATIENCE

from linstereo.data.datasets.squid_files import read_squid_calibration, read_squid_distance
from linstereo.data.formats.calibration_files import read_kitti_calibration, read_middlebury_calibration
from linstereo.data.formats.camera_files import cameras_for_size
from linstereo.data.formats.disparity import read_disparity, write_disparity
from linstereo.data.formats.exr import read_exr, write_exr
from linstereo.data.formats.images import read_image, write_image
from linstereo.data.formats.npy import read_npy
from linstereo.data.formats.packed_depth import read_packed_depth, write_packed_depth
from linstereo.data.formats.pfm import read_pfm, write_pfm
from linstereo.data.formats.png import read_png_values
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.stereo_rig import StereoRig

CORRUPTIONS = 10_000
MEMORY_LIMIT = 2 * 2**30  # of all address space beyond what the libraries take when they are loaded
ABSURD = [
    b"\xff" * 4,
    b"\xff\xff\xff\x7f",
    b"\x7f\xff\xff\xff",
    bytes(4),
    b"\0\0\0\x80",
    b"\x80\0\0\0",
    b"\xff\xff",
    b"9" * 9,
]
RNG = np.random.default_rng(7)
PICTURE = cv2.GaussianBlur(RNG.integers(0, 256, (24, 31, 3), dtype=np.uint8), (0, 0), 2)
MAP = RNG.uniform(0.5, 60, (13, 17)).astype(np.float32)

Reader = Callable[[Path], Any]


def read_raw_cameras(path: Path) -> StereoCalibration | StereoRig:
    return cameras_for_size(path, width=640, height=480, image="left.png", resize=True)


def originals(folder: Path) -> Iterator[tuple[Reader, str, bytes]]:
    """For each reader and kind of file: the reader, the suffix and an undamaged file."""

    def written(suffix: str, write: Callable[[Path], object]) -> bytes:
        path = folder / f"original{suffix}"
        write(path)
        return path.read_bytes()

    for suffix in (".png", ".jpg", ".bmp", ".tif", ".webp", ".ppm"):
        yield read_image, suffix, written(suffix, lambda path: write_image(path, PICTURE))
    for suffix, option, value in (
        (".jpg", cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
        (".tif", cv2.IMWRITE_TIFF_COMPRESSION, 1),
        (".webp", cv2.IMWRITE_WEBP_QUALITY, 75),
    ):
        yield read_image, suffix, cv2.imencode(suffix, PICTURE, (option, value))[1].tobytes()
    deep = PICTURE.astype(np.uint16) * 257
    yield read_image, ".tif", cv2.imencode(".tif", deep)[1].tobytes()
    yield read_image, ".png", cv2.imencode(".png", np.dstack([deep, deep[..., :1]]))[1].tobytes()
    yield read_png_values, ".png", cv2.imencode(".png", PICTURE[..., 0])[1].tobytes()
    for suffix in (".pfm", ".png", ".npy"):
        yield read_disparity, suffix, written(suffix, lambda path: write_disparity(path, MAP))
    yield read_disparity, ".exr", written(".exr", lambda path: write_exr(path, MAP))
    colour = written(".pfm", lambda path: write_pfm(path, PICTURE.astype(np.float32), little_endian=False))
    yield read_pfm, ".pfm", colour
    yield read_npy, ".npy", written(".npy", lambda path: np.save(path, np.asfortranarray(MAP.astype(np.float64))))
    yield read_packed_depth, ".png", written(".png", lambda path: write_packed_depth(path, MAP))
    for compression in (OpenEXR.PIZ_COMPRESSION, OpenEXR.RLE_COMPRESSION):
        header = {"type": OpenEXR.scanlineimage, "compression": compression}
        channels = {"ViewLayer.Depth.Z": MAP, "ViewLayer.Combined.R": MAP.astype(np.float16)}
        yield read_exr, ".exr", written(".exr", lambda path, h=header, c=channels: OpenEXR.File(h, c).write(str(path)))
    yield read_middlebury_calibration, ".txt", MIDDLEBURY.encode()
    yield read_kitti_calibration, ".txt", KITTI_RAW.encode()
    for suffix in (".yml", ".xml"):
        yield read_raw_cameras, suffix, written(suffix, lambda path: write_opencv(path, opencv_fields(raw_rig())))
    yield read_raw_cameras, ".yaml", kalibr_text(raw_rig()).encode()
    yield read_squid_calibration, ".mat", NESTED_OBJECTS
    yield read_squid_calibration, ".mat", OBJECT_WITH_SAVEOBJ
    yield read_squid_distance, ".mat", mat_file(variable("dist_map_l", MAP.astype(np.float64)))
    yield read_squid_distance, ".mat", mat_file(compressed(variable("dist_map_l", MAP.astype(np.float64))))


def corrupt(data: bytes, rng: np.random.Generator) -> bytes:
    """`data` truncated, or with bytes or bits changed, absurd numbers set, pieces cut out, repeated or moved."""
    result = bytearray(data)
    kind = rng.integers(7)
    reach = len(data) if rng.random() < 0.5 else min(len(data), 160)  # headers are small and matter most
    if kind == 0:
        return data[: rng.integers(len(data))]
    for _ in range(rng.integers(1, 5)):
        position = int(rng.integers(reach))
        end = min(position + int(rng.integers(1, 40)), len(result))
        if kind == 1:
            result[position % len(result)] = rng.integers(256)
        elif kind == 2:
            result[position % len(result)] ^= 1 << rng.integers(8)
        elif kind == 3:
            value = ABSURD[rng.integers(len(ABSURD))]
            result[position : position + len(value)] = value
        elif kind == 4:
            del result[position:end]
        elif kind == 5:
            result[position:position] = result[position:end]
        else:
            result[position:end] = rng.bytes(end - position)
        if not result:
            return b"\0"
    return bytes(result)


def repair_png(data: bytes) -> bytes:
    """Correct checksums, so that a damaged PNG gets past them."""
    result, position = data[:8], 8
    while position + 12 <= len(data):
        length = struct.unpack_from(">I", data, position)[0]
        if position + 12 + length > len(data):
            break
        result += chunk(data[position + 4 : position + 8], data[position + 8 : position + 8 + length])
        position += 12 + length
    return result + data[position:]


def is_valid(value: object) -> bool:
    if isinstance(value, StereoCalibration | StereoRig):
        return True
    return (
        isinstance(value, np.ndarray) and value.ndim in (2, 3) and 0 < value.size < 2**27 and value.dtype.kind in "fiu"
    )


def run(folder: Path, *, seed: int, count: int) -> dict[str, int]:
    """Read `count` damaged files, raising whatever is not a valid result or a proper InputError."""
    rng = np.random.default_rng(seed)
    samples = list(originals(folder))
    for read, suffix, data in samples:
        path = folder / f"whole{suffix}"
        path.write_bytes(data)
        assert is_valid(read(path)), f"the undamaged {suffix} file of {read.__name__} must be readable"
    tally = {"valid": 0, "refused": 0}
    for index in range(count):
        read, suffix, data = samples[index % len(samples)]
        damaged = corrupt(data, rng)
        if suffix == ".png" and rng.random() < 0.5:
            damaged = repair_png(damaged)
        path = folder / f"damaged{suffix}"
        path.write_bytes(damaged)
        (folder / "current").write_text(f"{index} {read.__name__} {suffix}")
        try:
            value = read(path)
        except InputError as error:
            message = str(error)
            assert str(path) in message, message
            assert "\n" not in message, message
            tally["refused"] += 1
        else:
            assert is_valid(value), (index, read.__name__, value)
            tally["valid"] += 1
    return tally


def limited_process(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` of this module in a process whose address space is limited."""
    program = f"""
import resource
from pathlib import Path
from tests.data.formats import test_corruption as module
with open("/proc/self/statm") as stream:
    used = int(stream.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + module.MEMORY_LIMIT,) * 2)
folder = Path({str(folder)!r})
{code}
"""
    environment = {**os.environ, "OPENCV_LOG_LEVEL": "SILENT", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    root = Path(__file__).resolve().parents[3]
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


linux_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is limited through /proc and RLIMIT_AS"
)


@linux_only
@pytest.mark.parametrize("seed", [1, 2])
def test_ten_thousand_corruptions(tmp_path: Path, seed: int) -> None:
    code = f"import json; print('tally', json.dumps(module.run(folder, seed={seed}, count={CORRUPTIONS // 2})))"
    done = limited_process(tmp_path, code)
    where = (tmp_path / "current").read_text() if (tmp_path / "current").exists() else "the start"
    assert done.returncode == 0, f"at {where}: {done.stderr[-3000:]}"
    tally = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("tally"))[6:])
    assert sum(tally.values()) == CORRUPTIONS // 2
    assert min(tally.values()) > CORRUPTIONS // 50, f"both outcomes must occur: {tally}"


def huge_files() -> dict[str, tuple[Reader, bytes]]:
    """Small files, correct in all else, whose headers ask for many gigabytes or just less than is refused."""
    side = 11_585  # side * side is the largest number of pixels that is read
    jpeg = cv2.imencode(".jpg", PICTURE)[1].tobytes()
    progressive = cv2.imencode(".jpg", PICTURE, (cv2.IMWRITE_JPEG_PROGRESSIVE, 1))[1].tobytes()
    bmp = cv2.imencode(".bmp", PICTURE)[1].tobytes()
    webp = cv2.imencode(".webp", PICTURE, (cv2.IMWRITE_WEBP_QUALITY, 75))[1].tobytes()
    exact = cv2.imencode(".webp", PICTURE, (cv2.IMWRITE_WEBP_QUALITY, 101))[1].tobytes()
    png_header = struct.pack(">IIBBBBB", side, side, 16, 6, 0, 0, 0)
    blank = zlib.compress(bytes(2**20), 9)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", png_header) + chunk(b"IDAT", blank * 1200) + chunk(b"IEND", b"")
    size, large = struct.pack(">HH", 24, 31), struct.pack(">HH", 65535, 65535)
    fill = b"\xff\xfe" + struct.pack(">H", 60002) + bytes(60000)  # comments, to look large enough
    npy = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }\n"
    values = variable("dist_map_l", np.ones((1, 1)), shape=(2**15, 2**15))
    return {
        "a.png": (read_image, png),
        "a.jpg": (read_image, jpeg.replace(size, large)),
        "b.jpg": (read_image, jpeg[:2] + fill * 3 + jpeg[2:].replace(size, struct.pack(">HH", 11585, 11585))),
        "c.jpg": (
            read_image,
            progressive[:2] + fill * 3 + progressive[2:].replace(size, struct.pack(">HH", 11585, 11585)),
        ),
        "a.bmp": (read_image, bmp.replace(struct.pack("<ii", 31, 24), struct.pack("<ii", 2**30, 2**30))),
        "b.bmp": (read_image, rle_bmp(side)),
        "a.webp": (read_image, webp.replace(struct.pack("<HH", 31, 24), struct.pack("<HH", 16383, 16383))),
        "b.webp": (read_image, exact[:21] + b"\xff\xff\xff\x0f" + exact[25:]),
        "c.webp": (read_image, exact[:21] + struct.pack("<I", (side - 1) | (side - 1) << 14) + exact[25:]),
        "a.ppm": (read_image, b"P6\n60000 60000\n255\n" + bytes(1000)),
        "a.pfm": (read_pfm, b"PF\n60000 60000\n-1\n" + bytes(1000)),
        "a.npy": (read_npy, b"\x93NUMPY\1\0" + struct.pack("<H", 76) + (npy % (10**5, 10**5)).ljust(76) + bytes(99)),
        "a.mat": (read_squid_distance, mat_file(values)),
        "b.mat": (read_squid_distance, mat_file(compressed(values))),
        "c.mat": (read_squid_distance, mat_file(bomb())),
        "a.tif": (read_image, tiff(side, side, bits=16, channels=4)),
        "b.tif": (read_image, tiff(2**20, 2**20, bits=8, channels=3)),
        "c.tif": (read_image, tiff(side, side, bits=8, channels=3, tile=2**16)),
    }


def bomb() -> bytes:
    """A compressed variable of a few megabytes that would grow to more than is decompressed."""
    megabytes = 600
    head = variable("dist_map_l", np.zeros((1, 1)), shape=(2**13, 2**13))[8:-16]
    packer = zlib.compressobj(1)
    body = packer.compress(struct.pack("<II", 14, megabytes * 2**20) + head)
    body += b"".join(packer.compress(bytes(2**20)) for _ in range(megabytes)) + packer.flush()
    return struct.pack("<II", 15, len(body)) + body


def rle_bmp(side: int) -> bytes:
    """A run-length encoded picture with almost no runs."""
    palette = bytes(1024)
    header = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 8, 1, 4, 0, 0, 256, 0)
    return b"BM" + struct.pack("<IHHI", 14 + 40 + 1024 + 4, 0, 0, 14 + 40 + 1024) + header + palette + b"\x05\x01\0\1"


def tiff(width: int, height: int, *, bits: int, channels: int, tile: int = 0) -> bytes:
    """An uncompressed picture of one byte."""
    strips = {322: tile, 323: tile, 324: 8, 325: 1} if tile else {273: 8, 278: height, 279: 1}
    fields = {256: width, 257: height, 258: bits, 259: 1, 262: 2, 277: channels, 284: 1, **strips}
    entries = b"".join(struct.pack("<HHII", key, 4, 1, fields[key]) for key in sorted(fields))
    return b"II*\0" + struct.pack("<I", 16) + bytes(8) + struct.pack("<H", len(fields)) + entries + bytes(4)


def read_huge_files(folder: Path) -> dict[str, str]:
    """What each of the huge files is answered with."""
    answers = {}
    for name, (read, data) in huge_files().items():
        path = folder / name
        path.write_bytes(data)
        try:
            value = read(path)
        except InputError as error:
            answers[name] = str(error)
        else:
            answers[name] = f"read {value.shape}"
    path = folder / "a.exr"
    for width, height in ((2**24, 2**24), (11_585, 11_585)):
        write_exr(path, MAP)
        window = np.array([0, 0, MAP.shape[1] - 1, MAP.shape[0] - 1], dtype="<i4").tobytes()
        forged = np.array([0, 0, width - 1, height - 1], dtype="<i4").tobytes()
        path.write_bytes(path.read_bytes().replace(window, forged))
        try:
            answers[f"{width}.exr"] = f"read {read_exr(path).shape}"
        except InputError as error:
            answers[f"{width}.exr"] = str(error)
    return answers


@linux_only
def test_forged_headers_cannot_take_gigabytes(tmp_path: Path) -> None:
    done = limited_process(tmp_path, "import json; print('answers', json.dumps(module.read_huge_files(folder)))")
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("answers"))[8:])
    assert len(answers) == 20
    for name, answer in answers.items():
        assert f".{name.split('.')[1]} " in answer, f"{name}: {answer}"
    assert "too large" in answers["c.mat"]
