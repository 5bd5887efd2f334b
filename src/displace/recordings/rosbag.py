"""ROS 1 bags, ROS 2 bags (sqlite3 or MCAP, as folders or single files): images and positions, without ROS."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from displace.errors import DisplaceError, ImageError
from displace.files.reading import PathLike
from displace.geo import Numbers, Positions, at_times
from displace.progress import Stage
from displace.recordings.frames import FramesFolder, Sampler
from displace.recordings.ros_images import encode
from displace.registry import missing_extra

IMAGE_TYPES = ("sensor_msgs/msg/CompressedImage", "sensor_msgs/msg/Image")
POSITION_TYPES = ("sensor_msgs/msg/NavSatFix", "nav_msgs/msg/Odometry")
_NO_PATH = "the path has '#', '?' or '%': rosbags opens no such database"


def is_bag(path: PathLike) -> bool:
    """Whether the path looks like a bag: ``.bag``, ``.mcap``, ``.db3``, or a folder with ``metadata.yaml``."""
    path = Path(path)
    if path.is_dir():
        return os.path.isfile(path / "metadata.yaml")  # noqa: PTH113 - false of a folder that may not be read
    return path.suffix.lower() in (".bag", ".mcap", ".db3") and not path.name.startswith(".")


def extract_bag(
    bag: PathLike,
    folder: PathLike,
    *,
    topic: str | None = None,
    positions_topic: str | None = None,
    every: int | str = 1,
    max_gap: float = 2.0,
    durable: bool = True,
    progress: Stage | None = None,
) -> Path:
    """Write the images of a bag as files, and their positions into `frames.csv` beside them; return the folder.

    The bag is a ROS 1 ``.bag``, a ROS 2 folder, or an ``.mcap`` or ``.db3`` file. Compressed images are written byte
    for byte (.jpg or .png), raw ones as PNG. Frames that an interrupted run has left are kept; a finished folder is
    returned at once.

    The image `topic` is needed where the bag has several. Positions are those of a NavSatFix topic (latitude,
    longitude) or an Odometry topic (x, y in metres of the odometry's own frame, and heading); by default the first of
    either kind. Between two positions an image has the point on the line between them, farther than `max_gap` seconds
    from the nearest none. `every` and `durable` are as for `displace.recordings.video.extract_frames`.
    """
    bag, sampler = Path(bag), Sampler(every)
    settings = {"every": str(every), "topic": topic, "positions": positions_topic, "max_gap": max_gap}
    with _opened(bag) as reader:
        frames = FramesFolder(folder, bag, settings, durable)
        if frames.complete:
            return frames.folder
        connections = _topic(reader, bag, topic, IMAGE_TYPES, "image", "topic")
        total = sum(connection.msgcount for connection in connections)
        for index, (time, message) in enumerate(_messages(reader, connections)):
            if sampler.wants(index, time):
                suffix, content = encode(message, f"image {index} of {connections[0].topic} in {bag}")
                frames.keep(index, time, suffix, partial(bytes, content))
            if progress:
                progress(index + 1, total)
        if not frames.names:
            raise ImageError(f"topic {connections[0].topic} of {bag} has no images")
        columns = _position_columns(reader, bag, positions_topic, np.array(frames.times), max_gap)
    frames.finish(columns)
    return frames.folder


@contextmanager
def _opened(bag: Path) -> Iterator[Any]:
    """Open a bag of any kind; whatever goes wrong while reading it becomes an `ImageError`."""
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise missing_extra("rosbags", "ros") from None
    if not bag.exists():
        raise ImageError(f"no bag at {bag}")
    if wrong := [part for part in (bag, *bag.glob("*")) if not (part.is_file() or part.is_dir())]:
        raise ImageError(
            f"cannot read bag {bag}: {wrong[0].name} is a pipe or a device, or a link to nothing"
        )
    try:
        # Bags of ROS 2 before Iron carry no message definitions; those used here have not changed since.
        with AnyReader([bag], default_typestore=get_typestore(Stores.ROS2_HUMBLE)) as reader:
            yield reader
    except DisplaceError:
        raise
    except Exception as error:  # rosbags raises system, struct, sqlite and its own errors on damaged bags
        rename = f"; rename it, as {_NO_PATH}" if set("#?%") & set(str(bag)) else ""
        why = (
            "it is damaged, or no ROS bag"
            if isinstance(error, UnicodeError)
            else error or type(error).__name__
        )
        raise ImageError(f"cannot read bag {bag}: {why}{rename}") from error


def _topic(
    reader: Any, bag: Path, topic: str | None, types: Sequence[str], kind: str, option: str
) -> list[Any]:
    """Connections of the topic asked for, or of the only one of these types."""
    # Compressed depth has a type of images, and is none.
    fitting = [
        c for c in reader.connections if c.msgtype in types and not c.topic.endswith("/compressedDepth")
    ]
    names = sorted({c.topic for c in fitting})
    if topic is None and len(names) == 1:
        topic = names[0]
    chosen = [c for c in fitting if c.topic == topic]
    if chosen:
        return chosen
    listed = "".join(f"\n  {name}  {reader.topics[name].msgcount} messages" for name in names)
    every = "".join(f"\n  {c.topic}  {c.msgtype}" for c in reader.connections)
    if not names:
        raise ImageError(f"{bag} has no {kind} topic, only:{every or ' nothing'}")
    wanted = f"has no {kind} topic {topic!r}" if topic else f"has several {kind} topics"
    raise ImageError(f"{bag} {wanted}; choose with --{option} one of:{listed}")


def _messages(reader: Any, connections: Sequence[Any]) -> Iterator[tuple[float, Any]]:
    """Messages with their time in seconds: the header's stamp, or when they were recorded if it is zero."""
    for connection, recorded, raw in reader.messages(connections=connections):
        message = reader.deserialize(raw, connection.msgtype)
        stamp = message.header.stamp
        yield (stamp.sec + stamp.nanosec * 1e-9) or recorded * 1e-9, message


def _position_columns(
    reader: Any, bag: Path, topic: str | None, times: Numbers, max_gap: float
) -> dict[str, Numbers]:
    """Positions of the images as columns, empty where the bag has none."""
    found = [c for kind in POSITION_TYPES for c in reader.connections if c.msgtype == kind]
    if not found and topic is None:
        return {}
    connections = _topic(reader, bag, topic or found[0].topic, POSITION_TYPES, "position", "positions-topic")
    degrees = connections[0].msgtype == POSITION_TYPES[0]
    take = _fix if degrees else _pose
    rows = np.array([(time, *take(message)) for time, message in _messages(reader, connections)])
    if not len(rows) or not np.isfinite(rows[:, 1]).any():
        return {}
    heading = None if np.isnan(rows[:, 3]).all() else rows[:, 3]
    return at_times(Positions(rows[:, 1:3], degrees, heading), rows[:, 0], times, max_gap).columns()


def _fix(message: Any) -> tuple[float, float, float]:
    """Latitude, longitude and no heading of a NavSatFix; nothing where the receiver had no fix (0° 0′)."""
    if message.status.status < 0 or not (message.latitude or message.longitude):
        return np.nan, np.nan, np.nan
    return message.latitude, message.longitude, np.nan


def _pose(message: Any) -> tuple[float, float, float]:
    """x, y and compass heading of an Odometry message (ROS: x east, y north, yaw counter-clockwise)."""
    pose = message.pose.pose
    q = pose.orientation
    yaw = np.arctan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y**2 + q.z**2))
    return pose.position.x, pose.position.y, float(90 - np.degrees(yaw)) % 360
