"""What every search backend does, in every kind; the database is a real PostgreSQL."""

from __future__ import annotations

import numpy as np
import pytest
from postgres import address_of

from displace import build
from displace.errors import InputError, MissingExtraError
from displace.search import INDEXES
from displace.search._top import best_rows
from displace.search.base import Index, noisy_sample
from displace.synthetic import make_route

N, DIM = 300, 24
KINDS = [(name, kind) for name in INDEXES.names() for kind in INDEXES.get(name).kinds]


@pytest.fixture(scope="module", params=KINDS, ids=["-".join(pair) for pair in KINDS])
def backend(request):
    """A function that builds an index of one backend and kind."""
    name, kind = request.param
    uri = address_of(request, f"contract {kind}") if name == "pgvector" else ""

    def build(rows) -> Index:
        try:
            return INDEXES.get(name).build(rows, kind, uri)
        except MissingExtraError as error:
            pytest.skip(str(error))

    return build


@pytest.fixture(scope="module")
def rows():
    values = np.random.default_rng(0).standard_normal((N, DIM))
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def index(backend, rows):
    return backend(rows)


def test_the_best_rows_are_found_with_their_scores(index, rows):
    assert (index.n_rows, index.dim) == (N, DIM)
    queries = noisy_sample(rows, 40)
    found, scores = index.search(queries, 7)
    expected, _ = best_rows(queries, rows, 7)
    assert found.shape == scores.shape == (40, 7)
    assert np.mean(found[:, 0] == expected[:, 0]) >= 0.97
    np.testing.assert_allclose(scores, np.sort(scores, axis=1)[:, ::-1], atol=1e-6)
    true = np.einsum("qkd,qd->qk", rows[found], queries)
    np.testing.assert_allclose(scores, true, atol=5e-3)
    assert index.recall is not None
    assert index.recall >= 0.97


def test_one_query_finds_what_many_do(index, rows):
    queries = noisy_sample(rows, 12)
    many = index.search(queries, 5)
    for query in range(3):
        one = index.search(queries[query : query + 1], 5)
        np.testing.assert_allclose(one[1][0], many[1][query], atol=1e-4)


@pytest.mark.parametrize("n_inside", [1, 3, 150])
def test_some_rows_are_searched_exactly_however_many(index, rows, n_inside):
    queries = noisy_sample(rows, 5)
    among = np.random.default_rng(1).permutation(N)[:n_inside]
    found, scores = index.search(queries, 7, among=among)
    expected, exact = best_rows(queries, rows, 7, np.sort(among))
    assert found.shape == (5, min(7, n_inside))
    np.testing.assert_array_equal(found[:, 0], expected[:, 0])
    np.testing.assert_allclose(scores, exact, atol=5e-3)


@pytest.mark.parametrize("k", [200, N])
def test_as_many_rows_as_asked_for_are_found_each_once(index, rows, k):
    found, scores = index.search(rows[:2], k)
    assert found.shape == scores.shape == (2, k)
    assert all(sorted(set(row)) == sorted(row) for row in found.tolist())
    assert found.min() >= 0
    np.testing.assert_allclose(scores, np.einsum("qkd,qd->qk", rows[found], rows[:2]), atol=5e-3)


def test_queries_too_large_to_be_compared_are_refused(index):
    with pytest.raises(InputError, match="queries have numbers beyond"):
        index.search(np.full((1, DIM), 3e38, np.float32), 5)


def test_no_row_is_found_among_none(index, rows):
    found, scores = index.search(rows[:2], 3, among=np.empty(0, np.intp))
    assert found.shape == scores.shape == (2, 0)


def test_more_rows_than_there_are_gives_all(backend):
    found, _ = backend(np.eye(3, 8, dtype=np.float32)).search(np.eye(1, 8, dtype=np.float32) + 0.1, 9)
    assert sorted(found[0].tolist()) == [0, 1, 2]
    assert found[0, 0] == 0


