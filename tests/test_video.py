"""Frames of videos that the tests write themselves."""

from __future__ import annotations

import csv
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from displace import verbs
from displace.errors import DisplaceError, ImageError, InputError, ManifestError, RouteWarning
from displace.images import find_images, read_image
from displace.manifest.builder import build_manifest
from displace.manifest.table import Manifest
from displace.recordings.frames import Sampler
from displace.recordings.query_images import images_of
from displace.recordings.sources import unpack
from displace.recordings.video import extract_frames, is_video, video_start


def video(
    path: Path, n: int = 50, rate: float = 25, codec: str = "MJPG", size: tuple[int, int] = (64, 48)
) -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*codec), rate, size)
    assert writer.isOpened()
    for i in range(n):
        writer.write(np.full((size[1], size[0], 3), (i * 4) % 256, np.uint8))
    writer.release()
    return path


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "frames.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("suffix", "codec"), [("avi", "MJPG"), ("mp4", "mp4v"), ("mkv", "mp4v")])
def test_every_fifth_frame(tmp_path, suffix, codec):
    folder = extract_frames(video(tmp_path / f"a.{suffix}", codec=codec), tmp_path / "f", every=5)
    assert [p.name for p in find_images(folder)] == [f"{i:06d}.jpg" for i in range(0, 50, 5)]
    for row in table(folder):
        number = int(row["image"][:6])
        assert float(row["timestamp"]) == pytest.approx(number / 25, abs=1e-3)
        assert read_image(folder / row["image"]).mean() == pytest.approx(number * 4, abs=6)


def test_every_half_second(tmp_path):
    folder = extract_frames(video(tmp_path / "a.avi", n=60, rate=24), tmp_path / "f", every="0.5s")
    assert [int(p.stem) for p in find_images(folder)] == [0, 12, 24, 36, 48]


@pytest.mark.parametrize("every", [0, -1, "0s", "fast", "", "1.5"])
def test_bad_every(every):
    with pytest.raises(InputError, match="every="):
        Sampler(every)


def test_seconds_that_frames_do_not_fall_on():
    sampler = Sampler("0.4s")
    kept = [i for i in range(100) if sampler.wants(i, i * 0.3)]
    assert np.diff(kept).min() == 1
    assert len(kept) == pytest.approx(100 * 0.3 / 0.4, abs=1)


