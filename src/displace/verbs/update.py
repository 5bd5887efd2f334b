"""`displace update`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from displace.errors import InputError
from displace.verbs.base import MapPath, Option, Output, PathLike, Traversals, check_output

if TYPE_CHECKING:
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
    overwrite: bool = False,
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
        Store that holds the traversal to remove; not needed after build --keep-references.
    output : path-like, optional
        Where to save; by default the map is replaced.
    check_looks : bool
        Refuse a recording without positions that does not look like the map's places, as it shows another route.
    overwrite : bool
        Replace an existing output.

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

    if (add is None) == (remove is None):
        raise InputError("give either --add or --remove, one at a time")
    target = Path(map_file if output is None else output)
    check_output(target, overwrite or output is None)
    with exclusive(target):
        place_map = PlaceMap.load(map_file)
        if add is not None:
            _check_described(place_map, map_file, add)
            done = _add(place_map, add, traversals, check_looks)
        else:
            done = _remove(place_map, str(remove), references)
        place_map.save(target)
    return done


def _check_described(place_map: PlaceMap, map_file: PathLike, recording: PathLike) -> None:
    """Refuse a recording or a manifest, with the commands that make a store of it."""
    from displace.descriptors.store import is_store
    from displace.models import model_name

    path = Path(recording)
    if not path.exists() or is_store(path) or place_map.model is None:
        return
    town, table = quote(str(map_file)), Path("new.csv")
    steps = (
        "Assign the recording to the map's places and describe it first: displace manifest "
        f"{quote(str(path))} -o new.csv --against {town}, then"
    )
    if path.is_file() and path.suffix.lower() == ".csv":
        table, steps = path, "If it is a manifest with the map's places, describe its images first:"
    raise InputError(
        f"{recording} is not a descriptor store. {steps} displace extract {quote(str(table))} -m "
        f"{model_name(place_map.model)}, then displace update {town} --add {quote(str(table.with_suffix('.desc')))}"
    )


def _add(
    place_map: PlaceMap, recording: PathLike, traversals: Sequence[str] | None, check_looks: bool
) -> Update:
    from displace.descriptors.store import DescriptorStore

    store = DescriptorStore(recording)
    place_map.check_model(store.model)
    return place_map.add(store.references(traversals), check_looks=check_looks)


def _remove(place_map: PlaceMap, traversal: str, references: PathLike | None) -> Update:
    from displace.descriptors.store import DescriptorStore

    if references is None:
        return place_map.remove(traversal)
    if traversal not in place_map.traversals:
        return place_map.remove(traversal)  # says which there are
    store = DescriptorStore(references)
    place_map.check_model(store.model)
    return place_map.remove(store.references([traversal]))
