"""hloc's pairs and global features, against h5py and plain text, read as hloc reads them."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from interop_route import DAYS, N_PLACES, NIGHT, make_town

from displace import build
from displace.descriptors.imported import write_store
from displace.descriptors.store import DescriptorStore
from displace.errors import (
    FormatError,
    InputError,
    MissingExtraError,
    ModelMismatchError,
    StoreError,
    WriteError,
)
from displace.interop.hloc import (
    read_descriptors,
    read_names,
    read_pairs,
    read_references,
    write_descriptors,
    write_pairs,
)
from displace.manifest.table import Manifest
from displace.maps.located import Located

h5py = pytest.importorskip("h5py", reason="the extra hloc is not installed")


@pytest.fixture(scope="module")
def case():
    return make_town()


@pytest.fixture
def store(case, tmp_path):
    return case.store(tmp_path / "route.desc")


def as_hloc_writes(path, names, vectors, dtype=np.float16):
    """As hloc's extract_features does: a group for each name, half precision, further data sets beside."""
    for name, vector in zip(names, vectors, strict=True):
        with h5py.File(path, "a", libver="latest") as file:
            group = file.create_group(name)
            group.create_dataset("global_descriptor", data=vector.astype(dtype))
            group.create_dataset("image_size", data=np.array([640, 480]))


def test_pairs_are_the_images_of_the_best_places_in_order(case, tmp_path):
    assert write_pairs(case.locations, tmp_path / "pairs.txt") == [tmp_path / "pairs.txt"]
    lines = (tmp_path / "pairs.txt").read_text().splitlines()
    places = case.locations.matches.places
    assert lines == [f"night/{i:03d}.jpg sun/{place}.jpg" for i in range(N_PLACES) for place in places[i]]
    pairs = read_pairs(tmp_path / "pairs.txt")
    assert pairs["night/007.jpg"] == [f"sun/{place}.jpg" for place in places[7]]
    assert list(pairs) == [f"night/{i:03d}.jpg" for i in range(N_PLACES)]


def test_pairs_with_every_image_of_a_place(case, tmp_path):
    references = case.manifest.select_traversals(DAYS)
    write_pairs(
        case.locations, tmp_path / "p.txt", references=references, query_prefix="q/", reference_prefix="db/"
    )
    pairs = read_pairs(tmp_path / "p.txt")
    best = case.locations.matches.places[4, 0]
    assert pairs["q/night/004.jpg"][: len(DAYS)] == [f"db/{day}/{best}.jpg" for day in DAYS]
    assert all(len(found) == 3 * len(DAYS) for found in pairs.values())


def test_pairs_leave_doubtful_images_out(case, tmp_path):
    confidence = case.locations.matches.confidence
    limit = float(np.median(confidence))
    write_pairs(case.locations, tmp_path / "p.txt", min_confidence=limit)
    kept = [f"night/{i:03d}.jpg" for i in np.flatnonzero(confidence >= limit)]
    assert 0 < len(kept) < N_PLACES
    assert list(read_pairs(tmp_path / "p.txt")) == kept


def test_pairs_that_cannot_be_written(case, tmp_path):
    bare = make_town(images=False, calibration=False)
    with pytest.raises(InputError, match="no reference images"):
        write_pairs(bare.locations, tmp_path / "p.txt")
    nothing = Manifest(["x.jpg"], ["elsewhere"], ["x"])
    with pytest.raises(InputError, match="no pair to write"):
        write_pairs(case.locations, tmp_path / "p.txt", references=nothing)
    with pytest.raises(InputError, match=r"'my photos/night/000.jpg'.* has blanks"):
        write_pairs(case.locations, tmp_path / "p.txt", query_prefix="my photos/")
    assert not list(tmp_path.iterdir())


