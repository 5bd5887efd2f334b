"""Exchange with other programs, one file each; `EXPORTERS` lists what can be written for them."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from displace.errors import InputError, UnknownNameError
from displace.registry import unknown

Writer = Callable[..., list[Path]]


KINDS = {
    "PlaceMap": "a map",
    "Locations": "a map with queries (Locations)",
    "DescriptorStore": "a descriptor store",
}
"""Sources by the name of their class, and what messages call them."""


@dataclass(frozen=True)
class Exporter:
    """One form of export; nothing is imported before it is used.

    Parameters
    ----------
    about : str
        What is written, in a line.
    functions : mapping of str to str
        ``module:function`` for each kind of source, a key of `KINDS`.
    suffix : str
        What the output's name ends with by custom; empty for a folder.
    """

    about: str
    functions: Mapping[str, str]
    suffix: str

    def writer(self, source: str) -> Writer:
        """Import the function for a kind of source; raises InputError where there is none."""
        if source not in self.functions:
            takes = " or ".join(KINDS[kind] for kind in self.functions)
            raise InputError(f"this export takes {takes}, not {KINDS.get(source, source)} ({self.about})")
        module, _, function = self.functions[source].partition(":")
        writer: Writer = getattr(importlib.import_module(f"displace.interop.{module}"), function)
        return writer

    def options(self, source: str) -> dict[str, bool]:
        """Options of the function for a kind of source, and whether each must be given."""
        parameters = inspect.signature(self.writer(source)).parameters.values()
        return {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY}


EXPORTERS: Mapping[str, Exporter] = {
    "hloc": Exporter(
        "hloc: pairs file of located images, or HDF5 global features of a store",
        {"Locations": "hloc_pairs:write_pairs", "DescriptorStore": "hloc:write_descriptors"},
        ".txt or .h5",
    ),
    "vme": Exporter(
        "VPR-methods-evaluation: database and queries descriptors as .npy, with lists of images",
        {
            "Locations": "vpr_methods_evaluation:write_locations",
            "DescriptorStore": "vpr_methods_evaluation:write_descriptors",
        },
        "",
    ),
    "geojson": Exporter(
        "GeoJSON points: located images with confidence, or the places of a map",
        {"Locations": "geojson:write_locations", "PlaceMap": "geojson:write_places"},
        ".geojson",
    ),
    "csv": Exporter(
        "CSV table: located images with confidence, or the places of a map",
        {"Locations": "tables:write_locations", "PlaceMap": "tables:write_places"},
        ".csv",
    ),
    "faiss": Exporter(
        "faiss index of a map's rows, with the place of each row as JSON",
        {"PlaceMap": "faiss:write_index"},
        ".faiss",
    ),
    "onnx": Exporter(
        "ONNX model of what a map does to queries: normalise((q − mean)·P)",
        {"PlaceMap": "onnx:write_projection"},
        ".onnx",
    ),
}


def export(name: str, source: object, output: str | os.PathLike[str], **options: Any) -> list[Path]:
    """Write a map, located images or a descriptor store for another program.

    Parameters
    ----------
    name : str
        A key of `EXPORTERS`.
    source : PlaceMap, Locations or DescriptorStore
    output : path-like
        File or folder to write.
    **options
        As the function in question has them; ``EXPORTERS[name].options(...)`` lists them.

    Returns
    -------
    list of Path
        The files written.

    Examples
    --------
    >>> export("onnx", town, "town.onnx")                                              # doctest: +SKIP
    >>> export("geojson", Locations.of(town, store.queries("night")), "night.geojson") # doctest: +SKIP
    """
    if name not in EXPORTERS:
        raise UnknownNameError(unknown("export", name, EXPORTERS))
    exporter, kind = EXPORTERS[name], type(source).__name__
    writer, known = exporter.writer(kind), exporter.options(kind)
    for option in options:
        if option not in known:
            raise InputError(
                f"export {name} of {KINDS[kind]} has no option {option!r}; it has: {', '.join(known) or 'none'}"
            )
    if missing := [option for option, needed in known.items() if needed and option not in options]:
        raise InputError(f"export {name} of {KINDS[kind]} needs the option {missing[0]!r}")
    return writer(source, output, **options)
