"""Suite files: what they say, and what is wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from routes import make_store, make_suite

from displace.errors import InputError, UnknownNameError
from displace.evaluation.benchmark import run_suite
from displace.evaluation.methods import Method, methods_named
from displace.evaluation.results import Results
from displace.evaluation.suites import Suite, find_protocol, shipped_suites
from displace.fusion import FUSIONS
from displace.truth import Tolerance

GOOD = """
title = "mine"
dataset = "robotcar"
queries = ["night"]

[stores]
cosplace = "here/cosplace.desc"

[[methods]]
fusion = "displace"
label = "DisPlace (paper)"
parameters = { ridge = 0.0, center = false }

[[methods]]
fusion = "single"
each_reference = true

[random_projection]
dims = [64, 128]
seeds = [0, 1]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read_whole(tmp_path):
    suite = Suite.read(write(tmp_path, GOOD))
    assert (suite.name, suite.title, suite.dataset, suite.protocol.name) == (
        "mine",
        "mine",
        "robotcar",
        "robotcar-5",
    )
    assert suite.methods[0].make().get_params()["ridge"] == 0.0
    assert suite.methods[0].make().get_params()["center"] is False
    assert suite.stores == {"cosplace": tmp_path / "here" / "cosplace.desc"}
    assert (suite.dims, suite.seeds, suite.queries) == ((64, 128), (0, 1), ("night",))
    assert Suite.read(tmp_path / "mine.toml", root="elsewhere").stores["cosplace"] == Path(
        "elsewhere/here/cosplace.desc"
    )


