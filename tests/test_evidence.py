"""Evidence about matches against a second implementation, by loops; and the courses that drives follow."""

from __future__ import annotations

from math import log, pi, sqrt

import numpy as np
import pytest

from displace import DisPlace, ReferenceSet, build, get_fusion
from displace.geo import Positions
from displace.maps import driving, witness
from displace.maps.driving import LEAST_PLACES, chosen_mode, rows_in_order, same_places
from displace.maps.witness import Anchors, RowSpace, Witness, standing
from displace.places import Places
from displace.synthetic import make_route
from displace.truth import Truth


def unit(x):
    return x / np.linalg.norm(x)


def expected(town, refs, query, same, cohort):
    """Score of the best place, standing, lead and distance of one query; `same` says which places count as one."""
    P = np.eye(town.dim) if town.projection is None else np.float64(town.projection)
    m = np.zeros(town.dim) if town.mean is None else town.mean
    rows, of, ids = town.rows(), town.row_places, town.place_ids
    seen = unit((query - m) @ P)
    scores = {
        place: max(float(rows[r] @ seen) for r in np.flatnonzero(of == place)) for place in range(len(ids))
    }
    ranked = sorted(scores, key=scores.get, reverse=True)[:20]
    best, top = ranked[0], scores[ranked[0]]
    chance = [float(rows[r] @ seen) for r in cohort if not same(of[r], best)]
    mean, deviation = (np.mean(chance), np.std(chance, ddof=1)) if len(chance) > 2 else (0.0, 1.0)
    others = [scores[place] for place in ranked if not same(place, best)]
    n = max(len(ids), 3)
    slope = sqrt(2 * log(n))
    highest = slope - (log(log(n)) + log(4 * pi)) / (2 * slope)
    stands = ((top - mean) / deviation - highest) * slope
    lead = (top - (others[0] if others else scores[ranked[-1]])) / deviation
    row = max(np.flatnonzero(of == best), key=lambda r: rows[r] @ seen)
    own = refs.vectors[refs.places == ids[best]].astype(np.float64)
    mine = [v for v in own if max(np.flatnonzero(of == best), key=lambda r: rows[r] @ ((v - m) @ P)) == row]
    everywhere = np.mean([refs.vectors[refs.places == place].mean(axis=0) for place in ids], axis=0)
    if len(of) > len(ids):  # the mean of the rows' references
        everywhere = refs.vectors.mean(axis=0)
    a, b = query - everywhere, np.mean(mine, axis=0) - everywhere
    span = np.linalg.qr(P)[0]
    away = (a @ a + b @ b - 2 * (a @ span) @ (b @ span)) / (1 + 1 / len(mine))
    return [top, min(max(stands, -3), 12), min(max(lead, 0), 4), away]


@pytest.mark.parametrize("tolerance", ["exact", "2 frames"])
@pytest.mark.parametrize("cohort", [256, 11])
@pytest.mark.parametrize(
    "fusion",
    [
        "hops",
        "pooling",
        DisPlace(ridge=0.5, center=True, tau=0.7),
        DisPlace(ridge=0.5, center=False, tau=0.7),
    ],
    ids=str,
)
def test_evidence_is_that_of_the_definition(fusion, cohort, tolerance, monkeypatch):
    route = make_route(n_places=30, n_traversals=3, dim=12, noise=0.5, seed=2)
    refs = route.references
    refs = ReferenceSet(
        refs.vectors + 0.1, refs.places, refs.traversals, info=Places(np.arange(30), frames=np.arange(30))
    )
    if fusion == "pooling":
        lengths = np.linalg.norm(refs.vectors, axis=1, keepdims=True)
        refs = ReferenceSet(refs.vectors / lengths, refs.places, refs.traversals, info=refs.info)
    monkeypatch.setattr(witness, "COHORT", cohort)
    town = build(refs, fusion, dtype="float32", tolerance=tolerance)
    queries = np.concatenate([route.queries[:6], np.random.default_rng(0).standard_normal((2, 12))]).astype(
        np.float32
    )
    scores = town.state.scores(town.state.project(queries))
    best = np.argsort(-scores, axis=1)[:, :25]
    found = town.state.witness.evidence(queries, best, np.take_along_axis(scores, best, axis=1))
    reach = 0 if tolerance == "exact" else 2
    rows = np.linspace(0, len(town.row_places) - 1, min(len(town.row_places), cohort)).astype(int)
    for query, evidence in zip(queries, found, strict=True):
        wanted = expected(town, refs, query.astype(np.float64), lambda a, b: abs(a - b) <= reach, rows)
        np.testing.assert_allclose(evidence[1:], wanted[1:], rtol=2e-4, atol=2e-4)
        if town.projection is None:
            assert evidence[0] == pytest.approx(wanted[0], abs=1e-5)


