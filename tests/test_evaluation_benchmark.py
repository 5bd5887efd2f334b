"""Running suites: numbers against independent computations, what a rerun computes, what stops it and what does not."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from routes import make_store, make_suite

from displace import DisPlace, ReferenceSet, get_fusion, recall_at
from displace.arrays import l2_normalize
from displace.datasets import DATASETS
from displace.datasets.base import Protocol
from displace.descriptors.imported import write_store
from displace.descriptors.store import DescriptorStore, Queries
from displace.errors import ConditioningWarning, FormatError, InputError, UnknownNameError
from displace.evaluation import benchmark, loading
from displace.evaluation.benchmark import run_suite
from displace.evaluation.cells import Cell
from displace.evaluation.methods import Method
from displace.evaluation.random_projection import random_projection
from displace.evaluation.results import Results
from displace.evaluation.tables import build_tables
from displace.fusion import FUSIONS
from displace.fusion.base import VectorFusion
from displace.fusion.hops import Hops
from displace.manifest.table import Manifest
from displace.references import sum_by
from displace.truth import Tolerance, WithinFrames


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("route") / "made.desc")


def by_hand(store, query="night"):
    """References and queries, taken from the store without the evaluation."""
    rest = store.traversals != query
    vectors = store.vectors()
    return ReferenceSet(vectors[rest], store.places[rest], store.traversals[rest]), vectors[~rest]


@pytest.mark.parametrize("name", ["displace", "pooling", "dmat_med", "single"])
def test_a_cell_is_what_the_estimator_gives(store, tmp_path, name):
    outcome = run_suite(make_suite({"made": store.folder}, fusions=[name]), tmp_path)
    (result,) = outcome.cells
    refs, queries = by_hand(store)
    fusion = get_fusion(name)().fit(refs.vectors, refs.places, refs.traversals)
    matches = fusion.rank(queries, 10)
    expected = recall_at(matches, store.places[store.traversals == "night"])
    assert result.recalls == expected  # to the last digit: both are rounded once
    assert (result.n_places, result.n_references, result.n_queries, result.n_bytes) == (
        30,
        90,
        30,
        fusion.nbytes_,
    )
    ids = outcome.results.questions(result).place_ids
    np.testing.assert_array_equal(ids[outcome.results.ranking(result).places], matches.places)
    assert result.protocol == "made-exact"
    assert result.tolerance == "exact place"
    assert result.references == ["sun", "rain", "dusk"]
    assert result.seconds.keys() == {"fit", "rank"}
    assert {"displace", "numpy", "scipy", "scikit-learn"} <= result.versions.keys()


def test_a_suite_that_keeps_more_places_has_the_recall_of_all_of_them(store, tmp_path):
    outcome = run_suite(make_suite({"made": store.folder}, fusions=["hops"], k=20), tmp_path)
    (result,) = outcome.cells
    assert list(result.recalls) == [1, 5, 10, 20]
    assert result.recalls[20] == 100 * outcome.results.ranking(result).hits(20).mean()
    (table,) = build_tables(outcome.results, k=20)
    assert table.title.startswith("Recall@20 on made")


def test_images_without_a_place_are_asked_and_are_no_references(store, tmp_path):
    places = store.places.copy()
    places[[0, 1, -1]] = ""  # two of the first traversal, one of the queries
    own = store.manifest
    manifest = Manifest(own.images, places, own.traversals, own.root, **own.numbers)
    write_store(Queries(store.vectors(), places, manifest), tmp_path / "some.desc", "made")
    outcome = run_suite(make_suite({"made": tmp_path / "some.desc"}, fusions=["hops"]), tmp_path / "results")
    (result,) = outcome.cells
    assert (result.n_places, result.n_references, result.n_queries) == (30, 88, 30)
    assert outcome.results.questions(result).place_ids[0] == "p0000"


@pytest.mark.parametrize("tolerance", [Tolerance("frames", 2), Tolerance("metres", 20)])
def test_tolerances_count_neighbours(store, tmp_path, tolerance):
    (result,) = run_suite(
        make_suite({"made": store.folder}, fusions=["hops"], tolerance=tolerance), tmp_path
    ).cells
    refs, queries = by_hand(store)
    matches = get_fusion("hops")().fit(refs.vectors, refs.places).rank(queries, 10)
    numbers = np.char.lstrip(matches.places, "p").astype(int)
    expected = recall_at(numbers, WithinFrames(np.arange(30), 2))
    assert result.recalls == pytest.approx(dict(expected))
    assert result.recalls[1] > recall_at(numbers, np.arange(30))[1]


def test_random_projections_are_those_of_the_seed(store, tmp_path):
    suite = make_suite({"made": store.folder}, fusions=["hops"], dims=(6, 99), seeds=(3, 4))
    cells = run_suite(suite, tmp_path).cells
    assert [(cell.projection, cell.seed, cell.dim) for cell in cells] == [(None, 0, 12), (6, 3, 6), (6, 4, 6)]
    refs, queries = by_hand(store)
    R = random_projection(12, 6, 4)
    matches = get_fusion("hops")().fit(refs.vectors @ R, refs.places).rank(queries @ R, 10)
    assert cells[2].recalls == pytest.approx(
        dict(recall_at(matches, store.places[store.traversals == "night"]))
    )


def test_a_rerun_computes_only_what_is_missing(store, tmp_path, monkeypatch):
    suite = make_suite({"made": store.folder}, fusions=["hops", "pooling"], queries=("night", "sun"))
    assert run_suite(suite, tmp_path).n_computed == 4
    next((tmp_path / "cells").glob("*sun*hops*.json")).unlink()
    computed = []
    compute = benchmark.compute
    monkeypatch.setattr(
        benchmark, "compute", lambda cell, *rest: computed.append(cell) or compute(cell, *rest)
    )
    steps = []
    outcome = run_suite(suite, tmp_path, lambda *step: steps.append(step))
    assert [(cell.query, cell.method.label) for cell in computed] == [("sun", "HOPS")]
    assert steps == [("cells", 0, 1), ("cells", 1, 1)]
    assert len(outcome.cells) == 4
    assert run_suite(suite, tmp_path).n_computed == 0


@pytest.mark.parametrize("damage", ["deleted", "cut", "overwritten"])
@pytest.mark.parametrize("folder", ["cells", "questions"])
def test_a_rerun_mends_what_was_lost(store, tmp_path, damage, folder):
    """The way out that the error names: run the suite again."""
    suite = make_suite({"made": store.folder}, fusions=["hops", "pooling"])
    first = run_suite(suite, tmp_path)
    whole = [first.results.ranking(cell).places for cell in first.cells]
    path = next((tmp_path / folder).glob("*hops*.npz" if folder == "cells" else "*.npz"))
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[:60])
    elif damage == "overwritten":  # as long as before, and its table of contents whole
        path.write_bytes(content[:60] + bytes(20) + content[80:])
    read = first.results.ranking if folder == "cells" else first.results.questions
    with pytest.raises(FormatError, match="run the suite again"):
        read(first.cells[0])
    again = run_suite(suite, tmp_path)
    assert again.n_computed == (1 if folder == "cells" else 2)
    for cell, places in zip(again.cells, whole, strict=True):
        np.testing.assert_array_equal(again.results.ranking(cell).places, places)
        assert len(again.results.questions(cell)) == 30


def test_a_rerun_names_a_damaged_record_and_computes_its_cell_again(store, tmp_path, caplog):
    suite = make_suite({"made": store.folder}, fusions=["hops", "pooling"])
    run_suite(suite, tmp_path)
    path = next((tmp_path / "cells").glob("*hops*.json"))
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(whole | {"recalls": {"1": None}}))
    again = run_suite(suite, tmp_path)
    assert again.n_computed == 1
    assert path.name in caplog.text
    assert json.loads(path.read_text())["recalls"] == whole["recalls"]


def test_ctrl_c_loses_at_most_the_running_cell(store, tmp_path, monkeypatch):
    suite = make_suite({"made": store.folder}, fusions=["hops", "pooling", "dmat_avg"])
    rank = get_fusion("pooling").rank

    def interrupted(self, *rest):
        raise KeyboardInterrupt

    monkeypatch.setattr(get_fusion("pooling"), "rank", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_suite(suite, tmp_path)
    assert [result.fusion for result in Results.open(tmp_path)] == ["hops"]
    monkeypatch.setattr(get_fusion("pooling"), "rank", rank)
    assert run_suite(suite, tmp_path).n_computed == 2


def test_other_content_is_another_cell(tmp_path):
    first = make_store(tmp_path / "a.desc", seed=0)
    suite = make_suite({"made": first.folder}, fusions=["hops"])
    (one,) = run_suite(suite, tmp_path / "results").cells
    second = make_store(tmp_path / "b.desc", seed=1)
    (two,) = run_suite(suite.with_stores({"made": second.folder}), tmp_path / "results").cells
    assert one.cell != two.cell
    assert len(Results.open(tmp_path / "results")) == 2
    # The same descriptors in another folder are the same cell.
    (tmp_path / "a.desc").rename(tmp_path / "moved.desc")
    moved = suite.with_stores({"made": tmp_path / "moved.desc"})
    assert run_suite(moved, tmp_path / "results").n_computed == 0


def test_the_identity_of_a_cell_is_stable():
    """The hash of a fixed cell never changes, or a new version would compute everything again."""
    suite = make_suite({})
    cell = Cell(
        "made", "hog", "night", suite.protocol, Method("displace", {"tau": 0.9}), ("sun", "rain"),
        {"content": "00ff"}, 64, 1, 10, (0, 0, 0),
    )  # fmt: skip
    assert cell.id == "7aa2e36852856817"
    assert dataclasses.replace(cell, order=(5, 5, 5)).id == cell.id
    for change in (
        {"query": "sun"},
        {"seed": 2},
        {"k": 5},
        {"projection": None},
        {"method": Method("displace")},
    ):
        assert dataclasses.replace(cell, **change).id != cell.id


def test_an_impossible_cell_is_recorded_and_the_others_are_computed(tmp_path):
    store = make_store(tmp_path / "wide.desc", n_places=8, dim=64)
    methods = (Method("displace", {"ridge": 0.0, "center": False}, "DisPlace (paper)"), Method("displace"))
    suite = make_suite({"made": store.folder}, methods=methods)
    outcome = run_suite(suite, tmp_path / "results")
    (impossible,) = outcome.impossible
    assert impossible.label == "DisPlace (paper)"
    assert "within-place scatter is singular" in impossible.error
    assert outcome.cells[1].ok
    assert "ridge" in outcome.cells[1].explanation
    assert run_suite(suite, tmp_path / "results").n_computed == 0


def test_a_fault_of_one_method_does_not_end_the_run_and_is_tried_again(store, tmp_path, monkeypatch):
    suite = make_suite({"made": store.folder}, fusions=["hops", "pooling"])
    fit = get_fusion("hops")._fit

    def faulty(self, *rest):
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr(get_fusion("hops"), "_fit", faulty)
    first = run_suite(suite, tmp_path)
    line = faulty.__code__.co_firstlineno + 1
    told = f"ZeroDivisionError: by chance (test_evaluation_benchmark.py, line {line})"
    assert [result.error for result in first.cells] == [told, ""]
    monkeypatch.setattr(get_fusion("hops"), "_fit", fit)
    second = run_suite(suite, tmp_path)
    assert second.n_computed == 1
    assert not second.impossible


def test_a_fault_after_the_ranking_does_not_end_the_run_either(store, tmp_path, monkeypatch):
    """A fusion of another package that cannot tell its size, or its settings, ended the comparison of all."""
    suite = make_suite({"made": store.folder}, fusions=["hops", "pooling"])
    monkeypatch.setattr(get_fusion("hops"), "nbytes_", None)
    (first, second) = run_suite(suite, tmp_path).cells
    assert first.error.startswith("TypeError")
    assert second.ok


def test_absent_stores_are_named_and_the_others_run(store, tmp_path):
    suite = make_suite({"made": store.folder, "netvlad": tmp_path / "netvlad.desc"}, fusions=["hops"])
    outcome = run_suite(suite, tmp_path / "results")
    assert outcome.absent == {"netvlad": tmp_path / "netvlad.desc"}
    assert len(outcome.cells) == 1
    with pytest.raises(InputError, match=r"finds none of its descriptor stores .*--store MODEL=PATH"):
        run_suite(make_suite({"netvlad": tmp_path / "netvlad.desc"}), tmp_path / "results")


def test_a_store_under_another_models_name_is_refused(tmp_path):
    """Its numbers would stand beside the wrong published ones."""
    store = make_store(tmp_path / "made.desc", model="netvlad")
    with pytest.raises(InputError, match=r"made by netvlad\. Give it as netvlad="):
        run_suite(make_suite({"cosplace": store.folder}), tmp_path / "results")
    assert run_suite(make_suite({"ours": store.folder}), tmp_path / "results").n_computed == 2


def test_unknown_query_traversal_suggests(store, tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'night'"):
        run_suite(make_suite({"made": store.folder}, queries=("nigth",)), tmp_path)


def test_single_reference_has_a_row_for_each_traversal(store, tmp_path):
    suite = make_suite({"made": store.folder}, methods=(Method("single", each_reference=True),))
    outcome = run_suite(suite, tmp_path)
    assert [(cell.label, cell.parameters, cell.group) for cell in outcome.cells] == [
        (name, {"traversal": name}, "single") for name in ("sun", "rain", "dusk")
    ]


def test_rearranged_suites_keep_their_cells_and_change_their_order(store, tmp_path):
    run_suite(make_suite({"made": store.folder}, fusions=["hops", "pooling"]), tmp_path)
    outcome = run_suite(make_suite({"made": store.folder}, fusions=["pooling", "hops"]), tmp_path)
    assert outcome.n_computed == 0
    assert {r.fusion: r.order for r in Results.open(tmp_path)} == {"pooling": [0, 0, 0], "hops": [0, 0, 1]}


def test_large_descriptors_are_mapped_and_give_the_same(store, tmp_path, monkeypatch):
    suite = make_suite({"made": store.folder}, fusions=["displace", "bsf", "pooling"])
    plain = run_suite(suite, tmp_path / "plain")
    monkeypatch.setattr(loading, "IN_MEMORY", 0)
    mapped = run_suite(suite, tmp_path / "mapped")
    split = loading.Split.of(DescriptorStore(store.folder), suite.protocol, "night", tmp_path)
    assert isinstance(split.vectors(split.references, None, 0), np.memmap)
    for one, other in zip(plain.cells, mapped.cells, strict=True):
        assert one.recalls == other.recalls
        np.testing.assert_array_equal(plain.results.ranking(one).places, mapped.results.ranking(other).places)


def test_warnings_become_part_of_the_explanation(tmp_path):
    store = make_store(tmp_path / "made.desc", dim=24)  # γ = 24 / (90 − 30)
    methods = (Method("displace", {"ridge": 0.0, "center": False}),)
    (result,) = run_suite(make_suite({"made": store.folder}, methods=methods), tmp_path / "results").cells
    refs, _ = by_hand(store)
    with pytest.warns(ConditioningWarning, match="γ = 0.40"):
        fusion = DisPlace(ridge=0.0, center=False).fit(refs.vectors, refs.places)
    assert fusion.n_components_ == result.n < 24
    assert result.explanation.startswith(fusion.explain())
    assert "determine the within-place scatter in 24 dimensions poorly" in result.explanation


KILLED = """
import os, signal, sys
from pathlib import Path
from routes import make_suite
from displace import get_fusion
from displace.evaluation.benchmark import run_suite

