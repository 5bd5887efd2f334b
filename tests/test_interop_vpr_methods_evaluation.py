"""VPR-methods-evaluation's arrays, searched by Euclidean distance as it does."""

from __future__ import annotations

import os
from dataclasses import replace
from glob import glob

import numpy as np
import pytest
from interop_route import DAYS, N_PLACES, NIGHT, make_town

from displace.errors import FormatError, InputError, UnknownNameError, WriteError
from displace.interop.vpr_methods_evaluation import (
    image_order,
    read_array,
    read_descriptors,
    read_references,
    write_descriptors,
    write_locations,
)
from displace.manifest.table import Manifest


@pytest.fixture(scope="module")
def case():
    return make_town()


def nearest(folder, k):
    """Rows of the database nearest to each query by Euclidean distance."""
    database, queries = (np.load(folder / f"{side}_descriptors.npy") for side in ("database", "queries"))
    assert database.dtype == queries.dtype == np.float32
    distances = ((queries[:, None].astype(np.float64) - database) ** 2).sum(axis=2)
    return np.argsort(distances, axis=1)[:, :k]


def lines(path):
    return path.read_text("utf-8").splitlines()


def test_a_store_as_database_and_queries(case, tmp_path):
    written = write_descriptors(case.store(tmp_path / "route.desc"), tmp_path / "run", queries=NIGHT)
    assert sorted(path.name for path in written) == sorted(path.name for path in (tmp_path / "run").iterdir())
    night = case.manifest.traversals == NIGHT
    np.testing.assert_array_equal(
        np.load(tmp_path / "run" / "database_descriptors.npy"), case.vectors[~night]
    )
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "queries_descriptors.npy"), case.vectors[night])
    assert lines(tmp_path / "run" / "queries_images_paths.txt") == case.manifest.select(night).images
    assert lines(tmp_path / "run" / "database_images_paths.txt") == case.manifest.select(~night).images


def test_a_store_comes_back(case, tmp_path):
    write_descriptors(
        case.store(tmp_path / "route.desc"), tmp_path / "run", queries=NIGHT, database=["snow", "sun"]
    )
    refs = read_references(tmp_path / "run", case.manifest.select_traversals(["snow", "sun"]))
    expected = case.references.only("snow", "sun")
    np.testing.assert_array_equal(refs.vectors, expected.vectors)
    np.testing.assert_array_equal(refs.traversals, expected.traversals)
    night = read_descriptors(tmp_path / "run", "queries", case.manifest.select_traversals([NIGHT]))
    np.testing.assert_array_equal(night.vectors, case.locations.vectors)


@pytest.mark.parametrize(
    ("fusion", "dtype"), [("displace", "float16"), ("hops", "float32"), ("single", "float32")]
)
def test_euclidean_search_of_the_arrays_ranks_as_the_map(tmp_path, fusion, dtype):
    case = make_town(fusion, dtype, calibration=False)
    write_locations(case.locations, tmp_path)
    names = np.array(lines(tmp_path / "database_images_paths.txt"))
    best = names[nearest(tmp_path, 1)[:, 0]]
    assert best.tolist() == [f"sun/{place}.jpg" for place in case.locations.matches.places[:, 0]]
    assert lines(tmp_path / "queries_images_paths.txt") == case.locations.manifest.images


def test_several_rows_of_a_place_repeat_its_image(tmp_path):
    case = make_town("pooling", calibration=False)
    write_locations(case.locations, tmp_path)
    names = lines(tmp_path / "database_images_paths.txt")
    assert len(names) == N_PLACES * len(DAYS)
    best = [names[row] for row in nearest(tmp_path, 1)[:, 0]]
    assert best == [f"sun/{place}.jpg" for place in case.locations.matches.places[:, 0]]


def test_what_cannot_be_exported(case, tmp_path):
    store = case.store(tmp_path / "route.desc")
    with pytest.raises(UnknownNameError, match="did you mean 'night'"):
        write_descriptors(store, tmp_path / "run", queries="nigth")
    with pytest.raises(InputError, match="queries would find themselves"):
        write_descriptors(store, tmp_path / "run", queries=NIGHT, database=[NIGHT])
    one = replace(case, manifest=case.manifest.select(np.arange(3)), vectors=case.vectors[:3])
    with pytest.raises(InputError, match="nothing to search in"):
        write_descriptors(one.store(tmp_path / "one.desc"), tmp_path / "run", queries="sun")
    with pytest.raises(InputError, match="have no vectors"):
        write_locations(replace(case.locations, vectors=None), tmp_path / "run")
    with pytest.raises(InputError, match="map by dmat_avg have unequal lengths"):
        write_locations(make_town("dmat_avg", calibration=False).locations, tmp_path / "run")
    (tmp_path / "file").write_text("x")
    with pytest.raises(WriteError, match="cannot write"):
        write_locations(case.locations, tmp_path / "file")
    assert not (tmp_path / "run").exists()


