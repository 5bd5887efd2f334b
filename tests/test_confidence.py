"""The probability that the top match is right."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from displace import DisPlace, ReferenceSet, build
from displace.geo import Positions
from displace.maps.calibration import area_under_curve, calibrate, calibration_error, features, reliability
from displace.synthetic import make_route
from displace.truth import Truth


@pytest.fixture(scope="module")
def route():
    return make_route(n_places=300, n_traversals=4, dim=48, noise=0.7, nuisance=0.7, seed=1)


def test_features_by_hand():
    scores = np.array([[0.9, 0.5, 0.3, 0.1]])
    rest = scores[0, 1:]
    np.testing.assert_allclose(features(scores), [[0.9, 0.4, (0.9 - rest.mean()) / rest.std()]])
    np.testing.assert_allclose(features(np.array([[0.9]])), [[0.9, 0, 0]])


def test_places_outside_of_the_map_get_a_low_probability(route):
    """A third of the places is left out of the map; their queries must stand out, and the numbers must be honest."""
    refs = route.references
    town = build(refs.select((refs.places < 100) | (refs.places >= 200)), DisPlace(ridge=0.1, center=False))
    matches = town.locate(route.queries)
    right = matches.places[:, 0] == route.truth
    inside = (route.truth < 100) | (route.truth >= 200)
    assert matches.confidence[inside].mean() > matches.confidence[~inside].mean() + 0.2
    assert roc_auc_score(right, matches.confidence) > 0.85
    assert calibration_error(matches.confidence, right) < 0.12
    assert abs(matches.confidence.mean() - right.mean()) < 0.1


def test_it_is_better_than_the_raw_score(route):
    refs = route.references
    town = build(refs.select((refs.places < 100) | (refs.places >= 200)), DisPlace(ridge=0.1, center=False))
    matches = town.locate(route.queries)
    right = matches.places[:, 0] == route.truth
    assert roc_auc_score(right, matches.confidence) > roc_auc_score(right, matches.scores[:, 0]) + 0.005


def test_two_traversals_have_no_calibration(route):
    town = build(route.references.only("t0", "t1"))
    assert town.calibration is None
    assert town.locate(route.queries).confidence is None


@pytest.mark.parametrize("right", [True, False], ids=["all right", "all wrong"])
def test_all_right_or_all_wrong_is_no_calibration(right):
    refs = make_route(n_places=4, n_traversals=3, dim=8, noise=0.0, nuisance=0.0, similarity=0.0).references

    class Same(Truth):
        def correct(self, found, truth):
            return np.full(len(found), right)

    fusion = DisPlace(ridge=1.0, center=False)
    assert calibrate(refs, fusion, Same.of(refs.info)) is None


def test_held_out_figures_are_those_of_the_definition():
    probability, right = np.array([0.05, 0.08, 0.95, 0.97]), np.array([False, True, True, True])
    assert reliability(probability, right) == [[pytest.approx(0.065), 0.5, 2], [pytest.approx(0.96), 1.0, 2]]
    assert calibration_error(probability, right) == pytest.approx((0.435 + 0.04) / 2)
    assert area_under_curve(probability, right) == 1.0


def test_within_the_tolerance_is_right(route):
    """With positions a neighbour counts as right, so that the probabilities are higher."""
    refs = route.references
    line = Positions(np.column_stack([np.arange(300) * 5.0, np.zeros(300)]))
    fusion = {"ridge": 0.1, "center": False}
    exact = build(refs, DisPlace(**fusion), positions=line, tolerance=0.0).calibration
    near = build(refs, DisPlace(**fusion), positions=line, tolerance=11.0).calibration
    assert near.n_correct > exact.n_correct


def test_stretches_do_not_depend_on_how_numbers_are_written(route):
    """Names 0, 1, … 299 give the calibration of the numbers, and of names with leading zeros."""
    refs = route.references
    found = [
        build(
            ReferenceSet(refs.vectors, places, refs.traversals), DisPlace(ridge=0.1, center=False)
        ).calibration
        for places in (refs.places, refs.places.astype(str), np.char.zfill(refs.places.astype(str), 3))
    ]
    for other in found[1:]:
        assert other.n_correct == found[0].n_correct
        assert other.auc == pytest.approx(found[0].auc, abs=1e-6)
        assert other.weights == pytest.approx(found[0].weights, rel=1e-4)


def test_string_ids_and_ragged_references():
    route = make_route(n_places=60, n_traversals=3, dim=16, drop=0.3, seed=3)
    ids = np.array([f"p{p:02d}" for p in range(60)])
    refs = ReferenceSet(route.references.vectors, ids[route.references.places], route.references.traversals)
    calibration = build(refs).calibration
    assert 0 < calibration.n_correct < calibration.n_queries
    assert calibration.traversals == ["t0", "t1", "t2"]
