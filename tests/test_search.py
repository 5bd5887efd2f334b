from __future__ import annotations

import numpy as np
import pytest

from displace.errors import MissingExtraError
from displace.search import INDEXES


@pytest.fixture(params=INDEXES.names())
def backend(request):
    index = INDEXES.get(request.param)
    try:
        index(np.eye(2, dtype=np.float32))
    except MissingExtraError as error:
        pytest.skip(str(error))
    return index


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_best_rows_are_found(backend, dtype):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 24)).astype(dtype)
    queries = rng.normal(size=(17, 24)).astype(np.float32)
    found, scores = backend(rows).search(queries, 7)
    exact = queries.astype(np.float64) @ rows.astype(np.float64).T
    expected = np.argsort(-exact, axis=1)[:, :7]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(scores, np.take_along_axis(exact, expected, axis=1), rtol=1e-4)


def test_all_rows_can_be_asked_for(backend):
    found, _ = backend(np.eye(3, dtype=np.float32)).search(np.array([[3.0, 1.0, 2.0]], np.float32), 3)
    assert found.tolist() == [[0, 2, 1]]


def test_a_saved_faiss_index_finds_the_same(tmp_path):
    pytest.importorskip("faiss", reason="needs 'faiss-cpu'")
    Faiss = INDEXES.get("faiss")
    rows = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float16)
    index = Faiss(rows)
    index.save(tmp_path / "rows.faiss")
    queries = rows[:5].astype(np.float32)
    again = Faiss.load(tmp_path / "rows.faiss")
    np.testing.assert_array_equal(again.search(queries, 3)[0], index.search(queries, 3)[0])
