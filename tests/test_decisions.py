"""Decisions in detail: what a contest takes, what a cross-validation costs, what an update reports."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from displace import DisPlace, ReferenceSet, build
from displace.arrays import l2_normalize
from displace.errors import FormatError, InputError
from displace.fusion.base import Rows
from displace.fusion.solver import contest as contests
from displace.fusion.solver import tuning
from displace.fusion.solver.contest import HOPS, POOLING, Contestant, Problem, Round, place_means
from displace.fusion.solver.scatter import Scatter
from displace.holdout import folds
from displace.maps import building, learning, updating
from displace.maps.building import calibration_rows
from displace.places import Places
from displace.synthetic import make_route


def contest(found, places=(0, 0, 0, 0, 1, 1)):
    """A contest in which every contestant finds what is said, of 1000 queries in two folds."""
    made = object.__new__(tuning.Contest)
    made.problem = SimpleNamespace(places=np.array(places))
    made.rounds, made.hits = [None, None], {}

    def run(contestants):
        for one in contestants:
            n = found(one)
            if n is not None:
                hits = np.arange(1000) < n
                made.hits[one] = [hits[::2], hits[1::2]]

    made.run = run
    return made


class TestShape:
    def test_between_places_must_find_a_point_more(self):
        best = Contestant(0.1)
        for n, taken in ((509, False), (510, False), (511, True)):
            made = contest(lambda one, n=n: n if one.between_places else 500)
            made.run([best])
            assert made.shaped(best, 4).between_places == taken

    def test_rows_that_are_given_stay(self):
        made = contest(lambda one: 500)
        made.run([Contestant(0.1, rows=3)])
        assert made.shaped(Contestant(0.1, rows=3), 3) == Contestant(0.1, rows=3)

    def test_the_fewest_rows_that_find_nearly_as_much(self):
        """Places have up to four views, so that one and two rows are tried; half a point may be lost."""
        best = Contestant(0.1)
        for few, rows in (({1: 495, 2: 499}, 1), ({1: 494, 2: 495}, 2), ({1: 400, 2: 494}, None)):
            made = contest(lambda one, few=few: few.get(one.rows, 500))
            made.run([best])
            assert made.shaped(best, "auto").rows == rows
            assert {one.rows for one in made.hits} == {None, 1, 2}

    def test_rows_that_find_more_than_all_set_the_mark(self):
        made = contest(lambda one: {1: 500, 2: 520}.get(one.rows, 500))
        made.run([Contestant(0.1)])
        assert made.shaped(Contestant(0.1), "auto").rows == 2

    def test_other_spaces_set_no_mark(self):
        made = contest(lambda one: 900 if one.ridge == 9 else 500)
        made.run([Contestant(0.1), Contestant(9)])
        assert made.shaped(Contestant(0.1), "auto").rows == 1


class TestSafety:
    @pytest.mark.parametrize(("rival", "other"), [(HOPS, POOLING), (POOLING, HOPS)])
    def test_a_rival_must_be_a_point_ahead(self, rival, other):
        best = Contestant(0.1, True)
        for n, taken in ((500, False), (510, False), (520, True)):
            made = contest(lambda one, n=n: n if one == rival else 400 if one == other else 500)
            made.run([best])
            settings = made.safest(best, "by something (R@1 50.0)", {(0.1, True): 50.0})
            assert settings.projects != taken
            assert settings.recalls == {(0.1, True): 50.0}
            if taken:
                assert settings.rows == rival.rows
                assert f"{'HOPS' if rival == HOPS else 'pooling'}, because it is ahead" in settings.reason
                assert "with a projection 50.0" in settings.reason
            else:
                assert (settings.ridge, settings.center) == (0.1, True)
                assert settings.reason.startswith("by something (R@1 50.0; HOPS ")
                assert settings.reason.endswith(")")

    def test_and_by_more_than_the_standard_error(self):
        """Of 40 queries one in twenty more: 5 points, and an error of 3.4; of opposite ones 5 points and 15.6."""
        hits = np.arange(40) % 2 == 0
        better, other = hits.copy(), ~hits
        better[[1, 3]] = True
        other[[0, 2]] = True
        for rival, taken in ((better, True), (other, False)):
            made = contest(lambda one: None)
            made.hits = {Contestant(0.1): [hits], HOPS: [rival], POOLING: [np.zeros(40, bool)]}
            assert made.safest(Contestant(0.1), "(R@1)", {}).projects != taken


class TestCosts:
    def test_operations_are_those_of_the_formula(self):
        for n, d in ((40, 100), (900, 100), (600, 4000)):
            small, scored = min(n, d), min(n, 500)
            expected = d**3 / 3 + 2 * d**2 * small + 9 * small**3
            expected += n * d**2 + 2 * scored * d * small + 2 * 500 * scored * small
            assert tuning.operations(n, d) == pytest.approx(expected, rel=1e-12)

    def test_the_limits_of_what_is_affordable(self, monkeypatch):
        each = tuning.operations(50, 20)
        monkeypatch.setattr(tuning, "WHOLE", 4 * 7 * each)
        monkeypatch.setattr(tuning, "MAX_OPERATIONS", 2 * each)
        assert [tuning.affordable(50, 20, n) for n in (4, 5)] == ["whole", "few"]
        monkeypatch.setattr(tuning, "MAX_OPERATIONS", 2 * each - 1)
        assert tuning.affordable(50, 20, 5) == "none"

    def test_larger_problems_hold_out_two_traversals_at_the_rule_s_ridge(self, monkeypatch):
        monkeypatch.setattr(tuning, "WHOLE", 0)
        monkeypatch.setattr(tuning, "FEW_QUERIES", 7)
        plan = tuning.plan(problem_of(make_route(n_places=30, n_traversals=5, dim=10).references))
        assert not plan.whole
        assert [fold.traversal for fold in plan.folds] == ["t0", "t4"]
        assert all(len(fold.queries) == 7 for fold in plan.folds)

    def test_three_traversals_are_needed(self):
        refs = make_route(n_places=30, n_traversals=2, dim=10).references
        assert tuning.plan(problem_of(refs)) == "2 traversals, and holding one out needs 3"


def problem_of(refs):
    return Problem(
        refs.vectors,
        refs.places,
        refs.traversals,
        Scatter.of(refs.vectors, refs.places),
        np.arange(len(refs.place_ids)),
        refs.vectors.shape[1],
        0.95,
        None,
    )


@pytest.mark.parametrize(
    ("places", "several"), [([0, 1, 2], False), ([0, 0, 1], True), ([0, 1, 1], True), ([0], False)]
)
def test_several_views_of_any_place(places, several):
    refs = make_route(n_places=3, n_traversals=2, dim=4).references
    assert replace(problem_of(refs), places=np.array(places)).several_views is several


def test_the_sampling_of_references_that_each_stand_alone():
    refs = make_route(n_places=3, n_traversals=3, dim=4).references
    assert problem_of(refs).sampling_ratio == pytest.approx(4 / 6)
    assert problem_of(refs.only("t0")).sampling_ratio == float("inf")


@pytest.mark.parametrize("several", [True, False])
def test_rows_are_decided_about_where_places_have_several_views(monkeypatch, several):
    refs = make_route(n_places=20, n_traversals=3, dim=8).references
    problem = problem_of(refs)
    if several:
        problem = replace(problem, places=np.repeat(np.arange(10), 2))
    shaped = []
    monkeypatch.setattr(tuning.Contest, "shaped", lambda _self, best, rows: shaped.append(rows) or best)
    tuning.decide(problem, "auto", "auto", "auto", safer=False)
    assert shaped == ["auto"] * several


class TestRounds:
    def test_hits_of_the_plain_ones_against_loops(self, monkeypatch):
        refs = make_route(n_places=30, n_traversals=3, dim=6, noise=0.8, seed=5).references
        monkeypatch.setattr(contests, "MAX_PLACES", 10)
        fold = next(folds(refs.places, refs.traversals, max_folds=3, max_queries=7))
        one = Round(problem_of(refs), fold)
        asked = refs.places[fold.queries]
        kept = sorted({*np.linspace(0, 29, 10).astype(int).tolist(), *asked.tolist()})
        assert one.kept.tolist() == kept
        rest = refs.select(fold.references)
        queries = l2_normalize(refs.vectors[fold.queries])
        sums = l2_normalize(np.stack([rest.vectors[rest.places == place].sum(axis=0) for place in kept]))
        pool = rest.select(np.isin(rest.places, kept))
        found = dict(one.hits([HOPS, POOLING]))
        np.testing.assert_array_equal(found[HOPS], np.array(kept)[(queries @ sums.T).argmax(axis=1)] == asked)
        best = pool.places[(queries @ l2_normalize(pool.vectors).T).argmax(axis=1)]
        np.testing.assert_array_equal(found[POOLING], best == asked)

    def test_means_of_places_weigh_views_alike(self):
        views = Scatter(np.arange(3), np.array([1, 3, 2]), np.array([[0.0], [2.0], [5.0]]), np.ones((1, 1)))
        of = place_means(views, np.array([7, 7, 9]))
        assert of.place_ids.tolist() == [7, 9]
        assert of.counts.tolist() == [4, 2]
        assert of.means.tolist() == [[1.0], [5.0]]
        assert of.within is views.within


class TestUpdates:
    def test_how_much_of_a_span_moved(self):
        E = np.eye(4)
        assert updating.moved(None, E) == updating.moved(E[:, :2], None) == 0
        assert updating.moved(E[:, :2], 3 * E[:, [1, 0]]) == pytest.approx(0)
        assert updating.moved(E[:, :2], E[:, 1:3]) == pytest.approx(50)
        assert updating.moved(E[:, :2], E[:, :3]) == pytest.approx(100 / 3)
        assert updating.moved(E, E[:, :3]) == pytest.approx(25)
        assert updating.moved(E[:, :1], E[:, 3:]) == pytest.approx(100)

    @pytest.mark.parametrize(
        ("before", "after", "told"),
        [(20, 10, 1), (19, 10, 0), (10, 20, 1), (10, 19, 0), (35, 70, 1), (10, 10, 0), (0, 0, 0)],
    )
    def test_a_ridge_of_another_sampling_is_told(self, before, after, told):
        """By its degrees of freedom, one over which is γ."""

        def statistics(freedom, within=np.eye(4)):  # noqa: B008
            return Scatter(np.array([0]), np.array([freedom + 1]), np.ones((1, 4)), within)

        refs = make_route(n_places=12, n_traversals=2, dim=4).references
        fusion = DisPlace(ridge=0.25, center=False).fit_references(refs)
        said = fusion.outgrown(statistics(before), statistics(after))
        assert ("the ridge 0.25 was chosen at γ" in said) == bool(told)
        assert fusion.outgrown(statistics(before, np.empty((0, 0))), statistics(after)) == ""
        state = SimpleNamespace(driving=None)
        assert updating._advice(state, "") == []
        assert len(updating._advice(state, "too large")) == 1

    def test_what_statistics_of_other_references_would_make_of_a_map_is_refused(self):
        refs = make_route(n_places=12, n_traversals=3, dim=4).references
        town = build(refs.without("t2"), "hops", calibration=False)
        for others in (refs, refs.only("t0"), refs.select(refs.places != refs.place_ids[3])):
            arrays = Scatter.of(others.vectors, others.places, means_only=True).to_arrays()
            kept = replace(town.statistics, arrays=arrays)
            with pytest.raises(FormatError, match=r"statistics of the map are damaged: .*they are of"):
                updating.added(replace(town.state, statistics=kept), refs.only("t2"))

    def test_rows_that_no_map_can_have_are_refused(self):
        rows, P = np.eye(3, 2, dtype=np.float32), np.ones((4, 2), np.float32)
        updating._check_outcome(Rows(rows, np.arange(3), P, np.zeros(4)), 4)
        updating._check_outcome(Rows(rows, np.arange(3)), 2)
        holed = np.where(np.eye(4, 2) > 0, np.nan, P)
        for bad, dim in (
            (Rows(rows, np.arange(3), P), 2),
            (Rows(rows, np.arange(3)), 4),
            (Rows(rows[:0], np.arange(0), P), 4),
            (Rows(rows, np.arange(3), holed), 4),
            (Rows(rows, np.arange(3), P, np.array([0, np.inf, 0, 0])), 4),
            (Rows(np.where(rows > 0, np.nan, rows), np.arange(3), P), 4),
        ):
            with pytest.raises(FormatError, match="they make rows that are no numbers"):
                updating._check_outcome(bad, dim)

    def test_references_are_counted(self):
        refs = ReferenceSet(np.eye(3), [0, 1, 0], ["b", "b", "c"])
        assert updating._counted({"a": 5}, refs, gained=True) == {"a": 5, "b": 2, "c": 1}
        assert updating._counted({"a": 5, "b": 2, "c": 1}, refs, gained=False) == {"a": 5}

    def test_an_update_reports_what_it_did(self):
        refs = make_route(n_places=30, n_traversals=4, dim=8).references
        town = build(refs.without("t2", "t3"), calibration=False, keep_references=True)
        update = town.add(refs.only("t2", "t3"))
        assert (update.n_references, update.n_places) == (60, 0)
        assert update.sampling_ratio == pytest.approx((8 / 30, 8 / 90))
        back = town.remove("t3")
        assert back.n_references == -30
        assert town.traversals == {"t0": 30, "t1": 30, "t2": 30}
        with pytest.raises(InputError, match="no traversal 't3'"):
            town.remove("t3")
        with pytest.raises(InputError):
            town.remove(refs.only("t0", "t1", "t2"))


class TestCalibrationRows:
    def test_all_where_they_are_few(self, monkeypatch):
        places = np.tile(np.arange(100), 2)
        monkeypatch.setattr(building, "MAX_CALIBRATION", 200 * 4)
        assert calibration_rows(places, Places(np.arange(100)), 4).tolist() == list(range(200))
        assert len(calibration_rows(places, Places(np.arange(100)), 5)) < 200

    def test_stretches_along_the_route_where_they_are_many(self, monkeypatch):
        n = 40 * building.STRETCHES
        places, route = np.repeat(np.arange(n), 2), np.random.default_rng(0).permutation(n)
        info = Places(np.arange(n), frames=np.argsort(route))
        monkeypatch.setattr(building, "MAX_CALIBRATION", len(places) * 3 // 4)
        rows = calibration_rows(places, info, 3)
        length = int(0.25 * n / building.STRETCHES)
        starts = np.linspace(0, n - length, building.STRETCHES).astype(int)
        chosen = {int(place) for start in starts for place in info.ids[info.order][start : start + length]}
        assert set(places[rows].tolist()) == chosen
        assert len(rows) == 2 * len(chosen)

    def test_each_stretch_has_a_place(self, monkeypatch):
        monkeypatch.setattr(building, "MAX_CALIBRATION", 2)
        rows = calibration_rows(np.arange(91), Places(np.arange(91)), 3)
        assert rows.tolist() == list(range(0, 91, 10))

    @pytest.mark.parametrize(
        ("n_traversals", "n_places", "swapped"),
        [(30, 2, True), (29, 2, False), (30, 3, False), (31, 3, True)],
    )
    def test_swapped_places_and_traversals_are_told(self, n_traversals, n_places, swapped):
        places = np.arange(n_traversals) % n_places
        refs = ReferenceSet(np.eye(n_traversals), places, np.arange(n_traversals))
        if swapped:
            with pytest.raises(InputError, match="seem to be swapped"):
                building._references(refs, None)
        else:
            assert building._references(refs, None)[0] is refs


def test_a_contest_leaves_out_who_cannot_be_solved_in_every_fold():
    refs = make_route(n_places=20, n_traversals=3, dim=30).references
    problem = problem_of(refs)
    held = tuning.Contest(problem, tuning.plan(problem))
    held.run([Contestant(0.0), Contestant(1.0), replace(Contestant(1.0), center=True)])
    assert set(held.hits) == {Contestant(1.0), Contestant(1.0, True)}
    assert all(len(hits) == 3 for hits in held.hits.values())


@pytest.mark.parametrize(
    ("n_places", "n_traversals", "n_folds"),
    [(100, 3, 9), (101, 3, 3), (100, 2, 8), (101, 2, 4), (100, 1, 4), (20, 6, 15), (101, 6, 5)],
)
def test_how_often_traversals_are_held_out_for_the_confidence(n_places, n_traversals, n_folds):
    places = np.tile(np.arange(n_places), n_traversals)
    refs = ReferenceSet(np.ones((len(places), 2)), places, np.repeat(np.arange(n_traversals), n_places))
    assert len(list(learning._plan(refs))) == n_folds


def test_a_budget_of_rows_is_for_places_of_several_views(monkeypatch):
    """With one view a place there is one row, whatever is asked for."""
    asked = []
    real = tuning.decide
    monkeypatch.setattr(
        tuning,
        "decide",
        lambda problem, ridge, center, rows, safer: (
            asked.append(rows) or real(problem, ridge, center, rows, safer)
        ),
    )
    refs = make_route(n_places=20, n_traversals=3, dim=6).references
    DisPlace(n_rows=4).fit(refs.vectors, refs.places, refs.traversals)
    assert asked == ["auto"]
