"""What every fusion in the registry must do, whoever adds it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from memory import peak_bytes, set_block_bytes
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from displace import Matches, get_fusion
from displace.fusion import FUSIONS
from displace.synthetic import make_route

TWO_PLACES = "two places always standardise to ±1, so a query near either is a tie or a coin toss"
TRANSDUCTIVE = "standardises over the queries of the call: a query's result depends on the others"
EXPECTED_FAILURES = {
    "StdDMatMin(axis='query')": {"check_classifiers_train": TWO_PLACES},
    "StdDMatMin(axis='traversal')": {"check_methods_subset_invariance": TRANSDUCTIVE},
}


def variants():
    """Every fusion with its defaults, and the settings that change how it works."""
    for name in FUSIONS.names():
        yield FUSIONS.get(name)()
    yield get_fusion("std_dmat_min")(axis="traversal")
    yield get_fusion("bsf")(likelihood="gaussian")
    yield get_fusion("displace")(ridge=0.5, center=True)


def key(estimator):
    name = type(estimator).__name__
    return f"{name}(axis={estimator.axis!r})" if name == "StdDMatMin" else name


@pytest.mark.parametrize("estimator", list(variants()), ids=str)
def test_scikit_learn_accepts_it(estimator):
    expected = EXPECTED_FAILURES.get(key(estimator), {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks feed degenerate data on purpose
        results = check_estimator(estimator, expected_failed_checks=expected, on_skip=None, on_fail=None)
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert failed == {}
    failed_as_expected = {r["check_name"] for r in results if r["status"] == "xfail"}
    assert failed_as_expected == set(expected)
    assert sum(r["status"] == "passed" for r in results) > 40


@pytest.mark.parametrize("name", [n for n in FUSIONS.names() if hasattr(FUSIONS.get(n), "transform")])
def test_what_it_transforms_to_has_names(name):
    """As scikit-learn's own transformers, so that `set_output` works where pandas or polars is there."""
    route = make_route(n_places=12)
    fusion = get_fusion(name)()
    assert hasattr(fusion, "set_output")
    with pytest.raises(NotFittedError):
        fusion.get_feature_names_out()
    fusion.fit_references(route.references)
    names, n = fusion.get_feature_names_out().tolist(), fusion.transform(route.queries).shape[1]
    assert names == [f"{type(fusion).__name__.lower()}{column}" for column in range(n)]


@pytest.mark.parametrize("estimator", list(variants()), ids=str)
def test_ranking_holds_blocks_of_scores_and_never_a_matrix(estimator, monkeypatch):
    n, dim, block = 2000, 32, 2**21
    *references, queries = np.random.default_rng(0).standard_normal((4, n, dim), np.float32)
    fusion = clone(estimator).fit(np.concatenate(references), np.tile(np.arange(n), 3))
    set_block_bytes(monkeypatch, block)
    peak = peak_bytes(lambda: fusion.rank(queries, k=5))
    one_matrix = 4 * n * n  # there are three
    assert peak < 3 * block < one_matrix / 2


@pytest.fixture(scope="module")
def route():
    return make_route(n_places=30, n_traversals=4, dim=16, drop=0.2, seed=2)


@pytest.mark.parametrize("name", FUSIONS.names())
class TestFusion:
    def fitted(self, name, route):
        refs = route.references
        return get_fusion(name)().fit(refs.vectors, refs.places, refs.traversals)

    def test_ranks_are_sorted_complete_and_without_repeats(self, name, route):
        fusion = self.fitted(name, route)
        matches = fusion.rank(route.queries, k=30)
        assert isinstance(matches, Matches)
        assert matches.places.shape == (30, len(fusion.place_ids_))
        assert all(len(set(row)) == len(row) for row in matches.places.tolist())
        assert np.all(matches.scores[:, :-1] >= matches.scores[:, 1:])

    def test_predict_is_the_first_of_rank(self, name, route):
        fusion = self.fitted(name, route)
        np.testing.assert_array_equal(fusion.predict(route.queries), fusion.rank(route.queries).places[:, 0])

    def test_blocks_of_queries_do_not_change_the_result(self, name, route, monkeypatch):
        fusion = self.fitted(name, route)
        whole = fusion.rank(route.queries, k=3)
        monkeypatch.setattr(
            "displace.arrays.blocks", lambda n, row_bytes: (slice(i, min(n, i + 7)) for i in range(0, n, 7))
        )
        parts = fusion.rank(route.queries, k=3)
        np.testing.assert_array_equal(parts.places, whole.places)
        np.testing.assert_allclose(parts.scores, whole.scores, atol=1e-5)

    def test_finds_places_better_than_chance(self, name, route):
        assert np.mean(self.fitted(name, route).predict(route.queries) == route.truth) > 3 / 30

    def test_accounts_for_storage(self, name, route):
        fusion = self.fitted(name, route)
        rows, everything = fusion.rows(), 4 * route.references.vectors.size
        if hasattr(fusion, "reference_vectors_"):  # scores by all references, whatever a map would hold
            assert fusion.nbytes_ == everything
        elif rows is not None:
            stored = (rows.vectors, rows.projection, rows.mean)
            assert fusion.nbytes_ == 4 * sum(part.size for part in stored if part is not None)
        else:  # whatever numbers it holds
            held = [part.size for part in vars(fusion).values() if getattr(part, "dtype", None) == np.float32]
            assert 4 * len(fusion.place_ids_) * fusion.n_features_in_ <= 4 * sum(held) <= everything
            assert fusion.nbytes_ == 4 * sum(held)

    def test_clones_and_has_a_title_and_level(self, name, route):
        fusion = self.fitted(name, route)
        assert clone(fusion).get_params() == fusion.get_params()
        assert fusion.level in ("descriptor", "score")
        assert fusion.title
