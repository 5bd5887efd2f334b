"""Studies: numbers against refits and plain loops, choices against brute force, files back and forth."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from itertools import combinations

import numpy as np
import pytest
from routes import make_store, make_suite
from sklearn.random_projection import GaussianRandomProjection
from typer.testing import CliRunner

from displace import DisPlace, ReferenceSet, recall_at, verbs
from displace.cli import app
from displace.datasets.base import Protocol
from displace.errors import ConditioningWarning, FormatError, InputError
from displace.evaluation import studies
from displace.evaluation.benchmark import run_suite
from displace.evaluation.methods import Method
from displace.evaluation.results import Results
from displace.evaluation.studies import compression, cost, running, study_files
from displace.evaluation.studies.qualitative import CASES, _cases, choose_columns
from displace.evaluation.studies.task import METHODS, PAPER
from displace.fusion import FUSIONS
from displace.fusion.hops import Hops
from displace.report.colours import CONDITIONS, style_of, styles_of
from displace.synthetic import make_route
from displace.truth import SamePlace, Tolerance, WithinFrames


@pytest.fixture(scope="module")
def route():
    return make_route(n_places=60, n_traversals=3, dim=48, noise=0.8, seed=3)


@pytest.fixture(scope="module")
def task(route):
    return studies.Task.of(
        route.references, route.queries, SamePlace(route.truth), query="night", dataset="generated"
    )


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def hops_recall(refs, queries, truth):
    """R@1 of the normalised sum, place by place."""
    fused = np.stack(
        [unit(refs.vectors[refs.places == place].sum(axis=0)) for place in np.unique(refs.places)]
    )
    return 100 * np.mean(
        [np.argmax(fused @ query) == place for query, place in zip(queries, truth, strict=True)]
    )


def test_hits_are_those_of_the_rule(route):
    rule = WithinFrames(route.truth, 2)
    task = studies.Task.of(route.references, route.queries, rule)
    places = np.random.default_rng(0).integers(0, 60, 60)
    np.testing.assert_array_equal(task.hits(places), np.abs(places - route.truth) <= 2)
    assert task.correct.of(0).tolist() == [0, 1, 2]
    assert task.setting.protocol == "±2 frames"


def test_truth_of_another_length_is_refused(route):
    with pytest.raises(InputError, match="truth is for 59 queries, and queries has 60"):
        studies.Task.of(route.references, route.queries, SamePlace(route.truth[1:]))


def test_a_task_takes_truth_as_recall_does(route, task):
    for truth in (route.truth, route.truth.tolist(), [{place} for place in route.truth.tolist()]):
        made = studies.Task.of(route.references, route.queries.tolist(), truth)
        np.testing.assert_array_equal(made.correct.places, task.correct.places)
        np.testing.assert_array_equal(made.correct.starts, task.correct.starts)
    with pytest.raises(InputError, match="queries have 5 dimensions; the references have 48"):
        studies.Task.of(route.references, route.queries[:, :5], route.truth)
    with pytest.raises(InputError, match="tasks must be a sequence"):
        studies.study_tau(task)


def test_studies_of_descriptors_that_were_changed_are_refused(tmp_path):
    """Tables were of the old descriptors, and the studies beside them of the new ones."""
    store = make_store(tmp_path / "made.desc")
    run_suite(make_suite({"made": store.folder}), tmp_path / "results")
    shutil.rmtree(store.folder)
    make_store(tmp_path / "made.desc", seed=1)
    with pytest.raises(InputError, match="descriptors or places were changed since; give that store, or run"):
        running.run_studies(Results.open(tmp_path / "results"), ["tau"])


def test_compression_is_mean_and_deviation_over_projections(task, route):
    found = studies.study_compression(task, dims=(12, 24), seeds=(5, 6, 7))
    assert (found.dims, found.seeds) == ([12, 24], [5, 6, 7])
    hops = next(curve for curve in found.curves if curve.label == "HOPS")
    refs = route.references
    for at, dim in enumerate((12, 24)):
        recalls = []
        for seed in (5, 6, 7):
            sketch = GaussianRandomProjection(dim, random_state=seed).fit(np.zeros((1, 48)))
            projected = ReferenceSet(sketch.transform(refs.vectors), refs.places, refs.traversals)
            recalls.append(hops_recall(projected, sketch.transform(route.queries), route.truth))
        assert hops.means[at] == pytest.approx(np.mean(recalls), abs=1e-3)
        assert hops.deviations[at] == pytest.approx(np.std(recalls, ddof=1), abs=1e-3)
    assert hops.full == pytest.approx(hops_recall(refs, route.queries, route.truth))
    assert hops.means[1] > hops.means[0]


def test_projection_after_fusion_is_of_the_fused_vectors(task, route):
    methods = METHODS
    found = studies.study_compression(task, dims=(12, 40), seeds=(5, 6), methods=methods, after_fusion=True)
    before = studies.study_compression(task, dims=(12, 40), seeds=(5, 6), methods=methods)
    assert (found.where, before.where) == ("projected after fusion", "projected before fusion")
    assert studies.study_compression(task, seeds=(5,), methods=methods, after_fusion=True).dims == [
        4,
        8,
        16,
        32,
    ]
    curves = {curve.label: curve for curve in found.curves}
    # A sum and its projection commute: the order makes no difference to HOPS and to single references.
    for curve in before.curves:
        assert curves[curve.label].full == curve.full
        if curve.label in ("HOPS", "Best single"):
            assert curves[curve.label] == curve
    refs = route.references
    fusion = DisPlace().fit(refs.vectors, refs.places, refs.traversals)
    n = fusion.n_components_
    assert 12 < n <= 40
    recalls = []
    for seed in (5, 6):
        sketch = GaussianRandomProjection(12, random_state=seed).fit(np.zeros((1, n)))
        places = unit(sketch.transform(fusion.place_vectors_))
        best = np.argmax(unit(sketch.transform(fusion.transform(route.queries))) @ places.T, axis=1)
        recalls.append(100 * np.mean(best == route.truth))
    assert curves["DisPlace"].means == [pytest.approx(np.mean(recalls), abs=1e-3), None]
    assert curves["DisPlace"].means[0] != before.curves[-1].means[0]
    for label in ("dMat. Avg.", "Pooling"):
        assert curves[label].means == [None, None]
    assert found.notes == [
        "dMat. Avg., Pooling: not applicable after fusion, without one vector for each place",
        f"DisPlace: fused vectors of {n} dimensions, to be projected to fewer only",
    ]


def test_numbers_of_numpy_may_be_asked_for(task, tmp_path):
    """`np.arange` and `np.linspace` ended in "the truth value of an array is ambiguous"."""
    some, asked = METHODS[3:], np.arange(2)
    for study in (
        studies.study_compression(task, dims=np.arange(8, 17, 8), seeds=asked, methods=some),
        studies.study_tau([task], taus=np.linspace(0.5, 1, 3, dtype=np.float32)),
        studies.study_examples(task, some, rows=asked),
        studies.study_space(task, row=asked[1]),
        studies.study_cost(task, methods=some, repeats=np.int64(1), n_timed=1),
    ):
        study_files.save_study(study, tmp_path / "study.json")
        assert study_files.load_study(tmp_path / "study.json").setting == study.setting


class Signed(Hops):
    """Compares signs, in a way that no map can store."""

    def _project(self, Q):
        return np.sign(Q) / np.sqrt(Q.shape[1])


def test_a_fusion_that_projects_in_its_own_way_does_not_end_a_study_after_fusion(task, monkeypatch):
    monkeypatch.setitem(FUSIONS._found, "signed", Signed)
    methods = (Method("signed"), Method("hops"))
    found = studies.study_compression(task, dims=(12,), seeds=(5,), methods=methods, after_fusion=True)
    assert [curve.means[0] is None for curve in found.curves] == [True, False]
    assert found.curves[0].full is not None
    assert found.notes[0].startswith("Signed: Signed projects queries in a way of its own")


def test_projected_cells_of_a_suite_make_the_same_study(task, route, tmp_path):
    """Recalls of the cells, by seed and dimension, come out as mean and deviation."""
    from displace.evaluation.record import Result

    rng = np.random.default_rng(0)
    recalls, cells = {}, []
    for label, fusion, group in (
        ("sun", "single", "single"),
        ("rain", "single", "single"),
        ("HOPS", "hops", "descriptor"),
    ):
        for dim, seed in ((None, 0), (8, 0), (8, 1), (16, 0), (16, 1)):
            recalls[label, dim, seed] = float(rng.uniform(0, 100))
            parameters = {"traversal": label} if group == "single" else {}
            error = "singular" if (label, dim) == ("HOPS", 16) else ""
            cells.append(
                Result(
                    f"{len(cells)}", "town", "town-1", "±1 frames", "hog", fusion, parameters, label, group, "night",
                    ["sun", "rain"], dim or 32, projection=dim, seed=seed, error=error,
                    recalls={} if error else {1: recalls[label, dim, seed]},
                )
            )  # fmt: skip
    (study,) = compression.compressions_of(cells)
    assert (study.dims, study.seeds, study.setting.dim) == ([8, 16], [0, 1], 32)
    single, hops = study.curves
    best = [
        [max(recalls["sun", dim, seed], recalls["rain", dim, seed]) for seed in (0, 1)] for dim in (8, 16)
    ]
    np.testing.assert_allclose(single.means, np.mean(best, axis=1), atol=1e-4)
    np.testing.assert_allclose(single.deviations, np.std(best, axis=1, ddof=1), atol=1e-4)
    assert single.full == pytest.approx(max(recalls["sun", None, 0], recalls["rain", None, 0]), abs=1e-4)
    assert (single.label, single.plain) == ("Best single", True)
    assert hops.means == [pytest.approx((recalls["HOPS", 8, 0] + recalls["HOPS", 8, 1]) / 2, abs=1e-4), None]
    assert study.notes == ["HOPS was not possible at D=16: singular"]
    assert compression.compressions_of([cell for cell in cells if cell.projection is None]) == []


def test_best_single_is_the_best_of_all_traversals(task, route):
    found = studies.study_compression(task, dims=(24,), seeds=(0,))
    alone = [
        np.mean(np.argmax(unit(route.queries) @ unit(refs.vectors).T, axis=1) == route.truth)
        for refs in (route.references.only(name) for name in route.references.traversal_ids)
    ]
    assert found.curves[0].label == "Best single"
    assert found.curves[0].full == pytest.approx(100 * max(alone))


def test_what_cannot_be_fitted_is_told_and_left_empty():
    route = make_route(n_places=20, n_traversals=2, dim=48)
    task = studies.Task.of(route.references, route.queries, SamePlace(route.truth))
    found = studies.study_compression(task, dims=(8, 40), seeds=(0,), methods=[PAPER])
    assert found.curves[0].means[0] is not None
    assert found.curves[0].means[1] is None
    assert found.curves[0].full is None
    (told,) = found.notes  # once for all dimensions
    assert told.startswith(
        "DisPlace (paper) was not possible at D=40, 48; at D=48: the within-place scatter is singular"
    )
    rows = studies.study_cost(task, methods=[PAPER, METHODS[3]], repeats=1, n_timed=2)
    assert [row.label for row in rows.rows] == ["HOPS"]
    assert "DisPlace (paper)" in rows.notes[0]


def test_a_method_that_fails_does_not_end_a_study(task, monkeypatch):
    """A fusion of somebody else's, after an hour of the others."""

    def fails(*_):
        raise ValueError("no such file: weights.bin")

    monkeypatch.setattr(Hops, "_fit", fails)
    methods = [METHODS[3], Method("pooling")]
    line = fails.__code__.co_firstlineno + 1
    why = f"ValueError: no such file: weights.bin (test_evaluation_studies.py, line {line})"
    cost = studies.study_cost(task, methods, repeats=1, n_timed=2)
    assert ([row.label for row in cost.rows], cost.notes) == (["Pooling"], [f"HOPS: {why}"])
    for after in (False, True):
        found = studies.study_compression(task, (8,), (0,), methods, after_fusion=after)
        assert (found.curves[0].full, found.curves[0].means) == (None, [None])
        assert f"HOPS was not possible at D={'48' if after else '8, 48'}: {why}" in found.notes
        assert found.curves[1].full is not None


