from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from rich.console import Console

import displace
from displace import ReferenceSet, get_fusion
from displace.advise import Advice, Choice, advise, worth
from displace.advise.recommending import Contender, recommend
from displace.advise.trials import MAX_HELD_OUT
from displace.advise.variation import coverage
from displace.arrays import l2_normalize
from displace.cli.console_advice import advice_table
from displace.errors import InputError, UnknownNameError
from displace.fusion import FUSIONS
from displace.geo import Positions
from displace.places import Places
from displace.synthetic import make_route

pytestmark = pytest.mark.filterwarnings("ignore::displace.errors.ConditioningWarning")


def predict(name, references, names, queries, params=None):
    """Places that a fusion of the traversals `names` finds, called directly."""
    rows = np.array([t in names for t in references.traversals])
    fusion = get_fusion(name)(**(params or {}))
    fusion.fit(references.vectors[rows], references.places[rows], references.traversals[rows])
    return fusion.predict(queries.vectors)


def queries_of(references, name):
    """References of a traversal whose place another traversal has."""
    elsewhere = set(references.places[references.traversals != name].tolist())
    keep = [
        i
        for i, (t, p) in enumerate(zip(references.traversals, references.places, strict=True))
        if t == name and p in elsewhere
    ]
    return references.select(np.array(keep))


def recall(name, references, held_out, names, right=lambda found, place: found == place):
    queries = queries_of(references, held_out)
    found = predict(name, references, names, queries)
    return 100 * np.mean([right(f, p) for f, p in zip(found.tolist(), queries.places.tolist(), strict=True)])


@pytest.fixture(scope="module")
def ragged():
    return make_route(n_places=60, n_traversals=4, dim=16, drop=0.25, seed=3).references


@pytest.fixture(scope="module")
def advice(ragged):
    return advise(ragged)


class TestAgainstLoops:
    @pytest.mark.parametrize("name", FUSIONS.names())
    def test_recall_of_every_fusion_in_every_condition(self, ragged, advice, name):
        (score,) = [s for s in advice.scores if s.choice == Choice(name)]
        names = ragged.traversal_ids.tolist()
        expected = {h: recall(name, ragged, h, set(names) - {h}) for h in names}
        assert {h: estimate.value for h, estimate in score.recalls.items()} == pytest.approx(expected)
        assert score.mean.value == pytest.approx(np.mean(list(expected.values())))

    def test_worth_of_every_traversal(self, ragged, advice):
        names = set(ragged.traversal_ids.tolist())
        fusion = advice.recommended.fusion
        assert advice.recommended.params == {}
        for row in advice.worth:
            t = row.traversal
            gains, losses = [], []
            for h in names - {t}:
                steps = [
                    recall(fusion, ragged, h, {s, t}) - recall(fusion, ragged, h, {s}) for s in names - {h, t}
                ]
                gains.append(np.mean(steps))
                everything = names - {h}
                losses.append(
                    recall(fusion, ragged, h, everything) - recall(fusion, ragged, h, everything - {t})
                )
            assert row.gain.value == pytest.approx(np.mean(gains))
            assert row.loss.value == pytest.approx(np.mean(losses))

    def test_left_out_are_references_that_nobody_else_has(self, ragged, advice):
        for condition in advice.conditions:
            n = len(queries_of(ragged, condition.traversal))
            assert condition.n_queries == n
            assert condition.n_left_out == np.sum(ragged.traversals == condition.traversal) - n

    def test_sizes_are_those_of_maps_of_all_traversals(self, ragged, advice):
        for score in advice.scores:
            if score.storable:
                built = displace.build(ragged, score.choice.make(), dtype="float32", calibration=False)
                assert score.n_bytes == built.nbytes
            else:
                assert score.n_bytes == ragged.vectors.nbytes
        unstorable = {s.choice.fusion for s in advice.scores if not s.storable}
        assert unstorable == {"bsf", "dmat_med", "dmat_min", "std_dmat_min", "subspace"}

    def test_within_metres(self, ragged):
        rng = np.random.default_rng(0)
        points = rng.uniform(0, 100, (60, 2))
        points[::7] = np.nan
        found = advise(ragged, positions=Positions(points), tolerance=20.0, fusions=["hops"])
        at = dict(zip(ragged.place_ids.tolist(), points, strict=True))

        def right(a, b):
            return a == b or bool(np.linalg.norm(at[a] - at[b]) <= 20)

        assert found.protocol == "within 20 m"
        for h in ragged.traversal_ids.tolist():
            own = ragged.only(h)
            others = ragged.without(h)
            near = [any(right(p, o) for o in others.place_ids.tolist()) for p in own.places.tolist()]
            queries = own.select(np.array(near))
            places = get_fusion("hops")().fit(others.vectors, others.places).predict(queries.vectors)
            expected = np.mean(
                [right(f, p) for f, p in zip(places.tolist(), queries.places.tolist(), strict=True)]
            )
            assert found.best.recalls[h].value == pytest.approx(100 * expected)


