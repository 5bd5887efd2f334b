"""Manifests from folders: every layout, detection, and assignment to known places."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny import touch

from displace.errors import InputError, ManifestError, RouteWarning, UnknownNameError
from displace.geo import Positions
from displace.manifest.builder import build_manifest, detect
from displace.manifest.place_assignment import KnownPlaces
from displace.manifest.recording import find_recordings
from displace.manifest.table import Manifest
from displace.recordings.sources import unpack


def grid(manifest: Manifest) -> dict[tuple[str, str], str]:
    """(place, traversal) → image; fails where one pair has two images."""
    keys = list(zip(manifest.places.tolist(), manifest.traversals.tolist(), strict=True))
    named = [key for key in keys if key[0]]
    assert len(set(named)) == len(named)
    return {key: image for key, image in zip(keys, manifest.images, strict=True) if key[0]}


def positions_csv(
    path: Path, times: np.ndarray, points: np.ndarray, heading: np.ndarray | None = None
) -> None:
    names = "timestamp,easting,northing" + (",heading" if heading is not None else "")
    table = np.column_stack([times, points, *([heading] if heading is not None else [])])
    rows = [",".join(repr(float(v)) for v in row) for row in table]
    path.write_text("\n".join([names, *rows]) + "\n")


def test_equal_names(tmp_path):
    touch(tmp_path, ["sun/9.jpg", "sun/10.jpg", "sun/11.jpg", "night/9.PNG", "night/11.jpg"])
    assert detect(find_recordings(tmp_path)) == "names"
    manifest = build_manifest(tmp_path)
    assert grid(manifest) == {
        ("9", "sun"): "sun/9.jpg",
        ("10", "sun"): "sun/10.jpg",
        ("11", "sun"): "sun/11.jpg",
        ("9", "night"): "night/9.PNG",
        ("11", "night"): "night/11.jpg",
    }
    frame = dict(zip(manifest.places.tolist(), manifest.frame.tolist(), strict=True))
    assert frame == {"9": 0, "10": 1, "11": 2}
    assert all(path.is_file() for path in manifest.paths())


@pytest.mark.parametrize(("last", "layout"), [(7, "order"), (8, "sight")])
def test_a_recording_without_a_common_name_has_no_places_of_its_own(tmp_path, last, layout):
    touch(tmp_path, [f"{name}/{i}.jpg" for name in ("sun", "rain") for i in range(7)])
    touch(tmp_path, [f"snow/DSC_{i}.jpg" for i in range(last)])
    assert detect(find_recordings(tmp_path)) == layout
    assert len(build_manifest(tmp_path).place_ids()) == (7 if layout == "order" else 0)
    touch(tmp_path, ["snow/3.jpg"])
    assert detect(find_recordings(tmp_path)) == "names"


def test_recordings_that_lie_on_their_side_are_named(tmp_path):
    for name, size in (("sun", (64, 48)), ("night", (48, 64)), ("rain", (64, 48))):
        (tmp_path / name).mkdir()
        exif = Image.Exif()
        exif[0x0112] = 6  # to be turned by a quarter
        turned = name == "rain"
        for i in range(3):
            shown = Image.new("RGB", size[::-1] if turned else size)
            shown.save(tmp_path / name / f"{i}.jpg", exif=exif if turned else b"")
    with pytest.warns(RouteWarning, match=r"upright in night \(48 × 64\) and wide in rain \(64 × 48\), sun"):
        build_manifest(tmp_path)
    shutil.rmtree(tmp_path / "night")
    build_manifest(tmp_path)  # warnings are errors


@pytest.mark.parametrize("heading", [False, True])
def test_a_way_back_is_not_taken_for_the_way_there_without_a_word(tmp_path, heading):
    there = np.column_stack([np.arange(0, 200, 10.0), np.zeros(20)])
    for name, points in (("sun", there), ("rain", np.concatenate([there + 4, there[::-1] + 1]))):
        touch(tmp_path, [f"{name}/{row}.jpg" for row in range(len(points))])
        rows = [f"{row}.jpg,{x},{y},{0 if row < 20 else 180}" for row, (x, y) in enumerate(points)]
        head = "image,easting,northing" + (",heading" if heading else "")
        rows = rows if heading else [row.rpartition(",")[0] for row in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *rows]))
    if heading:
        placed = grid(build_manifest(tmp_path, anchor="sun")).values()  # warnings are errors
        assert max(int(Path(image).stem) for image in placed) < 20
        return
    with pytest.warns(
        RouteWarning, match=r"1\d of 1\d places are passed in opposite directions, .*'heading'"
    ):
        build_manifest(tmp_path, anchor="sun")


def test_equal_order_sorts_naturally(tmp_path):
    touch(tmp_path, [f"a/x{i}.jpg" for i in (2, 10, 1)] + [f"b/{i}.png" for i in (100, 20, 3)])
    assert detect(find_recordings(tmp_path)) == "order"
    manifest = build_manifest(tmp_path)
    assert manifest.images == ["a/x1.jpg", "a/x2.jpg", "a/x10.jpg", "b/3.png", "b/20.png", "b/100.png"]
    assert manifest.places.tolist() == ["0000", "0001", "0002"] * 2
    assert manifest.frame.tolist() == [0, 1, 2] * 2


def test_counted_frames_of_unequal_drives_are_not_equal_names(tmp_path):
    touch(tmp_path, [f"{t}/frame_{i:04d}.jpg" for t, n in (("sun", 40), ("rain", 55)) for i in range(n)])
    assert detect(find_recordings(tmp_path)) == "sight"
    blank = build_manifest(tmp_path)
    assert set(blank.places.tolist()) == {""}
    assert "next: displace extract, then displace align" in str(blank.summary())
    assert len(build_manifest(tmp_path, layout="names").place_ids()) == 55
    (tmp_path / "rain" / "frame_0020.jpg").unlink()  # a gap: the names mean something
    assert detect(find_recordings(tmp_path)) == "names"


def test_unequal_numbers_cannot_be_told_and_are_refused_by_order(tmp_path):
    touch(tmp_path, ["a/1.jpg", "a/2.jpg", "b/7.jpg"])
    assert build_manifest(tmp_path).places.tolist() == [""] * 3
    with pytest.raises(ManifestError, match=r"different numbers of images \(a: 2, b: 1\).* displace align"):
        build_manifest(tmp_path, layout="order")


def test_landmarks_without_traversals(tmp_path):
    touch(tmp_path, [f"castle{i}/{i}_{j}.jpg" for i in range(25) for j in range(3)])
    assert detect(find_recordings(tmp_path)) == "landmarks"
    manifest = build_manifest(tmp_path)
    assert set(manifest.traversals.tolist()) == {"reference"}
    assert manifest.places.tolist()[:4] == ["castle0"] * 3 + ["castle1"]
    assert len(manifest.summary().duplicates) == 25


def test_landmarks_below_traversals(tmp_path):
    touch(
        tmp_path,
        ["train/tower/a.jpg", "train/tower/b.jpg", "train/gate/c.jpg", "val/gate/d.jpg", "val/tower/e.jpg"],
    )
    assert detect(find_recordings(tmp_path)) == "landmarks"
    manifest = build_manifest(tmp_path)
    assert manifest.traversals.tolist() == ["train"] * 3 + ["val"] * 2
    assert sorted(manifest.places.tolist()) == ["gate", "gate", "tower", "tower", "tower"]
    assert manifest.summary().duplicates == {("tower", "train"): 2}


@pytest.mark.parametrize("parts", [("100APPLE", "101APPLE"), ("left", "right")])
def test_folders_of_many_frames_are_parts_of_a_recording_and_no_places(tmp_path, parts):
    for traversal, start, n in (("sun", 3000, 30), ("rain", 4000, 25)):
        touch(tmp_path / traversal, [f"{parts[0]}/IMG_{start + i}.jpg" for i in range(n)])
        touch(tmp_path / traversal, [f"{parts[1]}/IMG_{start + i}.jpg" for i in range(n, 2 * n)])
    assert detect(find_recordings(tmp_path)) == "sight"
    assert len(build_manifest({"sun": tmp_path / "sun"}).place_ids()) == 60


@pytest.mark.parametrize("layout", ["auto", "sight"])
def test_folders_of_equal_names_in_a_recording_may_be_cameras(tmp_path, layout):
    """Two cameras of a car became a route of twice its length, one after the other, without a word."""
    for traversal, n in (("mon", 30), ("tue", 25)):
        touch(tmp_path / traversal, [f"{side}/{i:04d}.jpg" for side in ("left", "right") for i in range(n)])
    message = (
        r"traversal 'mon' has images of equal names in left, right: .* consecutive parts of one drive.*"
        r"pass one camera of each drive: displace build ROUTE/\*/left"
    )
    with pytest.warns(RouteWarning, match=message):
        build_manifest(tmp_path, layout)
    one = unpack([tmp_path / "mon" / "left", tmp_path / "tue" / "left"], tmp_path / "frames")
    assert one == {"mon": tmp_path / "mon" / "left", "tue": tmp_path / "tue" / "left"}
    build_manifest(one, layout)


def test_many_folders_with_equal_names_are_landmarks(tmp_path):
    touch(tmp_path, [f"{i}/{j}.jpg" for i in range(30) for j in range(4)])
    assert detect(find_recordings(tmp_path)) == "landmarks"


def test_one_folder_of_images_is_one_traversal(tmp_path):
    touch(tmp_path / "walk", ["1.jpg", "2.jpg"])
    manifest = build_manifest(tmp_path / "walk")
    assert manifest.traversals.tolist() == ["walk", "walk"]
    assert manifest.images == ["1.jpg", "2.jpg"]


@pytest.mark.parametrize("source", [".", "walk", "./walk/../walk"])
def test_relative_sources(tmp_path, monkeypatch, source):
    touch(tmp_path / "walk", ["b2.jpg", "b10.jpg"])
    monkeypatch.chdir(tmp_path / "walk" if source == "." else tmp_path)
    manifest = build_manifest(source)
    assert manifest.images == ["b2.jpg", "b10.jpg"]
    assert manifest.places.tolist() == ["b2", "b10"]
    assert set(manifest.traversals.tolist()) == {"walk"}
    assert all(path.is_file() for path in manifest.paths())


def test_images_deep_below_a_traversal(tmp_path):
    touch(tmp_path, [f"{t}/stereo/left/{i}.png" for t in "ab" for i in range(3)])
    assert grid(build_manifest(tmp_path))["1", "b"] == "b/stereo/left/1.png"


def test_single_outer_folder_is_entered(tmp_path):
    touch(tmp_path, [f"images/{t}/{i}.jpg" for t in "ab" for i in range(2)])
    manifest = build_manifest(tmp_path)
    assert manifest.traversal_names() == ["a", "b"]
    assert manifest.images[0] == "images/a/0.jpg"


def test_mapping_names_the_traversals(tmp_path):
    touch(tmp_path, ["2027-01-04/1.jpg", "old/run/1.jpg"])
    manifest = build_manifest({"snow": tmp_path / "2027-01-04", "sun": tmp_path / "old" / "run"})
    assert manifest.traversals.tolist() == ["snow", "sun"]
    assert all(path.is_file() for path in manifest.paths())


@pytest.mark.parametrize(
    ("names", "message"),
    [([], "no images in"), (["loose.jpg", "a/1.jpg"], "loose.jpg"), (["a/readme.txt"], "no images in")],
)
def test_folders_that_cannot_be_used(tmp_path, names, message):
    touch(tmp_path, names)
    with pytest.raises(ManifestError, match=message):
        build_manifest(tmp_path)


def test_named_traversal_without_images(tmp_path):
    touch(tmp_path, ["a/1.jpg", "b/readme.txt"])
    with pytest.raises(ManifestError, match="no images in traversal rain"):
        build_manifest({"sun": tmp_path / "a", "rain": tmp_path / "b"})


def test_no_folder(tmp_path):
    with pytest.raises(ManifestError, match="no folder at"):
        build_manifest(tmp_path / "absent")


def test_unknown_layout(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'order'"):
        build_manifest(tmp_path, layout="ordre")


# --- positions -------------------------------------------------------------------------------------------


def drive(folder: Path, name: str, x: np.ndarray, y: float = 0.0, rate: float = 2.0, **options) -> np.ndarray:
    """A recording along x at 1 frame per 0.1 s whose GPS runs at another rate; returns the images' x."""
    times = 1_400_000_000 + np.arange(len(x)) * 0.1
    touch(folder, [f"{name}/{round(t * 1e6)}.jpg" for t in times])
    clock = np.arange(times[0] - 0.3, times[-1] + 0.4, 1 / rate)
    gps_x = np.interp(clock, times, x, left=None, right=None)
    positions_csv(folder / f"{name}.csv", clock, np.column_stack([gps_x, np.full_like(gps_x, y)]), **options)
    return x


