from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory import set_block_bytes
from naive import scatter_matrices

from displace.errors import InputError
from displace.files.disk_rows import DiskRows
from displace.files.tensors import pack_labels
from displace.fusion.solver.scatter import Scatter

seeds = st.integers(0, 2**32 - 1)


def references(seed, m=40, n=9, dim=5, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.normal(3, 1, (m, dim)).astype(dtype), rng.integers(0, n, m)


def full(within):
    return np.tril(within) + np.tril(within, -1).T


def assert_same(a: Scatter, b: Scatter, rtol=1e-10):
    np.testing.assert_array_equal(a.place_ids, b.place_ids)
    np.testing.assert_array_equal(a.counts, b.counts)
    assert_close(a.means, b.means, rtol)
    assert_close(full(a.within), full(b.within), rtol)


def assert_close(values, expected, rtol):
    """Relative to the largest entry: one near 0 is a difference of larger ones and has their rounding."""
    scale = np.abs(expected).max(initial=1e-30)
    np.testing.assert_allclose(values, expected, atol=rtol * scale, rtol=0)


@given(seeds)
def test_against_the_batch_formula(seed):
    X, y = references(seed)
    scatter = Scatter.of(X, y)
    S_W, S_B, centre = scatter_matrices(X, y)
    np.testing.assert_allclose(full(scatter.within) / len(X), S_W, atol=1e-12)
    B = scatter.between_rows()
    np.testing.assert_allclose(B.T @ B, S_B, atol=1e-12)
    np.testing.assert_allclose(scatter.mean, centre)
    assert scatter.within_trace() == pytest.approx(np.trace(S_W))
    assert scatter.sampling_ratio == pytest.approx(5 / (len(X) - len(np.unique(y))))


def test_between_in_several_blocks(monkeypatch):
    """As with means of more than a block's bytes: S_B is the sum over all blocks."""
    X, y = references(3)
    scatter = Scatter.of(X, y)
    B = scatter.between_rows()
    set_block_bytes(monkeypatch, 2 * B[0].nbytes)
    assert len(B) > 4
    np.testing.assert_allclose(full(scatter.between()), B.T @ B, atol=1e-12)


@given(seeds, st.integers(0, 40))
def test_adding_in_two_steps_equals_the_batch(seed, cut):
    X, y = references(seed)
    assert_same(Scatter.of(X[:cut], y[:cut]).add(X[cut:], y[cut:]), Scatter.of(X, y))


@given(seeds, st.integers(1, 40))
def test_removing_undoes_adding(seed, cut):
    X, y = references(seed)
    assert_same(Scatter.of(X, y).remove(X[cut:], y[cut:]), Scatter.of(X[:cut], y[:cut]), rtol=1e-9)


@given(seeds, st.integers(0, 40))
def test_merging_equals_the_batch_for_shared_and_for_disjoint_places(seed, cut):
    X, y = references(seed)
    assert_same(Scatter.of(X[:cut], y[:cut]).merge(Scatter.of(X[cut:], y[cut:])), Scatter.of(X, y))
    low = y < 4
    assert_same(Scatter.of(X[low], y[low]).merge(Scatter.of(X[~low], y[~low])), Scatter.of(X, y))


@given(seeds)
def test_order_of_references_does_not_matter(seed):
    X, y = references(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    assert_same(Scatter.of(X[order], y[order]), Scatter.of(X, y))


@settings(max_examples=20)
@given(seeds)
@example(4203182926)  # means near 0
@example(1948751991)
def test_float32_is_as_accurate_as_its_input(seed):
    X, y = references(seed, m=400, n=100, dim=20, dtype=np.float32)
    single, double = Scatter.of(X, y), Scatter.of(X.astype(np.float64), y)
    assert single.within.dtype == np.float32
    assert_same(single, double, rtol=2e-6)


def test_string_places_and_a_copy_that_stays():
    scatter = Scatter.of(np.eye(3), np.array(["b", "a", "b"]))
    copy = scatter.copy()
    scatter.add(np.eye(3), np.array(["c", "a", "zebra"]))
    assert copy.place_ids.tolist() == ["a", "b"]
    assert scatter.place_ids.tolist() == ["a", "b", "c", "zebra"]
    assert scatter.counts.tolist() == [2, 2, 1, 1]


def test_updates_stay_in_place_and_blocks_do_not_matter(monkeypatch):
    X, y = references(1)
    whole = Scatter.of(X, y)
    monkeypatch.setattr(
        "displace.fusion.solver.scatter.blocks",
        lambda n, row_bytes: (slice(i, i + 2) for i in range(0, n, 2)),
    )
    pieces = Scatter.empty(5, np.float64)
    memory = pieces.within
    pieces.add(X, y)
    assert np.shares_memory(memory, pieces.within)
    assert_same(pieces, whole)


def test_one_reference_a_place_has_no_within_scatter():
    scatter = Scatter.of(np.eye(3), np.arange(3))
    assert scatter.freedom == 0
    assert scatter.sampling_ratio == float("inf")
    assert not scatter.within.any()


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (["z", "z"], r"places that are not there: \['z'\]"),
        (["b", "b"], "cannot remove 2 references of place .*b.*: it has 1"),
    ],
)
def test_removing_what_is_not_there_is_an_error_and_changes_nothing(places, message):
    scatter = Scatter.of(np.eye(2), np.array(["a", "b"]))
    before = scatter.copy()
    with pytest.raises(InputError, match=message):
        scatter.remove(np.eye(2), np.array(places))
    assert_same(scatter, before)


