from __future__ import annotations

import numpy as np
import pytest

from displace import DisPlace, ReferenceSet, get_fusion
from displace.fusion.solver import tuning
from displace.fusion.solver.contest import Contestant, Problem
from displace.fusion.solver.scatter import Scatter
from displace.synthetic import make_route


def fit(fusion, references):
    return fusion.fit(references.vectors, references.places, references.traversals)


def problem(references, tau=0.95):
    index = np.unique(references.places, return_inverse=True)[1]
    return Problem(
        references.vectors,
        index,
        references.traversals,
        Scatter.of(references.vectors, index),
        np.arange(index.max() + 1),
        references.vectors.shape[1],
        tau,
        None,
    )


def test_the_rule_vanishes_with_good_sampling_and_is_bounded():
    assert tuning.rule_ridge(0.033) == pytest.approx(0.033**3, rel=2e-3)
    assert tuning.rule_ridge(1.0) == 0.5
    assert tuning.rule_ridge(13.0) == tuning.rule_ridge(float("inf")) == 3.0
    # ε = min(3, γ³/(1 + γ²))
    for ratio, ridge in (
        (1.5, 3.375 / 3.25),
        (2.0, 1.6),
        (3.0, 2.7),
        (3.2, 32.768 / 11.24),
        (3.5, 3.0),
        (9.0, 3.0),
    ):
        assert tuning.rule_ridge(ratio) == pytest.approx(ridge)
    ratios = np.geomspace(1e-3, 1e3, 100)
    assert np.all(np.diff([tuning.rule_ridge(r) for r in ratios]) >= 0)


def test_common_mean_share_is_the_squared_norm_of_the_mean_of_unit_vectors():
    refs = make_route(n_places=30, dim=8).references
    assert tuning.common_mean_share(Scatter.of(refs.vectors, refs.places)) == pytest.approx(
        float(np.sum(refs.vectors.mean(axis=0) ** 2)), rel=1e-5
    )


def test_two_traversals_are_decided_by_rule():
    refs = make_route(n_places=60, n_traversals=2, dim=24).references
    fusion = fit(DisPlace(), refs)
    assert fusion.ridge_ == tuning.rule_ridge(24 / 60)
    assert "ridge by rule from γ = 0.4" in fusion.explain()
    assert "center by rule from a common mean of" in fusion.explain()
    assert "2 traversals" in fusion.explain()


def test_a_large_common_mean_is_centred_by_rule():
    refs = make_route(n_places=60, n_traversals=2, dim=24).references
    shifted = ReferenceSet(refs.vectors + 1.0, refs.places, refs.traversals)
    assert not fit(DisPlace(), refs).center_
    assert fit(DisPlace(), shifted).center_


def test_cross_validation_equals_refits_from_scratch():
    """Folds by removal give what fitting without the traversal and querying with it gives."""
    refs = make_route(n_places=80, n_traversals=3, dim=24, drop=0.1).references
    contest = tuning.Contest(problem(refs), tuning.plan(problem(refs)))
    contest.run([Contestant(ridge, center) for ridge in (0.1, 1.0) for center in (False, True)])
    assert len(contest.hits) == 4
    for one in contest.hits:
        ridge, center, recall = one.ridge, one.center, contest.recall(one)
        folds = []
        for name in refs.traversal_ids:
            rest, queries = refs.without(name), refs.only(name)
            queries = queries.select(np.isin(queries.places, rest.place_ids))
            fusion = fit(DisPlace(ridge=ridge, center=center), rest)
            folds.append(100 * np.mean(fusion.predict(queries.vectors) == queries.places))
        assert recall == pytest.approx(np.mean(folds), abs=0.5)  # one query in 80, of three folds: 0.4


def test_the_best_of_cross_validation_is_taken_and_recorded():
    refs = make_route(n_places=80, n_traversals=4, dim=60).references
    fusion = fit(DisPlace(), refs)
    recalls = fusion.settings_.recalls
    assert recalls[fusion.ridge_, fusion.center_] == max(recalls.values())
    assert "leave-one-traversal-out over 4 traversals (R@1 of the exact place " in fusion.explain()


def test_ridges_far_below_the_rules_are_no_candidates():
    refs = make_route(n_places=40, n_traversals=3, dim=300).references
    fusion = fit(DisPlace(), refs)
    assert fusion.sampling_ratio_ == 300 / 80
    assert {ridge for ridge, _ in fusion.settings_.recalls} == {0.3, 1.0, 3.0, 10.0}  # the rule's is 3


@pytest.mark.parametrize(("dim", "lowest"), [(39, 0.01), (42, 0.1)])  # a tenth of the rule's: 0.0094, 0.0113
def test_candidates_start_at_a_tenth_of_the_rules_ridge(dim, lowest):
    refs = make_route(n_places=40, n_traversals=3, dim=dim).references
    tried = {ridge for ridge, _ in fit(DisPlace(), refs).settings_.recalls}
    rule = tuning.rule_ridge(dim / 80)
    assert tried == {rule, *(e for e in tuning.RIDGES if e >= lowest)}
    assert tuning.RIDGES == (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)