def test_positions_that_do_not_line_up(tmp_path):
    slow = drive(tmp_path, "slow", np.linspace(0, 100, 401), rate=10)
    fast = drive(tmp_path, "fast", np.linspace(-30, 75, 106), y=2.0, rate=10)
    assert detect(find_recordings(tmp_path)) == "positions"
    manifest = build_manifest(tmp_path, anchor="slow", spacing=10, radius=4)
    cells = grid(manifest)
    x_of = {}
    for name, x in (("slow", slow), ("fast", fast)):
        files = sorted((tmp_path / name).iterdir(), key=lambda p: int(p.stem))
        x_of |= {f"{name}/{path.name}": value for path, value in zip(files, x, strict=True)}
    anchor = {place: x_of[image] for (place, traversal), image in cells.items() if traversal == "slow"}
    assert np.diff(sorted(anchor.values())) == pytest.approx(10, abs=0.3)
    assert len(anchor) in (10, 11)
    for place, x in anchor.items():
        image = cells.get((place, "fast"))
        nearest = np.abs(fast - x).min()
        if nearest < 3:
            assert abs(x_of[image] - x) == pytest.approx(nearest, abs=0.6)
        else:
            assert image is None
    off_route = [x_of[i] for i, p in zip(manifest.images, manifest.places, strict=True) if not p]
    assert off_route
    assert max(off_route) < -9
    coverage = {t.name: t.coverage for t in manifest.summary().traversals}
    assert coverage["slow"] == 1
    assert 0.6 < coverage["fast"] < 0.9
    without = build_manifest(tmp_path, anchor="slow", spacing=10, radius=4, keep_off_route=False)
    assert "" not in without.places
    assert grid(without) == cells


