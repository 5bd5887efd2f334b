"""The probability that the top match is right."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from displace import DisPlace, PlaceMap, ReferenceSet, build
from displace.fusion.base import Rows
from displace.geo import Positions
from displace.maps.calibration import (
    BASES,
    Calibration,
    area_under_curve,
    calibration_error,
    novelty,
    reliability,
    tempered,
)
from displace.maps.checking import checked_calibration
from displace.maps.learning import (
    APART,
    DOUBT,
    ENOUGH,
    MOST,
    STRONG,
    _cross_validated,
    calibration_of,
    logistic,
)
from displace.maps.remarks import of_confidence
from displace.maps.samples import Samples
from displace.maps.witness import LEAD, STANDING, Anchors, RowSpace, Witness, standing
from displace.places import Places
from displace.sequence.following import ranking_features
from displace.synthetic import make_route
from displace.truth import Truth

FIXED = {"ridge": 0.1, "center": False}


@pytest.fixture(scope="module")
def route():
    return make_route(n_places=300, n_traversals=4, dim=48, noise=0.7, nuisance=0.7, seed=1)


@pytest.fixture(scope="module")
def with_a_gap(route):
    """A map without a third of the route's places."""
    refs = route.references
    return build(refs.select((refs.places < 100) | (refs.places >= 200)), DisPlace(**FIXED))


