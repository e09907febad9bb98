import os
import signal
import struct
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.data.png_making import chunk, make_png
from tests.waiting import PATIENCE

from linstereo.data.datasets.reading import read_views
from linstereo.data.formats.decoding import _Quiet, quiet_opencv
from linstereo.data.formats.image_headers import check_picture
from linstereo.data.formats.images import image_size, read_image, to_rgb8, used_bits, write_image
from linstereo.data.sample import PairFiles
from linstereo.errors import InputError
from linstereo.image_pairs import read_pair

LOSSLESS = (".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm")
rgb_images = st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3)).flatmap(lambda s: hnp.arrays(np.uint8, s))


def smooth(height: int = 48, width: int = 64) -> np.ndarray:
    """An RGB picture without repetition, for which JPEG is nearly exact."""
    y, x = np.mgrid[0:height, 0:width] / 64
    return (127 + 100 * np.stack([np.sin(3 * x + y), np.cos(2 * y), np.sin(x * y + 1)], axis=-1)).astype(np.uint8)


def encoded(suffix: str, image: np.ndarray, *options: int) -> bytes:
    done, data = cv2.imencode(suffix, image, options)
    assert done
    return data.tobytes()


@pytest.mark.parametrize("suffix", LOSSLESS)
@given(image=rgb_images)
def test_lossless_round_trip(scratch: Path, image: np.ndarray, suffix: str) -> None:
    path = scratch / f"a{suffix}"
    write_image(path, image)
    np.testing.assert_array_equal(read_image(path), image)
    np.testing.assert_array_equal(cv2.imread(str(path), cv2.IMREAD_COLOR)[..., ::-1], image)


@pytest.mark.parametrize("suffix", [".jpg", ".jpeg", ".JPG"])
def test_jpeg_is_close(tmp_path: Path, suffix: str) -> None:
    write_image(tmp_path / f"a{suffix}", smooth())
    back = read_image(tmp_path / f"a{suffix}")
    assert np.abs(back.astype(int) - smooth()).mean() < 1.5


def test_grey_is_written_and_replicated(tmp_path: Path) -> None:
    grey = smooth()[..., 0]
    write_image(tmp_path / "a.png", grey)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), np.repeat(grey[..., None], 3, axis=2))


def test_the_content_decides_not_the_name(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(encoded(".bmp", smooth()[..., ::-1]))
    np.testing.assert_array_equal(read_image(path), smooth())


@given(values=hnp.arrays(np.uint16, (3, 5)))
def test_16_bits_are_rounded_to_8(scratch: Path, values: np.ndarray) -> None:
    folder = scratch
    white = max(2 ** int(values.max()).bit_length() - 1, 255)  # of the bits that are used
    expected = np.repeat(np.rint(values * (255 / white)).astype(np.uint8)[..., None], 3, axis=2)
    for suffix in (".png", ".tif", ".pgm"):
        (folder / f"a{suffix}").write_bytes(encoded(suffix, values))
        np.testing.assert_array_equal(read_image(folder / f"a{suffix}"), expected)


def test_all_16_bit_values() -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    np.testing.assert_array_equal(to_rgb8(values)[..., 1], np.rint(values / 257))


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 15, 16])
def test_bits_that_are_used(bits: int) -> None:
    values = np.array([[0, 5, 2**bits - 1]], np.uint16)
    assert used_bits(values[..., None]) == bits
    np.testing.assert_array_equal(to_rgb8(values)[0, :, 0], [0, round(5 * 255 / (2**bits - 1)), 255])
    dark = np.array([[[0], [5], [255]]], np.uint16)
    assert used_bits(dark, values[..., None]) == bits  # the images of a pair together
    assert to_rgb8(dark, bits=bits)[0, 2, 0] == round(255 * 255 / (2**bits - 1))
    assert used_bits(np.full((2, 2, 1), 255, np.uint8), values[..., None]) == bits


