"""The verbs that make and use maps, as functions. Defaults live here and nowhere else."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from displace.advise import Advice
from displace.advise import advise as advise_on
from displace.descriptors.extraction import Progress, describe
from displace.descriptors.store import DescriptorStore, is_store
from displace.errors import InputError
from displace.fusion.base import Fusion
from displace.geo import Positions
from displace.images import find_images
from displace.interop import export as export_as
from displace.interop.locations import Locations
from displace.manifest.place_assignment import KnownPlaces
from displace.manifest.table import Manifest
from displace.models import get_model
from displace.pipeline.recordings import MAP_ENDING
from displace.place_map import PlaceMap, Update
from displace.place_map import build as build_map
from displace.references import ReferenceSet
from displace.video import extract_frames, is_video

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
    _check_output(output, overwrite)
    described = DescriptorStore(store)
    refs = described.references(traversals, exclude or ())
    positions, images = _places(described, refs)
    chosen: str | Fusion = fusion
    if fusion == "auto":
        found = advise_on(
            refs, positions=positions, tolerance=tolerance, progress=_part(progress, "comparing")
        )
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
        progress=_part(progress, "calibrating"),
    )
    town.save(output)
    return town


def open_map(path: PathLike) -> PlaceMap:
    """Read a map, after checking all of its bytes."""
    return PlaceMap.load(path)


@dataclass(frozen=True)
class Located:
    """What `locate` found.

    Parameters
    ----------
    locations : Locations
        The images that could be read, with their matches.
    skipped : dict of str to str
        Images that could not be read, and why.
    """

    locations: Locations
    skipped: dict[str, str]


def locate(
    map_file: PathLike,
    sources: Sequence[PathLike],
    output: PathLike | None = None,
    *,
    k: int = 5,
    min_confidence: float = 0.0,
    traversal: str | None = None,
    search: str = "auto",
    every: str = "1",
    weights: PathLike | None = None,
    device: str = "auto",
    image_size: str | None = None,
    crop: str | None = None,
    mask: PathLike | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Located:
    """Find the places of images.

    Parameters
    ----------
    map_file : path-like
        A map made by `build`.
    sources : sequence of path-like
        Image files, folders of images or videos; or one descriptor store.
    output : path-like, optional
        CSV file to write, a row for each image; ``.geojson`` for points.
    k : int
        Places for each image.
    min_confidence : float
        Below this probability an image counts as not in the map.
    traversal : str, optional
        For a store: which of its traversals; by default all of them.
    search : str
        See `displace.PlaceMap.locate`.
    every : str
        Videos: every n-th frame ("5") or one each so many seconds ("0.5s").
    weights, device, image_size, crop, mask
        See `displace.models.get_model`; as the map's references were described.
    overwrite : bool
        Replace `output` where it exists.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    if output is not None:
        _check_output(Path(output), overwrite)
    town = PlaceMap.load(map_file)
    options = {"weights": weights, "device": device, "image_size": image_size, "crop": crop, "mask": mask}
    if len(sources) == 1 and is_store(sources[0]):
        located = _locate_store(town, DescriptorStore(sources[0]), traversal, k, search)
    else:
        with _images_of(sources, every, progress) as paths:
            located = _locate_images(town, paths, k, search, options, progress)
    located.locations.accepted(min_confidence)  # says what is wrong with it before anything is written
    if output is not None:
        form = "geojson" if Path(output).suffix.lower() in (".geojson", ".json") else "csv"
        export_as(form, located.locations, output, min_confidence=min_confidence)
    return located


