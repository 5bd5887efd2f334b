from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from displace.arrays import BLOCK_BYTES, as_vectors, blocks, l2_normalize, ranked, top_k
from displace.errors import InputError


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 12))
def test_top_k_is_a_stable_sort_by_score(seed, n, k):
    scores = np.random.default_rng(seed).integers(0, 4, (5, n)).astype(np.float32)  # many ties
    expected = [sorted(range(n), key=lambda c: (-row[c], c))[:k] for row in scores]
    np.testing.assert_array_equal(top_k(scores, k), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("power", [-1, -0.5, 0, 0.5, 0.9])
def test_vectors_of_any_size_become_unit_vectors(dtype, power):
    vectors = np.random.default_rng(0).standard_normal((4, 300))
    # Powers of two, over the range of the type; a zero row beside the others stays zero.
    scaled = np.vstack([np.ldexp(vectors, int(power * np.finfo(dtype).maxexp)), np.zeros((1, 300))])
    expected = np.vstack([vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.zeros((1, 300))])
    unit = l2_normalize(scaled.astype(dtype))
    assert unit.dtype == dtype
    np.testing.assert_allclose(unit, expected, rtol=0, atol=0.01 if power == -1 else 1e-6)


def test_top_k_puts_minus_infinity_last():
    scores = np.array([[-np.inf, 0.5, -np.inf, 0.7]])
    np.testing.assert_array_equal(top_k(scores, 3), [[3, 1, 0]])


def test_ranked_in_blocks_equals_ranked_at_once():
    scores = np.random.default_rng(0).random((50, 9), np.float32)
    seen = []

    def scores_of(rows):
        seen.append(rows)
        return scores[rows]

    columns, values = ranked(50, 9, 3, scores_of, n_layers=BLOCK_BYTES // (4 * 9 * 7))
    assert len(seen) > 1
    np.testing.assert_array_equal(columns, top_k(scores, 3))
    np.testing.assert_array_equal(values, np.take_along_axis(scores, columns, axis=1))


def test_no_queries_rank_to_nothing():
    columns, values = ranked(0, 9, 3, lambda rows: np.empty((0, 9)))
    assert columns.shape == values.shape == (0, 3)


@given(st.integers(0, 100), st.integers(1, 50), st.integers(1, 200))
def test_blocks_cover_everything_once(n, row_bytes, budget):
    rows = [i for part in blocks(n, row_bytes, budget) for i in range(n)[part]]
    assert rows == list(range(n))


def test_l2_normalize_keeps_zero_rows():
    unit = l2_normalize(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32))
    np.testing.assert_allclose(unit, [[0.6, 0.8], [0, 0]])
    assert unit.dtype == np.float32


@pytest.mark.parametrize(
    ("dtype", "working"),
    [(np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64), (np.int16, np.float32)],
)
def test_working_precision(dtype, working):
    assert as_vectors(np.ones((2, 3), dtype)).dtype == working


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0], r"must have shape \(m, D\); got shape \(2,\)"),
        (np.ones((2, 0)), "no dimensions"),
        ([["a", "b"]], "must be numbers"),
        ([[1.0, 2.0], [1.0]], "vectors cannot be read as an array .*: rows must be of equal length"),
        ([[1.0, 2.0], [np.nan, 0.0]], "NaN or infinity, first in row 1"),
        ([[1.0, np.inf]], "NaN or infinity, first in row 0"),
        (np.ma.masked_equal([[1.0, 7.0]], 7), "vectors has masked entries: drop those rows, or fill them"),
    ],
)
def test_bad_vectors_are_named(values, message):
    with pytest.raises(InputError, match=message):
        as_vectors(values)
