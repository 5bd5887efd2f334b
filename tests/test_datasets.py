"""Data sets on tiny trees laid out as the real ones are, whole and broken."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from tiny import touch

from displace.datasets import DATASETS
from displace.datasets.base import Check, Counts, Dataset, Protocol
from displace.errors import DatasetError, DisplaceError, InputError, UnknownNameError
from displace.manifest.table import Manifest
from displace.recall import recall_at
from displace.truth import Tolerance

OWN = ["folder", "gldv2_micro", "nordland", "pittsburgh30k", "robotcar"]


def dataset(name: str) -> Dataset:
    return DATASETS.get(name)()


def counts(found: Check) -> dict[str, Counts]:
    return {query: number for protocol, query, number, _ in found.rows if protocol == found.rows[0][0]}


@pytest.mark.parametrize("name", OWN)
def test_missing_folder_says_how_to_get_it(name, tmp_path):
    with pytest.raises(DatasetError, match=re.escape(dataset(name).obtain)):
        dataset(name).manifest(tmp_path / "absent")


def test_published_counts():
    """The numbers of the paper and of the data sets' own pages."""
    expected = {name: dataset(name).protocol().expected for name in OWN}
    assert expected == {
        "folder": None,
        "gldv2_micro": Counts(3103, 23294, 3103),
        "nordland": Counts(27592, 82776, 27592),
        "pittsburgh30k": Counts(417, 10000, 6816),
        "robotcar": Counts(3876, 19380, 3876),
    }
    assert expected["pittsburgh30k"].references == 416 * 24 + 16
    tolerances = {
        p.name: str(p.tolerance) for name in OWN for p in dataset(name).protocols if name != "folder"
    }
    assert tolerances == {
        "gldv2_micro-exact": "exact place",
        "nordland-exact": "exact place",
        "nordland-10": "±10 frames",
        "pittsburgh30k-25m": "within 25 m",
        "robotcar-5": "±5 frames",
        "robotcar-2": "±2 frames",
    }


# --- Nordland --------------------------------------------------------------------------------------------

SEASONS = ("fall", "spring", "summer", "winter")
FRAMES = [202, 203, 204, 300, 301]


@pytest.mark.parametrize(
    "folders",
    [
        SEASONS,
        tuple(f"nordland/{s}" for s in SEASONS),
        ("Autumn", "Spring", "Summer", "Winter"),
        tuple(f"{s}_images" for s in SEASONS),
    ],
)
def test_nordland_seasons(tmp_path, folders):
    touch(tmp_path, [f"{f}/images-{i:05d}.png" for f in folders for i in FRAMES])
    manifest = dataset("nordland").manifest(tmp_path)
    assert sorted(manifest.traversal_names()) == sorted(SEASONS)
    assert manifest.place_ids() == [f"images-{i:05d}" for i in FRAMES]
    winter = manifest.select_traversals(["winter"])
    assert winter.frame.tolist() == [0, 1, 2, 3, 4]
    found = dataset("nordland").check(tmp_path)
    assert counts(found) == {season: Counts(5, 15, 5) for season in SEASONS}
    assert not found.ok
    assert "expected 27,592 places" in str(found)


@pytest.mark.parametrize("line", ["images-{:05d}.png", "./nordland/winter/images-{:05d}.png"])
def test_nordland_full_frames_with_the_list(tmp_path, line):
    touch(tmp_path, [f"{f}/images-{i:05d}.png" for f in SEASONS for i in range(1, 30)])
    (tmp_path / "cleanImageNames.txt").write_text("\n".join(line.format(i) for i in (3, 4, 20)) + "\n")
    assert dataset("nordland").manifest(tmp_path).place_ids() == [
        "images-00003",
        "images-00004",
        "images-00020",
    ]


@pytest.mark.parametrize("below", ["images/test/", ""])
def test_nordland_of_the_downloader(tmp_path, below):
    names = [f"@0@{i * 2.38:07.1f}@@@@@{i}@@@@@@@@.jpg" for i in range(12)]
    touch(tmp_path, [f"{below}{part}/{name}" for part in ("database", "queries") for name in names])
    manifest = dataset("nordland").manifest(tmp_path)
    assert manifest.traversal_names() == ["summer", "winter"]
    assert manifest.select_traversals(["winter"]).places.tolist() == [str(i) for i in range(12)]
    assert manifest.select_traversals(["winter"]).frame.tolist() == list(range(12))
    assert "traversals not found: fall, spring" in str(dataset("nordland").check(tmp_path))


