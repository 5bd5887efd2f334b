"""The verbs as functions, with real models on generated images."""

from __future__ import annotations

import inspect
import json
import os
import re
from shlex import quote

import cv2
import numpy as np
import pytest
from tiny import make_route

from displace import verbs
from displace.descriptors.extraction import extract as extract_images
from displace.errors import (
    DatasetError,
    InputError,
    ManifestError,
    MissingExtraError,
    StoreError,
    UnknownNameError,
    WeightsError,
)
from displace.images import read_image
from displace.manifest.builder import build_manifest
from displace.manifest.table import Manifest
from displace.maps import PlaceMap
from displace.models import get_model, open_model
from displace.verbs.build import map_output
from displace.verbs.manifest import manifest_output


@pytest.fixture
def route(tmp_path):
    return make_route(tmp_path / "route", n_places=4, shape=(60, 80))


@pytest.fixture
def csv(route):
    return route.root / "route.csv"


def test_images_to_references_in_two_calls(tmp_path, route):
    written = verbs.manifest([route.root], tmp_path / "made.csv")
    assert (written.images, written.places, [t.name for t in written.traversals]) == (8, 4, ["night", "sun"])
    done = verbs.extract(tmp_path / "made.csv")
    assert done.store.folder == tmp_path / "made.desc"
    hog = get_model("hog")
    for path, vector in zip(done.store.manifest.paths(), done.store.vectors(), strict=True):
        np.testing.assert_allclose(vector, hog.describe(hog.prepare(read_image(path))[None])[0], atol=1e-6)
    refs = done.store.references(exclude=["night"])
    assert (refs.vectors.shape, set(refs.traversals)) == ((4, 3168), {"sun"})


def test_crop_and_mask_make_another_fingerprint(tmp_path, csv):
    verbs.extract(csv, tmp_path / "d")
    with pytest.raises(StoreError, match=r"crop: None / \[0\.0, 0\.0, 0\.1, 0\.0\]"):
        verbs.extract(csv, tmp_path / "d", crop="0,0,0.1,0")


def test_the_number_of_threads_changes_nothing(tmp_path, csv):
    one = verbs.extract(csv, tmp_path / "1", threads=1).store.vectors()
    np.testing.assert_array_equal(one, verbs.extract(csv, tmp_path / "2", threads=2).store.vectors())


def test_threads_bound_those_of_the_model(tmp_path, csv, monkeypatch):
    torch = pytest.importorskip("torch", reason="limits are looked at through torch")
    seen = []
    monkeypatch.setattr(
        "displace.descriptors.extraction.extract",
        lambda *_, workers, **__: seen.append((workers, torch.get_num_threads())),
    )
    before = torch.get_num_threads()
    verbs.extract(csv, tmp_path / "d", threads=1)
    assert seen == [(1, 1)]
    assert torch.get_num_threads() == before


def test_relabel_takes_a_manifest_file(tmp_path, csv, route):
    store = verbs.extract(csv, tmp_path / "d").store
    Manifest(route.images, ["here"] * 8, route.traversals, route.root).write(tmp_path / "new.csv")
    assert set(verbs.extract(store.folder, relabel=tmp_path / "new.csv").store.places) == {"here"}
    assert verbs.inspect(store.folder).n_places == 1


def test_inspect_counts_what_is_there_pending_skipped_and_unused(tmp_path, csv, route):
    (route.root / route.images[2]).write_bytes(b"")
    verbs.extract(csv, tmp_path / "d")
    summary = verbs.inspect(tmp_path / "d")
    assert (summary.n_listed, summary.n_described, summary.n_pending, summary.n_unused) == (8, 7, 0, 0)
    assert list(summary.skipped) == [route.images[2]]
    assert summary.n_bytes == 7 * 3168 * 4
    assert [(t.name, t.images, t.places) for t in summary.traversals] == [("sun", 3, 3), ("night", 4, 4)]
    route.select(np.arange(4)).write(tmp_path / "sun.csv")
    verbs.extract(tmp_path / "sun.csv", tmp_path / "d")
    assert verbs.inspect(tmp_path / "d").n_unused == 4


