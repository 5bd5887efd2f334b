"""The rows of a map as a faiss index, searched by faiss alone."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from interop_route import DAYS, N_PLACES, make_town

from displace.errors import InputError, MissingExtraError
from displace.interop.faiss_index import write_index
from displace.search.faiss import Faiss

faiss = pytest.importorskip("faiss", reason="the extra faiss is not installed")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("fusion", ["displace", "hops", "dmat_avg", "single"])
def test_faiss_finds_what_the_map_locates(tmp_path, fusion, dtype):
    case = make_town(fusion, dtype, calibration=False)
    index_file, places_file = write_index(case.town, tmp_path / "town.faiss")
    index = faiss.read_index(str(index_file))
    places = np.array(json.loads(places_file.read_text("utf-8"))["places"])
    scores, rows = index.search(case.town.project(case.locations.vectors), 3)
    expected = case.town.locate(case.locations.vectors, 3, search="exact")
    np.testing.assert_array_equal(places[rows], expected.places)
    np.testing.assert_allclose(scores, expected.scores, atol=2e-6)


def test_several_rows_of_a_place(tmp_path):
    case = make_town("pooling", calibration=False)
    index_file, places_file = write_index(case.town, tmp_path / "town.faiss")
    index = faiss.read_index(str(index_file))
    places = json.loads(places_file.read_text("utf-8"))["places"]
    assert len(places) == index.ntotal == N_PLACES * len(DAYS)
    scores, rows = index.search(case.town.project(case.locations.vectors), 1)
    expected = case.town.locate(case.locations.vectors, 1, search="exact")
    assert [places[row] for row in rows[:, 0]] == expected.places[:, 0].tolist()
    np.testing.assert_allclose(scores, expected.scores, atol=2e-6)


def test_a_full_disk_leaves_the_old_files(tmp_path, monkeypatch):
    town = make_town("hops", calibration=False).town
    write_index(town, tmp_path / "a.faiss")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(*_):
        raise RuntimeError("Error in write_index\nwrite error: No space left on device")

    monkeypatch.setattr(Faiss, "save", fail)
    with pytest.raises(InputError, match="No space left on device"):
        write_index(town, tmp_path / "a.faiss")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_without_faiss_the_extra_is_named(tmp_path, monkeypatch):
    town = make_town("hops", calibration=False).town
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'displace\[faiss\]'"):
        write_index(town, tmp_path / "a.faiss")