@pytest.mark.usefixtures("not_for_ever")
def test_lists_that_are_pipes_or_no_text_are_refused(tmp_path):
    for season in SEASONS:
        touch(tmp_path / season, ["images-00001.png"])
    listed = tmp_path / "nordland_imageNames.txt"
    listed.write_bytes(b"\xff\xfe")
    with pytest.raises(DisplaceError, match="it is not UTF-8 text"):
        dataset("nordland").manifest(tmp_path)
    listed.unlink()
    os.mkfifo(listed)
    with pytest.raises(DisplaceError, match="it is a pipe or a device"):
        dataset("nordland").manifest(tmp_path)


def test_nordland_list_without_any_image(tmp_path):
    touch(tmp_path, [f"{f}/images-00001.png" for f in SEASONS])
    (tmp_path / "nordland_imageNames.txt").write_text("images-99999.png\n")
    with pytest.raises(DatasetError, match="no images of"):
        dataset("nordland").manifest(tmp_path)


# --- RobotCar --------------------------------------------------------------------------------------------

CONDITIONS = ("sun", "dusk", "night", "overcast", "overcast2", "rain")


def test_robotcar_in_equal_order(tmp_path):
    names = {"sun": "ORC_sun", "dusk": "2014-11-21-16-07-03", "overcast2": "Overcast 2", "rain": "Rain"}
    for shift, name in enumerate(CONDITIONS):
        folder = names.get(name, name) + ("/stereo/left" if name == "dusk" else "")
        touch(tmp_path, [f"{folder}/{shift * 1000 + i}.png" for i in range(8)])
    manifest = dataset("robotcar").manifest(tmp_path)
    assert sorted(manifest.traversal_names()) == sorted(CONDITIONS)
    assert manifest.place_ids() == [f"{i:04d}" for i in range(8)]
    assert dict(zip(manifest.images, manifest.frame, strict=True))["Rain/5003.png"] == 3
    found = dataset("robotcar").check(tmp_path)
    assert counts(found)["night"] == Counts(8, 40, 8)
    assert not found.absent


@pytest.mark.parametrize("where", ["{date}/gps/ins.csv", "rtk/{date}/rtk.csv"])
def test_robotcar_as_downloaded(tmp_path, where):
    """Two traversals at other speeds; images in µs, the INS at its own rate."""
    head = "timestamp,ins_status,latitude,longitude,altitude,northing,easting,down,utm_zone,roll,pitch,yaw"
    for date, speed in (("2015-08-12-15-04-18", 5.0), ("2015-10-29-12-18-17", 8.0)):
        start = 1439388258_000000
        touch(tmp_path, [f"{date}/stereo/left/{start + i * 62500}.png" for i in range(160)])
        touch(tmp_path, [f"{date}/stereo/right/{start + i * 62500}.png" for i in range(160 + int(speed))])
        rows = [
            f"{start + i * 20000},OK,51.7,-1.2,110,5735000,{620000 + speed * i * 0.02},-110,30U,0,0,1.5"
            for i in range(500)
        ]
        log = tmp_path / where.format(date=date)
        log.parent.mkdir(parents=True)
        log.write_text("\n".join([head, *rows]))
    (
        tmp_path / "2015-08-12-15-04-18" / "stereo" / "left" / f"{1439388258_000000 + 160 * 62500}.png"
    ).write_bytes(b"")
    manifest = dataset("robotcar").manifest(tmp_path)
    assert sorted(manifest.traversal_names()) == ["rain", "sun"]
    named = manifest.select(manifest.places != "")
    assert all("/left/" in image for image in manifest.images)
    assert len(named) == len(manifest)
    per_traversal = Counter(manifest.traversals.tolist())
    assert max(per_traversal.values()) <= len(manifest.place_ids())
    # Frames are numbers of places, so that tolerances in frames hold across speeds.
    protocol = dataset("robotcar").protocol("robotcar-5")
    references, queries = (
        manifest.select(rows)
        for rows in (protocol.mapped(manifest, "rain"), protocol.asked(manifest, "rain"))
    )
    rule = protocol.truth(manifest, "rain")
    shared = np.isin(queries.places, references.places)
    assert rule.correct(np.where(shared, queries.places, references.places[0])[:, None])[shared].all()
    found = dataset("robotcar").check(tmp_path)
    for name, total in (("sun", 161), ("rain", 160)):
        note = next(note for note in found.notes if note.startswith(f"{name}: "))
        assert note.startswith(
            f"{name}: {total - per_traversal[name]} of {total} images are off the route or"
        )
        assert note in str(found)
    both = [place for place, n in Counter(named.places.tolist()).items() if n == 2]
    assert len(both) >= 35
    for place in both[:10]:
        easting = named.easting[named.places == place]
        assert abs(easting[0] - easting[1]) < 1