def test_images_between_places_that_are_far_apart_are_told_of(tmp_path):
    """One frame a second from a train: a third of the images had no place, as if they were off the route."""
    drive(tmp_path, "first", np.arange(0, 1500, 28.0))
    drive(tmp_path, "second", np.arange(13, 1500, 28.0))
    drive(tmp_path, "third", np.arange(5000, 5280, 28.0))  # off the route, and not between places
    said = r"52 of 118 images lie between places, which are 28 m apart, and farther than 10 m .* --radius 1[345] takes"
    with pytest.warns(RouteWarning) as caught:
        build_manifest(tmp_path, anchor="first")
    assert sum(re.search(said, str(warning.message)) is not None for warning in caught) == 1
    with pytest.warns(RouteWarning, match="no image of 'third'") as caught:
        wider = build_manifest(tmp_path, anchor="first", radius=15)
    assert len(caught) == 1
    assert {t.name: t.coverage for t in wider.summary().traversals}["second"] > 0.95


@pytest.mark.filterwarnings("ignore:kept")
@pytest.mark.parametrize("elsewhere", ["elsewhere", "yonder"])  # first or last of the three
def test_anchor_is_the_traversal_with_the_best_coverage(tmp_path, elsewhere):
    drive(tmp_path, "short", np.linspace(40, 60, 50))
    drive(tmp_path, "whole", np.linspace(0, 100, 200))
    drive(tmp_path, elsewhere, np.linspace(5000, 5050, 100))
    with pytest.warns(
        RouteWarning, match=f"no image of '{elsewhere}' shows one of the places within 5 m: .* 4,9.. m away"
    ):
        manifest = build_manifest(tmp_path, radius=5)
    cover = {t.name: t.coverage for t in manifest.summary().traversals}
    assert cover["whole"] == 1
    assert cover[elsewhere] == 0
    # Places are made along all of its hundred metres; along the short one there would be five, all shown by both.
    assert len(manifest.place_ids()) in (20, 21)
    assert 0.1 < cover["short"] < 0.4