def test_no_list_of_an_earlier_export_stays(case, tmp_path):
    write_locations(case.locations, tmp_path)
    bare = make_town(images=False, calibration=False)
    assert len(write_locations(bare.locations, tmp_path)) == 3
    assert not (tmp_path / "database_images_paths.txt").exists()


@pytest.fixture
def dataset(tmp_path):
    """A folder of images as the program reads it, with files that it leaves out."""
    folder = tmp_path / "images" / "database"
    for name in (
        "b.jpg",
        "a/z.jpg",
        "a.jpg",
        "a-b/c.jpg",
        "B.jpg",
        "a/.hidden/x.jpg",
        ".y.jpg",
        "c.png",
        "d.JPG",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_images_in_the_programs_own_order(dataset):
    found = glob(f"{dataset}/**/*.jpg", recursive=True)  # noqa: PTH207, as the program does
    own = [name.removeprefix(f"{dataset}/") for name in sorted(found)]
    assert len(own) == 5
    assert image_order(dataset) == own
    dataset.with_name("database_images_paths.txt").write_text("b.jpg\na.jpg\n")
    assert image_order(dataset) == ["b.jpg", "a.jpg"]


def test_a_run_on_a_folder_of_images(dataset, tmp_path):
    names = image_order(dataset)
    vectors = np.random.default_rng(0).random((len(names), 6), np.float32)
    np.save(tmp_path / "database_descriptors.npy", vectors)
    manifest = Manifest(
        ["database/b.jpg", "database/a/z.jpg"], ["1", "0"], ["x", "x"], root=tmp_path / "images"
    )
    refs = read_references(tmp_path, manifest, images=dataset)
    np.testing.assert_array_equal(refs.vectors, vectors[[names.index("b.jpg"), names.index("a/z.jpg")]])
    np.testing.assert_array_equal(refs.places, ["1", "0"])
    np.save(tmp_path / "database_descriptors.npy", vectors[:-1])
    with pytest.raises(FormatError, match="has 4 rows, but there are 5 images"):
        read_references(tmp_path, manifest, images=dataset)
    with pytest.raises(FormatError, match=r"4 rows, but there are 0 images in database_images_paths.txt"):
        read_references(tmp_path, manifest)


def test_an_image_that_the_run_did_not_have(case, tmp_path):
    write_locations(case.locations, tmp_path)
    with pytest.raises(FormatError, match=r"no descriptor for 1 of the manifest's 1 images, first x.jpg"):
        read_descriptors(tmp_path, "queries", Manifest(["x.jpg"], [""], ["x"]))


def test_files_that_are_no_arrays(tmp_path):
    with pytest.raises(FormatError, match="--save_descriptors"):
        read_array(tmp_path, "database")
    path = tmp_path / "database_descriptors.npy"
    for content in (b"", b"nonsense", b"\x93NUMPY\x01\x00"):
        path.write_bytes(content)
        with pytest.raises(FormatError, match="not an array of numbers, or is damaged"):
            read_array(tmp_path, "database")
    np.save(path, np.array([{"code": "runs"}]), allow_pickle=True)
    with pytest.raises(FormatError, match="not an array of numbers"):
        read_array(tmp_path, "database")
    np.save(path, np.ones(3))
    with pytest.raises(InputError, match=r"must have shape \(m, D\)"):
        read_array(tmp_path, "database")
    with pytest.raises(InputError, match="side='db' must be"):
        read_array(tmp_path, "db")


@pytest.mark.usefixtures("not_for_ever")
def test_arrays_that_are_pipes_or_declare_terabytes_are_refused(tmp_path):
    path = tmp_path / "queries_descriptors.npy"
    os.mkfifo(path)
    with pytest.raises(FormatError, match="it is a pipe or a device"):
        read_array(tmp_path, "queries")
    path.unlink()
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**21, 2**20)}
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(FormatError, match="not an array of numbers, or is damaged"):
        read_array(tmp_path, "queries")
    path.write_bytes(b"\x93NUMPY\x01\x00\x04\x00{{{\n")
    with pytest.raises(FormatError, match="not an array of numbers, or is damaged"):
        read_array(tmp_path, "queries")