def test_robotcar_off_the_route_is_no_query(tmp_path):
    """Two traversals part after 30 m: whichever makes the places, the other's last images could only be missed."""
    head = "timestamp,ins_status,latitude,longitude,altitude,northing,easting,down,utm_zone,roll,pitch,yaw"
    start = 1439388258_000000
    for date, turn, more in (("2015-08-12-15-04-18", 0.0, 0), ("2015-10-29-12-18-17", 1.0, 1)):
        touch(tmp_path, [f"{date}/stereo/left/{start + i * 200_000}.png" for i in range(60 + more)])
        along = [0.2 * i for i in range(320)]
        rows = [
            f"{start + i * 40_000},OK,51.7,-1.2,110,{5735000 + turn * max(0.0, x - 30)},{620000 + x},0,30U,0,0,0"
            for i, x in enumerate(along)
        ]
        log = tmp_path / date / "gps" / "ins.csv"
        log.parent.mkdir(parents=True)
        log.write_text("\n".join([head, *rows]))
    manifest = dataset("robotcar").manifest(tmp_path)
    assert (manifest.places != "").all()
    shortest = min(Counter(manifest.traversals.tolist()).values())
    assert 25 <= shortest <= 45  # of 60: those before the two are too far apart
    notes = dataset("robotcar").check(tmp_path).notes
    assert any("images are off the route" in note for note in notes)


def test_robotcar_unequal_without_positions(tmp_path):
    touch(tmp_path, ["sun/1.png", "sun/2.png", "rain/1.png"])
    with pytest.raises(DatasetError, match=r"rain 1, sun 2.*no gps/ins\.csv"):
        dataset("robotcar").manifest(tmp_path)


def test_robotcar_same_condition_twice(tmp_path):
    touch(tmp_path, ["sun/1.png", "2015-08-12-15-04-18/1.png"])
    with pytest.raises(DatasetError, match="more than one folder is sun"):
        dataset("robotcar").manifest(tmp_path)


# --- Pittsburgh30k ---------------------------------------------------------------------------------------

PANORAMAS = {
    "000829": (585000.0, 4476000.0),
    "000999": (585100.0, 4476000.0),
    "001000": (585110.0, 4476000.0),
}
VIEWS = [(pitch, yaw) for pitch in (1, 2) for yaw in range(1, 13)]


def views_of(panorama: str) -> list[tuple[int, int]]:
    return VIEWS[:16] if panorama == "000999" else VIEWS


def pittsburgh_mat(
    root: Path, mat: str = "datasets/pitts30k_test.mat", queries: str = "queries_real"
) -> Path:
    database = [f"{p[:3]}/{p}_pitch{a}_yaw{b}.jpg" for p in PANORAMAS for a, b in views_of(p)]
    asked = ["000/000546_pitch1_yaw1.jpg", "000/000547_pitch1_yaw1.jpg", "000/000548_pitch2_yaw7.jpg"]
    touch(root, [*database, *(f"{queries}/{name}" for name in asked)])
    points = np.array([PANORAMAS[name[4:10]] for name in database])
    asked_points = np.array([[585010.0, 4476000.0], [585105.0, 4476010.0], [589000.0, 4476000.0]])

    def cells(names: list[str]) -> np.ndarray:
        return np.array([[name] for name in names], dtype=object)

    struct = {"whichSet": "test", "dbImageFns": cells(database), "utmDb": points.T}
    struct |= {
        "qImageFns": cells(asked),
        "utmQ": asked_points.T,
        "numImages": len(database),
        "posDistThr": 25,
    }
    (root / mat).parent.mkdir(exist_ok=True)
    savemat(root / mat, {"dbStruct": struct})
    return root