@pytest.mark.filterwarnings("ignore:kept")
@pytest.mark.parametrize(("away", "helped"), [(14, True), (5000, False)])
def test_what_helps_where_gps_is_off_is_said(tmp_path, away, helped):
    """A drive 14 m beside the other made a map of one traversal, and nothing said what to do."""
    drive(tmp_path, "first", np.linspace(0, 100, 200))
    drive(tmp_path, "second", np.linspace(100 + away, 150 + away, 100))
    with pytest.warns(RouteWarning, match="no image of .* shows one of the places") as caught:
        build_manifest(tmp_path, anchor="first")
    said = [str(warning.message) for warning in caught]
    assert any("--radius takes it, or --layout sight goes by the images" in text for text in said) == helped


@pytest.mark.filterwarnings("ignore:kept")
def test_the_anchor_is_not_the_longest_drive_but_the_one_whose_places_are_seen_again(tmp_path):
    drive(tmp_path, "alone", np.linspace(5000, 5150, 300))  # 31 places, seen once
    for name in ("there", "too"):
        drive(tmp_path, name, np.linspace(0, 100, 200))  # 21, seen twice
    with pytest.warns(RouteWarning, match="no image of 'alone' shows one of the places"):
        manifest = build_manifest(tmp_path)
    assert {t.name: t.coverage for t in manifest.summary().traversals} == {"alone": 0, "there": 1, "too": 1}
    assert len(manifest.place_ids()) in (20, 21)