def test_a_pair_is_scaled_alike_and_alpha_does_not_count(tmp_path: Path) -> None:
    left = np.full((32, 40, 4), 900, np.uint16)
    right = np.full((32, 40, 4), 4000, np.uint16)
    for name, array in (("l", left), ("r", right)):
        array[..., 3] = 65535
        (tmp_path / f"{name}.png").write_bytes(encoded(".png", array))
    files = PairFiles(name="a", left=tmp_path / "l.png", right=tmp_path / "r.png")
    for first, second in (read_views(files), read_pair(files.left, files.right), read_pair(left, right)):
        assert (first == round(900 * 255 / 4095)).all()
        assert (second == round(4000 * 255 / 4095)).all()


def test_a_pgm_that_says_what_is_white_is_not_stretched_further(tmp_path: Path) -> None:
    values = np.full((4, 5), 1000, ">u2")
    (tmp_path / "a.pgm").write_bytes(b"P5\n5 4\n4095\n" + values.tobytes())
    assert (read_image(tmp_path / "a.pgm") == round(1000 * 255 / 4095)).all()


@pytest.mark.parametrize(("suffix", "dtype"), [(".png", np.uint8), (".png", np.uint16), (".webp", np.uint8)])
def test_alpha_is_dropped_not_applied(tmp_path: Path, suffix: str, dtype: type) -> None:
    alpha = np.arange(48 * 64, dtype=np.uint32).reshape(48, 64, 1) % 255
    bgra = np.concatenate([smooth()[..., ::-1], alpha], axis=-1).astype(dtype) * dtype(257 if dtype == np.uint16 else 1)
    (tmp_path / f"a{suffix}").write_bytes(encoded(suffix, bgra, cv2.IMWRITE_WEBP_QUALITY, 101))
    back = read_image(tmp_path / f"a{suffix}")
    opaque = (alpha[..., 0] > 0) if suffix == ".webp" else np.ones((48, 64), bool)  # WebP drops invisible colours
    np.testing.assert_array_equal(back[opaque], smooth()[opaque])


def test_transparent_tiff_is_refused(tmp_path: Path) -> None:
    """OpenCV multiplies its colours with alpha."""
    bgra = np.concatenate([smooth()[..., ::-1], np.full((48, 64, 1), 255, np.uint8)], axis=-1)
    (tmp_path / "a.tif").write_bytes(encoded(".tif", bgra))
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), smooth())
    bgra[3, 4, 3] = 128
    (tmp_path / "a.tif").write_bytes(encoded(".tif", bgra))
    with pytest.raises(InputError, match=r"a\.tif is a TIFF file with transparent pixels"):
        read_image(tmp_path / "a.tif")


def test_unusual_pngs(tmp_path: Path) -> None:
    """Palette, 1-bit grey, grey with alpha, made by an independent encoder."""
    colours = np.random.default_rng(2).integers(0, 256, (16, 3), dtype=np.uint8)
    indices = np.arange(24, dtype=np.uint8).reshape(4, 6) % 16
    path = tmp_path / "a.png"
    path.write_bytes(make_png(indices, bit_depth=8, colour_type=3, extra=chunk(b"PLTE", colours.tobytes())))
    np.testing.assert_array_equal(read_image(path), colours[indices])
    bits = np.random.default_rng(3).integers(0, 2, (5, 16), dtype=np.uint8)
    path.write_bytes(make_png(np.packbits(bits, axis=1), bit_depth=1, colour_type=0))
    np.testing.assert_array_equal(read_image(path), np.repeat(255 * bits[..., None], 3, axis=2))
    pairs = np.arange(24, dtype=np.uint8).reshape(3, 8)
    path.write_bytes(make_png(pairs, bit_depth=8, colour_type=4))
    np.testing.assert_array_equal(read_image(path), np.repeat(pairs[:, ::2, None], 3, axis=2))


