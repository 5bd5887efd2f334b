"""How a confidence is fitted, part by part, against its definition written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from displace import get_fusion
from displace.holdout import Fold
from displace.maps import calibration, learning
from displace.maps.calibration import BASES
from displace.maps.learning import ENOUGH, FEW, QUANTILE, SHARE, SLOPE, STEEPNESS, WEIGHTS
from displace.maps.samples import Samples
from displace.places import Places
from displace.sequence.following import ranking_features
from displace.synthetic import make_route
from displace.truth import Truth


def samples(n=240, seed=0, folds=3, unanswered=0.2):
    """Evidence that tells right matches from wrong ones, not without errors; some queries have no answer."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < unanswered, -1, rng.integers(0, 2, n)).astype(np.int8)
    evidence = rng.normal(0, 1, (n, 4)) + np.outer(labels == 1, [1.5, 1.0, 0.3, -1.0])
    evidence[:, 2] = abs(evidence[:, 2])
    fold = (np.arange(n) % folds).astype(np.int8)
    return Samples(evidence, labels, fold, [f"t{i}" for i in range(folds)])


def loss(slope, bias, steepness, strength, lead, right, importance):
    """What `logistic` makes least: the surprise at what was seen, and a pull to the usual numbers."""
    p = 1 / (1 + np.exp(-(slope * strength + bias))) / (1 + np.exp(-steepness * lead))
    surprise = sum(w * -np.log(q if hit else 1 - q) for w, q, hit in zip(importance, p, right, strict=True))
    pulls = SLOPE[1] * (slope - SLOPE[0]) ** 2 / 2 + STEEPNESS[1] * (steepness - STEEPNESS[0]) ** 2 / 2
    return surprise + pulls


@pytest.mark.parametrize("seed", range(3))
def test_the_fit_is_the_likeliest(seed):
    known, rng = samples(seed=seed), np.random.default_rng(seed)
    strength, lead = known.evidence[:, 0], known.evidence[:, 2] / 8
    importance = rng.uniform(0.5, 2, len(known))
    found = learning.logistic(strength, lead, known.right, importance)
    least = loss(*found, strength, lead, known.right, importance)
    for at in range(3):
        for step in (-0.02, 0.02):
            other = list(found)
            other[at] += step
            assert loss(*other, strength, lead, known.right, importance) > least


def test_neither_slope_nor_steepness_is_negative():
    known = samples(400)
    slope, _, steepness = learning.logistic(
        -20 * known.evidence[:, 0], known.evidence[:, 2], ~known.right, np.ones(len(known))
    )
    assert slope >= 0
    assert steepness >= 0


def test_queries_without_an_answer_make_up_their_share():
    known = samples()
    counted, without = learning._importance(known), known.labels < 0
    assert (counted[~without] == 1).all()
    assert counted[without].sum() / counted.sum() == pytest.approx(SHARE)
    assert (learning._importance(known.take(~without)) == 1).all()
    one = known.take(np.r_[np.flatnonzero(without)[0], np.flatnonzero(~without)])
    assert learning._importance(one)[0] / learning._importance(one).sum() == pytest.approx(SHARE)


def test_units_are_those_of_queries_without_an_answer_where_there_are_enough():
    known = samples()
    without = known.evidence[known.labels < 0]
    for found, expected in zip(learning._units(known), (without.mean(0), without.std(0)), strict=True):
        np.testing.assert_allclose(found, expected)
    few = known.take(np.r_[np.flatnonzero(known.labels < 0)[:FEW], np.flatnonzero(known.labels == 0)])
    np.testing.assert_allclose(learning._units(few)[0], few.evidence.mean(0))
    right = known.take(known.labels == 1)
    np.testing.assert_allclose(learning._units(right)[0], right.evidence.mean(0))
    one_more = known.take(np.r_[np.flatnonzero(known.labels < 0)[: FEW + 1], np.flatnonzero(known.right)])
    np.testing.assert_allclose(learning._units(one_more)[0], one_more.evidence[: FEW + 1].mean(0))


def test_units_are_those_of_wrong_matches_where_few_queries_have_no_answer():
    known = samples()
    none, rest = np.flatnonzero(known.labels < 0), np.flatnonzero(known.labels >= 0)
    few = known.take(np.r_[none[:FEW], rest])
    wrong = few.evidence[~few.right]
    offsets, scales = learning._units(few)
    np.testing.assert_allclose(offsets, wrong.mean(axis=0))
    np.testing.assert_allclose(scales, wrong.std(axis=0))
    right = few.take(few.right)
    np.testing.assert_allclose(learning._units(right)[0], right.evidence.mean(axis=0))
    some = few.take(np.r_[np.flatnonzero(few.right)[:2], np.flatnonzero(~few.right)[:2]])
    np.testing.assert_allclose(learning._units(some)[0], some.evidence.mean(axis=0))
    equal = right.take(np.zeros(9, int))
    np.testing.assert_array_equal(learning._units(equal)[1], 1e-6)