def test_a_manifest_is_not_replaced_unasked(tmp_path, route, csv):
    text = csv.read_text()
    with pytest.raises(ManifestError, match=r"route\.csv exists; .* --overwrite"):
        verbs.manifest([route.root], csv)
    assert csv.read_text() == text
    verbs.manifest([route.root], tmp_path / "x.csv")
    verbs.manifest([route.root], tmp_path / "x.csv", overwrite=True)


@pytest.mark.parametrize("overwrite", [True, False])
def test_the_positions_of_a_recording_are_not_written_over(tmp_path, route, overwrite):
    """The manifest of sun/ and night/ is sun.csv by default, and so are the positions of sun/."""
    positions = tmp_path / "sun.csv"
    positions.write_text("image,easting,northing\n0.png,1,2\n")
    for build in (
        lambda: verbs.manifest([route.root], positions, overwrite=overwrite),
        lambda: verbs.build(route.root, tmp_path / "sun.displace", model="hog", overwrite=overwrite),
    ):
        with pytest.raises(ManifestError, match=r"sun\.csv is no manifest, and is not written over"):
            build()
    assert positions.read_text() == "image,easting,northing\n0.png,1,2\n"


def test_several_folders_are_several_traversals(tmp_path, route):
    written = verbs.manifest([route.root / "night", route.root / "sun"], tmp_path / "x.csv")
    assert [t.name for t in written.traversals] == ["night", "sun"]
    assert all(path.is_file() for path in Manifest.read(tmp_path / "x.csv").paths())


def test_videos_are_sampled_into_frames_beside_the_manifest(tmp_path):
    for name in ("sun", "night"):
        writer = cv2.VideoWriter(str(tmp_path / f"{name}.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 10, (64, 48))
        for value in range(20):
            writer.write(np.full((48, 64, 3), 12 * value, np.uint8))
        writer.release()
    seen = []
    written = verbs.manifest(
        [tmp_path / "sun.avi", tmp_path / "night.avi"],
        tmp_path / "route.csv",
        layout="order",
        every="0.5s",
        progress=lambda *call: seen.append(call),
    )
    assert (written.places, [(t.name, t.images) for t in written.traversals]) == (
        4,
        [("sun", 4), ("night", 4)],
    )
    assert Manifest.read(tmp_path / "route.csv").images[1] == "route.frames/sun/000005.jpg"
    assert {stage for stage, _, _ in seen} == {"sun", "night"}


def test_a_recording_is_assigned_to_known_places(tmp_path, route, csv):
    new = make_route(tmp_path / "new", n_places=3, traversals=("snow",)).root
    verbs.manifest([new / "snow"], tmp_path / "snow.csv", against=csv)
    snow = Manifest.read(tmp_path / "snow.csv")
    assert snow.places.tolist() == ["000", "001", "002"]
    assert set(snow.traversals) == {"snow"}


def renamed(folder, names):
    """Give the twelve images of a folder other names, in their order."""
    for path, name in zip(sorted(folder.glob("*.png")), names, strict=True):
        path.rename(folder / f"{name}.png")


def test_a_map_and_its_manifest_assign_alike_by_order(tmp_path):
    """Places 1, 2, … 12 without leading zeros, of which the first traversal lacks one."""
    root = make_route(tmp_path / "route", n_places=12, shape=(60, 80)).root
    for name in ("sun", "night"):
        renamed(root / name, range(1, 13))
    (root / "night" / "3.png").unlink()
    (root / "route.csv").unlink()
    verbs.manifest([root], tmp_path / "route.csv", layout="names")
    verbs.extract(tmp_path / "route.csv")
    verbs.build(tmp_path / "route.desc", tmp_path / "m.displace", calibration=False)
    snow = make_route(tmp_path / "new", n_places=12, traversals=("snow",)).root / "snow"
    renamed(snow, "abcdefghijkl")
    for known in ("route.csv", "m.displace"):
        verbs.manifest([snow], tmp_path / "snow.csv", against=tmp_path / known, overwrite=True)
        assert Manifest.read(tmp_path / "snow.csv").places.tolist() == [str(n) for n in range(1, 13)], known


def test_the_places_of_a_map_are_known_along_its_route_and_it_is_read_once(tmp_path, monkeypatch):
    """Also where their ids are in another order."""
    folder = make_route(tmp_path / "route", n_places=4, traversals=("sun",), shape=(60, 80)).root / "sun"
    images = [f"sun/{path.name}" for path in sorted(folder.glob("*.png"))]
    ids, frame = ["mill", "barn", "gate", "weir"], [0, 1, 2, 3]
    Manifest(images, ids, ["sun"] * 4, folder.parent, frame=frame).write(tmp_path / "route.csv")
    verbs.extract(tmp_path / "route.csv", model="hog")
    verbs.build(tmp_path / "route.desc", tmp_path / "m.displace", fusion="hops", calibration=False)
    snow = make_route(tmp_path / "new", n_places=4, traversals=("snow",)).root / "snow"
    read, load = [], PlaceMap.load
    monkeypatch.setattr(PlaceMap, "load", lambda *given: read.append(given) or load(*given))
    for known in ("route.csv", "m.displace"):
        options = {"against": tmp_path / known, "overwrite": True}
        verbs.manifest([snow], tmp_path / "snow.csv", layout="order", **options)
        assert Manifest.read(tmp_path / "snow.csv").places.tolist() == ids, known
    with pytest.raises(ManifestError, match="does not seem to follow"):
        verbs.manifest([snow], tmp_path / "snow.csv", **options)
    assert len(read) == 2


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("route.desc", "route.displace"),
        ("route.v1.csv", "route.v1.displace"),
        ("route.north", "route.north.displace"),
        ("drives", "drives.displace"),
        ("drives/", "drives.displace"),
        ("drives/..", "work.displace"),
        (".", "work.displace"),
        ("..", "above.displace"),
    ],
)
def test_what_is_made_is_called_after_its_source(tmp_path, monkeypatch, source, made):
    (tmp_path / "above" / "work" / "drives").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "above" / "work")
    assert map_output(source, None).name == made
    assert map_output(source, "x").name == "x"
    assert manifest_output([source], None).name == made.replace(".displace", ".csv")