@pytest.mark.parametrize(
    ("dims", "seeds", "message"),
    [
        ((0,), (0,), "dims has 0"),
        ((48,), (0,), "below the descriptors' own 48"),
        (None, (), "seeds is empty"),
    ],
)
def test_compression_refuses(task, dims, seeds, message):
    with pytest.raises(InputError, match=message):
        studies.study_compression(task, dims=dims, seeds=seeds)


def test_compression_is_of_all_methods_of_the_tables(task):
    """Every fusion there is, the best single reference, and DisPlace in both settings; five of them once."""
    found = studies.study_compression(task, dims=(24,), seeds=(0,))
    labels = [curve.label for curve in found.curves]
    wanted = [
        "dMat. Avg.",
        "dMat. Min.",
        "Std. dMat. Min.",
        "dMat. Med.",
        "BSF",
        "Pooling",
        "HOPS",
        "DisPlace",
    ]
    assert labels[0] == "Best single"
    assert set(labels) >= {*wanted, "DisPlace (paper)"}
    assert {curve.fusion for curve in found.curves} == set(FUSIONS.names())


def test_tau_has_the_papers_setting_beside_ours(task, route):
    taus = (0.3, 0.95)
    found = studies.study_tau([task], taus)
    ours, paper = found.curves
    assert (ours.label, paper.label) == ("DisPlace", "DisPlace (paper)")
    assert (ours.plain, paper.plain) == (True, False)
    assert paper.settings == "ridge 0, not centred"
    assert ours.settings != paper.settings
    refs = route.references
    for tau, recall, n in zip(taus, paper.recalls, paper.dims, strict=True):
        with pytest.warns(ConditioningWarning):
            refit = DisPlace(tau=tau, ridge=0.0, center=False).fit(refs.vectors, refs.places, refs.traversals)
        assert n == refit.n_components_
        assert recall == pytest.approx(recall_at(refit.rank(route.queries, k=1), route.truth)[1])