def test_unknown_anchor(tmp_path):
    drive(tmp_path, "sun", np.linspace(0, 10, 20))
    with pytest.raises(UnknownNameError, match="did you mean 'sun'"):
        build_manifest(tmp_path, anchor="sum")


def test_anchor_without_positions(tmp_path):
    touch(tmp_path, ["a/1.jpg", "b/1.jpg"])
    with pytest.raises(ManifestError, match="anchor='a' is for positions"):
        build_manifest(tmp_path, anchor="a")


def test_heading_tells_directions_apart(tmp_path):
    """There and back on one road: 11 positions, 22 places when headings are known."""
    x = np.concatenate([np.arange(0, 101, 1.0), np.arange(100, -1, -1.0)])
    heading = np.where(np.arange(len(x)) < 101, 90.0, 270.0)
    for name in "ab":
        touch(tmp_path, [f"{name}/{i:03d}.jpg" for i in range(len(x))])
        rows = [f"{i:03d}.jpg,{v},0,{h}" for i, (v, h) in enumerate(zip(x, heading, strict=True))]
        (tmp_path / f"{name}.csv").write_text("\n".join(["image,x,y,heading", *rows]))
    manifest = build_manifest(tmp_path, spacing=10, radius=4)
    assert len(manifest.place_ids()) == 22
    for (place, traversal), image in grid(manifest).items():
        twin = grid(manifest)[place, "b" if traversal == "a" else "a"]
        assert heading[int(Path(image).stem)] == heading[int(Path(twin).stem)]
    for name in "ab":
        text = (tmp_path / f"{name}.csv").read_text()
        (tmp_path / f"{name}.csv").write_text(text.replace("heading", "ignored"))
    assert len(build_manifest(tmp_path, spacing=10, radius=4).place_ids()) == 11


def test_standing_still_makes_no_places(tmp_path):
    x = np.concatenate([np.linspace(0, 20, 21), np.full(300, 20.0), np.linspace(20, 40, 21)])
    x += np.random.default_rng(0).normal(0, 0.2, len(x))
    drive(tmp_path, "a", x, rate=10)
    with pytest.warns(RouteWarning, match=r"kept \d of 342 images: .* every 5 m of the route.*--spacing"):
        manifest = build_manifest(tmp_path)
    assert 7 <= len(manifest.place_ids()) <= 9


def test_degrees_in_a_file_inside_the_folder(tmp_path):
    for name, shift in (("a", 0.0), ("b", 0.00002)):
        touch(tmp_path, [f"{name}/{i}.jpg" for i in range(5)])
        rows = [f"{i}.jpg,{51.75 + i * 0.0001},{-1.25 + shift}" for i in range(5)]
        (tmp_path / name / "gps.csv").write_text("\n".join(["filename,lat,lon", *rows]))
    manifest = build_manifest(tmp_path, spacing=8, radius=5)  # 11.1 m apart, 1.4 m beside
    assert len(grid(manifest)) == 10
    assert all(Path(image).stem == str(int(place)) for (place, _), image in grid(manifest).items())
    assert manifest.latitude is not None


def test_images_the_file_does_not_name_have_no_place(tmp_path):
    touch(tmp_path, ["a/0.jpg", "a/1.jpg"])
    (tmp_path / "a.csv").write_text("image,easting,northing\n0.jpg,1,1\n")
    manifest = build_manifest({"a": tmp_path / "a"})
    assert manifest.places.tolist() == ["0000", ""]
    assert np.isnan(manifest.easting[1])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "timestamp,easting,northing\n5,1,1\n",
            "no image has a position.*2014-05-13 16:53:20 .*5.000 to 5.000 s",
        ),
        ("timestamp,easting,northing\nx,1,1\n6,?,1\n", "2 problems"),
        ("image,easting,northing\nother.jpg,1,1\n", "names none of the images"),
        ("easting,northing\n1,1\n", "needs a column 'image' or 'timestamp'"),
        ("timestamp,easting,northing\n,1,1\n", "no row with both"),
        ("timestamp,easting,northing\ninf,1,1\n5,1,1\n", "line 2: timestamp 'inf' is not finite"),
        ("timestamp,easting,northing\n1400000000,1e999,1\n", "line 2: easting '1e999' is not finite"),
        ("timestamp,latitude,longitude\n1400000000,91,1\n", "line 2: latitude 91 is outside ±90 degrees"),
    ],
)
def test_bad_position_files(tmp_path, content, message):
    touch(tmp_path, ["a/1400000000.jpg", "a/1400000001.jpg"])
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(ManifestError, match=message):
        build_manifest({"a": tmp_path / "a"})