def test_an_image_is_not_paired_with_itself(case, tmp_path):
    """Queries that are reference images of the map make pairs that match whatever hloc does."""
    with pytest.raises(InputError, match=r"night/000.jpg would be paired with itself.*--exclude"):
        write_pairs(case.locations, tmp_path / "p.txt", references=case.manifest)
    write_pairs(case.locations, tmp_path / "p.txt", references=case.manifest, query_prefix="q/")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a.jpg b.jpg\na.jpg b.jpg 0.5\n", "line 2 has 3 names"),
        (b"a.jpg\n", "line 1 has 1 names"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_files_that_are_no_pairs(tmp_path, content, message):
    (tmp_path / "p.txt").write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_pairs(tmp_path / "p.txt")
    with pytest.raises(FormatError, match="cannot read a pairs file"):
        read_pairs(tmp_path / "absent.txt")


def test_pairs_as_hloc_ends_them_without_a_last_line_end(tmp_path):
    (tmp_path / "p.txt").write_text("q.jpg a.jpg\n\nr.jpg a.jpg\nq.jpg b.jpg")
    assert read_pairs(tmp_path / "p.txt") == {"q.jpg": ["a.jpg", "b.jpg"], "r.jpg": ["a.jpg"]}


@pytest.mark.parametrize("dtype", [None, "float16"])
def test_features_are_where_hloc_looks_for_them(case, store, tmp_path, dtype):
    seen = []
    path = tmp_path / "global-feats.h5"
    write_descriptors(store, path, dtype=dtype, progress=lambda *step: seen.append(step))
    assert seen[-1] == ("writing", len(store), len(store))
    with h5py.File(path, "r") as file:
        assert sorted(file) == sorted([*DAYS, NIGHT])
        for row in (0, 77, len(store) - 1):
            data = file[case.manifest.images[row]]["global_descriptor"]
            assert data.dtype == (dtype or "float32")
            np.testing.assert_array_equal(data[()], case.vectors[row].astype(data.dtype))
    assert read_names(path) == sorted(case.manifest.images)


def test_features_come_back_as_they_were(case, store, tmp_path):
    write_descriptors(store, tmp_path / "f.h5")
    shuffled = case.manifest.select(np.random.default_rng(0).permutation(len(case.manifest))[:50])
    seen = []
    found = read_descriptors(tmp_path / "f.h5", shuffled, progress=lambda *step: seen.append(step))
    assert seen == [("reading", 50, 50)]
    rows = [case.manifest.images.index(image) for image in shuffled.images]
    np.testing.assert_array_equal(found.vectors, case.vectors[rows])
    assert found.manifest is shuffled


def test_a_map_of_hlocs_own_features(case, tmp_path):
    names = [f"images/{image}" for image in case.manifest.images]
    as_hloc_writes(tmp_path / "f.h5", names, case.vectors)
    # hloc's image folder holds "images", in which the manifest's paths start.
    manifest = Manifest(
        case.manifest.images, case.manifest.places, case.manifest.traversals, tmp_path / "images"
    )
    refs = read_references(tmp_path / "f.h5", manifest.select_traversals(DAYS), root=tmp_path)
    assert refs.vectors.dtype == np.float32
    np.testing.assert_allclose(refs.vectors, case.references.vectors, atol=1e-3)
    np.testing.assert_array_equal(refs.places, case.references.places)
    night = read_descriptors(tmp_path / "f.h5", manifest.select_traversals([NIGHT]), root=tmp_path)
    matches = Located.of(build(refs, calibration=False), night, k=1).matches
    agree = np.mean(matches.places[:, 0] == case.locations.matches.places[:, 0])
    assert agree >= 0.95


def test_written_names_start_from_the_image_folder(case, tmp_path):
    manifest = Manifest(
        case.manifest.images, case.manifest.places, case.manifest.traversals, tmp_path / "data" / "route"
    )
    store = replace(case, manifest=manifest).store(tmp_path / "route.desc")
    write_descriptors(store, tmp_path / "f.h5", root=tmp_path / "data")
    assert read_names(tmp_path / "f.h5")[0] == "route/dusk/000.jpg"
    with pytest.raises(InputError, match="not below hloc's image folder"):
        write_descriptors(store, tmp_path / "g.h5", root=tmp_path / "elsewhere")
    assert not (tmp_path / "g.h5").exists()


def test_the_way_out_of_images_elsewhere_is_one_that_the_command_line_has(case, tmp_path):
    outside = [f"../{image}" for image in case.manifest.images]
    manifest = Manifest(outside, case.manifest.places, case.manifest.traversals, tmp_path / "route")
    store = replace(case, manifest=manifest).store(tmp_path / "route.desc")
    with pytest.raises(InputError, match=r"displace manifest … -o FOLDER/route\.csv") as refused:
        write_descriptors(store, tmp_path / "f.h5")
    assert "root" not in str(refused.value)


def test_images_without_features_are_counted_and_shown(case, tmp_path):
    as_hloc_writes(tmp_path / "f.h5", ["db/sun/000.jpg"], case.vectors[:1])
    message = (
        r"no descriptor for 2 of the manifest's 2 images, first sun/000.jpg; it has 1, such as db/sun/000.jpg"
    )
    with pytest.raises(FormatError, match=message):
        read_descriptors(tmp_path / "f.h5", case.manifest.select([0, 1]))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (np.ones(5, np.float32), "unequal length: a.jpg has 4, b.jpg has 5"),
        (np.array([1, np.nan, 0, 0], np.float32), "descriptor of b.jpg .* has NaN"),
        (np.ones((4, 1), np.float32), "not a row of floating-point numbers"),
        (np.array(["a"], dtype="S1"), "not a row of floating-point numbers"),
    ],
)
def test_features_that_cannot_be_used(tmp_path, second, message):
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_group("a.jpg")["global_descriptor"] = np.ones(4, np.float32)
        file.create_group("b.jpg")["global_descriptor"] = second
    with pytest.raises(FormatError, match=message):
        read_descriptors(tmp_path / "f.h5", Manifest(["a.jpg", "b.jpg"], ["0", "1"], ["x", "x"]))


