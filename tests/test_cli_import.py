"""Descriptors of other programs, from their files to a located traversal, typed as a user would."""

from __future__ import annotations

import json

import numpy as np
import pytest
from interop_route import DAYS, N_PLACES, NIGHT, make_town
from typer.testing import CliRunner

from displace import cli
from displace.cli import console
from displace.descriptors.store import DescriptorStore
from displace.interop import export


@pytest.fixture
def case(tmp_path, monkeypatch):
    """The route's manifest and store in an empty folder."""
    case = make_town()
    case.manifest.root = tmp_path
    monkeypatch.chdir(tmp_path)
    for name in ("out", "err"):
        monkeypatch.setattr(console, name, console.Console(stderr=name == "err", width=200))
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.h5",), "no features at none.h5: give hloc's .h5 file, or the folder"),
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