def update(
    map_file: PathLike,
    *,
    add: PathLike | None = None,
    remove: str | None = None,
    references: PathLike | None = None,
    output: PathLike | None = None,
) -> Update:
    """Add a new recording to a map, or remove a traversal, from the map's statistics alone.

    Parameters
    ----------
    map_file : path-like
        A map with its statistics beside it.
    add : path-like, optional
        Descriptor store of the new recording, assigned to the map's places.
    remove : str, optional
        Traversal to remove.
    references : path-like, optional
        Store that holds the traversal to be removed; not needed where the map kept its references.
    output : path-like, optional
        Where to save; by default the map is replaced.
    """
    if (add is None) == (remove is None):
        raise InputError("give either add= or remove=, one at a time")
    town = PlaceMap.load(map_file)
    if add is not None:
        store = DescriptorStore(add)
        town.check_model(store.model)
        refs = store.references()
        done = town.add(refs, _places(store, refs)[0])
    elif references is not None:
        store = DescriptorStore(references)
        town.check_model(store.model)
        done = town.remove(store.references([str(remove)]))
    else:
        done = town.remove(str(remove))
    town.save(map_file if output is None else output)
    return done


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
    return advise_on(refs, positions=positions, tolerance=tolerance, progress=_part(progress, "comparing"))


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
    _check_output(Path(output), overwrite)
    options: dict[str, Any] = {} if crs is None else {"crs": crs}
    if is_store(source):
        if traversal is not None:
            options["queries"] = traversal
        return export_as(to, DescriptorStore(source), output, **options)
    town = PlaceMap.load(source)
    if queries is None:
        return export_as(to, town, output, **options)
    located = _locate_store(town, DescriptorStore(queries), traversal, k, "auto")
    return export_as(to, located.locations, output, **options)


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


def _locate_store(
    town: PlaceMap, store: DescriptorStore, traversal: str | None, k: int, search: str
) -> Located:
    town.check_model(store.model)
    if traversal is not None:
        return Located(Locations.of(town, store.queries(traversal), k, search=search), dict(store.skipped))
    vectors = store.vectors()
    matches = town.locate(vectors, k, search=search)
    return Located(Locations(town, store.manifest, matches, vectors), dict(store.skipped))


def _locate_images(
    town: PlaceMap,
    paths: list[Path],
    k: int,
    search: str,
    options: dict[str, Any],
    progress: Progress | None,
) -> Located:
    if town.model is None:
        raise InputError("the map was built from bare vectors: it knows no model to describe images with")
    model = get_model(town.model_name, **options)
    town.check_model(model.fingerprint())
    failures: dict[int, str] = {}
    vectors = describe(model, paths, failures=failures, progress=progress)
    good = [row for row in range(len(paths)) if row not in failures]
    skipped = {str(paths[row]): why for row, why in failures.items()}
    if not good:
        raise InputError(
            f"none of the {len(paths)} images could be read. First problem: {next(iter(skipped.values()))}"
        )
    names = [str(paths[row]) for row in good]
    manifest = Manifest(names, [""] * len(names), ["query"] * len(names), root=".")
    matches = town.locate(vectors[good], k, search=search)
    return Located(Locations(town, manifest, matches, vectors[good]), skipped)


@contextmanager
def _images_of(sources: Sequence[PathLike], every: str, progress: Progress | None) -> Iterator[list[Path]]:
    """All images named, in folders, or in videos; frames of videos live as long as the context."""
    with tempfile.TemporaryDirectory(prefix="displace-") as frames:
        paths: list[Path] = []
        for number, source in enumerate(map(Path, sources)):
            if not source.exists():
                raise InputError(f"no file or folder {source}")
            if source.is_dir():
                found = find_images(source)
                if not found:
                    raise InputError(f"no images in {source}")
                paths += found
            elif is_video(source):
                folder = Path(frames) / str(number) / source.name
                paths += find_images(
                    extract_frames(source, folder, every, progress=_part(progress, "frames"))
                )
            else:
                paths.append(source)
        yield paths


def _check_output(output: Path, overwrite: bool) -> None:
    if output.exists() and not overwrite:
        raise InputError(f"{output} exists; choose another name with -o, or replace it with --overwrite")


def _part(progress: Progress | None, stage: str) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(stage, done, total)
