"""How a confidence is fitted, part by part, against its definition written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from displace.maps import learning
from displace.maps.calibration import BASES
from displace.maps.learning import ENOUGH, FEW, QUANTILE, SHARE, SLOPE, STEEPNESS, WEIGHTS
from displace.maps.samples import Samples


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


def test_units_are_those_of_queries_without_an_answer_where_there_are_enough():
    known = samples()
    without = known.evidence[known.labels < 0]
    for found, expected in zip(learning._measures(known), (without.mean(0), without.std(0)), strict=True):
        np.testing.assert_allclose(found, expected)
    few = known.take(np.r_[np.flatnonzero(known.labels < 0)[:FEW], np.flatnonzero(known.labels == 0)])
    np.testing.assert_allclose(learning._measures(few)[0], few.evidence.mean(0))
    right = known.take(known.labels == 1)
    np.testing.assert_allclose(learning._measures(right)[0], right.evidence.mean(0))
    one_more = known.take(np.r_[np.flatnonzero(known.labels < 0)[: FEW + 1], np.flatnonzero(known.right)])
    np.testing.assert_allclose(learning._measures(one_more)[0], one_more.evidence[: FEW + 1].mean(0))


def test_how_far_right_matches_are_is_the_mean_over_the_folds():
    parts = [np.arange(10.0), np.arange(50.0), np.array([1000.0, 2000.0])]
    farthest, spread = learning._reach(parts)
    assert farthest == pytest.approx(np.mean([np.quantile(part, QUANTILE) for part in parts[:2]]))
    assert spread == pytest.approx(farthest - np.median(np.concatenate(parts)))
    short = [np.array([1.0, 3.0]), np.array([5.0])]
    assert learning._reach(short)[0] == pytest.approx(np.quantile([1, 3, 5], QUANTILE))
    assert learning._reach([np.array([1.0, 2.0, 3.0]), np.array([9.0])])[0] == pytest.approx(
        np.quantile([1, 2, 3], QUANTILE)
    )


def test_a_fit_is_of_right_matches_by_fold_and_bounded_by_what_was_seen():
    known = samples()
    found = learning._fit(known, BASES[0])
    distances = [known.evidence[known.right & (known.folds == fold), 3] for fold in range(3)]
    assert (found.farthest, found.spread) == pytest.approx(learning._reach(distances))
    np.testing.assert_allclose(found.lowest, known.evidence.min(axis=0))
    np.testing.assert_allclose(found.highest, known.evidence.max(axis=0))
    assert found.ceiling == 1.0
    assert (found.n_queries, found.n_correct) == (len(known), known.right.sum())
    offsets, scales = learning._measures(known)
    strength = (known.evidence - offsets) / scales @ WEIGHTS
    slope, bias, steepness = learning.logistic(
        strength, known.evidence[:, 2], known.right, learning._importance(known)
    )
    np.testing.assert_allclose(found.weights, slope * np.array(WEIGHTS))
    assert (found.bias, found.steepness) == pytest.approx((bias, steepness))


def test_too_few_right_matches_are_weighed_as_fixed():
    known = samples()
    wrong, right = np.flatnonzero(~known.right), np.flatnonzero(known.right)
    few = learning._fit(known.take(np.r_[wrong, right[: ENOUGH - 1]]), BASES[2])
    assert (tuple(few.weights), few.bias) == learning.FIXED
    assert few.ceiling == learning.CEILING
    assert few.steepness == STEEPNESS[0]
    np.testing.assert_allclose(
        np.subtract(few.highest, few.lowest), 2 * 8 * np.array(few.scales), err_msg="eight deviations"
    )
    enough = learning._fit(known.take(np.r_[wrong, right[:ENOUGH]]), BASES[0])
    assert tuple(enough.weights) != learning.FIXED[0]
    assert enough.ceiling == 1.0


def test_one_traversal_is_weighed_in_units_that_all_maps_share():
    """Those of standing and lead; similarity and distance have the map's own, and nothing is extrapolated."""
    known = samples()
    wrong = replace(known.take(~known.right), centred=True)
    found, plain = learning._fit(wrong, BASES[2]), learning._fit(replace(wrong, centred=False), BASES[2])
    assert found.centred
    assert not plain.centred
    assert (tuple(found.weights), found.bias) == learning.CENTRED
    own, scales = learning._measures(wrong)
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


def test_no_query_is_judged_by_its_own_traversal():
    known = samples()
    found = learning._cross_judged(known, BASES[0])
    for fold in range(3):
        own = known.folds == fold
        others = learning._fit(known.take(~own), BASES[0])
        np.testing.assert_allclose(found[own], others.probability(known.evidence[own]))
    changed = Samples(known.evidence, known.labels.copy(), known.folds, known.names)
    changed.labels[known.folds == 1] = 0
    own = known.folds == 1
    np.testing.assert_array_equal(learning._cross_judged(changed, BASES[0])[own], found[own])


def test_a_base_rate_where_the_others_teach_nothing():
    known = samples(folds=2)
    right, first = known.right, known.folds == 0
    all_right = known.take(first | right)
    found = learning._cross_judged(all_right, BASES[0])
    np.testing.assert_array_equal(found[all_right.folds == 0], 1.0)  # every match of the other is right
    enough = known.take(first | ~right | (np.cumsum(right & ~first) <= ENOUGH))
    taught = learning._fit(enough.take(enough.folds == 1), "traversals")
    np.testing.assert_allclose(
        learning._cross_judged(enough, "traversals")[enough.folds == 0],
        taught.probability(enough.evidence[enough.folds == 0]),
    )
    few = known.take(first | ~right)
    np.testing.assert_array_equal(learning._cross_judged(few, BASES[0])[few.folds == 0], 0.0)
    alone = known.take(first)
    np.testing.assert_array_equal(learning._cross_judged(alone, BASES[0]), 0.5)