class TestRecommendation:
    def test_displace_where_conditions_move_all_places_alike(self):
        found = advise(make_route(n_places=150, n_traversals=4, dim=64, nuisance=1.2).references)
        assert found.recommended.fusion == "displace"
        (hops,) = [s for s in found.scores if s.choice.fusion == "hops"]
        assert hops.behind.low > 10
        assert found.best.behind == displace.bootstrap.Estimate(0.0, 0.0, 0.0)
        assert found.settings.startswith("ridge ")

    def test_the_smallest_where_all_are_right(self):
        found = advise(
            make_route(
                n_places=60, n_traversals=3, dim=40, nuisance=0.0, noise=0.1, similarity=0.0
            ).references
        )
        storable = [score for score in found.scores if score.storable]
        assert {score.mean.value for score in storable} == {100.0}
        assert found.best.n_bytes <= 1.1 * min(score.n_bytes for score in storable)

    def test_a_larger_one_where_it_is_shown_to_be_better(self):
        """Few dimensions store less and are worse."""
        choices = [Choice("displace", {"n_components": 2}), Choice("displace", {"tau": 1.0})]
        found = advise(make_route(n_places=100, n_traversals=3, dim=24).references, fusions=choices)
        assert found.recommended == choices[1]
        smaller = next(s for s in found.scores if s.choice == choices[0])
        assert smaller.n_bytes < found.best.n_bytes
        assert smaller.behind.low > 0

    def test_one_that_a_map_cannot_hold_is_compared_but_never_recommended(self, ragged):
        found = advise(ragged, fusions=["single", "dmat_med"])
        assert found.recommended.fusion == "single"
        assert {score.choice.fusion for score in found.scores} == {"single", "dmat_med"}

    def test_builds_a_map(self, ragged, advice):
        town = displace.build(ragged, advice.recommended.make(), calibration=False)
        assert town.fusion == advice.recommended.fusion

    def test_the_paper_where_it_cannot_be_solved(self):
        refs = make_route(n_places=20, n_traversals=3, dim=30).references  # 20 deviations in 30 dimensions
        found = advise(refs, fusions=["displace"])
        (reason,) = found.impossible.values()
        assert list(found.impossible) == ["displace ridge=0 center=False"]
        assert "singular" in reason
        assert len(found.scores) == 2

    def test_the_paper_where_it_can(self, advice):
        assert not advice.impossible
        assert Choice("displace", {"ridge": 0.0, "center": False}) in [s.choice for s in advice.scores]

    def test_on_real_descriptors(self, shared, monkeypatch):
        path = shared / "data" / "sped400_efficientnet_lite0.npz"
        if not path.is_file():
            pytest.skip(f"no {path.name} in the shared data")
        with np.load(path) as arrays:
            refs = ReferenceSet.from_traversals({name: arrays[name] for name in arrays})
        monkeypatch.setattr(worth, "MAX_OPERATIONS", 0.0)  # that part is tested on smaller data
        found = advise(refs, fusions=[Choice("displace"), "hops"], max_queries=200)
        hops = next(s for s in found.scores if s.choice.fusion == "hops")
        assert found.recommended == Choice("displace")
        assert found.best.mean.value > 93
        assert hops.behind.low > 4
        assert found.best.n_bytes < hops.n_bytes
        assert not found.warnings
        assert found.notes[0].startswith("What each traversal is worth was left out")