def test_wrong_dimensions_are_named():
    with pytest.raises(InputError, match=r"must have shape \(1, 2\)"):
        Scatter.of(np.eye(2), np.arange(2)).add(np.ones((1, 3)), np.array([0]))
    with pytest.raises(InputError, match="D=3 into statistics of D=2"):
        Scatter.of(np.eye(2), np.arange(2)).merge(Scatter.of(np.eye(3), np.arange(3)))


def test_means_on_disk_are_read_twice_for_the_scatter_between_places(monkeypatch, tmp_path):
    X, y = references(1, m=400, n=90, dtype=np.float32)
    scatter, rows_read = Scatter.of(X, y), []

    class Counted(DiskRows):
        def __getitem__(self, rows):
            part = super().__getitem__(rows)
            rows_read.append(len(part))
            return part

    expected = scatter.between()
    scatter.means = Counted(tmp_path / "means", 5, np.float32).append(scatter.means)
    set_block_bytes(monkeypatch, 200)
    assert_close(scatter.between(), expected, 1e-5)
    assert len(rows_read) > 9, "in blocks"
    assert sum(rows_read) == 2 * len(scatter.means)


def test_the_mean_square_is_that_of_every_reference_s_place():
    one = Scatter.of(np.array([[3.0, 4.0]]), np.array(["a"]))
    assert (one.mean_square(), one.within_trace(), one.mean.tolist()) == (25, 0, [3, 4])
    two = Scatter.of(np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 5.0]]), np.array(["a", "a", "b"]))
    assert two.mean_square() == pytest.approx((4 + 4 + 25) / 3)
    assert two.within_trace() == pytest.approx((1 + 1) / 3)
    none = Scatter.empty(2)
    assert (none.mean_square(), none.within_trace()) == (0, 0)


@pytest.mark.parametrize(
    "scatter", [Scatter.empty(1, ids=np.int64), Scatter.of(np.ones((1, 1)), np.array([4]))]
)
@pytest.mark.parametrize("place", [3, 5])
def test_a_place_that_is_not_there_is_named_wherever_it_would_stand(scatter, place):
    with pytest.raises(InputError, match=rf"not there: \[{place}\]"):
        scatter.remove(np.ones((1, 1)), np.array([place]))


def test_the_last_reference_of_a_place_takes_nothing_from_what_others_show():
    """Whatever rounding, or the file it was read from, has made of it since."""
    vectors, places = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]]), np.array(["a", "b", "b"])
    scatter = Scatter.of(vectors, places)
    within = np.tril(scatter.within)
    scatter.remove(np.array([[1.5, 0.0]]), np.array(["a"]))
    np.testing.assert_array_equal(np.tril(scatter.within), within)
    assert scatter.place_ids.tolist() == ["b"]


