"""Manifests: reading with all problems at once, writing, selecting, positions and the summary."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from displace.errors import InputError, ManifestError, UnknownNameError
from displace.manifest.table import Manifest

HEAD = "image,place,traversal"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "route.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def problems(folder: Path, *lines: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        Manifest.read(written(folder, *lines))
    assert "route.csv" in str(caught.value)
    return list(caught.value.problems)


def test_read(tmp_path):
    path = written(
        tmp_path,
        "traversal,image,weather,easting,northing,place",
        "sun,sun/0.jpg,dry,1.5,2,p0",
        '  night ,"a, b/1.jpg",wet,,,',
        "",
    )
    manifest = Manifest.read(path)
    assert manifest.images == ["sun/0.jpg", "a, b/1.jpg"]
    assert manifest.places.tolist() == ["p0", ""]
    assert manifest.traversals.tolist() == ["sun", "night"]
    assert manifest.paths() == [tmp_path / "sun/0.jpg", tmp_path / "a, b/1.jpg"]
    np.testing.assert_array_equal(manifest.easting, [1.5, np.nan])
    np.testing.assert_array_equal(manifest.positions(), [[1.5, 2], [np.nan, np.nan]])
    assert manifest.latitude is None
    assert manifest.heading is None
    assert len(manifest) == 2


def test_excel_byte_order_mark_and_line_ends(tmp_path):
    path = tmp_path / "route.csv"
    path.write_bytes(b"\xef\xbb\xbfImage,Place,Traversal\r\na.jpg,1,sun\r\n")
    assert Manifest.read(path).images == ["a.jpg"]


def test_every_problem_is_listed_with_its_line(tmp_path):
    found = problems(
        tmp_path,
        HEAD + ",latitude,longitude",
        "a.jpg,0,sun,1,2",
        ",0,sun,1,2",
        "b.jpg,0,,1,2",
        "c.jpg,0,sun,north,2",
        "d.jpg,0,sun",
        "e.jpg,0,sun,91,2",
        "a.jpg,1,sun,1,2",
        "f.jpg,1,sun,inf,2",
        "g.jpg,1,sun,1,",
    )
    expected = {3: "image is blank", 4: "traversal is blank", 5: "'north' is not a number", 6: "3 values"}
    expected |= {7: "outside ±90", 8: "already in line 2", 9: "latitude inf", 10: "go together"}
    for line, text in expected.items():
        assert any(p.startswith(f"line {line}: ") and text in p for p in found), (line, found)
    lines = [int(p.split(":")[0].removeprefix("line ")) for p in found]
    assert lines == sorted(lines)
    assert set(lines) == set(expected)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("image,traversal", "no column 'place'"),
        ("image,places,traversal", "is 'places' meant?"),
        ("", "empty"),
        (HEAD + ",lattitude,longitude", "did you mean 'latitude'"),
        (HEAD + ",easting", "column 'easting' needs column 'northing'"),
        (HEAD + ",place", "'place' occurs twice"),
        (HEAD.replace(",", ";"), "separated by ';'"),
    ],
)
def test_wrong_columns(tmp_path, header, message):
    assert any(message in problem for problem in problems(tmp_path, header, "a,b,c"))


def test_columns_without_a_name_are_ignored(tmp_path):
    path = written(tmp_path, HEAD + ",,note,note,", "a.jpg,0,sun,,x,y,")
    assert Manifest.read(path).images == ["a.jpg"]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "route.csv"
    path.write_bytes(b"image,place,traversal,frame\n" + content)
    try:
        manifest = Manifest.read(path)
    except ManifestError:
        return
    assert len(manifest) == len(set(manifest.images))


def test_missing_columns_are_all_named(tmp_path):
    assert len(problems(tmp_path, "a,b,c", "1,2,3")) == 3


@pytest.mark.parametrize(
    "content", [b"image,place,traversal\n\xff\xfe,1,2\n", b'image,place,traversal\n"a,1,2\n']
)
def test_not_text_or_not_csv(tmp_path, content):
    path = tmp_path / "route.csv"
    path.write_bytes(content)
    with pytest.raises(ManifestError, match=r"route\.csv"):
        Manifest.read(path)


def test_no_such_file(tmp_path):
    with pytest.raises(ManifestError, match=r"cannot read manifest .*absent.csv"):
        Manifest.read(tmp_path / "absent.csv")


def test_absolute_relative_and_parent_paths(tmp_path):
    absolute = tmp_path / "elsewhere" / "c.jpg"
    (tmp_path / "in").mkdir()
    path = written(tmp_path / "in", HEAD, "a.jpg,0,t", "../b.jpg,0,u", f"{absolute},0,v")
    manifest = Manifest.read(path)
    assert [p.resolve() for p in manifest.paths()] == [tmp_path / "in/a.jpg", tmp_path / "b.jpg", absolute]
    moved = tmp_path / "other" / "deep" / "route.csv"
    manifest.write(moved)
    again = Manifest.read(moved)
    assert again.images == ["../../in/a.jpg", "../../b.jpg", str(absolute)]
    assert [p.resolve() for p in again.paths()] == [p.resolve() for p in manifest.paths()]


def test_paths_go_through_the_links_that_were_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("disk/sun").mkdir(parents=True)
    Path("disk/sun/0.jpg").touch()
    Path("work").mkdir()
    Path("work/drives").symlink_to(tmp_path / "disk")
    linked = Manifest(["sun/0.jpg"], ["0"], ["sun"], Path("work/drives"))
    linked.write("work/route.csv")
    assert Manifest.read("work/route.csv").images == ["drives/sun/0.jpg"]
    linked.write("other.csv")
    assert Manifest.read("other.csv").images == ["work/drives/sun/0.jpg"]
    Manifest(["../work/drives/sun/0.jpg"], ["0"], ["sun"], Path("work/drives")).write("route.csv")
    assert Manifest.read("route.csv").paths()[0].is_file()  # ".." leads up from where a link leads to


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=12).filter(
    lambda text: text == text.strip()
)
numbers = st.one_of(st.just(float("nan")), st.floats(-1e9, 1e9))


@settings(deadline=None)
@given(
    st.lists(st.tuples(texts, st.one_of(st.just(""), texts), texts, numbers), unique_by=lambda row: row[0])
)
def test_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("round") / "route.csv"
    images, places, traversals, frames = zip(*rows, strict=True) if rows else ((), (), (), ())
    manifest = Manifest(images, places, traversals, path.parent, frame=frames)
    manifest.write(path)
    again = Manifest.read(path)
    assert again.images == list(images)
    assert again.places.tolist() == list(places)
    assert again.traversals.tolist() == list(traversals)
    np.testing.assert_array_equal(again.frame, np.array(frames, float))


@pytest.mark.parametrize("target", ["file/route.csv", "folder"])
def test_unwritable_output(tmp_path, target):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ManifestError, match="cannot write manifest"):
        Manifest(["a"], ["b"], ["c"]).write(tmp_path / target)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_name_that_is_no_text(tmp_path):
    with pytest.raises(ManifestError, match="rename it"):
        Manifest([os.fsdecode(b"\xff.jpg")], ["0"], ["t"], tmp_path).write(tmp_path / "route.csv")
    assert not (tmp_path / "route.csv").exists()


def test_wrong_lengths_and_columns():
    with pytest.raises(InputError, match=r"places must have shape \(1,\)"):
        Manifest(["a"], [], ["t"])
    with pytest.raises(InputError, match="unknown manifest column 'weather'"):
        Manifest(["a"], ["0"], ["t"], weather=[1])


def test_select():
    manifest = Manifest("abc", ["0", "1", ""], ["s", "n", "n"], frame=[5, 6, 7])
    night = manifest.select_traversals(["n"])
    assert night.images == ["b", "c"]
    assert night.frame.tolist() == [6, 7]
    assert manifest.select([2, 0]).images == ["c", "a"]
    assert len(manifest.select([])) == 0
    assert manifest.place_ids() == ["0", "1"]
    assert manifest.traversal_names() == ["s", "n"]
    assert repr(manifest) == "<Manifest: 3 images, 2 places, 2 traversals>"


def test_unknown_traversal():
    with pytest.raises(UnknownNameError, match="did you mean 'night'"):
        Manifest(["a"], ["0"], ["night"]).select_traversals(["nigth"])


def test_positions_from_degrees():
    # One minute of latitude is a nautical mile, 1852 m, to within the ellipsoid's ±0.5 %.
    manifest = Manifest("ab", "01", "tt", latitude=[50, 50 + 1 / 60], longitude=[8, 8])
    a, b = manifest.positions()
    np.testing.assert_allclose(b - a, [0, 1852], rtol=5e-3, atol=1e-6)
    assert Manifest("a", "0", "t").positions() is None


def test_the_pair_known_in_more_rows_counts():
    nan = float("nan")
    columns = {"easting": [1, nan], "northing": [1, nan], "latitude": [1, 2], "longitude": [1, 2]}
    assert np.isfinite(Manifest("ab", "01", "tt", **columns).positions()).all()


def test_summary(tmp_path):
    for name in ("a.png", "b.png", "c.png"):
        Image.new("RGB", (2, 2)).save(tmp_path / name)
    (tmp_path / "bad.png").write_bytes(b"no image")
    manifest = Manifest(
        ["a.png", "b.png", "c.png", "bad.png", "gone.png"],
        ["0", "0", "1", "0", ""],
        ["sun", "sun", "sun", "night", "night"],
        tmp_path,
    )
    calls: list[tuple[int, int]] = []
    summary = manifest.summary(check_images=True, progress=lambda *args: calls.append(args))
    assert (summary.images, summary.places) == (5, 2)
    assert [(t.name, t.images, t.places, t.coverage, t.blank) for t in summary.traversals] == [
        ("sun", 3, 2, 1.0, 0),
        ("night", 2, 1, 0.5, 1),
    ]
    assert summary.duplicates == {("0", "sun"): 2}
    assert summary.missing == ["gone.png"]
    assert list(summary.unreadable) == ["bad.png"]
    assert not summary.ok
    assert calls[-1] == (4, 4)
    text = str(summary)
    assert not summary.apart
    for part in (
        "5 images, 2 places, 2 traversals",
        "50.0% of all places",
        "1 without a place",
        "0 in sun: 2",
        "gone.png",
    ):
        assert part in text
    for i in range(60):
        (tmp_path / f"x{i}.png").write_bytes(b"")
    many = Manifest([f"x{i}.png" for i in range(60)], [""] * 60, ["t"] * 60, tmp_path).summary(
        check_images=True
    )
    assert len(many.unreadable) == 60
    assert "… and 10 more" in str(many)
    quick = manifest.summary()
    assert quick.missing == ["gone.png"]
    assert not quick.unreadable
    assert not quick.checked
    assert manifest.select([0, 1, 2]).summary(check_images=True).ok
    assert str(manifest.select([2]).summary()).startswith("1 image, 1 place, 1 traversal\n")


def test_traversals_without_a_common_place_are_told_of(tmp_path):
    """As of two folders of recordings that were taken for two recordings."""
    apart = Manifest(["a.png", "b.png", "c.png"], ["x", "y", ""], ["one", "two", "two"], tmp_path)
    assert "no place is shown by two traversals, so that there is nothing to fuse" in str(apart.summary())
    assert "no place is shown by two" not in str(apart.summary().against(2))  # they are fused with those
    blank = Manifest(["a.png"], [""], ["one"], tmp_path)
    assert "displace align" in str(blank.summary())
    assert "displace align" not in str(blank.summary().against(2))
    asked = Manifest(
        ["a.png", "b.png", "c.png"], ["x", "y", ""], ["database", "database", "queries"], tmp_path
    )
    assert not asked.summary().apart


@pytest.mark.parametrize(
    ("image", "place", "traversal", "message"),
    [
        (" a.jpg", "0", "sun", "image ' a.jpg' begins or ends with a blank"),
        ("a.jpg\r", "0", "sun", "begins or ends with a blank"),
        ("a\rb.jpg", "0", "sun", "has a carriage return"),
        ("a\0.jpg", "0", "sun", "has a NUL character"),
        ("a.jpg", "0", "s" * 1001, "has 1001 characters"),
    ],
)
def test_names_that_would_not_be_read_back_are_refused_when_written(
    tmp_path, image, place, traversal, message
):
    manifest = Manifest([image], [place], [traversal], tmp_path)
    with pytest.raises(ManifestError, match=message):
        manifest.write(tmp_path / "m.csv")
    assert not (tmp_path / "m.csv").exists()


@pytest.mark.parametrize(
    ("column", "value"), [("latitude", 90.5), ("longitude", -181), ("heading", 361), ("frame", np.inf)]
)
def test_numbers_that_would_not_be_read_back_are_refused_when_written(tmp_path, column, value):
    columns = {key: [1.0] for key in ("latitude", "longitude")} | {column: [value]}
    with pytest.raises(ManifestError, match=f"{column} has {value:g}"):
        Manifest(["a.jpg"], ["0"], ["t"], tmp_path, **columns).write(tmp_path / "m.csv")
    assert not (tmp_path / "m.csv").exists()


@pytest.mark.parametrize("name", ["a\nb", "a,b", 'a"b', "=1+1", "日本", "s" * 1000, "a b"])
def test_other_names_are_read_back_as_they_are(tmp_path, name):
    Manifest([f"{name}.jpg"], [name], [name], tmp_path).write(tmp_path / "m.csv")
    again = Manifest.read(tmp_path / "m.csv")
    assert (again.images, again.places.tolist(), again.traversals.tolist()) == (
        [f"{name}.jpg"],
        [name],
        [name],
    )


def test_one_long_name_does_not_become_gigabytes(tmp_path):
    rows = "".join(f"{row}.jpg,{row},sun\n" for row in range(100))
    (tmp_path / "m.csv").write_text("image,place,traversal\nlong.jpg," + "p" * 100_000 + ",sun\n" + rows)
    with pytest.raises(ManifestError, match="line 2: place has 100000 characters; at most 1000"):
        Manifest.read(tmp_path / "m.csv")
    with pytest.raises(InputError, match="ends with a NUL character"):
        Manifest(["a.jpg", "b.jpg"], ["p", "p\0"], ["t", "t"])
    with pytest.raises(InputError, match="use shorter names"):
        Manifest(["a.jpg"] * 6000, ["p" * 100_000] + ["p"] * 5999, ["t"] * 6000)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
@pytest.mark.usefixtures("not_for_ever")
def test_a_pipe_is_no_manifest(tmp_path):
    os.mkfifo(tmp_path / "m.csv")
    with pytest.raises(ManifestError, match="it is a pipe or a device"):
        Manifest.read(tmp_path / "m.csv")