def expected_centred(town, refs, query, best, same, cohort):
    """Similarity and standing of one query from the mean of the references, by loops."""
    P = np.eye(town.dim) if town.projection is None else np.float64(town.projection)
    means = np.array([refs.vectors[refs.places == place].mean(axis=0) for place in town.place_ids], float)
    everywhere = means.mean(axis=0)
    seen, rows = unit((query - everywhere) @ P), [unit((mean - everywhere) @ P) for mean in means]
    chance = [float(rows[r] @ seen) for r in cohort if not same(r, best)]
    deviations = (float(rows[best] @ seen) - np.mean(chance)) / np.std(chance, ddof=1)
    return [float(rows[best] @ seen), np.clip(standing(np.array([deviations]), len(rows))[0], -3, 12)]


@pytest.mark.parametrize("tolerance", ["exact", "2 frames"])
@pytest.mark.parametrize("cohort", [256, 11])
@pytest.mark.parametrize("fusion", ["hops", DisPlace(ridge=0.5, center=False, tau=0.7)], ids=str)
def test_centred_evidence_is_that_of_the_definition(fusion, cohort, tolerance, monkeypatch):
    """Lead and distance are as they are otherwise."""
    refs, queries = around_a_point(0.3, n_traversals=3)
    monkeypatch.setattr(witness, "COHORT", cohort)
    town = build(refs, fusion, dtype="float32", tolerance=tolerance)
    plain, centred = (asked(town, queries, centred) for centred in (False, True))
    np.testing.assert_array_equal(centred[:, 2:], plain[:, 2:])
    best = town.state.scores(town.state.project(queries)).argmax(axis=1)
    reach = 0 if tolerance == "exact" else 2
    rows = np.linspace(0, 29, min(30, cohort)).astype(int)
    for query, place, evidence in zip(queries, best, centred, strict=True):
        wanted = expected_centred(town, refs, query, place, lambda a, b: abs(a - b) <= reach, rows)
        np.testing.assert_allclose(evidence[:2], wanted, rtol=2e-4, atol=2e-4)


def test_centred_evidence_does_not_see_what_all_pictures_share():
    """The same pictures elsewhere in space: similarity and standing stay where the best places do."""
    (near, queries), (far, moved) = around_a_point(0.0), around_a_point(0.2)
    here, there = (build(refs, "hops", dtype="float32") for refs in (near, far))
    same = here.locate(queries, k=1).places[:, 0] == there.locate(moved, k=1).places[:, 0]
    assert same.sum() >= 5
    found, elsewhere = asked(here, queries, True), asked(there, moved, True)
    np.testing.assert_allclose(found[same, :2], elsewhere[same, :2], rtol=1e-3, atol=1e-3)
    plain, shared = asked(here, queries, False), asked(there, moved, False)
    assert np.abs(plain - shared)[:, 0].mean() > 0.05


def around_a_point(shift, n_traversals=1):
    """References of 30 places, and queries, all of them moved by the same vector."""
    route = make_route(n_places=30, n_traversals=n_traversals, dim=12, noise=0.3, seed=2)
    refs = route.references
    info = Places(np.arange(30), frames=np.arange(30))
    moved = ReferenceSet(refs.vectors + shift, refs.places, refs.traversals, info=info)
    return moved, (route.queries[:12] + shift).astype(np.float32)


def asked(town, queries, centred):
    """Evidence about queries in a map."""
    scores = town.state.scores(town.state.project(queries))
    best = np.argsort(-scores, axis=1)[:, :20]
    return town.state.witness.evidence(queries, best, np.take_along_axis(scores, best, axis=1), centred)


def test_evidence_in_blocks_is_the_same(monkeypatch):
    route = make_route(n_places=30, n_traversals=3, dim=12, seed=2)
    town = build(route.references, "hops")
    whole = town.locate(route.queries).confidence
    monkeypatch.setattr(
        witness, "blocks", lambda n, row_bytes: (slice(i, min(n, i + 7)) for i in range(0, n, 7))
    )
    np.testing.assert_allclose(town.locate(route.queries).confidence, whole, rtol=1e-5)


