"""faiss: the rows of a map as an index that faiss reads in any language, with the place of each row."""

from __future__ import annotations

import json
from pathlib import Path

from displace.errors import InputError
from displace.files.outputs import output_file, write_text
from displace.files.reading import PathLike, file_sha256
from displace.interop.base import Exporter
from displace.maps import PlaceMap
from displace.search.faiss import Faiss


def write_index(place_map: PlaceMap, path: PathLike) -> list[Path]:
    """Write the rows of a map as a faiss index (inner product), and the place of each row as JSON.

    The index is by custom ``*.faiss``; the places are beside it, ``*.faiss.places.json``. Queries must be projected as
    in the map before they are searched: `onnx.write_projection` exports that step. If a place has several rows
    (pooling), its score is the best of theirs.
    """
    index = Faiss.build(place_map.rows())
    with output_file(path) as temporary:
        try:
            index.save(temporary)
        except RuntimeError as error:  # what faiss raises when the disk is full
            raise InputError(f"cannot write {path}: {str(error).splitlines()[-1]}") from error
        digest = file_sha256(temporary)
    record = {"index_sha256": digest, "places": place_map.place_ids[place_map.row_places].tolist()}
    beside = Path(f"{path}.places.json")
    write_text(beside, json.dumps(record, ensure_ascii=False) + "\n")
    return [Path(path), beside]


class FaissIndex(Exporter):
    """faiss index of a map's rows, with the place of each row as JSON."""

    write_map = staticmethod(write_index)