def test_what_has_no_name_gives_none():
    with pytest.raises(InputError, match="choose one with -o"):
        map_output("/", None)


def test_a_name_that_shows_two_places_of_a_map_says_nothing_about_either(tmp_path):
    root = make_route(tmp_path / "route", n_places=3, shape=(60, 80)).root
    images = ["sun/000.png", "night/000.png", "night/001.png", "night/002.png"]
    Manifest(images, ["a", "b", "c", "d"], ["x"] * 4, root).write(tmp_path / "route.csv")
    verbs.extract(tmp_path / "route.csv")
    verbs.build(tmp_path / "route.desc", tmp_path / "m.displace", fusion="hops")
    for known in ("route.csv", "m.displace"):
        verbs.manifest([root / "sun"], tmp_path / "new.csv", against=tmp_path / known, overwrite=True)
        assert Manifest.read(tmp_path / "new.csv").places.tolist() == ["", "c", "d"], known


def test_a_folder_where_a_manifest_is_expected_is_explained(tmp_path, route):
    with pytest.raises(
        ManifestError, match="is a folder, but a manifest is a CSV file; make one with: displace manifest"
    ):
        verbs.extract(route.root)


def test_a_recording_where_a_manifest_is_expected_is_explained(tmp_path):
    """A video was said to be no UTF-8 text, to be saved as CSV."""
    for name in ("my drive.mp4", "a.db3"):
        (tmp_path / name).write_bytes(b"\0\0\0\x20ftyp\xe1")
        path = tmp_path / name
        with pytest.raises(
            ManifestError, match=re.escape(f"CSV file; make one with: displace manifest {quote(str(path))}")
        ):
            verbs.extract(path)
    (tmp_path / "x.csv").write_bytes(b"\xe1")
    with pytest.raises(ManifestError, match="is not UTF-8 text"):
        verbs.extract(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("hog", None),
        ("cosplace", None),
        ("cosplace", 322),
        ("salad", (476, 644)),
        ("megaloc", "native"),
        ("netvlad", "hloc"),
        ("mixvpr", "pil-bicubic"),
    ],
)
def test_the_image_size_of_a_map_is_found_in_its_fingerprint(model, size):
    if model != "hog":
        pytest.importorskip("torch", reason="needs the extra 'torch'")
    made = get_model(model, image_size=size)
    made.weights_sha256 = lambda: None  # no weights are needed for this
    recorded = json.loads(json.dumps(made.fingerprint()))
    released = {name: value for name, value in recorded.items() if name != "image_size"}  # as of version 0.1
    for fingerprint in (recorded, released):
        assert open_model(fingerprint).image_size == size
        assert open_model(fingerprint).settings() == made.settings()


