"""GPX tracks, NMEA logs, and the clocks of cameras."""

from __future__ import annotations

from functools import reduce
from operator import xor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from displace.errors import InputError, ManifestError, RouteWarning
from displace.manifest.builder import build_manifest
from displace.manifest.clock import Clock, read_offsets
from displace.manifest.position_files import is_track, read_position_file
from displace.manifest.recording import find_recordings, read_recording

NOON = 1_800_014_400
"""2027-01-15 12:00:00 UTC."""


def point(second: float, north: float, east: float, prefix: str = "") -> str:
    time = f"<{prefix}time>2027-01-15T12:00:{second:06.3f}Z</{prefix}time>"
    return f'<{prefix}trkpt lat="{north}" lon="{east}"><{prefix}ele>3</{prefix}ele>{time}</{prefix}trkpt>'


def track(folder: Path, inside: str, name: str = "sun.gpx") -> Path:
    path = folder / name
    path.write_text(f"<gpx><trk><trkseg>{inside}</trkseg></trk></gpx>")
    return path


def images(folder: Path, *seconds: float) -> Path:
    folder.mkdir(parents=True)
    for second in seconds:
        (folder / f"{round((NOON + second) * 1e6)}.jpg").write_bytes(b"")
    return folder


@pytest.mark.parametrize(
    "text",
    [
        f'<gpx version="1.0"><trk><trkseg>{point(0, 50, 8)}</trkseg></trk>'
        f"<trk><trkseg/><trkseg>{point(1.5, 51, 9)}</trkseg></trk></gpx>",
        '<?xml version="1.0" encoding="UTF-8"?><gpx xmlns="http://www.topografix.com/GPX/1/1" version="1.1"><metadata>'
        f"<time>2020-01-01T00:00:00Z</time></metadata><wpt lat='1' lon='1'><time>2020-01-01T00:00:00Z</time></wpt>"
        f"<trk><trkseg>{point(0, 50, 8)}{point(1.5, 51, 9)}</trkseg></trk></gpx>",
        '<g:gpx xmlns:g="http://www.topografix.com/GPX/1/1"><g:trk><g:trkseg>'
        f"{point(0, 50, 8, 'g:')}{point(1.5, 51, 9, 'g:')}</g:trkseg></g:trk></g:gpx>",
        "<gpx><trk><trkseg><trkpt lat='50' lon='8'><time>\n2027-01-15T14:00:00+02:00 </time><extensions>"
        "<x:time>1999-01-01T00:00:00Z</x:time></extensions></trkpt>"
        "<trkpt lat='51' lon='9'><time>2027-01-15T12:00:01.5000000Z</time></trkpt></trkseg></trk></gpx>",
    ],
)
def test_tracks_of_every_spelling(tmp_path, text):
    (tmp_path / "a.gpx").write_text(text)
    file = read_position_file(tmp_path / "a.gpx")
    assert file.times.tolist() == [NOON, NOON + 1.5]
    assert file.positions.degrees
    np.testing.assert_array_equal(file.positions.points, [[50, 8], [51, 9]])