def test_the_heading_of_a_tau_study_names_all_of_its_conditions(task):
    assert study_files.about(studies.study_tau([task], (0.95,))) == str(task.setting)
    both = studies.study_tau([task, dataclasses.replace(task, query="dusk")], (0.95,))
    told = "generated, night, dusk, each against its own references; descriptors, 48-D; protocol exact place"
    assert study_files.about(both) == told


def test_where_the_papers_setting_is_singular_the_study_says_so():
    route = make_route(n_places=20, n_traversals=2, dim=48)
    task = studies.Task.of(route.references, route.queries, SamePlace(route.truth), query="night")
    tau = studies.study_tau([task], (0.5, 1.0))
    ours, paper = tau.curves
    assert len(ours.recalls) == 2
    assert (paper.recalls, paper.dims) == ([], [])
    assert "singular" in paper.error
    (note,) = tau.notes
    assert note.startswith("DisPlace (paper) was not possible on night: the within-place scatter is singular")
    space = studies.study_space(task, row=0, n_places=5)
    assert [view.title for view in space.views] == ["HOPS's space", "DisPlace's space"]
    examples = studies.study_examples(task)
    assert [column.picks[-1].label for column in examples.columns] == ["DisPlace"] * len(examples.columns)
    assert all("DisPlace (paper) was not possible" in study.notes[-1] for study in (space, examples))