def test_jpeg_quality(tmp_path):
    path = tmp_path / "noise.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"FFV1"), 5, (64, 48))
    pixels = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    writer.write(pixels)
    writer.release()
    (frame,) = find_images(extract_frames(path, tmp_path / "f"))
    capture = cv2.VideoCapture(str(path))
    expected = cv2.imencode(".jpg", capture.read()[1], [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes()
    assert frame.read_bytes() == expected


def test_resumes_and_keeps_what_is_there(tmp_path):
    source = video(tmp_path / "a.avi", n=20)
    folder = extract_frames(source, tmp_path / "f")
    (folder / "frames.csv").unlink()
    (folder / "000007.jpg").unlink()
    (folder / "000003.jpg").write_bytes(b"kept")
    extract_frames(source, folder)
    assert len(find_images(folder)) == 20
    assert (folder / "000003.jpg").read_bytes() == b"kept"
    (folder / "000003.jpg").unlink()
    extract_frames(source, folder)
    assert not (folder / "000003.jpg").exists(), "a finished folder is not worked on again"


def test_other_settings_or_another_video_start_afresh(tmp_path):
    folder = extract_frames(video(tmp_path / "a.avi", n=20), tmp_path / "f")
    extract_frames(tmp_path / "a.avi", folder, every=10)
    assert [p.name for p in find_images(folder)] == ["000000.jpg", "000010.jpg"]
    extract_frames(video(tmp_path / "b.avi", n=5), folder, every=10)
    assert [p.name for p in find_images(folder)] == ["000000.jpg"]


def test_damaged_record_starts_afresh(tmp_path):
    folder = extract_frames(video(tmp_path / "a.avi", n=3), tmp_path / "f")
    (folder / "frames.json").write_text("{")
    (folder / "000001.jpg").write_bytes(b"old")
    extract_frames(tmp_path / "a.avi", folder)
    assert read_image(folder / "000001.jpg").shape == (48, 64, 3)


def test_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "000001.jpg").write_bytes(b"mine")
    with pytest.raises(ImageError, match=r"not frames of a\.avi"):
        extract_frames(video(tmp_path / "a.avi", n=5), tmp_path / "f")
    assert (tmp_path / "f" / "000001.jpg").read_bytes() == b"mine"


@pytest.mark.skipif(sys.platform == "win32", reason="the process is killed the POSIX way")
def test_killed_and_resumed(tmp_path):
    source = video(tmp_path / "a.avi", n=50)
    whole = extract_frames(source, tmp_path / "whole")
    code = f"""
import os, signal
from displace.recordings import frames, video
def write(self, name, content, write=frames.FramesFolder.write):
    if name == "000020.jpg":
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, name, content)
frames.FramesFolder.write = write
video.extract_frames({str(source)!r}, {str(tmp_path / "f")!r})
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    assert len(find_images(tmp_path / "f")) == 20
    assert not (tmp_path / "f" / "frames.csv").exists()
    extract_frames(source, tmp_path / "f")
    for frame in find_images(whole):
        assert (tmp_path / "f" / frame.name).read_bytes() == frame.read_bytes()
    assert table(tmp_path / "f") == table(whole)


@pytest.mark.parametrize(("ending", "codec"), [("mp4", "mp4v"), ("avi", "MJPG")])
def test_of_a_damaged_video_there_is_one_message(tmp_path, ending, codec):
    """FFmpeg wrote "moov atom not found" in front of it, OpenCV's reader "Unexpected element", OpenCV itself "WARN"."""
    source = video(tmp_path / f"cut.{ending}", codec=codec)
    source.write_bytes(source.read_bytes()[:1000])
    arguments = ["manifest", str(source), "-o", str(tmp_path / "route.csv")]
    done = subprocess.run([sys.executable, "-m", "displace", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert "cannot read video" in done.stderr
    assert "moov" not in done.stderr
    assert "Unexpected" not in done.stderr
    assert "WARN" not in done.stderr


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are text there")
def test_a_name_in_another_encoding_is_refused(tmp_path):
    """Of an old disk or archive; OpenCV ended the process with a segmentation fault, without a word."""
    named = tmp_path / os.fsdecode(b"Stra\xdfe.avi")
    video(tmp_path / "a.avi").rename(named)
    code = f"""
from displace.errors import ImageError
from displace.recordings.video import frames_of, opened
for read in (opened, frames_of):
    try:
        read(__import__("pathlib").Path({str(named)!r}))
    except ImageError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is not valid text") == done.stdout.count(r"Stra\udcdfe.avi'; rename it") == 2


@pytest.mark.parametrize(("suffix", "codec"), [("avi", "MJPG"), ("mkv", "mp4v"), ("mp4", "mp4v")])
def test_truncated(tmp_path, suffix, codec):
    source = video(tmp_path / f"cut.{suffix}", codec=codec)
    source.write_bytes(source.read_bytes()[: source.stat().st_size // 2])
    with pytest.raises(ImageError, match=rf"cut\.{suffix}.*truncated or damaged"):
        extract_frames(source, tmp_path / "f")
    assert not (tmp_path / "f" / "frames.csv").exists()


def test_truncated_on_request(tmp_path):
    source = video(tmp_path / "cut.mkv", codec="mp4v")
    source.write_bytes(source.read_bytes()[: source.stat().st_size // 2])
    with pytest.raises(
        ImageError, match=r"displace manifest SOURCE --allow-truncated \(allow_truncated=True\)"
    ):
        extract_frames(source, tmp_path / "refused")
    with pytest.warns(RouteWarning, match=r"cut\.mkv ends after frame \d+ of 50.*using what can be read"):
        folder = extract_frames(source, tmp_path / "f", allow_truncated=True)
    assert 0 < len(find_images(folder)) < 50


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent the POSIX way")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_frames_to_locate_are_removed_where_the_process_is_told_to_end(tmp_path, name):
    """A closed terminal, `timeout` or systemd left all frames of the video in the folder for temporary files."""
    source, temporary = video(tmp_path / "a.avi"), tmp_path / "temporary"
    temporary.mkdir()
    code = f"""
import os, signal, tempfile
from displace.recordings.query_images import images_of
signal.signal(signal.{name}, signal.SIG_DFL)
tempfile.tempdir = {str(temporary)!r}
with images_of([{str(source)!r}], "1", None) as images:
    assert images.paths[0].is_relative_to(tempfile.tempdir)
    os.kill(os.getpid(), signal.{name})
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -getattr(signal, name)
    assert list(temporary.iterdir()) == []


def test_what_can_be_read_of_a_truncated_video_is_located(tmp_path):
    """The last video of a dash camera ends where the power did; `locate` refused it and has no option to take it."""
    source = video(tmp_path / "cut.mkv", codec="mp4v")
    source.write_bytes(source.read_bytes()[: source.stat().st_size // 2])
    with pytest.warns(RouteWarning, match=r"cut\.mkv ends after"), images_of([source], "1", None) as images:
        assert 0 < len(images.paths) < 50


@pytest.mark.parametrize("content", [b"", b"no video at all"])
def test_not_a_video(tmp_path, content):
    (tmp_path / "x.mp4").write_bytes(content)
    with pytest.raises(ImageError, match=r"x\.mp4"):
        extract_frames(tmp_path / "x.mp4", tmp_path / "f")


def test_missing_video_and_unwritable_folder(tmp_path):
    with pytest.raises(ImageError, match="no video at"):
        extract_frames(tmp_path / "absent.mp4", tmp_path / "f")
    (tmp_path / "file").write_text("")
    with pytest.raises(ImageError, match="cannot write frames"):
        extract_frames(video(tmp_path / "a.avi", n=2), tmp_path / "file" / "f")


@pytest.mark.parametrize(
    ("durable", "way_out"),
    [(True, "choose another place with -o"), (False, "name another folder (TMPDIR=…)")],
)
def test_where_there_is_no_room_for_frames_the_way_out_is_named(tmp_path, monkeypatch, durable, way_out):
    """Frames to locate are in the system's folder for temporary files, often a small one: that was not said."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("displace.recordings.frames.write_whole", full)
    monkeypatch.setattr(Path, "write_bytes", full)
    source = video(tmp_path / "a.avi", n=2)
    with pytest.raises(ImageError, match="cannot write frame") as refused:
        extract_frames(source, tmp_path / "f", durable=durable)
    assert "Make room, take fewer frames with --every" in str(refused.value)
    assert way_out in str(refused.value)


def test_progress(tmp_path):
    calls: list[tuple[int, int]] = []
    extract_frames(video(tmp_path / "a.avi", n=4), tmp_path / "f", progress=lambda *args: calls.append(args))
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_is_video():
    assert is_video("A.MP4")
    assert is_video("00012.MTS")  # of a camcorder
    assert not is_video("a.jpg")
    assert not is_video(".a.mp4")


def test_times_reach_the_manifest(tmp_path):
    extract_frames(video(tmp_path / "a.avi", n=10), tmp_path / "f" / "a", every=5)
    assert build_manifest(tmp_path / "f").timestamp.tolist() == pytest.approx([0, 0.2])


def test_two_videos_do_not_line_up_by_frame_number(tmp_path):
    for name in "ab":
        extract_frames(video(tmp_path / f"{name}.avi", n=10), tmp_path / "f" / name)
    assert build_manifest(tmp_path / "f").place_ids() == []
    assert len(build_manifest(tmp_path / "f", layout="names").place_ids()) == 10


def test_a_video_does_not_line_up_with_known_frames_by_number(tmp_path):
    for name, n in (("a", 12), ("b", 10), ("c", 12)):
        extract_frames(video(tmp_path / f"{name}.avi", n=n), tmp_path / "f" / name)
    known = build_manifest(tmp_path / "f" / "a", layout="names")
    for name in "bc":
        with pytest.raises(ManifestError, match=r"12 known places.*only count the frames.*--layout names"):
            build_manifest({name: tmp_path / "f" / name}, against=known)
        forced = build_manifest({name: tmp_path / "f" / name}, "names", against=known)
        assert forced.places[9] == "000009"


def test_a_folder_that_holds_one_video_stands_for_it(tmp_path):
    """Folders of images, of a video and of a folder with a video; the log beside the last is brought along."""
    route = tmp_path / "route"
    for folder in (route / "sun", route / "night" / "raw", route / "rain"):
        folder.mkdir(parents=True)
    cv2.imwrite(str(route / "sun" / "0.jpg"), np.zeros((48, 64, 3), np.uint8))
    video(route / "night" / "raw" / "cam0.avi", n=3)
    video(route / "rain" / "cam0.avi", n=2)
    (route / "rain.csv").write_text("timestamp,easting,northing\n0,1,2\n1,3,4\n")
    folders = unpack(route, tmp_path / "f")
    assert folders == {
        "night": tmp_path / "f" / "night",
        "rain": tmp_path / "f" / "rain",
        "sun": route / "sun",
    }
    assert len(find_images(folders["night"])) == 3
    assert (folders["rain"] / "positions.csv").is_file()
    assert unpack([route / "night"], tmp_path / "g") == {"night": tmp_path / "g" / "night"}


def test_a_video_that_does_not_say_when_it_began_is_refused_before_it_is_decoded(tmp_path):
    source = video(tmp_path / "sun.avi", n=3)
    (tmp_path / "sun.csv").write_text("timestamp,easting,northing\n1800000000,1,2\n1800000001,3,4\n")
    message = (
        r"nothing says when 'sun' began: .*positions in .*sun.csv are from 2027-01-15 08:00:00 to 2027-01-15 08:00:01 "
        r"\(UTC\). If both began together: displace manifest … --clock-offset sun=2027-01-15T08:00:00Z"
    )
    with pytest.raises(ManifestError, match=message):
        unpack([source], tmp_path / "f")
    assert not (tmp_path / "f").exists()
    folders = unpack([source], tmp_path / "f", clock_offset={"sun": 1_800_000_000.0})
    points = build_manifest(folders, spacing=0.01).geo.points
    np.testing.assert_allclose(points, [[1, 2], [1.08, 2.08], [1.16, 2.16]], rtol=1e-6)


def test_all_videos_that_do_not_say_when_they_began_are_named_at_once(tmp_path):
    sources = [video(tmp_path / f"{name}.avi", n=3) for name in ("sun", "rain", "snow")]
    for name in ("sun", "snow"):
        (tmp_path / f"{name}.gpx").write_text(gpx(("2027-01-15T08:00:00Z", 51.0, 7.0)))
    with pytest.raises(ManifestError, match="positions of 2 recordings cannot be used:") as caught:
        unpack(sources, tmp_path / "f")
    for problem, name in zip(caught.value.problems, ("sun", "snow"), strict=True):
        assert f"--clock-offset {name}=2027-01-15T08:00:00Z" in problem
    assert not (tmp_path / "f").exists()


def gpx(*points: tuple[str, float, float]) -> str:
    """Text of a track of times, latitudes and longitudes."""
    texts = [f'<trkpt lat="{north}" lon="{east}"><time>{time}</time></trkpt>' for time, north, east in points]
    return f'<gpx version="1.1"><trk><trkseg>{"".join(texts)}</trkseg></trk></gpx>'


def created(path: Path, seconds: int, android: bool = False) -> Path:
    """Write a creation time, in seconds since 1904, into the header of an MP4 file."""
    content = bytearray(path.read_bytes())
    at = content.index(b"mvhd") + 8
    content[at : at + 4] = seconds.to_bytes(4)
    if android:  # in the place of a box that nothing depends on
        at = content.index(b"udta")
        content[at + 4 : at + 16] = b"com.android."
    path.write_bytes(content)
    return path


NOON = 1_800_014_400
"""2027-01-15 12:00:00 UTC."""
TRACK = gpx(("2027-01-15T12:00:00Z", 50, 8), ("2027-01-15T12:00:02Z", 50.002, 8.004))


@pytest.mark.parametrize(
    ("name", "seconds", "android", "began"),
    [
        ("a.mp4", NOON + 2_082_844_800, False, NOON),
        ("a.mp4", NOON, False, NOON),  # some cameras count from 1970
        ("a.mp4", NOON + 2_082_844_800, True, NOON - 2),  # written when the recording ends
        ("VID_20270115_120000.mp4", 0, False, NOON),
        ("a.mp4", 0, False, None),
    ],
)
def test_when_a_video_began(tmp_path, name, seconds, android, began):
    source = created(video(tmp_path / name, codec="mp4v"), seconds, android)
    found = video_start(source)
    assert (found and found[0]) == began


def test_headers_that_are_damaged_say_nothing_of_when_a_video_began(tmp_path):
    whole = created(video(tmp_path / "a.mp4", n=3, codec="mp4v"), NOON).read_bytes()
    at = whole.index(b"moov")
    for size in (0, 4, 8, 12, 30, at + 2, at + 20, whole.index(b"mvhd") + 9):
        (tmp_path / "a.mp4").write_bytes(whole[:size])
        assert video_start(tmp_path / "a.mp4") is None
    (tmp_path / "a.mp4").write_bytes(whole[: at - 4] + b"\0\0\0\1moov" + b"\xff" * 8 + whole[at + 4 :])
    assert video_start(tmp_path / "a.mp4") is None
    assert video_start(tmp_path / "absent.mp4") is None


@pytest.mark.parametrize("track", ["sun.gpx", "sun.GPX", "day.gpx"])
def test_a_gpx_track_beside_a_video_gives_positions(tmp_path, caplog, track):
    """One of the video's own, or one of a whole day that lies among the recordings."""
    source = created(video(tmp_path / "sun.mp4", n=50, codec="mp4v"), NOON)
    (tmp_path / track).write_text(TRACK)
    (tmp_path / "rain.gpx").write_text(gpx(("2027-01-15T12:00:00Z", 20, 3)))
    video(tmp_path / "rain.avi", n=2)  # has a track of its own
    folders = unpack([source], tmp_path / "f", every=25)
    np.testing.assert_allclose(build_manifest(folders).geo.points, [[50, 8], [50.001, 8.002]])
    assert caplog.messages == ["sun began at 2027-01-15T12:00:00Z, by the creation time in the video"]


def test_a_csv_file_goes_before_a_track_and_a_manifest_behind_it(tmp_path):
    source = created(video(tmp_path / "sun.mp4", n=2, codec="mp4v"), NOON)
    (tmp_path / "sun.gpx").write_text(TRACK)
    (tmp_path / "sun.csv").write_text("image,place,traversal,latitude,longitude\n000000.jpg,a,sun,1,2\n")
    assert build_manifest(unpack([source], tmp_path / "f")).geo.points[0].tolist() == [50, 8]
    (tmp_path / "sun.csv").write_text("timestamp,latitude,longitude\n0,7,7\n1,7,8\n")
    assert build_manifest(unpack([source], tmp_path / "f")).geo.points[0].tolist() == [7, 7]


def test_a_camera_in_another_time_zone_is_told_what_to_add_before_a_frame_is_decoded(tmp_path):
    source = created(video(tmp_path / "sun.mp4", n=50, codec="mp4v"), NOON + 7200)
    (tmp_path / "sun.gpx").write_text(TRACK)
    message = (
        r"images are from 2027-01-15 14:00:00 .*positions from 2027-01-15 12:00:00 to 2027-01-15 12:00:02 \(UTC\).*"
        r"another time zone: displace manifest … --clock-offset sun=-2h"
    )
    with pytest.raises(ManifestError, match=message):
        unpack([source], tmp_path / "f")
    assert not (tmp_path / "f").exists()
    verbs.manifest([source], tmp_path / "route.csv", clock_offset=["sun=-2h"], every="25")
    table = Manifest.read(tmp_path / "route.csv")
    np.testing.assert_allclose(table.geo.points, [[50, 8], [50.001, 8.002]])
    with pytest.raises(DisplaceError, match="unknown traversal for clock_offset 'sund'; did you mean 'sun'"):
        unpack([source], tmp_path / "g", clock_offset={"sund": 5.0})


def test_a_track_of_the_day_that_is_of_another_time_is_named_and_not_used(tmp_path):
    source = created(video(tmp_path / "sun.mp4", n=3, codec="mp4v"), NOON + 86_400)
    (tmp_path / "day.gpx").write_text(TRACK)
    (tmp_path / "planned.gpx").write_text('<gpx><rte><rtept lat="1" lon="2"/></rte></gpx>')
    with pytest.warns(RouteWarning) as said:
        folders = unpack([source], tmp_path / "f")
    texts = [str(warning.message) for warning in said]
    assert "planned.gpx is not used" in texts[0]
    assert "'sun' has no positions from tracks around it: no image has a position in" in texts[1]
    assert build_manifest(folders).geo is None


def test_a_track_of_a_receiver_without_a_fix_is_refused(tmp_path):
    """It ended in a traceback."""
    source = created(video(tmp_path / "sun.mp4", n=3, codec="mp4v"), NOON)
    (tmp_path / "sun.gpx").write_text(gpx(("2027-01-15T12:00:00Z", 0, 0), ("2027-01-15T12:00:02Z", 0, 0)))
    with pytest.raises(ManifestError, match=r"sun\.gpx has no position: .* other than 0, 0"):
        unpack([source], tmp_path / "f")


@pytest.mark.parametrize("track", ["sun.kml", "sun.FIT"])
def test_a_track_beside_a_video_that_is_not_read_is_named(tmp_path, track):
    source = video(tmp_path / "sun.avi", n=3)
    (tmp_path / track).write_text("")
    with pytest.warns(
        RouteWarning, match=f"'sun' has no positions: .*{track} is not read, convert it to GPX"
    ):
        unpack([source], tmp_path / "f")
    (tmp_path / "sun.csv").write_text("timestamp,easting,northing\n0,1,2\n1,3,4\n")
    unpack([source], tmp_path / "f")  # warnings are errors


def test_a_folder_with_several_videos_is_no_traversal(tmp_path):
    for name in ("cam0.avi", "cam1.avi"):
        (tmp_path / "route" / "night").mkdir(parents=True, exist_ok=True)
        video(tmp_path / "route" / "night" / name, n=2)
    with pytest.raises(
        ManifestError, match=r"night holds 2 videos or bags.*cam0\.avi, cam1\.avi.*pass each by itself"
    ):
        unpack(tmp_path / "route", tmp_path / "f")


@pytest.mark.parametrize("positions", ["a.csv", "day.gpx"])
def test_that_videos_tell_no_places_is_said_before_one_is_decoded(tmp_path, monkeypatch, caplog, positions):
    def stop(*_, **__):
        raise KeyboardInterrupt

    sources = [video(tmp_path / f"{name}.avi", n=2) for name in "ab"]
    monkeypatch.setattr("displace.recordings.sources.extract_frames", stop)
    for before in ("places are found by sight later\n", ""):
        caplog.clear()
        with pytest.raises(KeyboardInterrupt):
            verbs.manifest(sources, tmp_path / "route.csv")
        assert before in caplog.text
        assert bool(before) == bool(caplog.text)
        (tmp_path / positions).touch()


def test_what_is_wrong_with_the_last_recording_is_said_before_the_first_is_decoded(tmp_path):
    (tmp_path / "route" / "night").mkdir(parents=True)
    for name in ("dusk.avi", "night/cam0.avi", "night/cam1.avi"):
        video(tmp_path / "route" / name, n=2)
    (tmp_path / "sun.avi").write_bytes(b"RIFF")
    with pytest.raises(ImageError, match=r"cannot read video .*sun\.avi"):
        unpack([tmp_path / "route" / "dusk.avi", tmp_path / "sun.avi"], tmp_path / "f")
    assert not (tmp_path / "f").exists()
    with pytest.raises(ManifestError, match="night holds 2 videos"):
        unpack(tmp_path / "route", tmp_path / "f")
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("every", "numbers"), [("1", "a: about 60, b: about 30"), ("0.1s", "a: about 24, b: about 12")]
)
def test_videos_of_different_lengths_are_not_decoded_for_places_by_order(
    tmp_path, monkeypatch, every, numbers
):
    videos = [video(tmp_path / "a.avi", n=60), video(tmp_path / "b.avi", n=30)]
    monkeypatch.setattr("displace.recordings.sources.extract_frames", None)
    with pytest.raises(ManifestError, match=rf"different numbers of images \({numbers}\).* displace align"):
        verbs.manifest(videos, tmp_path / "route.csv", layout="order", every=every)
    assert not (tmp_path / "route.frames").exists()


def test_folders_count_beside_videos_for_places_by_order(tmp_path, monkeypatch):
    extract_frames(video(tmp_path / "b.avi", n=30), tmp_path / "b")
    monkeypatch.setattr("displace.recordings.sources.extract_frames", None)
    with pytest.raises(ManifestError, match=r"\(a: about 60, b: about 30\)"):
        verbs.manifest(
            [video(tmp_path / "a.avi", n=60), tmp_path / "b"], tmp_path / "route.csv", layout="order"
        )


@pytest.mark.parametrize("stated", [33, 0], ids=["roughly", "not at all"])
def test_a_number_that_a_header_states_roughly_refuses_nothing(tmp_path, monkeypatch, stated):
    videos = [video(tmp_path / f"{name}.avi", n=30) for name in "ab"]
    monkeypatch.setattr(
        "displace.recordings.sources.frames_of", lambda path: stated if path.stem == "a" else 30
    )
    assert verbs.manifest(videos, tmp_path / "route.csv", layout="order").places == 30


def test_what_can_be_read_of_a_damaged_video_is_counted_then(tmp_path, monkeypatch):
    videos = [video(tmp_path / f"{name}.avi", n=30) for name in "ab"]
    monkeypatch.setattr("displace.recordings.sources.frames_of", lambda path: 60 if path.stem == "a" else 30)
    options = {"layout": "order", "allow_truncated": True}
    assert verbs.manifest(videos, tmp_path / "route.csv", **options).places == 30


@pytest.mark.parametrize("kept", ["@eaDir/a.avi", ".Trash-1000/files", "#recycle"])
def test_what_systems_keep_beside_a_video_is_no_recording(tmp_path, kept):
    """A folder with one video was refused: it held two, with the one that a network disk had made of it."""
    (tmp_path / "mon" / kept).mkdir(parents=True)
    for folder in (tmp_path / "mon", tmp_path / "mon" / kept):
        video(folder / "a.avi", n=2)
    assert unpack([tmp_path / "mon"], tmp_path / "f") == {"mon": tmp_path / "f" / "mon"}
    assert unpack(tmp_path / "mon", tmp_path / "g") == {"a": tmp_path / "g" / "a"}