def test_a_protocol_of_its_own(tmp_path):
    text = (
        'dataset = "walk"\nprotocol = { name = "walk-2", tolerance = "2 frames", references = ["a", "b"] }\n'
    )
    suite = Suite.read(write(tmp_path, text + '[[methods]]\nfusion = "hops"\n'))
    assert suite.protocol.tolerance == Tolerance("frames", 2)
    assert suite.protocol.references == ("a", "b")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("queries =", "querys =", "unknown key 'querys'; did you mean 'queries'?"),
        ('"robotcar"', '"robotcat"', "unknown data set 'robotcat'; did you mean 'robotcar'?"),
        ('"displace"', '"displaze"', "unknown fusion 'displaze'; did you mean 'displace'?"),
        ("ridge =", "rigde =", "unknown parameter of the fusion 'displace' 'rigde'; did you mean 'ridge'?"),
        ("each_reference", "each_ref", "unknown key 'each_ref'; did you mean 'each_reference'?"),
        (
            '"single"',
            '"hops"',
            "each_reference is for fusions with the parameter 'traversal', as single; 'hops'",
        ),
        (
            "each_reference = true",
            "parameters = { tau = 1.0 }",
            "unknown parameter of the fusion 'single' 'tau'",
        ),
        ('"robotcar"', '"walk"', "data of your own need a protocol of their own: protocol = { name ="),
        ("dims", "dim", "unknown key 'dim'; did you mean 'dims'?"),
        ("[64, 128]", "64", "dims=64 must be of type list"),
        ('dataset = "robotcar"', "", "the key 'dataset' is missing"),
        ("[64, 128]", "[0]", "dims has 0, and must be whole numbers of at least 1"),
        ("[64, 128]", "[64.5]", "dims has 64.5, and must be whole numbers of at least 1"),
        ("[64, 128]", "[true]", "dims has True, and must be whole numbers"),
        ("[64, 128]", "[64, 64]", "dims has 64 twice; write it once"),
        ("seeds = [0, 1]", "seeds = [-1]", "seeds has -1, and must be whole numbers from 0 to 4294967295"),
        ("seeds = [0, 1]", "seeds = [0, 0]", "seeds has 0 twice"),
        (
            "seeds = [0, 1]",
            "queries = [3]",
            "[random_projection] queries has 3, and must be names of traversals",
        ),
        ('["night"]', '["night", "night"]', "queries has 'night' twice; write it once"),
        ('["night"]', "[3]", "queries has 3, and must be names of traversals"),
        ("title =", "k = 0\ntitle =", "k=0 must be a whole number of at least 1"),
        ("each_reference", "length = 0\neach_reference", "length=0 must be a whole number of at least 1"),
        ("seeds = [0, 1]", "seeds = []", "seeds is empty"),
        ('label = "DisPlace (paper)"', '[[methods]]\nfusion = "displace"', "two methods are called DisPlace"),
        ("title =", "title", "is not TOML"),
        ('queries = ["night"]', 'protocol = "robotcar-3"', "did you mean 'robotcar-"),
        ('queries = ["night"]', 'protocol = { tolerance = "5 feet" }', "tolerance='5 feet' must be 'exact'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(InputError, match=re.escape(message)):
        Suite.read(write(tmp_path, GOOD.replace(old, new, 1)))


def test_a_suite_without_methods_is_refused(tmp_path):
    with pytest.raises(InputError, match="no methods"):
        Suite.read(write(tmp_path, 'dataset = "town"\n'))


def test_an_unknown_suite_suggests():
    with pytest.raises(UnknownNameError, match="did you mean 'robotcar'"):
        Suite.read("robotcra")


TABLE_III = {"pooling": "Pooling", "hops": "HOPS", "displace": "DisPlace"}
SCORES = {"dmat_avg", "dmat_min", "std_dmat_min", "dmat_med", "bsf"}


@pytest.mark.parametrize("name", [name for name in shipped_suites() if name != "town_drives"])
def test_shipped_suites_run_displace_twice(name):
    suite = Suite.read(name)
    twice = {m.label: m.parameters for m in suite.methods if m.fusion == "displace"}
    expected = {"DisPlace (paper)": {"ridge": 0.0, "center": False}, "DisPlace": {}}
    if name in ("pittsburgh30k", "gldv2_micro"):  # places with many views
        expected["DisPlace, one row"] = {"views": False, "project": True}
        expected["DisPlace, views"] = {"views": True}
        expected["DisPlace, views, at most 6 rows"] = {"views": True, "n_rows": 6}
    assert twice == expected
    fusions = {m.fusion for m in suite.methods}
    assert fusions - {"single"} == set(TABLE_III) | (set() if name == "gldv2_micro" else SCORES)


@pytest.mark.parametrize("name", shipped_suites())
def test_every_shipped_suite_also_asks_for_fewer_dimensions(name):
    suite = Suite.read(name)
    assert suite.dims
    assert len(suite.seeds) >= 3  # a mean and its deviation
    assert set(suite.projected) <= set(suite.queries) or not suite.queries


def test_the_papers_study_of_fewer_dimensions_is_of_one_query():
    suite = Suite.read("robotcar")
    assert suite.projected == ("dusk",)
    assert suite.dims == (32, 64, 128, 256, 512, 1024, 2048, 4096)


@pytest.mark.parametrize(
    ("name", "n_queries", "single"),
    [("nordland", 4, True), ("robotcar", 5, True), ("pittsburgh30k", 1, False), ("gldv2_micro", 1, False)],
)
def test_the_papers_suites_have_its_models_queries_and_rows(name, n_queries, single):
    suite = Suite.read(f"{name}.toml")
    assert list(suite.stores) == ["cosplace", "eigenplaces", "mixvpr", "netvlad", "salad", "megaloc"]
    assert len(suite.queries) == n_queries
    assert any(m.each_reference for m in suite.methods) is single
    assert "sun" not in suite.queries


def test_all_methods_are_in_the_order_of_tables():
    methods = methods_named()
    assert {m.fusion for m in methods} == set(FUSIONS.names())
    assert methods[0].fusion == "single"
    assert methods[-1].fusion == "displace"
    groups = [m.group for m in methods]
    assert groups == sorted(groups, key=["single", "score", "descriptor"].index)
    assert [m.fusion for m in methods_named(["hops", "bsf"])] == ["bsf", "hops"]


def test_labels_are_titles_unless_given():
    assert Method("dmat_avg").label == "dMat. Avg."
    assert Method("dmat_avg", label="mean").label == "mean"


def test_numbers_of_numpy_may_be_parameters(tmp_path):
    """They ended a run in a traceback: a cell is known by its parameters as JSON."""
    store = make_store(tmp_path / "made.desc")
    methods = (
        Method("bsf", {"selection": np.float32(0.5)}),
        Method("hops", sequence="seqslam", length=np.int64(3)),
    )
    suite = make_suite(
        {"made": store.folder}, methods=methods, k=np.int64(7), seeds=np.arange(2), dims=(np.int64(8),)
    )
    outcome = run_suite(suite, tmp_path / "results")
    assert all(cell.ok for cell in outcome.cells)
    assert Results(tmp_path / "results").select(
        fusion="bsf", projection=8, seed=1, parameters={"selection": 0.5}
    )
    assert sorted(outcome.cells[0].recalls) == [1, 5, 7]


@pytest.mark.parametrize("text", ["five", "frames", "-2 frames", "1.2.3m", "m", "near"])
def test_bad_tolerances(text):
    with pytest.raises(InputError, match="must be 'exact'"):
        Tolerance.parse(text)


def test_fractions_of_frames_are_refused():
    with pytest.raises(
        InputError, match=r"tolerance of 1\.5 frames must be a whole number, such as 2 frames"
    ):
        Tolerance.parse("1.5 frames")
    assert Tolerance.parse("2.0 frames") == Tolerance("frames", 2)
    assert str(Tolerance.parse("2.5m")) == "within 2.5 m"


def test_protocols_are_found_by_name():
    dataset, protocol = find_protocol("robotcar-2")
    assert (dataset, protocol.tolerance) == ("robotcar", Tolerance("frames", 2))
    with pytest.raises(UnknownNameError, match="did you mean 'robotcar-"):
        find_protocol("robotcar-22")
