"""Rows of tables that look at more than one frame: drives and batches."""

from __future__ import annotations

import numpy as np
import pytest
from routes import make_store

from displace import verbs
from displace.datasets.base import Protocol
from displace.descriptors.imported import write_store
from displace.descriptors.store import DescriptorStore, Queries
from displace.errors import InputError
from displace.evaluation.benchmark import run_suite
from displace.evaluation.cells import ranked_along
from displace.evaluation.methods import Method, methods_named
from displace.evaluation.suites import Suite
from displace.evaluation.tables import build_tables
from displace.fusion.bsf import Bsf
from displace.fusion.hops import Hops
from displace.fusion.single import Single
from displace.manifest.table import Manifest
from displace.references import ReferenceSet
from displace.sequence import SEQUENCES
from displace.sequence.methods.base import SequenceMethod
from displace.synthetic import make_route
from displace.truth import Tolerance


def suite_of(store: DescriptorStore, methods: list[Method]) -> Suite:
    rule = Protocol("made-exact", Tolerance("exact"))
    return Suite("made", "made", "made", rule, tuple(methods), {"made": store.folder}, ("night",))


def test_sequences_and_adaptation_are_rows(tmp_path):
    store = make_store(tmp_path / "made.desc", n_places=120, dim=8)
    methods = methods_named(["hops"], SEQUENCES.names(), ["none", "batch"])
    outcome = run_suite(suite_of(store, methods), tmp_path / "results")
    assert not outcome.impossible
    (table,) = build_tables(outcome.cells)
    labels = [row.label for row in table.rows]
    assert {"HOPS", "HOPS, seqslam L=10", "HOPS, smoother", "HOPS, smoother, adapted"} <= set(labels)
    assert len(labels) == 2 * len(SEQUENCES.names())
    assert "sequence: filter, seqslam, smoother, viterbi; adapt: batch" in table.title
    recall = {result.label: result.recalls[1] for result in outcome.cells}
    assert recall["HOPS, smoother"] > recall["HOPS"]
    again = run_suite(suite_of(store, methods), tmp_path / "results")
    assert again.n_computed == 0


def test_a_batch_adapts_without_an_order_of_the_places(tmp_path):
    """It was not possible without a column `frame`, which only drives need; and gives the same as with one."""
    ordered = make_store(tmp_path / "made.desc", n_places=120, dim=8)
    manifest = Manifest(ordered.manifest.images, ordered.places, ordered.traversals, ordered.manifest.root)
    bare = write_store(Queries(ordered.vectors(), manifest.places, manifest), tmp_path / "bare.desc", "made")
    methods = [Method("hops", adapt="batch"), Method("hops", sequence="seqslam")]
    found = [run_suite(suite_of(store, methods), tmp_path / store.folder.stem) for store in (ordered, bare)]
    (with_order, _), (without, drive) = (outcome.cells for outcome in found)
    rankings = [outcome.results.ranking(outcome.cells[0]).places for outcome in found]
    assert without.recalls == with_order.recalls
    np.testing.assert_array_equal(*rankings)
    assert drive.error.startswith("sequences need the order of the places along the route: a column `frame`")


def test_a_suite_file_names_them(tmp_path):
    file = tmp_path / "own.toml"
    text = 'dataset = "town_drives"\nsequence = ["single_frame", "seqslam"]\n[[methods]]\nfusion = "hops"\n'
    file.write_text(text + "length = 5\n")
    assert [method.label for method in Suite.read(file).methods] == ["HOPS", "HOPS, seqslam L=5"]
    file.write_text('adapt = ["none", "batch"]\n' + text)
    labels = [method.label for method in Suite.read(file).methods]
    assert labels == ["HOPS", "HOPS, adapted", "HOPS, seqslam L=10", "HOPS, seqslam L=10, adapted"]
    file.write_text(text + 'adapt = "sometimes"\n')
    with pytest.raises(InputError, match="sometimes"):
        Suite.read(file)
    assert any(method.along for method in Suite.read("town_drives").methods)


@pytest.mark.filterwarnings("ignore:places that follow each other")
def test_evaluate_asks_for_them(tmp_path):
    store = make_store(tmp_path / "made.desc", n_places=120, dim=8)
    found = verbs.evaluate(
        store.folder,
        queries=["night"],
        fusion="hops",
        sequence="seqslam, filter",
        adapt="none,batch",
        tolerance="exact",
    )
    assert {cell.label for cell in found} == {
        *("HOPS, seqslam L=10", "HOPS, filter", "HOPS, seqslam L=10, adapted", "HOPS, filter, adapted")
    }


