"""Stereo frames from ROS 1 and ROS 2 bags, without ROS: topics are paired by name, messages by time stamp."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from linstereo.data.formats.calibration_fields import Cameras
from linstereo.data.formats.ros_calibration import cameras_of_infos
from linstereo.data.sequences.frames import NANOSECONDS, FrameSource, StereoFrame
from linstereo.data.sequences.ros_images import IMAGE_TYPES, message_picture
from linstereo.data.sequences.synchronised import Synchronised
from linstereo.errors import InputError
from linstereo.extras import require

BAG_SUFFIXES = (".bag", ".mcap", ".db3")
"""Of bags in one file; those of ROS 2 are usually folders with a metadata.yaml."""
DEFAULT_TOLERANCE = 0.01
"""Seconds by which the stamps of a left and a right image may differ."""
_INFO = "sensor_msgs/msg/CameraInfo"
_SIDES = (("left", "right"), ("infra1", "infra2"), ("cam0", "cam1"), ("camera0", "camera1"), ("cam_0", "cam_1"))
_MOST_TOPICS = 12  # in a message


class Bag(FrameSource):
    """The stereo frames of a bag: of each left image the nearest right one in time, if it is near enough.

    The stamps are those in the headers of the left messages; where a driver left them at 0, the times of recording.
    The calibration comes from the camera_info topics beside those of the images, if both are there; it is of rectified
    images if the topics of the images say so by a name such as image_rect.

    Args:
        path: a ROS 1 bag, a ROS 2 bag's folder, or its .mcap or .db3 file.
        left_topic: of the left images; by default the one pair of topics whose names tell left from right.
        right_topic: of the right images, likewise.
        tolerance: seconds by which the stamps of a pair may differ, >= 0.
        camera_info: False leaves the calibration in the bag unread, for those who have a better one.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        left_topic: str | None = None,
        right_topic: str | None = None,
        tolerance: float = DEFAULT_TOLERANCE,
        camera_info: bool = True,
    ) -> None:
        if not 0 <= tolerance <= 3600:
            raise InputError(f"the tolerance is {tolerance}; give seconds, 0 to 3600, such as {DEFAULT_TOLERANCE}")
        if (left_topic is None) != (right_topic is None):
            raise InputError("the topics of both images belong together; give the left and the right one, or neither")
        self._path = Path(path)
        self._tolerance = round(tolerance * NANOSECONDS)
        with _opened(self._path) as reader:
            counts = {
                connection.topic: connection.msgcount
                for connection in reader.connections
                if connection.msgtype in IMAGE_TYPES
            }
            if left_topic is None or right_topic is None:
                self._topics = _obvious_pair(sorted(counts), self._path)
            else:
                self._topics = (left_topic, right_topic)
                for topic in self._topics:
                    if topic not in counts:
                        raise InputError(f"{self._path} has no image topic {topic!r}; it has {_listed(sorted(counts))}")
                if left_topic == right_topic:
                    raise InputError(f"{left_topic} is both the left and the right topic; give two")
            with _told(self._path):
                cameras = self._cameras(reader) if camera_info else None
        least = min(counts[topic] for topic in self._topics)
        rectified = all("rect" in topic.lower() for topic in self._topics)
        super().__init__(str(path), count=least or None, cameras=cameras, rectified=rectified)
        self._lone = 0

    @property
    def topics(self) -> tuple[str, str]:
        """Of the left and of the right images."""
        return self._topics

    def __iter__(self) -> Iterator[StereoFrame]:
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(_opened(self._path)) for _ in self._topics]  # they are read alternately
            sides = [self._messages(reader, topic) for reader, topic in zip(readers, self._topics, strict=True)]
            pairs = Synchronised(*sides, tolerance=self._tolerance)
            for stamp, left, right in pairs:
                names = [f"{self._path}, {topic} at {_seconds(stamp)} s" for topic in self._topics]
                images = [message_picture(m, name) for m, name in zip((left, right), names, strict=True)]
                yield StereoFrame(stamp, *images)
            self._lone = pairs.lone
            if pairs.count == 0:
                raise InputError(self._why_none(pairs))

    def remarks(self) -> list[str]:
        """See `FrameSource.remarks`."""
        if not self._lone:
            return []
        return [
            f"{self._lone} images of {self._path} have no partner within {self._tolerance / 1e9:g} s and were skipped"
        ]

    def _messages(self, reader: Any, topic: str) -> Iterator[tuple[int, Any]]:
        """Stamp and content of the messages of a topic."""
        connections = [connection for connection in reader.connections if connection.topic == topic]
        with _told(self._path):
            for connection, recorded, raw in reader.messages(connections=connections):
                message = reader.deserialize(raw, connection.msgtype)
                stamp = message.header.stamp
                yield stamp.sec * NANOSECONDS + stamp.nanosec or recorded, message

    def _cameras(self, reader: Any) -> Cameras | None:
        """The calibration in the bag; None if it lacks a camera_info, or the cameras were never calibrated."""
        infos = []
        names = [_info_topic(topic) for topic in self._topics]
        for name in names:
            connections = [c for c in reader.connections if c.topic == name and c.msgtype == _INFO]
            first = next(reader.messages(connections=connections), None) if connections else None
            if first is None:
                return None
            message = reader.deserialize(first[2], first[0].msgtype)
            info = _plain_info(message, f"{self._path}, {name}")
            if info is None:
                return None
            infos.append(info)
        return cameras_of_infos(*infos, names=[f"{self._path}, {name}" for name in names])

    def _why_none(self, pairs: Synchronised[Any]) -> str:
        left, right = self._topics
        if pairs.nearest is None:
            empty = left if pairs.empty_left else right
            return f"{self._path} has no message in {empty}; record the images of both cameras"
        return (
            f"no image of {left} in {self._path} has one of {right} within {self._tolerance / 1e9:g} s: the nearest "
            f"are {pairs.nearest / 1e9:.3g} s apart; synchronise the cameras, or allow more with --sync-tolerance"
        )