def test_the_four_cases_of_the_paper():
    route = make_route(n_places=150, n_traversals=3, dim=32, noise=1.6, seed=2)
    task = studies.Task.of(route.references, route.queries, SamePlace(route.truth))
    found = studies.study_examples(task, cases=True)
    assert found.rule.startswith("the four cases of the paper")
    right = {column.case: {pick.label: pick.right for pick in column.picks} for column in found.columns}
    assert list(right) == [case for case in CASES if case in right]
    assert len(right) >= 3
    assert len(found.notes) == 4 - len(right)
    for case, picks in right.items():
        scores = picks["dMat. Avg."] or picks["Pooling"]
        assert picks["DisPlace"] == (case != CASES[3])
        if case == CASES[0]:
            assert not any((picks["Best single"], scores, picks["HOPS"]))
        if case == CASES[1]:
            assert picks["HOPS"]
            assert not scores
        if case == CASES[2]:
            assert scores
            assert not picks["HOPS"]
    with pytest.raises(InputError, match="needs the default methods"):
        studies.study_examples(task, METHODS[3:], cases=True)


def test_each_case_is_told_from_those_that_almost_are_one():
    hits = np.array(
        [  # rows: single, average, pooling, HOPS, DisPlace; columns: queries
            [1, 0, 0, 0, 0, 0, 0],  # single is right too, so query 0 is not of the first case
            [0, 0, 0, 1, 0, 0, 0],
            [0, 0, 0, 0, 1, 0, 0],
            [0, 0, 1, 1, 0, 0, 1],
            [1, 1, 1, 1, 1, 0, 0],
        ],
        bool,
    )
    assert _cases(hits, METHODS, []) == [(1, CASES[0]), (2, CASES[1]), (4, CASES[2]), (6, CASES[3])]


def test_queries_can_be_asked_for_by_number(task):
    found = studies.study_examples(task, rows=(7, 3))
    assert [column.row for column in found.columns] == [7, 3]
    assert studies.study_space(task, row=7, n_places=5).row == 7
    with pytest.raises(InputError, match="rows has 60; it must be at least 0 and below 60"):
        studies.study_examples(task, rows=(60,))


def test_options_make_another_study_in_the_place_of_the_first(two_protocols):
    results = two_protocols.select(protocol="made-2")
    options = running.StudyOptions(numbers=(5,), rounds=2)
    (first,) = running.run_studies(results, ["space"])
    (asked,) = running.run_studies(results, ["space"], options=options)
    assert first != asked
    assert not first.exists()
    (study,) = study_files.load_studies(results.folder)
    assert (study.row, study.reason) == (5, "chosen by the user")
    (path,) = running.run_studies(results, ["cost"], options=options)
    assert study_files.load_study(path).repeats == 2


