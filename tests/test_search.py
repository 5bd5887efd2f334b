from __future__ import annotations

import numpy as np
import pytest

from displace.errors import FormatError, InputError, UnknownNameError
from displace.files import tensors
from displace.search._top import RunningTop, best_rows, widened
from displace.search.base import as_rows, noisy_sample
from displace.search.exact import FORMAT, VERSION, Exact, is_mapped, to_int8


def unit_rows(n, dim, seed=0):
    rows = np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_float16_is_widened_to_the_same_numbers():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)][:, None]
    np.testing.assert_array_equal(
        widened(finite, np.empty(finite.shape, np.float32)), finite.astype(np.float32)
    )


def test_best_rows_of_many_blocks_are_those_of_one(monkeypatch):
    rows, queries = unit_rows(500, 8), unit_rows(7, 8, seed=1)
    whole = best_rows(queries, rows, 6)
    monkeypatch.setattr("displace.search._top.BLOCK", 8 * 33)
    monkeypatch.setattr("displace.search._top.QUERIES_AT_ONCE", 3)
    parts = best_rows(queries, rows, 6)
    np.testing.assert_array_equal(parts[0], whole[0])
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-6)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("among", [None, np.arange(1, 90, 2)])
def test_best_rows_are_those_of_the_product_however_rows_lie_in_memory(monkeypatch, order, among):
    rows, queries = np.array(unit_rows(90, 8), order=order), unit_rows(5, 8, seed=1)
    scales = np.linspace(0.5, 2, 90, dtype=np.float32)
    monkeypatch.setattr("displace.search._top.BLOCK", 8 * 20)
    found, scores = best_rows(queries, rows, 4, among, scales)
    chosen = np.arange(90) if among is None else among
    products = (queries.astype(np.float64) @ rows[chosen].T) * scales[chosen]
    best = np.argsort(-products, axis=1)[:, :4]
    np.testing.assert_array_equal(found, chosen[best])
    np.testing.assert_allclose(scores, np.take_along_axis(products, best, axis=1), rtol=1e-5)


def test_equal_scores_keep_the_order_of_rows():
    top = RunningTop(1, 3)
    top.take(np.array([[0.5, 0.5]], np.float32), np.array([0, 1]))
    top.take(np.array([[0.5, 0.9, 0.5]], np.float32), np.array([2, 3, 4]))
    assert top.result()[0].tolist() == [[3, 0, 1]]


def test_no_queries_give_no_rows():
    found, scores = best_rows(np.empty((0, 4), np.float32), unit_rows(9, 4), 3)
    assert found.shape == scores.shape == (0, 3)


def test_memory_mapped_rows_stay_on_disk(tmp_path, monkeypatch):
    rows = unit_rows(60, 8)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    monkeypatch.setattr("displace.search.exact.MAPPED_ABOVE", 0)
    index = Exact.build(mapped)
    assert index.transposed is None
    assert is_mapped(index.codes)
    np.testing.assert_array_equal(index.search(rows[:4], 3)[0], Exact.build(rows).search(rows[:4], 3)[0])


def test_int8_compares_the_best_rows_again_in_their_own_precision():
    rows = unit_rows(400, 16)
    index = Exact.build(rows, "int8")
    queries = noisy_sample(rows, 20)
    found, scores = index.search(queries, 5)
    expected, exact = best_rows(queries, rows, 5)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(scores, exact, atol=1e-6)


def test_int8_takes_the_nearest_code():
    rows = unit_rows(40, 33)
    codes, scales = to_int8(rows)
    assert np.abs(codes).max(axis=1).tolist() == [127] * 40
    assert (np.abs(codes * scales[:, None] - rows) / scales[:, None]).max() <= 0.5 + 1e-4
    np.testing.assert_array_equal(to_int8(np.zeros((2, 3), np.float32))[0], 0)


def test_int8_without_the_rows_answers_from_its_codes():
    whole = Exact.build(unit_rows(200, 16), "int8")
    bare = Exact("int8", whole.codes, whole.scales)
    queries = unit_rows(5, 16, seed=2)
    np.testing.assert_allclose(bare.search(queries, 1)[1], whole.search(queries, 1)[1], atol=0.02)


def test_an_unknown_kind_is_refused_with_those_there_are():
    with pytest.raises(
        UnknownNameError, match=r"kind of exact index 'float8'.*Known: float32, float16, int8"
    ):
        Exact.build(unit_rows(3, 4), "float8")


def test_row_numbers_outside_are_refused():
    with pytest.raises(InputError, match="row numbers from 0 to 2"):
        as_rows(np.array([3]), 3)


def test_queries_of_another_size_are_refused():
    with pytest.raises(InputError, match=r"\(q, 4\)"):
        Exact.build(unit_rows(3, 4)).search(np.zeros((1, 5), np.float32), 1)


def test_a_file_that_is_no_index_is_refused(tmp_path):
    (tmp_path / "rows").write_bytes(b"nothing of the sort")
    with pytest.raises(FormatError):
        Exact.open(tmp_path / "rows")


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        ({"kind": None}, {}),
        ({"kind": ["int8"]}, {}),
        ({"kind": "float32"}, {}),
        ({}, {"codes": np.zeros(5, np.int8)}),
        ({}, {"scales": None}),
        ({}, {"scales": np.ones(4, np.float32)}),
        ({}, {"rows": unit_rows(5, 3)}),
    ],
)
def test_a_file_whose_parts_do_not_fit_together_is_refused(tmp_path, header, arrays):
    """Searching ended in an IndexError, or gave scores without their scale."""
    Exact.build(unit_rows(5, 4), "int8").save(tmp_path / "rows")
    known, kept = tensors.read(tmp_path / "rows", FORMAT, VERSION)
    kept = {name: np.array(array) for name, array in kept.items()} | arrays
    tensors.write(tmp_path / "rows", {**known, **header}, {n: a for n, a in kept.items() if a is not None})
    with pytest.raises(FormatError, match="rows is damaged"):
        Exact.open(tmp_path / "rows")


@pytest.mark.parametrize("scale", [None, "1", [1.0]])
def test_faiss_refuses_rows_without_a_scale(tmp_path, scale):
    pytest.importorskip("faiss")
    from displace.search.faiss import Faiss

    Faiss.build(unit_rows(5, 4), "int8").save(tmp_path / "index")
    header = {"format": FORMAT, "version": VERSION, "scale": scale}
    tensors.write(tmp_path / "index-rows", header, {"rows": unit_rows(5, 4)})
    with pytest.raises(FormatError, match="index-rows is damaged"):
        Faiss.open(tmp_path / "index")


def test_faiss_refuses_the_rows_of_another_index(tmp_path):
    """As after a save that died between the two files: the best were compared again by other rows."""
    pytest.importorskip("faiss")
    from displace.search.faiss import Faiss

    for n in (5, 4):
        Faiss.build(unit_rows(n, 4), "int8").save(tmp_path / str(n))
    (tmp_path / "4-rows").replace(tmp_path / "5-rows")
    with pytest.raises(FormatError, match="not those of the index"):
        Faiss.open(tmp_path / "5")


def test_many_rows_in_blocks_give_the_same_as_all_at_once(monkeypatch):
    rows = unit_rows(500, 16)
    index, queries = Exact.build(rows, "float32"), noisy_sample(rows, 9)
    at_once = index.search(queries, 7)
    monkeypatch.setattr("displace.search.exact.LONG", 100)
    in_blocks = index.search(queries, 7)
    np.testing.assert_array_equal(in_blocks[0], at_once[0])
    np.testing.assert_allclose(in_blocks[1], at_once[1], atol=1e-6)
