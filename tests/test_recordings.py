"""Times and positions of recordings from the files beside them."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from displace.errors import ManifestError, RouteWarning
from displace.manifest.position_files import read_position_file
from displace.manifest.recording import read_recording
from displace.manifest.taken_at import times_in_names


def test_times_follow_the_images_not_the_rows(tmp_path):
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "frames.csv").write_text("image,timestamp\nb.jpg,2\ngone.jpg,9\na.jpg,1\n")
    np.testing.assert_array_equal(read_recording("t", tmp_path).times, [1, 2, np.nan])


def test_take(tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.jpg").write_bytes(b"")
    (tmp_path / "p.csv").write_text(
        "image,timestamp,x,y\n" + "".join(f"{i}.jpg,{i},{i * 10},0\n" for i in range(4))
    )
    part = read_recording("t", tmp_path).take(np.array([3, 1]))
    assert part.names == ["3", "1"]
    assert part.times.tolist() == [3, 1]
    np.testing.assert_array_equal(part.positions.points, [[30, 0], [10, 0]])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["1418381798086398.png", "1418381798148909.png"], [1418381798.086398, 1418381798.148909]),
        (["frame_12.5.jpg", "frame_13.jpg"], [12.5, 13]),
        (["left/0007.jpg"], [7]),
        (["IMG_20231114_221320.jpg", "IMG_20231114_221321.jpg"], [1700000000, 1700000001]),
        (["2023-11-14 22.13.20.250.png", "2023-11-14 22.13.21.png"], [1700000000.25, 1700000001]),
        (["20231114221320.jpg", "20231314221321.jpg"], [20231114221.320, 20231314221.321]),  # no 13th month
        (["1700000000000000000.png"], [1700000000]),
        (["a1.jpg", "b.jpg"], None),
        ([], None),
    ],
)
def test_times_in_names(names, expected):
    found = times_in_names(names)
    assert (found is None) == (expected is None)
    if expected is not None:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_columns_by_other_names(tmp_path):
    path = tmp_path / "gps.csv"
    path.write_text("Time,LAT,Lng,Bearing,speed\n1,50,8,90,fast\n\n2,51,9,,slow\n")
    file = read_position_file(path)
    assert file.images is None
    assert file.times.tolist() == [1, 2]
    assert file.positions.degrees
    np.testing.assert_array_equal(file.positions.points, [[50, 8], [51, 9]])
    np.testing.assert_array_equal(file.positions.heading, [90, np.nan])


@pytest.mark.parametrize(
    "text",
    [
        "timestamp;lat;lon\n1700000000,5;50,25;8\n1700000001,5;0;0\n",
        "timestamp\tlat\tlon\n1700000000.5\t50.25\t8\n1700000001.5\t0\t0\n",
        "time,lat,lon\n2023-11-14T22:13:20.5Z,50.25,8\n2023-11-14T22:13:21.5Z,0,0\n",
        "time,lat,lon\n2023-11-14 23:13:20.5+01:00,50.25,8\n2023-11-14 22:13:21.5,,\n",
    ],
)
def test_separators_times_of_day_and_fixes_that_are_none(tmp_path, text):
    (tmp_path / "gps.CSV").write_text(text, encoding="utf-8-sig")
    (tmp_path / "1700000000500.jpg").write_bytes(b"")
    file = read_position_file(tmp_path / "gps.CSV")
    np.testing.assert_array_equal(file.times, [1700000000.5, 1700000001.5])
    np.testing.assert_array_equal(file.positions.points, [[50.25, 8], [np.nan, np.nan]])
    np.testing.assert_array_equal(read_recording("t", tmp_path).positions.points, [[50.25, 8]])


@pytest.mark.parametrize("cell", ["12:30:00", "2023-13-01T00:00:00", ":", "noon"])
def test_what_is_no_time_is_listed_with_what_would_be(tmp_path, cell):
    (tmp_path / "gps.csv").write_text(f"timestamp,x,y\n{cell},1,1\n")
    with pytest.raises(ManifestError, match=r"line 2: timestamp .* is not a number, nor a time such as 2027"):
        read_position_file(tmp_path / "gps.csv")


def test_clocks_of_two_zones_are_shown_as_times_of_day(tmp_path):
    """Numbers since 1970 were shown, of which nobody sees that one clock is an hour behind the other."""
    (tmp_path / "IMG_20270104_123000.jpg").write_bytes(b"")
    (tmp_path / "gps.csv").write_text(
        "timestamp,x,y\n2027-01-04T12:29:00+01:00,1,1\n2027-01-04T12:31:00+01:00,2,1\n"
    )
    message = (
        r"images are from 2027-01-04 12:30:00 to 2027-01-04 12:30:00 \(UTC\), positions from 2027-01-04 11:29:00 to "
        r"2027-01-04 11:31:00 \(UTC\); both must be on one clock. Times that name no zone, .*count as UTC"
    )
    with pytest.raises(ManifestError, match=message):
        read_recording("t", tmp_path)


@pytest.mark.parametrize(
    ("names", "hour", "zone", "at", "said"),
    [
        (["IMG_1201.jpg", "IMG_1204.jpg"], 12, "+01:00", [0, 15], "when their EXIF says"),
        (
            ["IMG_1201.jpg", "IMG_1204.jpg"],
            11,
            "",
            [0, 15],
            "when their EXIF says, in UTC, as it names no zone",
        ),
        (["a.jpg", "b.jpg"], 11, "", [0, 15], "when their EXIF says, in UTC, as it names no zone"),
        (
            ["IMG_20270104_123000.jpg", "IMG_20270104_123001.jpg"],
            12,
            "+01:00",
            [0, 15],
            "when their EXIF says",
        ),
        (["IMG_20270104_113000.jpg", "IMG_20270104_113001.jpg"], 11, "", [0, 10], None),
        (["1799062200.jpg", "1799062202.jpg"], 13, "+02:00", [0, 20], None),
    ],
)
def test_times_in_exif_are_used_where_names_say_less(tmp_path, caplog, names, hour, zone, at, said):
    for row, name in enumerate(names):
        exif = Image.Exif()
        exif[0x8769] = {0x9003: f"2027:01:04 {hour}:30:0{row}", 0x9291: f"{5 * row}", 0x9011: zone}
        Image.new("RGB", (8, 6)).save(tmp_path / name, exif=exif)
    rows = [f"2027-01-04T11:30:0{second}Z,{10 * second},0" for second in range(4)]
    (tmp_path / "gps.csv").write_text("\n".join(["timestamp,x,y", *rows]))
    np.testing.assert_allclose(read_recording("t", tmp_path).positions.points[:, 0], at)
    assert [message.partition("images were taken ")[2] for message in caplog.messages] == (
        [said] if said else []
    )


def test_names_that_count_frames_are_no_times(tmp_path):
    names = [f"frame_{i:04d}.jpg" for i in range(0, 100, 5)]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "gps.csv").write_text("timestamp,x,y\n" + "".join(f"{i},{i},0\n" for i in range(100)))
    with pytest.raises(
        ManifestError, match=r"frame_0000.jpg to .*frame_0095.jpg\) only count frames.*frames\.csv"
    ):
        read_recording("t", tmp_path)
    (tmp_path / "frames.csv").write_text(
        "image,timestamp\n" + "".join(f"{name},{row * 0.5}\n" for row, name in enumerate(names))
    )
    points = read_recording("t", tmp_path).positions.points
    np.testing.assert_array_equal(points[:, 0], np.arange(20) * 0.5)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("sun.csv", "time (s),gps lat,gps lon\n1,50,8\n", "sun.csv has 'time .s.', 'gps lat', 'gps lon'"),
        ("sun/log.csv", "image,breite\n1.jpg,50\n", "log.csv has 'image', 'breite'"),
        ("sun.kml", "<kml/>", r"sun.kml is not read, convert it to GPX \(sun.gpx\)"),
        ("sun.FIT", "", r"sun.FIT is not read, convert it to GPX"),
    ],
)
def test_files_that_seem_to_hold_positions_are_named_where_none_are_known(tmp_path, name, text, told):
    (tmp_path / "sun").mkdir()
    (tmp_path / "sun" / "1.jpg").write_bytes(b"")
    (tmp_path / name).write_text(text)
    with pytest.warns(RouteWarning, match=f"'sun' has no positions: .*{told}.*easting, northing, latitude"):
        assert read_recording("sun", tmp_path / "sun").positions is None


def test_manifests_and_times_beside_images_are_not_taken_for_positions_that_are_lost(tmp_path):
    (tmp_path / "sun").mkdir()
    (tmp_path / "sun" / "1.jpg").write_bytes(b"")
    (tmp_path / "sun.csv").write_text("image,place,traversal\nsun/1.jpg,a,sun\n")
    (tmp_path / "sun" / "frames.csv").write_text("image,timestamp\n1.jpg,5\n")
    (tmp_path / "sun" / "notes.csv").write_text("")
    assert read_recording("sun", tmp_path / "sun").positions is None


def test_equal_names_in_several_folders_are_told_apart_by_the_folder(tmp_path):
    for name in ("left/1.jpg", "left/2.jpg", "right/1.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "p.csv").write_text(
        "image,timestamp,x,y,heading\nsun/left/1.jpg,5,0,0,0\nsun/right/1.jpg,6,0,1,90\nsun/left/2.jpg,7,9,0,0\n"
    )
    found = read_recording("sun", tmp_path)
    assert found.names == ["left/1", "left/2", "right/1"]
    assert found.times.tolist() == [5, 7, 6]
    np.testing.assert_array_equal(found.positions.points, [[0, 0], [9, 0], [0, 1]])
    np.testing.assert_array_equal(found.positions.heading, [0, 0, 90])


def positions_in_a_log(folder, times, rows):
    """Eastings of images that were taken at `times`, by a log of times and eastings."""
    lines = [f"{time},{easting},7" for time, easting in rows]
    (folder / "gps.csv").write_text("\n".join(["timestamp,easting,northing", *lines]))
    file = read_position_file(folder / "gps.csv")
    return file.for_images([f"{time:.2f}.jpg" for time in times], np.asarray(times), 2.0).points[:, 0]


@pytest.mark.parametrize(
    ("first", "last", "told"),
    [
        (
            130,
            330,
            "images begin 30 s after the positions in .*gps.csv, and end 30 s after them: .* clocks differ",
        ),
        (72, 268, "images begin 28 s before .* and end 32 s before them"),
        (130, 270, None),  # the receiver ran for longer
        (70, 330, None),
        (110, 330, None),
        (102, 302, None),
    ],
)
def test_clocks_that_differ_by_less_than_a_recording_are_told_of(tmp_path, first, last, told):
    def found():
        return positions_in_a_log(
            tmp_path, np.arange(first, last + 1), [(t, 10 * t) for t in range(100, 301)]
        )

    if told is None:
        found()  # warnings are errors
        return
    with pytest.warns(RouteWarning, match=told):
        found()


def test_times_that_are_cut_off_to_seconds_are_spread(tmp_path):
    """Ten positions a second at 10 m/s; images were off by as much as is driven in a second."""
    at = np.arange(1000, 1099) / 10
    images = at[:-1] + 0.05
    found = positions_in_a_log(tmp_path, images, zip(at, 10 * at, strict=True))
    np.testing.assert_allclose(found, 10 * images)
    with pytest.warns(RouteWarning, match=r"gps\.csv: 89 of 99 rows repeat the time of the row before"):
        found = positions_in_a_log(tmp_path, images, zip(np.floor(at), 10 * at, strict=True))
    assert np.abs(found - 10 * images).max() < 1.1  # the last second has nine rows


def test_rows_that_stand_twice_are_no_times_to_spread(tmp_path):
    """Each position of a second is repeated, as by a program that writes faster than the receiver."""
    rows = [(second, 10 * second) for second in range(10, 15) for _ in range(4)]
    images = 10 + np.arange(13) / 4
    np.testing.assert_allclose(positions_in_a_log(tmp_path, images, rows), 10 * images)
