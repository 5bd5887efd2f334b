"""`displace export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from displace.verbs.base import Argument, Option, PathLike, check_output


def export(
    source: Annotated[PathLike, Argument("SOURCE")],
    to: str,
    output: Annotated[PathLike, Option("-o")],
    *,
    queries: Annotated[PathLike | None, Option(metavar="STORE")] = None,
    traversal: str | None = None,
    k: Annotated[int, Option("-k")] = 5,
    crs: str | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write a map, located queries or descriptors for another program.

    Parameters
    ----------
    source : path-like
        A map, or a descriptor store.
    to : str
        The form: hloc, vme, geojson, csv, faiss or onnx (see: displace list exports).
    output : path-like
        File or folder to write.
    queries : path-like, optional
        Locate these in the map, and write what is found.
    traversal : str, optional
        Which traversal of the queries; by default all. Of a store for vme: the traversal that is the queries.
    k : int
        Places for each query.
    crs : str, optional
        geojson, csv of a map in metres: what they are, such as EPSG:32633.
    overwrite : bool
        Replace the output where it exists.

    Returns
    -------
    list of Path
        The files written.

    Examples
    --------
    ::

        displace export town.displace --to onnx -o town.onnx
        displace export town.displace --to faiss -o town.faiss
        displace export town.displace --to hloc --queries night.desc -k 10 -o pairs.txt
        displace export town.displace --to geojson --queries night.desc -o night.geojson
        displace export route.desc --to hloc -o features.h5
        displace export route.desc --to vme --traversal night -o logs
    """
    from displace import interop
    from displace.descriptors.store import DescriptorStore, is_store
    from displace.maps import PlaceMap
    from displace.maps.located import Located

    check_output(output, overwrite)
    options: dict[str, Any] = {} if crs is None else {"crs": crs}
    if is_store(source):
        if traversal is not None:
            options["queries"] = traversal
        return interop.export(to, DescriptorStore(source), output, **options)
    place_map = PlaceMap.load(source)
    if queries is None:
        return interop.export(to, place_map, output, **options)
    located = Located.of_store(place_map, DescriptorStore(queries), traversal, k)
    return interop.export(to, located, output, **options)