def test_intervals_along_a_route_are_of_blocks_of_neighbours():
    """A fifth of the route lies in fog in each condition: its places are missed together.

    What frame numbers of places that look nothing like their neighbours are, the tolerance says.
    """
    route = make_route(n_places=200, n_traversals=3, dim=64, seed=3).references
    rng = np.random.default_rng(0)
    vectors = route.vectors.copy()
    for name, start in zip(route.traversal_ids.tolist(), (20, 80, 140), strict=True):
        fog = (route.traversals == name) & np.isin(route.places, route.place_ids[start : start + 40])
        vectors[fog] = rng.normal(size=(fog.sum(), 64))
    frames = np.arange(200.0)
    blind, ordered = (
        advise(
            ReferenceSet(vectors, route.places, route.traversals, info=Places(route.place_ids, frames=along)),
            fusions=["hops"],
            tolerance=tolerance,
        )
        for along, tolerance in ((frames, None), (frames, "0 frames"))
    )
    assert blind.best.mean.block == 1 < ordered.best.mean.block
    assert ordered.best.mean.value == blind.best.mean.value
    for name, estimate in ordered.best.recalls.items():
        narrow = blind.best.recalls[name]
        assert estimate.high - estimate.low > 1.5 * (narrow.high - narrow.low)
    assert max(row.gain.block for row in ordered.worth) > 1
    for found, told in ((blind, "bootstrap of queries"), (ordered, "neighbouring queries")):
        console = Console(width=200)
        with console.capture() as capture:
            console.print(advice_table(found))
        assert told in capture.get()


