"""Pictures in the image messages of ROS: sensor_msgs/Image with its encodings, and sensor_msgs/CompressedImage."""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.data.formats.images import decode_pixels
from linstereo.errors import InputError
from linstereo.files import check_pixel_count

IMAGE_TYPES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")
"""Types of messages that hold a picture."""
_CHANNELS = {
    "mono8": 1, "8uc1": 1, "mono16": 1, "16uc1": 1,
    "rgb8": 3, "bgr8": 3, "8uc3": 3, "rgb16": 3, "bgr16": 3, "16uc3": 3,
    "rgba8": 4, "bgra8": 4, "8uc4": 4, "rgba16": 4, "bgra16": 4, "16uc4": 4,
    "yuv422": 2, "uyvy": 2, "yuv422_yuy2": 2, "yuyv": 2,
}  # fmt: skip
_BAYER = {  # OpenCV names a pattern by the second row from the second column on
    "bayer_rggb": cv2.COLOR_BayerBG2RGB,
    "bayer_bggr": cv2.COLOR_BayerRG2RGB,
    "bayer_gbrg": cv2.COLOR_BayerGR2RGB,
    "bayer_grbg": cv2.COLOR_BayerGB2RGB,
}
_YUV = {
    "yuv422": cv2.COLOR_YUV2RGB_UYVY,
    "uyvy": cv2.COLOR_YUV2RGB_UYVY,
    "yuv422_yuy2": cv2.COLOR_YUV2RGB_YUY2,
    "yuyv": cv2.COLOR_YUV2RGB_YUY2,
}


def message_picture(message: Any, name: str) -> npt.NDArray[Any]:
    """The picture of an image message: uint8 or uint16, grey [H, W, 1] or RGB [H, W, 3].

    Args:
        message: an Image or a CompressedImage, deserialised; of the former `encoding` is one of mono, rgb, bgr, rgba,
            bgra, Bayer patterns and OpenCV's names with 8 or 16 bits, or YUV 4:2:2.
        name: what to call it in an error.
    """
    if not hasattr(message, "encoding"):
        return decode_pixels(np.asarray(message.data, np.uint8).tobytes(), name)
    encoding = str(message.encoding).lower()
    bayer = next((pattern for pattern in _BAYER if encoding in (f"{pattern}8", f"{pattern}16")), None)
    channels = 1 if bayer else _CHANNELS.get(encoding)
    if channels is None:
        raise InputError(
            f"{name} has the encoding {str(message.encoding)[:40]!r}; give a topic of mono, rgb, bgr, rgba, bgra, "
            "bayer or yuv422 images of 8 or 16 bits, or of compressed ones"
        )
    pixels = _values(message, channels=channels, wide="16" in encoding, name=name)
    if bayer:
        return np.asarray(cv2.cvtColor(pixels[..., 0], _BAYER[bayer]))
    if encoding in _YUV:
        return np.asarray(cv2.cvtColor(pixels, _YUV[encoding]))
    if channels >= 3:
        blue_first = not encoding.startswith("rgb")  # OpenCV's own names, 8UC3, stand for its own order
        return np.ascontiguousarray(pixels[..., 2::-1] if blue_first else pixels[..., :3])
    return pixels


def _values(message: Any, *, channels: int, wide: bool, name: str) -> npt.NDArray[Any]:
    """The pixels of an Image as stored, [H, W, channels], without what fills its rows up."""
    height, width, step = int(message.height), int(message.width), int(message.step)
    check_pixel_count(width=width, height=height, path=name)
    kind = np.dtype(np.uint16 if wide else np.uint8).newbyteorder(">" if message.is_bigendian else "<")
    needed = width * channels * kind.itemsize
    data = np.asarray(message.data, np.uint8)
    if step < needed or data.size < step * (height - 1) + needed:
        raise InputError(
            f"{name} has {data.size} bytes in rows of {step}, too few for {width} x {height} px of "
            f"{str(message.encoding)[:40]}; the bag is damaged, copy it again"
        )
    rows = np.lib.stride_tricks.as_strided(data, (height, needed), (step * data.strides[0], data.strides[0]))
    values = np.ascontiguousarray(rows).view(kind).reshape(height, width, channels)
    return values.astype(kind.newbyteorder("="))