def test_damaged_features_raise_one_kind_of_error(case, tmp_path):
    names = case.manifest.images[:10]
    as_hloc_writes(tmp_path / "f.h5", names, case.vectors[:10])
    whole = (tmp_path / "f.h5").read_bytes()
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole[: rng.integers(1, len(whole))] if rng.random() < 0.2 else whole)
        for at in rng.integers(len(damaged), size=8):
            damaged[at] = rng.integers(256)
        (tmp_path / "g.h5").write_bytes(damaged)
        try:
            found = read_descriptors(tmp_path / "g.h5", case.manifest.select(np.arange(10)))
            assert len(found.vectors) == 10
        except FormatError:
            refused += 1
    assert refused > 20
    with pytest.raises(FormatError, match="is not there"):
        read_names(tmp_path / "absent.h5")


def test_a_killed_or_failed_export_leaves_the_old_file(store, tmp_path, monkeypatch):
    write_descriptors(store, tmp_path / "f.h5")
    before = (tmp_path / "f.h5").read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DescriptorStore, "vectors", fail)
    with pytest.raises(WriteError, match="No space left on device"):
        write_descriptors(store, tmp_path / "f.h5")
    assert (tmp_path / "f.h5").read_bytes() == before
    assert not list(tmp_path.glob(".*.tmp"))


def test_types_that_hloc_does_not_write(store, tmp_path):
    with pytest.raises(InputError, match="dtype='int8' must be one of float16, float32"):
        write_descriptors(store, tmp_path / "f.h5", dtype="int8")


