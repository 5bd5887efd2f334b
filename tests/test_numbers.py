"""What is fixed before anything runs: numbers, which a page names, and what classes say of themselves."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from displace import DisPlace, get_fusion
from displace.fusion.base import ScoreFusion
from displace.fusion.solver.contest import HOPS, POOLING, Contestant
from displace.fusion.solver.tuning import Settings
from displace.maps import file, statistics
from displace.maps.calibration import BASES, Calibration
from displace.maps.learning import SHARE
from displace.maps.updating import Update
from displace.synthetic import make_route
from displace.truth import Tolerance

OPEN = ("ridge", "center", "solver", "n_rows", "views", "project")
PAGE = (Path(__file__).resolve().parent.parent / "docs" / "numbers.md").read_text("utf-8")


def documented():
    """Package, name and value of each row of the page's tables."""
    package = ""
    for line in PAGE.splitlines():
        if head := re.match(r"\| in `([\w.]+)` \|", line):
            package = head[1]
        elif row := re.match(r"\| `([\w.]+)` \| ([^|]+) \|", line):
            yield package, row[1], row[2]


def found(package, name):
    """What a dotted name below a package is: of a module, or of a class in it."""
    *modules, constant = name.split(".")
    owner = [] if not modules[-1][0].isupper() else [modules.pop()]
    value = importlib.import_module(".".join([package, *modules]))
    for part in (*owner, constant):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize(
    ("package", "name", "value"), [pytest.param(*row, id=row[1]) for row in documented()]
)
def test_the_page_says_what_the_code_has(package, name, value):
    assert found(package, name) == ast.literal_eval(value)


def test_the_page_is_read():
    assert len(list(documented())) > 50


def test_one_query_in_seven_has_no_answer():
    assert pytest.approx(1 / 7) == SHARE


def test_a_confidence_of_an_earlier_file_is_read_as_it_was_meant():
    """Fields that came later: without them nothing is added, bounded or softened."""
    bare = Calibration([1.0], [0.0], [1.0], 0.0, 1, 1, 0.5, 0.0, [], [])
    assert (bare.spread, bare.steepness, bare.ceiling, bare.doubt) == (1.0, 8.0, 1.0, 1.0)
    assert (bare.farthest, bare.basis) == (None, BASES[0])


def test_only_fusions_of_each_place_by_itself_are_fitted_block_by_block():
    """What `place_by_place` says is so: the rows of some places are the same without the others."""
    refs = make_route(n_places=40, n_traversals=3, dim=16, noise=0.3).references
    half = refs.select(refs.places < refs.place_ids[20])
    for name in ("displace", "hops", "pooling", "dmat_avg"):
        whole, part = (get_fusion(name)().fit_references(some) for some in (refs, half))
        rows = [fusion.rows() for fusion in (whole, part)]
        first = rows[0].vectors[: len(rows[1].vectors)]
        same = first.shape == rows[1].vectors.shape and np.allclose(first, rows[1].vectors)
        assert get_fusion(name).place_by_place is same, name


def test_settings_that_advice_compares():
    assert DisPlace.compared == ({}, {"tau": 1.0}, {"ridge": 0.0, "center": False})


def test_what_is_meant_where_nothing_is_said():
    assert Contestant() == Contestant(0.0, False, None, False, True)
    assert Contestant(0.0, False, 1, False, False) == HOPS
    assert Contestant(0.0, False, None, False, False) == POOLING
    assert Settings(1.0, True, "") == Settings(1.0, True, "", {}, None, False, True)
    assert ScoreFusion.missing == 0
    assert Update(1, 2) == Update(1, 2, 0.0, None, "", "", [])
    assert Tolerance("exact") == Tolerance("exact", 0)


def test_files_are_written_in_the_latest_version():
    for kind in (file, statistics):
        assert {1: "0.1"}.items() <= kind.RELEASES.items()
        assert all(version <= kind.VERSION for version in kind.RELEASES)
        assert kind.VERSION in kind.RELEASES


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bsf", {"selection": 0.1, "likelihood": "exponential", "scale": 0.05}),
        ("std_dmat_min", {"axis": "query"}),
        ("single", {"traversal": None}),
        ("subspace", {"n_components": None}),
        ("displace", {"tau": 0.95, "n_components": None, **dict.fromkeys(OPEN, "auto")}),
    ],
)
def test_settings_of_fusions_where_none_are_given(name, settings):
    assert get_fusion(name)().get_params() == settings
