"""DescriptorStore: rows, references, queries, other labels."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from tiny import TinyModel, expected, make_route

from displace.descriptors.extraction import extract
from displace.descriptors.joined import joined
from displace.descriptors.store import DescriptorStore, is_store
from displace.descriptors.store_writing import relabel
from displace.errors import InputError, ModelMismatchError, StoreError, UnknownNameError
from displace.manifest.table import Manifest


@pytest.fixture
def route(tmp_path):
    return make_route(tmp_path / "route")


@pytest.fixture
def store(tmp_path, route):
    return extract(route, TinyModel(), tmp_path / "route.desc").store


def test_rows_are_the_manifests(store, route):
    assert store.images == route.images
    assert store.places.tolist() == route.places.tolist()
    assert store.traversals.tolist() == route.traversals.tolist()
    assert (len(store), store.dim, store.missing) == (12, 12, [])
    np.testing.assert_allclose(store.vectors(), expected(route), atol=1e-7)


def test_vectors_of_some_rows(store):
    whole = store.vectors()
    np.testing.assert_array_equal(store.vectors(slice(3, 7)), whole[3:7])
    np.testing.assert_array_equal(store.vectors([5, 0]), whole[[5, 0]])
    np.testing.assert_array_equal(store.vectors(store.places == "002"), whole[store.places == "002"])
    assert store.vectors(dtype=np.float64).dtype == np.float64


def test_references_leave_out_blank_places_and_excluded_traversals(store, route):
    places = route.places.copy()
    places[[1, 8]] = ""
    relabelled = store.with_manifest(Manifest(route.images, places, route.traversals, route.root))
    refs = relabelled.references()
    assert len(refs) == 10
    np.testing.assert_array_equal(refs.vectors, np.delete(store.vectors(), [1, 8], axis=0))
    assert set(relabelled.references(exclude=["night"]).traversals) == {"sun"}
    assert set(relabelled.references(traversals=["night"]).traversals) == {"night"}
    queries = relabelled.queries("night")
    assert queries.places.tolist() == ["000", "001", "", "003", "004", "005"]
    assert queries.manifest.images == route.images[6:]
    np.testing.assert_array_equal(queries.vectors, store.vectors()[6:])


def test_unknown_and_empty_choices_say_what_there_is(store):
    with pytest.raises(UnknownNameError, match="unknown traversal 'nigth'; did you mean 'night'"):
        store.queries("nigth")
    with pytest.raises(InputError, match=r"no image with a place .* it has the traversals sun, night"):
        store.references(exclude=["sun", "night"])


def test_positions_and_blank_numbers_survive(tmp_path, route):
    easting = np.arange(12.0)
    easting[4] = np.nan
    labelled = Manifest(
        route.images, route.places, route.traversals, route.root, easting=easting, northing=easting
    )
    store = extract(labelled, TinyModel(), tmp_path / "geo.desc").store
    np.testing.assert_array_equal(store.manifest.easting, easting)
    assert "NaN" not in (tmp_path / "geo.desc" / "index.json").read_text()


def test_relabel_changes_the_columns_on_disk_without_the_images(tmp_path, store, route):
    vectors = store.vectors()
    shutil.rmtree(route.root / "sun")
    other = tmp_path / "elsewhere" / "new.csv"
    Manifest(route.images[::-1], ["x"] * 12, route.traversals[::-1], route.root).write(other)
    relabel(store.folder, Manifest.read(other))
    again = DescriptorStore(store.folder)
    assert set(again.places) == {"x"}
    np.testing.assert_array_equal(again.vectors(), vectors[::-1])
    with pytest.raises(
        StoreError, match=r"1 of the manifest's 1 images are not in the store, first new\.png"
    ):
        relabel(store.folder, Manifest(["new.png"], ["0"], ["sun"], route.root))


def test_a_store_moved_with_its_images_still_finds_them(tmp_path, store, route):
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.move(store.folder, moved / "route.desc")
    shutil.move(route.root, moved / "route")
    assert all(path.is_file() for path in DescriptorStore(moved / "route.desc").manifest.paths())


def test_opening_reads_no_vectors(store, monkeypatch):
    loads = []
    monkeypatch.setattr(
        "displace.descriptors.shards.np.load", lambda *a, real=np.load, **k: loads.append(k) or real(*a, **k)
    )
    DescriptorStore(store.folder)
    assert loads == [{"mmap_mode": "r", "allow_pickle": False}]


def test_what_is_not_a_store_is_refused(tmp_path, store):
    assert is_store(store.folder)
    assert not is_store(tmp_path)
    with pytest.raises(StoreError, match="does not exist; make one with: displace extract"):
        DescriptorStore(tmp_path / "nothing")
    with pytest.raises(StoreError, match="is not a descriptor store"):
        DescriptorStore(tmp_path)
    with pytest.raises(StoreError, match="is not a descriptor store"):
        DescriptorStore(tmp_path / "route" / "route.csv")


def test_a_newer_format_names_both_versions(store):
    index = store.folder / "index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"format": 9}))
    with pytest.raises(StoreError, match="has format 9, this version of displace reads up to 1"):
        DescriptorStore(store.folder)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": "x"}',
        '{"format": 1}',
        '{"format": 1, "columns": {"image": ["a"]}}',
        "\x00\xff",
    ],
)
def test_a_damaged_index_is_one_clear_error(store, text):
    (store.folder / "index.json").write_text(text)
    with pytest.raises(StoreError, match=r"index\.json cannot be read"):
        DescriptorStore(store.folder)


def test_columns_of_unequal_length_are_damage(store):
    index = store.folder / "index.json"
    record = json.loads(index.read_text())
    record["hashes"].pop()
    index.write_text(json.dumps(record))
    with pytest.raises(StoreError, match="11 hashes for 12 images"):
        DescriptorStore(store.folder)


@pytest.mark.parametrize("part", ["lock", "shards", "index.json", "shards/000000.npy"])
def test_a_store_is_not_written_through_links(tmp_path, store, route, part):
    aim = tmp_path / "aim"
    shutil.move(store.folder / part, aim)
    before = aim.read_bytes() if aim.is_file() else {p.name: p.read_bytes() for p in aim.iterdir()}
    (store.folder / part).symlink_to(aim)
    for overwrite in (False, True):
        with pytest.raises(StoreError, match="is a link, and a store is not written through links"):
            extract(route, TinyModel(), store.folder, overwrite=overwrite)
    with pytest.raises(StoreError, match="is a link"):
        relabel(store.folder, route)
    assert before == (aim.read_bytes() if aim.is_file() else {p.name: p.read_bytes() for p in aim.iterdir()})


def test_somebody_elses_index_json_is_not_overwritten(tmp_path, route):
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.json").write_text('{"title": "my pages"}')
    with pytest.raises(StoreError, match="holds other files"):
        extract(route, TinyModel(), site, overwrite=True)
    assert (site / "index.json").read_text() == '{"title": "my pages"}'


def test_damaged_vectors_are_described_again(store, route):
    shard = store.folder / "shards" / "000000.npy"
    content = bytearray(shard.read_bytes())
    content[-2] ^= 4
    shard.write_bytes(content)
    with pytest.raises(StoreError, match="does not have the checksum it was written with"):
        DescriptorStore(store.folder).vectors()
    assert len(DescriptorStore(store.folder, verify=True)) == 0
    repaired = extract(route, TinyModel(), store.folder)
    assert repaired.n_described == 12
    np.testing.assert_allclose(DescriptorStore(store.folder).vectors(), expected(route), atol=1e-7)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dim", 2**62),
        ("dim", 0),
        ("dim", True),
        ("dtype", "object"),
        ("dtype", "f8"),
        ("hashes", {}),
        ("skipped", []),
        ("root", 7),
        ("model", "hog"),
        ("format", True),
        ("columns", {"image": "abc", "place": "abc", "traversal": "abc"}),
        ("columns", []),
    ],
)
def test_an_index_with_fields_of_another_kind_is_one_clear_error(store, field, value):
    index = store.folder / "index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {field: value}))
    with pytest.raises(StoreError, match=r"index\.json cannot be read"):
        DescriptorStore(store.folder)


def test_an_index_nested_a_hundred_thousand_deep_is_one_clear_error(store):
    (store.folder / "index.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(StoreError, match="nested"):
        DescriptorStore(store.folder)


def test_references_of_several_stores(store, route, tmp_path):
    """Each a part of the traversals: together they are those of the store that has all."""
    names = route.traversal_names()
    parts = [
        extract(route.select_traversals(some), TinyModel(), tmp_path / f"{some[0]}.desc").store
        for some in (names[:1], names[1:])
    ]
    stream, whole = joined(parts), store.references()
    refs = stream.take(np.arange(len(stream)))
    np.testing.assert_array_equal(refs.vectors, whole.vectors)
    assert refs.places.tolist() == whole.places.tolist()
    assert refs.traversals.tolist() == whole.traversals.tolist()
    assert refs.info.ids.tolist() == whole.info.ids.tolist()
    some = np.array([0, 3, len(stream) - 1])
    np.testing.assert_array_equal(stream.read(some), whole.vectors[some])
    assert set(joined(parts, exclude=names[:1]).traversals) == {*names[1:]}
    with pytest.raises(InputError, match="no image of the traversals asked for has a place"):
        joined(parts, names[:1], names[:1])
    with pytest.raises(InputError, match="a recording counts once"):
        joined([store, parts[0]])
    other = extract(route.select_traversals(names[1:]), TinyModel(version=2), tmp_path / "other.desc").store
    with pytest.raises(ModelMismatchError, match="describe the images of one anew"):
        joined([parts[0], other])


def test_stores_of_cameras_or_of_other_units_are_not_joined(route, tmp_path):
    n = len(route)
    columns = [
        {"camera": np.zeros(n)},
        {"latitude": np.full(n, 1.0), "longitude": np.full(n, 2.0)},
        {"easting": np.full(n, 1.0), "northing": np.full(n, 2.0)},
    ]
    stores = []
    for number, given in enumerate(columns):
        manifest = Manifest(route.images, route.places, [str(number)] * n, route.root, **given)
        stores.append(extract(manifest, TinyModel(), tmp_path / f"{number}.desc").store)
    with pytest.raises(InputError, match="tell views of a place apart"):
        joined(stores[:2])
    with pytest.raises(InputError, match="convert one of the two"):
        joined(stores[1:])