def test_two_other_places_say_nothing_about_chance():
    """The deviation then is 1, and the mean 0."""
    refs = ReferenceSet(np.eye(4)[[0, 1, 2, 0, 1, 2]], [0, 1, 2] * 2, ["a"] * 3 + ["b"] * 3)
    for n, places in (
        (3, refs),
        (4, ReferenceSet(np.eye(4)[[0, 1, 2, 3] * 2], [0, 1, 2, 3] * 2, ["a"] * 4 + ["b"] * 4)),
    ):
        town = build(places, "hops", dtype="float32", calibration=False)
        space = RowSpace(town.rows().__getitem__, town.row_places)
        anchors = Anchors.of_references(space, places, places.place_ids)
        seen = witness.Witness(space, anchors, town.state.truth, town.place_ids)
        mean, deviation = seen._chance(np.array([[0.9, 0.1, 0.3, 0.2]]) @ seen._cohort[1].T, np.array([0]))
        others = [0.1, 0.3, 0.2][: n - 1]
        assert mean[0] == pytest.approx(np.mean(others) if n == 4 else 0)
        assert deviation[0] == pytest.approx(np.std(others, ddof=1) if n == 4 else 1)


def test_rows_of_places_and_their_references():
    space = RowSpace(np.eye(4).__getitem__, np.array([0, 0, 1, 2]))
    projected = np.array([[0.1, 0.9, 0, 0], [0.9, 0.1, 0, 0], [0, 0, 1, 5], [0, 0, 5, 1]])
    places = np.array([0, 0, 1, 2])
    assert space.best_rows(projected, places).tolist() == [1, 0, 2, 3]
    vectors = np.array([[3.0, 0, 0, 0], [5.0, 0, 0, 0], [0, 0, 2.0, 0], [0, 0, 0, 2.0]])
    found = Anchors.of_references(space, ReferenceSet(vectors, places, ["a"] * 4), np.arange(3))
    # The second row of the first place has no reference of its own: it stands where the place does.
    assert found.counts.tolist() == [2, 2, 1, 1]
    means = np.array([[4, 0, 0, 0], [4, 0, 0, 0], [0, 0, 2, 0], [0, 0, 0, 2]])
    np.testing.assert_allclose(found.mean, means.mean(axis=0))
    np.testing.assert_allclose(found.lengths, [4, 0, 2, 2])
    np.testing.assert_allclose(found.squares, ((means - means.mean(axis=0)) ** 2).sum(axis=1))


def test_few_places_stand_as_three_do():
    assert standing(np.array([1.0]), 1) == standing(np.array([1.0]), 3)
    assert standing(np.array([1.0]), 4) != standing(np.array([1.0]), 3)


class TestCourses:
    ids = np.arange(6)

    def chosen(self, truth, index):
        same = same_places(truth, self.ids)(index)
        return list(range(6))[same] if isinstance(same, slice) else same(np.arange(6)).tolist()

    def test_exact(self):
        truth = Truth.of(Places(self.ids), "exact")
        assert [self.chosen(truth, at) for at in (0, 3)] == [[0], [3]]

    def test_frames_in_order_and_out_of_order(self):
        truth = Truth.of(Places(self.ids, frames=[0, 1, 2, 4, 7, 8]), "2 frames")
        assert [self.chosen(truth, at) for at in (0, 2, 4)] == [[0, 1, 2], [0, 1, 2, 3], [4, 5]]
        mixed = Truth.of(Places(self.ids, frames=[7, 1, 8, 4, 0, 2]), "2 frames")
        assert [self.chosen(mixed, at) for at in (0, 5)] == [[0, 2], [1, 3, 4, 5]]

    def test_metres(self):
        points = np.array([[0.0, 0], [0, 3], [4, 0], [4, 3], [90, 0], [np.nan, np.nan]])
        truth = Truth.of(Places(self.ids, Positions(points)), "4m")
        assert [self.chosen(truth, at) for at in (0, 3, 4, 5)] == [[0, 1, 2], [1, 2, 3], [4], [5]]

    def test_rows_follow_the_route(self):
        vectors, starts = np.arange(12.0).reshape(6, 2).astype(np.float32), np.array([0, 1, 3])
        as_is = rows_in_order(vectors, starts, None)
        assert np.shares_memory(as_is.columns, vectors) or np.array_equal(as_is.columns, vectors.T)
        turned = rows_in_order(vectors, starts, np.array([2, 0, 1]))
        np.testing.assert_array_equal(turned.columns.T, vectors[[3, 4, 5, 0, 1, 2]])
        assert turned.starts.tolist() == [0, 3, 4]
        same = rows_in_order(vectors, starts, np.array([0, 1, 2]))
        np.testing.assert_array_equal(same.columns, as_is.columns)

    def test_modes(self):
        least = driving.LEAST_QUERIES
        assert [chosen_mode("auto", n) for n in (least - 1, least)] == ["none", "batch"]
        assert chosen_mode("none", least) == "none"
        assert chosen_mode("batch", 1) == "batch"