def pittsburgh_names(root: Path) -> Path:
    def name(panorama: str, point: tuple[float, float], pitch: int, yaw: int, note: bool) -> str:
        view = f"pitch{pitch}_yaw{yaw}" if note else ""
        tile = (pitch - 1) * 24 + yaw - 1
        return (
            f"@{point[0]:010.2f}@{point[1]:010.2f}@17@T@040.4@-080.0@{panorama}@{tile:02d}@@@@@@{view}@.jpg"
        )

    # Half of the names carry the view as a note, half only as a tile number.
    database = [name(p, xy, a, b, note=b % 2 == 0) for p, xy in PANORAMAS.items() for a, b in views_of(p)]
    asked = [(585010.0, 4476000.0), (585105.0, 4476010.0), (589000.0, 4476000.0)]
    queries = [name(f"00054{i}", xy, 1, 1, note=True) for i, xy in enumerate(asked)]
    return touch(
        root / "images" / "test", [*(f"database/{n}" for n in database), *(f"queries/{n}" for n in queries)]
    ).parents[1]


@pytest.mark.parametrize("make", [pittsburgh_mat, pittsburgh_names])
def test_pittsburgh(tmp_path, make):
    root = make(tmp_path)
    found = dataset("pittsburgh30k")
    manifest = found.manifest(root)
    assert manifest.place_ids() == list(PANORAMAS)
    assert len(manifest.traversal_names()) == 25
    per_place = Counter(manifest.places.tolist())
    assert (per_place["000829"], per_place["000999"], per_place[""]) == (24, 16, 3)
    assert not manifest.summary().duplicates
    assert not manifest.summary().missing
    protocol = found.protocol()
    assert protocol.count(manifest, "queries") == Counts(3, 64, 3)
    truth = protocol.truth(manifest, "queries")
    ranked = np.array([["000829"] * 1, ["000829"], ["000829"]])
    np.testing.assert_array_equal(truth.correct(ranked)[:, 0], [True, False, False])
    np.testing.assert_array_equal(truth.correct(np.array([["000999", "001000"]] * 3))[1], [True, True])
    recall = recall_at(ranked, truth, ks=(1,))
    assert recall[1] == pytest.approx(100 / 3)
    assert recall.n_unanswerable == 1


def test_pittsburgh_other_folders(tmp_path):
    pittsburgh_mat(tmp_path, mat="pitts30k_test.mat", queries="queries")
    assert len(dataset("pittsburgh30k").manifest(tmp_path)) == 67


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["images/test/database/@1@2@.jpg", "images/test/queries/@1@2@.jpg"], "no panorama or view"),
        (["images/test/database/@1@2@@@@@000001@00@.jpg"], "1 images in database and 0 in queries"),
        (["000/000829_pitch1_yaw1.jpg"], "neither pitts30k_test.mat nor"),
    ],
)
def test_pittsburgh_broken_trees(tmp_path, names, message):
    touch(tmp_path, names)
    with pytest.raises(DatasetError, match=message):
        dataset("pittsburgh30k").manifest(tmp_path)


def test_pittsburgh_images_not_unpacked(tmp_path):
    pittsburgh_mat(tmp_path)
    (tmp_path / "000").rename(tmp_path / "elsewhere")
    with pytest.raises(DatasetError, match=r"000829_pitch1_yaw1\.jpg, which is not there"):
        dataset("pittsburgh30k").manifest(tmp_path)


@pytest.mark.parametrize("content", [b"no MATLAB file", b""])
def test_pittsburgh_bad_mat(tmp_path, content):
    (tmp_path / "pitts30k_test.mat").write_bytes(content)
    with pytest.raises(DatasetError, match="not a file of NetVLAD's data sets"):
        dataset("pittsburgh30k").manifest(tmp_path)


# --- GLDv2-micro -----------------------------------------------------------------------------------------


def gldv2(root: Path, folder: str = "images") -> Path:
    train = [(f"t{landmark}_{i}.jpg", landmark) for landmark in (17, 4) for i in range(3)]
    val = [("v17.jpg", 17), ("v4.jpg", 4)]
    for split, rows in (("train", train), ("val", val)):
        touch(root / folder, [name for name, _ in rows])
        text = "\n".join(["filename,landmark_id", *(f"{name},{landmark}" for name, landmark in rows)])
        (root / f"{split}.csv").write_text(text + "\n")
    return root


@pytest.mark.parametrize("folder", ["images", "."])
def test_gldv2_micro(tmp_path, folder):
    manifest = dataset("gldv2_micro").manifest(gldv2(tmp_path, folder))
    assert manifest.place_ids() == ["17", "4"]
    assert all(path.is_file() for path in manifest.paths())
    protocol = dataset("gldv2_micro").protocol()
    assert protocol.queries_in(manifest) == ["val"]
    assert protocol.count(manifest, "val") == Counts(2, 6, 2)
    assert recall_at(np.array([["17"], ["17"]]), protocol.truth(manifest, "val"), ks=(1,))[1] == 50