class TestRule:
    """The choice from hits made up: 400 queries, so that one is 0.25 points."""

    @staticmethod
    def contender(name, n_bytes, n_right, params=None):
        hits = {"rain": np.arange(200) < n_right // 2, "dusk": np.arange(200) < n_right - n_right // 2}
        order = {name: np.full(200, np.nan) for name in hits}
        return Contender(Choice(name, params or {}), n_bytes, True, "", hits, order)

    def test_the_best_where_others_are_shown_to_be_worse(self):
        best = self.contender("pooling", 5000, 300)
        assert recommend([self.contender("hops", 1000, 280), best]) is best

    def test_a_smaller_one_where_it_is_not(self):
        small = self.contender("hops", 1000, 298)
        assert recommend([small, self.contender("pooling", 5000, 300)]) is small

    def test_the_higher_mean_where_sizes_are_about_equal(self):
        best = self.contender("pooling", 1050, 300)
        assert recommend([self.contender("hops", 1000, 298), best]) is best

    def test_defaults_where_other_settings_are_not_shown_to_be_better(self):
        default = self.contender("displace", 1000, 298)
        other = self.contender("displace", 1000, 300, {"tau": 1.0})
        assert recommend([other, default]) is default

    def test_other_settings_where_they_are(self):
        other = self.contender("displace", 1000, 320, {"tau": 1.0})
        assert recommend([self.contender("displace", 1000, 300), other]) is other

    def test_other_settings_where_the_defaults_are_larger(self):
        other = self.contender("displace", 1000, 298, {"tau": 0.5})
        assert recommend([self.contender("displace", 2000, 300), other]) is other


class TestWorth:
    def test_gain_and_loss_are_one_number_with_three_traversals(self):
        found = advise(make_route(n_places=50, n_traversals=3, dim=16).references, fusions=["hops"])
        for row in found.worth:
            assert row.gain == row.loss

    def test_the_only_traversal_with_half_of_the_places(self):
        refs = make_route(n_places=40, n_traversals=4, dim=24, nuisance=0.0, noise=0.2).references
        half = (refs.places < 20) | np.isin(refs.traversals, ["t0", "t1"])
        found = {row.traversal: row for row in advise(refs.select(half), fusions=["hops"]).worth}
        # Without t0, held-out t1 loses 20 of its 40 places, and the other two lose nothing.
        assert found["t0"].loss.value == pytest.approx(50 / 3, abs=2)
        assert found["t3"].loss.value == pytest.approx(0, abs=2)


def coverage_by_hand(refs, h):
    """The documented statistic for traversals that have all places, by loops and a plain SVD."""
    names = refs.traversal_ids.tolist()
    n = len(refs.place_ids)
    X = {t: refs.only(t).vectors.astype(np.float64) for t in names}
    others = [t for t in names if t != h]
    D = refs.vectors.shape[1]
    own, usual = np.zeros(2), np.zeros(2)
    for start in (0, 1):
        learn, judge = np.arange(start, n, 2), np.arange(1 - start, n, 2)
        mean = sum(X[t][learn] for t in others) / len(others)
        shifts = [(X[t][learn] - mean).mean(axis=0) for t in others]
        scattered = np.concatenate(
            [X[t][learn] - mean - shift for t, shift in zip(others, shifts, strict=True)]
        )
        _, s, V = np.linalg.svd(scattered, full_matrices=False)
        known = np.concatenate([V[s**2 > np.sum(s**2) / D], shifts])
        Q, R = np.linalg.qr(known.T)
        Q = Q[:, np.abs(np.diag(R)) > 1e-3 * np.linalg.norm(shifts)]
        for o in others:
            rest = [t for t in others if t != o]
            mu = sum(X[t][judge] for t in rest) / len(rest)
            for t, energy in ((h, own), (o, usual)):
                d = X[t][judge] - mu
                energy += np.sum((d @ Q) ** 2), np.sum(d**2)
    return own[0] / own[1], usual[0] / usual[1]


def with_new_directions(refs, name, strength=0.3):
    """Add variation to one traversal in the eight directions in which references of one place vary least."""
    rng = np.random.default_rng(0)
    centres = np.array([refs.vectors[refs.places == p].mean(axis=0) for p in refs.places])
    deviations = refs.vectors - centres
    directions = np.linalg.eigh(deviations.T @ deviations)[1][:, :8].T
    vectors = refs.vectors.copy()
    at = refs.traversals == name
    vectors[at] += (strength * rng.standard_normal((at.sum(), 8)) @ directions).astype(np.float32)
    return ReferenceSet(l2_normalize(vectors), refs.places, refs.traversals)


class TestVariation:
    @pytest.mark.parametrize(("dim", "n_traversals"), [(12, 3), (12, 4), (90, 4)])
    def test_coverage_against_loops(self, dim, n_traversals):
        refs = make_route(n_places=60, n_traversals=n_traversals, dim=dim).references
        for name in refs.traversal_ids.tolist():
            assert coverage(refs, name) == pytest.approx(coverage_by_hand(refs, name), abs=1e-4)

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("n_traversals", [3, 4, 6])
    @pytest.mark.parametrize("drop", [0.0, 0.3])
    def test_conditions_of_one_kind_are_inside(self, seed, n_traversals, drop):
        refs = make_route(200, n_traversals, 48, drop=drop, seed=seed).references
        for name in refs.traversal_ids.tolist():
            own, usual = coverage(refs, name)
            assert own > 0.93 * usual

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("n_traversals", [3, 4, 6])
    @pytest.mark.parametrize("drop", [0.0, 0.3])
    def test_new_directions_are_outside_and_only_they(self, seed, n_traversals, drop, monkeypatch):
        monkeypatch.setattr(worth, "MAX_OPERATIONS", 0.0)
        refs = make_route(200, n_traversals, 48, drop=drop, seed=seed).references
        found = advise(with_new_directions(refs, "t1"), fusions=["hops"])
        assert [c.traversal for c in found.conditions if c.outside] == ["t1"]
        recalls = {name: estimate.value for name, estimate in found.best.recalls.items()}
        behind = recalls.pop("t1") < np.mean(list(recalls.values()))
        said = [line.partition(": ")[0] for line in found.warnings]
        assert said == ["t1 lies outside the variation of the others"] * int(behind)

    @pytest.mark.parametrize(("recall", "warned"), [(95.0, False), (80.0, False), (79.9, True)])
    def test_a_condition_that_is_found_as_often_as_the_others_is_no_reason_for_a_warning(
        self, advice, recall, warned
    ):
        best = advice.best
        values = dict(zip(best.recalls, [recall, 90.0, 70.0], strict=False))
        recalls = {name: replace(best.recalls[name], value=value) for name, value in values.items()}
        odd = replace(advice.conditions[0], coverage=0.1, usual_coverage=0.9)
        scores = [replace(best, recalls=recalls)]
        found = replace(advice, conditions=[odd], scores=scores)
        assert odd.traversal == next(iter(recalls))
        assert found.conditions[0].outside
        assert bool(found.warnings) == warned
        assert replace(found, scores=[replace(best, recalls={})]).warnings  # it could not be asked

    def test_more_of_known_directions_is_inside(self):
        """A condition twice as strong, made of what the others vary in."""
        route = make_route(300, 4, 48, nuisance=0.5, seed=1).references
        strong = make_route(
            300, 4, 48, nuisance=1.0, seed=1
        ).references  # the same directions: they come first
        rows = route.traversals == "t0"
        vectors = np.where(rows[:, None], strong.vectors, route.vectors)
        own, usual = coverage(ReferenceSet(vectors, route.places, route.traversals), "t0")
        assert own > usual

    def test_too_little_to_say(self):
        assert coverage(make_route(50, 2, 8).references, "t0") is None
        assert coverage(make_route(15, 3, 8).references, "t0") is None

    def test_equal_traversals_say_nothing(self):
        vectors = make_route(50, 1, 8).references.vectors
        refs = ReferenceSet.from_traversals(dict.fromkeys(["a", "b", "c"], vectors))
        assert coverage(refs, "a") is None


class TestBounds:
    def test_queries_are_thinned_evenly_and_always_alike(self):
        refs = make_route(n_places=100, n_traversals=3, dim=16).references
        found = advise(refs, fusions=["hops"], max_queries=30)
        assert [c.n_queries for c in found.conditions] == [30, 30, 30]
        assert found == advise(refs, fusions=["hops"], max_queries=30)
        places = np.linspace(0, 99, 30).astype(int)
        rest, queries = refs.without("t0"), refs.only("t0").vectors[places]
        hits = get_fusion("hops")().fit(rest.vectors, rest.places).predict(queries) == places
        assert found.best.recalls["t0"].value == pytest.approx(100 * hits.mean())

    def test_many_traversals_are_thinned(self):
        refs = make_route(n_places=12, n_traversals=15, dim=8).references
        found = advise(refs, fusions=["hops"])
        assert len(found.conditions) == len(found.worth) == MAX_HELD_OUT

    def test_a_rule_on_sizes_leaves_out_the_worth(self):
        class Sized:
            def __init__(self, places, traversals, dim):
                self.vectors = np.broadcast_to(np.float32(0), (places * traversals, dim))
                self.place_ids = np.arange(places)

            def __len__(self):
                return len(self.vectors)

        assert worth.operations(Sized(3876, 6, 512), 36) < worth.MAX_OPERATIONS  # RobotCar, CosPlace
        assert worth.operations(Sized(27592, 4, 4096), 10) < worth.MAX_OPERATIONS  # Nordland, MixVPR
        assert worth.operations(Sized(27592, 4, 8448), 10) > worth.MAX_OPERATIONS

    def test_progress_counts_every_step_once(self, ragged):
        calls = []
        advise(ragged, fusions=["hops", "single"], progress=lambda done, total: calls.append((done, total)))
        total = 2 * (4 + 1) + 4 + (4 + 6)  # fusions × (folds + all), conditions, single ones and pairs
        assert calls == [(done, total) for done in range(1, total + 1)]

    def test_progress_ends_when_a_fusion_is_not_possible(self):
        calls = []
        refs = make_route(n_places=20, n_traversals=3, dim=30).references
        advise(refs, fusions=["displace"], progress=lambda done, total: calls.append((done, total)))
        assert all(b[0] > a[0] for a, b in pairwise(calls))
        assert calls[-1][0] == calls[-1][1]


class TestDegenerate:
    def test_two_traversals_tell_what_they_can(self):
        found = advise(make_route(n_places=40, n_traversals=2, dim=16).references)
        assert found.recommended == Choice("displace")
        assert found.worth == []
        assert "A third traversal would" in found.notes[0]
        assert len({score.mean.value for score in found.scores if score.choice.fusion != "bsf"}) == 1
        assert all(condition.coverage is None for condition in found.conditions)

    def test_a_traversal_of_other_places_is_listed_and_not_held_out(self):
        refs = make_route(n_places=30, n_traversals=3, dim=16).references
        vectors = np.concatenate([refs.vectors, refs.vectors[:10]])
        places = np.concatenate([refs.places, np.arange(100, 110)])
        names = np.concatenate([refs.traversals, np.repeat("elsewhere", 10)])
        found = advise(ReferenceSet(vectors, places, names), fusions=["hops"])
        (odd,) = [c for c in found.conditions if c.traversal == "elsewhere"]
        assert (odd.n_queries, odd.n_left_out) == (0, 10)
        assert set(found.best.recalls) == {"t0", "t1", "t2"}
        assert "elsewhere" in {row.traversal for row in found.worth}

    def test_without_labels_slots_are_the_traversals(self):
        refs = make_route(n_places=30, n_traversals=3, dim=16).references
        found = advise(ReferenceSet(refs.vectors, refs.places), fusions=["hops"])
        assert list(found.best.recalls) == ["0", "1", "2"]

    def test_positions_that_are_all_unknown_count_for_nothing(self, ragged):
        unknown = Positions(np.full((60, 2), np.nan))
        assert advise(ragged, positions=unknown, fusions=["hops"]) == advise(ragged, fusions=["hops"])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"tolerance": 5.0}, "tolerance=5 m needs positions of the places"),
            (
                {"positions": Positions(np.full((60, 2), np.nan)), "tolerance": 5.0},
                "tolerance=5 m needs positions of the places",
            ),
            ({"tolerance": "2 frames"}, "tolerance='2 frames' needs the order of the places"),
            (
                {"positions": Positions(np.zeros((3, 2)))},
                "positions has 3 entries; the references have 60 places",
            ),
            (
                {"positions": Positions(np.zeros((60, 2))), "tolerance": -1.0},
                "tolerance=-1 must be at least 0",
            ),
            ({"max_queries": 0}, "max_queries=0 must be a whole number of at least 1"),
            ({"fusions": "hops"}, r"fusions='hops' must be a sequence, such as \('hops',"),
            ({"fusions": []}, "fusions is empty; known: bsf"),
            ({"fusions": ["bsf"]}, "none of the fusions bsf can be held by a map"),
        ],
    )
    def test_bad_input_is_named(self, ragged, options, message):
        with pytest.raises(InputError, match=message):
            advise(ragged, **options)

    def test_unknown_names_fail_at_once(self, ragged):
        with pytest.raises(UnknownNameError, match="did you mean 'hops'"):
            advise(ragged, fusions=["hop"])
        with pytest.raises(TypeError, match="taw"):
            advise(ragged, fusions=[Choice("displace", {"taw": 1})])

    def test_one_traversal(self):
        one = advise(make_route(n_places=30, n_traversals=1, dim=16).references)
        assert one.recommended == Choice("displace")
        assert one.best is None
        assert "nothing can be held out" in one.notes[0]
        assert "Places have one image each" in one.notes[1]
        assert "displace locate --adapt batch" in one.notes[2]
        assert Advice.from_json(one.to_json()) == one

    def test_one_traversal_with_many_views(self, ragged):
        views = ReferenceSet(ragged.vectors, ragged.places, ["drive"] * len(ragged))
        one = advise(views)
        assert "one traversal, so nothing is known about how conditions change" in one.settings
        assert "Every image is a row" in one.notes[1]
        console = Console(width=100)
        with console.capture() as captured:
            console.print(advice_table(one))
        assert captured.get().startswith("use displace\n")

    def test_no_place_in_common(self):
        refs = make_route(n_places=30, n_traversals=2, dim=16).references
        apart = ReferenceSet(refs.vectors, np.arange(60), refs.traversals)
        with pytest.raises(InputError, match="nothing can be held out"):
            advise(apart)


