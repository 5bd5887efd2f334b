"""Tables of pandas in the place of arrays; rows count in their order, whatever the index says."""

from __future__ import annotations

import numpy as np
import pytest

import displace
from displace.errors import InputError
from displace.synthetic import make_route
from displace.truth import WithinFrames, WithinMetres

pd = pytest.importorskip("pandas", reason="pandas is not installed")

COLUMNS = [f"d{i}" for i in range(16)]


@pytest.fixture(scope="module")
def route():
    return make_route(n_places=40, n_traversals=3, dim=16)


@pytest.fixture(scope="module")
def table(route):
    """References in an order that is not the index's."""
    frame = pd.DataFrame(route.references.vectors, columns=COLUMNS)
    frame["place"] = [f"p{place:03d}" for place in route.references.places]
    frame["traversal"] = route.references.traversals
    return frame.sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def queries(route):
    return pd.DataFrame(route.queries, columns=COLUMNS)


@pytest.fixture(scope="module")
def truth(route):
    return pd.Series([f"p{place:03d}" for place in route.truth])


@pytest.mark.parametrize("kind", ["object", "str", "string", "category"])
def test_references_are_those_of_the_arrays(table, kind):
    names = table["place"].astype(kind), table["traversal"].astype(kind)
    refs = displace.ReferenceSet(table[COLUMNS], *names)
    assert refs.places.dtype.kind == refs.traversals.dtype.kind == "U"
    np.testing.assert_array_equal(refs.vectors, table[COLUMNS].to_numpy())
    assert refs.places.tolist() == table["place"].tolist()


@pytest.mark.parametrize("fusion", ["displace", "hops", "dmat_min", "single"])
def test_fusions_take_tables(fusion, table, queries):
    parts = table[COLUMNS], table["place"], table["traversal"]
    of_tables = displace.get_fusion(fusion)().fit(*parts)
    of_arrays = displace.get_fusion(fusion)().fit(*(part.to_numpy() for part in parts))
    np.testing.assert_array_equal(of_tables.predict(queries), of_arrays.predict(queries.to_numpy()))
    with pytest.raises(ValueError, match="same order as they were in fit"):
        of_tables.predict(queries[COLUMNS[::-1]])


def test_maps_locate_tables_and_recalls_take_series(table, queries, truth):
    place_map = displace.build(displace.ReferenceSet(table[COLUMNS], table["place"], table["traversal"]))
    matches = place_map.locate(queries)
    np.testing.assert_array_equal(matches.places, place_map.locate(queries.to_numpy()).places)
    expected = displace.recall_at(matches, truth.to_numpy())
    frames, metres = pd.Series(range(40)), pd.DataFrame({"easting": range(40), "northing": 0})
    for kind in ("object", "string", "category"):
        assert displace.recall_at(matches, truth.astype(kind)) == expected
    assert displace.recall_at(matches, truth.to_frame()) == expected
    assert displace.recall_at(pd.DataFrame(matches.places), truth, ks=(1, 5)) == expected
    near = displace.recall_at(matches, WithinFrames(frames, 2, truth, frames))
    assert near == displace.recall_at(matches, WithinMetres(metres, 2, truth, metres)) != expected


@pytest.mark.parametrize("kind", ["object", "string"])
def test_a_missing_value_is_no_place(kind, table, queries, truth):
    refs = displace.ReferenceSet(table[COLUMNS], table["place"], table["traversal"])
    matches = displace.build(refs).locate(queries)
    recalls = displace.recall_at(matches, truth.astype(kind).where(truth != "p003"))
    assert recalls.n_unanswerable == 1
    missing = table["place"].astype(kind).where(table["place"] != "p003")
    row = int(np.flatnonzero(missing.isna())[0])
    with pytest.raises(InputError, match=f"places has .* in row {row}, which names nothing"):
        displace.ReferenceSet(table[COLUMNS], missing, table["traversal"])


def test_columns_that_are_no_plain_numbers_are_said_so(table):
    for vectors in (table, table[COLUMNS].astype("Float64")):
        with pytest.raises(InputError, match=r"got dtype object: leave out columns .* table.to_numpy"):
            displace.ReferenceSet(vectors, table["place"], table["traversal"])
