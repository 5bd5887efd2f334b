"""Exchange with other programs, one file each; `EXPORTERS` finds what can be written for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from displace.errors import InputError, PluginError
from displace.files.reading import PathLike
from displace.registry import Registry

if TYPE_CHECKING:
    from displace.interop.base import Exporter

EXPORTERS: Registry[Exporter] = Registry(
    "export",
    "displace.interop",
    "Exporter",
    files={"csv": "csv_table", "faiss": "faiss_index", "vme": "vpr_methods_evaluation"},
)


def export(name: str, source: object, output: PathLike, **options: Any) -> list[Path]:
    """Write a map, located images or a descriptor store for another program.

    Parameters
    ----------
    name : str
        A name of `EXPORTERS`.
    source : PlaceMap, Located or DescriptorStore
    output : path-like
        File or folder to write.
    **options
        As the exporter has them; ``EXPORTERS.get(name).options(source)`` lists them.

    Returns
    -------
    list of Path
        The files written.

    Examples
    --------
    >>> export("onnx", place_map, "town.onnx")                                                 # doctest: +SKIP
    >>> export("geojson", Located.of(place_map, store.queries("night")), "night.geojson")      # doctest: +SKIP
    """
    exporter = EXPORTERS.get(name)
    writer, label = exporter.writer(source)
    known = exporter.options(source)
    for option in options:
        if option not in known:
            raise InputError(
                f"export {name} of {label} has no option {option!r}; it has: {', '.join(known) or 'none'}"
            )
    if missing := [option for option, needed in known.items() if needed and option not in options]:
        raise InputError(f"export {name} of {label} needs the option {missing[0]!r}")
    written = writer(source, output, **options)
    if not isinstance(written, list):
        raise PluginError(
            f"export {name} of {label} returned {written!r}, and must return the list of the files that it wrote"
        )
    return written
