"""Bags written with rosbags: stereo frames in any version, storage and encoding."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

START = 1_700_000_000_123_456_789
STEP = 33_333_333
VERSIONS = ("ros1", "sqlite3", "mcap")
TOPICS = ("/stereo/left/image_raw", "/stereo/right/image_raw")


class BagWriter:
    """Writes messages of one of `VERSIONS`."""

    def __init__(self, path: Path, version: str) -> None:
        self.ros1 = version == "ros1"
        self.store = get_typestore(Stores.ROS1_NOETIC if self.ros1 else Stores.ROS2_HUMBLE)
        if self.ros1:
            self.writer: Any = Writer1(path)
        else:
            storage = StoragePlugin.MCAP if version == "mcap" else StoragePlugin.SQLITE3
            self.writer = Writer2(path, version=9, storage_plugin=storage)
        self.connections: dict[str, Any] = {}

    def __enter__(self) -> "BagWriter":
        self.writer.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()

    def write(self, topic: str, stamp: int, message: Any, *, recorded: int | None = None) -> None:
        kind = message.__msgtype__
        if topic not in self.connections:
            self.connections[topic] = self.writer.add_connection(topic, kind, typestore=self.store)
        serialise = self.store.serialize_ros1 if self.ros1 else self.store.serialize_cdr
        self.writer.write(self.connections[topic], stamp if recorded is None else recorded, serialise(message, kind))

    def header(self, stamp: int) -> Any:
        types = self.store.types
        time = types["builtin_interfaces/msg/Time"](sec=stamp // 10**9, nanosec=stamp % 10**9)
        fields = {"stamp": time, "frame_id": "camera"} | ({"seq": 0} if self.ros1 else {})
        return types["std_msgs/msg/Header"](**fields)

    def image(self, picture: NDArray[Any], stamp: int, encoding: str, *, padding: int = 0) -> Any:
        """An Image, or a CompressedImage if the encoding is jpeg or png; `picture` is RGB or grey."""
        if encoding in ("jpeg", "png"):
            stored = picture[..., ::-1] if picture.ndim == 3 else picture
            data = cv2.imencode(f".{encoding.replace('jpeg', 'jpg')}", stored)[1].ravel()
            compressed = self.store.types["sensor_msgs/msg/CompressedImage"]
            return compressed(header=self.header(stamp), format=encoding, data=data)
        stored = encoded(picture, encoding)
        height, width = stored.shape[:2]
        rows = np.ascontiguousarray(stored).reshape(height, -1).view(np.uint8)
        rows = np.pad(rows, ((0, 0), (0, padding)))
        return self.store.types["sensor_msgs/msg/Image"](
            header=self.header(stamp),
            height=height,
            width=width,
            encoding=encoding,
            is_bigendian=0,
            step=rows.shape[1],
            data=rows.ravel(),
        )

    def camera_info(self, stamp: int, *, width: int, height: int, matrix: Any, projection: Any, **changes: Any) -> Any:
        types = self.store.types
        letters = dict(zip("KDRP", "KDRP" if self.ros1 else "kdrp", strict=True))
        roi = types["sensor_msgs/msg/RegionOfInterest"](x_offset=0, y_offset=0, height=0, width=0, do_rectify=False)
        fields = {
            "header": self.header(stamp),
            "height": height,
            "width": width,
            "distortion_model": "plumb_bob",
            letters["D"]: np.array(changes.get("distortion", [0.0] * 5)),
            letters["K"]: np.asarray(matrix, np.float64).ravel(),
            letters["R"]: np.asarray(changes.get("rotation", np.eye(3)), np.float64).ravel(),
            letters["P"]: np.asarray(projection, np.float64).ravel(),
            "binning_x": changes.get("binning", 0),
            "binning_y": 0,
            "roi": roi,
        }
        return types["sensor_msgs/msg/CameraInfo"](**fields)


def encoded(picture: NDArray[Any], encoding: str) -> NDArray[Any]:
    """An RGB picture as an encoding stores it."""
    if encoding == "rgb8":
        return picture
    if encoding == "bgr8":
        return picture[..., ::-1]
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    if encoding == "mono8":
        return grey
    if encoding == "mono16":
        return grey.astype(np.uint16) * 257
    assert encoding.startswith("bayer_")
    pattern = encoding.removeprefix("bayer_").removesuffix("8")
    channels = ["rgb".index(letter) for letter in pattern]
    mosaic = np.empty_like(grey)
    for place, channel in enumerate(channels):
        row, column = divmod(place, 2)
        mosaic[row::2, column::2] = picture[row::2, column::2, channel]
    return mosaic


def write_stereo_bag(
    path: Path,
    version: str,
    pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]],
    *,
    encoding: str = "rgb8",
    topics: Sequence[str] = TOPICS,
    lag: int = 0,
    focal: float | None = None,
    baseline: float = 0.1,
    padding: int = 0,
) -> list[int]:
    """A bag of pairs, the right image `lag` ns after the left one; with camera_info if `focal` is given."""
    stamps = [START + i * STEP for i in range(len(pairs))]
    with BagWriter(path, version) as bag:
        for stamp, pair in zip(stamps, pairs, strict=True):
            for side, (topic, picture) in enumerate(zip(topics, pair, strict=True)):
                time = stamp + side * lag
                bag.write(topic, time, bag.image(picture, time, encoding, padding=padding))
                if focal is None:
                    continue
                height, width = picture.shape[:2]
                matrix = np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1]])
                projection = np.hstack([matrix, [[-side * focal * baseline], [0], [0]]])
                info = bag.camera_info(time, width=width, height=height, matrix=matrix, projection=projection)
                bag.write(f"{topic.removesuffix('/compressed').rpartition('/')[0]}/camera_info", time, info)
    return stamps