def test_an_empty_manifest_is_refused(tmp_path):
    (tmp_path / "none.csv").write_text("image,place,traversal\n")
    with pytest.raises(InputError, match="lists no images"):
        verbs.extract(tmp_path / "none.csv")


def test_threads_below_one_are_refused(csv):
    with pytest.raises(InputError, match="threads=0 must be at least 1"):
        verbs.extract(csv, threads=0)


def test_a_wrong_weights_file_is_refused_before_the_store_is_made(tmp_path, csv):
    pytest.importorskip("torch", reason="needs a model with weights")
    (tmp_path / "weights.pth").write_bytes(b"these are no weights")
    with pytest.raises(WeightsError, match=r"weights\.pth"):
        verbs.extract(csv, tmp_path / "d", model="cosplace", weights=tmp_path / "weights.pth")
    assert not (tmp_path / "d").exists()


def test_a_model_without_its_extra_says_what_to_install(tmp_path, csv, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "torch" else real(name, *a)
    )
    with pytest.raises(MissingExtraError, match=r"needs 'torch': pip install 'displace\[torch\]'"):
        verbs.extract(csv, tmp_path / "d", model="cosplace")
    assert not (tmp_path / "d").exists()
    assert not any(row.installed for row in verbs.listing("models") if row.extra)


def test_an_unknown_model_suggests_the_nearest(csv):
    with pytest.raises(UnknownNameError, match="unknown model 'hgo'; did you mean 'hog'"):
        verbs.extract(csv, model="hgo")


def test_datasets_are_written_and_checked(tmp_path, route):
    check = verbs.manifest([route.root], tmp_path / "folder.csv", dataset="folder")
    assert check.rows
    assert len(Manifest.read(tmp_path / "folder.csv")) == 8
    verbs.manifest([route.root], dataset="folder", check=True)
    with pytest.raises(DatasetError, match="no folder at"):
        verbs.manifest([tmp_path / "none"], dataset="nordland", check=True)


def test_listings_have_a_line_about_each(route):
    assert {row.name for row in verbs.listing("fusions")} >= {"displace", "hops", "pooling"}
    assert {row.name for row in verbs.listing("datasets")} >= {"folder", "nordland", "robotcar"}
    assert all(row.about.strip() for row in [*verbs.listing("fusions"), *verbs.listing("datasets")])
    assert any(row.name == "hog" and row.weights_here for row in verbs.listing("models"))


@pytest.mark.parametrize(
    ("verb", "below"), [(verbs.manifest, build_manifest), (verbs.extract, extract_images)]
)
def test_defaults_agree_with_the_functions_below(verb, below):
    upper, lower = inspect.signature(verb).parameters, inspect.signature(below).parameters
    shared = {name for name in upper if name in lower and lower[name].default is not inspect.Parameter.empty}
    assert shared
    assert {name: upper[name].default for name in shared} == {name: lower[name].default for name in shared}


def test_extraction_reproduces_the_descriptors_of_real_images(shared, tmp_path):
    """Two images of each folder: the whole set takes minutes."""
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra 'lite'")
    known = np.load(shared / "data" / "sped400_efficientnet_lite0.npz")
    folders = {name: shared / "data" / "sped400" / name for name in known.files}
    rows = [0, 217]
    images = [os.fspath(sorted(folders[name].iterdir())[row]) for name in folders for row in rows]
    Manifest(images, [str(row) for _ in folders for row in rows], np.repeat(list(folders), 2)).write(
        tmp_path / "r.csv"
    )
    store = verbs.extract(tmp_path / "r.csv", model="efficientnet_lite").store
    for name in folders:
        theirs = known[name][rows].astype(np.float32)
        cosines = (store.queries(name).vectors * theirs).sum(axis=1) / np.linalg.norm(theirs, axis=1)
        assert cosines.min() >= 0.999
