"""Descriptors that are a grid over the picture: how well the parts of two pictures fit, and what maps make of it."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from displace import DisPlace, PlaceMap, ReferenceSet, build
from displace.cell_layout import CellLayout
from displace.maps.samples import Samples
from displace.models import MODELS, cells_of, grid_of
from displace.places import Places
from displace.sequence.viewpoint import moved_by
from displace.synthetic import make_route

HOG = {"model": "hog"}
LAYOUTS = [
    CellLayout(8, 11, 36),
    CellLayout(4, 4, 112, numbers_first=True),
    CellLayout(2, 3, 5),
    CellLayout(1, 4, 3),
    CellLayout(3, 1, 2),
]


def cell(cells, vector, row, column):
    """Numbers of one cell, one by one."""
    if cells.numbers_first:
        at = [(number * cells.rows + row) * cells.columns + column for number in range(cells.numbers)]
    else:
        at = [(row * cells.columns + column) * cells.numbers + number for number in range(cells.numbers)]
    return np.array([vector[i] for i in at])


def cosine(a, b):
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b) / lengths if lengths else 0.0


def expected(cells, one, other):
    """Mean cosine of cells at the same spot, without that of cells that touch it."""
    spots = [(row, column) for row in range(cells.rows) for column in range(cells.columns)]
    same, near = [], []
    for a in spots:
        for b in spots:
            apart = max(abs(a[0] - b[0]), abs(a[1] - b[1]))
            if apart <= 1:
                (near if apart else same).append(cosine(cell(cells, one, *a), cell(cells, other, *b)))
    return np.mean(same) - (np.mean(near) if near else 0.0)


@pytest.mark.parametrize("cells", [*LAYOUTS, CellLayout(1, 1, 4)], ids=str)
def test_registration_is_that_of_the_definition(cells):
    one, other = np.random.default_rng(0).standard_normal((2, 4, cells.dim))
    other[1] += one[1]
    one[2, : cells.dim // 2] = 0
    found = cells.registration(one, other)
    wanted = [expected(cells, a, b) for a, b in zip(one, other, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(cells.registration(other, one), found, rtol=1e-9, atol=1e-12)
    assert cells.registration(one[:0], other[:0]).shape == (0,)


@pytest.mark.parametrize("cells", LAYOUTS, ids=str)
def test_a_picture_fits_itself_where_it_is_and_one_that_shows_nothing_fits_nowhere(cells):
    pictures = np.random.default_rng(1).standard_normal((20, cells.dim))
    fits = cells.registration(pictures, pictures)
    others = cells.registration(pictures, np.roll(pictures, 1, axis=0))
    assert fits.min() > 0.1
    assert fits.mean() > 0.8
    assert abs(others.mean()) < 0.3
    np.testing.assert_allclose(cells.registration(3 * pictures, 0.1 * pictures), fits)
    assert (cells.registration(pictures, np.zeros_like(pictures)) == 0).all()
    # As like where it is moved: the same in all cells.
    alike = np.ones((1, cells.dim))
    np.testing.assert_allclose(cells.registration(alike, alike), 0, atol=1e-12)


def test_a_moved_picture_fits_less_than_it_does_where_it_was():
    cells, pictures = CellLayout(8, 11, 36), np.random.default_rng(2).standard_normal((5, 3168))
    for way in ((0, 1), (1, 0), (-1, 1)):
        moved = moved_by(pictures, (8, 11, 36), way, np.zeros(3168))
        assert (cells.registration(pictures, moved) < 0).all()


def test_models_say_which_numbers_stand_for_which_part():
    assert cells_of(HOG) == CellLayout(*grid_of(HOG))
    assert cells_of({"model": "efficientnet_lite"}) == CellLayout(4, 4, 112, numbers_first=True)
    for unknown in (None, {"model": "hog", "imported": True}, {"model": "of_nobody"}, {"model": "cosplace"}):
        assert cells_of(unknown) is None
    for name in MODELS.names():
        cells = cells_of({"model": name})
        dims = {one.dim for one in MODELS.get(name).variants.values()} or {
            getattr(MODELS.get(name), "dim", 0)
        }
        assert cells is None or dims == {cells.dim} == {prod((cells.rows, cells.columns, cells.numbers))}


def route(n_traversals=3):
    """A route of descriptors as long as those of hog, and queries of a traversal of its own."""
    made = make_route(n_places=30, n_traversals=n_traversals, dim=3168, noise=0.5, seed=3)
    refs = made.references
    info = Places(np.arange(30), frames=np.arange(30))
    return ReferenceSet(
        refs.vectors + 0.01, refs.places, refs.traversals, info=info
    ), made.queries + np.float32(0.01)


def evidence(town, queries):
    state = town.state
    best, scores = state.best(state.project(queries), 20, "exact")
    return state.witness.evidence(queries, best, scores, state.calibration.centred), best[:, 0]


@pytest.mark.parametrize("n_traversals", [1, 3])
@pytest.mark.parametrize("center", [True, False])
def test_a_match_is_judged_by_how_the_parts_of_the_picture_fit(n_traversals, center):
    refs, queries = route(n_traversals)
    fusion = "hops" if n_traversals == 1 else DisPlace(ridge=0.5, center=center)
    town = build(refs, fusion, model=HOG, dtype="float32")
    found, places = evidence(town, queries[:6])
    assert found.shape == (6, 5)
    means = np.array(
        [refs.vectors[refs.places == place].mean(axis=0) for place in town.place_ids], np.float64
    )
    usual = means.mean(axis=0)
    span = np.eye(3168) if town.projection is None else np.linalg.qr(np.float64(town.projection))[0]
    for query, place, numbers in zip(queries, places, found, strict=False):
        shown = span @ (span.T @ (means[place] - usual))
        assert numbers[4] == pytest.approx(expected(CellLayout(8, 11, 36), query - usual, shown), abs=1e-4)
    plain = build(refs, fusion, dtype="float32")
    np.testing.assert_array_equal(evidence(plain, queries[:6])[0], found[:, :4])
    assert (len(town.calibration.weights), len(plain.calibration.weights)) == (5, 4)


def test_a_map_keeps_what_it_learned_of_the_parts_in_its_file(tmp_path):
    refs, queries = route()
    town = build(refs, DisPlace(ridge=0.5, center=True), model=HOG)
    assert town.state.samples.evidence.shape[1] == 5
    town.save(tmp_path / "town.displace")
    again = PlaceMap.load(tmp_path / "town.displace")
    np.testing.assert_array_equal(
        again.state.samples.evidence.astype(np.float32), town.state.samples.evidence.astype(np.float32)
    )
    np.testing.assert_array_equal(again.locate(queries).confidence, town.locate(queries).confidence)


def test_maps_that_learned_without_the_parts_are_as_they_were():
    """Their confidence reads four numbers, also where five are known; an update learns from what all have."""
    refs, queries = route()
    fusion = DisPlace(ridge=0.5, center=True)
    old = build(refs, fusion)
    of_hog = old.changed(model=HOG)
    np.testing.assert_array_equal(of_hog.locate(queries).confidence, old.locate(queries).confidence)
    new = ReferenceSet(queries, np.arange(30), np.full(30, "new"), info=refs.info)
    of_hog.add(new)
    assert of_hog.state.samples.evidence.shape[1] == 4
    assert len(of_hog.calibration.weights) == 4
    known = build(refs, fusion, model=HOG)
    known.add(new)
    assert known.state.samples.evidence.shape[1] == 5


def test_without_the_model_that_says_where_the_parts_are_there_is_no_confidence():
    refs, queries = route()
    town = build(refs, DisPlace(ridge=0.5, center=True), model=HOG)
    state = replace(town.state, model={"model": "of_nobody"})
    best, scores = state.best(state.project(queries), 20, "exact")
    assert state.confidence(queries, best, scores) is None


def test_joined_queries_have_the_numbers_that_are_known_of_all():
    def samples(width):
        return Samples(np.full((2, width), float(width)), np.ones(2, np.int8), np.zeros(2, np.int32), ["a"])

    for one, other in ((4, 5), (5, 4)):
        assert samples(one).joined(samples(other)).evidence.tolist() == [[one] * 4] * 2 + [[other] * 4] * 2
    assert samples(5).joined(samples(5)).evidence.shape == (4, 5)