def foreign(n, dim, seed=5):
    """Pictures that have nothing to do with the route: unit vectors in any direction."""
    vectors = np.random.default_rng(seed).standard_normal((n, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_places_outside_of_the_map_get_a_low_probability(route, with_a_gap):
    """A third of the places is left out of the map; their queries must stand out, and the numbers must be honest."""
    matches = with_a_gap.locate(route.queries)
    right = matches.places[:, 0] == route.truth
    inside = (route.truth < 100) | (route.truth >= 200)
    assert matches.confidence[inside].mean() > matches.confidence[~inside].mean() + 0.2
    assert roc_auc_score(right, matches.confidence) > 0.85
    assert calibration_error(matches.confidence, right) < 0.12
    assert abs(matches.confidence.mean() - right.mean()) < 0.1


@pytest.mark.parametrize("fusion", ["displace", "hops"])
def test_it_is_better_than_the_raw_score_where_places_look_alike(fusion):
    """Pairs of places that cannot be told apart score highest, and are right half of the time."""
    rng = np.random.default_rng(0)
    looks = rng.standard_normal((120, 32))
    looks[80:] = looks[40:80]
    noise = np.where(np.arange(120) < 40, 0.9, 0.3)[:, None]
    *recordings, queries = looks + noise * rng.standard_normal((5, *looks.shape))
    refs = ReferenceSet.from_traversals({f"t{at}": vectors for at, vectors in enumerate(recordings)})
    matches = build(refs, fusion).locate(queries)
    right = matches.places[:, 0] == np.arange(120)
    by_confidence, by_score = (roc_auc_score(right, x) for x in (matches.confidence, matches.scores[:, 0]))
    assert by_score < 0.5
    assert by_confidence > by_score + 0.2


def test_it_is_a_probability_and_the_raw_score_is_not(route, with_a_gap):
    """Places all unlike each other are ranked as well by the score, which says nothing of how many are right."""
    matches = with_a_gap.locate(route.queries)
    right, scores = matches.places[:, 0] == route.truth, matches.scores[:, 0]
    assert roc_auc_score(right, matches.confidence) > roc_auc_score(right, scores) - 0.02
    assert 2 * calibration_error(matches.confidence, right) < calibration_error(scores.clip(0, 1), right)


@pytest.mark.filterwarnings("ignore:DisPlace falls back")
@pytest.mark.parametrize("n_places", [30, 80])
@pytest.mark.parametrize("n_traversals", [1, 2, 3])
def test_foreign_pictures_are_not_in_small_maps(n_places, n_traversals):
    """Few places score high by chance in few dimensions; a picture of elsewhere must still not pass for one of them."""
    own = make_route(n_places=n_places, n_traversals=4, dim=256, noise=0.4, nuisance=0.4, seed=2)
    names = own.references.traversal_ids[:n_traversals]
    place_map = build(own.references.only(*names))
    assert np.mean(place_map.locate(foreign(400, 256), k=1).confidence >= 0.5) <= 0.01


def test_it_grows_with_each_feature_and_only_as_far_as_it_has_seen(with_a_gap):
    learned = with_a_gap.calibration
    middle = np.mean([learned.lowest, learned.highest], axis=0)
    for feature in range(3):
        steps = np.tile(middle, (50, 1))
        steps[:, feature] = np.linspace(learned.lowest[feature] - 5, learned.highest[feature] + 5, 50)
        probability = learned.probability(steps)
        assert np.all(np.diff(probability) >= -1e-12)
        beyond = steps[:, feature] >= learned.highest[feature]
        assert np.ptp(probability[beyond]) < 1e-12


def test_the_bounds_are_those_of_the_held_out_queries():
    samples = made_up()
    learned = calibration_of(samples, BASES[0])
    np.testing.assert_allclose(learned.lowest, samples.evidence.min(axis=0))
    np.testing.assert_allclose(learned.highest, samples.evidence.max(axis=0))


def test_distance_from_the_references_can_only_lower_it(with_a_gap):
    learned = with_a_gap.calibration
    steps = np.tile(learned.highest, (50, 1))
    steps[:, 3] = np.linspace(0, learned.farthest + 20 * learned.spread, 50)
    probability = learned.probability(steps)
    assert np.all(np.diff(probability) <= 0)
    assert probability[-1] < 0.01
    np.testing.assert_allclose(novelty(np.array([1.0, 3.0]), farthest=2.0, spread=0.5), [0, 2 + 2])


def test_refusals_are_softened_and_decisions_stay(route, with_a_gap):
    """Below a half the logarithm of the odds counts in part; order, and all that is a half or above, stay."""
    x = np.array([0.0, 0.01, 0.2, 0.499, 0.5, 0.7, 1.0])
    soft = tempered(x, 0.5)
    np.testing.assert_array_equal(soft[4:], x[4:])
    np.testing.assert_allclose(soft[2] / (1 - soft[2]), np.sqrt(0.2 / 0.8))
    assert np.all(np.diff(soft) > 0)
    assert np.all(soft[1:4] > x[1:4])
    learned = with_a_gap.calibration
    as_before = with_a_gap.changed(calibration=replace(learned, doubt=1.0)).locate(route.queries).confidence
    now = with_a_gap.locate(route.queries).confidence
    np.testing.assert_array_equal(now >= 0.5, as_before >= 0.5)
    np.testing.assert_array_equal(np.argsort(now), np.argsort(as_before))
    right = with_a_gap.locate(route.queries).places[:, 0] == route.truth
    assert now[right].min() > as_before[right].min()
    record = {name: value for name, value in asdict(learned).items() if name != "doubt"}
    assert checked_calibration(record).doubt == 1.0  # what a map says that was built before


def test_evidence_by_hand():
    """Three places on the axes of a plane seen by a projection, and a query that lies half outside of it."""
    rows_of_places = np.array([[1.0, 0], [0, 1], [-1, 0]])
    projection = 2 * np.eye(3)[:, :2]
    rows = Rows(rows_of_places, np.arange(3), projection=projection)
    references = np.array([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0]])
    space = RowSpace.of(rows)
    anchors = Anchors.of(space, references, np.ones(3))
    truth = Truth.of(Places(np.arange(3)))
    witness = Witness(space, anchors, truth, np.arange(3))
    mean = references.mean(axis=0)
    query = mean + np.array([[0.6, 0.0, 0.8]])
    scores = np.array([[0.9, 0.3, -0.9]])
    similarity, rank, lead, distance = witness.evidence(query, np.array([[0, 1, 2]]), scores)[0]
    assert similarity == 0.9
    assert distance == pytest.approx(((query - references[0]) ** 2).sum() / 2, rel=1e-4)
    assert LEAD[0] <= lead <= LEAD[1]
    assert STANDING[0] <= rank <= STANDING[1]
    chance, deviation = witness._chance(np.array([[0.9, 0.3, -0.9]]), np.array([0]))
    assert (chance, deviation) == (0, 1)  # two others say nothing
    assert rank == pytest.approx(standing(np.array([0.9]), 3)[0])


def test_a_best_of_more_places_must_stand_higher():
    found = [standing(np.array([4.0]), n)[0] for n in (30, 300, 3000)]
    assert found[0] > found[1] > found[2]
    chance = np.random.default_rng(0).standard_normal((2000, 300)).max(axis=1)
    assert standing(chance, 300).mean() == pytest.approx(0.577, abs=0.15)  # the mean of Gumbel's distribution


def test_slope_bias_and_steepness_are_those_that_the_matches_follow():
    rng = np.random.default_rng(0)
    strength, lead = 2 * rng.standard_normal(20_000), rng.random(20_000)
    slope, bias, steepness = 1.5, -0.5, 6.0
    probability = 1 / (1 + np.exp(-slope * strength - bias)) / (1 + np.exp(-steepness * lead))
    right = rng.random(20_000) < probability
    found = logistic(strength, lead, right, np.ones(20_000))
    assert found == pytest.approx((slope, bias, steepness), rel=0.15)
    few = logistic(strength[:20], lead[:20], right[:20], np.ones(20))
    assert few[::2] == pytest.approx((1, 8), abs=0.3)  # nearly what they are drawn to
    assert logistic(strength, lead, ~right, np.ones(20_000))[0] == 0


@pytest.mark.filterwarnings("ignore:DisPlace falls back")
@pytest.mark.parametrize(("n", "basis"), [(1, BASES[2]), (2, BASES[1]), (3, BASES[0])])
def test_any_number_of_traversals_has_a_confidence_that_says_what_it_rests_on(route, n, basis):
    place_map = build(route.references.only(*route.references.traversal_ids[:n]))
    assert place_map.calibration.basis == basis
    assert np.isfinite(place_map.locate(route.queries[:5]).confidence).all()


@pytest.mark.parametrize("fusion", ["hops", "pooling", "dmat_avg", "single"])
def test_every_fusion_that_a_map_holds_has_a_confidence(fusion):
    own = make_route(n_places=60, n_traversals=3, dim=64, noise=0.4, nuisance=0.4, seed=4)
    place_map = build(own.references, fusion)
    confidence = place_map.locate(own.queries, k=1).confidence
    elsewhere = place_map.locate(foreign(200, 64), k=1).confidence
    assert np.median(confidence) > np.median(elsewhere) + 0.2


def test_two_traversals_reject_places_that_were_left_out(route):
    refs = route.references.only("t0", "t1")
    place_map = build(refs.select(refs.places < 200))
    matches = place_map.locate(route.queries, k=1)
    right = matches.places[:, 0] == route.truth
    assert roc_auc_score(right, matches.confidence) > 0.8


def made_up(n_folds=4, n=60, seed=0):
    """Samples whose matches are right where similarity and standing are high, more or less; fold 3 is of t0 again."""
    rng = np.random.default_rng(seed)
    evidence = rng.standard_normal((n_folds * n, 4))
    labels = (evidence[:, 0] + evidence[:, 1] + 0.5 * rng.standard_normal(len(evidence)) > 0).astype(np.int8)
    labels[::7] = -1
    names = [f"t{fold % 3}" for fold in range(n_folds)]
    return Samples(evidence, labels, np.repeat(np.arange(n_folds, dtype=np.int8), n), names)


@pytest.mark.parametrize("right", [True, False])
def test_all_right_or_all_wrong_is_no_calibration(right):
    samples = made_up()
    for labels, missing in ((np.full_like(samples.labels, right), True), (samples.labels, False)):
        changed = replace(samples, labels=labels)
        assert all((calibration_of(changed, basis) is None) == missing for basis in BASES[:2])
        assert calibration_of(changed, BASES[2]) is not None  # of one traversal all are wrong


def test_no_fold_is_judged_by_a_fit_on_its_own_traversal():
    """Whatever is said of a traversal's matches, all of its folds keep their probabilities, and others do not."""
    samples = made_up()
    own = np.isin(samples.folds, [0, 3])
    changed = replace(samples, labels=np.where(own, 0, samples.labels).astype(np.int8))
    before, after = _cross_validated(samples, BASES[0]), _cross_validated(changed, BASES[0])
    np.testing.assert_array_equal(before[own], after[own])
    assert np.abs(before - after)[~own].mean() > 0.05


def far_apart(gap, seed=0):
    """Samples of recordings that are hardly different: right matches are stronger than others by `gap` deviations."""
    samples = made_up(n=200, seed=seed)
    right = (np.arange(len(samples)) % 7 < 5).astype(np.int8)
    evidence = 0.1 * samples.evidence + gap * right[:, None] * [1, 1, 1, -1]
    evidence[:, 3] += 5
    return replace(samples, evidence=evidence, labels=right - (right == 0))


def test_right_matches_of_another_day_need_not_be_as_strong_as_those_of_the_same():
    """Nothing was seen between right and wrong matches, however far these are apart: what is there is no less right."""
    for gap in (1.0, 3.0, 9.0):
        learned = calibration_of(far_apart(gap), BASES[0])
        between = np.array([[0.5, 0.5, 1.0, 4.5]])
        assert learned.probability(between)[0] > 0.5
        assert learned.probability(between * [0, 0, 1, 1] + [0, 0, 0, 0.5])[0] < 0.5
        assert learned.spread >= APART * gap * 0.99


def test_matches_that_look_like_queries_without_an_answer_are_not_sure():
    """Right matches are everywhere, as those of a hard traversal may be: they say nothing of what is in the map."""
    samples = made_up(n=300)
    learned = calibration_of(
        replace(samples, labels=np.where(samples.labels < 0, -1, 1).astype(np.int8)), BASES[0]
    )
    assert learned.bias == MOST
    average = np.array([learned.offsets]) * [1, 1, 0, 1] + [0, 0, 4, 0]
    assert learned.probability(average)[0] < 0.75


def two_seasons(easy_right, seed=0):
    """Right matches of an easy season stand out by `easy_right`; of a hard one they look as wrong ones of the easy."""
    rng = np.random.default_rng(seed)
    levels = {("easy", 1): easy_right, ("easy", -1): 2.0, ("hard", 1): 1.0, ("hard", -1): -3.0}
    evidence = [
        rng.normal([level, level, 1, 5 - level], [0.7, 0.7, 0, 0.7], (60 if label > 0 else 20, 4))
        for (_, label), level in levels.items()
    ]
    counts = [len(part) for part in evidence]
    return Samples(
        np.concatenate(evidence),
        np.repeat(np.array([label for _, label in levels], np.int8), counts),
        np.repeat(np.array([0, 0, 1, 1], np.int32), counts),
        ["easy", "hard"],
    )


def test_half_of_each_seasons_queries_without_an_answer_are_refused():
    """Else those of a season that is easily told are accepted, to have the right matches of one that is not."""
    samples = two_seasons(easy_right=8.0)
    learned = calibration_of(samples, BASES[0])
    passes = learned.probability(samples.evidence) >= 0.5
    for season in (0, 1):
        without = (samples.folds == season) & (samples.labels < 0)
        assert passes[without].mean() <= 0.5
    assert passes[(samples.folds == 0) & samples.right].all()


def test_a_season_asks_for_no_limit_that_its_own_right_matches_do_not_reach():
    """Its queries without an answer look right: to refuse half of them would refuse the right ones, too."""
    samples = two_seasons(easy_right=2.0)
    learned = calibration_of(samples, BASES[0])
    own = (samples.folds == 0) & samples.right
    assert (learned.probability(samples.evidence[own]) >= 0.5).mean() >= 0.85


def test_strong_wrong_matches_keep_the_limit_high():
    """One wrong match in ten is as strong as right ones: those between are not accepted."""
    samples = far_apart(9.0)
    wrong = samples.labels < 0
    strong = wrong & (np.cumsum(wrong) % 10 == 0)
    evidence = np.where(strong[:, None], samples.evidence + np.array([9, 9, 9, -9]), samples.evidence)
    learned = calibration_of(replace(samples, evidence=evidence), BASES[0])
    assert -learned.bias / learned.weights[0] > STRONG


def test_nothing_is_judged_where_the_other_folds_cannot_be_fitted():
    samples = made_up(n_folds=2)
    rest = samples.folds == 1
    for labels in (np.ones(60, np.int8), np.arange(60) < ENOUGH - 1):
        changed = replace(samples, labels=samples.labels.copy())
        changed.labels[rest] = labels
        assert _cross_validated(changed, BASES[0]) is None
        assert not calibration_of(changed, BASES[0]).curve
    assert _cross_validated(samples.take(~rest), BASES[0]) is None


def test_held_out_figures_are_those_of_the_definition():
    probability, right = np.array([0.05, 0.08, 0.95, 0.97]), np.array([False, True, True, True])
    assert reliability(probability, right) == [[pytest.approx(0.065), 0.5, 2], [pytest.approx(0.96), 1.0, 2]]
    assert calibration_error(probability, right) == pytest.approx((0.435 + 0.04) / 2)
    thrice = np.array([3.0, 1.0, 1.0, 1.0])  # the first counts three times
    assert reliability(probability, right, thrice)[0] == [pytest.approx(0.23 / 4), 0.25, 2]
    assert calibration_error(probability, right, thrice) == pytest.approx((4 * 0.1925 + 2 * 0.04) / 6)
    assert area_under_curve(probability, right) == 1.0
    ties = np.array([0.3, 0.3, 0.1, 0.7, 0.7]), np.array([True, False, False, True, False])
    assert area_under_curve(*ties) == pytest.approx(roc_auc_score(ties[1], ties[0]))


def test_within_the_tolerance_is_right(route):
    """With positions a neighbour counts as right, so that the probabilities are higher."""
    refs = route.references
    line = Positions(np.column_stack([np.arange(300) * 5.0, np.zeros(300)]))
    exact = build(refs, DisPlace(**FIXED), positions=line, tolerance=0.0).calibration
    near = build(refs, DisPlace(**FIXED), positions=line, tolerance=11.0).calibration
    assert near.n_correct > exact.n_correct


def test_frames_are_a_tolerance(route):
    refs = route.references
    numbered = ReferenceSet(
        refs.vectors, refs.places, refs.traversals, info=Places(refs.place_ids, frames=refs.place_ids)
    )
    exact = build(numbered, DisPlace(**FIXED)).calibration
    near = build(numbered, DisPlace(**FIXED), tolerance="2 frames").calibration
    assert near.n_correct > exact.n_correct


def test_stretches_do_not_depend_on_how_numbers_are_written(route):
    """Names 0, 1, … 299 give the calibration of the numbers, and of names with leading zeros."""
    refs = route.references
    found = [
        build(ReferenceSet(refs.vectors, places, refs.traversals), DisPlace(**FIXED)).calibration
        for places in (refs.places, refs.places.astype(str), np.char.zfill(refs.places.astype(str), 3))
    ]
    for other in found[1:]:
        assert other.n_correct == found[0].n_correct
        assert other.auc == pytest.approx(found[0].auc, abs=1e-3)
        assert other.weights == pytest.approx(found[0].weights, rel=0.05)


def test_string_ids_and_ragged_references():
    route = make_route(n_places=60, n_traversals=3, dim=16, drop=0.3, seed=3)
    ids = np.array([f"p{p:02d}" for p in range(60)])
    refs = ReferenceSet(route.references.vectors, ids[route.references.places], route.references.traversals)
    calibration = build(refs).calibration
    assert 0 < calibration.n_correct < calibration.n_queries
    assert calibration.traversals == ["t0", "t1", "t2"]


def test_confidence_survives_the_file(route, with_a_gap, tmp_path):
    with_a_gap.save(tmp_path / "gap.displace")
    loaded = PlaceMap.load(tmp_path / "gap.displace")
    queries = route.queries[:20]
    np.testing.assert_allclose(loaded.locate(queries).confidence, with_a_gap.locate(queries).confidence)
    assert loaded.calibration == with_a_gap.calibration


def test_a_calibration_of_the_first_release_works_as_it_did(route):
    """Its record has no ranges: top score, margin and standard score of the ranking are what it reads."""
    scores = np.array([[0.9, 0.5, 0.3, 0.1]])
    rest = scores[0, 1:]
    by_hand = [[0.9, 0.4, (0.9 - rest.mean()) / rest.std()]]
    np.testing.assert_allclose(ranking_features(scores), by_hand)
    np.testing.assert_allclose(ranking_features(np.array([[0.9]])), [[0.9, 0, 0]])
    record = {
        "weights": [1.0, 2.0, 0.5],
        "offsets": [0.5, 0.1, 3.0],
        "scales": [0.1, 0.1, 1.0],
        "bias": -0.5,
        "n_queries": 10,
        "n_correct": 5,
        "auc": 0.9,
        "error": 0.05,
        "curve": [[0.5, 0.5, 10]],
        "traversals": ["a", "b", "c"],
    }
    old = Calibration(**record)
    odds = (np.array(by_hand) - record["offsets"]) / record["scales"] @ record["weights"] - 0.5
    np.testing.assert_allclose(old.probability_of_scores(scores), 1 / (1 + np.exp(-odds)))
    place_map = build(route.references, DisPlace(**FIXED), calibration=False).changed(calibration=old)
    assert np.isfinite(place_map.locate(route.queries[:3]).confidence).all()


@pytest.mark.filterwarnings("ignore:DisPlace falls back")
@pytest.mark.parametrize("fusion", ["displace", "hops"])
def test_one_traversal_measures_from_the_mean_of_its_references(route, fusion, tmp_path):
    """Its map says so in the file; a map that does not is read as before, and several traversals need no such thing."""
    refs = route.references
    place_map = build(refs.only("t0"), fusion)
    assert place_map.calibration.centred
    assert place_map.state.samples.centred
    assert not build(refs.only("t0", "t1"), fusion).calibration.centred
    place_map.save(tmp_path / "one.displace")
    loaded = PlaceMap.load(tmp_path / "one.displace")
    assert loaded.calibration == place_map.calibration
    assert loaded.state.samples.centred
    queries = route.queries[:20]
    np.testing.assert_allclose(loaded.locate(queries).confidence, place_map.locate(queries).confidence)
    record = {name: value for name, value in asdict(place_map.calibration).items() if name != "centred"}
    before = place_map.changed(calibration=checked_calibration(record))
    assert not before.calibration.centred
    best, scores = before.state.best(before.state.project(queries), 20, "exact")
    plain = before.state.witness.evidence(queries, best, scores)
    np.testing.assert_allclose(
        before.locate(queries, search="exact").confidence, before.calibration.probability(plain)
    )


@pytest.mark.filterwarnings("ignore:DisPlace falls back")
def test_a_common_change_of_light_does_not_make_right_matches_foreign():
    """Descriptors have much in common, and in another light something else: all differ by the same vector."""
    own = make_route(n_places=80, n_traversals=1, dim=256, noise=0.5, nuisance=0.0, seed=3)
    common, change = 2 * foreign(2, 256, seed=1)
    refs = own.references
    place_map = build(ReferenceSet(unit(refs.vectors + common), refs.places, refs.traversals))
    matches = place_map.locate(unit(own.queries + common + change / 4), k=1)
    right = matches.places[:, 0] == own.truth
    assert right.mean() > 0.95
    assert np.mean(matches.confidence[right] >= 0.5) > 0.7
    elsewhere = unit(foreign(400, 256) + common + change / 4)
    assert np.mean(place_map.locate(elsewhere, k=1).confidence >= 0.5) <= 0.01


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_an_update_of_one_traversal_goes_on_as_it_was_learned(small):
    """Without a projection what one traversal has shown stays, and a second one is measured in the same way."""
    refs = small.references
    place_map = build(refs.only("t0"), "hops")
    update = place_map.add(refs.only("t1"))
    assert "learned again" in update.confidence
    samples = place_map.state.samples
    assert samples.centred
    assert place_map.calibration.centred
    alone = build(refs.only("t0"), "hops").state
    queries = refs.only("t1")
    asked = [at for at, name in enumerate(samples.names) if name == "t1"]
    found = samples.take(np.isin(samples.folds, asked)).evidence
    scores = alone.scores(alone.project(queries.vectors))
    best = np.argsort(-scores, axis=1)[:, :20]
    evidence = alone.witness.evidence(queries.vectors, best, np.take_along_axis(scores, best, axis=1), True)
    among = [np.isclose(evidence, one, rtol=1e-3, atol=1e-3).all(axis=1).any() for one in found]
    assert np.mean(among) > 0.4  # those whose best place was not masked


@pytest.fixture(scope="module")
def small():
    return make_route(n_places=80, n_traversals=4, dim=32, noise=0.5, nuisance=0.5, seed=7)


def test_three_traversals_from_two_have_a_learned_confidence(small):
    refs = small.references
    place_map = build(refs.only("t0", "t1"))
    update = place_map.add(refs.only("t2"))
    assert "learned again" in update.confidence
    assert place_map.calibration.basis == BASES[1]
    assert place_map.calibration.doubt == DOUBT[BASES[0]]
    assert place_map.calibration.traversals == ["t0", "t1", "t2"]
    assert not place_map.calibration_is_stale
    matches = place_map.locate(small.queries, k=1)
    right = matches.places[:, 0] == small.truth
    assert matches.confidence[right].mean() > matches.confidence[~right].mean() + 0.05


def test_what_parts_of_two_traversals_have_shown_is_used_until_two_were_held_out_as_a_whole(small):
    """Later it only told what a map of fewer had found: right matches were refused that a rebuild accepts."""
    refs = small.references
    place_map = build(refs.only("t0", "t1"))
    told = place_map.add(refs.only("t2")).confidence
    assert "parts of two traversals; build the map again from all references" in told
    assert any("build it again" in remark for remark in of_confidence(place_map.calibration))
    told = place_map.add(refs.only("t3")).confidence
    assert "build" not in told
    assert place_map.calibration.traversals == ["t2", "t3"]
    assert place_map.calibration.basis == BASES[0]


def test_after_many_updates_the_confidence_is_of_the_last_traversals():
    """The first ones were located in a map of fewer traversals, which found less than it does now."""
    route = make_route(n_places=120, n_traversals=9, dim=64, noise=1.3, seed=1)
    refs, names = route.references, [f"t{n}" for n in range(9)]
    place_map = build(refs.only(*names[:3]))
    for name in names[3:]:
        place_map.add(refs.only(name))
    assert place_map.calibration.traversals == names[4:]
    assert set(place_map.state.samples.names) == {*names[4:]}
    rebuilt, vectors = build(refs), route.queries
    assert abs(place_map.calibration.auc - rebuilt.calibration.auc) < 0.04
    accepted, wanted = ((one.locate(vectors).confidence >= 0.5).mean() for one in (place_map, rebuilt))
    assert abs(accepted - wanted) < 0.06


def test_two_traversals_from_one_say_what_is_missing(small):
    refs = small.references
    with pytest.warns(match="plain retrieval"):
        place_map = build(refs.only("t0"))
    update = place_map.add(refs.only("t1"))
    assert "build the map again" in update.confidence
    assert place_map.calibration is None


def test_with_the_references_kept_it_is_that_of_a_rebuild(small):
    refs = small.references
    settings = DisPlace(ridge=0.1, center=False)
    place_map = build(refs.only("t0", "t1", "t2"), settings, keep_references=True)
    place_map.add(refs.only("t3"))
    rebuilt = build(refs.only("t0", "t1", "t2", "t3"), settings)
    assert place_map.calibration.weights == pytest.approx(rebuilt.calibration.weights, rel=0.02)


@pytest.mark.parametrize("scale", [2.0**17, 2.0**49])
def test_descriptors_of_any_length_make_a_map_that_can_be_saved(small, tmp_path, scale):
    """From a length of 30,000 on, as of a VLAD of bytes, a map was built and could not be saved."""
    refs, scale = small.references.only("t0", "t1", "t2"), np.float32(scale)
    long = ReferenceSet(refs.vectors * scale, refs.places, refs.traversals)
    build(long, DisPlace(**FIXED)).save(tmp_path / "town.displace")
    sure = PlaceMap.load(tmp_path / "town.displace").locate(small.queries * scale).confidence
    usual = build(refs, DisPlace(**FIXED)).locate(small.queries).confidence
    np.testing.assert_allclose(sure, usual, atol=1e-3)


def test_what_a_removed_traversal_had_shown_is_dropped(small):
    refs = small.references.only("t0", "t1", "t2", "t3")
    place_map = build(refs)
    before = place_map.calibration.n_queries
    place_map.remove(refs.only("t3"))
    assert place_map.calibration.n_queries < before
    assert "t3" not in place_map.calibration.traversals


def test_a_map_is_left_with_a_traversal_that_was_never_held_out():
    """Of more than five traversals five are held out: what the map keeps of the last one is no query at all."""
    refs = make_route(n_places=40, n_traversals=6, dim=16, seed=7).references
    place_map = build(refs, "hops")
    assert "t4" not in place_map.state.samples.names
    update = place_map.remove(refs.without("t4"))
    assert update.confidence.startswith("none: the map keeps too few held-out queries")
    assert place_map.calibration is None
    assert place_map.state.samples is None


def test_a_map_that_was_built_without_stays_without(small):
    place_map = build(small.references.only("t0", "t1"), calibration=False)
    assert place_map.add(small.references.only("t2")).confidence == ""
    assert place_map.calibration is None


def test_a_confidence_of_other_evidence_is_none(with_a_gap):
    """As maps have it that an earlier state of the program wrote, with three weights."""
    of_three = {
        name: getattr(with_a_gap.calibration, name)[:3]
        for name in ("weights", "offsets", "scales", "lowest", "highest")
    }
    assert checked_calibration(asdict(with_a_gap.calibration) | of_three) is None
    assert checked_calibration(asdict(with_a_gap.calibration)) == with_a_gap.calibration