def test_among_equals_the_nearest_to_the_rule_that_is_not_centred_is_taken(monkeypatch):
    refs = make_route(n_places=40, n_traversals=3, dim=44).references
    monkeypatch.setattr(tuning.Contest, "recall", lambda self, one: 50.0)
    settings = tuning.decide(problem(refs), "auto", "auto", safer=False)
    assert (settings.ridge, settings.center) == (tuning.rule_ridge(44 / 80), False)
    monkeypatch.setattr(tuning.Contest, "recall", lambda self, one: 50.0 + (one.ridge in (0.3, 1.0)))
    assert tuning.decide(problem(refs), "auto", True, safer=False).ridge == 0.3  # the rule's is 0.23
    monkeypatch.setattr(tuning, "rule_ridge", lambda _: 0.19)
    monkeypatch.setattr(tuning.Contest, "recall", lambda self, one: 50.0 + (one.ridge in (0.1, 0.3)))
    assert tuning.decide(problem(refs), "auto", True, safer=False).ridge == 0.3  # the nearest by ratio
    monkeypatch.setattr(tuning.Contest, "recall", lambda self, one: 50.0 + one.center)
    assert tuning.decide(problem(refs), "auto", "auto", safer=False).center


@pytest.mark.parametrize(("share", "centred"), [(0.44, False), (0.46, True)])
def test_the_common_mean_that_is_centred_by_rule(share, centred):
    E = np.eye(4)
    within = np.sqrt(1 - share) * np.array([[E[1], -E[1]], [E[2], -E[2]]])
    vectors = (np.sqrt(share) * E[0] + within).reshape(4, 4)  # unit length, of which the mean has √share
    index = np.array([0, 0, 1, 1])
    of = Problem(
        vectors, index, np.array([0, 1, 0, 1]), Scatter.of(vectors, index), np.arange(2), 4, 0.95, None
    )
    assert tuning.common_mean_share(of.scatter) == pytest.approx(share)
    assert tuning.decide(of, 1.0, "auto").center == centred


def test_a_fold_that_leaves_no_variation_is_none():
    """Every place is in "all" and in one of the other two: without "all" there is one reference of each."""
    refs = make_route(n_places=20, n_traversals=3, dim=6).references
    first, second = refs.places < 10, refs.places >= 10
    half = (
        (refs.traversals == "t0") | ((refs.traversals == "t1") & first) | ((refs.traversals == "t2") & second)
    )
    found = tuning.usable_folds(problem(refs.select(half)), 500)
    assert [fold.traversal for fold in found] == ["t1", "t2"]
    assert "only 2 of 3 traversals can be left out" in fit(DisPlace(), refs.select(half)).explain()


def test_a_fold_that_leaves_one_place_is_none():
    refs = make_route(n_places=2, n_traversals=3, dim=6).references
    some = refs.select((refs.places == 0) | (refs.traversals == "t0"))
    assert [fold.traversal for fold in tuning.usable_folds(problem(some), 500)] == ["t1", "t2"]


def test_what_is_given_is_not_decided():
    refs = make_route(n_places=80, n_traversals=3, dim=24).references
    assert fit(DisPlace(ridge=0.7), refs).ridge_ == 0.7
    assert fit(DisPlace(center=True), refs).center_
    assert {center for _, center in fit(DisPlace(center=True), refs).settings_.recalls} == {True}
    assert {ridge for ridge, _ in fit(DisPlace(ridge=0.7), refs).settings_.recalls} == {0.7}


def test_affordability_is_a_rule_on_sizes():
    assert tuning.affordable(400, 1200, 3) == "whole"  # sped400 in the span of its references
    assert tuning.affordable(3876, 512, 5) == "few"  # RobotCar, CosPlace
    assert tuning.affordable(27592, 512, 3) == "few"  # Nordland, CosPlace
    assert tuning.affordable(3876, 4096, 5) == "none"
    assert tuning.affordable(3876, 8448, 5) == "none"


def test_too_large_for_cross_validation_says_so(monkeypatch):
    refs = make_route(n_places=40, n_traversals=3, dim=12).references
    monkeypatch.setattr(tuning, "WHOLE", 1.0)
    assert "ridge by rule from γ = 0.15, compared by" in fit(DisPlace(), refs).explain()
    monkeypatch.setattr(tuning, "MAX_OPERATIONS", 1.0)
    assert "too large to hold traversals out" in fit(DisPlace(), refs).explain()


def test_folds_that_cannot_be_solved_leave_it_to_the_rule():
    refs = make_route(n_places=20, n_traversals=3, dim=30).references  # γ = 0.75, of a fold 1.5
    with pytest.warns(match="γ = 0.75"):
        fusion = fit(DisPlace(ridge=0.0), refs)
    assert "no fold could be solved" in fusion.explain()


