"""`displace export`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from displace.errors import InputError
from displace.progress import Progress, part
from displace.verbs.base import Argument, Option, PathLike, check_folder_of, check_unused, unfinished_store

if TYPE_CHECKING:
    from displace.descriptors.store import DescriptorStore
    from displace.maps import PlaceMap

PLACES = 5
"""Places per query."""


def export(
    source: Annotated[PathLike, Argument("SOURCE")],
    to: str,
    output: Annotated[PathLike | None, Option("-o")] = None,
    *,
    name: str | None = None,
    kind: str = "float16",
    queries: Annotated[PathLike | None, Option(metavar="STORE")] = None,
    traversal: str | None = None,
    k: Annotated[int | None, Option("-k")] = None,
    crs: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[Path] | list[str]:
    """Write a map, located queries or descriptors for another program.

    Parameters
    ----------
    source : path-like
        A map, or a descriptor store.
    to : str
        The format: hloc, vme, geojson, csv, faiss or onnx (see: displace list exports); or the address of a database,
        postgresql://…
    output : path-like, optional
        File or folder to write; a database needs none.
    name : str, optional
        Name of the map in a database.
    kind : str
        How a database searches: float16 (all rows) or hnsw (pgvector's approximate index).
    queries : path-like, optional
        Store of images to locate in the map; the result is written.
    traversal : str, optional
        Traversal of the queries to use; by default all. For a store and vme: the traversal that is the queries.
    k : int, optional
        Number of places per query; by default 5, and 1 in csv and geojson.
    crs : str, optional
        geojson, csv of a map in metres: their coordinate system, such as EPSG:32633.
    overwrite : bool
        Replace an existing output.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    list of Path, or of str
        The files written, or the map's address in the database.

    Examples
    --------
    ::

        displace export town.displace --to onnx -o town.onnx
        displace export town.displace --to faiss -o town.faiss
        displace export town.displace --to hloc --queries night.desc -k 10 -o pairs.txt
        displace export town.displace --to geojson --queries night.desc -o night.geojson
        displace export town.displace --to postgresql://loader@db/maps --name city --kind hnsw
        displace export route.desc --to hloc -o features.h5
        displace export route.desc --to vme --traversal night -o logs
    """
    from displace import interop
    from displace.descriptors.store import is_store
    from displace.maps import PlaceMap
    from displace.maps.located import Located
    from displace.search._database import is_address

    if k is not None and queries is None:
        raise InputError(
            f"k={k} is the number of places of each query, but no queries are located: give their store with --queries "
            "STORE, or leave -k out"
        )
    if is_address(to):
        return [_load(PlaceMap.load(source), to, name, kind, progress)]
    interop.EXPORTERS.get(to)  # a misspelt format is told as one, whatever else is missing
    if output is None:
        raise InputError(f"an export to {to} needs a file or folder to write: give one with -o")
    check_folder_of(output)
    check_unused(output, overwrite)  # some forms are folders
    _check_written_of(to, source, is_store(source), queries)
    if traversal is not None and queries is None and not is_store(source):
        raise InputError(
            f"traversal={traversal!r} is one of the queries, but a map is exported alone: give their store with "
            "--queries STORE, or leave --traversal out"
        )
    options: dict[str, Any] = {} if crs is None else {"crs": crs}
    if is_store(source):
        store = unfinished_store(source)
        return interop.export(to, store, output, **options, **_asked(to, store, queries, traversal))
    place_map = PlaceMap.load(source)
    if queries is None:
        return interop.export(to, place_map, output, **options)
    located = Located.of_store(place_map, unfinished_store(queries), traversal, PLACES if k is None else k)
    if k is not None and "places" in interop.EXPORTERS.get(to).options(located):
        options["places"] = k
    return interop.export(to, located, output, **options)


def _check_written_of(to: str, source: PathLike, of_store: bool, queries: PathLike | None) -> None:
    """Refuse a source that the format cannot write, naming the missing option."""
    from displace.interop import EXPORTERS

    form = EXPORTERS.get(to)
    if of_store and form.write_store is None:
        raise InputError(
            f"{to} exports a map, but {source} is a descriptor store: displace build {quote(str(source))} makes "
            "a map of it"
        )
    if not of_store and queries is None and form.write_map is None:
        raise InputError(
            f"{to} does not export a map alone: give a store of images to locate in it with --queries STORE"
        )
    if not of_store and queries is not None and form.write_located is None:
        raise InputError(f"{to} exports a map alone: leave --queries out")


def _asked(
    to: str, store: DescriptorStore, queries: PathLike | None, traversal: str | None
) -> dict[str, str]:
    """The option that selects the query traversal of a store, for formats that separate queries."""
    from displace.interop import EXPORTERS

    names = ", ".join(store.manifest.traversal_names())
    if queries is not None:
        raise InputError(
            f"--queries takes a store to locate in a map, but {store.folder} is itself a store: choose which of its "
            f"traversals are the queries with --traversal ({names})"
        )
    if traversal is not None:
        return {"queries": traversal}
    if EXPORTERS.get(to).options(store).get("queries"):
        raise InputError(
            f"{to} separates queries from references: choose the queries with --traversal ({names})"
        )
    return {}


def _load(place_map: PlaceMap, server: str, name: str | None, kind: str, progress: Progress | None) -> str:
    """Load a map into a database; return its address."""
    from displace.maps.in_database import load_into

    server, _, name_in_address = server.partition("#")
    if not (name or name_in_address):
        raise InputError("a map in a database needs a name: give one with --name")
    address = f"{server}#{name or name_in_address}"
    load_into(place_map.state.in_memory(), address, kind, part(progress, "loading")).database.close()
    return address