def test_a_long_file_of_problems_does_not_flood_the_screen(tmp_path):
    touch(tmp_path, ["a/1400000000.jpg"])
    rows = [f"12:{i // 60:02d}:{i % 60:02d},1,1" for i in range(2000)]
    (tmp_path / "a.csv").write_text("\n".join(["timestamp,easting,northing", *rows]))
    with pytest.raises(ManifestError, match="2000 problems") as raised:
        build_manifest({"a": tmp_path / "a"})
    assert len(raised.value.problems) == 2000
    told = str(raised.value).splitlines()
    assert len(told) == 52
    assert told[-1] == "  … and 1,950 more"


def test_position_file_that_is_no_text(tmp_path):
    touch(tmp_path, ["a/1.jpg"])
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ManifestError, match=r"cannot read positions from .*a\.csv: .*save it as 'CSV UTF-8'"):
        build_manifest({"a": tmp_path / "a"})


def test_time_stamps_need_times_in_the_names(tmp_path):
    touch(tmp_path, ["a/first.jpg", "a/second.jpg"])
    (tmp_path / "a.csv").write_text("timestamp,easting,northing\n5,1,1\n")
    with pytest.raises(ManifestError, match=r"frames\.csv"):
        build_manifest({"a": tmp_path / "a"})
    (tmp_path / "a" / "frames.csv").write_text("image,timestamp\nfirst.jpg,5\nsecond.jpg,6\n")
    manifest = build_manifest({"a": tmp_path / "a"}, max_gap=0.5)
    assert manifest.places.tolist() == ["0000", ""]
    assert manifest.timestamp.tolist() == [5, 6]


@pytest.mark.parametrize("called", ["{}", "{}.jpg", "elsewhere/{}.png"])
def test_times_are_found_by_the_names_that_positions_are_found_by(tmp_path, called):
    touch(tmp_path, ["a/first.jpg", "a/second.jpg", "a/third.jpg"])
    rows = [f"{called.format(name)},{time},{time},0" for name, time in (("first", 5), ("second", 15))]
    (tmp_path / "a.csv").write_text("\n".join(["image,timestamp,easting,northing", *rows, ""]))
    manifest = build_manifest({"a": tmp_path / "a"})
    np.testing.assert_array_equal(manifest.timestamp, [5, 15, np.nan])
    np.testing.assert_array_equal(manifest.easting, [5, 15, np.nan])


def test_a_file_of_times_may_be_empty(tmp_path):
    touch(tmp_path, ["a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg"])
    (tmp_path / "a" / "frames.csv").write_text("image,timestamp\n")
    assert len(build_manifest({name: tmp_path / name for name in "ab"}).images) == 4


def test_two_files_of_positions(tmp_path):
    touch(tmp_path, ["a/0.jpg"])
    for name in ("a.csv", "a/gps.csv"):
        (tmp_path / name).write_text("image,x,y\n0.jpg,1,1\n")
    with pytest.raises(ManifestError, match=r"several files.*gps\.csv"):
        build_manifest({"a": tmp_path / "a"})


def test_forced_positions_without_any(tmp_path):
    touch(tmp_path, ["a/0.jpg", "b/0.jpg"])
    with pytest.raises(ManifestError, match=r"'a' has no positions: put a\.csv"):
        build_manifest(tmp_path, layout="positions")


@pytest.mark.parametrize("option", ["spacing", "radius", "max_heading"])
def test_options_must_be_positive(tmp_path, option):
    touch(tmp_path, ["a/0.jpg"])
    with pytest.raises(InputError, match=f"{option}=0 must be positive"):
        build_manifest(tmp_path, **{option: 0})


# --- @ names ---------------------------------------------------------------------------------------------


def utm(east: float, north: float, panorama: str = "", heading: str = "", note: str = "") -> str:
    return f"@{east:.2f}@{north:.2f}@17@T@40.4@-80.0@{panorama}@@{heading}@@@@@{note}@.jpg"