def test_points_without_time_and_without_fix_do_not_count(tmp_path):
    path = track(tmp_path, f'{point(0, 50, 8)}<trkpt lat="70" lon="8"/>{point(1, 0, 0)}{point(2, 50.002, 8)}')
    found = read_position_file(path).for_images(["a"], np.array([NOON + 1.0]), 2.0)
    np.testing.assert_allclose(found.points, [[50.001, 8]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<gpx/>", "has no recorded track: no points"),
        ("<gpx><trk><trkseg/></trk></gpx>", "has no recorded track: no points"),
        (
            '<gpx><wpt lat="1" lon="2"/><rte><rtept lat="1" lon="2"/><rtept lat="1" lon="2"/></rte></gpx>',
            "has no recorded track: 2 points of a planned route and 1 waypoints. Export the recording with its times",
        ),
        ('<trkpt lat="1" lon="2"/>', "has no recorded track: 1 track points without times"),
        ("", r"no well-formed GPX file \(no element found: line 1"),
        ("<gpx><trk></gpx>", r"no well-formed GPX file \(mismatched tag: line 1"),
        ("time,lat,lon", "no well-formed GPX file"),
        ("<!DOCTYPE gpx><gpx/>", "it has a DOCTYPE"),
        (
            '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">]><gpx>&b;</gpx>',
            "it has a DOCTYPE",
        ),
        (
            f"<gpx>\n{point(0, 91, 8)}\n{point(0, 'x', 8)}</gpx>",
            "line 2: latitude 91 is outside ±90 degrees\n.*line 3: latitude 'x' is not a number",
        ),
        ("<gpx><trkpt lat='1' lon='2'><time>noon:</time></trkpt></gpx>", "line 1: timestamp 'noon:' is not"),
        (f"<gpx><trkpt lat='1' lon='2'><time>{'1:' * 5000}</time></trkpt></gpx>", "line 1: timestamp '1:1"),
    ],
)
def test_what_is_no_track_is_said(tmp_path, text, message):
    (tmp_path / "a.gpx").write_text(text)
    with pytest.raises(ManifestError, match=f"(?s)a.gpx.*{message}"):
        read_position_file(tmp_path / "a.gpx")


def test_a_track_that_ends_too_early_is_used_as_far_as_it_goes(tmp_path):
    """A phone whose battery is empty writes no end."""
    text = f"<gpx><trk><trkseg>\n{point(0, 50, 8)}\n{point(1, 51, 9)}\n{point(2, 52, 9)}"
    for end in (-1, -30, -60):
        (tmp_path / "a.gpx").write_text(text[:end])
        with pytest.warns(RouteWarning, match=r"a\.gpx ends too early, in line 4: the 2 points before"):
            assert len(read_position_file(tmp_path / "a.gpx").times) == 2


def sentence(body: str, checksum: int | None = None) -> str:
    found = reduce(xor, body.encode()) if checksum is None else checksum
    return f"${body}*{found:02X}"


def rmc(second: int, north: str = "5030.0000,N", east: str = "00815.0000,E", talker: str = "GP") -> str:
    return f"{talker}RMC,1200{second:02d}.50,A,{north},{east},10.0,90.0,150127,,,A"


