"""The verbs that make and use maps, as functions. Defaults live here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from displace.advise import Advice
from displace.advise import advise as advise_on
from displace.descriptors.extraction import Progress
from displace.descriptors.store import DescriptorStore, is_store
from displace.errors import InputError
from displace.files.lock import exclusive
from displace.fusion.base import Fusion
from displace.geo import Positions
from displace.interop import export as export_as
from displace.manifest.place_assignment import KnownPlaces
from displace.maps import PlaceMap, Update
from displace.maps import build as build_map
from displace.pipeline.locating import check_output, locate_store, part
from displace.pipeline.recordings import MAP_ENDING
from displace.references import ReferenceSet

PathLike = str | os.PathLike[str]


def build(
    store: PathLike,
    output: PathLike | None = None,
    *,
    fusion: str = "displace",
    traversals: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    dtype: str = "float16",
    calibration: bool = True,
    tolerance: float | None = None,
    keep_references: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PlaceMap:
    """Build a map from a descriptor store and save it.

    Parameters
    ----------
    store : path-like
        A folder made by `extract`.
    output : path-like, optional
        The map; by default the store's name with ``.displace``.
    fusion : str
        "displace", "hops", "pooling", "single" or "dmat_avg"; "auto" takes what `advise` recommends.
    traversals, exclude : sequences of str
        Which traversals to use, all by default, and which to leave out.
    dtype, calibration, tolerance, keep_references
        See `displace.build`.
    overwrite : bool
        Replace `output` where it exists.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    output = Path(store).with_suffix(MAP_ENDING) if output is None else Path(output)
    _check_map_output(output, overwrite)
    with exclusive(output):
        described = DescriptorStore(store)
        refs = described.references(traversals, exclude or ())
        positions, images = _places(described, refs)
        chosen: str | Fusion = fusion
        if fusion == "auto":
            comparing = part(progress, "comparing")
            found = advise_on(refs, positions=positions, tolerance=tolerance, progress=comparing)
            chosen = found.recommended.make()
        town = build_map(
            refs,
            chosen,
            described.model,
            positions=positions,
            images=images,
            dtype=dtype,
            calibration=calibration,
            tolerance=tolerance,
            keep_references=keep_references,
            progress=part(progress, "calibrating"),
        )
        town.save(output)
    return town


def open_map(path: PathLike) -> PlaceMap:
    """Read a map, after checking all of its bytes."""
    return PlaceMap.load(path)


def update(
    map_file: PathLike,
    *,
    add: PathLike | None = None,
    traversals: Sequence[str] | None = None,
    remove: str | None = None,
    references: PathLike | None = None,
    output: PathLike | None = None,
    overwrite: bool = False,
) -> Update:
    """Add a new recording to a map, or remove a traversal, from the map's statistics alone.

    Parameters
    ----------
    map_file : path-like
        A map with its statistics beside it.
    add : path-like, optional
        Descriptor store of the new recording, assigned to the map's places.
    traversals : sequence of str, optional
        Which of its traversals to add; by default all, and none of them may be in the map already.
    remove : str, optional
        Traversal to remove.
    references : path-like, optional
        Store that holds the traversal to be removed; not needed where the map kept its references.
    output : path-like, optional
        Where to save; by default the map is replaced.
    overwrite : bool
        Replace `output` where it exists.
    """
    if (add is None) == (remove is None):
        raise InputError("give either add= or remove=, one at a time")
    target = Path(map_file if output is None else output)
    _check_map_output(target, overwrite or output is None)
    with exclusive(target):
        town = PlaceMap.load(map_file)
        done = _add(town, add, traversals) if add is not None else _remove(town, str(remove), references)
        town.save(target)
    return done


def _add(town: PlaceMap, recording: PathLike, traversals: Sequence[str] | None) -> Update:
    store = DescriptorStore(recording)
    town.check_model(store.model)
    refs = store.references(traversals)
    return town.add(refs, *_places(store, refs))


def _remove(town: PlaceMap, traversal: str, references: PathLike | None) -> Update:
    if references is None:
        return town.remove(traversal)
    store = DescriptorStore(references)
    town.check_model(store.model)
    return town.remove(store.references([traversal]))


def advise(
    store: PathLike,
    *,
    traversals: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    tolerance: float | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Compare fusions on held-out traversals of a store, and say what each traversal is worth.

    Parameters
    ----------
    store : path-like
    traversals, exclude : sequences of str
        Which traversals to use, all by default, and which to leave out.
    tolerance, progress
        See `displace.advise`.
    """
    described = DescriptorStore(store)
    refs = described.references(traversals, exclude or ())
    positions, _ = _places(described, refs)
    return advise_on(refs, positions=positions, tolerance=tolerance, progress=part(progress, "comparing"))


def export(
    source: PathLike,
    to: str,
    output: PathLike,
    *,
    queries: PathLike | None = None,
    traversal: str | None = None,
    k: int = 5,
    crs: str | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write a map, or what it finds for queries, or a store, in another program's format.

    Parameters
    ----------
    source : path-like
        A map or a descriptor store.
    to : str
        A key of `displace.interop.EXPORTERS`.
    output : path-like
        File or folder to write.
    queries : path-like, optional
        Descriptor store whose images are located in the map first.
    traversal : str, optional
        Which of its traversals; by default all of them. Of a store exported for VPR-methods-evaluation: its queries.
    k : int
        Places for each query.
    crs : str, optional
        For GeoJSON of maps in metres: what easting and northing are, such as "EPSG:32633".
    overwrite : bool
        Replace `output` where it exists.
    """
    check_output(Path(output), overwrite)
    options: dict[str, Any] = {} if crs is None else {"crs": crs}
    if is_store(source):
        if traversal is not None:
            options["queries"] = traversal
        return export_as(to, DescriptorStore(source), output, **options)
    town = PlaceMap.load(source)
    if queries is None:
        return export_as(to, town, output, **options)
    located = locate_store(town, DescriptorStore(queries), traversal, k, "auto")
    return export_as(to, located.locations, output, **options)


def _check_map_output(output: Path, overwrite: bool) -> None:
    """Refuse what cannot be written before anything is computed, and to replace a map unless asked to."""
    if output.is_dir():
        raise InputError(f"cannot write {output}: it is a folder; choose another name with -o")
    if not output.parent.is_dir():
        raise InputError(
            f"cannot write {output}: there is no folder {output.parent}; make it, or choose another name with -o"
        )
    if not os.access(output.parent, os.W_OK):
        raise InputError(
            f"cannot write {output}: {output.parent} may not be written to; choose another name with -o"
        )
    check_output(output, overwrite)


def _places(store: DescriptorStore, refs: ReferenceSet) -> tuple[Positions | None, list[str]]:
    """Position and one image of each place, in the order of ``refs.place_ids``."""
    rows = np.isin(store.places, refs.place_ids) & np.isin(store.traversals, refs.traversal_ids)
    manifest = store.manifest.select(rows)
    known = KnownPlaces.of(manifest)
    order = {place: row for row, place in enumerate(known.ids)}
    rows_of = np.array([order[place] for place in refs.place_ids.tolist()])
    first = dict(zip(reversed(manifest.places.tolist()), reversed(manifest.images), strict=True))
    images = [first[place] for place in refs.place_ids.tolist()]
    return None if known.positions is None else known.positions.take(rows_of), images
