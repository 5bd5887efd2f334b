"""`displace update`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated, Any

from displace.errors import InputError
from displace.progress import Progress, Stage, part
from displace.verbs.base import (
    MapPath,
    Option,
    Output,
    PathLike,
    Traversals,
    check_output,
    showing,
    whole_store,
)

if TYPE_CHECKING:
    from displace.descriptors.store import DescriptorStore
    from displace.maps import PlaceMap
    from displace.maps.updating import Update


def update(
    map_file: MapPath,
    *,
    add: Annotated[PathLike | None, Option(metavar="STORE")] = None,
    traversals: Traversals = None,
    remove: Annotated[str | None, Option(metavar="TRAVERSAL")] = None,
    references: Annotated[PathLike | None, Option(metavar="STORE")] = None,
    output: Output = None,
    check_looks: bool = True,
    partial: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Update:
    """Add a new recording to a map, or remove a traversal, without the old images.

    An interrupted update leaves either the old or the new map.

    Parameters
    ----------
    map_file : path-like
        A map made by `build`, with its statistics beside it.
    add : path-like, optional
        Store of the recording to add, assigned to the map's places.
    traversals : sequence of str, optional
        Traversals of that store to add; by default all. None may be in the map already.
    remove : str, optional
        Traversal to remove.
    references : path-like, optional
        Store that holds the traversal to remove; not needed after build --keep-references. If it holds all others, too,
        photos are no longer compared with pictures of the one that was removed.
    output : path-like, optional
        Where to save; by default the map is replaced.
    check_looks : bool
        Refuse a recording without positions that does not look like the map's places, as it shows another route.
    partial : bool
        Accept a store whose extraction is unfinished.
    overwrite : bool
        Replace an existing output.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    ::

        displace manifest 2027-01-04 -o snow.csv --against town.displace
        displace extract snow.csv -m hog
        displace update town.displace --add snow.desc
        displace update town.displace --remove rain --references route.desc
    """
    from displace.files.lock import exclusive
    from displace.maps import PlaceMap
    from displace.maps.sketching import with_sketches

    if (add is None) == (remove is None):
        raise InputError("give either --add or --remove, one at a time")
    target = Path(map_file if output is None else output)
    check_output(target, overwrite or output is None)
    with exclusive(target):
        place_map = PlaceMap.load(map_file)
        if add is not None:
            _check_described(place_map, map_file, add)
            store = showing(_store(place_map, add, partial), traversals)
            done = place_map.add(store.references(traversals), check_looks=check_looks)
            sketching = part(progress, "sketching")
            place_map.state = with_sketches(place_map.state, [store], traversals, progress=sketching)
        else:
            done = _remove(place_map, str(remove), references, partial, part(progress, "sketching"))
        place_map.save(target)
    return done


def _check_described(place_map: PlaceMap, map_file: PathLike, recording: PathLike) -> None:
    """Refuse a recording or a manifest, with the commands that make a store of it."""
    from displace.descriptors.store import is_store

    path = Path(recording)
    if not path.exists() or is_store(path) or place_map.model is None:
        return
    table = Path("new.csv")
    steps = (
        "Assign the recording to the map's places and describe it first: displace manifest "
        f"{quote(str(path))} -o new.csv --against {quote(str(map_file))}, then"
    )
    if path.is_file() and path.suffix.lower() == ".csv":
        table, steps = path, "If it is a manifest with the map's places, describe its images first:"
    adding = steps_to_add(table, place_map.model, map_file)
    raise InputError(f"{recording} is not a descriptor store. {steps} {adding}")


def steps_to_add(table: Path, model: Mapping[str, Any], map_file: PathLike) -> str:
    """The commands that describe the images of a manifest by the model of a map, and add them to it."""
    from displace.models import model_name

    describe = ["displace", "extract", str(table), "-m", model_name(model)]
    add = ["displace", "update", str(map_file), "--add", str(table.with_suffix(".desc"))]
    return f"{join(describe)}, then {join(add)}"


def _remove(
    place_map: PlaceMap, traversal: str, references: PathLike | None, partial: bool, progress: Stage | None
) -> Update:
    from displace.maps.updating import STILL_SKETCHED

    if references is None or traversal not in place_map.traversals:  # an error says which there are
        return place_map.remove(traversal)
    store = _store(place_map, references, partial).showing()
    done = place_map.remove(store.references([traversal]))
    if STILL_SKETCHED in done.advice and _sketched_again(place_map, store, progress):
        done.advice.remove(STILL_SKETCHED)
    return done


def _sketched_again(place_map: PlaceMap, store: DescriptorStore, progress: Stage | None) -> bool:
    """Make the map's sketches anew from a store; return whether it holds the images of all the map's references."""
    import numpy as np

    from displace.maps.sketching import with_sketches

    names, counts = np.unique(
        store.traversals[np.isin(store.places, place_map.place_ids)], return_counts=True
    )
    held = dict(zip(names.tolist(), counts.tolist(), strict=True))
    if any(held.get(name) != n for name, n in place_map.traversals.items()):
        return False
    bare, before = place_map.changed(sketches=None).state, place_map.state.sketches
    again = with_sketches(bare, [store], list(place_map.traversals), progress=progress)
    if (
        before is None
        or again.sketches is None
        or np.any(before.packed.any(axis=1) > again.sketches.packed.any(axis=1))
    ):
        return False  # some images are gone
    place_map.state = again
    return True


def _store(place_map: PlaceMap, folder: PathLike, partial: bool) -> DescriptorStore:
    """A store of the map's model."""
    store = whole_store(folder, partial)
    place_map.check_model(store.model)
    return store