def test_without_h5py_the_extra_is_named(store, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'displace\[hloc\]'"):
        write_descriptors(store, tmp_path / "f.h5")


def test_a_store_of_imported_features(case, tmp_path):
    as_hloc_writes(tmp_path / "f.h5", case.manifest.images, case.vectors, np.float32)
    images = read_descriptors(tmp_path / "f.h5", case.manifest)
    write_store(images, tmp_path / "route.desc", "hloc netvlad")
    write_store(images, tmp_path / "route.desc", "hloc netvlad")  # again: nothing is added
    store = DescriptorStore(tmp_path / "route.desc")
    np.testing.assert_array_equal(store.vectors(), case.vectors)
    assert store.shards.n_rows == len(case.manifest)
    np.testing.assert_array_equal(store.places, case.manifest.places)
    np.testing.assert_array_equal(store.manifest.timestamp, case.manifest.timestamp)
    with pytest.raises(StoreError, match=r"hloc netvlad.* / .*another"):
        write_store(images, tmp_path / "route.desc", "another")
    with pytest.raises(ModelMismatchError, match="hloc netvlad"):
        Located.of_store(case.town, store, NIGHT)


def test_a_manifest_without_places_gives_no_references(case, tmp_path):
    as_hloc_writes(tmp_path / "f.h5", ["a.jpg"], case.vectors[:1])
    with pytest.raises(InputError, match="no image of the manifest has a place"):
        read_references(tmp_path / "f.h5", Manifest(["a.jpg"], [""], ["x"]))
    with pytest.raises(InputError, match="lists no images"):
        write_store(read_descriptors(tmp_path / "f.h5", Manifest([], [], [])), tmp_path / "s.desc", "m")


@pytest.mark.parametrize(
    "how", ["external storage", "external link", "link of the group", "link to a link", "virtual"]
)
def test_other_files_are_not_read(case, tmp_path, how):
    h5py = pytest.importorskip("h5py")
    secret = tmp_path / "secret"
    with h5py.File(secret, "w") as file:
        file["a.jpg/global_descriptor"] = np.ones(4, np.float32)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        group = None if how == "link of the group" else file.create_group("a.jpg")
        if how == "link of the group":
            file["a.jpg"] = h5py.ExternalLink(str(secret), "a.jpg")
        elif how == "link to a link":
            file["away"] = h5py.ExternalLink(str(secret), "a.jpg")
            group["global_descriptor"] = h5py.SoftLink("/away/global_descriptor")
        elif how == "external storage":
            group.create_dataset("global_descriptor", (4,), "f4", external=[(str(secret), 0, 16)])
        elif how == "external link":
            group["global_descriptor"] = h5py.ExternalLink(str(secret), "a.jpg/global_descriptor")
        else:
            layout = h5py.VirtualLayout((4,), "f4")
            layout[:] = h5py.VirtualSource(str(secret), "a.jpg/global_descriptor", (4,))
            group.create_virtual_dataset("global_descriptor", layout)
    with pytest.raises(FormatError, match=r"is a link" if "link" in how else "lies in another file"):
        read_descriptors(tmp_path / "f.h5", Manifest(["a.jpg"], ["0"], ["x"]))
    assert read_names(tmp_path / "f.h5") == ([] if "link" in how else ["a.jpg"])


def test_a_file_that_declares_terabytes_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("a.jpg/global_descriptor", (2**40,), "f4", chunks=(1024,))
    with pytest.raises(FormatError, match="has 1099511627776 numbers; at most"):
        read_descriptors(tmp_path / "f.h5", Manifest(["a.jpg"], ["0"], ["x"]))


def test_a_full_disk_is_refused_before_hdf5_meets_it(store, tmp_path, monkeypatch):
    """The process ended with a segmentation fault."""
    needed = len(store) * 4 * store.dim
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=needed))
    with pytest.raises(WriteError, match="No space left on device"):
        write_descriptors(store, tmp_path / "feats.h5")
    assert not list(tmp_path.glob("*feats*"))
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=2 * needed + 10**6))
    write_descriptors(store, tmp_path / "feats.h5")