def test_a_saved_index_finds_the_same(index, rows, tmp_path, request):
    uri = tmp_path / "index"
    if type(index).takes_areas:
        uri = address_of(request, f"copy {index.kind}")
    index.save(uri)
    again = type(index).open(uri)
    assert again.kind == index.kind
    queries = noisy_sample(rows, 4)
    for among in (None, np.arange(0, N, 2)):
        np.testing.assert_array_equal(again.search(queries, 3, among)[0], index.search(queries, 3, among)[0])


@pytest.mark.parametrize("n_queries", [1, 8])
def test_rows_of_equal_scores_come_in_their_order(backend, n_queries):
    """Each row stands three times, far apart; one row more than asked for scores as the last one does."""
    index = backend(np.tile(np.eye(10, DIM, dtype=np.float32), (3, 1)))
    if index.kind in ("ivf", "hnsw"):
        pytest.skip("an approximate search does not see all rows")
    queries = np.tile(np.linspace(1, 0.1, 10) @ np.eye(10, DIM), (n_queries, 1)).astype(np.float32)
    for k, expected in ((1, [0]), (2, [0, 10]), (3, [0, 10, 20]), (5, [0, 10, 20, 1, 11])):
        assert index.search(queries, k)[0].tolist() == [expected] * n_queries
    everything = [row + 10 * copy for row in range(10) for copy in range(3)]
    assert index.search(queries, 30)[0].tolist() == [everything] * n_queries
    nothing = np.zeros((n_queries, DIM), np.float32)
    assert index.search(nothing, 4)[0].tolist() == [[0, 1, 2, 3]] * n_queries


def test_of_equal_rows_the_first_are_found(backend):
    """The better half of the rows stands behind the other, of which a third is found."""
    better, other = np.eye(2, DIM, dtype=np.float32)
    index = backend(np.repeat([other, better], 15, axis=0))
    if index.kind in ("ivf", "hnsw"):
        pytest.skip("an approximate search does not see all rows")
    found, _ = index.search((better + other / 2)[None], 20)
    assert found.tolist() == [[*range(15, 30), *range(5)]]


class Foreign(Index):
    """A backend of another package, which answers as it is told to."""

    kinds = ("float32",)

    @classmethod
    def build(cls, rows, kind="", uri="", *, progress=None):
        made = cls()
        made.rows, (made.n_rows, made.dim) = np.asarray(rows, np.float32), rows.shape
        return made

    @classmethod
    def open(cls, uri):
        raise NotImplementedError

    def save(self, uri):
        raise NotImplementedError

    def search(self, queries, k, among=None):
        rows = np.arange(self.n_rows) if among is None else among
        scores = queries @ self.rows[rows].T
        best = np.argsort(-scores, axis=1)[:, :k]
        return self.answer(rows[best], np.take_along_axis(scores, best, axis=1))

    answer = staticmethod(lambda rows, scores: (rows, scores))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda rows, scores: (rows, 1 - scores), "must return inner products, the greatest first"),
        (
            lambda rows, scores: (rows[:, ::-1], scores[:, ::-1]),
            "must return inner products, the greatest first",
        ),
        (lambda rows, scores: (rows, scores * np.nan), "must return inner products, the greatest first"),
        (lambda rows, scores: (scores, rows), "must return rows as whole numbers from 0 to 29"),
        (lambda rows, scores: (rows - 1, scores), "without a filler such as -1"),
        (lambda rows, scores: (rows + 30, scores), "must return rows as whole numbers from 0 to 29"),
        (lambda rows, scores: (rows[:, :1], scores[:, :1]), r"rows of shape \(30, 1\).*must have \(30, 20\)"),
    ],
    ids=["distances", "worst first", "NaN", "swapped", "filler", "beyond", "too few"],
)
def test_what_a_backend_of_another_package_answers_is_checked(monkeypatch, answer, message):
    route = make_route(n_places=30, n_traversals=3, dim=12)
    place_map = build(route.references, "hops")
    monkeypatch.setitem(INDEXES._found, "foreign", Foreign)
    found = place_map.locate(route.queries, k=3, search="foreign")
    np.testing.assert_array_equal(found.places[:, 0], place_map.locate(route.queries, k=3).places[:, 0])
    monkeypatch.setattr(Foreign, "answer", staticmethod(answer))
    with pytest.raises(InputError, match=message):
        place_map.locate(route.queries, k=3, search="foreign")
