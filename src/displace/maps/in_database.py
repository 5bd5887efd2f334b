"""Maps in PostgreSQL (pgvector): the rows stay in the database, the rest is read when a map is opened."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from displace.arrays import Indices, Vectors
from displace.errors import FormatError
from displace.files import tensors
from displace.maps import file
from displace.maps.state import MapState
from displace.progress import Stage
from displace.search.base import Index

if TYPE_CHECKING:
    from displace.search.pgvector import PgVector

NO_UPDATES = "a map in a database holds no statistics: update the map's file, and export it again"


@dataclass(frozen=True, eq=False)
class StateInDatabase(MapState):
    """A map whose rows are searched where they are."""

    source: PgVector | None = None
    """The table of the rows. `vectors` has their shape and dtype only."""

    def index(self, search: str) -> Index:
        """The database, unless another backend is asked for; that one fetches all rows."""
        return self._table if search in ("auto", "pgvector") else super().index(search)

    def rows(self) -> Vectors:
        """All rows, fetched."""
        return self._table.rows()

    def rows_at(self, rows: Indices) -> Vectors:
        """Some of the rows, fetched."""
        taken: Vectors = self._table.rows_at(rows.reshape(-1)).astype(np.float32)
        return taken.reshape(*rows.shape, -1)

    @property
    def at_hand(self) -> bool:
        """False: all rows would have to be fetched."""
        return False

    def in_memory(self) -> MapState:
        """The same map with its rows fetched, to be saved."""
        values = {one.name: getattr(self, one.name) for one in fields(MapState) if one.init}
        return MapState(**{**values, "vectors": self._table.rows()})

    @property
    def _table(self) -> PgVector:
        assert self.source is not None
        return self.source


def load_into(
    state: MapState,
    uri: str | os.PathLike[str],
    kind: str = "",
    progress: Stage | None = None,
) -> PgVector:
    """Load a map into a database, as a new version of the map that the address ``postgresql://…#name`` names.

    With the kind "float16" all rows are compared, with "hnsw" pgvector's approximate index is made.
    """
    from displace.search.pgvector import PgVector

    header, arrays = file.packed(state)
    for name in ("vectors", "scales"):
        arrays.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "head"
        tensors.write(path, header, arrays)
        head = path.read_bytes()
    positions = state.places.positions
    return PgVector.load(
        state.rows(),
        uri,
        kind,
        places=state.row_places,
        positions=None if positions is None else positions.take(state.row_places),
        head=head,
        progress=progress,
    )


def opened(uri: str | os.PathLike[str]) -> StateInDatabase:
    """Open the present version of a map in a database."""
    from displace.search.pgvector import PgVector

    source = PgVector.open(uri)
    head = source.head()
    if head is None:
        raise FormatError(f"{source.database.address} holds rows without a map: load it with displace export")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "head"
        path.write_bytes(head)
        header, mapped = tensors.read(path, file.FORMAT, file.VERSION)
        arrays = {name: np.array(array) for name, array in mapped.items()}
        del mapped
    # Shape and type of the rows, in the memory of one number.
    arrays["vectors"] = np.broadcast_to(np.zeros((), np.float16), (source.n_rows, source.dim))
    found: dict[str, Any] = file.unpacked(header, arrays, str(source.database.address))
    return StateInDatabase(**found, no_statistics=NO_UPDATES, source=source)