def test_an_nmea_log(tmp_path):
    """Fixes of the receiver; void ones, damaged ones and those of another talker are left out."""
    lines = [
        "GPS logger 1.0",
        sentence(rmc(0)),
        sentence(rmc(0, talker="GN", north="5031.0000,N")),
        sentence("GPGGA,120000.50,5030.0000,N,00815.0000,E,1,08,0.9,545.4,M,46.9,M,,"),
        sentence("GPRMC,120001.50,V,,,,,,,150127,,,N"),
        sentence(rmc(2, north="1111.0000,N"), checksum=0),
        f"12:00:03 ${rmc(3, '0030.0000,S', '17030.0000,W')}",  # no checksum, and a logger's own time before it
        f"${rmc(4, '9930.0000,N')}",
        "$GPRMC,120005.50,A,5030.00",
    ]
    (tmp_path / "sun.log").write_bytes("\r\n".join(lines).encode() + b"\r\n\xb5b\x01\x07")
    file = read_position_file(tmp_path / "sun.log")
    assert (file.times - NOON).tolist() == [0.5, 3.5]
    np.testing.assert_array_equal(file.positions.points, [[50.5, 8.25], [-0.5, -170.5]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            sentence("GPGGA,120000,5030.0,N,00815.0,E,1,08,0.9,545.4,M,46.9,M,,"),
            "which alone have both, none",
        ),
        (sentence("GPRMC,120001.50,V,,,,,,,150127,,,N"), "1 void"),
        (sentence(rmc(1), checksum=0), "1 damaged"),
        ("$GPRMC,120000,A,5030.0,N,00815.0,E,,,151327,,", "1 void"),
    ],
)
def test_a_log_without_a_fix_is_refused(tmp_path, text, message):
    (tmp_path / "a.nmea").write_text(text)
    with pytest.raises(ManifestError, match=f"a.nmea has no position with a date: .*{message}"):
        read_position_file(tmp_path / "a.nmea")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.gpx", "", True),
        ("a.NMEA", "", True),
        ("a.txt", sentence(rmc(0)), True),
        ("a.log", "error: $GP", False),
        ("a.csv", sentence(rmc(0)), False),
    ],
)
def test_which_files_are_tracks(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    assert is_track(tmp_path / name) == expected


@pytest.mark.parametrize("name", ["sun.gpx", "sun.GPX", "sun/track.gpx", "day.gpx", "sun.log", "sun/gps.txt"])
def test_tracks_beside_in_and_around_a_folder_of_frames(tmp_path, name):
    images(tmp_path / "sun", 0, 1)
    images(tmp_path / "rain", 1)
    (tmp_path / "rain.gpx").write_text(f"<gpx>{point(1, 20, 3)}</gpx>")
    (tmp_path / "sun" / "notes.txt").write_text("wet road")
    if name.endswith(("log", "txt")):
        (tmp_path / name).write_text(
            "\n".join(map(sentence, (rmc(0, "5000.0000,N", "00800.0000,E"), rmc(1))))
        )
        expected = [[50, 8], [50.25, 8.125]]
    else:
        track(tmp_path, point(0, 50, 8) + point(2, 50.5, 8.25), name)
        expected = [[50, 8], [50.25, 8.125]]
    rain, sun = find_recordings(tmp_path)
    assert rain.positions.points.tolist() == [[20, 3]]
    np.testing.assert_allclose(sun.positions.points, expected)


def test_the_track_of_a_day_that_tells_most_is_used(tmp_path):
    images(tmp_path / "sun", 0, 1, 2, 9)
    track(tmp_path, point(0, 10, 8), "a.gpx")
    track(tmp_path, point(0, 50, 8) + point(9, 50, 8), "b.gpx")
    track(tmp_path, point(0, 10, 8) + point(4, 10, 8), "c.gpx")
    assert find_recordings(tmp_path)[0].positions.points[-1].tolist() == [50, 8]


def test_a_track_serves_no_other_recording_than_the_one_of_its_name(tmp_path):
    images(tmp_path / "2027.01.15", 0)
    images(tmp_path / "sun", 0)
    track(tmp_path, point(0, 50, 8), "2027.01.15.gpx")
    (tmp_path / "day.displace").write_text("")  # what was made of a track's recordings is none
    dated, sun = find_recordings(tmp_path)
    assert dated.positions is not None
    assert sun.positions is None


def test_a_csv_file_goes_before_a_track_and_two_tracks_are_one_too_many(tmp_path):
    images(tmp_path / "sun", 0)
    track(tmp_path, point(0, 50, 8))
    (tmp_path / "sun.csv").write_text(f"timestamp,lat,lon\n{NOON},60,9\n")
    assert read_recording("sun", tmp_path / "sun").positions.points.tolist() == [[60, 9]]
    (tmp_path / "sun.csv").write_text("image,place,traversal,latitude,longitude\nsun/1.jpg,a,sun,1,1\n")
    assert read_recording("sun", tmp_path / "sun").positions.points.tolist() == [[50, 8]]
    track(tmp_path / "sun", point(0, 50, 8), "b.gpx")
    with pytest.raises(ManifestError, match=r"several files of positions, .*sun\.gpx, .*b\.gpx"):
        read_recording("sun", tmp_path / "sun")


def test_images_without_a_position_are_counted(tmp_path, caplog):
    """A receiver that starts late, and a tunnel; the fixes of some receivers are as far apart."""
    images(tmp_path / "sun", 0, 1, 10, 11, 20, 25, 30, 33, 40, 50)
    track(tmp_path, "".join(point(second, 50, 8) for second in (10, 15, 17, 31, 36)))
    assert read_recording("sun", tmp_path / "sun").positions.known.sum() == 4
    (said,) = caplog.messages
    assert said.endswith(
        "sun.gpx: 6 of 10 images have no position: 2 before its first, 2 after its last, 2 in gaps of up "
        "to 14 s (--max-gap 7 puts them on the straight line across)"
    )
    assert read_recording("sun", tmp_path / "sun", 7.0).positions.known.sum() == 7


@pytest.mark.parametrize(
    ("hours", "zone", "offset"),
    [(0, "", {}), (2, "+02:00", {}), (2, "", {"": -7200.0}), (2, "", {"sun": -7200.0, "": 5.0})],
)
def test_photos_with_the_time_in_exif_and_a_track(tmp_path, hours, zone, offset):
    (tmp_path / "sun").mkdir()
    for second in range(3):
        exif = Image.Exif()
        exif[0x8769] = {0x9003: f"2027:01:15 {12 + hours}:00:0{second}", 0x9011: zone}
        Image.new("RGB", (8, 6)).save(tmp_path / "sun" / f"IMG_{second + 1}.jpg", exif=exif)
    track(tmp_path, point(0, 50, 8) + point(2, 50.002, 8))
    found = build_manifest(tmp_path, clock_offset=offset)
    np.testing.assert_allclose(found.geo.points[:, 0], [50, 50.001, 50.002])


@pytest.mark.parametrize(
    ("clock", "first", "last", "advice"),
    [
        (Clock("sun"), 3600, 3660, "another time zone: displace manifest … --clock-offset sun=-1h"),
        (Clock("sun"), -19800, -19740, "--clock-offset sun=+5.5h"),
        (Clock("sun", -600), 3600, 3660, "--clock-offset sun=-4200"),
        (Clock("a b"), 500, 560, "If both began together: displace manifest … --clock-offset 'a b'=-500"),
        (Clock("sun", began=NOON + 3600.0), 3600, 3660, "--clock-offset sun=2027-01-15T12:00:00Z"),
        (Clock("sun", began=NOON + 3600.0, by="its header"), 3600, 3660, "--clock-offset sun=-1h"),
    ],
)
def test_what_to_add_to_times_that_are_those_of_no_position(clock, first, last, advice):
    said = clock.advice(NOON + np.array([first, last], float), NOON + np.array([0.0, 60]))
    assert advice in said


def test_offsets(tmp_path):
    assert read_offsets(["-1h", "a=b=90min", "sun=-2.5s", "c=2027-01-15T13:00:00+01:00"]) == {
        "": -3600.0,
        "a=b": 5400.0,
        "sun": -2.5,
        "c": NOON,
    }
    for wrong in ("", "sun=", "sun", "1 day", "sun=1:30", "9" * 40):
        with pytest.raises(InputError, match=r"clock_offset=.* must be seconds"):
            read_offsets([wrong])
    images(tmp_path / "sun", 0)
    track(tmp_path, point(0, 50, 8))
    with pytest.raises(ManifestError, match=r"images of 'sun' have dates .*must say by how much"):
        build_manifest(tmp_path, clock_offset={"sun": NOON})
    with pytest.raises(LookupError, match="unknown traversal for clock_offset 'son'; did you mean 'sun'"):
        build_manifest(tmp_path, clock_offset={"son": 1.0})


def test_clocks_that_differ_by_less_than_a_drive_are_told_of_with_what_to_add(tmp_path):
    images(tmp_path / "sun", *range(10, 40))
    track(tmp_path, "".join(point(second, 50, 8) for second in range(30)))
    with pytest.warns(
        RouteWarning, match=r"clocks differ .* If so: displace manifest … --clock-offset sun=-10$"
    ):
        read_recording("sun", tmp_path / "sun")


def test_folders_of_other_time_zones_are_all_named_at_once(tmp_path):
    """They were named one by one, each after the option for the one before had been given."""
    for name, hours in (("june", 2), ("november", 1)):
        images(tmp_path / name, *(3600 * hours + second for second in range(3)))
        track(tmp_path, "".join(point(second, 50, 8) for second in range(3)), f"{name}.gpx")
    with pytest.raises(ManifestError, match="positions of 2 recordings cannot be used:") as caught:
        build_manifest(tmp_path)
    assert "--clock-offset june=-2h" in str(caught.value)
    assert "--clock-offset november=-1h" in str(caught.value)