def test_cut_eigenvectors_are_those_of_a_refit(task, route):
    taus = (0.3, 0.6, 0.95, 1.0)
    found = studies.study_tau([task], taus)
    refs = route.references
    default = DisPlace().fit(refs.vectors, refs.places, refs.traversals)
    curve = found.curves[0]
    for tau, recall, n in zip(taus, curve.recalls, curve.dims, strict=True):
        refit = DisPlace(tau=tau, ridge=default.ridge_, center=default.center_)
        refit.fit(refs.vectors, refs.places, refs.traversals)
        assert n == refit.n_components_
        assert recall == pytest.approx(recall_at(refit.rank(route.queries, k=1), route.truth)[1])
    assert curve.dims == sorted(curve.dims)
    assert len(set(curve.dims)) == len(taus)
    assert curve.baseline == pytest.approx(hops_recall(refs, route.queries, route.truth))
    assert found.default == 0.95


def test_tau_refuses(task):
    with pytest.raises(InputError, match=r"taus has 1\.5"):
        studies.study_tau([task], (0.5, 1.5))
    with pytest.raises(InputError, match="tasks is empty"):
        studies.study_tau([])
    single = make_route(n_places=10, n_traversals=1, dim=8)
    one = studies.Task.of(single.references, single.queries, SamePlace(single.truth))
    with pytest.raises(InputError, match="no projection to cut"):
        studies.study_tau([one])


def test_columns_show_frequent_patterns_and_a_loss():
    rng = np.random.default_rng(1)
    hits = rng.random((4, 500)) < np.array([0.3, 0.4, 0.5, 0.97])[:, None]
    chosen = choose_columns(hits, 4)
    patterns = ["".join("01"[int(flag)] for flag in hits[:, row]) for row in range(500)]
    counts = {p: patterns.count(p) for p in set(patterns) if p not in ("0000", "1111")}
    frequent = sorted(counts, key=lambda p: (-counts[p], patterns.index(p)))
    shown = [patterns[row] for row in chosen]
    assert len(set(shown)) == 4
    assert set(shown[:3]) == set(frequent[:3])
    assert [p for p in shown if p.endswith("0")] == [next(p for p in frequent if p.endswith("0"))]
    assert shown[-1].endswith("0")


def test_methods_that_never_differ_have_no_columns():
    assert choose_columns(np.ones((3, 10), bool), 4) == []


def test_picks_are_what_the_methods_find(route):
    images = [f"q{row}.jpg" for row in range(60)], [f"p{row}.jpg" for row in range(60)]
    task = studies.Task.of(
        route.references,
        route.queries,
        SamePlace(route.truth),
        query_images=images[0],
        place_images=images[1],
    )
    found = studies.study_examples(task, n_columns=3)
    assert len(found.columns) == 3
    fusion = DisPlace().fit(route.references.vectors, route.references.places, route.references.traversals)
    places = fusion.predict(route.queries)
    for column in found.columns:
        assert {pick.right for pick in column.picks} == {True, False}
        own = column.picks[-2]
        assert column.picks[-1].label == "DisPlace (paper)"
        assert (own.label, own.place) == ("DisPlace", str(places[column.row]))
        assert own.right == (places[column.row] == route.truth[column.row])
        assert own.image == f"p{own.place}.jpg"
        assert (column.query_image, column.truth_place) == (f"q{column.row}.jpg", str(column.row))
        assert column.truth_image == f"p{column.row}.jpg"
    assert found == studies.study_examples(task, n_columns=3)


def test_space_marks_truth_and_confounder(task, route):
    found = studies.study_space(task, n_places=12)
    refs, query = route.references, unit(route.queries[found.row])
    fused = np.stack([unit(refs.vectors[refs.places == place].sum(axis=0)) for place in range(60)])
    scores = fused @ query
    assert found.truth == str(route.truth[found.row])
    assert found.confounder == str(np.argmax(scores))  # HOPS is wrong here
    before, after, paper = found.views
    assert paper.title == "DisPlace (paper)'s space"
    assert paper.dim != after.dim
    assert before.confounder == pytest.approx(scores.max(), abs=1e-5)
    assert before.truth == pytest.approx(scores[route.truth[found.row]], abs=1e-5)
    assert after.truth > after.confounder  # and DisPlace is right
    assert len(before.points) == len(after.points) == len(found.roles) == 12 * 3 + 1
    assert [found.roles.count(role) for role in ("truth", "confounder", "query")] == [3, 3, 1]
    assert {p for p, role in zip(found.places, found.roles, strict=True) if role == "confounder"} == {
        found.confounder
    }
    margins = {
        row: (fused @ unit(route.queries[row])).max() - fused[row] @ unit(route.queries[row])
        for row in range(60)
    }
    own = DisPlace().fit(refs.vectors, refs.places, refs.traversals).predict(route.queries)
    mended = [row for row in range(60) if margins[row] > 0 and own[row] == row]
    assert found.row == max(mended, key=margins.get)