class TestHeldOutDrives:
    """What a fold's drive must have, and what is told of it."""

    route = make_route(n_places=30, n_traversals=2, dim=8, noise=0.2, seed=1).references
    truth = Truth.of(Places(route.place_ids, frames=np.arange(30.0)), "1 frames")

    def watch(self, least, monkeypatch, n_asked=30, n_places=30):
        monkeypatch.setattr(driving, "LEAST_PLACES", least)
        watch = driving.DriveWatch(self.truth)
        fitted = get_fusion("hops")().fit_references(self.route.only("t0").select(np.arange(n_places)))
        watch.watch(fitted, self.route.only("t1").select(np.arange(n_asked)))
        return watch

    @pytest.mark.parametrize(("least", "seen"), [(10, True), (11, False)])
    def test_half_as_many_frames_and_places_as_a_batch_needs(self, monkeypatch, least, seen):
        assert bool(self.watch(least, monkeypatch, n_asked=10)._seen) is seen
        assert bool(self.watch(least, monkeypatch, n_places=10)._seen) is seen
        assert 2 * LEAST_PLACES == driving.LEAST_QUERIES

    def test_right_answers_are_counted_among_frames_that_have_one(self, monkeypatch):
        watch = self.watch(10, monkeypatch)
        (seen,) = watch._seen
        seen.answerable[:12] = False
        found = watch.calibration(3)
        assert found.n_frames == 30
        for name, mode in (("single", "none"), ("batch", "batch"), ("online", "online")):
            best = seen.course.ids[seen.scores[mode].argmax(axis=1)]
            right = [abs(a - b) <= 1 for a, b in zip(best[12:], seen.places[12:], strict=True)]
            assert found.recall[name] == round(float(np.mean(right)), 4)

    def test_what_the_path_earns_is_earned_on_the_route(self, monkeypatch):
        """Frames without an answer earn nothing: the others earned it all, up to five times as much."""
        monkeypatch.setattr(driving, "earned_by_chance", lambda *_: 3.0)
        monkeypatch.setattr(driving, "earned", lambda *_: 7.0)
        for n, gain in ((40, 4), (20, 8), (8, 20), (4, 20), (0, 20)):
            level = driving._prior_level(np.zeros((40, 40), np.float32), np.arange(40) < n)
            assert level == pytest.approx(3 + driving.ABOVE * gain)
        monkeypatch.setattr(driving, "earned", lambda *_: 2.0)
        assert driving._prior_level(np.zeros((40, 40), np.float32), np.ones(40, bool)) == 3


def test_what_undoes_a_projection_leaves_its_columns_at_their_lengths():
    """Also where they lie in one line: a share of their mean square is added, so that there is a solution."""
    for P in (np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])):
        U = Witness(RowSpace(None, None, P), None, None, None)._unscaling
        added = np.linalg.inv(U @ U.T) - P.T @ P
        np.testing.assert_allclose(added, np.eye(2) * 1e-6 * np.trace(P.T @ P) / 2, atol=2e-9)
    assert Witness(RowSpace(None, None), None, None, None)._unscaling is None


def test_absurd_numbers_are_no_evidence_and_no_infinity():
    route = make_route(n_places=12, n_traversals=3, dim=8, noise=0.3, seed=2)
    town = build(route.references, "hops", dtype="float32")
    best, scores = np.tile(np.arange(5), (2, 1)), np.tile(np.linspace(0.9, 0.1, 5), (2, 1))
    scores[1] = np.nan
    found = town.state.witness.evidence(np.full((2, 8), 1e25), best, scores)
    assert found[0, 0] == 0.9
    assert found[1, 0] == 0
    assert found[0, 3] == float(np.finfo(np.float32).max)
