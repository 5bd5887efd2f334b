"""faiss: the rows of a map as an index that faiss reads in any language, with the place of each row."""

from __future__ import annotations

import json
from pathlib import Path

from displace.errors import FormatError, InputError
from displace.files.outputs import PathLike, output_file, read_text, write_text
from displace.files.reading import file_sha256
from displace.interop.base import Exporter
from displace.maps import PlaceMap
from displace.search.faiss import Faiss


def write_index(place_map: PlaceMap, path: PathLike) -> list[Path]:
    """Write the rows of a map as a faiss index (inner product), and the place of each row as JSON.

    Queries must be projected as the map does before they are searched for: `onnx.write_projection` writes that step. A
    place may have several rows (pooling): its score is the best of them.

    Parameters
    ----------
    place_map : PlaceMap
    path : path-like
        The index, by custom ``*.faiss``; ``*.faiss.places.json`` beside it has the places.

    Returns
    -------
    list of Path
        Both files.
    """
    index = Faiss.build(place_map.rows())
    with output_file(path) as temporary:
        try:
            index.save(temporary)
        except RuntimeError as error:  # so does faiss say that a disk is full
            raise InputError(f"cannot write {path}: {str(error).splitlines()[-1]}") from error
        digest = file_sha256(temporary)
    record = {"index_sha256": digest, "places": place_map.place_ids[place_map.row_places].tolist()}
    beside = places_file(path)
    write_text(beside, json.dumps(record, ensure_ascii=False) + "\n")
    return [Path(path), beside]


def read_index(path: PathLike) -> tuple[Faiss, list[str] | list[int]]:
    """Read an index and the place of each of its rows.

    >>> index, places = read_index("town.faiss")                                       # doctest: +SKIP
    >>> rows, scores = index.search(place_map.project(queries), k=5)                        # doctest: +SKIP
    >>> best = [places[row] for row in rows[:, 0]]                                     # doctest: +SKIP
    """
    path, beside = Path(path), places_file(path)
    try:
        record = json.loads(read_text(beside, "a file of places"))
        places, expected = list(record["places"]), record["index_sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{beside} is not a file of places, or is damaged ({error!r})") from None
    try:
        if file_sha256(path) != expected:
            raise FormatError(
                f"{beside} belongs to another index than {path}, or one is damaged: export both again"
            )
        return Faiss.open(path), places
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from None


def places_file(path: PathLike) -> Path:
    """Where the places of an index's rows are."""
    path = Path(path)
    return path.with_name(path.name + ".places.json")


class FaissIndex(Exporter):
    """faiss index of a map's rows, with the place of each row as JSON."""

    suffix = ".faiss"
    write_map = staticmethod(write_index)