def test_the_suite_of_drives_has_all_of_them():
    methods = Suite.read("town_drives").methods
    rows = {(method.fusion, method.sequence, method.adapt) for method in methods}
    assert rows >= {
        (fusion, sequence, mode)
        for fusion in ("hops", "displace")
        for sequence in SEQUENCES.names()
        for mode in ("none", "batch")
    }


def test_what_a_row_needs_is_said(tmp_path):
    store = make_store(tmp_path / "made.desc")
    outcome = run_suite(
        suite_of(store, [Method(fusion, adapt="batch") for fusion in ("hops", "dmat_avg", "bsf")]),
        tmp_path / "results",
    )
    assert {result.fusion: result.error for result in outcome.cells} == {
        "hops": "adapt='batch' needs at least 100 queries; got 30",
        "dmat_avg": "adapt='batch' needs at least 100 queries; got 30",
        "bsf": "adapt='batch' needs a fusion that makes rows for a map",
    }


@pytest.mark.parametrize("mode", ["none", "batch"])
def test_a_fusion_may_lack_places_of_the_route(mode):
    route = make_route(120, 2, 64, noise=0.5, seed=0)
    refs = route.references
    first = refs.traversals == refs.traversals[0]
    kept = ~(first & (refs.places >= 40) & (refs.places < 60))
    fusion = Single(refs.traversals[0]).fit_references(
        ReferenceSet(refs.vectors[kept], refs.places[kept], refs.traversals[kept])
    )
    order = np.arange(120)[::-1]
    found, _ = ranked_along(Method("single", adapt=mode), fusion, route.queries[::-1], order, 5)
    assert set(found.ravel().tolist()) <= {*range(40), *range(60, 120)}
    single = fusion.rank(route.queries[::-1], 5).places
    if mode == "none":
        np.testing.assert_array_equal(found, single)
    else:
        assert (found[:, 0] == single[:, 0]).mean() > 0.5, "places are called by their numbers"
    smoother = Method("single", sequence="smoother", adapt=mode)
    smoothed, _ = ranked_along(smoother, fusion, route.queries[::-1], order, 1)
    there = (order < 40) | (order >= 60)
    assert (smoothed[there, 0] == order[there]).mean() > 0.6


@pytest.mark.parametrize("sequence", SEQUENCES.names())
def test_a_drive_passes_places_that_a_fusion_excludes_for_some_frames(sequence):
    """BSF gives −∞ to places that none of its kept traversals shows: all of its rows were NaN along a drive."""
    route = make_route(120, 2, 64, noise=0.5, seed=0)
    refs = route.references
    lacks = (refs.traversals == refs.traversals[0]) & (refs.places % 3 == 0)
    lacks |= (refs.traversals != refs.traversals[0]) & (refs.places % 3 == 1)
    fusion = Bsf().fit_references(
        ReferenceSet(refs.vectors[~lacks], refs.places[~lacks], refs.traversals[~lacks])
    )
    assert np.isneginf(fusion.rank(route.queries, 120).scores).any()
    order = np.arange(120)
    found, scores = ranked_along(Method("bsf", sequence=sequence), fusion, route.queries, order, 3)
    assert np.isfinite(scores).all()
    assert (found[:, 0] == order).mean() >= (fusion.rank(route.queries, 1).places[:, 0] == order).mean()


@pytest.mark.parametrize(
    ("rank", "message"),
    [
        (lambda s: (s.argmax(1), s.max(1)), r"places of shape \(120,\).*must have \(120, 5\): the k best"),
        (lambda s: (s[:, :5], s[:, :5]), "places as whole numbers from 0 to 119"),
        (lambda s: (np.full((120, 5), 120), s[:, :5]), "places as whole numbers from 0 to 119"),
        (lambda s: (np.full((120, 5), -1), s[:, :5]), "places as whole numbers from 0 to 119"),
        (lambda s: (np.zeros((120, 5), int), s[:, :5] * np.nan), "scores are NaN"),
    ],
)
def test_what_is_no_ranking_of_places_is_refused(monkeypatch, rank, message):
    """One place for each frame instead of k gave a recall near chance without a word."""

    class Odd(SequenceMethod):
        """Returns what it should not."""

        name = "odd"

        def rank(self, similarity, k):
            return rank(similarity.block(slice(0, len(route.queries))))

    monkeypatch.setitem(SEQUENCES._found, "odd", Odd)
    route = make_route(120, 2, 64, noise=0.5, seed=0)
    fusion = Hops().fit_references(route.references)
    with pytest.raises(InputError, match=f"sequence method 'odd': .*{message}"):
        ranked_along(Method("hops", sequence="odd"), fusion, route.queries, np.arange(120), 5)