def is_bag(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a bag, by its name or by the file that every ROS 2 bag's folder holds."""
    with contextlib.suppress(OSError, ValueError):
        return Path(path).suffix.lower() in BAG_SUFFIXES or (Path(path) / "metadata.yaml").is_file()
    return False


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """An open `rosbags.highlevel.AnyReader`."""
    highlevel = require("rosbags.highlevel", extra="ros", purpose="reading ROS bags")
    typesys = require("rosbags.typesys", extra="ros", purpose="reading ROS bags")
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    with contextlib.ExitStack() as stack:
        with _told(path):
            # bags of older ROS 2 versions do not describe their messages
            store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
            reader = stack.enter_context(highlevel.AnyReader([path], default_typestore=store))
        yield reader


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Tell in one sentence that a bag is damaged: its parser raises exceptions of many kinds for that."""
    try:
        yield
    except (InputError, MemoryError, GeneratorExit):
        raise
    except PermissionError as error:
        raise InputError(f"{path} may not be read by this user; change its permissions") from error
    except Exception as error:
        reason = " ".join(str(error).split())[:120].rstrip(".") or type(error).__name__
        raise InputError(
            f"{path} cannot be read, it is cut off or damaged ({reason}); copy it again, or repair it with rosbag "
            "reindex or ros2 bag reindex"
        ) from error


def _obvious_pair(topics: Sequence[str], path: Path) -> tuple[str, str]:
    """The two image topics whose names tell left from right, if there is only one such pair."""
    if not topics:
        raise InputError(f"{path} has no topic of images; give a bag with those of both cameras")
    found = []
    for topic in topics:
        for left, right in _SIDES:
            other = re.sub(left, right, topic)
            if other != topic and other in topics:
                found.append((topic, other))
                break
    plain = [pair for pair in found if not pair[0].endswith("compressed")]
    for pairs in (found, plain):
        if len(pairs) == 1:
            return pairs[0]
    why = "several pairs of left and right topics" if found else "no pair of topics that tell left from right"
    raise InputError(f"{path} has {why}; choose with --left-topic and --right-topic from {_listed(topics)}")


def _info_topic(topic: str) -> str:
    """The topic of the camera_info that belongs to one of images: beside it, as image_transport has it."""
    base = topic.removesuffix("/compressed")
    return f"{base.rpartition('/')[0]}/camera_info"


def _plain_info(message: Any, name: str) -> dict[str, Any] | None:
    """A CameraInfo message as `cameras_of_infos` takes it, which is as text; None if the camera is not calibrated."""
    roi = message.roi
    if max(message.binning_x, message.binning_y) > 1 or any((roi.x_offset, roi.y_offset, roi.width, roi.height)):
        raise InputError(f"{name} is of a binned or cropped image, which is not supported; give --calib for the images")
    values = {key: getattr(message, key if hasattr(message, key) else key.lower()) for key in ("K", "D", "R", "P")}
    if values["K"][0] == 0 or values["P"][0] == 0:  # the focal lengths
        return None
    fields: dict[str, Any] = {key: [repr(float(number)) for number in numbers] for key, numbers in values.items()}
    return fields | {
        "width": str(message.width),
        "height": str(message.height),
        "distortion_model": str(message.distortion_model),
    }


def _listed(topics: Sequence[str]) -> str:
    more = f" and {len(topics) - _MOST_TOPICS} more" if len(topics) > _MOST_TOPICS else ""
    return (", ".join(topics[:_MOST_TOPICS]) or "none") + more


def _seconds(stamp: int) -> str:
    return f"{stamp // NANOSECONDS}.{stamp % NANOSECONDS:09d}"