@pytest.mark.parametrize(
    ("maximum", "dtype"), [(1, "u1"), (15, "u1"), (255, "u1"), (1023, ">u2"), (4095, ">u2"), (65535, ">u2")]
)
def test_pgm_with_any_maximum_reaches_white(tmp_path: Path, maximum: int, dtype: str) -> None:
    """OpenCV would leave a 12-bit picture nearly black."""
    values = np.linspace(0, maximum, 20).round().astype(dtype).reshape(4, 5)
    path = tmp_path / "a.pgm"
    path.write_bytes(b"P5\n# a comment\n5 4\n%d\n" % maximum + values.tobytes())
    back = read_image(path)[..., 0]
    assert (back[0, 0], back[-1, -1]) == (0, 255)
    np.testing.assert_allclose(back, values.astype(float) * 255 / maximum, atol=0.51)


def with_orientation(jpeg: bytes, orientation: int) -> bytes:
    """`jpeg` with an EXIF segment that says how to turn it."""
    entry = struct.pack("<HHIHH", 0x0112, 3, 1, orientation, 0)
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + struct.pack("<I", 0)
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:]


def test_exif_orientation_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(with_orientation(encoded(".jpg", smooth()[..., ::-1]), 6))
    assert cv2.imread(str(path)).shape == (64, 48, 3), "the file must ask for a turn, or this test shows nothing"
    back = read_image(path)
    assert back.shape == (48, 64, 3)
    assert np.abs(back.astype(int) - smooth()).mean() < 2