def test_how_far_right_matches_are_is_the_mean_over_the_folds():
    parts = [np.arange(10.0), np.arange(50.0), np.array([1000.0, 2000.0])]
    farthest, spread = learning._novelty_range(parts)
    assert farthest == pytest.approx(np.mean([np.quantile(part, QUANTILE) for part in parts[:2]]))
    assert spread == pytest.approx(farthest - np.median(np.concatenate(parts)))
    short = [np.array([1.0, 3.0]), np.array([5.0])]
    assert learning._novelty_range(short)[0] == pytest.approx(np.quantile([1, 3, 5], QUANTILE))
    assert learning._novelty_range([np.array([1.0, 2.0, 3.0]), np.array([9.0])])[0] == pytest.approx(
        np.quantile([1, 2, 3], QUANTILE)
    )
    assert learning._novelty_range([np.full(5, 2.0)]) == (2.0, 1e-6)


def test_a_fit_is_of_right_matches_by_fold_and_bounded_by_what_was_seen():
    known = samples()
    found = learning._fit(known, BASES[0])
    distances = [known.evidence[known.right & (known.folds == fold), 3] for fold in range(3)]
    assert (found.farthest, found.spread) == pytest.approx(learning._novelty_range(distances))
    np.testing.assert_allclose(found.lowest, known.evidence.min(axis=0))
    np.testing.assert_allclose(found.highest, known.evidence.max(axis=0))
    assert found.ceiling == 1.0
    assert (found.n_queries, found.n_correct) == (len(known), known.right.sum())
    offsets, scales = learning._units(known)
    strength = (known.evidence - offsets) / scales @ WEIGHTS[4]
    slope, bias, steepness = learning.logistic(
        strength, known.evidence[:, 2], known.right, learning._importance(known)
    )
    np.testing.assert_allclose(found.weights, slope * np.array(WEIGHTS[4]))
    assert (found.bias, found.steepness) == pytest.approx((bias, steepness))


def test_too_few_right_matches_are_weighed_as_fixed():
    known = samples()
    wrong, right = np.flatnonzero(~known.right), np.flatnonzero(known.right)
    few = learning._fit(known.take(np.r_[wrong, right[: ENOUGH - 1]]), BASES[2])
    assert (tuple(few.weights), few.bias) == learning.FIXED[4]
    assert few.ceiling == learning.CEILING
    assert few.steepness == STEEPNESS[0]
    assert (few.auc, few.error, few.doubt) == (0.5, 0.0, learning.DOUBT[BASES[2]])
    np.testing.assert_allclose(
        np.subtract(few.highest, few.lowest), 2 * 8 * np.array(few.scales), err_msg="eight deviations"
    )
    enough = learning._fit(known.take(np.r_[wrong, right[:ENOUGH]]), BASES[0])
    assert tuple(enough.weights) != learning.FIXED[4][0]
    assert (enough.ceiling, enough.doubt) == (1.0, learning.DOUBT[BASES[0]])


def test_one_traversal_is_weighed_in_units_that_all_maps_share():
    """Those of standing and lead; similarity and distance have the map's own, and nothing is extrapolated."""
    known = samples()
    wrong = replace(known.take(~known.right), centred=True)
    found, plain = learning._fit(wrong, BASES[2]), learning._fit(replace(wrong, centred=False), BASES[2])
    assert found.centred
    assert not plain.centred
    assert (tuple(found.weights), found.bias) == learning.CENTRED[4]
    own, scales = learning._units(wrong)
    for feature in range(4):
        usual = learning.USUAL.get(feature, (own[feature], scales[feature]))
        assert (found.offsets[feature], found.scales[feature]) == pytest.approx(usual)
    assert found.spread == pytest.approx(learning.WIDER * plain.spread)
    assert found.farthest == plain.farthest
    np.testing.assert_allclose(np.subtract(found.highest, found.lowest), 16 * np.array(found.scales))
    middle = np.array(found.offsets)
    for feature, sign in enumerate((1, 1, 1, -1)):
        steps = np.tile(middle, (60, 1))
        steps[:, feature] += sign * np.linspace(-12, 12, 60) * found.scales[feature]
        probability = found.probability(steps)
        assert (np.diff(probability) >= 0).all()
        assert probability.max() <= learning.CEILING
        if feature < 3:
            assert np.ptp(probability[-8:]) < 1e-12