def test_space_marks_every_right_place_within_a_tolerance(route):
    refs, rule = route.references, WithinFrames(route.truth, 2)
    task = studies.Task.of(refs, route.queries, rule, query_places=route.truth.tolist())
    hops, own = (made().fit_references(refs) for made in (Hops, DisPlace))
    found = own.predict(route.queries)
    near = (np.abs(found - route.truth) <= 2) & (found != route.truth)
    wrong = np.abs(hops.predict(route.queries) - route.truth) > 2
    row = int(np.flatnonzero(near & wrong)[0])
    space = studies.study_space(task, row=row, n_places=30)
    assert space.truth == str(route.truth[row])
    assert str(found[row]) in space.right
    assert all(abs(int(place) - route.truth[row]) <= 2 for place in space.right)
    assert space.right_text == f"{len(space.right)} right places, such as {route.truth[row]}"
    assert space.views[0].truth < space.views[0].confounder
    assert (
        space.views[1].truth > space.views[1].confounder
    )  # DisPlace is right, whichever right place it finds
    assert space.views[1].truth == pytest.approx(
        float(own.rank(route.queries[[row]], 1).scores[0, 0]), abs=1e-5
    )


def test_the_layout_starts_from_the_principal_components_whatever_the_seed(task):
    one, other = (studies.study_space(task, n_places=8, seed=seed).views[0].points for seed in (0, 1))
    np.testing.assert_allclose(one, other, atol=0.05 * np.ptp(one))


def test_space_refuses(task):
    with pytest.raises(InputError, match="row=60 must be at least 0 and below 60"):
        studies.study_space(task, row=60)
    with pytest.raises(InputError, match="n_places=2"):
        studies.study_space(task, n_places=2)


def test_cost_counts_bytes_and_interleaves(task, monkeypatch):
    order = []
    monkeypatch.setattr(
        cost,
        "_milliseconds",
        lambda done, sample: order.append(done.method.label) or float(len(order)),
    )
    found = studies.study_cost(task, methods=METHODS, repeats=5, n_timed=3)
    labels = [method.label for method in METHODS]
    rounds = [order[start : start + 5] for start in range(0, 25, 5)]
    assert all(sorted(turn) == sorted(labels) for turn in rounds)
    assert [turn[0] for turn in rounds] == labels
    rows = {row.label: row for row in found.rows}
    assert rows["HOPS"].n_bytes == 60 * 48 * 4
    assert rows["Pooling"].n_bytes == rows["dMat. Avg."].n_bytes == 3 * 60 * 48 * 4
    calls = [number for number, label in enumerate(order, 1) if label == "HOPS"]
    assert rows["HOPS"].milliseconds == np.median(calls)
    assert rows["HOPS"].recall_low < rows["HOPS"].recall < rows["HOPS"].recall_high


def test_cost_measures_every_fusion(task):
    found = studies.study_cost(task, repeats=2, n_timed=2)
    assert {row.fusion for row in found.rows} == set(FUSIONS.names())
    assert found.device
    assert found.measured == (
        f"one thread of {found.device}; median and quartiles of 2 interleaved rounds of 2 queries"
    )
    assert all(0 < row.milliseconds_low <= row.milliseconds <= row.milliseconds_high for row in found.rows)


@pytest.fixture(scope="module")
def finished(task):
    return [
        studies.study_cost(task, methods=METHODS, repeats=1, n_timed=1),
        studies.study_space(task, n_places=5),
        studies.study_examples(task),
        studies.study_tau([task]),
        studies.study_compression(task, dims=(16,), seeds=(0, 1)),
    ]


def test_studies_come_back_from_disk(finished, tmp_path):
    for study in finished:
        study_files.save_study(
            study, study_files.study_path(tmp_path, study_files.kind_of(study), "own data", "night")
        )
    loaded = study_files.load_studies(tmp_path)
    assert [study_files.kind_of(study) for study in loaded] == list(study_files.KINDS)
    assert sorted(map(repr, loaded)) == sorted(map(repr, finished))


def test_studies_of_before_there_was_a_choice_are_of_projected_descriptors(finished, tmp_path):
    path = tmp_path / "study.json"
    study_files.save_study(finished[-1], path)
    record = json.loads(path.read_text("utf-8"))
    assert record.pop("after_fusion") is False
    path.write_text(json.dumps(record))
    assert study_files.load_study(path) == finished[-1]


@pytest.fixture
def two_protocols(tmp_path):
    """Results of one store under two protocols."""
    store = make_store(tmp_path / "made.desc", dim=40)
    suite = make_suite({"made": store.folder}, queries=("night", "sun"))
    run_suite(suite, tmp_path / "results")
    near = Protocol("made-2", Tolerance("frames", 2))
    run_suite(dataclasses.replace(suite, protocol=near), tmp_path / "results")
    return Results.open(tmp_path / "results")