VALID = {
    ".png": encoded(".png", smooth()),
    ".jpg": encoded(".jpg", smooth()),
    "progressive.jpg": encoded(".jpg", smooth(), cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
    ".bmp": encoded(".bmp", smooth()),
    ".tif": encoded(".tif", smooth()),
    "plain.tif": encoded(".tif", smooth(), cv2.IMWRITE_TIFF_COMPRESSION, 1),
    ".webp": encoded(".webp", smooth(), cv2.IMWRITE_WEBP_QUALITY, 101),
    "lossy.webp": encoded(".webp", smooth(), cv2.IMWRITE_WEBP_QUALITY, 80),
    ".ppm": encoded(".ppm", smooth()),
}


@pytest.mark.parametrize("name", VALID)
def test_every_truncation_is_an_error(tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Never a half-grey picture; and nothing is printed by the decoders."""
    path = tmp_path / f"a{name}"
    data = VALID[name]
    path.write_bytes(data)
    assert read_image(path).shape == (48, 64, 3)
    lengths = {*range(1, 40), *np.linspace(40, len(data) - 1, 60).astype(int), len(data) - 1}
    for length in sorted(lengths):
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match=r"a.*\.(png|jpg|bmp|tif|webp|ppm)"):
            read_image(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", [".png", ".jpg", "progressive.jpg", ".bmp", "plain.tif", ".webp", "lossy.webp"])
def test_truncations_are_found_before_decoding(name: str) -> None:
    """Older versions of OpenCV decode truncated files without an error."""
    data = VALID[name]
    assert check_picture(data, "a") == (64, 48)
    for length in range(len(data)):
        with pytest.raises(InputError, match=r"^a is not a"):
            check_picture(data[:length], "a")


def forged(name: str, old: bytes, new: bytes) -> bytes:
    data = VALID[name]
    assert old in data[:200] or old in data[-400:]
    return data.replace(old, new, 1)


@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        (".png", make_png(np.zeros((3, 4), np.uint8), bit_depth=8, colour_type=0, size=(10**9, 10**9))),
        (".jpg", forged(".jpg", struct.pack(">HH", 48, 64), struct.pack(">HH", 65535, 65535))),
        (".jpg", forged("progressive.jpg", struct.pack(">HH", 48, 64), struct.pack(">HH", 11000, 11000))),
        (".bmp", forged(".bmp", struct.pack("<ii", 64, 48), struct.pack("<ii", 2**31 - 1, 2**31 - 1))),
        (".bmp", forged(".bmp", struct.pack("<ii", 64, 48), struct.pack("<ii", 40000, -(2**31)))),
        (".bmp", forged(".bmp", struct.pack("<ii", 64, 48), struct.pack("<ii", -64, 48))),
        (".tif", forged("plain.tif", struct.pack("<HHII", 256, 3, 1, 64), struct.pack("<HHII", 256, 4, 1, 2**32 - 1))),
        (".webp", forged(".webp", VALID[".webp"][21:25], b"\xff\xff\xff\x0f")),
        (".ppm", b"P6\n999999999 999999999\n255\n" + bytes(100)),
        (".ppm", b"P6\n2 2\n70000\n" + bytes(100)),
        (".ppm", b"P6\n2 2\n0\n" + bytes(100)),
    ],
)
def test_forged_sizes_are_refused(tmp_path: Path, suffix: str, data: bytes) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"a\{suffix} (says it is|has|holds|is not a complete)"):
        read_image(path)


@pytest.mark.parametrize(
    "data", [b"GIF89a" + bytes(50), b"P1\n1 1\n0\n", b"#?RADIANCE\n", b"hello, world", b"\xff\xd8"]
)
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.png is not a PNG, JPEG, BMP, TIFF, WebP or binary PPM/PGM picture"):
        read_image(path)


@pytest.mark.parametrize("suffix", [".tif", ".tiff"])
def test_float_tiff_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(encoded(suffix, np.zeros((4, 5), np.float32)))
    with pytest.raises(InputError, match=r"of floating-point or signed values"):
        read_image(path)


def tiff_with(tag: int, value: int) -> bytes:
    """A plain 16-bit TIFF whose field `tag` is set to `value`."""
    samples = np.arange(12, dtype="<u2").tobytes()
    fields = {256: 4, 257: 3, 258: 16, 259: 1, 262: 1, 273: 8, 277: 1, 278: 3, 279: len(samples), 284: 1, tag: value}
    entries = b"".join(struct.pack("<HHIHH", key, 3, 1, fields[key], 0) for key in sorted(fields))
    head = b"II*\0" + struct.pack("<I", 8 + len(samples))
    return head + samples + struct.pack("<H", len(fields)) + entries + struct.pack("<I", 0)


def test_tiffs_that_opencv_would_change_silently(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(tiff_with(262, 1))
    assert read_image(path).shape == (3, 4, 3)
    for tag, value, message in (
        (262, 0, "inverted grey"),
        (284, 2, "separate colour planes"),
        (274, 3, "stored turned or mirrored"),
        (274, 6, "stored turned or mirrored"),
        (258, 12, "of 12 bits"),
        (339, 3, "floating-point"),
        (277, 5, "more than four channels"),
    ):
        path.write_bytes(tiff_with(tag, value))
        with pytest.raises(InputError, match=message):
            read_image(path)


def test_tiff_that_ends_before_its_pixels_do() -> None:
    """With the directory in front of the pixels, as many writers place it."""
    fields = {256: 4, 257: 3, 258: 8, 259: 1, 262: 1, 273: 8 + 2 + 9 * 12 + 4, 277: 1, 278: 3, 279: 12}
    entries = b"".join(struct.pack("<HHIHH", key, 3, 1, value, 0) for key, value in fields.items())
    data = b"II*\0" + struct.pack("<IH", 8, len(fields)) + entries + bytes(4) + bytes(12)
    assert check_picture(data, "a") == (4, 3)
    for length in range(len(data) - 12, len(data)):
        with pytest.raises(InputError, match="its end is missing"):
            check_picture(data[:length], "a")


def test_compressed_bmp_is_refused() -> None:
    data = bytearray(VALID[".bmp"])
    data[30] = 1
    with pytest.raises(InputError, match="is a compressed BMP file; convert it to PNG"):
        check_picture(bytes(data), "a")


def test_opencv_is_silent_about_files_it_cannot_decode(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(tiff_with(259, 5))  # says that its pixels are LZW codes
    before = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_INFO)
    assert cv2.imread(str(path), cv2.IMREAD_UNCHANGED) is None
    assert "TIFF" in capfd.readouterr().err, "OpenCV must complain of itself, or this test shows nothing"
    with pytest.raises(InputError, match=r"a\.tif cannot be decoded"):
        read_image(path)
    cv2.utils.logging.setLogLevel(before)
    assert capfd.readouterr() == ("", "")


def test_paths_that_are_no_pictures(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.png does not exist"):
        read_image(tmp_path / "a.png")
    with pytest.raises(InputError, match="is a folder"):
        read_image(tmp_path)
    (tmp_path / "a.png").touch()
    with pytest.raises(InputError, match=r"a\.png is empty"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1), (4, 5, 2), (4, 5, 3), (4, 5, 4)])
def test_arrays_in_memory(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(4).integers(0, 256, shape, dtype=np.uint8)
    result = to_rgb8(array)
    assert result.shape == (4, 5, 3)
    assert result.dtype == np.uint8
    assert result.flags.c_contiguous
    grey = array.ndim == 2 or array.shape[2] <= 2
    channels = array.reshape(4, 5, -1)
    np.testing.assert_array_equal(result, np.repeat(channels[..., :1], 3, axis=2) if grey else channels[..., :3])


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 5, 3)),
        np.zeros((4, 5, 3), np.int16),
        np.zeros((4, 5, 3), bool),
        np.zeros(5, np.uint8),
        np.zeros((4, 5, 5), np.uint8),
        np.zeros((0, 5, 3), np.uint8),
        np.zeros((1, 4, 5, 3), np.uint8),
        "text",
    ],
)
def test_unsuitable_arrays_in_memory(array: object) -> None:
    with pytest.raises(InputError, match=r"^the left image (holds|has the shape)"):
        to_rgb8(array, name="the left image")  # type: ignore[arg-type]


def test_unsuitable_writing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the suffix '\.gif' is not one of"):
        write_image(tmp_path / "a.gif", smooth())
    for image in (smooth().astype(float), np.zeros((2, 2, 4), np.uint8), np.zeros((0, 2), np.uint8)):
        with pytest.raises(InputError, match="it must be uint8"):
            write_image(tmp_path / "a.png", image)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"\.webp does not take this picture of 20000 x 1 pixels"):
        write_image(tmp_path / "a.webp", np.zeros((1, 20000, 3), np.uint8))
    assert not list(tmp_path.iterdir())


def test_opencv_logs_as_before_after_threads_read_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(make_png(np.zeros((3, 4), np.uint8), bit_depth=8, colour_type=0, size=(4, 300)))
    before = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_INFO)

    def work() -> None:
        for _ in range(30):
            with pytest.raises(InputError):
                read_image(path)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cv2.utils.logging.setLogLevel(before) == cv2.utils.logging.LOG_LEVEL_INFO


def test_a_forked_process_can_decode_while_its_parent_does(tmp_path: Path) -> None:
    """A lock held by another thread at the moment of the fork would never be released in the child."""
    path = tmp_path / "a.png"
    write_image(path, smooth())
    before = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_INFO)
    with quiet_opencv(), _Quiet.lock:
        child = os.fork()
        if child == 0:
            signal.alarm(round(PATIENCE))  # ends the child if it waits for the lock for ever
            level = cv2.utils.logging.getLogLevel()
            same = np.array_equal(read_image(path), smooth())
            os._exit(0 if same and level == cv2.utils.logging.LOG_LEVEL_INFO else 1)
        _, status = os.waitpid(child, 0)
    cv2.utils.logging.setLogLevel(before)
    assert status == 0


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".tif", ".webp", ".ppm"])
def test_the_size_is_known_without_decoding(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"a{suffix}"
    write_image(path, smooth())
    monkeypatch.setattr("linstereo.data.formats.images.decode", lambda *args, **kwargs: pytest.fail("decoded"))
    assert image_size(path) == (64, 48)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError):
        image_size(path)


def test_an_image_too_large_for_the_memory_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise MemoryError

    write_image(tmp_path / "a.png", smooth())
    monkeypatch.setattr("linstereo.data.formats.decoding.cv2.imdecode", fail)
    with pytest.raises(InputError, match=r"a\.png does not fit into memory once it is decoded"):
        read_image(tmp_path / "a.png")
