from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file

from displace.files import memory, tensors
from displace.files.disk_rows import DiskRows


def test_rows_are_read_back_by_slices_and_numbers(tmp_path):
    values = np.arange(30, dtype=np.float32).reshape(10, 3)
    rows = DiskRows(tmp_path / "rows", 3, np.float32)
    for start in range(0, 10, 4):
        rows.append(values[start : start + 4])
    assert (len(rows), rows.shape, rows.itemsize) == (10, (10, 3), 4)
    for at in (slice(None), slice(2, 7), slice(8, 20), slice(0, 0), slice(1, 9, 2)):
        np.testing.assert_array_equal(rows[at], values[at])
    np.testing.assert_array_equal(rows[np.array([7, 0])], values[[7, 0]])
    np.testing.assert_array_equal(rows.mapped(), values)


def test_no_rows_are_an_empty_array(tmp_path):
    assert DiskRows(tmp_path / "rows", 4, np.float16).mapped().shape == (0, 4)


def test_mapped_rows_are_written_to_a_file_as_others_are(tmp_path):
    values = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
    mapped = DiskRows(tmp_path / "rows", 7, np.float32).append(values).mapped()
    header = {"format": "test", "version": 1}
    for name, array in (("mapped", mapped), ("memory", values), ("part", mapped[10:20])):
        tensors.write(tmp_path / name, header, {"a": array, "b": np.arange(3, dtype=np.int8)})
    assert (tmp_path / "mapped").read_bytes() == (tmp_path / "memory").read_bytes()
    np.testing.assert_array_equal(load_file(tmp_path / "part")["a"], values[10:20])
    np.testing.assert_array_equal(tensors.read(tmp_path / "mapped", "test", 1)[1]["a"], values)


@pytest.mark.parametrize(("limit", "expected"), [("123456\n", 123456), ("max\n", None), (None, None)])
def test_a_containers_limit_is_the_memory_there_is(tmp_path, monkeypatch, limit, expected):
    monkeypatch.setattr(memory, "CONTAINER_LIMIT", tmp_path / "none")
    machine = memory.physical_memory()
    monkeypatch.setattr(memory, "CONTAINER_LIMIT", tmp_path / "memory.max")
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    assert memory.physical_memory() == (expected or machine)