def test_gldv2_micro_files_that_are_gone(tmp_path):
    gldv2(tmp_path)
    (tmp_path / "images" / "t4_2.jpg").unlink()
    found = dataset("gldv2_micro").check(tmp_path)
    assert found.missing == ["images/t4_2.jpg"]
    assert "1 images listed without a file" in str(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda root: (root / "val.csv").unlink(), r"there is no val\.csv"),
        (lambda root: (root / "val.csv").write_text("id,landmark\n1,2\n"), "columns id, landmark"),
        (lambda root: (root / "val.csv").write_text("filename,landmark_id\n"), "no rows"),
        (lambda root: (root / "val.csv").write_bytes(b"filename,landmark_id\n\xff,1\n"), "cannot be read"),
        (
            lambda root: ((root / "val.csv").unlink(), os.mkfifo(root / "val.csv")),
            r"val\.csv cannot be read .*a pipe or a device",
        ),
        (lambda root: (root / "val.csv").write_text("filename,landmark_id\nx.jpg\n"), "blanks"),
        (lambda root: (root / "images").rename(root / "pictures"), "which is not in"),
    ],
)
def test_gldv2_micro_broken(tmp_path, change, message):
    change(gldv2(tmp_path))
    with pytest.raises(DatasetError, match=message):
        dataset("gldv2_micro").manifest(tmp_path)


# --- folder and checks -----------------------------------------------------------------------------------


def test_folder(tmp_path):
    touch(tmp_path, [f"{t}/{i}.jpg" for t in ("sun", "rain", "night") for i in range(4)])
    found = dataset("folder")
    manifest = found.manifest(tmp_path)
    assert found.check(tmp_path).ok
    assert counts(found.check(tmp_path)) == {t: Counts(4, 8, 4) for t in ("sun", "rain", "night")}
    assert found.protocol().references_for("rain", manifest.traversal_names()) == ["night", "sun"]
    truth = found.protocol("frames-2").truth(manifest, "night")
    np.testing.assert_array_equal(truth.correct(np.array([["2"], ["3"], ["0"], ["0"]]))[:, 0], [1, 1, 1, 0])


def test_check_compares_every_count():
    right = Counts(2, 4, 2)
    assert Check("x", [("p", "q", right, right)], [], []).ok
    assert Check("x", [("p", "q", right, None)], [], []).ok
    assert not Check("x", [("p", "q", right, Counts(2, 4, 3))], [], []).ok
    assert not Check("x", [("p", "q", right, right)], ["night"], []).ok
    assert not Check("x", [("p", "q", right, right)], [], ["a.jpg"]).ok
    assert not Check("x", [], [], []).ok


def test_a_protocol_without_its_queries_is_named(tmp_path, monkeypatch):
    """A misspelt query was "NOT as expected", and nothing more."""
    touch(tmp_path, ["a/1.jpg", "b/1.jpg"])
    known = dataset("folder")
    monkeypatch.setattr(type(known), "protocols", (Protocol("mine", Tolerance("exact"), queries=("nihgt",)),))
    assert "mine: no traversal is its query (nihgt)" in str(known.check(tmp_path))


def test_references_need_a_place():
    manifest = Manifest("abc", ["0", "", "0"], ["sun", "sun", "night"])
    protocol = Protocol("all", Tolerance("exact"))
    assert protocol.mapped(manifest, "night").tolist() == [True, False, False]
    assert protocol.asked(manifest, "night").tolist() == [False, False, True]


def test_protocol_needs_its_columns(tmp_path):
    touch(tmp_path, ["a/1.jpg", "b/1.jpg"])
    manifest = dataset("folder").manifest(tmp_path)
    with pytest.raises(DisplaceError, match="no positions"):
        Protocol("m", Tolerance("metres", 5)).truth(manifest, "a")
    with pytest.raises(UnknownNameError, match="traversal 'c'"):
        Protocol("m", Tolerance("exact")).truth(manifest, "c")
    without_frames = type(manifest)(manifest.images, manifest.places, manifest.traversals)
    with pytest.raises(DisplaceError, match="no column 'frame'"):
        Protocol("m", Tolerance("frames", 5)).truth(without_frames, "a")


