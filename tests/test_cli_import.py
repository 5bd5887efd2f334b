"""Descriptors of other programs, from their files to a located traversal, typed as a user would."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from commands import set_columns
from interop_route import DAYS, N_PLACES, NIGHT, make_town
from typer.testing import CliRunner

from displace import cli
from displace.descriptors.store import DescriptorStore
from displace.interop import export


@pytest.fixture
def case(tmp_path, monkeypatch):
    """The route's manifest and store in an empty folder."""
    case = make_town()
    case.manifest.root = tmp_path
    monkeypatch.chdir(tmp_path)
    set_columns(200, monkeypatch)
    case.manifest.write("route.csv")
    case.store(tmp_path / "made.desc")
    return case


def run(*args):
    return CliRunner().invoke(cli.app, [str(arg) for arg in args])


def test_hloc_features_become_a_store_and_a_map(case, tmp_path):
    pytest.importorskip("h5py", reason="needs the extra 'hloc'")
    export("hloc", DescriptorStore("made.desc"), "feats.h5")
    done = run("import", "feats.h5", "--manifest", "route.csv", "-m", "hloc netvlad")
    assert done.exit_code == 0, done.output
    store = DescriptorStore("route.desc")
    assert (store.images, store.model["model"]) == (case.manifest.images, "hloc netvlad")
    np.testing.assert_array_equal(store.vectors(), case.vectors)
    assert run("build", "route.desc", "-o", "t.displace", "--exclude", NIGHT).exit_code == 0
    located = run("locate", "t.displace", "route.desc", "--traversal", NIGHT, "--json")
    assert len(json.loads(located.stdout)) == N_PLACES
    (tmp_path / "x.jpg").touch()
    image = run("locate", "t.displace", "x.jpg")
    assert image.exit_code == 2
    assert "the descriptors were imported (hloc netvlad)" in image.stderr


def test_a_map_of_imported_descriptors_is_not_said_to_locate_photos(case):
    np.save("mine.npy", case.vectors)
    assert run("import", "mine.npy", "--manifest", "route.csv", "-m", "mine").exit_code == 0
    built = run("build", "route.desc", "-o", "t.displace", "--exclude", NIGHT)
    assert built.stdout.endswith("next: displace locate t.displace STORE\n")


def test_names_may_start_from_another_folder_than_the_manifest(case, tmp_path):
    pytest.importorskip("h5py", reason="needs the extra 'hloc'")
    export("hloc", DescriptorStore("made.desc"), "feats.h5")
    (tmp_path / "lists").mkdir()
    case.manifest.write("lists/route.csv")
    arguments = ("import", "feats.h5", "--manifest", "lists/route.csv", "-m", "hloc netvlad")
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert "give the folder that its names start from (--images;" in refused.stderr
    assert run(*arguments, "--images", ".").exit_code == 0
    np.testing.assert_array_equal(DescriptorStore("lists/route.desc").vectors(), case.vectors)


def test_each_side_of_the_arrays_of_vpr_methods_evaluation(case):
    export("vme", DescriptorStore("made.desc"), "logs", queries=NIGHT)
    days = [part for name in DAYS for part in ("--traversal", name)]
    assert (
        run("import", "logs", "--manifest", "route.csv", "-m", "salad", "-o", "db.desc", *days).exit_code == 0
    )
    arguments = ("--side", "queries", "--traversal", NIGHT, "--dtype", "float16")
    done = run("import", "logs", "--manifest", "route.csv", "-m", "salad", "-o", "night.desc", *arguments)
    assert done.exit_code == 0, done.output
    night = case.manifest.traversals == NIGHT
    np.testing.assert_array_equal(DescriptorStore("db.desc").vectors(), case.vectors[~night])
    np.testing.assert_allclose(DescriptorStore("night.desc").vectors(), case.vectors[night], atol=1e-3)