def test_many_traversals_are_thinned_to_five_folds():
    refs = make_route(n_places=30, n_traversals=12, dim=10).references
    assert len(tuning.usable_folds(problem(refs), 500)) == 5


def test_traversals_whose_places_are_nowhere_else_are_no_folds():
    refs = make_route(n_places=20, n_traversals=3, dim=10).references
    odd = ReferenceSet(refs.vectors[:20], refs.places[:20] + 100, ["elsewhere"] * 20)
    both = ReferenceSet(
        np.concatenate([refs.vectors, odd.vectors]),
        np.concatenate([refs.places, odd.places]),
        np.concatenate([refs.traversals, odd.traversals]),
    )
    assert len(tuning.usable_folds(problem(both), 500)) == 3


def test_equal_data_give_equal_settings():
    refs = make_route(n_places=80, n_traversals=4, dim=60).references
    a, b = fit(DisPlace(), refs), fit(DisPlace(), refs)
    assert a.explain() == b.explain()
    np.testing.assert_array_equal(a.projection_, b.projection_)


class TestSaferChoice:
    """HOPS and pooling answer the same held-out queries, and the one that is ahead is taken."""

    def test_pooling_is_taken_where_it_is_ahead(self):
        """Every place looks quite different in each of its two modes, and traversals show either."""
        rng = np.random.default_rng(0)
        modes = rng.normal(size=(60, 24)) + 1.5 * rng.normal(size=(2, 60, 24))
        vectors, places, names = [], np.arange(60), []
        for number in range(6):
            vectors.append(modes[number % 2] + 0.6 * rng.normal(size=(60, 24)))
            names += [f"t{number}"] * 60
        refs = ReferenceSet(np.concatenate(vectors), np.tile(places, 6), names)
        fusion = fit(DisPlace(), refs)
        assert fusion.explain().startswith("P = I, up to 6 rows a place: pooling, because it is ahead")
        queries = modes[0] + 0.6 * rng.normal(size=(60, 24))
        pooling = fit(get_fusion("pooling")(), refs)
        np.testing.assert_array_equal(fusion.rank(queries).places, pooling.rank(queries).places)
        assert fusion.nbytes_ == pooling.nbytes_
        again = DisPlace(**fusion.settings())
        np.testing.assert_array_equal(fit(again, refs).place_vectors_, fusion.place_vectors_)

    def test_displace_stays_where_it_is_ahead_and_tells_the_others(self):
        fusion = fit(DisPlace(), make_route(n_places=80, n_traversals=4, dim=60).references)
        assert fusion.settings_.projects
        assert "; HOPS " in fusion.explain()
        assert ", pooling " in fusion.explain()

    def test_what_is_given_is_not_compared(self):
        refs = make_route(n_places=80, n_traversals=4, dim=60).references
        for given in (DisPlace(ridge=0.5), DisPlace(center=True), DisPlace(project=True)):
            assert "HOPS" not in fit(given, refs).explain()


@pytest.mark.parametrize(
    ("by_rule", "lowest"), [(0.0999, 0.01), (0.1, 0.01), (0.105, 0.1), (2.9, 0.3), (3.0, 0.3)]
)
def test_no_candidate_is_below_a_tenth_of_the_rule_s(monkeypatch, by_rule, lowest):
    monkeypatch.setattr(tuning, "rule_ridge", lambda _: by_rule)
    decided = tuning.decide(problem(make_route(n_places=12, n_traversals=3, dim=4).references), "auto", False)
    assert min(ridge for ridge, _ in decided.recalls if ridge != by_rule) == lowest


def test_a_reason_names_the_rule_where_a_rule_decided(monkeypatch):
    small = problem(make_route(n_places=12, n_traversals=3, dim=4).references)
    assert "by rule" not in tuning.decide(small, "auto", "auto").reason
    assert "HOPS" in tuning.decide(small, "auto", "auto").reason  # compared with unless told otherwise
    assert "HOPS" not in tuning.decide(small, "auto", "auto", safer=False).reason
    monkeypatch.setattr(tuning, "affordable", lambda *_: "few")
    assert tuning.decide(small, "auto", "auto").reason.startswith("ridge by rule from γ = ")
    assert "by rule" not in tuning.decide(small, 0.5, "auto").reason


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_the_common_mean_is_a_share_whatever_the_lengths(scale):
    vectors = scale * np.array([[3.0, 1.0], [3.0, -1.0]])  # of 10 scale², 9 are common
    assert tuning.common_mean_share(Scatter.of(vectors, np.arange(2))) == pytest.approx(0.9)


def test_descriptors_of_zeros_have_no_common_mean():
    assert tuning.common_mean_share(Scatter.of(np.zeros((4, 3)), np.array([0, 0, 1, 1]))) == 0