def test_one_count_or_mean_out_of_bounds_is_enough():
    arrays = Scatter.of(np.eye(2, dtype=np.float32), np.arange(2)).to_arrays()
    assert Scatter.from_arrays({**arrays, "counts": np.array([1, 2**31])}).n_references == 2**31 + 1
    for counts in ([1, 2**31 + 1], [0, 1], [1, -1]):
        with pytest.raises(ValueError, match="counts of references"):
            Scatter.from_arrays({**arrays, "counts": np.array(counts)})
    for bad in (1.1e18, -1.1e18, np.nan):
        with pytest.raises(ValueError, match="means that are no numbers, or too large"):
            Scatter.from_arrays({**arrays, "means": np.array([[0, 0], [0, bad]], np.float32)})
    large = Scatter.from_arrays({**arrays, "means": np.array([[0, 0], [0, -9e17]], np.float32)})
    assert large.means[1, 1] < 0


@pytest.mark.parametrize("cut", [10, 25, 39])
def test_subtracting_undoes_merging(cut):
    """Also where a place is left without references."""
    vectors, places = references(3)
    order = np.argsort(places, kind="stable")
    vectors, places = vectors[order], places[order]
    rest = Scatter.of(vectors[:cut], places[:cut])
    whole = Scatter.of(vectors, places).subtract(Scatter.of(vectors[cut:], places[cut:]))
    assert_same(whole, rest, rtol=1e-9)


@pytest.mark.parametrize("take", ["remove", "subtract"])
def test_what_is_left_of_references_that_each_stand_alone_is_no_scatter(take):
    """Rounding would stay in W; two references of a place leave what they differ by."""
    vectors = np.array([[0.1, 0.7], [0.3, 0.2], [0.9, 0.4], [0.5, 0.6]])
    places = np.array(["a", "a", "a", "b"])

    def left(n):
        scatter = Scatter.of(vectors, places)
        if take == "remove":
            return scatter.remove(vectors[n:3], places[n:3])
        return scatter.subtract(Scatter.of(vectors[n:3], places[n:3]))

    assert not left(1).within.any()
    rest = vectors[:2] - vectors[:2].mean(axis=0)
    np.testing.assert_allclose(np.tril(left(2).within), np.tril(rest.T @ rest), atol=1e-12)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"means": np.zeros(3, np.float32)}, "3 places"),
        ({"means": np.zeros((2, 2), np.float32)}, "3 places"),
        ({"means": np.zeros((3, 2, 1), np.float32)}, "3 places"),
        ({"counts": np.ones((3, 1), int)}, "3 places"),
        ({"counts": np.ones(2, int)}, "3 places"),
        ({"counts": np.ones(3)}, "counts of references"),
        ({"means": np.zeros((3, 2))}, "means that are no numbers"),
        ({"within": np.zeros(4, np.float32)}, "scatter of 4 numbers for 2 dimensions"),
        ({"within": np.zeros(3)}, "values that are no numbers"),
        ({"within": np.array([0, np.nan, 0], np.float32)}, "values that are no numbers"),
        (pack_labels("place_ids", np.array([1, 3, 2])), "out of order"),
        (pack_labels("place_ids", np.array([1, 1, 2])), "out of order"),
        (pack_labels("place_ids", np.array([2, 1, 3])), "out of order"),
    ],
)
def test_statistics_that_do_not_fit_together_are_refused(others, message):
    arrays = Scatter.of(np.eye(3, 2, dtype=np.float32), np.array([1, 2, 5])).to_arrays()
    assert len(Scatter.from_arrays(arrays).place_ids) == 3
    with pytest.raises(ValueError, match=message):
        Scatter.from_arrays({**arrays, **others})


def test_statistics_of_no_place_are_none():
    one = Scatter.of(np.ones((2, 2), np.float32), np.array(["a", "a"]))
    assert_same(Scatter.from_arrays(one.to_arrays()), one)
    arrays = Scatter.empty(2).to_arrays()
    with pytest.raises(ValueError, match="0 places"):
        Scatter.from_arrays(arrays)


def test_what_is_not_there_cannot_be_subtracted():
    scatter = Scatter.of(np.eye(2), np.array(["a", "b"]))
    for places, message in ((["b", "c"], "not there"), (["b", "b"], "it has 1")):
        with pytest.raises(InputError, match=message):
            scatter.subtract(Scatter.of(np.eye(2), np.array(places)))