def test_each_protocol_has_its_own_study(two_protocols):
    written = running.run_studies(two_protocols, ["qualitative", "tau"], query="sun")
    assert len(set(written)) == 4
    found = study_files.load_studies(two_protocols.folder)
    topics = [study_files.topic_of(study) for study in found]
    # The study of τ covers all queries, whichever is asked for.
    assert sorted(topics) == sorted(
        (kind, "made", protocol, "made", query)
        for kind, query in (("qualitative", "sun"), ("tau", "night"))
        for protocol in ("made-exact", "made-2")
    )
    exact, near = (
        study.curves[0].recalls[-1]
        for name in ("made-exact", "made-2")
        for study in found
        if (study_files.kind_of(study), study.setting.protocol) == ("tau", name)
    )
    assert exact < near


def test_a_kept_study_stays_until_it_covers_something_else(two_protocols, monkeypatch):
    results = two_protocols.select(protocol="made-2")

    def run(**options):
        (path,) = running.run_studies(results, ["cost"], **options)
        return path, path.stat().st_mtime_ns

    methods = [METHODS[3]]

    def study(task, **given):
        return studies.study_cost(task, repeats=1, n_timed=1, **given)

    monkeypatch.setitem(running._STUDIES, "cost", (study, lambda: methods))
    first = run()
    assert run() == first
    methods.append(Method("pooling"))  # as an installed package does
    second = run()
    assert second[0] != first[0]
    (study,) = study_files.load_studies(results.folder)
    assert [row.label for row in study.rows] == ["HOPS", "Pooling", "DisPlace"]
    monkeypatch.setattr(Method, "source", property(lambda method: f"edited {method.fusion}"))
    assert run()[0] not in (first[0], second[0])  # the curve of its earlier code stayed
    assert len(study_files.load_studies(results.folder)) == 1
    run(query="sun")
    assert len(study_files.load_studies(results.folder)) == 2


def test_studies_compare_the_rows_of_the_tables(tmp_path, monkeypatch):
    """Under other names, with other settings, the table had one number and the study another."""
    store = make_store(tmp_path / "made.desc", dim=40)
    own = Method("bsf", {"selection": 0.0}, "BSF, best only")
    suite = make_suite({"made": store.folder})
    run_suite(
        dataclasses.replace(suite, methods=(own, Method("hops", label="Sum"))),
        tmp_path / "results",
    )
    compared = [Method("bsf"), METHODS[3]]
    monkeypatch.setitem(running._STUDIES, "compression", (studies.study_compression, lambda: compared))
    results = Results.open(tmp_path / "results")
    running.run_studies(results, ["compression"])
    (study,) = study_files.load_studies(results.folder)
    assert [curve.label for curve in study.curves] == ["BSF", "Sum", "BSF, best only"]
    # Without a label of its own it had the name of the default that stood beside it.
    own = Method("bsf", {"selection": 1.0})
    run_suite(dataclasses.replace(suite, methods=(own, Method("hops"))), tmp_path / "again")
    again = Results.open(tmp_path / "again")
    running.run_studies(again, ["compression"])
    (other,) = study_files.load_studies(again.folder)
    assert [(curve.label, curve.plain) for curve in other.curves] == [("HOPS", True), ("BSF", False)]
    for result in results.select(query=study.setting.query):
        (full,) = (curve.full for curve in study.curves if curve.label == result.label)
        assert full == pytest.approx(result.recalls[1], abs=1e-3)


def test_single_queries_are_shown_of_fusions_from_other_packages_too(tmp_path, monkeypatch):
    """One's own method was in the tables and in no picture."""
    store = make_store(tmp_path / "made.desc", dim=40)
    own = Method("bsf", {"selection": 0.0}, "Ours")
    suite = dataclasses.replace(
        make_suite({"made": store.folder}), methods=(own, Method("dmat_med"), Method("hops"))
    )
    run_suite(suite, tmp_path / "results")
    monkeypatch.setattr(Method, "source", property(lambda method: "code" * (method.fusion == "bsf")))
    results, labels = Results.open(tmp_path / "results"), []
    for options in (None, running.StudyOptions(cases=True)):  # the paper's cases are about its methods
        running.run_studies(results, ["qualitative"], options=options)
        (study,) = study_files.load_studies(results.folder)
        labels.append([pick.label for pick in study.columns[0].picks])
    paper = ["Best single", "dMat. Avg.", "Pooling", "HOPS", "DisPlace", "DisPlace (paper)"]
    assert labels == [[*paper[:4], "Ours", *paper[4:]], paper]