def test_a_refusal_counts_the_less_the_fewer_conditions_a_map_has():
    known = samples()
    found = [learning._fit(known, basis).doubt for basis in BASES]
    assert found == sorted(found, reverse=True)
    assert 0 < found[-1] < found[0] < 1
    few = known.take(np.r_[np.flatnonzero(~known.right), np.flatnonzero(known.right)[: ENOUGH - 1]])
    assert {learning._fit(few, basis).doubt for basis in BASES} == {found[-1]}


@pytest.mark.parametrize(("n", "basis"), [(1, 2), (2, 1), (3, 0), (4, 0), (9, 0)])
def test_what_a_confidence_is_learned_from(n, basis):
    assert learning.basis_of(n) == BASES[basis]


def test_how_well_it_works_is_told_from_enough_right_matches():
    known = samples()
    wrong, right = np.flatnonzero(~known.right), np.flatnonzero(known.right & (known.folds < 2))
    right = np.r_[right[known.folds[right] == 0][:ENOUGH], right[known.folds[right] == 1][:ENOUGH]]
    for n, told in ((ENOUGH - 1, False), (2 * ENOUGH - 1, False), (2 * ENOUGH, True)):
        found = learning.calibration_of(known.take(np.r_[wrong, right[:n]]), BASES[0])
        assert bool(found.curve) is told


def test_how_well_it_works_is_told_by_matches_that_it_was_not_fitted_on():
    known = samples(60)
    found, fitted = learning.calibration_of(known, BASES[0]), learning._fit(known, BASES[0])
    held_out, counted = learning._cross_validated(known, BASES[0]), learning._importance(known)
    assert found.auc == calibration.area_under_curve(held_out, known.right)
    assert found.error == calibration.calibration_error(held_out, known.right, counted)
    assert found.curve == calibration.reliability(held_out, known.right, counted)
    assert found.auc != calibration.area_under_curve(fitted.probability(known.evidence), known.right)


@pytest.mark.parametrize(("basis", "learned"), [(0, False), (1, False), (2, True)])
def test_nothing_is_learned_where_all_are_right_or_all_wrong_but_of_one_traversal(basis, learned):
    known = samples()
    for some in (known.take(known.right), known.take(~known.right)):
        assert (learning.calibration_of(some, BASES[basis]) is not None) is learned


def test_no_query_is_judged_by_its_own_traversal():
    known = samples()
    found = learning._cross_validated(known, BASES[0])
    for fold in range(3):
        own = known.folds == fold
        others = learning._fit(known.take(~own), BASES[0])
        np.testing.assert_allclose(found[own], others.probability(known.evidence[own]))
    changed = Samples(known.evidence, known.labels.copy(), known.folds, known.names)
    changed.labels[known.folds == 1] = 0
    own = known.folds == 1
    np.testing.assert_array_equal(learning._cross_validated(changed, BASES[0])[own], found[own])


def test_nothing_is_judged_where_the_others_teach_nothing():
    """The queries had one probability then, and the area under the curve was that between traversals."""
    known = samples(folds=2)
    right, first = known.right, known.folds == 0
    n = np.cumsum(right & ~first)
    enough = known.take(first | ~right | (n <= ENOUGH))
    taught = learning._fit(enough.take(enough.folds == 1), BASES[1])
    np.testing.assert_allclose(
        learning._cross_validated(enough, BASES[1])[enough.folds == 0],
        taught.probability(enough.evidence[enough.folds == 0]),
    )
    assert learning.calibration_of(enough, BASES[1]).curve
    for some in (first | ~right | (n < ENOUGH), first | right, first):
        assert learning._cross_validated(known.take(some), BASES[1]) is None
        found = learning.calibration_of(known.take(some), BASES[1])
        assert (found.curve, found.auc) == ([], 0.5)
        assert found.n_correct == right[some].sum()  # learned from all, nevertheless