class TestShown:
    def test_json_round_trip(self, advice):
        record = json.loads(json.dumps(advice.to_json()))
        assert Advice.from_json(record) == advice
        assert record["recommended"]["fusion"] == advice.recommended.fusion
        assert record["conditions"][0]["outside"] is False

    def test_json_of_a_later_version_is_refused(self, advice):
        with pytest.raises(InputError, match="format=99 of the advice is not 1"):
            Advice.from_json(advice.to_json() | {"format": 99})

    def test_table_of_80_columns(self):
        refs = make_route(200, 4, 48, drop=0.1).references
        found = advise(with_new_directions(refs, "t1"), max_queries=100)
        console = Console(width=80)
        with console.capture() as captured:
            console.print(advice_table(found))
        text = captured.get()
        assert max(map(len, text.splitlines())) <= 80
        assert text.startswith(f"use {found.recommended}: R@1 {found.best.mean} on conditions")
        assert "warning: t1 lies outside" in " ".join(text.split())
        assert "left out, as no other traversal has the place" not in text
        for score in found.scores:
            assert str(score.mean) in text
        for row in found.worth:
            assert any(
                f"{row.traversal} {row.gain} {row.loss}" == " ".join(line.split())
                for line in text.splitlines()
            )

    def test_table_names_what_was_left_out(self, advice):
        console = Console(width=80)
        with console.capture() as captured:
            console.print(advice_table(advice))
        left_out = ", ".join(f"{c.traversal} {c.n_left_out}" for c in advice.conditions if c.n_left_out)
        assert left_out
        assert f"left out, as no other traversal has the place: {left_out}" in " ".join(
            captured.get().split()
        )

    def test_table_of_two_traversals(self):
        found = advise(make_route(n_places=30, n_traversals=2, dim=16).references)
        console = Console(width=80)
        with console.capture() as captured:
            console.print(advice_table(found))
        assert "note: With 2 traversals" in captured.get()