def test_database_and_queries(tmp_path):
    names = [f"database/{utm(100 * i, 5, f'p{i}', note=f'v{j}')}" for i in range(3) for j in range(2)]
    touch(tmp_path, [*names, f"queries/{utm(101, 6)}"])
    assert detect(find_recordings(tmp_path)) == "utm"
    manifest = build_manifest(tmp_path)
    places = dict(zip(manifest.images, manifest.places.tolist(), strict=True))
    assert [places[name] for name in names] == ["p0", "p0", "p1", "p1", "p2", "p2"]
    query = manifest.select_traversals(["queries"])
    assert query.places.tolist() == [""]
    np.testing.assert_array_equal(query.positions(), [[101, 6]])


def test_database_without_panoramas_groups_by_position(tmp_path):
    touch(
        tmp_path,
        [f"database/{utm(1, 1, note='a')}", f"database/{utm(1, 1, note='b')}", f"database/{utm(9, 1)}"],
    )
    assert sorted(build_manifest(tmp_path).places.tolist()) == ["0000", "0000", "0001"]


def test_at_names_in_several_traversals_use_positions(tmp_path):
    touch(
        tmp_path, [f"{t}/{utm(x + 0.3, 0, heading='090')}" for t in ("sun", "rain") for x in range(0, 60, 6)]
    )
    manifest = build_manifest(tmp_path)
    assert len(manifest.place_ids()) == 10
    assert len(grid(manifest)) == 20
    assert set(manifest.heading.tolist()) == {90.0}


def test_bad_at_names(tmp_path):
    touch(tmp_path, ["database/@x@y@.jpg", "database/@1@z@.jpg"])
    with pytest.raises(ManifestError, match="2 names do not have the form"):
        build_manifest(tmp_path)


def test_at_names_one_level_too_high(tmp_path):
    touch(
        tmp_path,
        [f"{split}/{part}/{utm(1, 1)}" for split in ("train", "test") for part in ("database", "queries")],
    )
    with pytest.raises(ManifestError, match="give the folder with database and queries"):
        build_manifest(tmp_path)


# --- against ---------------------------------------------------------------------------------------------


def test_against_by_position(tmp_path):
    drive(tmp_path / "old", "sun", np.linspace(0, 100, 101), rate=10)
    known = build_manifest(tmp_path / "old", spacing=10)
    drive(tmp_path / "new", "snow", np.linspace(50, 150, 201), y=1.0, rate=10)
    new = build_manifest({"snow": tmp_path / "new" / "snow"}, against=known, radius=3, spacing=10)
    x_of_place = dict(zip(known.places.tolist(), known.easting.tolist(), strict=True))
    cells = grid(new)
    assert len(cells) >= 5
    for row, place in enumerate(new.places.tolist()):
        if place:
            assert abs(new.easting[row] - x_of_place[place]) < 0.6
        else:
            assert new.easting[row] > 100


def test_against_places_elsewhere_or_headed_otherwise(tmp_path):
    touch(tmp_path, ["new/0.jpg", "new/1.jpg"])
    (tmp_path / "new.csv").write_text("image,x,y,heading\n0.jpg,0,0,90\n1.jpg,5,0,90\n")
    places = Positions(np.array([[0.0, 0.0], [5.0, 0.0]]), heading=np.array([270.0, 270.0]))
    with pytest.warns(RouteWarning, match=r"no image of 'new' .*headed otherwise \(by more than 45°\)"):
        assert build_manifest(tmp_path / "new", against=KnownPlaces(["a", "b"], places)).places.tolist() == [
            "",
            "",
        ]
    unknown = Positions(np.full((2, 2), np.nan))
    with pytest.warns(RouteWarning, match=r"their positions are not known"):
        build_manifest(tmp_path / "new", against=KnownPlaces(["a", "b"], unknown))


def test_against_by_names_and_order(tmp_path):
    touch(tmp_path, ["sun/a.jpg", "sun/b.jpg", "rain/a.png", "rain/b.png", "new/b.png", "new/zzz.png"])
    known = build_manifest({t: tmp_path / t for t in ("sun", "rain")})
    assert build_manifest(tmp_path / "new", against=known).places.tolist() == ["b", ""]
    assert build_manifest(tmp_path / "new", "order", against=known).places.tolist() == ["a", "b"]


def test_against_by_order_counts_along_the_route(tmp_path):
    """The first traversal lacks a place, which comes into view only with the second."""
    touch(tmp_path, ["a/1.jpg", "a/3.jpg", "b/1.jpg", "b/2.jpg", "b/3.jpg", *(f"new/{c}.jpg" for c in "xyz")])
    known = build_manifest({t: tmp_path / t for t in "ab"}, layout="names")
    assert known.place_ids() == ["1", "3", "2"]
    assert build_manifest(tmp_path / "new", against=known).places.tolist() == ["1", "2", "3"]


