"""Bags of every kind, written with rosbags and read back."""

from __future__ import annotations

import csv
import io
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from displace import verbs
from displace.errors import ImageError, InputError, ManifestError, MissingExtraError
from displace.images import find_images, read_image
from displace.manifest.builder import build_manifest
from displace.recordings.query_images import images_of
from displace.recordings.ros_images import decode_raw
from displace.recordings.rosbag import extract_bag, is_bag
from displace.recordings.sources import unpack

pytest.importorskip("rosbags", reason="needs the extra 'ros'")

from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

KINDS = ["ros1", "sqlite3", "mcap", "mcap file"]
START = 1_700_000_000


def picture(seed: int = 0, shape: tuple[int, ...] = (10, 12, 3)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def file_bytes(pixels: np.ndarray, kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


class Bag:
    """Collects messages and writes them as a bag of one of `KINDS`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.store = get_typestore(Stores.ROS1_NOETIC if kind == "ros1" else Stores.ROS2_HUMBLE)
        self.types = self.store.types
        self.messages: list[tuple[str, str, float, Any]] = []

    def header(self, time: float) -> Any:
        whole = int(time)
        stamp = self.types["builtin_interfaces/msg/Time"](whole, round((time - whole) * 1e9))
        sequence = {"seq": 0} if self.kind == "ros1" else {}
        return self.types["std_msgs/msg/Header"](stamp=stamp, frame_id="", **sequence)

    def add(self, topic: str, kind: str, time: float, recorded: float | None = None, **fields: Any) -> None:
        message = self.types[kind](header=self.header(time), **fields)
        self.messages.append((topic, kind, time if recorded is None else recorded, message))

    def compressed(self, time: float, data: bytes, topic: str = "/camera", **options: Any) -> None:
        array = np.frombuffer(data, np.uint8)
        self.add(topic, "sensor_msgs/msg/CompressedImage", time, format="jpeg", data=array, **options)

    def raw(
        self, time: float, pixels: np.ndarray, encoding: str, step: int | None = None, big: bool = False
    ) -> None:
        height, width = pixels.shape[:2]
        rows = np.ascontiguousarray(pixels).view(np.uint8).reshape(height, -1)
        padded = np.zeros((height, step or rows.shape[1]), np.uint8)
        padded[:, : rows.shape[1]] = rows
        fields = {"height": height, "width": width, "encoding": encoding, "is_bigendian": int(big)}
        self.add("/raw", "sensor_msgs/msg/Image", time, **fields, step=padded.shape[1], data=padded.ravel())

    def fix(self, time: float, latitude: float, longitude: float, status: int = 0) -> None:
        state = self.types["sensor_msgs/msg/NavSatStatus"](status=status, service=1)
        fields = {"latitude": latitude, "longitude": longitude, "altitude": 0.0}
        fields |= {"position_covariance": np.zeros(9), "position_covariance_type": 0}
        self.add("/gps", "sensor_msgs/msg/NavSatFix", time, status=state, **fields)

    def odometry(self, time: float, x: float, y: float, yaw: float) -> None:
        t = self.types
        turn = t["geometry_msgs/msg/Quaternion"](0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2))
        pose = t["geometry_msgs/msg/Pose"](t["geometry_msgs/msg/Point"](x, y, 0.0), turn)
        zero = t["geometry_msgs/msg/Vector3"](0.0, 0.0, 0.0)
        twist = t["geometry_msgs/msg/Twist"](zero, zero)
        fields = {
            "child_frame_id": "",
            "pose": t["geometry_msgs/msg/PoseWithCovariance"](pose, np.zeros(36)),
            "twist": t["geometry_msgs/msg/TwistWithCovariance"](twist, np.zeros(36)),
        }
        self.add("/odom", "nav_msgs/msg/Odometry", time, **fields)

    def write(self, folder: Path, name: str = "run") -> Path:
        one = self.kind == "ros1"
        path = folder / (f"{name}.bag" if one else name)
        plugin = StoragePlugin.SQLITE3 if self.kind == "sqlite3" else StoragePlugin.MCAP
        writer = Writer1(path) if one else Writer2(path, version=9, storage_plugin=plugin)
        serialize = self.store.serialize_ros1 if one else self.store.serialize_cdr
        with writer:
            topics: dict[str, Any] = {}
            for topic, kind, time, message in sorted(self.messages, key=lambda m: m[2]):
                if topic not in topics:
                    topics[topic] = writer.add_connection(topic, kind, typestore=self.store)
                writer.write(topics[topic], round(time * 1e9), serialize(message, kind))
        if self.kind != "mcap file":
            return path
        (inner,) = path.glob("*.mcap")
        return inner.rename(folder / f"{name}.mcap")


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "frames.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("kind", KINDS)
def test_compressed_images_are_written_verbatim_with_positions(tmp_path, kind):
    bag = Bag(kind)
    jpegs = [file_bytes(picture(i), "jpeg") for i in range(4)]
    for i, jpeg in enumerate(jpegs):
        bag.compressed(START + i, jpeg)
    for i in range(9):
        bag.fix(START + i / 2 - 0.25, 50 + i * 1e-4, 8)
    bag.fix(START + 1.01, 0, 0, status=-1)
    path = bag.write(tmp_path)
    assert is_bag(path)
    folder = extract_bag(path, tmp_path / "frames")
    assert [p.name for p in find_images(folder)] == [f"{i:06d}.jpg" for i in range(4)]
    assert [p.read_bytes() for p in find_images(folder)] == jpegs
    for i, row in enumerate(table(folder)):
        assert float(row["timestamp"]) == pytest.approx(START + i, abs=1e-6)
        assert float(row["latitude"]) == pytest.approx(50 + (2 * i + 0.5) * 1e-4, abs=1e-9)
        assert float(row["longitude"]) == 8


@pytest.mark.parametrize("kind", ["ros1", "sqlite3"])
def test_odometry_gives_metres_and_compass_heading(tmp_path, kind):
    bag = Bag(kind)
    for i in range(3):
        bag.compressed(START + i, file_bytes(picture(i), "png"))
        bag.odometry(START + i + 0.001, 2.0 * i, -1.0, yaw=np.pi / 2 * i)
    folder = extract_bag(bag.write(tmp_path), tmp_path / "frames")
    rows = table(folder)
    assert [row["image"] for row in rows] == ["000000.png", "000001.png", "000002.png"]
    assert [float(row["easting"]) for row in rows] == pytest.approx([0, 2, 4], abs=0.01)
    assert [float(row["heading"]) for row in rows] == pytest.approx(
        [90, 0, 270], abs=1e-6
    )  # east, north, west


def raw_cases() -> list[Any]:
    colour, grey = picture(), picture()[..., 0]
    shallow = np.arange(120, dtype=np.uint8).reshape(10, 12) * 2
    deep = 3000 + 16 * shallow.astype("<u2")  # 12 bits
    high = np.round(255 / 238 * shallow.astype(float)).astype(np.uint8)
    opaque = np.concatenate([colour, np.full((10, 12, 1), 255, np.uint8)], axis=2)
    three = [np.repeat(a[..., None], 3, 2) for a in (grey, high)]
    return [
        pytest.param(colour, "rgb8", {}, colour, id="rgb8"),
        pytest.param(colour[..., ::-1], "bgr8", {}, colour, id="bgr8"),
        pytest.param(opaque, "rgba8", {}, colour, id="rgba8"),
        pytest.param(opaque[..., [2, 1, 0, 3]], "bgra8", {}, colour, id="bgra8"),
        pytest.param(grey, "mono8", {}, three[0], id="mono8"),
        pytest.param(colour, "rgb8", {"step": 64}, colour, id="padded rows"),
        pytest.param(deep, "mono16", {}, three[1], id="mono16"),
        pytest.param(deep.astype(">u2"), "mono16", {"big": True}, three[1], id="mono16 big-endian"),
    ]


@pytest.mark.parametrize(("pixels", "encoding", "options", "expected"), raw_cases())
def test_raw_images_become_png(tmp_path, pixels, encoding, options, expected):
    bag = Bag("sqlite3")
    bag.raw(START, pixels, encoding, **options)
    folder = extract_bag(bag.write(tmp_path), tmp_path / "frames")
    np.testing.assert_array_equal(read_image(folder / "000000.png"), expected)


@pytest.mark.parametrize(
    ("encoding", "pattern"), [("rggb", "RGGB"), ("bggr", "BGGR"), ("gbrg", "GBRG"), ("grbg", "GRBG")]
)
def test_bayer_mosaics(tmp_path, encoding, pattern):
    """A flat red, green, blue scene seen through the mosaic must come back as that colour."""
    colour = {"R": 200, "G": 120, "B": 40}
    cell = np.array([colour[c] for c in pattern], np.uint8).reshape(2, 2)
    bag = Bag("mcap")
    bag.raw(START, np.tile(cell, (6, 6)), f"bayer_{encoding}8")
    folder = extract_bag(bag.write(tmp_path), tmp_path / "frames")
    np.testing.assert_array_equal(
        read_image(folder / "000000.png")[4:8, 4:8].reshape(-1, 3), [[200, 120, 40]] * 16
    )


def test_yuv_is_decoded_in_the_right_order(tmp_path):
    bag = Bag("mcap")
    flat = np.tile(np.array([90, 100, 160, 100], np.uint8), (4, 4)).reshape(4, 8, 2)  # U Y V Y
    bag.raw(START, flat, "yuv422")
    pixel = read_image(extract_bag(bag.write(tmp_path), tmp_path / "f") / "000000.png")[0, 0].astype(int)
    assert pixel[0] > pixel[1] > pixel[2] - 5
    expected = cv2.cvtColor(flat, cv2.COLOR_YUV2RGB_UYVY)[0, 0]
    np.testing.assert_array_equal(pixel, expected)


def test_time_of_recording_where_the_header_has_none(tmp_path):
    bag = Bag("mcap")
    bag.compressed(0, file_bytes(picture(), "jpeg"), recorded=START + 5.5)
    folder = extract_bag(bag.write(tmp_path), tmp_path / "frames")
    assert float(table(folder)[0]["timestamp"]) == pytest.approx(START + 5.5)


def test_several_image_topics_need_a_choice(tmp_path):
    bag = Bag("sqlite3")
    left, right = (file_bytes(picture(i), "jpeg") for i in range(2))
    bag.compressed(START, left, "/left")
    bag.compressed(START, right, "/right")
    path = bag.write(tmp_path)
    with pytest.raises(
        ImageError, match=r"(?s)several image topics; choose with --topic one of:.*/left  1 messages.*/right"
    ):
        extract_bag(path, tmp_path / "frames")
    with pytest.raises(ImageError, match=r"no image topic '/top'"):
        extract_bag(path, tmp_path / "frames", topic="/top")
    folder = extract_bag(path, tmp_path / "frames", topic="/right")
    assert (folder / "000000.jpg").read_bytes() == right


def test_compressed_depth_is_no_choice(tmp_path):
    bag, jpeg = Bag("sqlite3"), file_bytes(picture(), "jpeg")
    bag.compressed(START, jpeg, "/colour/compressed")
    bag.compressed(START, bytes(12) + file_bytes(picture(), "png"), "/depth/compressedDepth")
    folder = extract_bag(bag.write(tmp_path), tmp_path / "frames")
    assert (folder / "000000.jpg").read_bytes() == jpeg


def test_bags_of_several_cameras_are_built_and_located_by_one(tmp_path):
    """Only `manifest` had the option, and its message was what `build` and `locate` said."""
    (tmp_path / "drives").mkdir()
    shown = [picture(place, (60, 80, 3)) for place in range(12)]
    for name, dimmer in (("monday", 1), ("tuesday", 2)):
        bag = Bag("ros1")
        for place, pixels in enumerate(shown):
            bag.compressed(START + place, file_bytes(pixels // dimmer, "png"), "/front")
            bag.compressed(START + place, file_bytes(picture(99, (60, 80, 3)), "png"), "/rear")
            bag.fix(START + place, 50 + place * 1e-3, 8)
        bag.write(tmp_path / "drives", name)
    output, query = tmp_path / "town.displace", tmp_path / "drives" / "monday.bag"
    with pytest.raises(ImageError, match="has several image topics; choose with --topic one of"):
        verbs.build(tmp_path / "drives", output, model="hog")
    place_map = verbs.build(tmp_path / "drives", output, model="hog", topic="/front")
    located = verbs.locate(output, [query], topic="/front", follow=False, adapt="none")
    np.testing.assert_array_equal(located.matches.places[:, 0], place_map.place_ids)
    output.unlink()
    with pytest.raises(InputError, match="frames taken with topic='/front', but topic='/rear' was given"):
        verbs.build(tmp_path / "drives", output, model="hog", topic="/rear")


@pytest.mark.parametrize("kind", KINDS)
def test_a_bag_is_located_as_a_video_is(tmp_path, kind):
    bag = Bag(kind)
    for i in range(6):
        bag.compressed(START + i / 2, file_bytes(picture(i), "jpeg"))
    path = bag.write(tmp_path)
    with images_of([path], "2", None) as images:
        assert [read_image(image).shape for image in images.paths] == [(10, 12, 3)] * 3
        assert images.videos() == {str(path): [0, 1, 2]}
        assert (images.frames, images.times) == ([0, 2, 4], [START, START + 1, START + 2])


def test_a_path_that_rosbags_cannot_open_is_named(tmp_path):
    bag = Bag("sqlite3")
    bag.compressed(START, file_bytes(picture(), "jpeg"))
    path = bag.write(tmp_path).rename(tmp_path / "run #1")
    with pytest.raises(ImageError, match=r"cannot read bag .*run #1: .*; rename it, as the path has '#'"):
        extract_bag(path, tmp_path / "frames")


def test_a_file_of_other_bytes_is_told_to_be_no_bag(tmp_path):
    (tmp_path / "x.bag").write_bytes(b"#ROSBAG V2.0\n" + bytes([69, 0, 0, 0, 40, 0, 0, 0]) + b"\xff=" * 40)
    with pytest.raises(ImageError, match=r"cannot read bag .*x\.bag: it is damaged, or no ROS bag$"):
        extract_bag(tmp_path / "x.bag", tmp_path / "frames")


def test_fixes_at_zero_degrees_are_none(tmp_path):
    bag = Bag("mcap")
    for i in range(4):
        bag.compressed(START + i, file_bytes(picture(i), "jpeg"))
        bag.fix(START + i, *((60.0, 10.0 + i / 1000) if i else (0.0, 0.0)))
    rows = table(extract_bag(bag.write(tmp_path), tmp_path / "frames"))
    assert [float(row["latitude"]) for row in rows] == [60.0] * 4


def test_bag_without_images(tmp_path):
    bag = Bag("ros1")
    bag.fix(START, 1, 2)
    with pytest.raises(ImageError, match=r"(?s)no image topic, only:.*/gps"):
        extract_bag(bag.write(tmp_path), tmp_path / "frames")


def test_sampling_and_resuming(tmp_path):
    bag = Bag("mcap")
    for i in range(10):
        bag.compressed(START + i / 10, file_bytes(picture(i), "jpeg"))
    path = bag.write(tmp_path)
    folder = extract_bag(path, tmp_path / "frames", every="0.5s")
    assert [p.name for p in find_images(folder)] == ["000000.jpg", "000005.jpg"]
    (folder / "frames.csv").unlink()
    (folder / "000000.jpg").write_bytes(b"kept")
    extract_bag(path, folder, every="0.5s")
    assert (folder / "000000.jpg").read_bytes() == b"kept"
    calls: list[tuple[int, int]] = []
    extract_bag(path, folder, every=5, progress=lambda *args: calls.append(args))
    assert calls[-1] == (10, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_bags(tmp_path, kind):
    bag = Bag(kind)
    for i in range(5):
        bag.compressed(START + i, file_bytes(picture(i), "jpeg"))
    path = bag.write(tmp_path)
    file = next(
        p for p in ([path] if path.is_file() else path.iterdir()) if p.suffix in (".bag", ".mcap", ".db3")
    )
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 3])
    with pytest.raises(ImageError, match="run"):
        extract_bag(path, tmp_path / "frames")
    assert not (tmp_path / "frames" / "frames.csv").exists()


def test_missing_bag_and_missing_package(tmp_path, monkeypatch):
    with pytest.raises(ImageError, match="no bag at"):
        extract_bag(tmp_path / "absent.bag", tmp_path / "frames")
    monkeypatch.setitem(sys.modules, "rosbags.highlevel", None)
    with pytest.raises(MissingExtraError, match=r"displace\[ros\]"):
        extract_bag(tmp_path / "absent.bag", tmp_path / "frames")


@pytest.mark.parametrize(
    ("encoding", "size", "message"), [("nv21", 360, "nv21"), ("rgb8", 100, "100 bytes for 12×10 rgb8")]
)
def test_raw_messages_that_cannot_be_read(encoding, size, message):
    class Message:
        height, width, step, is_bigendian = 10, 12, 36, 0

    Message.encoding, Message.data = encoding, np.zeros(size, np.uint8)
    with pytest.raises(ImageError, match=message):
        decode_raw(Message(), "image 3")


def test_compressed_depth_is_refused(tmp_path):
    bag = Bag("mcap")
    bag.compressed(START, b"\0" * 12 + file_bytes(picture(), "png"))
    with pytest.raises(ImageError, match=r"image 0 of /camera.*neither JPEG nor PNG"):
        extract_bag(bag.write(tmp_path), tmp_path / "frames")


def test_route_of_bags_videos_and_folders(tmp_path):
    """Three recordings of one road, as a bag with GPS, a video with a log, and a folder: one manifest."""
    route = tmp_path / "route"
    (route / "walk").mkdir(parents=True)
    bag = Bag("sqlite3")
    for i in range(20):
        bag.compressed(START + i, file_bytes(picture(i), "jpeg"))
        bag.odometry(START + i, 5.0 * i, 0.0, 0.0)
    bag.write(route, "drive")
    writer = cv2.VideoWriter(str(route / "ride.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 10, (32, 24))
    for _ in range(40):
        writer.write(np.zeros((24, 32, 3), np.uint8))
    writer.release()
    (route / "ride.csv").write_text("timestamp,easting,northing,heading\n0,0,1,90\n4,100,1,90\n")
    rows = ["image,easting,northing"]
    for i in range(10):
        Image.new("RGB", (4, 4)).save(route / "walk" / f"{i}.png")
        rows.append(f"{i}.png,{i * 10},-1")
    (route / "walk.csv").write_text("\n".join(rows))
    calls: set[str] = set()
    folders = unpack(route, tmp_path / "route.frames", progress=lambda name, *_: calls.add(name))
    assert calls == {"drive", "ride"}
    assert folders == {
        "drive": tmp_path / "route.frames" / "drive",
        "ride": tmp_path / "route.frames" / "ride",
        "walk": route / "walk",
    }
    (route / "notes").mkdir()
    (route / "old.frames" / "sun").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(route / "old.frames" / "sun" / "1.png")
    assert unpack(route, tmp_path / "route.frames") == folders, "again, beside other things"
    manifest = build_manifest(folders, spacing=10, radius=3, max_gap=5)
    manifest.write(tmp_path / "route.csv")
    summary = manifest.summary(check_images=True)
    assert summary.ok
    assert summary.places == 10
    assert {t.name: t.coverage for t in summary.traversals} == {"drive": 1, "ride": 1, "walk": 1}


def test_sources_that_are_plain_or_wrong(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "notes.txt").write_text("")
    assert unpack(tmp_path, tmp_path / "f") == tmp_path
    with pytest.raises(ManifestError, match=r"notes\.txt is neither"):
        unpack(tmp_path / "notes.txt", tmp_path / "f")
    with pytest.raises(ManifestError, match="no file or folder at"):
        unpack(tmp_path / "absent", tmp_path / "f")
    with pytest.raises(
        ManifestError, match="two sources are named 'a'; rename one of them, or give the folder around each"
    ):
        unpack([tmp_path / "a", tmp_path / "a"], tmp_path / "f")


def test_sources_of_one_name_are_called_after_the_folders_around_them(tmp_path):
    """Folders of two videos each were to be given one by one, and those, of equal names, as their folders."""
    for name in ("mon/raw/front", "mon/raw/rear", "tue/raw/front", "tue/raw/rear", "wed"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "1.jpg").touch()
    given = [tmp_path / name for name in ("mon/raw/front", "tue/raw/front", "wed")]
    assert unpack(given, tmp_path / "f") == dict(zip(("mon", "tue", "wed"), given, strict=True))
    with pytest.raises(ManifestError, match="two sources are named 'rear'"):
        unpack([*given, tmp_path / "mon/raw/rear", tmp_path / "mon/raw/rear"], tmp_path / "f")


@pytest.mark.usefixtures("not_for_ever")
@pytest.mark.parametrize("folder", [False, True], ids=["itself", "in its folder"])
def test_a_pipe_is_no_bag(tmp_path, folder):
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "metadata.yaml").write_text("")
    os.mkfifo(tmp_path / "bag" / "a.bag")
    with pytest.raises(ImageError, match=r"a\.bag is a pipe or a device"):
        extract_bag(tmp_path / "bag" / ("" if folder else "a.bag"), tmp_path / "frames")


@pytest.mark.parametrize("fixes", [False, True])
def test_a_track_beside_a_bag_goes_before_its_own_positions_and_one_of_the_day_does_not(tmp_path, fixes):
    bag = Bag("ros1")
    for second in range(2):
        bag.compressed(START + second, file_bytes(picture(second), "jpeg"))
        if fixes:
            bag.fix(START + second, 20, 8 + second)
    path = bag.write(tmp_path)
    row = '<trkpt lat="{}" lon="8"><time>{}</time></trkpt>'
    times = [datetime.fromtimestamp(START + second, UTC).isoformat() for second in range(2)]
    day = tmp_path / "day.gpx"
    day.write_text(f"<gpx>{row.format(50, times[0])}{row.format(51, times[1])}</gpx>")

    def north() -> list[float]:
        return build_manifest(unpack([path], tmp_path / "f")).geo.points[:, 0].tolist()

    assert north() == pytest.approx([20, 20] if fixes else [50, 51])
    day.rename(tmp_path / "run.gpx")
    assert north() == pytest.approx([50, 51])


def test_a_folder_that_may_not_be_read_is_no_bag(tmp_path, monkeypatch):
    """What it is, is said where its images are looked for; this ended in a traceback."""
    real = os.stat

    def refused(path, *args, **kwargs):
        if os.fspath(path).endswith("metadata.yaml"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "stat", refused)
    assert not is_bag(tmp_path)