def test_what_adapting_gives_is_told():
    route = make_route(n_places=130, n_traversals=3, dim=24)
    told = advise(route.references, fusions=["hops"]).notes
    (note,) = [
        note for note in told if "(--adapt batch; displace locate does so for 100 or more images)" in note
    ]
    assert "the mean R@1 of 3 held-out traversals by" in note
    assert "points, from" in note
    references = route.references
    _, second, third = np.unique(references.traversals)
    keep = (references.traversals != second) | (references.places < 90)
    keep &= (references.traversals != third) | (references.places >= 40)
    one = advise(references.select(keep), fusions=["hops"]).notes
    assert any("the mean R@1 of 1 held-out traversal by" in note for note in one)
    few = advise(make_route(n_places=40, n_traversals=3, dim=24).references, fusions=["hops"]).notes
    assert not [note for note in few if "adapt" in note]


def test_a_fusion_that_needs_a_parameter_is_named_where_all_are_compared(monkeypatch):
    """That of another package ended every advice in its traceback."""

    class Needy(get_fusion("hops")):
        """It has a parameter without a default."""

        def __init__(self, power):
            self.power = power

    monkeypatch.setattr(FUSIONS, "usable", lambda: {"needy": Needy, "hops": get_fusion("hops")})
    monkeypatch.setitem(FUSIONS._found, "needy", Needy)
    found = advise(make_route(n_places=40, n_traversals=3, dim=16).references)
    assert "missing 1 required positional argument: 'power'" in found.impossible["needy"]
    assert found.recommended.fusion == "hops"


def test_a_fusion_that_fails_is_named_and_the_others_are_compared(monkeypatch):
    """A fault of another package's fusion ended the advice in its traceback."""

    class Failing(get_fusion("hops")):
        """It fails."""

        def _fit(self, X, index, traversals):
            raise TypeError("boom")

    monkeypatch.setitem(FUSIONS._found, "failing", Failing)
    refs = make_route(n_places=40, n_traversals=3, dim=16).references
    found = advise(refs, fusions=["failing", "hops"])
    line = Failing._fit.__code__.co_firstlineno + 1
    assert found.impossible == {"failing": f"TypeError: boom (test_advise.py, line {line})"}
    assert found.recommended.fusion == "hops"
    with pytest.raises(InputError, match=r"can be held by a map and fitted .*boom"):
        advise(refs, fusions=["failing"])


def test_settings_that_are_numbers_of_numpy_are_written(tmp_path):
    refs = make_route(n_places=30, n_traversals=3, dim=12).references
    advice = advise(refs, fusions=[Choice("displace", {"n_components": np.int64(5)}), "hops"])
    assert Advice.from_json(json.loads(json.dumps(advice.to_json()))) == advice