get_fusion("pooling").rank = lambda *rest: os.kill(os.getpid(), signal.SIGKILL)
run_suite(make_suite({"made": sys.argv[1]}, fusions=["hops", "pooling", "dmat_avg"]), sys.argv[2])
"""


def test_a_killed_run_leaves_whole_cells_and_goes_on(store, tmp_path):
    folder = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", KILLED, str(store.folder), str(tmp_path)]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    (left,) = Results.open(tmp_path)
    assert left.fusion == "hops"
    assert Results(tmp_path).ranking(left).places.shape == (30, 10)
    outcome = run_suite(make_suite({"made": store.folder}, fusions=["hops", "pooling", "dmat_avg"]), tmp_path)
    assert (outcome.n_computed, len(outcome.cells), outcome.impossible) == (2, 3, [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"references": ("sun", "rian")}, "unknown traversal of the protocol 'rian'; did you mean 'rain'"),
        ({"queries": ("nigth",)}, "unknown traversal of the protocol 'nigth'; did you mean 'night'"),
    ],
)
def test_a_misspelt_traversal_of_a_protocol_is_named(tmp_path, changes, message):
    """It was left out: the map was made of fewer references, or nothing was computed, without a word."""
    store = make_store(tmp_path / "made.desc")
    suite = make_suite(
        {"made": store.folder}, protocol=Protocol("mine", Tolerance("exact"), **changes), queries=()
    )
    with pytest.raises(UnknownNameError, match=message):
        run_suite(suite, tmp_path / "results")


def test_a_known_protocol_of_which_no_query_is_there_is_named(tmp_path):
    store = make_store(tmp_path / "made.desc")
    protocol = DATASETS.get("gldv2_micro")().protocol()
    suite = make_suite({"made": store.folder}, dataset="gldv2_micro", protocol=protocol, queries=())
    with pytest.raises(
        InputError, match=r"none of the queries of protocol 'gldv2_micro-exact' \(val\); it has"
    ):
        run_suite(suite, tmp_path / "results")


def test_random_projections_of_no_query_are_told_of(tmp_path, caplog):
    store = make_store(tmp_path / "made.desc")
    run_suite(make_suite({"made": store.folder}, dims=(6,), projected=("nigth",)), tmp_path / "results")
    assert "no random projections, as unknown query 'nigth'; did you mean 'night'?" in caplog.text


def test_random_projections_to_more_dimensions_are_told_of(tmp_path, caplog):
    """They were left out without a word."""
    store = make_store(tmp_path / "made.desc", dim=8)
    run_suite(make_suite({"made": store.folder}, dims=(6, 8, 64)), tmp_path / "results")
    assert "no random projection to 8, 64 dimensions, as the descriptors have 8" in caplog.text


class Unordered(Hops):
    """Scores without an order."""

    def _scores(self, Q):
        return np.full((len(Q), len(self.place_ids_)), np.nan)


class Short(VectorFusion):
    """Sums of references, projected to three dimensions."""

    def _fit(self, X, index, traversals):
        self.projection_ = np.eye(X.shape[1], 3)
        self.place_vectors_ = l2_normalize(sum_by(X @ self.projection_, index, len(self.place_ids_)))


class Centring(Hops):
    """Subtracts means in place, of the references or of the queries."""

    def __init__(self, what="references"):
        self.what = what

    def _fit(self, X, index, traversals):
        if self.what == "references":
            X -= X.mean(axis=0)
        super()._fit(X, index, traversals)

    def _scores(self, Q):
        Q -= Q.mean(axis=0)
        return super()._scores(Q)


@pytest.mark.parametrize("what", ["references", "queries"])
def test_ones_own_fusion_cannot_change_what_other_methods_are_given(store, tmp_path, monkeypatch, what):
    """Methods further down the table had the recall of descriptors that one above them had changed."""
    monkeypatch.setitem(FUSIONS._found, "centring", Centring)
    methods = (Method("centring", {"what": what}), Method("bsf"))
    first, then = run_suite(make_suite({"made": store.folder}, methods=methods), tmp_path / "both").cells
    assert "read-only (test_evaluation_benchmark.py, line " in first.error
    outcome = run_suite(make_suite({"made": store.folder}, fusions=["bsf"]), tmp_path / "alone")
    alone = outcome.results.ranking(outcome.cells[0])
    assert np.array_equal(Results(tmp_path / "both").ranking(then).scores, alone.scores)


def test_what_ones_own_fusion_stores_has_its_own_length(store, tmp_path, monkeypatch):
    """The dimensions of the descriptors were reported as those of its vectors."""
    monkeypatch.setitem(FUSIONS._found, "short", Short)
    outcome = run_suite(make_suite({"made": store.folder}, fusions=["short", "hops"]), tmp_path)
    assert [(cell.n, cell.n_bytes) for cell in outcome.cells] == [
        (3, 4 * 3 * (30 + store.dim)),
        (store.dim, 4 * 30 * store.dim),
    ]


def test_scores_that_are_nan_are_not_possible(tmp_path, monkeypatch):
    """Places in the order of their ids were their ranking, and the file of it was called damaged afterwards."""
    monkeypatch.setitem(FUSIONS._found, "unordered", Unordered)
    store = make_store(tmp_path / "made.desc")
    outcome = run_suite(make_suite({"made": store.folder}, fusions=["unordered"]), tmp_path / "results")
    assert outcome.cells[0].label == "Unordered"
    assert outcome.cells[0].error == "Unordered: the scores of 30 of 30 queries are NaN, without order"


def test_a_level_that_is_none_is_named(monkeypatch):
    monkeypatch.setitem(FUSIONS._found, "unordered", type("Odd", (Hops,), {"level": "image"}))
    with pytest.raises(InputError, match="'unordered' has level='image'; it must be 'descriptor' or 'score'"):
        Method("unordered")