def test_studies_are_of_the_descriptors_of_the_last_run(tmp_path):
    first, second = (make_store(tmp_path / f"{seed}.desc", seed=seed) for seed in (0, 1))
    suite = make_suite({"made": first.folder})
    recalls = []
    for store in (first, second, first):
        run_suite(suite.with_stores({"made": store.folder}), tmp_path / "results")
        running.run_studies(Results.open(tmp_path / "results"), ["tau"])
        (study,) = study_files.load_studies(tmp_path / "results")
        recalls.append(study.curves[0].recalls)
    assert recalls[0] == recalls[2] != recalls[1]


def test_a_study_of_earlier_descriptors_does_not_stand_beside_new_tables(tmp_path, caplog):
    """The report showed the curves of the old descriptors under the numbers of the new ones, without a word."""
    first, second = (make_store(tmp_path / f"{seed}.desc", seed=seed) for seed in (0, 1))
    suite, folder = make_suite({"made": first.folder}), tmp_path / "results"
    run_suite(suite, folder)
    running.run_studies(Results.open(folder), ["tau"])
    assert len(study_files.studies_beside(folder, Results.open(folder))) == 1
    assert not caplog.messages
    run_suite(suite.with_stores({"made": second.folder}), folder)
    report = verbs.report(folder, tmp_path / "report.html", figures=tmp_path / "figures", formats=["svg"])
    assert report.n_studies == 0
    assert not list((tmp_path / "figures").iterdir())
    (message,) = caplog.messages  # it was said twice, once for the figures
    assert "left out: study tau of made made" in message
    assert study_files.studies_beside(folder, []) == study_files.load_studies(folder)


def test_projections_before_and_after_fusion_are_two_studies(two_protocols, tmp_path):
    page = tmp_path / "report.html"
    command = ["report", str(two_protocols.folder), "-o", str(page), "--studies", "compression"]
    for option, expected in ([], ["before"]), (["--after-fusion"], ["after", "before"]):
        done = CliRunner().invoke(app, [*command, *option])
        assert done.exit_code == 0, done.output
        titles = re.findall(r"<h3>Fewer dimensions, projected (\w+) fusion", page.read_text("utf-8"))
        assert sorted(titles) == sorted(2 * expected)  # under two protocols


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a study"),
        ('{"format": 1, "study": "weather"}', "is not a study"),
        (json.dumps({"format": 99, "study": "tau"}), "later version"),
    ],
)
def test_damaged_studies_are_named(tmp_path, text, message):
    path = tmp_path / "study.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=message):
        study_files.load_study(path)


def lab(colour, simulate):
    """CIE L*a*b* of a colour as a dichromat sees it (Machado et al. 2009, severity 1)."""
    srgb = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(simulate @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


VISION = {
    "usual": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


@pytest.mark.parametrize("vision", VISION)
def test_methods_of_the_paper_keep_apart(vision):
    names = [method.fusion for method in METHODS]
    for a, b in combinations(names, 2):
        colours = (lab(style_of(name).colour, VISION[vision]) for name in (a, b))
        assert np.linalg.norm(next(colours) - next(colours)) > 15, (a, b)


def test_each_method_has_its_own_colour_and_marker():
    styles = [style_of(name) for name in FUSIONS.names()]
    assert len({style.colour for style in styles}) == len({style.marker for style in styles}) == len(styles)
    assert len({style.marker for style in CONDITIONS}) == len(CONDITIONS)
    assert style_of("displace", plain=False).colour == style_of("displace").colour
    assert style_of("displace", plain=False).dash != style_of("displace").dash
    assert style_of("a_plug_in") == style_of("a_plug_in")


def test_several_other_settings_of_a_fusion_look_different():
    rows = [("displace", True), *[("displace", False)] * 4, ("hops", False)]
    styles = styles_of(rows)
    assert len({style.fill for style in styles[:5]}) == 5
    assert len({(style.filled_symbol, style.dash) for style in styles[:4]}) == 4
    assert {style.colour for style in styles[:5]} == {style_of("displace").colour}
    assert styles[1] == style_of("displace", plain=False)
    assert styles[5] == style_of("hops", plain=False)


def test_fusions_from_elsewhere_look_unlike_each_other():
    styles = [style_of(f"mine_{number}") for number in range(400)]
    assert len(set(styles)) == 60  # all looks are used
    assert len({(style.colour, style.marker) for style in styles}) == 20
    shipped = {style_of(name).marker for name in FUSIONS.names()}
    assert not shipped & {style.marker for style in styles}


@pytest.mark.parametrize("letter", ["n", "ü", "日"])
def test_long_names_of_traversals_have_files_of_their_own(tmp_path, letter):
    paths = {study_files.study_path(tmp_path, "tau", "town", "hog", letter * 220 + end) for end in "ab"}
    assert len(paths) == 2
    for path in paths:
        assert len(path.name.encode()) < 240  # a temporary file beside it has a longer one
        path.parent.mkdir(exist_ok=True)
        path.touch()