def test_against_counted_frames_of_another_length(tmp_path):
    touch(tmp_path, [f"{t}/{i:04d}.jpg" for t, n in (("sun", 40), ("new", 35)) for i in range(n)])
    known = build_manifest({"sun": tmp_path / "sun"})
    with pytest.raises(
        ManifestError, match=r"40 known places.*only count the frames of each traversal \(new 35\)"
    ):
        build_manifest({"new": tmp_path / "new"}, against=known)
    assert build_manifest({"new": tmp_path / "new"}, "names", against=known).places[-1] == "0034"
    (tmp_path / "new" / "0020.jpg").unlink()  # a gap: the names mean something
    assert build_manifest({"new": tmp_path / "new"}, against=known).places[-1] == "0034"


def test_against_an_object_with_places(tmp_path):
    touch(tmp_path, ["new/0.jpg", "new/1.jpg"])
    (tmp_path / "new.csv").write_text("image,lat,lon\n0.jpg,50,8\n1.jpg,50.001,8\n")
    known = KnownPlaces(["home", "work"], Positions(np.array([[50.001, 8], [50, 8]]), degrees=True))
    assert build_manifest(tmp_path / "new", against=known).places.tolist() == ["work", "home"]


def test_against_metres_with_degrees(tmp_path):
    touch(tmp_path, ["new/0.jpg"])
    (tmp_path / "new.csv").write_text("image,lat,lon\n0.jpg,50,8\n")
    known = KnownPlaces(["home"], Positions(np.array([[600000.0, 5000000.0]])))
    with pytest.raises(ManifestError, match="convert one of the two"):
        build_manifest(tmp_path / "new", against=known)


def test_against_something_unrelated(tmp_path):
    touch(tmp_path, ["new/x.jpg", "new/y.jpg"])
    known = KnownPlaces(["1", "2", "3"])
    with pytest.raises(ManifestError, match="0 of 2 names are known"):
        build_manifest(tmp_path / "new", against=known)
    with pytest.raises(ManifestError, match="2 images for 3 known places"):
        build_manifest(tmp_path / "new", "order", against=known)
    (tmp_path / "new.csv").write_text("image,x,y\nx.jpg,1,1\n")
    with pytest.raises(ManifestError, match="the known places have no positions"):
        build_manifest(tmp_path / "new", "positions", against=known)
    with pytest.raises(UnknownNameError, match="landmarks"):
        build_manifest(tmp_path / "new", "landmarks", against=known)


def test_a_name_of_two_places_says_nothing():
    known = KnownPlaces.of(Manifest(["a/1.jpg", "b/1.jpg", "b/2.jpg"], ["p", "q", "q"], ["s", "s", "s"]))
    assert not known.names["1"]
    assert known.names["2"] == "q"


def test_real_traversals(shared):
    folder = shared / "data" / "sped400"
    manifest = build_manifest(folder)
    summary = manifest.summary()
    assert (summary.images, summary.places, len(summary.traversals)) == (1600, 400, 4)
    assert all(t.coverage == 1 for t in summary.traversals)
    assert summary.ok


@pytest.mark.usefixtures("not_for_ever")
def test_links_to_the_folder_itself_are_no_traversals(tmp_path):
    touch(tmp_path / "route", ["sun/0.jpg", "night/0.jpg"])
    (tmp_path / "route" / "again").symlink_to(tmp_path / "route")
    (tmp_path / "route" / "up").symlink_to(tmp_path)
    assert set(build_manifest(tmp_path / "route").traversals) == {"sun", "night"}


@pytest.mark.parametrize(
    "kept", ["@eaDir", "#recycle", "@Recycle", "$RECYCLE.BIN", "System Volume Information", "__MACOSX"]
)
def test_what_systems_keep_beside_images_is_no_recording(tmp_path, kept):
    """Thumbnails of a network disk became traversals, and second images of places."""
    names = [f"{day}/{name}.jpg" for day in ("mon", "tue") for name in "abc"]
    touch(tmp_path, [*names, f"{kept}/a.jpg", f"mon/{kept}/a.jpg/small.jpg", f"tue/{kept}/a.jpg"])
    for source in (tmp_path, [tmp_path / "mon", tmp_path / "tue"]):
        manifest = build_manifest(unpack(source, tmp_path / "f"))
        assert sorted(grid(manifest).values()) == names
        assert sorted(set(manifest.traversals)) == ["mon", "tue"]