def test_a_tolerance_in_frames_knows_every_frame_of_a_place():
    """Two frames are a place: a tolerance must not make its second frame wrong, which the exact place is not."""
    frames = np.tile(np.arange(6.0), 2)
    manifest = Manifest(
        [f"{n}.jpg" for n in range(12)],
        [f"p{int(n) // 2}" for n in frames],
        np.repeat(["sun", "night"], 6),
        frame=frames,
    )
    own = np.array([["p0"], ["p0"], ["p1"], ["p1"], ["p2"], ["p2"]])
    for frames_off, expected in ((0, [0, 0, 1, 1, 0, 0]), (1, [0, 1, 1, 1, 1, 0])):
        truth = Protocol("f", Tolerance("frames", frames_off)).truth(manifest, "night")
        assert truth.correct(own).all()
        np.testing.assert_array_equal(truth.correct(np.full((6, 1), "p1"))[:, 0], expected)


@pytest.mark.parametrize("degrees", [False, True])
def test_a_tolerance_in_metres_is_one_truth_for_each_query(degrees):
    """Frames off the route that are left out had a truth all the same, and the others had that of a neighbour."""
    scale, names = (1e-5, ("latitude", "longitude")) if degrees else (1.11, ("northing", "easting"))
    points = {names[0]: scale * np.array([0.0, 10, 20, 99, 12, 20]), names[1]: np.zeros(6)}
    manifest = Manifest(
        list("abcdef"), ["1", "2", "3", "", "2", "3"], list("sssqqq"), frame=[0, 1, 2, np.nan, 1, 2], **points
    )
    protocol = Protocol("5m", Tolerance("metres", 5), on_route=True)
    rule = protocol.truth(manifest, "q")
    assert len(rule) == protocol.asked(manifest, "q").sum() == 2
    assert rule.correct(np.array([["1", "2", "3"]] * 2)).tolist() == [
        [False, True, False],
        [False, False, True],
    ]


def test_whole_size_counts_are_accepted(tmp_path):
    """A manifest of Nordland's real size passes the check (no image is read)."""
    names = [f"images-{i:05d}" for i in range(27592)]
    lines = [f"{s}/{n}.png,{n},{s},{i}" for s in SEASONS for i, n in enumerate(names)]
    (tmp_path / "manifest.csv").write_text("\n".join(["image,place,traversal,frame", *lines]))
    found = dataset("nordland").check(tmp_path)
    assert all(number == expected for _, _, number, expected in found.rows)
    assert len(found.rows) == 8
    assert len(found.missing) == 4 * 27592


# --- documentation ---------------------------------------------------------------------------------------

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_documented_example_of_a_new_dataset(tmp_path):
    code = re.search(r"```python\n(.*?)```", (DOCS / "add_a_dataset.md").read_text(), re.DOTALL).group(1)
    space: dict[str, object] = {"__name__": "example"}
    exec(code, space)
    touch(tmp_path, [f"{t}/{i}.jpg" for t in ("day1", "day2", "night") for i in range(200)])
    assert space["Campus"]().check(tmp_path).ok
    (tmp_path / "night" / "7.jpg").unlink()
    assert "expected 200 places" in str(space["Campus"]().check(tmp_path))


@pytest.mark.parametrize("name", OWN)
def test_documented_protocols(name):
    rows = [line for line in (DOCS / "datasets.md").read_text().splitlines() if line.startswith("|")]
    for protocol in dataset(name).protocols:
        (row,) = [line for line in rows if f"`{protocol.name}`" in line]
        if protocol is dataset(name).protocols[0] and protocol.expected is not None:
            assert str(
                [protocol.expected.places, protocol.expected.references, protocol.expected.queries]
            ) == str([int(cell.replace(",", "")) for cell in row.split("|")[-4:-1]])


@pytest.mark.parametrize(
    ("tolerance", "message"),
    [
        (Tolerance("frames", 2), r"has no column 'frame'; add one, or count exact places"),
        (Tolerance("metres", 25), r"has no positions; count frames \('2 frames'\) or exact places"),
    ],
)
def test_a_protocol_that_counts_what_is_not_there_names_what_can_be_counted(tolerance, message):
    bare = Manifest(["a/1.jpg", "b/1.jpg"], ["1", "1"], ["a", "b"])
    with pytest.raises(InputError, match=message):
        Protocol("one's own", tolerance).truth(bare, "b")