def test_arrays_of_ones_own_are_in_the_order_of_the_manifest(case):
    """One array for all images; or one for each traversal, in whatever order the manifest lists these."""
    mixed = case.manifest.select(np.random.default_rng(0).permutation(len(case.manifest)))
    mixed.write("mixed.csv")
    at = [case.manifest.images.index(image) for image in mixed.images]
    vectors = case.vectors[at].astype(np.float64)
    by_name = {name: vectors[mixed.traversals == name] for name in mixed.traversal_names()}
    np.save("own.npy", vectors)
    np.savez("own.npz", descriptors=vectors)
    np.savez("each.npz", **by_name, another=np.zeros(3))
    for file in ("own.npy", "own.npz", "each.npz"):
        done = run("import", file, "--manifest", "mixed.csv", "-m", "mine", "-o", f"{file}.desc")
        assert done.exit_code == 0, done.output
        np.testing.assert_array_equal(DescriptorStore(f"{file}.desc").vectors(), case.vectors[at])


@pytest.mark.parametrize("file", ["all.npy", "night.npy", "each.npz"])
def test_of_some_traversals_an_array_may_have_all_rows_or_theirs_alone(case, file):
    night = case.vectors[case.manifest.traversals == NIGHT]
    np.save("all.npy", case.vectors)
    np.save("night.npy", night)
    np.savez("each.npz", **{NIGHT: night}, sun=np.zeros((3, 2)))
    done = run("import", file, "--manifest", "route.csv", "-m", "mine", "-o", "n.desc", "--traversal", NIGHT)
    assert done.exit_code == 0, done.output
    store = DescriptorStore("n.desc")
    assert set(store.manifest.traversals) == {NIGHT}
    np.testing.assert_array_equal(store.vectors(), night)


def with_number(number):
    vectors = np.ones((200, 4))
    vectors[7, 1] = number
    return vectors


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (np.ones((199, 4)), "own.npy has 199 rows for the 200 images of the manifest: row i must be"),
        (np.ones(200), "the descriptors of the manifest in own.npy must have shape (m, D); got shape (200,)"),
        (np.float64(1.0), "must have shape (m, D); got shape ()"),
        (with_number(np.nan), "in own.npy contain NaN or infinity, first in row 7"),
        (
            with_number(1e300),
            "1 descriptors, with numbers up to 1.0e+300, cannot be stored as float32: scale them",
        ),
        ({"sun": np.ones((40, 4)), "rain": np.ones((40, 4))}, "has no array 'dusk'; it has sun, rain."),
        (dict.fromkeys((*DAYS, NIGHT), np.ones((39, 4))), "has 39 rows for the 40 images of traversal 'sun'"),
        (
            dict.fromkeys((*DAYS, NIGHT), np.full((40, 4), np.nan)),
            "the descriptors of traversal 'sun' in own.npz contain NaN",
        ),
        (
            {name: np.ones((40, 4 + at)) for at, name in enumerate((*DAYS, NIGHT))},
            "has arrays of different dimensions: sun 4, rain 5, dusk 6, snow 7, night 8",
        ),
    ],
)
@pytest.mark.filterwarnings("error")
def test_arrays_that_are_not_of_the_manifest_are_refused(case, arrays, message):
    file = "own.npz" if isinstance(arrays, dict) else "own.npy"
    np.savez(file, **arrays) if isinstance(arrays, dict) else np.save(file, arrays)
    arguments = ("import", file, "--manifest", "route.csv", "-m", "mine", "-o", "own.desc")
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert not [*Path("own.desc").rglob("*.npy")]
    Path(file).write_bytes(Path(file).read_bytes()[:100])
    damaged = run(*arguments)
    assert damaged.exit_code == 2
    assert f"{file} is" in damaged.stderr


@pytest.mark.parametrize("option", [("--images", "."), ("--side", "queries")])
def test_options_of_other_programs_are_not_ignored_without_a_word(case, option):
    np.save("own.npy", case.vectors)
    done = run("import", "own.npy", "--manifest", "route.csv", "-m", "mine", *option)
    assert done.exit_code == 2
    assert "--images and --side are not for own.npy" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.h5",), "no features at none.h5: give an array (.npy, .npz), hloc's .h5 file, or the folder"),
        (("logs",), "has no descriptor for 40 of the manifest's 200 images"),
        (("logs", "--side", "left"), "side='left' must be 'database' or 'queries'"),
        (("logs", "--traversal", "nigth"), "did you mean 'night'?"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(case, arguments, message):
    export("vme", DescriptorStore("made.desc"), "logs", queries=NIGHT)
    done = run("import", *arguments, "--manifest", "route.csv", "-m", "salad")
    assert done.exit_code == 2
    assert message in done.stderr