class TestProbabilities:
    """What `displace.maps.calibration` computes, written out number by number."""

    p = np.array([0.02, 0.3, 0.49, 0.5, 0.51, 0.97])

    @pytest.mark.parametrize("doubt", [0.3, 0.5, 1.0])
    def test_below_a_half_the_logarithm_of_the_odds_counts_in_part(self, doubt):
        found = calibration.tempered(self.p, doubt)
        for before, after in zip(self.p, found, strict=True):
            factor = doubt if before < 0.5 else 1
            assert np.log(after / (1 - after)) == pytest.approx(
                factor * np.log(before / (1 - before)), abs=1e-12
            )

    def test_what_is_farther_than_right_matches_loses_more_and_more(self):
        distances = np.array([0.0, 2.0, 3.0, 4.0])
        np.testing.assert_allclose(calibration.novelty(distances, 2.0, 0.5), [0, 0, 2 + 2, 4 + 8])

    def test_bins_are_tenths(self):
        p = np.array([0.0, 0.05, 0.1, 0.95, 1.0])
        right = np.array([False, True, True, True, False])
        weight = np.array([1.0, 3.0, 1.0, 2.0, 2.0])
        assert calibration.reliability(p, right) == [
            [pytest.approx(0.025), 0.5, 2],
            [pytest.approx(0.1), 1.0, 1],
            [pytest.approx(0.975), 0.5, 2],
        ]
        assert calibration.reliability(p, right, weight)[0] == [pytest.approx(0.15 / 4), 0.75, 2]
        error = (abs(0.05 - 1) + abs(0.1 - 1) + abs(1.95 - 1)) / 5
        assert calibration.calibration_error(p, right) == pytest.approx(error)
        error = (abs(0.15 - 3) + abs(0.1 - 1) + abs(2 * 1.95 - 2)) / 9
        assert calibration.calibration_error(p, right, weight) == pytest.approx(error)

    @pytest.mark.parametrize("seed", range(3))
    def test_the_area_is_the_share_of_pairs_in_order(self, seed):
        rng = np.random.default_rng(seed)
        p, right = rng.integers(0, 6, 40) / 6, rng.random(40) < 0.6
        pairs = [(a > b) + (a == b) / 2 for a in p[right] for b in p[~right]]
        assert calibration.area_under_curve(p, right) == pytest.approx(np.mean(pairs))

    def test_scores_of_the_first_release(self):
        scores = np.array([[0.9, 0.5, 0.3, 0.1], [0.4, 0.4, 0.4, 0.4]])
        found = ranking_features(scores)
        rest = np.array([0.5, 0.3, 0.1])
        np.testing.assert_allclose(found[0], [0.9, 0.4, (0.9 - 0.3) / rest.std()])
        np.testing.assert_allclose(found[1], [0.4, 0, 0], atol=1e-6)
        np.testing.assert_array_equal(ranking_features(scores[:, :1]), [[0.9, 0, 0], [0.4, 0, 0]])
        many = np.linspace(1, 0, 30)[None]
        np.testing.assert_array_equal(ranking_features(many), ranking_features(many[:, :20]))

    def test_a_probability_is_that_of_the_formula(self):
        lowest, highest = [0.0, -1.0, 0.0, 0.5], [1.0, 5.0, 3.0, 2.0]
        weights, offsets, scales = [1.0, 0.5, 0.0, -0.6], [0.3, 1.0, 0.0, 1.0], [0.1, 2.0, 1.0, 0.5]
        own = calibration.Calibration(
            weights, offsets, scales, 0.7, 1, 1, 0.5, 0.0, [], [], lowest, highest, 1.5, 0.25, 2.0, 0.9, 0.5
        )
        evidence = np.array([[0.4, 2, 1, 0.8], [0.2, 9, 7, 1.7], [-1, -3, 0, 1.9], [1, 5, 3, 0.1]])

        def by_hand(x):
            inside = [min(max(v, a), b) for v, a, b in zip(x, lowest, highest, strict=True)]
            odds = 0.7 + sum(
                w * (v - o) / s for w, v, o, s in zip(weights, inside, offsets, scales, strict=True)
            )
            t = max((x[3] - 1.5) / 0.25, 0)
            p = 1 / (1 + np.exp(-(odds - t - t * t / 2))) / (1 + np.exp(-2.0 * inside[2]))
            if p < 0.5:
                p = np.sqrt(p) / (np.sqrt(p) + np.sqrt(1 - p))
            return min(p, 0.9)

        np.testing.assert_allclose(own.probability(evidence), [by_hand(x) for x in evidence])
        assert own.probability(evidence).max() == 0.9
        assert not own.reads_rankings


def test_what_a_fold_must_have():
    """A query, and three places to find it among."""
    route = make_route(n_places=6, n_traversals=2, dim=4, noise=0.3).references
    truth, fusion = Truth.of(Places(route.place_ids)), get_fusion("hops")()

    def asked(n_places, n_queries):
        known = (route.traversals == "t0") & (route.places < route.place_ids[n_places])
        queries = np.flatnonzero(route.traversals == "t1")[:n_queries]
        return learning._fold_samples(route, Fold("t1", known, queries), fusion, truth, None, False)

    assert asked(2, 3) is None
    assert asked(5, 0) is None
    for n_places, n_queries in ((3, 3), (5, 1)):
        found = asked(n_places, n_queries)
        assert (found.evidence.shape, found.labels.shape) == ((n_queries, 4), (n_queries,))
